//! Every key of the experiment file as a flag.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use evenkeel_lab::experiment::file::{
    ArmFile, ArrivalKind, CacheChoice, ExperimentFile, OneOrMany, SettingValue, Span, WorkloadFile,
};
use evenkeel_lab::target::QueryMode;

/// Makes the flags of one arm, named by a prefix.
macro_rules! arm_flags {
    ($type:ident, $heading:literal, $name:literal, $binaries:literal, $version:literal,
     $setting:literal, $environment:literal, $url:literal, $before:literal, $after:literal) => {
        #[derive(Clone, Debug, Default, clap::Args)]
        #[command(next_help_heading = $heading)]
        struct $type {
            /// What reports call it
            #[arg(long = $name, id = $name, value_name = "NAME")]
            name: Option<String>,
            /// Directory of its PostgreSQL programs
            #[arg(long = $binaries, id = $binaries, value_name = "DIR")]
            binaries: Option<PathBuf>,
            /// Major version of its PostgreSQL
            #[arg(long = $version, id = $version, value_name = "MAJOR")]
            version: Option<u32>,
            /// Server setting, repeatable
            #[arg(long = $setting, id = $setting, value_name = "NAME=VALUE")]
            setting: Vec<String>,
            /// Variable of the server's environment, repeatable
            #[arg(long = $environment, id = $environment, value_name = "NAME=VALUE")]
            environment: Vec<String>,
            /// A server that runs already
            #[arg(long = $url, id = $url, value_name = "URL")]
            url: Option<String>,
            /// Command before each run: words separated by spaces, no shell
            #[arg(long = $before, id = $before, value_name = "WORDS")]
            before_run: Option<String>,
            /// Command after each run
            #[arg(long = $after, id = $after, value_name = "WORDS")]
            after_run: Option<String>,
        }

        impl $type {
            fn to_file(&self) -> anyhow::Result<Option<ArmFile>> {
                let words = |text: &Option<String>| {
                    text.as_ref().map(|text| text.split_whitespace().map(str::to_owned).collect())
                };
                let file = ArmFile {
                    name: self.name.clone(),
                    binaries: self.binaries.clone(),
                    version: self.version,
                    settings: settings($setting, &self.setting)?,
                    environment: pairs($environment, &self.environment)?,
                    url: self.url.clone(),
                    before_run: words(&self.before_run),
                    after_run: words(&self.after_run),
                };
                Ok((file != ArmFile::default()).then_some(file))
            }
        }
    };
}

arm_flags!(
    ArmA,
    "Arm a, the baseline",
    "a-name",
    "a-binaries",
    "a-version",
    "a-setting",
    "a-environment",
    "a-url",
    "a-before-run",
    "a-after-run"
);
arm_flags!(
    ArmB,
    "Arm b, the contender",
    "b-name",
    "b-binaries",
    "b-version",
    "b-setting",
    "b-environment",
    "b-url",
    "b-before-run",
    "b-after-run"
);
arm_flags!(
    Control,
    "Arm control, the cheap alternative",
    "control-name",
    "control-binaries",
    "control-version",
    "control-setting",
    "control-environment",
    "control-url",
    "control-before-run",
    "control-after-run"
);

/// The flags; each wins over its key in the file.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Flags {
    /// The question, for the report's head
    #[arg(long)]
    title: Option<String>,
    /// Built-in script, repeatable: tpcb-like, simple-update, select-only
    #[arg(short = 'b', long = "builtin", value_name = "NAME[@W]")]
    builtin: Vec<String>,
    /// Script file, repeatable
    #[arg(short = 'f', long = "file", value_name = "FILE[@W]")]
    script: Vec<String>,
    /// Distribution of keys in built-in scripts, such as zipfian:1.1
    #[arg(long, value_name = "SPEC")]
    distribution: Option<String>,
    /// Scale of pgbench's tables
    #[arg(short, long, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..=21_474_836))]
    scale: Option<u64>,
    /// Fill factor of the tables, percent
    #[arg(short = 'F', long, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(10..=100))]
    fillfactor: Option<u32>,
    /// simple, extended or prepared
    #[arg(short = 'M', long, value_name = "MODE", value_parser = query_mode)]
    query_mode: Option<QueryMode>,
    /// Variable of the scripts, repeatable
    #[arg(short = 'D', long, value_name = "NAME=VALUE")]
    define: Vec<String>,
    /// Sessions
    #[arg(short, long, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: Option<u32>,
    /// Driver threads
    #[arg(short = 'j', long, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    threads: Option<u32>,
    /// Length of the measured part of each run, such as 90s or 2min
    #[arg(short = 'T', long, value_name = "TIME", allow_hyphen_values = true)]
    duration: Option<Span>,
    /// How long unfinished transactions are waited for
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    grace: Option<Span>,
    /// cold, warmed:TIME or carried_over
    #[arg(long, value_name = "STATE")]
    cache: Option<CacheChoice>,
    /// closed, poisson or constant
    #[arg(long, value_name = "KIND")]
    arrival: Option<ArrivalKind>,
    /// Transactions per second over all clients
    #[arg(short = 'R', long, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Transactions later than this are counted as late
    #[arg(short = 'L', long, value_name = "TIME", allow_hyphen_values = true)]
    latency_limit: Option<Span>,
    /// How often a transaction is tried at most
    #[arg(long, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_tries: Option<u32>,
    /// Pairs of runs at most
    #[arg(short, long, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: Option<u32>,
    /// After how many pairs the verdict is looked at, such as 8,12,16
    #[arg(long, value_delimiter = ',', value_name = "PAIRS")]
    looks: Vec<u32>,
    /// The measure that decides, such as response_p99 or throughput
    #[arg(long, value_name = "MEASURE")]
    primary: Option<String>,
    /// The least change that matters, a ratio: 0.05 is 5%
    #[arg(long, value_name = "RATIO", allow_negative_numbers = true)]
    margin: Option<f64>,
    /// Seeds order, schedules and keys
    #[arg(long, visible_alias = "random-seed", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(0..))]
    seed: Option<u64>,
    /// Where results go
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep every transaction of every run in tx/, as pgbench -l does
    #[arg(short = 'l', long = "log")]
    transaction_logs: bool,
    /// Keep each run's response times in hist/, in HdrHistogram's formats (.hlog, .hgrm)
    #[arg(long)]
    histograms: bool,
    /// Few short pairs, done in two or three minutes; says what it cannot see
    #[arg(long)]
    quick: bool,
    /// The rate is meant to exceed what the server can do: falling behind then only warns.
    #[arg(long)]
    saturation: bool,
    /// Setting that may differ though no arm declares it, or condition of stored runs, repeatable
    #[arg(long, value_name = "SETTING")]
    allow_difference: Vec<String>,
    #[command(flatten)]
    a: ArmA,
    #[command(flatten)]
    b: ArmB,
    #[command(flatten)]
    control: Control,
}

impl Flags {
    /// Where results go, where a flag says so.
    pub(super) fn out(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    /// The measure that decides, where a flag says so.
    pub(super) fn primary(&self) -> Option<&str> {
        self.primary.as_deref()
    }

    /// The least change that matters, where a flag says so.
    pub(super) fn margin(&self) -> Option<f64> {
        self.margin
    }

    /// What may differ though nobody declared it.
    pub(super) fn allowed_differences(&self) -> &[String] {
        &self.allow_difference
    }

    /// The flags as if they stood in a file.
    pub(super) fn to_file(&self) -> anyhow::Result<ExperimentFile> {
        let list = |values: &[String]| (!values.is_empty()).then(|| OneOrMany(values.to_vec()));
        Ok(ExperimentFile {
            title: self.title.clone(),
            a: self.a.to_file()?,
            b: self.b.to_file()?,
            control: self.control.to_file()?,
            workload: WorkloadFile {
                builtin: list(&self.builtin),
                // Flags are relative to where the command runs, unlike the file's own paths.
                file: list(&absolute(&self.script)),
                distribution: self.distribution.clone(),
                scale: self.scale,
                fillfactor: self.fillfactor,
                query_mode: self.query_mode,
                define: settings("define", &self.define)?,
            },
            clients: self.clients,
            threads: self.threads,
            duration: self.duration,
            grace: self.grace,
            cache: self.cache,
            arrival: self.arrival,
            rate: self.rate,
            latency_limit: self.latency_limit,
            max_tries: self.max_tries,
            pairs: self.pairs,
            looks: (!self.looks.is_empty()).then(|| self.looks.clone()),
            primary: self.primary.clone(),
            margin: self.margin,
            seed: self.seed,
            out: self.out.clone(),
            quick: self.quick.then_some(true),
            transaction_logs: self.transaction_logs.then_some(true),
            histograms: self.histograms.then_some(true),
            saturation: self.saturation.then_some(true),
            allow_differences: (!self.allow_difference.is_empty())
                .then(|| self.allow_difference.clone()),
        })
    }
}

fn absolute(scripts: &[String]) -> Vec<String> {
    scripts
        .iter()
        .map(|script| {
            std::path::absolute(script)
                .map_or_else(|_| script.clone(), |path| path.display().to_string())
        })
        .collect()
}

fn query_mode(text: &str) -> Result<QueryMode, String> {
    match text {
        "simple" => Ok(QueryMode::Simple),
        "extended" => Ok(QueryMode::Extended),
        "prepared" => Ok(QueryMode::Prepared),
        _ => Err("it is one of simple, extended, prepared".to_owned()),
    }
}

fn settings(flag: &str, texts: &[String]) -> anyhow::Result<BTreeMap<String, SettingValue>> {
    Ok(pairs(flag, texts)?.into_iter().map(|(name, value)| (name, SettingValue(value))).collect())
}

fn pairs(flag: &str, texts: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for text in texts {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                all.insert(name.trim().to_owned(), value.to_owned());
            }
            _ => bail!("--{flag}: '{text}' is not NAME=VALUE"),
        }
    }
    Ok(all)
}
