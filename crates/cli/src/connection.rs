//! The options that name a server, with the letters they have in `psql` and `pgbench`.
//!
//! `-h` is the host there, so the help of a command that has these options is `-?` or `--help`.

use anyhow::bail;
use evenkeel_lab::target::postgres::address::Address;

use crate::address::server_address;

/// Where the server is. What is not said comes from the environment, service and password files.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ConnectionOptions {
    /// Server: a URL, a string of keywords, or the database's name; else as psql chooses
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Database name, URL or string of keywords (as the argument without a letter)
    #[arg(short = 'd', long = "dbname", value_name = "DBNAME", conflicts_with = "url")]
    dbname: Option<String>,
    /// Server's host, or directory of its socket
    #[arg(short = 'h', long, value_name = "HOSTNAME")]
    host: Option<String>,
    /// Server's port
    #[arg(short = 'p', long, value_name = "PORT")]
    port: Option<u16>,
    /// User to connect as
    #[arg(short = 'U', long, value_name = "USERNAME")]
    username: Option<String>,
}

impl ConnectionOptions {
    /// Where to connect. A password within the address is an error unless `allow_password`.
    ///
    /// # Errors
    /// Where the parts contradict each other, or one cannot be understood.
    pub(crate) fn address(&self, allow_password: bool) -> anyhow::Result<Address> {
        server_address(&self.text()?, allow_password)
    }

    /// The connection string that the options stand for.
    fn text(&self) -> anyhow::Result<String> {
        let name = self.url.as_deref().or(self.dbname.as_deref()).unwrap_or("");
        let port = self.port.map(|port| port.to_string());
        let mut keywords: Vec<(&str, &str)> =
            [("host", &self.host), ("port", &port), ("user", &self.username)]
                .into_iter()
                .filter_map(|(key, value)| Some((key, value.as_deref()?)))
                .collect();
        if keywords.is_empty() {
            return Ok(name.to_owned());
        }
        if name.starts_with("postgres://")
            || name.starts_with("postgresql://")
            || name.contains('=')
        {
            bail!("-h, -p and -U say what the connection string says too; give one or the other");
        }
        if !name.is_empty() {
            keywords.push(("dbname", name));
        }
        let words: Vec<String> =
            keywords.iter().map(|(key, value)| format!("{key}={}", quoted(value))).collect();
        Ok(words.join(" "))
    }
}

/// A value within a string of keywords.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_port_and_user_complete_a_database_s_name_and_contradict_a_url() {
        let options = |url: Option<&str>| ConnectionOptions {
            url: url.map(str::to_owned),
            host: Some("/run/it's".to_owned()),
            port: Some(5433),
            ..ConnectionOptions::default()
        };
        assert_eq!(options(None).text().unwrap(), "host='/run/it\\'s' port='5433'");
        assert_eq!(
            options(Some("app")).text().unwrap(),
            "host='/run/it\\'s' port='5433' dbname='app'"
        );
        for url in ["postgresql:///app", "dbname=app"] {
            assert!(
                options(Some(url)).text().unwrap_err().to_string().contains("one or the other")
            );
        }
        assert_eq!(ConnectionOptions::default().text().unwrap(), "");
    }

    #[test]
    fn quotes_inside_a_value_are_escaped() {
        assert_eq!(quoted("a'b\\c"), "'a\\'b\\\\c'");
    }
}
