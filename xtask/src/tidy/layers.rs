//! Packages, and the engine's modules, use only what lies below them.

use super::Finding;
use super::tree::{Tree, is_comment, lines_without_tests};

/// A crate's folder and package, and the crates whose packages it may use.
type Layer = (&'static str, &'static str, &'static [&'static str]);

/// Which packages may use which: ARCHITECTURE.md, "Shape and direction of dependencies".
const CRATES: &[Layer] = &[
    ("distribution", "evenkeel-distribution", &[]),
    ("replacement", "evenkeel-replacement", &[]),
    ("engine", "evenkeel", &["evenkeel-replacement"]),
    ("cachesim", "evenkeel-cachesim", &["evenkeel-distribution", "evenkeel-replacement"]),
    ("sql", "evenkeel-sql", &["evenkeel", "evenkeel-replacement"]),
    (
        "lab",
        "evenkeel-lab",
        &[
            "evenkeel",
            "evenkeel-distribution",
            "evenkeel-replacement",
            "evenkeel-cachesim",
            "evenkeel-sql",
        ],
    ),
    (
        "cli",
        "evenkeel-cli",
        &["evenkeel", "evenkeel-replacement", "evenkeel-cachesim", "evenkeel-sql", "evenkeel-lab"],
    ),
    (
        "simtest",
        "evenkeel-simtest",
        &["evenkeel", "evenkeel-replacement", "evenkeel-cachesim", "evenkeel-sql", "evenkeel-lab"],
    ),
];

/// The engine's modules from the ground up: each may use those before it.
const ENGINE: &[&str] = &[
    "error",
    "limits",
    "settings",
    "sync",
    "runtime",
    "vfs",
    "page",
    "stats",
    "trace",
    "smgr",
    "wal",
    "buffer",
    "slru",
    "txn",
    "heap",
    "btree",
    "catalog",
    "vacuum",
    "checkpoint",
    "bgwriter",
    "recovery",
    "verify",
    "db",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let Some((folder, rest)) =
            path.strip_prefix("crates/").and_then(|path| path.split_once('/'))
        else {
            continue;
        };
        let Some((_, package, allowed)) = CRATES.iter().find(|(known, _, _)| *known == folder)
        else {
            if rest == "Cargo.toml" {
                findings.push(Finding::new(
                    path,
                    0,
                    "the crate has no place among the layers: give it one in tidy/layers.rs",
                ));
            }
            continue;
        };
        if rest == "Cargo.toml" {
            findings.extend(dependencies(path, text, package, allowed));
        } else if folder == "engine"
            && let Some(module) = rest.strip_prefix("src/")
        {
            findings.extend(modules(path, text, module));
        }
    }
    findings
}

/// Dependencies of a manifest, of every kind, that the layers do not allow.
fn dependencies(path: &str, text: &str, package: &str, allowed: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_dependencies = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            is_dependencies = line.contains("dependencies]");
            continue;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default().trim_matches('"');
        let is_ours = name == "evenkeel" || name.starts_with("evenkeel-") || name == "xtask";
        if is_dependencies && is_ours && !allowed.contains(&name) {
            findings.push(Finding::new(
                path,
                index + 1,
                format!("{package} lies below {name} and must not use it"),
            ));
        }
    }
    findings
}

/// Uses of engine modules that lie above the one that uses them.
fn modules(path: &str, text: &str, file: &str) -> Vec<Finding> {
    let own = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    if own == "lib" {
        return Vec::new();
    }
    let Some(own_level) = ENGINE.iter().position(|module| *module == own) else {
        return vec![Finding::new(
            path,
            0,
            format!(
                "the engine's module '{own}' has no place among the layers: see tidy/layers.rs"
            ),
        )];
    };
    let mut findings = Vec::new();
    for (line, content) in lines_without_tests(text) {
        if is_comment(content) {
            continue;
        }
        for (at, _) in content.match_indices("crate::") {
            let used: String = content[at + "crate::".len()..]
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            if let Some(level) = ENGINE.iter().position(|module| *module == used)
                && level > own_level
            {
                findings.push(Finding::new(
                    path,
                    line,
                    format!("module {own} lies below {used} and must not use it"),
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
    fn a_package_that_uses_what_lies_above_it_is_found() {
        let tree = Tree::of(&[
            ("crates/engine/Cargo.toml", "[dependencies]\nevenkeel-lab.workspace = true\n"),
            ("crates/cli/Cargo.toml", "[dependencies]\nevenkeel-lab.workspace = true\n"),
            ("crates/lab/Cargo.toml", "[dev-dependencies]\nevenkeel-cli = { path = \"../cli\" }\n"),
            ("crates/new/Cargo.toml", "[package]\nname = \"evenkeel-new\"\n"),
        ]);
        let paths: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        let expected =
            ["crates/engine/Cargo.toml", "crates/lab/Cargo.toml", "crates/new/Cargo.toml"];
        assert_eq!(paths, expected);
    }

    #[test]
    fn an_engine_module_that_uses_a_higher_one_is_found() {
        let tree = Tree::of(&[
            ("crates/engine/src/lib.rs", "use crate::db::Database;\n"),
            ("crates/engine/src/page/mod.rs", "use crate::vfs::File;\n\nuse crate::wal::Lsn;\n"),
            (
                "crates/engine/src/wal/mod.rs",
                "//! `crate::db` uses this.\nuse crate::page::Page;\n",
            ),
            ("crates/engine/src/other.rs", ""),
        ]);
        let places: Vec<(String, usize)> =
            check(&tree).into_iter().map(|finding| (finding.path, finding.line)).collect();
        assert_eq!(
            places,
            [
                ("crates/engine/src/other.rs".to_owned(), 0),
                ("crates/engine/src/page/mod.rs".to_owned(), 3),
            ]
        );
    }
}
