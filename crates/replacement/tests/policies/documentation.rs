//! `docs/policies.md` and the registry say the same.

use std::fmt::Write as _;

use evenkeel_replacement::registry::{PolicyDescription, Registry};

const DOCUMENT: &str = include_str!("../../../../docs/policies.md");

/// The table of a policy's parameters, as it has to stand in the document.
fn table(known: &PolicyDescription) -> String {
    let mut table =
        "| parameter | type | range | default | unit | meaning |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for parameter in known.parameters {
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} | {} | {} |",
            parameter.name,
            parameter.kind.name(),
            parameter.kind,
            parameter.default,
            parameter.unit,
            parameter.meaning
        );
    }
    table
}

fn section(name: &str) -> Option<&'static str> {
    let heading = format!("\n### `{name}`\n");
    let start = DOCUMENT.find(&heading)? + heading.len();
    let rest = DOCUMENT.get(start..)?;
    let end = ["\n### ", "\n## "].iter().filter_map(|next| rest.find(next)).min();
    rest.get(..end.unwrap_or(rest.len()))
}

#[test]
fn every_policy_is_documented_with_the_parameters_it_has() {
    for known in Registry::standard().descriptions() {
        let section = section(known.name)
            .unwrap_or_else(|| panic!("docs/policies.md has no section on {}", known.name));
        let parameters =
            if known.parameters.is_empty() { "No parameters.".to_owned() } else { table(known) };
        assert!(
            section.contains(&parameters),
            "docs/policies.md, section {}: should contain\n\n{parameters}",
            known.name
        );
        for part in ["**Source.**", "**Differences.**", "**Cost.**", "**Memory.**", "**When.**"] {
            assert!(section.contains(part), "docs/policies.md, {}: no {part}", known.name);
        }
        if !known.caution.is_empty() {
            assert!(section.contains("**Caution.**"), "{}: the caution is missing", known.name);
        }
    }
}

#[test]
fn no_policy_is_documented_that_does_not_exist() {
    for heading in DOCUMENT.lines().filter_map(|line| line.strip_prefix("### `")) {
        let name = heading.trim_end_matches('`');
        let exists = Registry::standard().descriptions().any(|known| known.name == name);
        assert!(exists || name == "optimum", "docs/policies.md documents {name}");
    }
}

#[test]
fn the_overview_names_every_policy_once() {
    let overview = DOCUMENT.split("\n## ").find(|part| part.starts_with("Overview")).unwrap();
    for known in Registry::standard().descriptions() {
        let row = format!("| [`{0}`](#{0}) |", known.name);
        assert_eq!(overview.matches(&row).count(), 1, "{row}");
    }
}
