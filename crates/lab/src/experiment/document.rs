//! `session.json`: all that is known of a session, and what was concluded.
//!
//! The stability promise: within a major version of [`SCHEMA`] fields are only added. Quantities
//! carry their unit in the name; shares and changes are ratios, never percent; what is not known is
//! null, never zero; there is no NaN and no infinity.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::target::QueryMode;

/// The version of the document's layout, major.minor.
pub const SCHEMA: &str = "1.0";

/// A whole session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SessionDocument {
    /// [`SCHEMA`].
    pub schema: String,
    /// Of the program that wrote it.
    pub evenkeel_version: String,
    /// When the session began, ISO 8601 with offset.
    pub started_at: String,
    /// When it ended; null while it runs or when it was cut off.
    pub ended_at: Option<String>,
    /// The words on the command line, secrets excluded; repeats the session.
    pub command: Vec<String>,
    /// What the experiment asks, in the user's words.
    pub title: String,
    /// Null when complete; else why it is not.
    pub incomplete: Option<String>,
    /// How the session was run.
    pub protocol: Protocol,
    /// Where it was run.
    pub machine: Machine,
    /// The arms: baseline first, then contender, then control.
    pub arms: Vec<Arm>,
    /// All that differs between baseline and another arm.
    pub differences: Vec<Difference>,
    /// The measured runs, in the order in which they were run.
    pub runs: Vec<Run>,
    /// What was concluded; null before the first block is complete.
    pub analysis: Option<Analysis>,
}

/// How transactions arrive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Arrival {
    /// Each client starts the next when the last has ended.
    Closed,
    /// Random arrivals at a mean rate.
    Poisson {
        /// Transactions per second, over all clients.
        rate_per_s: f64,
    },
    /// Arrivals at a fixed distance.
    Constant {
        /// Transactions per second, over all clients.
        rate_per_s: f64,
    },
}

/// What the cache holds when measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum CacheState {
    /// Server just started, operating system's cache of the data dropped where permitted.
    Cold,
    /// After running the workload for a time.
    Warmed {
        /// How long.
        duration_ns: u64,
    },
    /// Whatever the previous run left; data are not restored.
    CarriedOver,
}

/// How the session was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Protocol {
    /// Seeds schedules, keys and the order of runs.
    pub seed: u64,
    /// How many pairs (blocks) were asked for at most.
    pub pairs_planned: u32,
    /// After how many pairs the verdict is looked at; the last is the end.
    pub looks: Vec<u32>,
    /// Arms of each block in the order run, as indices into `arms`.
    pub block_order: Vec<Vec<u32>>,
    /// Length of the measured part of a run.
    pub duration_ns: u64,
    /// How long unfinished transactions are waited for at the end.
    pub grace_ns: u64,
    /// What the cache holds when measuring begins.
    pub cache_state: CacheState,
    /// How transactions arrive.
    pub arrival: Arrival,
    /// Sessions.
    pub clients: u32,
    /// Driver threads.
    pub threads: u32,
    /// How statements travel.
    pub query_mode: QueryMode,
    /// Scale of pgbench's tables; null for workloads that have none.
    pub scale: Option<u64>,
    /// Fill factor of the tables, percent of a page as PostgreSQL says it; null: the default.
    pub fillfactor: Option<u32>,
    /// Scripts with weights.
    pub scripts: Vec<ScriptUse>,
    /// Late transactions are counted (open loop: skipped when late before the start).
    pub latency_limit_ns: Option<u64>,
    /// How often a transaction is tried at most.
    pub max_tries: u32,
    /// The measure that decides, for example `response_p99` or `throughput`.
    pub primary: String,
    /// The least change of the primary measure that matters, as a ratio (0.05 is 5%).
    pub margin_ratio: f64,
    /// Whether this was a `--quick` session.
    pub is_quick: bool,
    /// Whether the asked rate is meant to exceed what the server can do: then falling behind is the
    /// subject, and the gates on it only warn.
    #[serde(default)]
    pub expects_saturation: bool,
}

/// A script and its weight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScriptUse {
    /// Built-in's name or file.
    pub name: String,
    /// Relative weight.
    pub weight: u32,
    /// SHA-256 of its text, hexadecimal.
    pub sha256: String,
}

impl ScriptUse {
    /// A script of this name, weight and text.
    #[must_use]
    pub fn of(name: &str, weight: u32, text: &str) -> Self {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(text.as_bytes());
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { name: name.to_owned(), weight, sha256 }
    }
}

/// Where the session was run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system and kernel release.
    pub kernel: Option<String>,
    /// Processor's name.
    pub cpu: Option<String>,
    /// Logical processors.
    pub cpu_count: Option<u32>,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// Of the directory that holds the data.
    pub file_system: Option<String>,
    /// Clock source of the kernel.
    pub clock_source: Option<String>,
    /// Further facts, by name (governor, dirty limits, huge pages, virtualisation ...).
    pub facts: BTreeMap<String, String>,
    /// What may spoil a measurement here, in words.
    pub warnings: Vec<String>,
}

/// One side of the comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arm {
    /// The user's name for it.
    pub name: String,
    /// `baseline`, `contender` or `control`.
    pub role: ArmRole,
    /// `managed` (we start and stop it) or `url` (it runs already).
    pub kind: String,
    /// Where it listens or its binaries' place; never a secret.
    pub address: String,
    /// What the server says of itself, for example `PostgreSQL 15.18 ...`.
    pub server_version: Option<String>,
    /// `server_version_num`, for example 150018.
    pub server_version_num: Option<u32>,
    /// Settings the user declared.
    pub declared_settings: BTreeMap<String, String>,
    /// All settings that enter the record (an allow-list), as the server reports them.
    pub captured_settings: BTreeMap<String, String>,
    /// Extra environment the user declared, names only.
    pub environment_names: Vec<String>,
    /// Build options as `pg_config --configure` says, where known.
    pub build_options: Option<String>,
    /// Hash of the data restored before each run, where we made it.
    pub data_hash: Option<String>,
}

/// What an arm is compared as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmRole {
    /// What there is now ("master").
    Baseline,
    /// What is proposed ("patch").
    Contender,
    /// The cheap alternative.
    Control,
}

/// One thing that is not the same in two arms.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// Index of the arm that is compared with the baseline.
    pub arm: u32,
    /// What, for example `setting checkpoint_completion_target` or `server version`.
    pub what: String,
    /// In the baseline; null: absent.
    pub baseline: Option<String>,
    /// In the other arm; null: absent.
    pub other: Option<String>,
    /// Whether the user declared it.
    pub is_declared: bool,
}

/// One measured run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// From 0, in the order run.
    pub index: u32,
    /// Which block (pair) it belongs to, from 0.
    pub block: u32,
    /// Its place within the block, from 0.
    pub position: u32,
    /// Index into `arms`.
    pub arm: u32,
    /// Which physical copy of the arm's data and binaries, 0 or 1.
    pub instance: u32,
    /// When measuring began, ISO 8601 with offset.
    pub started_at: String,
    /// Measured part.
    pub duration_ns: u64,
    /// Null when complete; else why not.
    pub incomplete: Option<String>,
    /// Transactions by what became of them.
    pub counts: Counts,
    /// Committed transactions per second of the measured part.
    pub throughput_per_s: Option<f64>,
    /// From planned start to end, committed and censored transactions.
    pub response: LatencySummary,
    /// From actual start to end.
    pub service: LatencySummary,
    /// From planned start to actual start.
    pub lag: LatencySummary,
    /// Lag that arose while a client was free: the load generator's own lateness.
    pub driver_lag_p99_ns: Option<u64>,
    /// Per script, by index into `protocol.scripts`.
    pub scripts: Vec<ScriptSummary>,
    /// How many transactions took at least so long, and in how many stall episodes.
    pub exceedance: Vec<ExceedanceCount>,
    /// Response times in logarithmic buckets (about 5% wide): upper bound and count.
    pub histogram: Vec<HistogramBucket>,
    /// From planned start to end, transactions that failed for good or were lost with their session.
    #[serde(default)]
    pub failed: LatencySummary,
    /// Their times in logarithmic buckets, as in `histogram`.
    #[serde(default)]
    pub failed_histogram: Vec<HistogramBucket>,
    /// Stall episodes.
    pub episodes: Vec<Episode>,
    /// One entry per second by planned start.
    pub timeline: Vec<TimelineSecond>,
    /// What happened in the server and the machine, with its time.
    pub events: Vec<Event>,
    /// Changes of server counters over the measured part, by `view.column`; null: not to be had.
    pub counters: BTreeMap<String, Option<f64>>,
    /// Sizes and other outcomes, by name with unit (`wal_bytes`, `relation_size_bytes.pgbench_accounts`).
    pub outcomes: BTreeMap<String, Option<f64>>,
    /// What the machine did meanwhile.
    pub host: HostSummary,
    /// Errors by SQLSTATE.
    pub errors: BTreeMap<String, u64>,
    /// Shares of draws against expectation.
    pub key_audits: Vec<KeyAudit>,
    /// CPU time of our own process per committed transaction.
    pub driver_cpu_ns_per_transaction: Option<f64>,
    /// Share of the driver threads' time that they were busy.
    pub driver_busy_ratio: Option<f64>,
    /// Largest jump of the wall clock against the monotonic clock during the run.
    pub clock_jump_ns: Option<u64>,
    /// Server processes' start time changed within the run.
    pub server_restarted: bool,
    /// Hash of the data at the start, where we restored them.
    pub data_hash: Option<String>,
    /// Version and build the server reported at the start of this run.
    pub server_version: Option<String>,
}

/// Transactions of a run by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Whose planned start lies in the measured part.
    pub planned: u64,
    /// Which were started.
    pub started: u64,
    /// Which committed.
    pub committed: u64,
    /// Failed for good: serialization.
    pub serialization_failures: u64,
    /// Failed for good: deadlock.
    pub deadlocks: u64,
    /// Failed for good: other errors.
    pub other_errors: u64,
    /// Not started since too late already.
    pub skipped: u64,
    /// Not ended within the grace time.
    pub censored: u64,
    /// Lost with their session.
    pub aborted: u64,
    /// Tried more than once.
    pub retried: u64,
    /// Further tries in sum.
    pub retries: u64,
    /// Later than the latency limit, skipped ones excluded.
    pub late: u64,
    /// Clients that gave up.
    pub aborted_clients: u64,
    /// Planned but not ended at the end of the measured part.
    pub backlog_at_end: u64,
}

/// A distribution of times. Percentiles follow the nearest-rank rule: the value of rank
/// ceil(q x count) in ascending order; q = 0 is the minimum, q = 1 the maximum, both exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation.
    pub standard_deviation_ns: Option<f64>,
    /// Exact.
    pub min_ns: Option<u64>,
    /// Exact.
    pub max_ns: Option<u64>,
    /// Ascending in `q`.
    pub percentiles: Vec<Percentile>,
}

/// One percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// From 0 to 1.
    pub q: f64,
    /// Its value.
    pub value_ns: u64,
    /// Samples strictly beyond it.
    pub count_beyond: u64,
    /// True where censored transactions reach below it, so that the value is a lower bound.
    pub is_lower_bound: bool,
}

/// Figures of one script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScriptSummary {
    /// Index into `protocol.scripts`.
    pub script: u32,
    /// Committed.
    pub committed: u64,
    /// Failed for good.
    pub failed: u64,
    /// Response times.
    pub response: LatencySummary,
}

/// How many transactions took at least so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExceedanceCount {
    /// The threshold.
    pub threshold_ns: u64,
    /// Transactions at or above it.
    pub count: u64,
    /// Stall episodes with at least one such transaction.
    pub episodes: u64,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramBucket {
    /// Upper bound, inclusive.
    pub upper_ns: u64,
    /// Transactions.
    pub count: u64,
}

/// A maximal stretch in which overdue transactions waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Since measuring began.
    pub start_ns: u64,
    /// Since measuring began.
    pub end_ns: u64,
    /// Clients hit.
    pub clients: u32,
    /// Transactions delayed.
    pub transactions: u64,
    /// Sum of delays beyond the limit.
    pub total_delay_ns: u64,
    /// Longest response within it.
    pub worst_ns: u64,
    /// Kinds of events that overlap it.
    pub coincides_with: Vec<String>,
}

/// One second of a run. Latencies are of transactions planned in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelineSecond {
    /// Since measuring began.
    pub second: u32,
    /// Planned in it.
    pub planned: u64,
    /// Started in it.
    pub started: u64,
    /// Committed in it.
    pub finished: u64,
    /// Failed in it.
    pub failed: u64,
    /// Planned before its end and not ended by then.
    pub backlog: u64,
    /// Median response.
    pub p50_ns: Option<u64>,
    /// 99th percentile of response.
    pub p99_ns: Option<u64>,
    /// Longest response.
    pub max_ns: Option<u64>,
    /// Sampled values by name with unit (`dirty_bytes`, `writeback_bytes`, `wal_bytes_per_s`,
    /// `psi_io_some_ratio`, `disk_write_bytes_per_s` ...).
    pub samples: BTreeMap<String, Option<f64>>,
}

/// Something that happened during a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// `checkpoint`, `checkpoint_write`, `checkpoint_sync`, `autovacuum`, `clock_jump`, `restart` ...
    pub kind: String,
    /// Since measuring began; negative: before.
    pub start_ns: i64,
    /// Since measuring began; equal to the start for a point in time.
    pub end_ns: i64,
    /// Figures by name with unit (`buffers_written`, `sync_longest_ns` ...).
    #[serde(serialize_with = "finite_only")]
    pub figures: BTreeMap<String, f64>,
    /// For people.
    pub text: String,
}

/// What the machine did during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    /// Share of all CPU time stolen by the hypervisor.
    pub steal_ratio: Option<f64>,
    /// CPUs' worth of time used by processes that are neither ours nor the server's.
    pub foreign_cpus: Option<f64>,
    /// Share of time some task waited for I/O.
    pub psi_io_some_ratio: Option<f64>,
    /// Share of time some task waited for a CPU.
    pub psi_cpu_some_ratio: Option<f64>,
    /// Share of time some task waited for memory.
    pub psi_memory_some_ratio: Option<f64>,
    /// Largest dirty memory seen.
    pub dirty_bytes_max: Option<u64>,
    /// Bytes swapped in and out.
    pub swap_bytes: Option<u64>,
    /// Free space of the data's file system, least seen.
    pub disk_free_bytes_min: Option<u64>,
    /// How often processors were slowed down for heat, where they count it.
    #[serde(default)]
    pub thermal_throttles: Option<u64>,
    /// CPU time that sampling itself used, as a share of one core.
    pub sampler_cpu_ratio: Option<f64>,
}

/// Draws of one key function against what its distribution promises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyAudit {
    /// Script and line, and the call as written.
    pub source: String,
    /// The distribution as `evenkeel distribution` spells it.
    pub distribution: String,
    /// Number of keys.
    pub keys: u64,
    /// Draws counted.
    pub draws: u64,
    /// By top share of keys.
    pub shares: Vec<KeyShare>,
    /// Whether drawn and expected agree within chance.
    pub is_passed: bool,
}

/// Share of draws that fell on the most likely keys.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyShare {
    /// Share of keys (0.2 is the top 20%).
    pub top_ratio: f64,
    /// Expected share of draws.
    pub expected_ratio: f64,
    /// Drawn share; null when nothing was drawn.
    pub drawn_ratio: Option<f64>,
}

/// What was concluded from the runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Analysis {
    /// Complete pairs it rests on.
    pub pairs: u32,
    /// False when stored runs of different sessions were compared.
    pub is_paired: bool,
    /// Contender against baseline.
    pub comparison: Comparison,
    /// Further comparisons: contender against control, control against baseline.
    pub further: Vec<Comparison>,
    /// Validity gates, all of them.
    pub gates: Vec<Gate>,
    /// What the noise is made of, in words.
    pub noise: Vec<NoiseNote>,
    /// Largest |log change| of the primary measure between two instances of one arm.
    pub floor_ratio: Option<f64>,
    /// Seed of the random sign flips, where not all were enumerated.
    pub flip_seed: u64,
}

/// One arm against another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Index of the arm compared.
    pub arm: u32,
    /// Index of the arm it is compared with.
    pub against: u32,
    /// The conclusion on the primary measure.
    pub verdict: Verdict,
    /// All measures, primary first.
    pub rows: Vec<MeasureRow>,
    /// Change at each percentile of response time.
    pub shift: Vec<ShiftPoint>,
    /// The same for service time.
    pub shift_service: Vec<ShiftPoint>,
    /// Change at each threshold.
    pub exceedance: Vec<ExceedanceRow>,
    /// Stall episodes and delay of both arms by coinciding event.
    pub stalls: Vec<StallRow>,
}

/// The five verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerdictKind {
    /// The interval lies on the good side of zero.
    Better,
    /// The interval lies on the bad side of zero.
    Worse,
    /// The change is shown to be smaller than the margin.
    NoMaterialDifference,
    /// None of these can be said.
    Inconclusive,
    /// The session cannot carry a verdict.
    Invalid,
}

/// A conclusion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which of the five.
    pub kind: VerdictKind,
    /// Whether better or worse by at least the margin.
    pub is_beyond_margin: bool,
    /// Why, in words; for Invalid the gates, for Inconclusive what would settle it.
    pub reasons: Vec<String>,
    /// Pairs needed to settle on the margin; null where not computable.
    pub pairs_needed: Option<u32>,
    /// Downgraded since the change lies below the session's own A/A floor.
    pub is_below_floor: bool,
}

/// One measure, compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasureRow {
    /// `throughput`, `response_mean`, `response_p99`, `service_p99`, `wal_bytes_per_transaction` ...
    pub measure: String,
    /// `per_s`, `ns`, `bytes`, `count`.
    pub unit: String,
    /// Geometric mean (arithmetic where zeros occur) over runs of the arm compared with.
    pub against_value: Option<f64>,
    /// The same of the arm compared.
    pub value: Option<f64>,
    /// Change as a ratio minus one; null where undefined.
    pub change_ratio: Option<f64>,
    /// Interval of the change, 95%.
    pub low_ratio: Option<f64>,
    /// Interval of the change, 95%.
    pub high_ratio: Option<f64>,
    /// Two-sided p of the exact sign-flip test on this row alone.
    pub p: Option<f64>,
    /// Adjusted over all secondary rows by max-T; equal to `p` for the primary.
    pub p_adjusted: Option<f64>,
    /// Least change that this session would probably (80%) have seen.
    pub detectable_ratio: Option<f64>,
    /// The conclusion on this row.
    pub kind: RowKind,
    /// Whether a larger value is better; null: neither.
    pub larger_is_better: Option<bool>,
    /// Whether it is the primary measure.
    pub is_primary: bool,
    /// Remarks (outlier pair, intervals that disagree).
    pub notes: Vec<String>,
    /// Log ratio of each pair, in block order; null where a run lacks the measure.
    pub pair_log_ratios: Vec<Option<f64>>,
}

/// The conclusion on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// Shown better.
    Better,
    /// Shown worse.
    Worse,
    /// Shown equal within the margin.
    Same,
    /// No difference seen.
    NoDifferenceSeen,
    /// Too little to say.
    Unclear,
    /// Too few samples or episodes.
    TooFew,
    /// Shown for information, not tested.
    NotTested,
}

/// Change at one percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShiftPoint {
    /// From 0 to 1.
    pub q: f64,
    /// Of the arm compared with.
    pub against_ns: Option<f64>,
    /// Of the arm compared.
    pub value_ns: Option<f64>,
    /// Change as a ratio minus one.
    pub change_ratio: Option<f64>,
    /// Pointwise interval.
    pub low_ratio: Option<f64>,
    /// Pointwise interval.
    pub high_ratio: Option<f64>,
    /// Simultaneous band.
    pub band_low_ratio: Option<f64>,
    /// Simultaneous band.
    pub band_high_ratio: Option<f64>,
    /// Fewer than 10 samples a run, or 3 episodes in all, lie beyond it.
    pub is_too_few: bool,
}

/// Change at one threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExceedanceRow {
    /// The threshold.
    pub threshold_ns: u64,
    /// Transactions at least so long in the arm compared with.
    pub against_count: u64,
    /// In the arm compared.
    pub count: u64,
    /// Per million transactions, arm compared with.
    pub against_per_million: Option<f64>,
    /// Per million transactions, arm compared.
    pub per_million: Option<f64>,
    /// Ratio of rates; null where undefined.
    pub rate_ratio: Option<f64>,
    /// Interval of the ratio.
    pub low_ratio: Option<f64>,
    /// Interval of the ratio.
    pub high_ratio: Option<f64>,
    /// Stall episodes in the arm compared with.
    pub against_episodes: u64,
    /// Stall episodes in the arm compared.
    pub episodes: u64,
    /// Adjusted over the table.
    pub p_adjusted: Option<f64>,
    /// The conclusion.
    pub kind: RowKind,
}

/// Delay of both arms by coinciding event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallRow {
    /// Kind of event; `none` for delay that coincided with none, `all` for the sum.
    pub kind: String,
    /// Delay in the arm compared with.
    pub against_delay_ns: u64,
    /// Delay in the arm compared.
    pub delay_ns: u64,
    /// Share of the delay inside such events over the share expected by chance.
    pub lift: Option<f64>,
    /// What the lift is when the events are turned around the run at random: in 95% of the turns at
    /// least this ...
    #[serde(default)]
    pub lift_chance_low: Option<f64>,
    /// ... and at most this.
    #[serde(default)]
    pub lift_chance_high: Option<f64>,
}

/// A condition without which there is no verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// `rate`, `backlog`, `driver_lag`, `errors`, `clients`, `clock`, `settings`, `data`, `steady`,
    /// `checkpoint_cycles`, `keys`, `identity`, `restart`, `disk`, `host`, `little`, `overload` ...
    pub name: String,
    /// `passed`, `failed`, `not_applicable`.
    pub status: GateStatus,
    /// What was seen, with figures.
    pub text: String,
}

/// How a gate came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GateStatus {
    /// Holds.
    Passed,
    /// Holds, with a remark worth reading.
    Warned,
    /// Does not hold: the session is invalid.
    Failed,
    /// Has no meaning here, or cannot be computed here.
    NotApplicable,
}

/// A finding about noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseNote {
    /// `between_runs`, `drift`, `periodic`, `outlier_pair`, `two_modes`, `host`, `client`, `clock`,
    /// `gap` ...
    pub kind: String,
    /// In words, with figures.
    pub text: String,
}

/// JSON has no NaN and no infinity, and null in their place could not be read back.
fn finite_only<S: serde::Serializer>(
    figures: &BTreeMap<String, f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().filter(|(_, value)| value.is_finite()))
}
