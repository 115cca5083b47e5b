//! A server's settings as they enter the record: all of them, except the values of those that may
//! hold a secret, and the comparison of two arms.

use std::collections::{BTreeMap, BTreeSet};

use super::client::{Client, ClientError};
use crate::experiment::document::Difference;

/// Parts of setting names whose values stay out: they hold passwords, commands, or texts that
/// people put passwords into. Extensions' settings have names with a dot and are free-form.
const HIDDEN_PARTS: [&str; 9] = [
    "conninfo",
    "passphrase",
    "password",
    "secret",
    "token",
    "_command",
    "_key",
    "krb_",
    "ident_file",
];

/// Extensions of PostgreSQL's own distribution, whose settings hold no secrets.
const KNOWN_EXTENSIONS: [&str; 4] =
    ["auto_explain.", "pg_prewarm.", "pg_stat_statements.", "plpgsql."];

/// What stands for a value that stays out.
pub const HIDDEN: &str = "(not recorded)";

/// Settings that differ between any two servers without being a difference between arms.
const OF_THE_INSTANCE: [&str; 11] = [
    "data_directory",
    "config_file",
    "hba_file",
    "ident_file",
    "external_pid_file",
    "unix_socket_directories",
    "port",
    "cluster_name",
    "application_name",
    "transaction_read_only",
    "in_hot_standby",
];

/// Settings of a server, and what it says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// As `select version()` says.
    pub version: String,
    /// Such as 150018.
    pub version_num: u32,
    /// Value with unit where it has one, by name; [`HIDDEN`] where it stays out.
    pub values: BTreeMap<String, String>,
}

impl Settings {
    /// Reads them from `pg_settings`. The session's own settings are the server's defaults, unless
    /// the address asked for others.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn read(client: &mut Client) -> Result<Self, ClientError> {
        let version = client.value("select version()")?.unwrap_or_default();
        let version_num = client.server_version();
        let rows = client.query(
            "select name, case when unit is null then setting \
             when unit ~ '^[0-9]' then setting || ' x ' || unit else setting || unit end \
             from pg_catalog.pg_settings",
        )?;
        let mut values = BTreeMap::new();
        for row in rows.iter() {
            if let (Some(name), value) = (row.value(0), row.value(1)) {
                values.insert(name.to_owned(), shown_value(name, value.unwrap_or_default()));
            }
        }
        Ok(Self { version, version_num, values })
    }

    /// All that differs between the baseline's settings and those of the arm with index `arm`. A
    /// difference is declared where either arm's declaration names the setting.
    #[must_use]
    pub fn differences(
        &self,
        other: &Self,
        arm: u32,
        declared: &BTreeSet<String>,
    ) -> Vec<Difference> {
        let names: BTreeSet<&String> = self.values.keys().chain(other.values.keys()).collect();
        let mut differences = Vec::new();
        if self.version != other.version {
            differences.push(Difference {
                arm,
                what: "server version".to_owned(),
                baseline: Some(self.version.clone()),
                other: Some(other.version.clone()),
                is_declared: declared.contains("server version"),
            });
        }
        for name in names {
            let (baseline, value) = (self.values.get(name), other.values.get(name));
            let follows_version = matches!(name.as_str(), "server_version" | "server_version_num");
            if baseline == value || follows_version || OF_THE_INSTANCE.contains(&name.as_str()) {
                continue;
            }
            differences.push(Difference {
                arm,
                what: format!("setting {name}"),
                baseline: baseline.cloned(),
                other: value.cloned(),
                is_declared: declared.contains(name),
            });
        }
        differences
    }
}

fn shown_value(name: &str, value: &str) -> String {
    let is_free_form =
        name.contains('.') && !KNOWN_EXTENSIONS.iter().any(|prefix| name.starts_with(prefix));
    let is_hidden =
        !value.is_empty() && (HIDDEN_PARTS.iter().any(|part| name.contains(part)) || is_free_form);
    if is_hidden { HIDDEN.to_owned() } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(values: &[(&str, &str)]) -> Settings {
        Settings {
            version: "PostgreSQL 15".to_owned(),
            version_num: 150_000,
            values: values
                .iter()
                .map(|(name, value)| ((*name).to_owned(), shown_value(name, value)))
                .collect(),
        }
    }

    #[test]
    fn values_that_may_hold_a_secret_stay_out() {
        for name in [
            "primary_conninfo",
            "ssl_passphrase_command",
            "archive_command",
            "restore_command",
            "ssl_key_file",
            "krb_server_keyfile",
            "my_extension.password",
            "my_extension.url",
        ] {
            assert_eq!(shown_value(name, "hunter2"), HIDDEN, "{name}");
            assert_eq!(shown_value(name, ""), "", "{name}");
        }
        assert_eq!(shown_value("shared_buffers", "16384 x 8kB"), "16384 x 8kB");
    }

    #[test]
    fn an_undeclared_difference_is_told_from_a_declared_one_and_places_do_not_count() {
        let baseline = settings(&[("a", "1"), ("b", "1"), ("port", "1"), ("old", "x")]);
        let other = settings(&[("a", "2"), ("b", "2"), ("port", "2"), ("new", "y")]);
        let declared = BTreeSet::from(["a".to_owned()]);
        let found = baseline.differences(&other, 1, &declared);
        let shown: Vec<(&str, bool)> =
            found.iter().map(|found| (found.what.as_str(), found.is_declared)).collect();
        assert_eq!(
            shown,
            [
                ("setting a", true),
                ("setting b", false),
                ("setting new", false),
                ("setting old", false)
            ]
        );
        assert_eq!(found[3].other, None);
    }
}
