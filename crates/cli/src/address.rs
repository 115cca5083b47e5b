//! Servers named on the command line: the one place that hands the real environment to addresses.

use anyhow::Context as _;
use evenkeel_lab::target::postgres::address::{Address, Surroundings, operating_system_user};

/// Understands `text` as `psql` would: a URL, a string of keywords, or a database's name, completed
/// from the environment, service and password files. Warnings go to stderr.
///
/// # Errors
/// With the position and the remedy; a password in `text` is one unless `allow_password`.
#[allow(dead_code, reason = "the commands that take a server call it")]
pub(crate) fn server_address(text: &str, allow_password: bool) -> anyhow::Result<Address> {
    let user = operating_system_user();
    let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
    let (user_name, user_home) = user.unzip();
    let surroundings = Surroundings {
        environment: &|name| std::env::var(name).ok(),
        user_name,
        home_directory: home.or(user_home),
        allow_password,
    };
    let address = Address::parse(text, &surroundings).context("the server's address")?;
    for warning in address.warnings() {
        warn(warning);
    }
    Ok(address)
}

#[allow(clippy::print_stderr, reason = "warnings are for people and no part of the result")]
fn warn(text: &str) {
    eprintln!("evenkeel: warning: {text}");
}
