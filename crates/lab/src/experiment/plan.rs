//! The experiment with every default put in, judged as a whole before anything runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::document::{ArmRole, Arrival, CacheState, Protocol};
use super::file::{ArmFile, ArrivalKind, CacheChoice, ExperimentFile, Span, nearest};
use super::naming;
use crate::statistics::look_alpha;
use crate::statistics::power::pairs_for_level;
use crate::target::QueryMode;
use crate::target::postgres::binaries::Wanted;

/// What will be done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The question.
    pub title: String,
    /// Baseline, contender, then control where there is one.
    pub arms: Vec<ArmPlan>,
    /// What is run.
    pub scripts: Vec<ScriptChoice>,
    /// Distribution of keys in built-in scripts, as the user wrote it; `None`: uniform.
    pub distribution: Option<String>,
    /// Scale of pgbench's tables; `None` where the workload is files only and says none.
    pub scale: Option<u64>,
    /// Fill factor, percent; `None`: PostgreSQL's own.
    pub fillfactor: Option<u32>,
    /// How statements travel.
    pub query_mode: QueryMode,
    /// Variables, as pgbench's `-D`.
    pub defines: BTreeMap<String, String>,
    /// Sessions.
    pub clients: u32,
    /// Driver threads.
    pub threads: u32,
    /// Length of the measured part of each run.
    pub duration_ns: u64,
    /// How long unfinished transactions are waited for.
    pub grace_ns: u64,
    /// What the cache holds when measuring begins.
    pub cache_state: CacheState,
    /// How transactions arrive.
    pub arrival: Arrival,
    /// Late transactions are counted.
    pub latency_limit_ns: Option<u64>,
    /// How often a transaction is tried at most.
    pub max_tries: u32,
    /// Pairs at most.
    pub pairs: u32,
    /// After how many pairs the verdict is looked at; ascending, the last is `pairs`.
    pub looks: Vec<u32>,
    /// The measure that decides.
    pub primary: String,
    /// The least change that matters.
    pub margin_ratio: f64,
    /// Seeds everything.
    pub seed: u64,
    /// Whether this is a `--quick` session.
    pub is_quick: bool,
    /// The rate is meant to exceed what the server can do.
    pub expects_saturation: bool,
    /// Every transaction of every run is kept in `tx/`.
    pub has_transaction_logs: bool,
    /// Each run's response times are kept in `hist/`.
    pub has_histograms: bool,
    /// Settings that may differ undeclared.
    pub allow_differences: Vec<String>,
}

/// One arm.
#[derive(Clone, Debug)]
pub struct ArmPlan {
    /// What reports call it.
    pub name: String,
    /// What it is compared as.
    pub role: ArmRole,
    /// Where its server comes from.
    pub place: Place,
    /// Server settings declared.
    pub settings: BTreeMap<String, String>,
    /// Extra environment of the server.
    pub environment: BTreeMap<String, String>,
    /// Run before each run of this arm.
    pub before_run: Option<Vec<String>>,
    /// Run after each run of this arm.
    pub after_run: Option<Vec<String>>,
}

/// Where a server comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// We make it from these binaries.
    Managed(Wanted),
    /// It runs already.
    Url(String),
}

/// One script of the mix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptChoice {
    /// Built-in or file.
    pub source: ScriptSource,
    /// Relative weight.
    pub weight: u32,
}

/// Where a script comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptSource {
    /// By its name.
    Builtin(String),
    /// By its path.
    File(PathBuf),
}

/// The experiment cannot be run as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct PlanError {
    /// The key at fault, such as `workload.scale`.
    pub key: String,
    /// What is wrong, and the remedy.
    pub reason: String,
}

/// The planned looks where nothing else is said (methodology 5.6).
pub const STANDARD_LOOKS: [u32; 3] = [8, 12, 16];

/// Transactions of a run below which it is INVALID whatever they took (the gate `enough`).
const TRANSACTIONS_MIN: f64 = 100.0;

/// Settings of a managed server that are evenkeel's to make: it listens on a socket in a private directory
/// only, and its log is read by evenkeel.
const OWN_SETTINGS: [&str; 14] = [
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "lc_messages",
    "listen_addresses",
    "log_destination",
    "log_line_prefix",
    "log_timezone",
    "logging_collector",
    "port",
    "unix_socket_directories",
    "unix_socket_permissions",
];

/// The fewest pairs whose exact test can reach p below 0.05.
pub const FEWEST_PAIRS: u32 = 6;

const BUILTINS: [&str; 3] = ["tpcb-like", "simple-update", "select-only"];
const PAIRS_MAX: u32 = 1000;

impl Plan {
    /// Judges `file` and puts in the defaults. Paths of scripts are relative to `directory`, the
    /// experiment file's; `fresh_seed` is used where the file has no seed.
    ///
    /// # Errors
    /// The first thing that cannot be, by its key.
    pub fn new(
        file: &ExperimentFile,
        directory: &Path,
        fresh_seed: u64,
    ) -> Result<Self, PlanError> {
        let is_quick = file.quick.unwrap_or(false);
        let clients = within("clients", file.clients.unwrap_or(4), 1, 10_000)?;
        let threads = within("threads", file.threads.unwrap_or(1), 1, 1_000)?.min(clients);
        let pairs = match (file.pairs, &file.looks) {
            (Some(pairs), _) => within("pairs", pairs, 1, PAIRS_MAX)?,
            (None, Some(looks)) => looks.last().copied().unwrap_or(8),
            (None, None) if is_quick => FEWEST_PAIRS,
            (None, None) => 8,
        };
        let duration = file.duration.unwrap_or(Span::seconds(if is_quick { 5 } else { 60 }));
        if duration.0 < 1_000_000_000 {
            return Err(error("duration", "a run is at least 1 s long, or it measures nothing"));
        }
        if file.latency_limit.is_some_and(|limit| limit.0 == 0) {
            return Err(error(
                "latency_limit",
                "every transaction is later than 0: give the limit, such as 50ms, or leave it out",
            ));
        }
        let max_tries = within("max_tries", file.max_tries.unwrap_or(1), 1, 1_000_000)?;
        let arrival = arrival(file, duration)?;
        let primary = primary(file, arrival)?;
        let margin_ratio = file.margin.unwrap_or(if primary == "throughput" { 0.02 } else { 0.05 });
        if !(margin_ratio > 0.0 && margin_ratio < 1.0) {
            return Err(error(
                "margin",
                "it is a ratio between 0 and 1: write 0.05 where 5% is meant",
            ));
        }
        let scripts = scripts(file, directory)?;
        let arms = arms(file)?;
        let is_managed = arms.iter().all(|arm| matches!(arm.place, Place::Managed(_)));
        let has_builtin =
            scripts.iter().any(|script| matches!(script.source, ScriptSource::Builtin(_)));
        let scale = match file.workload.scale {
            Some(0) => return Err(error("workload.scale", "the smallest scale is 1")),
            // The largest whose account numbers are a bigint with pgbench's own 100,000 a branch.
            Some(scale) if scale > 21_474_836 => {
                return Err(error("workload.scale", "the largest scale is 21474836"));
            }
            Some(scale) => Some(scale),
            // What runs already holds what it holds.
            None => (has_builtin && is_managed).then_some(10),
        };
        if file.workload.fillfactor.is_some_and(|percent| !(10..=100).contains(&percent)) {
            return Err(error("workload.fillfactor", "it is a percentage from 10 to 100"));
        }
        Ok(Self {
            title: file.title.clone().unwrap_or_else(|| naming::title(&arms)),
            arms,
            scripts,
            distribution: file.workload.distribution.clone(),
            scale,
            fillfactor: file.workload.fillfactor,
            query_mode: file.workload.query_mode.unwrap_or_default(),
            defines: text_values(&file.workload.define),
            clients,
            threads,
            duration_ns: duration.0,
            grace_ns: file.grace.unwrap_or(Span::seconds(10)).0,
            cache_state: cache_state(file, is_quick),
            arrival,
            latency_limit_ns: file.latency_limit.map(|limit| limit.0),
            max_tries,
            pairs,
            looks: looks(file.looks.as_deref(), pairs)?,
            primary,
            margin_ratio,
            seed: file.seed.unwrap_or(fresh_seed),
            is_quick,
            expects_saturation: saturation(file, arrival)?,
            has_transaction_logs: file.transaction_logs.unwrap_or(false),
            has_histograms: file.histograms.unwrap_or(false),
            allow_differences: file.allow_differences.clone().unwrap_or_default(),
        })
    }

    /// What may be thought odd, in words, though it can be run.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        let alpha = look_alpha(self.looks.len());
        let fewest = pairs_for_level(alpha);
        if self.pairs < fewest {
            remarks.push(format!(
                "{} pairs can show no difference, however large: {fewest} is the least that can reach \
                 p below {alpha:.3}",
                self.pairs
            ));
        }
        if self.is_quick {
            remarks.push(
                "--quick: small and rare effects, checkpoints and slow drifts will not be seen"
                    .to_owned(),
            );
        }
        if self.cache_state == CacheState::CarriedOver {
            remarks.push(
                "the cache and the data are carried over from run to run: each run sees what the \
                 one before has left, and differences may be that"
                    .to_owned(),
            );
        }
        if matches!(self.arrival, Arrival::Closed) && self.primary.starts_with("response_") {
            remarks.push(
                "closed loop: a stalled server is sent less, so stalls count for less than users \
                 would feel; give `arrival = \"poisson\"` and a rate for honest tails"
                    .to_owned(),
            );
        }
        let same = self.arms.windows(2).all(|two| {
            two[0].place == two[1].place
                && two[0].settings == two[1].settings
                && two[0].environment == two[1].environment
        });
        if same {
            remarks.push(
                "the arms are declared equal: this measures the noise of this machine (A/A)"
                    .to_owned(),
            );
        }
        remarks
    }

    /// Whether the workload holds built-in scripts, which read pgbench's tables.
    #[must_use]
    pub fn needs_tables(&self) -> bool {
        self.scripts.iter().any(|script| matches!(script.source, ScriptSource::Builtin(_)))
    }

    /// As the record wants it.
    #[must_use]
    pub fn protocol(&self, block_order: Vec<Vec<u32>>) -> Protocol {
        Protocol {
            seed: self.seed,
            pairs_planned: self.pairs,
            looks: self.looks.clone(),
            block_order,
            duration_ns: self.duration_ns,
            grace_ns: self.grace_ns,
            cache_state: self.cache_state,
            arrival: self.arrival,
            clients: self.clients,
            threads: self.threads,
            query_mode: self.query_mode,
            scale: self.scale,
            fillfactor: self.fillfactor,
            scripts: Vec::new(),
            latency_limit_ns: self.latency_limit_ns,
            max_tries: self.max_tries,
            primary: self.primary.clone(),
            margin_ratio: self.margin_ratio,
            is_quick: self.is_quick,
            expects_saturation: self.expects_saturation,
        }
    }

    /// How long each run is warmed.
    #[must_use]
    pub const fn warm_up_ns(&self) -> u64 {
        match self.cache_state {
            CacheState::Warmed { duration_ns } => duration_ns,
            CacheState::Cold | CacheState::CarriedOver => 0,
        }
    }
}

fn error(key: &str, reason: impl Into<String>) -> PlanError {
    PlanError { key: key.to_owned(), reason: reason.into() }
}

fn within(key: &str, value: u32, low: u32, high: u32) -> Result<u32, PlanError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        Err(error(key, format!("{value} is not between {low} and {high}")))
    }
}

fn text_values(values: &BTreeMap<String, super::file::SettingValue>) -> BTreeMap<String, String> {
    values.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}

fn arrival(file: &ExperimentFile, duration: Span) -> Result<Arrival, PlanError> {
    let kind = file.arrival.unwrap_or(match file.rate {
        Some(_) => ArrivalKind::Poisson,
        None => ArrivalKind::Closed,
    });
    let rate = || match file.rate {
        Some(rate) if rate.is_finite() && rate > 0.0 && rate <= 1e7 => {
            let seconds = duration.0 as f64 / 1e9;
            if rate * seconds >= TRANSACTIONS_MIN {
                return Ok(rate);
            }
            Err(error(
                "rate",
                format!(
                    "at {rate} per second a run of {seconds} s holds fewer than {TRANSACTIONS_MIN} \
                     transactions, too few to judge: at least {} per second, or a longer duration",
                    // Rounded up to three places, so that what is named is enough.
                    (TRANSACTIONS_MIN / seconds * 1e3).ceil() / 1e3
                ),
            ))
        }
        Some(rate) => {
            Err(error("rate", format!("{rate} is not between 0 and 10000000 per second")))
        }
        None => Err(error("rate", "arrivals that follow a clock need a rate per second")),
    };
    Ok(match kind {
        ArrivalKind::Closed if file.rate.is_some() => {
            return Err(error(
                "rate",
                "a closed loop has no rate: leave it out, or write arrival = \"poisson\"",
            ));
        }
        ArrivalKind::Closed => Arrival::Closed,
        ArrivalKind::Poisson => Arrival::Poisson { rate_per_s: rate()? },
        ArrivalKind::Constant => Arrival::Constant { rate_per_s: rate()? },
    })
}

fn saturation(file: &ExperimentFile, arrival: Arrival) -> Result<bool, PlanError> {
    let is_declared = file.saturation.unwrap_or(false);
    if is_declared && arrival == Arrival::Closed {
        return Err(error(
            "saturation",
            "a closed loop asks no rate that could be too high: leave it out, or give a rate",
        ));
    }
    Ok(is_declared)
}

/// The measures that can be primary; any `response_pN` and `service_pN` besides.
const PRIMARIES: [&str; 3] = ["throughput", "response_mean", "service_mean"];

fn primary(file: &ExperimentFile, arrival: Arrival) -> Result<String, PlanError> {
    let Some(name) = &file.primary else {
        return Ok(match arrival {
            Arrival::Closed => "throughput",
            Arrival::Poisson { .. } | Arrival::Constant { .. } => "response_p99",
        }
        .to_owned());
    };
    let percentile = ["response_p", "service_p"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .and_then(|number| number.parse::<f64>().ok());
    let is_known = PRIMARIES.contains(&name.as_str())
        || percentile.is_some_and(|percentile| percentile > 0.0 && percentile < 100.0);
    if is_known {
        if name == "throughput" && !matches!(arrival, Arrival::Closed) {
            return Err(error(
                "primary",
                "at a given rate the throughput is the rate in every arm: choose a response time, \
                 such as response_p99",
            ));
        }
        return Ok(name.clone());
    }
    let known = [
        "throughput",
        "response_mean",
        "response_p50",
        "response_p90",
        "response_p99",
        "response_p99.9",
        "service_mean",
        "service_p50",
        "service_p99",
    ];
    Err(error(
        "primary",
        match nearest(name, &known) {
            Some(near) => format!("'{name}' is no measure: did you mean '{near}'?"),
            None => format!("'{name}' is no measure; among them are {}", known.join(", ")),
        },
    ))
}

fn cache_state(file: &ExperimentFile, is_quick: bool) -> CacheState {
    match file.cache {
        Some(CacheChoice::Cold) => CacheState::Cold,
        Some(CacheChoice::CarriedOver) => CacheState::CarriedOver,
        Some(CacheChoice::Warmed(time)) => CacheState::Warmed { duration_ns: time.0 },
        None => CacheState::Warmed { duration_ns: Span::seconds(if is_quick { 2 } else { 10 }).0 },
    }
}

fn looks(asked: Option<&[u32]>, pairs: u32) -> Result<Vec<u32>, PlanError> {
    let Some(asked) = asked else {
        let mut looks: Vec<u32> =
            STANDARD_LOOKS.iter().copied().filter(|look| *look < pairs).collect();
        looks.push(pairs);
        return Ok(looks);
    };
    let is_ascending = asked.windows(2).all(|two| two[0] < two[1]);
    if !is_ascending || asked.first().is_none_or(|first| *first == 0) {
        return Err(error("looks", "they are numbers of pairs, ascending, such as [8, 12, 16]"));
    }
    let mut looks: Vec<u32> = asked.iter().copied().filter(|look| *look < pairs).collect();
    if looks.len() > 4 {
        return Err(error("looks", "at most five: each further look costs certainty"));
    }
    looks.push(pairs);
    let alpha = look_alpha(looks.len());
    let fewest = pairs_for_level(alpha);
    if let ([first, _, ..], true) = (&looks[..], looks.iter().any(|look| *look < fewest)) {
        return Err(error(
            "looks",
            format!(
                "a look after {first} pairs can show nothing and costs the others certainty: each of \
                 {} looks asks p below {alpha:.3}, which takes at least {fewest} pairs",
                looks.len()
            ),
        ));
    }
    Ok(looks)
}

fn scripts(file: &ExperimentFile, directory: &Path) -> Result<Vec<ScriptChoice>, PlanError> {
    let mut scripts = Vec::new();
    for text in file.workload.builtin.iter().flat_map(|list| &list.0) {
        let (name, weight) = weighted("workload.builtin", text)?;
        // Unambiguous beginnings of a name do, as in pgbench.
        let matching: Vec<&str> =
            BUILTINS.into_iter().filter(|builtin| builtin.starts_with(name)).collect();
        let [name] = matching[..] else {
            let near = nearest(name, &BUILTINS)
                .map_or_else(String::new, |near| format!("; did you mean '{near}'?"));
            return Err(error(
                "workload.builtin",
                format!("'{name}' is none of {}{near}", BUILTINS.join(", ")),
            ));
        };
        scripts.push(ScriptChoice { source: ScriptSource::Builtin(name.to_owned()), weight });
    }
    for text in file.workload.file.iter().flat_map(|list| &list.0) {
        let (path, weight) = weighted("workload.file", text)?;
        scripts.push(ScriptChoice { source: ScriptSource::File(directory.join(path)), weight });
    }
    if scripts.is_empty() {
        let source = ScriptSource::Builtin("tpcb-like".to_owned());
        scripts.push(ScriptChoice { source, weight: 1 });
    }
    if scripts.iter().all(|script| script.weight == 0) {
        return Err(error("workload", "all scripts have weight 0: nothing would run"));
    }
    if scripts.len() > 128 {
        return Err(error("workload", "at most 128 scripts can be mixed"));
    }
    Ok(scripts)
}

fn weighted<'a>(key: &str, text: &'a str) -> Result<(&'a str, u32), PlanError> {
    match text.rsplit_once('@') {
        None => Ok((text, 1)),
        Some((name, weight)) => match weight.parse() {
            Ok(weight) => Ok((name, weight)),
            Err(_) => {
                Err(error(key, format!("'{weight}' in '{text}' is not a weight (a whole number)")))
            }
        },
    }
}

fn arms(file: &ExperimentFile) -> Result<Vec<ArmPlan>, PlanError> {
    let empty = ArmFile::default();
    let mut all = vec![
        arm("a", file.a.as_ref().unwrap_or(&empty), ArmRole::Baseline)?,
        arm("b", file.b.as_ref().unwrap_or(&empty), ArmRole::Contender)?,
    ];
    if let Some(control) = &file.control {
        all.push(arm("control", control, ArmRole::Control)?);
    }
    naming::name_arms(&mut all, &["a", "b", "control"]);
    for (i, one) in all.iter().enumerate() {
        if all.iter().take(i).any(|other| other.name == one.name) {
            return Err(error(
                "b.name",
                format!("two arms are called '{}': reports could not tell them apart", one.name),
            ));
        }
    }
    let is_managed = |arm: &ArmPlan| matches!(arm.place, Place::Managed(_));
    if all.iter().any(is_managed) && !all.iter().all(is_managed) {
        return Err(error(
            "a.url",
            "either all arms are managed or all have a url: a server that is restored before each \
             run does not compare with one that is not",
        ));
    }
    Ok(all)
}

fn arm(key: &str, file: &ArmFile, role: ArmRole) -> Result<ArmPlan, PlanError> {
    let within_arm = |name: &str| format!("{key}.{name}");
    let place = match (&file.url, &file.binaries, file.version) {
        (Some(_), None, None) if !file.settings.is_empty() => {
            return Err(error(
                &within_arm("settings"),
                "the server of a url is started by somebody else: set them there, with before_run, \
                 or let evenkeel manage the server (leave out the url)",
            ));
        }
        (Some(url), None, None) => Place::Url(url.clone()),
        (None, Some(path), None) => Place::Managed(Wanted::Directory(path.clone())),
        (None, None, Some(major)) => Place::Managed(Wanted::Major(major)),
        (None, None, None) => Place::Managed(Wanted::Newest),
        _ => {
            return Err(error(
                key,
                "give one of url, binaries and version: they say where the server comes from",
            ));
        }
    };
    if let (Place::Managed(_), Some(own)) = (
        &place,
        file.settings
            .keys()
            .find(|name| OWN_SETTINGS.contains(&name.to_ascii_lowercase().as_str())),
    ) {
        return Err(error(
            &format!("{key}.settings.{own}"),
            "a managed server listens on a socket in a private directory only, and evenkeel reads its \
             log: this setting is evenkeel's to make. Leave it out, or give the url of a server of yours",
        ));
    }
    for (name, command) in [("before_run", &file.before_run), ("after_run", &file.after_run)] {
        if command.as_ref().is_some_and(Vec::is_empty) {
            return Err(error(
                &within_arm(name),
                "a command is a list: the program, its arguments",
            ));
        }
    }
    let name = match &file.name {
        Some(name) if name.trim().is_empty() || name.chars().count() > naming::NAME_MAX => {
            return Err(error(&within_arm("name"), "a name has 1 to 60 characters"));
        }
        Some(name) => name.clone(),
        // Given when all arms are known.
        None => String::new(),
    };
    Ok(ArmPlan {
        name,
        role,
        place,
        settings: text_values(&file.settings),
        environment: file.environment.clone(),
        before_run: file.before_run.clone(),
        after_run: file.after_run.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, PlanError> {
        Plan::new(&ExperimentFile::parse(text, "x").unwrap(), Path::new("/e"), 5)
    }

    #[test]
    fn an_empty_file_is_an_aa_session_of_eight_pairs() {
        let plan = plan("").unwrap();
        assert_eq!((plan.pairs, plan.looks.as_slice(), plan.seed), (8, &[8][..], 5));
        assert_eq!(plan.primary, "throughput");
        assert!(plan.remarks().iter().any(|remark| remark.contains("A/A")));
    }

    #[test]
    fn the_scale_of_a_server_that_runs_already_is_read_and_not_presumed() {
        assert_eq!(plan("").unwrap().scale, Some(10));
        let urls = "[a]\nurl = \"x\"\n[b]\nurl = \"y\"\n";
        assert_eq!(plan(urls).unwrap().scale, None);
        assert_eq!(plan(&format!("{urls}[workload]\nscale = 3")).unwrap().scale, Some(3));
    }

    #[test]
    fn looks_follow_the_number_of_pairs() {
        assert_eq!(plan("pairs = 16").unwrap().looks, [8, 12, 16]);
        assert_eq!(plan("pairs = 10").unwrap().looks, [8, 10]);
        assert_eq!(plan("looks = [7, 9]").unwrap().pairs, 9);
    }

    #[test]
    fn quick_on_the_command_line_shortens_what_a_file_makes_long() {
        let mut file = ExperimentFile::parse("pairs = 16\nduration = \"5min\"", "x.toml").unwrap();
        let flags = ExperimentFile::parse("quick = true\npairs = 7", "flags").unwrap();
        file.overlay(flags);
        assert_eq!((file.pairs, file.duration.is_none()), (Some(7), true));
    }

    #[test]
    fn quick_is_short_and_flags_still_win() {
        let quick = plan("quick = true").unwrap();
        assert_eq!((quick.pairs, quick.duration_ns), (6, 5_000_000_000));
        assert_eq!(plan("quick = true\npairs = 8").unwrap().pairs, 8);
    }

    #[test]
    fn a_remedy_for_too_few_pairs_names_the_number_that_is_enough() {
        let message = plan("looks = [2, 6]\npairs = 6").unwrap_err().to_string();
        assert!(message.contains("takes at least 7 pairs"), "{message}");
        assert!(plan("looks = [7, 9]").is_ok());
        let remarks = plan("pairs = 3").unwrap().remarks();
        assert!(remarks.iter().any(|it| it.contains("6 is the least")), "{remarks:?}");
        let message = plan("rate = 1\nduration = 60").unwrap_err().to_string();
        assert!(message.contains("at least 1.667 per second"), "{message}");
        assert!(plan("rate = 1.667\nduration = 60").is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused_by_key_and_reason() {
        let cases = [
            ("rate = 5\narrival = \"closed\"", "rate: a closed loop has no rate"),
            ("arrival = \"constant\"", "rate: arrivals that follow a clock need a rate"),
            ("rate = 100\nprimary = \"throughput\"", "primary: at a given rate"),
            (
                "primary = \"respons_p99\"",
                "primary: 'respons_p99' is no measure: did you mean 'response_p99'?",
            ),
            ("margin = 5.0", "margin: it is a ratio"),
            ("clients = 0", "clients: 0 is not between"),
            ("duration = \"10ms\"", "duration: a run is at least"),
            ("looks = [8, 4]", "looks: "),
            ("looks = [2, 6]\npairs = 6", "looks: a look after 2 pairs can show nothing"),
            ("latency_limit = 0", "latency_limit: every transaction is later"),
            ("rate = 1e-300", "rate: at "),
            ("rate = 1\nduration = 60", "rate: at 1 per second a run of 60 s holds fewer than 100"),
            ("[a.settings]\nport = 5433", "a.settings.port: a managed server listens"),
            ("[b.settings]\nListen_Addresses = \"*\"", "b.settings.Listen_Addresses: a managed"),
            ("[workload]\nbuiltin = \"tpcb-lice\"", "workload.builtin: 'tpcb-lice' is none of"),
            ("[workload]\nbuiltin = \"s\"", "workload.builtin: 's' is none of"),
            ("[workload]\nbuiltin = \"sel@x\"", "workload.builtin: 'x' in 'sel@x' is not a weight"),
            ("[workload]\nscale = 0", "workload.scale: "),
            ("[workload]\nfillfactor = 5", "workload.fillfactor: "),
            ("[a]\nurl = \"x\"", "a.url: either all arms"),
            ("[a]\nurl = \"x\"\nversion = 15", "a: give one of"),
            ("[a]\nname = \"x\"\n[b]\nname = \"x\"", "b.name: two arms"),
            ("[a]\nurl = \"x\"\nsettings = { y = 1 }\n[b]\nurl = \"z\"", "a.settings: "),
            ("[a]\nbefore_run = []", "a.before_run: "),
        ];
        for (text, expected) in cases {
            let message = plan(text).unwrap_err().to_string();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
    }
}
