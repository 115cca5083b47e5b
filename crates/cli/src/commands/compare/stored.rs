//! Comparison of two stored sessions or runs: unpaired, weak.

use std::path::Path;

use anyhow::bail;
use evenkeel_lab::experiment::difference;
use evenkeel_lab::experiment::document::{ArmRole, Run, SessionDocument};
use evenkeel_lab::experiment::store::{self, Seal};
use evenkeel_lab::statistics;

use super::flags::Flags;

/// One document of both: the runs of the first arm of each.
pub(super) fn compare(left: &Path, right: &Path, flags: &Flags) -> anyhow::Result<SessionDocument> {
    let (baseline, contender) = (read(left)?, read(right)?);
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
    document.differences = difference::between(&document.arms, &[]);
    document.analysis = Some(statistics::analyse_unpaired(&document));
    Ok(document)
}

fn read(path: &Path) -> anyhow::Result<SessionDocument> {
    let stored = store::read_session(path)?;
    let mut document = stored.document;
    if stored.seal == Seal::Altered {
        document.title = format!("[ALTERED RECORD] {}", document.title);
        super::say(&format!(
            "warning: {} was changed after it was written: its checksum does not agree",
            path.display()
        ));
    }
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
    Ok(document)
}
