//! What is not the same in two arms, and whether anybody said so.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{Arm, Difference};

/// Settings that differ between any two servers of one machine and mean nothing.
const PLACES: [&str; 12] = [
    "cluster_name",
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "log_directory",
    "log_filename",
    "port",
    "unix_socket_directories",
    "ssl_cert_file",
];

/// Settings that PostgreSQL computes from another one (guc_tables.c, ipci.c): they follow it, and
/// are declared when it is.
const DERIVED: [(&str, &str); 6] = [
    ("wal_buffers", "shared_buffers"),
    ("shared_memory_size", "shared_buffers"),
    ("shared_memory_size_in_huge_pages", "shared_buffers"),
    ("commit_timestamp_buffers", "shared_buffers"),
    ("subtransaction_buffers", "shared_buffers"),
    ("transaction_buffers", "shared_buffers"),
];

/// Settings that say how data and log are laid out on disk (guc_tables.c, preset options): two data
/// directories that differ in them do not do the same work.
const PHYSICAL: [&str; 6] = [
    "block_size",
    "data_checksums",
    "segment_size",
    "wal_block_size",
    "wal_segment_size",
    "debug_assertions",
];

/// All differences of every arm from the first.
#[must_use]
pub fn between(arms: &[Arm], allowed: &[String]) -> Vec<Difference> {
    let Some(baseline) = arms.first() else { return Vec::new() };
    let mut differences = Vec::new();
    for (index, other) in (0u32..).zip(arms).skip(1) {
        settings(index, baseline, other, allowed, &mut differences);
        // Binaries or servers of different places are what such a comparison is about.
        let has_other_place = baseline.address != other.address;
        let mut plain = |what: &str, left: Option<&String>, right: Option<&String>, is_declared| {
            if left != right {
                differences.push(Difference {
                    arm: index,
                    what: what.to_owned(),
                    baseline: left.cloned(),
                    other: right.cloned(),
                    is_declared,
                });
            }
        };
        let is_managed = baseline.kind == "managed" && other.kind == "managed";
        plain(
            if is_managed { "binaries" } else { "server" },
            Some(&baseline.address),
            Some(&other.address),
            true,
        );
        plain(
            "server version",
            baseline.server_version.as_ref(),
            other.server_version.as_ref(),
            has_other_place,
        );
        plain(
            "build options",
            baseline.build_options.as_ref(),
            other.build_options.as_ref(),
            has_other_place,
        );
        let environment = |arm: &Arm| arm.environment_names.join(" ");
        plain("environment", Some(&environment(baseline)), Some(&environment(other)), true);
        // A different major version has its own format of data; the same one must not.
        let has_same_major = baseline.server_version_num.map(|num| num / 10_000)
            == other.server_version_num.map(|num| num / 10_000);
        if has_same_major && baseline.data_hash.is_some() && other.data_hash.is_some() {
            plain("data", baseline.data_hash.as_ref(), other.data_hash.as_ref(), has_other_place);
        }
    }
    differences
}

/// Whether a setting differs only since the binaries do: no arm declares it, and nothing that an arm
/// declares leads to it.
#[must_use]
pub fn is_of_binaries(difference: &Difference, arms: &[Arm]) -> bool {
    let Some(name) = difference.what.strip_prefix("setting ") else { return false };
    let is_named = |name: &str| arms.iter().any(|arm| arm.declared_settings.contains_key(name));
    let derives = DERIVED.iter().any(|(derived, from)| *derived == name && is_named(from));
    let of = |index: usize| arms.get(index).map(|arm| &arm.address);
    let is_managed = arms.iter().all(|arm| arm.kind == "managed");
    let is_of_version = difference.baseline.is_none() || difference.other.is_none();
    let has_other_place = of(0) != of(difference.arm as usize) && (is_managed || is_of_version);
    difference.is_declared && has_other_place && !is_named(name) && !derives
}

/// What is said before the first run of settings that follow the binaries: properties of the data's
/// layout a line each, since they cost something by themselves, and how many others there are.
#[must_use]
pub fn of_binaries(differences: &[Difference], arms: &[Arm]) -> Vec<String> {
    let following: Vec<&Difference> =
        differences.iter().filter(|difference| is_of_binaries(difference, arms)).collect();
    let (physical, others): (Vec<&Difference>, Vec<&Difference>) =
        following.into_iter().partition(|difference| is_physical(difference));
    let mut lines: Vec<String> = physical
        .into_iter()
        .map(|difference| {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
            format!(
                "warning: the data are laid out differently: {} is {} in '{}' and {} in '{}', which \
                 costs something by itself",
                difference.what.trim_start_matches("setting "),
                shown(&difference.baseline),
                arms.first().map_or("?", |arm| arm.name.as_str()),
                shown(&difference.other),
                arms.get(difference.arm as usize).map_or("?", |arm| arm.name.as_str()),
            )
        })
        .collect();
    if !others.is_empty() {
        lines.push(format!(
            "{} settings differ as defaults of the binaries; the report lists them",
            others.len()
        ));
    }
    lines
}

/// Whether a setting is a property of the data's layout, fixed by initdb or the build.
#[must_use]
pub fn is_physical(difference: &Difference) -> bool {
    difference.what.strip_prefix("setting ").is_some_and(|name| PHYSICAL.contains(&name))
}

/// The undeclared ones among `differences`, a line each; empty where there is none.
#[must_use]
pub fn undeclared(differences: &[Difference], arms: &[Arm]) -> Vec<String> {
    differences
        .iter()
        .filter(|difference| !difference.is_declared)
        .map(|difference| {
            let name = |index: usize| arms.get(index).map_or("?", |arm| arm.name.as_str());
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".into());
            format!(
                "{}: {} in '{}', {} in '{}'",
                difference.what,
                shown(&difference.baseline),
                name(0),
                shown(&difference.other),
                name(difference.arm as usize),
            )
        })
        .collect()
}

fn settings(
    index: u32,
    baseline: &Arm,
    other: &Arm,
    allowed: &[String],
    differences: &mut Vec<Difference>,
) {
    let declared: BTreeSet<&str> = baseline
        .declared_settings
        .keys()
        .chain(other.declared_settings.keys())
        .chain(allowed)
        .map(String::as_str)
        .collect();
    // Data directories that we made alike with different binaries differ in what those binaries
    // have as defaults: to declare the binaries is to declare that.
    let follows_binaries =
        baseline.kind == "managed" && other.kind == "managed" && baseline.address != other.address;
    // Settings that only one version knows are part of the version, which is a row of its own.
    let has_same_version = baseline.server_version_num == other.server_version_num;
    let names: BTreeSet<&String> =
        baseline.captured_settings.keys().chain(other.captured_settings.keys()).collect();
    for name in names {
        if PLACES.contains(&name.as_str()) {
            continue;
        }
        let value = |settings: &BTreeMap<String, String>| settings.get(name).cloned();
        let (left, right) = (value(&baseline.captured_settings), value(&other.captured_settings));
        if left == right {
            continue;
        }
        let follows =
            DERIVED.iter().any(|(derived, source)| derived == name && declared.contains(source));
        let is_of_version = !has_same_version && (left.is_none() || right.is_none());
        differences.push(Difference {
            arm: index,
            what: format!("setting {name}"),
            baseline: left,
            other: right,
            is_declared: declared.contains(name.as_str())
                || follows
                || follows_binaries
                || is_of_version,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::ArmRole;
    use super::*;

    fn arm(name: &str, settings: &[(&str, &str)], declared: &[(&str, &str)]) -> Arm {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
        };
        Arm {
            name: name.to_owned(),
            role: ArmRole::Baseline,
            kind: "managed".to_owned(),
            address: "/usr/bin".to_owned(),
            server_version: Some("PostgreSQL 15.1".to_owned()),
            server_version_num: Some(150_001),
            declared_settings: map(declared),
            captured_settings: map(settings),
            environment_names: Vec::new(),
            build_options: None,
            data_hash: None,
        }
    }

    #[test]
    fn a_difference_nobody_declared_is_named_and_a_declared_one_is_not() {
        let arms = [
            arm("old", &[("fsync", "on"), ("shared_buffers", "1"), ("wal_buffers", "1")], &[]),
            arm(
                "new",
                &[("fsync", "off"), ("shared_buffers", "2"), ("wal_buffers", "3"), ("port", "9")],
                &[("shared_buffers", "2")],
            ),
        ];
        let differences = between(&arms, &[]);
        assert_eq!(differences.len(), 3);
        assert_eq!(undeclared(&differences, &arms), ["setting fsync: on in 'old', off in 'new'"]);
        assert!(undeclared(&between(&arms, &["fsync".to_owned()]), &arms).is_empty());
    }

    #[test]
    fn another_version_from_the_same_place_is_undeclared() {
        let mut arms = [arm("a", &[], &[]), arm("b", &[], &[])];
        arms[1].server_version = Some("PostgreSQL 15.2".to_owned());
        assert_eq!(undeclared(&between(&arms, &[]), &arms).len(), 1);
        arms[1].address = "/opt".to_owned();
        assert!(undeclared(&between(&arms, &[]), &arms).is_empty());
    }

    #[test]
    fn defaults_of_other_binaries_are_declared_with_them_and_still_shown() {
        let old = arm("old", &[("data_checksums", "off"), ("work_mem", "1")], &[]);
        let new = arm("new", &[("data_checksums", "on"), ("work_mem", "2")], &[("work_mem", "2")]);
        let new = Arm { address: "/other/bin".to_owned(), ..new };
        let arms = [old, new];
        let differences = between(&arms, &[]);
        assert!(undeclared(&differences, &arms).is_empty());
        let lines = of_binaries(&differences, &arms);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("warning: "), "{lines:?}");
        assert!(lines[0].contains("data_checksums is off in 'old' and on in 'new'"), "{lines:?}");
    }

    #[test]
    fn defaults_of_a_version_are_not_taken_for_what_the_user_declared() {
        let old = arm("old", &[("jit", "off"), ("work_mem", "1"), ("gone", "1")], &[]);
        let new = arm("new", &[("jit", "on"), ("work_mem", "2")], &[("work_mem", "2")]);
        let arms = [old, Arm { address: "/other/bin".to_owned(), ..new }];
        let differences = between(&arms, &[]);
        let of_binaries: Vec<&str> = differences
            .iter()
            .filter(|difference| is_of_binaries(difference, &arms))
            .map(|difference| difference.what.as_str())
            .collect();
        assert_eq!(of_binaries, ["setting gone", "setting jit"]);
    }
}
