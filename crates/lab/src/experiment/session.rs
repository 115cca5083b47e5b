//! A session: block after block until it is settled, the record on disk after every run.
//!
//! 1. The record is written before the first run and after every run: an abort at any moment loses
//!    at most the run in progress, and that one is kept as far as it came, marked incomplete.
//! 2. Looks are taken only after the planned numbers of pairs; a settled session ends there.
//! 3. A session that is gone on with has the same seed, order and looks: those that were planned and not
//!    taken. One that has taken its last, or was settled at one, is not gone on with: its level is spent. A
//!    session that was cut off between looks has no verdict. A block that was
//!    cut off is not completed later (its runs would not belong together in time); a new one is
//!    run in its stead.
//! 4. A difference between the arms that nobody declared ends the session before its first run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::runtime::{Runtime, WallTime};

use super::design::{Design, PlannedRun};
use super::difference;
use super::document::{
    Analysis, Arm, Machine, Run, SCHEMA, ScriptUse, SessionDocument, VerdictKind,
};
use super::estimate;
use super::plan::Plan;
use super::store::{self, StoreError};

/// What is measured on: servers, or a pretence of them in tests.
pub trait Bench {
    /// Makes everything ready for the first run: servers, data, snapshots.
    ///
    /// # Errors
    /// When the environment refuses, or the user wants out.
    fn open(&mut self, observer: &mut dyn Observer) -> Result<Opened, Failure>;

    /// Runs once. A run that was cut off while measuring is returned with `incomplete` set.
    ///
    /// # Errors
    /// When nothing was measured.
    fn measure(
        &mut self,
        request: &RunRequest,
        observer: &mut dyn Observer,
    ) -> Result<Run, Failure>;

    /// Stops and removes whatever was started; the observer hears what could not be removed or is kept.
    fn close(&mut self, observer: &mut dyn Observer);
}

/// What a bench found out on opening.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The arms, with what their servers say of themselves.
    pub arms: Vec<Arm>,
    /// The scripts as they will run.
    pub scripts: Vec<ScriptUse>,
    /// The machine.
    pub machine: Machine,
}

/// One run that is wanted.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest {
    /// From 0, in the order run.
    pub index: u32,
    /// Which block, from 0.
    pub block: u32,
    /// Its place within the block.
    pub position: u32,
    /// Arm and instance.
    pub planned: PlannedRun,
    /// Seeds arrivals and keys; the same for all runs of the block.
    pub seed: u64,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The user wants out.
    #[error("interrupted")]
    Interrupted,
    /// Anything else, in words.
    #[error("{0}")]
    Environment(String),
}

/// Is told how far the session has come.
pub trait Observer {
    /// Something begins that takes about `expected_ns`, where known.
    fn stage(&mut self, text: &str, expected_ns: Option<u64>);
    /// Something worth reading.
    fn remark(&mut self, text: &str);
    /// A run has ended; `runs_left` more are planned at most.
    fn run_ended(&mut self, run: &Run, arm: &Arm, runs_left: u32);
    /// The session was looked at.
    fn looked(&mut self, analysis: &Analysis);
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// All planned pairs were run, or a look settled it.
    Complete,
    /// The user wanted out.
    Interrupted,
    /// Something failed after the record had been begun.
    Failed(String),
}

/// The session could not begin, or its record could not be written.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Before the first run.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// The results directory refuses.
    #[error(
        "the results cannot be written: {source}; what was written before is whole and is kept{kept}"
    )]
    Store {
        /// The reason.
        source: StoreError,
        /// Where the last complete record is.
        kept: String,
        /// All that is known, to be kept elsewhere.
        document: Box<SessionDocument>,
    },
    /// The arms differ in what nobody declared.
    #[error(
        "the arms differ in more than was declared:\n  {}\ndeclare it in an arm's settings, or list \
         the settings in allow_differences",
        .0.join("\n  ")
    )]
    Undeclared(Vec<String>),
    /// A stored session cannot be gone on with.
    #[error("{0}")]
    CannotExtend(String),
}

/// How conclusions are drawn from a record.
pub type Analyse<'a> = &'a dyn Fn(&SessionDocument) -> Option<Analysis>;

/// What a session needs beside its plan and its bench.
pub struct Surroundings<'a> {
    /// Time.
    pub runtime: &'a dyn Runtime,
    /// Where the record goes.
    pub directory: &'a Path,
    /// Draws conclusions.
    pub analyse: Analyse<'a>,
    /// Set when the user wants out.
    pub stop: &'a AtomicBool,
    /// The words of the command line.
    pub command: Vec<String>,
    /// A stored session to go on with.
    pub earlier: Option<SessionDocument>,
}

/// Runs the session. The bench is closed in every case, and before the last judgement: whoever leaves
/// while that is made leaves no server and no data behind.
///
/// # Errors
/// Where there is nothing to report on; a session that was cut off is returned with its [`End`].
pub fn run(
    plan: &Plan,
    bench: &mut dyn Bench,
    surroundings: Surroundings<'_>,
    observer: &mut dyn Observer,
) -> Result<(SessionDocument, End), SessionError> {
    let result = run_blocks(plan, bench, &surroundings, observer);
    bench.close(observer);
    let (mut document, end) = result?;
    document.ended_at = Some(iso(surroundings.runtime.wall()));
    if end == End::Complete {
        document.incomplete = None;
    }
    observer.stage(&format!("judging {} runs", document.runs.len()), None);
    let pairs = complete_blocks(&document);
    let was_looked_at = document.analysis.as_ref().is_some_and(|earlier| earlier.pairs == pairs);
    document.analysis = (surroundings.analyse)(&document);
    write(surroundings.directory, &document)?;
    if end == End::Complete
        && !was_looked_at
        && let Some(analysis) = &document.analysis
    {
        observer.looked(analysis);
    }
    Ok((document, end))
}

/// The plan of a session that goes on: the pairs and looks that were planned and are left.
///
/// # Errors
/// When it was settled, or has been looked at as often as was planned.
pub fn extend(plan: &mut Plan, earlier: &SessionDocument) -> Result<(), SessionError> {
    let done = complete_blocks(earlier);
    plan.seed = earlier.protocol.seed;
    plan.looks.clone_from(&earlier.protocol.looks);
    plan.pairs = earlier.protocol.pairs_planned;
    let looked = plan.looks.iter().filter(|look| **look <= done).count();
    if let Some(analysis) = earlier.analysis.as_ref().filter(|it| it.is_paired && is_settled(it)) {
        let verdict = match analysis.comparison.verdict.kind {
            VerdictKind::Better => "BETTER",
            VerdictKind::Worse => "WORSE",
            _ => "NO MATERIAL DIFFERENCE",
        };
        return Err(SessionError::CannotExtend(format!(
            "the session was settled after {} pairs ({verdict}): looking again would be looking until it \
             pleases. Repeat it as a new session with --from",
            analysis.pairs
        )));
    }
    if done < plan.pairs {
        return Ok(());
    }
    Err(SessionError::CannotExtend(format!(
        "the session took the {looked} look{} it had planned (after {} pairs), and its level is spent: a \
         further one would find differences that are not there. Start a new session with --from, and plan \
         its looks ahead: --pairs 16 looks after 8, 12 and 16 and ends when settled",
        if looked == 1 { "" } else { "s" },
        plan.looks.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    )))
}

/// Blocks of which every arm has a complete run.
#[must_use]
pub fn complete_blocks(document: &SessionDocument) -> u32 {
    let mut runs_of_block = std::collections::BTreeMap::<u32, usize>::new();
    for run in document.runs.iter().filter(|run| run.incomplete.is_none()) {
        *runs_of_block.entry(run.block).or_default() += 1;
    }
    let complete = runs_of_block.values().filter(|count| **count >= document.arms.len()).count();
    u32::try_from(complete).unwrap_or(u32::MAX)
}

/// Writes the record, or returns it with the reason.
fn write(directory: &Path, document: &SessionDocument) -> Result<(), SessionError> {
    store::write_session(directory, document).map_err(|source| SessionError::Store {
        source,
        kept: format!(" in {}", directory.display()),
        document: Box::new(SessionDocument {
            incomplete: Some("the results directory took no more".to_owned()),
            ..document.clone()
        }),
    })
}

/// Opens the bench and measures, up to the last look before the end.
fn run_blocks(
    plan: &Plan,
    bench: &mut dyn Bench,
    surroundings: &Surroundings<'_>,
    observer: &mut dyn Observer,
) -> Result<(SessionDocument, End), SessionError> {
    let arm_count = u32::try_from(plan.arms.len()).unwrap_or(u32::MAX);
    let opened = bench.open(observer)?;
    let mut document = begin(plan, opened, surroundings)?;
    let undeclared = difference::undeclared(&document.differences, &document.arms);
    if !undeclared.is_empty() {
        return Err(SessionError::Undeclared(undeclared));
    }
    for line in difference::of_binaries(&document.differences, &document.arms) {
        observer.remark(&line);
    }
    let write = |document: &SessionDocument| write(surroundings.directory, document);
    let first_block = document.runs.iter().map(|run| run.block + 1).max().unwrap_or(0);
    // Blocks that were cut off are replaced by later ones of the same design.
    let blocks_lost = first_block - complete_blocks(&document);
    let design = Design::draw(plan.seed, arm_count, plan.pairs + blocks_lost);
    document.protocol.block_order = design.block_order();
    write(&document)?;
    let mut end = End::Complete;
    let blocks = (0_u32..).zip(&design.blocks).skip(first_block as usize);
    'blocks: for (block_index, block) in blocks {
        for (position, planned) in (0u32..).zip(&block.runs) {
            let index = u32::try_from(document.runs.len()).unwrap_or(u32::MAX);
            let request = RunRequest {
                index,
                block: block_index,
                position,
                planned: *planned,
                seed: block.seed,
            };
            let stopped = match bench.measure(&request, observer) {
                Ok(run) => {
                    let stopped = run.incomplete.clone();
                    let left = (plan.pairs + blocks_lost - block_index) * arm_count - position - 1;
                    if let Some(arm) = document.arms.get(planned.arm as usize) {
                        observer.run_ended(&run, arm, left);
                    }
                    document.runs.push(run);
                    stopped.map(Failure::Environment)
                }
                Err(failure) => Some(failure),
            };
            let wants_out = surroundings.stop.load(Ordering::Relaxed);
            if let Some(failure) = stopped.or(wants_out.then_some(Failure::Interrupted)) {
                end = match failure {
                    Failure::Environment(reason) if !wants_out => End::Failed(reason),
                    Failure::Environment(_) | Failure::Interrupted => End::Interrupted,
                };
                break 'blocks;
            }
            write(&document)?;
        }
        if complete_blocks(&document) == estimate::PILOT_PAIRS
            && plan.pairs > estimate::PILOT_PAIRS
            && let Some(text) = estimate::pilot(&document)
        {
            observer.remark(&text);
        }
        // The look after the last block is the judgement at the end.
        let is_last = block_index as usize + 1 == design.blocks.len();
        if plan.looks.contains(&complete_blocks(&document)) && !is_last {
            document.analysis = (surroundings.analyse)(&document);
            write(&document)?;
            if let Some(analysis) = &document.analysis {
                observer.looked(analysis);
                if is_settled(analysis) {
                    break;
                }
            }
        }
    }
    document.incomplete = match &end {
        End::Complete => return Ok((document, end)),
        End::Interrupted => Some("interrupted by the user".to_owned()),
        End::Failed(reason) => Some(reason.clone()),
    };
    // At once: closing the bench takes seconds, and who leaves meanwhile keeps the run that was cut off.
    write(&document)?;
    Ok((document, end))
}

fn begin(
    plan: &Plan,
    opened: Opened,
    surroundings: &Surroundings<'_>,
) -> Result<SessionDocument, SessionError> {
    let Opened { arms, scripts, machine } = opened;
    let mut protocol = plan.protocol(Vec::new());
    protocol.scripts = scripts;
    let differences = difference::between(&arms, &plan.allow_differences);
    if let Some(earlier) = &surroundings.earlier {
        let of = |arms: &[Arm]| -> Vec<_> {
            arms.iter()
                // Not by the data's hash: tables that are loaded anew are other files.
                .map(|arm| (arm.name.clone(), arm.server_version.clone()))
                .collect()
        };
        if of(&earlier.arms) != of(&arms) {
            return Err(SessionError::CannotExtend(
                "the servers are no longer those of the stored session (name or version differ): \
                 start a new one"
                    .to_owned(),
            ));
        }
        let mut document = earlier.clone();
        document.protocol = protocol;
        document.analysis = None;
        document.incomplete = Some("still running".to_owned());
        document.ended_at = None;
        return Ok(document);
    }
    Ok(SessionDocument {
        schema: SCHEMA.to_owned(),
        evenkeel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: iso(surroundings.runtime.wall()),
        ended_at: None,
        command: surroundings.command.clone(),
        title: plan.title.clone(),
        // Until the end says otherwise: a process that is killed leaves the truth.
        incomplete: Some("still running, or killed".to_owned()),
        protocol,
        machine,
        arms,
        differences,
        runs: Vec::new(),
        analysis: None,
    })
}

fn is_settled(analysis: &Analysis) -> bool {
    match analysis.comparison.verdict.kind {
        VerdictKind::Better | VerdictKind::Worse | VerdictKind::NoMaterialDifference => true,
        VerdictKind::Inconclusive | VerdictKind::Invalid => false,
    }
}

/// A point of the wall clock as ISO 8601 with the local offset.
#[must_use]
pub fn iso(wall: WallTime) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(wall.as_unix_nanos())).map_or_else(
        |_| "unknown".to_owned(),
        |stamp| {
            stamp
                .to_zoned_datetime(jiff::tz::TimeZone::system())
                .strftime("%Y-%m-%dT%H:%M:%S%.6f%:z")
                .to_string()
        },
    )
}

/// Where results go where nothing else is said: `results/<time>-<title>`.
#[must_use]
pub fn default_directory(wall: WallTime, title: &str) -> PathBuf {
    let slug: String = title
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect::<String>()
        .split('-')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-");
    let slug: String = slug.chars().take(40).collect();
    let time: String = iso(wall).chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    let name =
        if slug.is_empty() { time } else { format!("{time}-{}", slug.trim_end_matches('-')) };
    Path::new("results").join(name)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::sync::atomic::AtomicUsize;

    use evenkeel::runtime::OsRuntime;

    use super::super::document::{
        ArmRole, Comparison, Counts, HostSummary, LatencySummary, Verdict,
    };
    use super::super::file::ExperimentFile;
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        None,
        OpenFails,
        OpenInterrupted,
        RunFails(u32),
        RunCutOff(u32),
        RunInterrupted(u32),
        UndeclaredDifference,
    }

    struct FakeBench {
        fault: Fault,
        is_closed: Rc<Cell<bool>>,
        requests: Vec<RunRequest>,
    }

    fn arm(name: &str, role: ArmRole) -> Arm {
        Arm {
            name: name.to_owned(),
            role,
            kind: "managed".to_owned(),
            address: "here".to_owned(),
            server_version: None,
            server_version_num: None,
            declared_settings: Default::default(),
            captured_settings: Default::default(),
            environment_names: Vec::new(),
            build_options: None,
            data_hash: None,
        }
    }

    fn measured(request: &RunRequest) -> Run {
        Run {
            index: request.index,
            block: request.block,
            position: request.position,
            arm: request.planned.arm,
            instance: request.planned.instance,
            started_at: String::new(),
            duration_ns: 1,
            incomplete: None,
            counts: Counts::default(),
            throughput_per_s: None,
            response: LatencySummary::default(),
            service: LatencySummary::default(),
            lag: LatencySummary::default(),
            driver_lag_p99_ns: None,
            scripts: Vec::new(),
            exceedance: Vec::new(),
            histogram: Vec::new(),
            failed: LatencySummary::default(),
            failed_histogram: Vec::new(),
            episodes: Vec::new(),
            timeline: Vec::new(),
            events: Vec::new(),
            counters: Default::default(),
            outcomes: Default::default(),
            host: HostSummary::default(),
            errors: Default::default(),
            key_audits: Vec::new(),
            driver_cpu_ns_per_transaction: None,
            driver_busy_ratio: None,
            clock_jump_ns: None,
            server_restarted: false,
            data_hash: None,
            server_version: None,
        }
    }

    impl Bench for FakeBench {
        fn open(&mut self, _: &mut dyn Observer) -> Result<Opened, Failure> {
            let mut arms = vec![arm("a", ArmRole::Baseline), arm("b", ArmRole::Contender)];
            match self.fault {
                Fault::OpenFails => return Err(Failure::Environment("no server".to_owned())),
                Fault::OpenInterrupted => return Err(Failure::Interrupted),
                Fault::UndeclaredDifference => {
                    arms[1].captured_settings.insert("fsync".to_owned(), "off".to_owned());
                }
                _ => {}
            }
            Ok(Opened { arms, scripts: Vec::new(), machine: Machine::default() })
        }

        fn measure(&mut self, request: &RunRequest, _: &mut dyn Observer) -> Result<Run, Failure> {
            self.requests.push(*request);
            let mut run = measured(request);
            match self.fault {
                Fault::RunFails(at) if at == request.index => {
                    return Err(Failure::Environment("server gone".to_owned()));
                }
                Fault::RunInterrupted(at) if at == request.index => {
                    return Err(Failure::Interrupted);
                }
                Fault::RunCutOff(at) if at == request.index => {
                    run.incomplete = Some("server killed".to_owned());
                }
                _ => {}
            }
            Ok(run)
        }

        fn close(&mut self, _: &mut dyn Observer) {
            self.is_closed.set(true);
        }
    }

    #[derive(Default)]
    struct Quiet;
    impl Observer for Quiet {
        fn stage(&mut self, _: &str, _: Option<u64>) {}
        fn remark(&mut self, _: &str) {}
        fn run_ended(&mut self, _: &Run, _: &Arm, _: u32) {}
        fn looked(&mut self, _: &Analysis) {}
    }

    fn analysis(pairs: u32, kind: VerdictKind) -> Analysis {
        Analysis {
            pairs,
            is_paired: true,
            comparison: Comparison {
                arm: 1,
                against: 0,
                verdict: Verdict {
                    kind,
                    is_beyond_margin: false,
                    reasons: Vec::new(),
                    pairs_needed: None,
                    is_below_floor: false,
                },
                rows: Vec::new(),
                shift: Vec::new(),
                shift_service: Vec::new(),
                exceedance: Vec::new(),
                stalls: Vec::new(),
            },
            further: Vec::new(),
            gates: Vec::new(),
            noise: Vec::new(),
            floor_ratio: None,
            flip_seed: 0,
        }
    }

    struct Outcome {
        result: Result<(SessionDocument, End), SessionError>,
        bench: FakeBench,
        looks: Vec<u32>,
        directory: tempfile::TempDir,
    }

    fn session(
        text: &str,
        fault: Fault,
        kind: VerdictKind,
        earlier: Option<SessionDocument>,
    ) -> Outcome {
        let mut plan =
            Plan::new(&ExperimentFile::parse(text, "x").unwrap(), Path::new("."), 1).unwrap();
        if let Some(earlier) = &earlier {
            extend(&mut plan, earlier).unwrap();
        }
        let directory = tempfile::tempdir().unwrap();
        let is_closed = Rc::new(Cell::new(false));
        let mut bench = FakeBench { fault, is_closed: Rc::clone(&is_closed), requests: Vec::new() };
        let looks = RefCell::new(Vec::new());
        let runtime = OsRuntime::new();
        let result = run(
            &plan,
            &mut bench,
            Surroundings {
                runtime: &runtime,
                directory: directory.path(),
                analyse: &|document| {
                    let is_final = document.ended_at.is_some();
                    assert_eq!(is_closed.get(), is_final, "servers stay while it is judged");
                    let stored = store::read_session(directory.path()).unwrap().document;
                    assert_eq!(stored.runs.len(), document.runs.len(), "a run is not yet kept");
                    looks.borrow_mut().push(complete_blocks(document));
                    Some(analysis(complete_blocks(document), kind))
                },
                stop: &AtomicBool::new(false),
                command: Vec::new(),
                earlier,
            },
            &mut Quiet,
        );
        Outcome { result, bench, looks: looks.into_inner(), directory }
    }

    #[test]
    fn a_session_runs_every_arm_of_every_block_with_the_blocks_seed() {
        let outcome = session("pairs = 6", Fault::None, VerdictKind::Inconclusive, None);
        let (document, end) = outcome.result.unwrap();
        assert_eq!(end, End::Complete);
        assert_eq!((document.runs.len(), document.incomplete), (12, None));
        for two in outcome.bench.requests.chunks(2) {
            assert_eq!(two[0].seed, two[1].seed);
            assert_ne!(two[0].planned.arm, two[1].planned.arm);
        }
        assert!(outcome.bench.is_closed.get());
        let stored = store::read_session(outcome.directory.path()).unwrap().document;
        assert_eq!(stored.runs.len(), 12);
    }

    #[test]
    fn who_leaves_during_the_last_judgement_leaves_no_server_behind_and_loses_no_run() {
        // `session` asserts at every look whether the bench is closed, and what is on disk.
        let outcome = session("pairs = 6", Fault::None, VerdictKind::Inconclusive, None);
        assert_eq!(outcome.looks, [6]);
        let cut = session("pairs = 6", Fault::RunCutOff(4), VerdictKind::Inconclusive, None);
        assert_eq!(cut.looks, [2]);
    }

    #[test]
    fn only_planned_looks_are_taken_and_a_settled_session_ends_at_one() {
        let outcome = session("pairs = 16", Fault::None, VerdictKind::Better, None);
        assert_eq!(outcome.result.unwrap().0.runs.len(), 16);
        let outcome = session("pairs = 16", Fault::None, VerdictKind::Inconclusive, None);
        assert_eq!(outcome.result.unwrap().0.runs.len(), 32);
        assert_eq!(outcome.looks, [8, 12, 16]);
    }

    #[test]
    fn what_was_measured_before_a_failure_is_kept_and_marked_wherever_it_strikes() {
        for at in 0..6 {
            let cases = [
                (Fault::RunFails(at), End::Failed("server gone".to_owned()), at),
                (Fault::RunCutOff(at), End::Failed("server killed".to_owned()), at + 1),
                (Fault::RunInterrupted(at), End::Interrupted, at),
            ];
            for (fault, expected, kept) in cases {
                let outcome = session("pairs = 3", fault, VerdictKind::Inconclusive, None);
                let (_, end) = outcome.result.unwrap();
                assert_eq!(end, expected, "{fault:?}");
                assert!(outcome.bench.is_closed.get());
                let stored = store::read_session(outcome.directory.path()).unwrap().document;
                assert_eq!(stored.runs.len(), kept as usize, "{fault:?}");
                assert!(stored.incomplete.is_some());
            }
        }
    }

    #[test]
    fn a_bench_that_cannot_open_is_closed_and_leaves_no_record() {
        for fault in [Fault::OpenFails, Fault::OpenInterrupted, Fault::UndeclaredDifference] {
            let outcome = session("pairs = 3", fault, VerdictKind::Inconclusive, None);
            assert!(outcome.result.is_err());
            assert!(outcome.bench.is_closed.get() && outcome.bench.requests.is_empty());
            assert!(store::read_session(outcome.directory.path()).is_err());
        }
    }

    #[test]
    fn a_session_that_goes_on_takes_the_looks_that_were_planned_and_no_others() {
        let cut = Fault::RunInterrupted(18);
        let first = session("pairs = 16\nseed = 9", cut, VerdictKind::Inconclusive, None);
        let (first, end) = first.result.unwrap();
        assert_eq!((end, complete_blocks(&first)), (End::Interrupted, 9));
        let second = session("", Fault::None, VerdictKind::Inconclusive, Some(first.clone()));
        assert_eq!(second.looks, [12, 16]);
        let (second, _) = second.result.unwrap();
        assert_eq!((second.runs.len(), second.protocol.looks.as_slice()), (32, &[8, 12, 16][..]));
        assert_eq!(second.protocol.block_order[..9], first.protocol.block_order[..9]);
    }

    #[test]
    fn a_session_whose_level_is_spent_is_not_looked_at_again() {
        let refused = |pairs: &str, kind: VerdictKind| {
            let (document, _) = session(pairs, Fault::None, kind, None).result.unwrap();
            let mut plan = Plan::new(&ExperimentFile::default(), Path::new("."), 1).unwrap();
            match extend(&mut plan, &document) {
                Err(SessionError::CannotExtend(reason)) => reason,
                other => panic!("{pairs} {kind:?}: {other:?}"),
            }
        };
        let spent = refused("pairs = 8", VerdictKind::Inconclusive);
        assert!(spent.contains("took the 1 look it had planned (after 8 pairs)"), "{spent}");
        let spent = refused("pairs = 16", VerdictKind::Inconclusive);
        assert!(spent.contains("took the 3 looks it had planned (after 8, 12, 16"), "{spent}");
        for (kind, word) in [
            (VerdictKind::Better, "BETTER"),
            (VerdictKind::Worse, "WORSE"),
            (VerdictKind::NoMaterialDifference, "NO MATERIAL DIFFERENCE"),
        ] {
            let settled = refused("pairs = 16", kind);
            assert!(settled.contains(&format!("settled after 8 pairs ({word})")), "{settled}");
        }
    }

    #[test]
    fn a_block_that_was_cut_off_is_replaced_and_not_completed_later() {
        let cut = session("pairs = 6", Fault::RunInterrupted(3), VerdictKind::Inconclusive, None);
        let (cut, _) = cut.result.unwrap();
        assert_eq!((cut.runs.len(), complete_blocks(&cut)), (3, 1));
        let whole = session("", Fault::None, VerdictKind::Inconclusive, Some(cut));
        let (whole, end) = whole.result.unwrap();
        assert_eq!((end, complete_blocks(&whole), whole.runs.len()), (End::Complete, 6, 13));
    }

    #[test]
    fn a_full_disk_ends_the_session_and_the_last_whole_record_stays() {
        struct FullDisk {
            inner: FakeBench,
            directory: PathBuf,
            runs: AtomicUsize,
        }
        impl Bench for FullDisk {
            fn open(&mut self, observer: &mut dyn Observer) -> Result<Opened, Failure> {
                self.inner.open(observer)
            }
            fn measure(
                &mut self,
                request: &RunRequest,
                observer: &mut dyn Observer,
            ) -> Result<Run, Failure> {
                if self.runs.fetch_add(1, Ordering::Relaxed) == 2 {
                    // A directory that takes no file any more: renamed away, a file in its place.
                    std::fs::rename(&self.directory, self.directory.with_extension("kept"))
                        .unwrap();
                    std::fs::write(&self.directory, "").unwrap();
                }
                self.inner.measure(request, observer)
            }
            fn close(&mut self, observer: &mut dyn Observer) {
                self.inner.close(observer);
            }
        }
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("out");
        let plan = Plan::new(&ExperimentFile::default(), Path::new("."), 1).unwrap();
        let mut bench = FullDisk {
            inner: FakeBench { fault: Fault::None, is_closed: Rc::default(), requests: Vec::new() },
            directory: directory.clone(),
            runs: AtomicUsize::new(0),
        };
        let result = run(
            &plan,
            &mut bench,
            Surroundings {
                runtime: &OsRuntime::new(),
                directory: &directory,
                analyse: &|_| None,
                stop: &AtomicBool::new(false),
                command: Vec::new(),
                earlier: None,
            },
            &mut Quiet,
        );
        assert!(matches!(result, Err(SessionError::Store { .. })));
        assert!(bench.inner.is_closed.get());
        let kept = store::read_session(&directory.with_extension("kept")).unwrap().document;
        assert_eq!(kept.runs.len(), 2);
        assert!(kept.incomplete.is_some());
    }

    #[test]
    fn a_directory_is_named_by_time_and_title() {
        let name = default_directory(WallTime::from_unix_nanos(0), "Spread: 0.9 / 0.5!");
        let name = name.display().to_string();
        assert!(name.starts_with("results/19") && name.ends_with("-spread-0-9-0-5"), "{name}");
    }
}
