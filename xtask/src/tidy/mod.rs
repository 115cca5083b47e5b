//! `cargo xtask tidy`: the repository's own rules, also run as a test.
//!
//! Each rule is a function from a [`Tree`] to [`Finding`]s, so that it is tested on trees of a few
//! lines. The rules are those of STYLE.md that a tool can decide:
//!
//! - [`layers`]: packages, and the engine's modules, use only what lies below them;
//! - [`size`]: a source file has at most 800 lines without its tests;
//! - [`banned`]: words, paths and calls that have no place here;
//! - [`secrets`]: passwords are read in one file only;
//! - [`docs`]: links lead somewhere, and the map in ARCHITECTURE.md is the territory.

mod banned;
mod docs;
mod layers;
mod secrets;
mod size;
mod tree;

use anyhow::bail;

use tree::Tree;

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// From the root.
    path: String,
    /// From 1; 0 where the whole file is meant.
    line: usize,
    /// What is wrong, and the remedy.
    text: String,
}

impl Finding {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Checks the repository.
pub(crate) fn run(_arguments: &[String]) -> anyhow::Result<()> {
    let tree = Tree::read(&crate::root())?;
    let findings = findings(&tree);
    for finding in &findings {
        crate::print(&finding.to_string());
    }
    match findings.len() {
        0 => {
            crate::say(&format!("tidy: {} files, nothing to say", tree.len()));
            Ok(())
        }
        count => bail!("{count} findings"),
    }
}

/// What all rules find, by place.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in [layers::check, size::check, banned::check, secrets::check, docs::check] {
        findings.extend(rule(tree));
    }
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_keeps_its_own_rules() {
        let tree = Tree::read(&crate::root()).unwrap();
        assert!(tree.len() > 50, "only {} files were read", tree.len());
        let findings = findings(&tree);
        let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(list.is_empty(), "\n{}\n", list.join("\n"));
    }
}
