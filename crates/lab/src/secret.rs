//! Passwords: a type that cannot be shown.
//!
//! # Rules
//!
//! 1. [`Secret`] has no `Display`, no `Serialize` and no way into a format string; its `Debug`
//!    shows that something is there, never what.
//! 2. [`Secret::expose`] is called in `target/postgres/password.rs` alone, where a password becomes
//!    the answer to a server's question.

use std::fmt;

/// A password. It can be handed on and compared with nothing; see the module's rules.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes `text` into custody.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Whether the password is empty, which a server takes for no password at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The password itself (rule 2).
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_does_not_hold_the_password() {
        let secret = Secret::new("canary-7d1f");
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(format!("{:#?}", Some(secret)).find("canary"), None);
    }
}
