//! Comparison of two stored sessions or runs: unpaired, weak.

use std::path::Path;

use anyhow::bail;
use evenkeel_lab::experiment::document::{ArmRole, Run, SessionDocument};
use evenkeel_lab::experiment::file::ExperimentFile;
use evenkeel_lab::experiment::store;
use evenkeel_lab::experiment::{conditions, difference};
use evenkeel_lab::statistics;

use crate::commands::report::altered;

use super::flags::Flags;

/// One document of both: the runs of the first arm of each.
pub(super) fn compare(left: &Path, right: &Path, flags: &Flags) -> anyhow::Result<SessionDocument> {
    refuse_what_cannot_apply(flags)?;
    let (baseline, left_altered) = read(left)?;
    let (contender, right_altered) = read(right)?;
    let conditions = conditions::between(&baseline, &contender, flags.allowed_differences());
    if conditions.is_empty()
        && flags.primary().is_none()
        && baseline.protocol.primary != contender.protocol.primary
    {
        bail!(
            "{} is decided by {} and {} by {}: say which decides with --primary",
            left.display(),
            baseline.protocol.primary,
            right.display(),
            contender.protocol.primary
        );
    }
    let mut document = baseline.clone();
    document.title = format!("{} against {} (stored)", right.display(), left.display());
    document.command = ["evenkeel", "compare"]
        .into_iter()
        .map(str::to_owned)
        .chain([left, right].map(|path| path.display().to_string()))
        .collect();
    document.incomplete = None;
    document.analysis = None;
    document.runs.clear();
    document.arms.clear();
    document.protocol.block_order.clear();
    for (index, (source, path, role)) in
        [(&baseline, left, ArmRole::Baseline), (&contender, right, ArmRole::Contender)]
            .into_iter()
            .enumerate()
    {
        let Some(arm) = source.arms.first() else {
            bail!("{}: holds no arm", path.display());
        };
        let mut arm = arm.clone();
        arm.role = role;
        document.arms.push(arm);
        let position = u32::try_from(index).unwrap_or(0);
        // Counted anew: blocks of different sessions have nothing in common but their numbers.
        let own = source.runs.iter().filter(|run| run.arm == 0 && run.incomplete.is_none());
        for (block, run) in (0u32..).zip(own) {
            let run = Run {
                block,
                index: u32::try_from(document.runs.len()).unwrap_or(u32::MAX),
                arm: position,
                position,
                ..run.clone()
            };
            document.runs.push(run);
        }
    }
    if document.arms[0].name == document.arms[1].name {
        // Reports must be able to tell them apart.
        document.arms[0].name = format!("{} (1)", document.arms[0].name);
        document.arms[1].name = format!("{} (2)", document.arms[1].name);
    }
    if let Some(primary) = flags.primary() {
        primary.clone_into(&mut document.protocol.primary);
    }
    if let Some(margin) = flags.margin() {
        if !(margin > 0.0 && margin < 1.0) {
            bail!("--margin is a ratio between 0 and 1: write 0.05 where 5% is meant");
        }
        document.protocol.margin_ratio = margin;
    }
    // What either session was lenient about by declaration, the other was not.
    document.protocol.expects_saturation =
        baseline.protocol.expects_saturation && contender.protocol.expects_saturation;
    document.protocol.is_quick = baseline.protocol.is_quick || contender.protocol.is_quick;
    document.differences = difference::between(&document.arms, flags.allowed_differences());
    for difference in &mut document.differences {
        // Which server it was is what such a comparison is about; and each session loads its tables anew,
        // into other files, under conditions that are compared themselves.
        difference.is_declared |=
            ["server version", "build options", "data"].contains(&difference.what.as_str());
    }
    document.differences.extend(conditions);
    document.analysis = Some(statistics::analyse_unpaired(&document));
    let altered_paths: Vec<String> = [(left, left_altered), (right, right_altered)]
        .into_iter()
        .filter(|(_, is_altered)| *is_altered)
        .map(|(path, _)| path.display().to_string())
        .collect();
    if !altered_paths.is_empty() {
        altered(&mut document, &altered_paths.join(" and "));
    }
    Ok(document)
}

/// A flag that says how to measure cannot apply to what was measured already, and is not passed over.
fn refuse_what_cannot_apply(flags: &Flags) -> anyhow::Result<()> {
    let given = flags.to_file()?;
    let applicable = ExperimentFile {
        out: given.out.clone(),
        primary: given.primary.clone(),
        margin: given.margin,
        allow_differences: given.allow_differences.clone(),
        ..ExperimentFile::default()
    };
    if given != applicable {
        bail!(
            "stored sessions were measured already: only --primary, --margin, --allow-difference, --out \
             and --require-verdict apply to their comparison"
        );
    }
    Ok(())
}

/// The record, and whether it was changed after it was written.
fn read(path: &Path) -> anyhow::Result<(SessionDocument, bool)> {
    let stored = store::read_session(path)?;
    let document = stored.document;
    let complete = document.runs.iter().filter(|run| run.incomplete.is_none()).count();
    if complete == 0 {
        bail!("{}: holds no complete run", path.display());
    }
    if document.arms.len() > 1 {
        super::say(&format!(
            "note: {} holds {} arms; its first, '{}', is taken",
            path.display(),
            document.arms.len(),
            document.arms[0].name
        ));
    }
    Ok((document, stored.seal == store::Seal::Altered))
}
