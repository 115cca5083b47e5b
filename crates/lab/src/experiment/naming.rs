//! What arms are called where the user has not said it: by what differs between them.
//!
//! Names are for reports and are told apart by what they say: `synchronous_commit=off` against
//! `default`, `PostgreSQL 18` against `PostgreSQL 15`, `pg-patch` against `pg-master`. Only arms that
//! do not differ are called by their keys.

use std::path::{Component, Path};

use super::plan::{ArmPlan, Place};
use crate::target::postgres::binaries::Wanted;

/// Longest name, in characters.
pub(super) const NAME_MAX: usize = 60;

/// Names the arms whose name is empty; `keys` are theirs in the file.
pub(super) fn name_arms(arms: &mut [ArmPlan], keys: &[&str]) {
    let names: Vec<String> =
        arms.iter().zip(keys).map(|(arm, key)| name_of(arm, arms, key)).collect();
    for (index, (arm, key)) in arms.iter_mut().zip(keys).enumerate() {
        if !arm.name.is_empty() {
            continue;
        }
        let Some(name) = names.get(index) else { continue };
        let is_taken =
            names.iter().enumerate().any(|(other, found)| other != index && found == name);
        arm.name = if is_taken && name != key { format!("{name} ({key})") } else { name.clone() };
    }
}

/// The title where there is none.
pub(super) fn title(arms: &[ArmPlan]) -> String {
    let name = |index: usize| arms.get(index).map_or("", |arm| arm.name.as_str());
    format!("{} against {}", name(1), name(0))
}

fn name_of(arm: &ArmPlan, arms: &[ArmPlan], key: &str) -> String {
    if !arm.name.is_empty() {
        return arm.name.clone();
    }
    let mut parts = Vec::new();
    if arms.iter().any(|other| other.place != arm.place) {
        parts.push(place(arm, arms));
    }
    for (setting, value) in &arm.settings {
        if arms.iter().any(|other| other.settings.get(setting) != Some(value)) {
            parts.push(format!("{setting}={value}"));
        }
    }
    for (variable, value) in &arm.environment {
        if arms.iter().any(|other| other.environment.get(variable) != Some(value)) {
            // Its value may be nobody's business.
            parts.push(variable.clone());
        }
    }
    if parts.is_empty() {
        let is_alone = arms.iter().all(|other| is_alike(other, arm));
        return if is_alone || key == "control" { key } else { "default" }.to_owned();
    }
    shortened(&parts.join(", "))
}

fn is_alike(one: &ArmPlan, other: &ArmPlan) -> bool {
    one.place == other.place
        && one.settings == other.settings
        && one.environment == other.environment
}

fn place(arm: &ArmPlan, arms: &[ArmPlan]) -> String {
    match &arm.place {
        Place::Managed(Wanted::Newest) => "newest PostgreSQL".to_owned(),
        Place::Managed(Wanted::Major(major)) => format!("PostgreSQL {major}"),
        Place::Managed(Wanted::Directory(path)) => {
            let others: Vec<&Path> = arms
                .iter()
                .filter_map(|other| match &other.place {
                    Place::Managed(Wanted::Directory(other)) if other != path => {
                        Some(other.as_path())
                    }
                    _ => None,
                })
                .collect();
            installation(path, &others)
        }
        Place::Url(url) => server(url),
    }
}

/// The end of a path to binaries, as long as it must be to differ from the others'.
fn installation(path: &Path, others: &[&Path]) -> String {
    fn parts(path: &Path) -> Vec<String> {
        let mut parts: Vec<String> = path
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        if parts.len() > 1 && parts.last().is_some_and(|last| last == "bin") {
            parts.pop();
        }
        parts
    }
    fn end(parts: &[String], length: usize) -> String {
        parts[parts.len().saturating_sub(length)..].join("/")
    }
    let own = parts(path);
    let others: Vec<Vec<String>> = others.iter().map(|other| parts(other)).collect();
    let says_something =
        |text: &str| text.chars().any(|c| !c.is_ascii_digit() && c != '.') && text != "bin";
    (1..=own.len())
        .map(|length| (length, end(&own, length)))
        .find(|(length, text)| {
            says_something(text) && others.iter().all(|other| end(other, *length) != *text)
        })
        .map_or_else(|| path.display().to_string(), |(_, text)| text)
}

/// A server's address without user, password and options.
fn server(url: &str) -> String {
    if let Some((_, rest)) = url.split_once("://") {
        let rest = rest.split('?').next().unwrap_or(rest);
        let rest = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        let place = rest.trim_matches('/');
        return if place.is_empty() { "local server".to_owned() } else { place.to_owned() };
    }
    if !url.contains('=') {
        return url.to_owned();
    }
    let word = |name: &str| {
        url.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let parts: Vec<&str> = ["host", "hostaddr", "port", "dbname", "service"]
        .into_iter()
        .filter_map(word)
        .filter(|value| !value.contains('\''))
        .collect();
    if parts.is_empty() { "server".to_owned() } else { parts.join(" ") }
}

fn shortened(name: &str) -> String {
    // Room for the key behind it, where two names are alike.
    const LONGEST: usize = NAME_MAX - 15;
    if name.chars().count() <= LONGEST {
        return name.to_owned();
    }
    let kept: String = name.chars().take(LONGEST - 3).collect();
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use super::super::file::ExperimentFile;
    use super::super::plan::Plan;
    use super::*;

    fn names(text: &str) -> (Vec<String>, String) {
        let file = ExperimentFile::parse(text, "x").unwrap();
        let plan = Plan::new(&file, Path::new("."), 1).unwrap();
        (plan.arms.into_iter().map(|arm| arm.name).collect(), plan.title)
    }

    #[test]
    fn arms_are_called_by_what_differs_between_them() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &["a", "b"]),
            ("[b]\nsettings = { work_mem = \"8MB\" }", &["default", "work_mem=8MB"]),
            ("[a]\nsettings = { x = 1, y = 1 }\n[b]\nsettings = { x = 1, y = 2 }", &["y=1", "y=2"]),
            ("[a]\nversion = 15\n[b]\nversion = 18", &["PostgreSQL 15", "PostgreSQL 18"]),
            (
                "[a]\nbinaries = \"/x/pg-master/bin\"\n[b]\nbinaries = \"/x/pg-patch/bin\"",
                &["pg-master", "pg-patch"],
            ),
            (
                "[a]\nbinaries = \"/opt/15/bin\"\n[b]\nbinaries = \"/usr/15/bin\"",
                &["opt/15", "usr/15"],
            ),
            (
                "[a]\nurl = \"postgres://u:secret@h/old?x=y\"\n[b]\nurl = \"host=h password=secret\"",
                &["h/old", "h"],
            ),
            (
                "[b]\nsettings = { x = 1 }\n[control]\nname = \"cheap\"",
                &["default", "x=1", "cheap"],
            ),
        ];
        for (text, expected) in cases {
            let (found, title) = names(text);
            assert_eq!(found, expected, "{text}");
            assert_eq!(title, format!("{} against {}", expected[1], expected[0]));
        }
    }

    #[test]
    fn long_and_like_names_stay_within_bounds_and_apart() {
        let long = "x".repeat(200);
        let (found, _) = names(&format!(
            "[a]\nsettings = {{ y = \"{long}1\" }}\n[b]\nsettings = {{ y = \"{long}2\" }}"
        ));
        assert_ne!(found[0], found[1]);
        assert!(found.iter().all(|name| name.chars().count() <= NAME_MAX), "{found:?}");
    }
}
