//! Links in documents lead somewhere, and the map in ARCHITECTURE.md is the territory.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{Tree, has_extension};

/// The document that holds the map of folders: a fenced block of indented names, folders with a
/// slash behind them.
const MAP: &str = "ARCHITECTURE.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| has_extension(path, "md")) {
        findings.extend(links(tree, path, text));
    }
    match tree.text(MAP) {
        Some(text) => findings.extend(map(tree, text)),
        None => findings.push(Finding::new(MAP, 0, "there is no map of the folders")),
    }
    findings
}

/// Links of a document to files that are not there.
fn links(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            let target = target.split('#').next().unwrap_or_default();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            // Module texts are documentation of Rust, whose links rustdoc checks.
            if target.is_empty() || is_elsewhere || target.contains("::") {
                continue;
            }
            if resolve(folder, target).is_none_or(|resolved| !tree.has(&resolved)) {
                findings.push(Finding::new(
                    path,
                    index + 1,
                    format!("the link to '{target}' leads nowhere"),
                ));
            }
        }
    }
    findings
}

/// A path relative to a folder, from the root. None when it leaves the repository.
fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => folder.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Folders that the map names and that are not there, and folders that it does not name: crates, and
/// the modules in them.
fn map(tree: &Tree, text: &str) -> Vec<Finding> {
    let named = folders_of(text);
    let mut findings: Vec<Finding> = named
        .iter()
        .filter(|(folder, _)| !tree.has_folder(folder))
        .map(|(folder, line)| {
            Finding::new(MAP, *line, format!("the folder '{folder}' is on the map only"))
        })
        .collect();
    let mut seen = BTreeSet::new();
    for (path, _) in tree.files() {
        let parts: Vec<&str> = path.split('/').collect();
        let mut folders = Vec::new();
        if let ["crates", name, _, ..] = parts.as_slice() {
            folders.push(format!("crates/{name}"));
        }
        if let ["crates", name, "src", module, _, ..] = parts.as_slice() {
            folders.push(format!("crates/{name}/src/{module}"));
        }
        for folder in folders {
            if !named.iter().any(|(known, _)| *known == folder) && seen.insert(folder.clone()) {
                findings.push(Finding::new(
                    MAP,
                    0,
                    format!("the folder '{folder}' is missing on the map"),
                ));
            }
        }
    }
    findings
}

/// The folders that the fenced blocks of a document name, by their indentation, with their lines. A
/// block is a map when its first line names a folder.
fn folders_of(text: &str) -> Vec<(String, usize)> {
    let mut folders = Vec::new();
    let mut is_code = false;
    let mut is_first = false;
    let mut is_map = false;
    // The folders above the current line, with their indentation.
    let mut above: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_code = !is_code;
            is_first = is_code;
            above.clear();
            continue;
        }
        if !is_code || line.trim().is_empty() {
            continue;
        }
        let name_at = line.find(|c: char| !c.is_whitespace() && !"│├└─|`".contains(c));
        let Some(name_at) = name_at else { continue };
        let indent = line[..name_at].chars().count();
        let name = line[name_at..].split_whitespace().next().unwrap_or_default();
        if is_first {
            is_map = name.ends_with('/');
            is_first = false;
        }
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        if !is_map || !name.ends_with('/') || !is_name {
            continue;
        }
        above.retain(|(outer, _)| *outer < indent);
        let parent = above.last().map_or("", |(_, path)| path.as_str());
        let name = name.trim_end_matches('/');
        let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") };
        folders.push((path.clone(), index + 1));
        above.push((indent, path));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let text = "[a](docs/a.md) [b](docs/b.md#x) [web](https://example.org/x) [c](#below)\n\
                    ```\n[not](a/link)\n```\n[folder](docs/)\n";
        let tree = Tree::of(&[("README.md", text), ("docs/a.md", "[up](../README.md) [no](x)")]);
        let found: Vec<(String, usize)> = check(&tree)
            .into_iter()
            .filter(|finding| finding.path != MAP)
            .map(|finding| (finding.path, finding.line))
            .collect();
        assert_eq!(found, [("README.md".to_owned(), 1), ("docs/a.md".to_owned(), 1)]);
    }

    #[test]
    fn a_map_that_differs_from_the_territory_is_found() {
        let text = "```\ncrates/\n  lab/   experiments\n    src/\n      gone/  not there\n      \
                    driver/\n        mod.rs\n```\n\n```sh\ncargo xtask test\n```\n";
        let tree = Tree::of(&[
            (MAP, text),
            ("crates/lab/src/driver/mod.rs", ""),
            ("crates/lab/src/report/mod.rs", ""),
            ("crates/cli/src/main.rs", ""),
        ]);
        let texts: Vec<String> = check(&tree).into_iter().map(|finding| finding.text).collect();
        assert_eq!(
            texts,
            [
                "the folder 'crates/lab/src/gone' is on the map only",
                "the folder 'crates/cli' is missing on the map",
                "the folder 'crates/lab/src/report' is missing on the map",
            ]
        );
    }

    #[test]
    fn a_repository_without_a_map_is_found() {
        assert_eq!(check(&Tree::of(&[("README.md", "")])).len(), 1);
    }
}
