//! Passwords are taken out of their wrapper in one file only, the one that answers the server's
//! challenge, so that a review of that file is a review of them all.

use super::Finding;
use super::tree::{Tree, lines_without_tests};

/// Where secrets may be exposed.
const DOOR: &str = "crates/lab/src/target/postgres/password.rs";
/// Where the wrapper is defined.
const WRAPPER: &str = "crates/lab/src/secret.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.sources() {
        if path == DOOR || path == WRAPPER || path.starts_with("xtask/") || tree.is_test(path) {
            continue;
        }
        for (line, content) in lines_without_tests(text) {
            if content.contains(".expose(") {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("a secret is exposed outside {DOOR}: pass the Secret on instead"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_read_elsewhere_is_found() {
        let tree = Tree::of(&[
            (DOOR, "answer(secret.expose())\n"),
            ("crates/lab/src/report/mod.rs", "\nprint(secret.expose())\n"),
        ]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].path.as_str(), found[0].line), ("crates/lab/src/report/mod.rs", 2));
    }
}
