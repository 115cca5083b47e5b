//! The experiment file: what is to be compared, in TOML.
//!
//! Every key is optional here; [`super::plan::Plan`] puts in the defaults and judges the whole. The
//! reference for users is `docs/experiment-file.md`.
//!
//! 1. A key that is not known is an error with its place and the nearest known key; nothing is
//!    silently ignored.
//! 2. A length of time is a number of seconds or text with a unit: `"90s"`, `"2min"`, `"500ms"`.
//! 3. Flags of the command are laid over the file by [`ExperimentFile::overlay`]: a flag wins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An experiment as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExperimentFile {
    /// The question, for the report's head.
    pub title: Option<String>,
    /// The baseline: what there is now.
    pub a: Option<ArmFile>,
    /// The contender: what is proposed.
    pub b: Option<ArmFile>,
    /// The cheap alternative that the contender must beat too.
    pub control: Option<ArmFile>,
    /// What is run.
    pub workload: WorkloadFile,
    /// Sessions.
    pub clients: Option<u32>,
    /// Driver threads.
    pub threads: Option<u32>,
    /// Length of the measured part of each run.
    pub duration: Option<Span>,
    /// How long unfinished transactions are waited for at the end of a run.
    pub grace: Option<Span>,
    /// `cold`, `warmed:TIME` or `carried_over`.
    pub cache: Option<CacheChoice>,
    /// `closed`, `poisson` or `constant`.
    pub arrival: Option<ArrivalKind>,
    /// Transactions per second over all clients.
    pub rate: Option<f64>,
    /// Transactions later than this are counted as late.
    pub latency_limit: Option<Span>,
    /// How often a transaction is tried at most.
    pub max_tries: Option<u32>,
    /// Pairs at most.
    pub pairs: Option<u32>,
    /// After how many pairs the verdict is looked at.
    pub looks: Option<Vec<u32>>,
    /// The measure that decides.
    pub primary: Option<String>,
    /// The least change that matters, a ratio: 0.05 is 5%.
    pub margin: Option<f64>,
    /// Seeds order, schedules and keys.
    pub seed: Option<u64>,
    /// Where results go.
    pub out: Option<PathBuf>,
    /// Keep every transaction of every run, as `pgbench -l` does, in `tx/`.
    pub transaction_logs: Option<bool>,
    /// Keep each run's response times in HdrHistogram's formats, in `hist/`.
    pub histograms: Option<bool>,
    /// Few short pairs.
    pub quick: Option<bool>,
    /// The rate is meant to exceed what the server can do.
    pub saturation: Option<bool>,
    /// Settings that may differ between the arms' servers though no arm declares them.
    pub allow_differences: Option<Vec<String>>,
}

/// One arm as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArmFile {
    /// What reports call it.
    pub name: Option<String>,
    /// Directory of the PostgreSQL programs.
    pub binaries: Option<PathBuf>,
    /// Major version to look for.
    pub version: Option<u32>,
    /// Server settings.
    pub settings: BTreeMap<String, SettingValue>,
    /// Extra environment of the server.
    pub environment: BTreeMap<String, String>,
    /// A server that runs already.
    pub url: Option<String>,
    /// Run before each run of this arm: program and arguments, no shell.
    pub before_run: Option<Vec<String>>,
    /// Run after each run of this arm.
    pub after_run: Option<Vec<String>>,
}

/// The workload as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadFile {
    /// `name` or `name@weight`; built-in scripts.
    pub builtin: Option<OneOrMany>,
    /// `path` or `path@weight`; script files, relative to the experiment file.
    pub file: Option<OneOrMany>,
    /// Distribution of keys in built-in scripts.
    pub distribution: Option<String>,
    /// Scale of pgbench's tables.
    pub scale: Option<u64>,
    /// Fill factor of the tables, percent.
    pub fillfactor: Option<u32>,
    /// `simple`, `extended` or `prepared`.
    pub query_mode: Option<crate::target::QueryMode>,
    /// Variables, as pgbench's `-D`.
    pub define: BTreeMap<String, SettingValue>,
}

/// How transactions arrive; the rate is a key of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrivalKind {
    /// Each client starts the next when the last has ended.
    Closed,
    /// Random arrivals at a mean rate.
    Poisson,
    /// Arrivals at a fixed distance.
    Constant,
}

impl std::str::FromStr for ArrivalKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "closed" => Ok(Self::Closed),
            "poisson" => Ok(Self::Poisson),
            "constant" => Ok(Self::Constant),
            _ => Err(format!("'{text}' is not one of closed, poisson, constant")),
        }
    }
}

/// What the cache shall hold when measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheChoice {
    /// Server just started; the operating system's cache of the data dropped where permitted.
    Cold,
    /// After running the workload for a time.
    Warmed(Span),
    /// Whatever the previous run left.
    CarriedOver,
}

impl std::str::FromStr for CacheChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cold" => Ok(Self::Cold),
            "carried_over" => Ok(Self::CarriedOver),
            _ => match text.strip_prefix("warmed:") {
                Some(time) => Ok(Self::Warmed(time.parse()?)),
                None => Err(format!(
                    "'{text}' is not one of cold, warmed:TIME (such as warmed:30s), carried_over"
                )),
            },
        }
    }
}

impl Serialize for CacheChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Cold => serializer.serialize_str("cold"),
            Self::CarriedOver => serializer.serialize_str("carried_over"),
            Self::Warmed(time) => serializer.serialize_str(&format!("warmed:{time}")),
        }
    }
}

impl<'de> Deserialize<'de> for CacheChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A length of time, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

/// A hundred days: longer is a slip of the pen.
const SPAN_MAX_S: f64 = 100.0 * 86_400.0;

impl Span {
    /// Of whole seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    fn from_seconds(seconds: f64) -> Result<Self, String> {
        if !(0.0..=SPAN_MAX_S).contains(&seconds) {
            return Err("a length of time is between 0 and 100 days".to_owned());
        }
        // Within range by the check above, so the cast keeps the value.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok(Self((seconds * 1e9).round() as u64))
    }
}

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let digits =
            text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, unit) = text.split_at(digits);
        let seconds_per_unit = match unit.trim() {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" | "" => 1.0,
            "min" | "m" => 60.0,
            "h" => 3600.0,
            _ => {
                return Err(format!(
                    "'{text}' is not a length of time: write a number and one of us, ms, s, min, h"
                ));
            }
        };
        let number: f64 = number
            .parse()
            .map_err(|_| format!("'{text}' is not a length of time: no number before the unit"))?;
        Self::from_seconds(number * seconds_per_unit)
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ns if ns.is_multiple_of(1_000_000_000) => write!(f, "{}s", ns / 1_000_000_000),
            ns if ns.is_multiple_of(1_000_000) => write!(f, "{}ms", ns / 1_000_000),
            ns if ns.is_multiple_of(1_000) => write!(f, "{}us", ns / 1_000),
            ns => write!(f, "{ns}ns"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Span;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number of seconds, or text such as \"90s\" or \"500ms\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
                #[allow(clippy::cast_precision_loss, reason = "a length beyond 2^53 s is refused")]
                Span::from_seconds(seconds as f64).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Span, E> {
                Span::from_seconds(seconds).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A server setting or a variable: TOML text, number or truth value, kept as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingValue(pub String);

impl<'de> Deserialize<'de> for SettingValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = SettingValue;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("text, a number, true or false")
            }
            fn visit_str<E>(self, text: &str) -> Result<SettingValue, E> {
                Ok(SettingValue(text.to_owned()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<SettingValue, E> {
                Ok(SettingValue(value.to_string()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<SettingValue, E> {
                Ok(SettingValue(value.to_string()))
            }
            fn visit_bool<E>(self, value: bool) -> Result<SettingValue, E> {
                Ok(SettingValue(if value { "on" } else { "off" }.to_owned()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// One text or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OneOrMany(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = OneOrMany;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("text, or a list of texts")
            }
            fn visit_str<E>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![text.to_owned()]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = seq.next_element()? {
                    all.push(text);
                }
                Ok(OneOrMany(all))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What is wrong with an experiment file, and where.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the experiment file {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// It is not an experiment file.
    #[error("{path}:{line}:{column}: {message}\n{excerpt}")]
    Syntax {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong, and the remedy where one is known.
        message: String,
        /// The line with a caret.
        excerpt: String,
    },
}

/// An experiment larger than this is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;

impl ExperimentFile {
    /// Reads `path`.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let shown = path.display().to_string();
        let io = |source| FileError::Io { path: shown.clone(), source };
        let bytes = std::fs::metadata(path).map_err(io)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(io(std::io::Error::other(format!(
                "it holds {bytes} bytes, and an experiment file has at most {FILE_BYTES_MAX}"
            ))));
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        Self::parse(&text, &shown)
    }

    /// Understands `text`; `name` is for messages.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn parse(text: &str, name: &str) -> Result<Self, FileError> {
        // Editors on Windows put a mark before the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            let message = with_hint(error.message());
            syntax_error(text, name, offset, message)
        })
    }

    /// The experiment as TOML, for keeping beside its results.
    ///
    /// # Errors
    /// When a value cannot be said in TOML.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// Where `key` (such as `workload.scale`) stands in `text`: line and column from 1.
    #[must_use]
    pub fn locate(text: &str, key: &str) -> Option<(usize, usize)> {
        let document = toml::de::DeTable::parse(text).ok()?;
        let mut table = document.get_ref();
        let mut parts = key.split('.').peekable();
        loop {
            let part = parts.next()?;
            let (name, value) = table.iter().find(|(name, _)| name.get_ref() == part)?;
            match (value.get_ref(), parts.peek()) {
                (toml::de::DeValue::Table(inner), Some(_)) => table = inner,
                _ => {
                    let before = text.get(..name.span().start)?;
                    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
                    let column = before.get(line_start..)?.chars().count() + 1;
                    return Some((before.matches('\n').count() + 1, column));
                }
            }
        }
    }

    /// Lays `flags` over the file: what they say wins, what they leave out stays.
    pub fn overlay(&mut self, flags: Self) {
        let Self {
            title,
            a,
            b,
            control,
            workload,
            clients,
            threads,
            duration,
            grace,
            cache,
            arrival,
            rate,
            latency_limit,
            max_tries,
            pairs,
            looks,
            primary,
            margin,
            seed,
            out,
            quick,
            transaction_logs,
            histograms,
            saturation,
            allow_differences,
        } = flags;
        if quick == Some(true) {
            // Asked for on the command line, quick is meant to be quick: what the file says of
            // lengths and numbers gives way, what further flags say stays.
            self.duration = None;
            self.cache = None;
            self.pairs = None;
            self.looks = None;
        }
        replace(&mut self.title, title);
        overlay_arm(&mut self.a, a);
        overlay_arm(&mut self.b, b);
        overlay_arm(&mut self.control, control);
        self.workload.overlay(workload);
        replace(&mut self.clients, clients);
        replace(&mut self.threads, threads);
        replace(&mut self.duration, duration);
        replace(&mut self.grace, grace);
        replace(&mut self.cache, cache);
        replace(&mut self.arrival, arrival);
        replace(&mut self.rate, rate);
        replace(&mut self.latency_limit, latency_limit);
        replace(&mut self.max_tries, max_tries);
        replace(&mut self.pairs, pairs);
        replace(&mut self.looks, looks);
        replace(&mut self.primary, primary);
        replace(&mut self.margin, margin);
        replace(&mut self.seed, seed);
        replace(&mut self.out, out);
        replace(&mut self.quick, quick);
        replace(&mut self.transaction_logs, transaction_logs);
        replace(&mut self.histograms, histograms);
        replace(&mut self.saturation, saturation);
        replace(&mut self.allow_differences, allow_differences);
    }
}

impl WorkloadFile {
    fn overlay(&mut self, flags: Self) {
        let Self { builtin, file, distribution, scale, fillfactor, query_mode, define } = flags;
        // Scripts named by flags replace the file's scripts of both kinds: a mix is one choice.
        if builtin.is_some() || file.is_some() {
            self.builtin = builtin;
            self.file = file;
        }
        replace(&mut self.distribution, distribution);
        replace(&mut self.scale, scale);
        replace(&mut self.fillfactor, fillfactor);
        replace(&mut self.query_mode, query_mode);
        self.define.extend(define);
    }
}

fn overlay_arm(arm: &mut Option<ArmFile>, flags: Option<ArmFile>) {
    let Some(flags) = flags else { return };
    let arm = arm.get_or_insert_default();
    let ArmFile { name, binaries, version, settings, environment, url, before_run, after_run } =
        flags;
    replace(&mut arm.name, name);
    // Where the server comes from is one choice: a flag for one kind ends the file's other kind.
    if binaries.is_some() || version.is_some() || url.is_some() {
        arm.binaries = binaries;
        arm.version = version;
        arm.url = url;
    }
    arm.settings.extend(settings);
    arm.environment.extend(environment);
    replace(&mut arm.before_run, before_run);
    replace(&mut arm.after_run, after_run);
}

fn replace<T>(value: &mut Option<T>, flag: Option<T>) {
    if flag.is_some() {
        *value = flag;
    }
}

fn syntax_error(text: &str, name: &str, offset: usize, message: String) -> FileError {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.matches('\n').count() + 1;
    let column = before.get(line_start..).map_or(0, |part| part.chars().count()) + 1;
    let content = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let excerpt = format!(
        "{margin} |\n{number} | {}\n{margin} | {}^",
        crate::report::text::visible(content, 200),
        " ".repeat(column - 1)
    );
    FileError::Syntax { path: name.to_owned(), line, column, message, excerpt }
}

/// serde names the unknown key and all known ones; people want the one they meant.
fn with_hint(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return message.to_owned();
    };
    // rest is: name`, expected one of `x`, `y` - so every second piece is a name.
    let mut names = rest.split('`').step_by(2);
    let unknown = names.next().unwrap_or_default();
    let known: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    match nearest(unknown, &known) {
        Some(near) => format!("unknown key '{unknown}': did you mean '{near}'?"),
        None => format!("unknown key '{unknown}'; known here: {}", known.join(", ")),
    }
}

/// The candidate that differs from `word` by the fewest edits, where few enough.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).clamp(1, 3);
    candidates
        .iter()
        .map(|candidate| (edit_distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, in characters.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let substituted = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(text: &str) -> String {
        ExperimentFile::parse(text, "x.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_full_file_is_understood() {
        let file = ExperimentFile::parse(
            r#"
title = "spread"
clients = 4
duration = "90s"
cache = "warmed:10s"
arrival = "poisson"
rate = 250
margin = 0.05
looks = [8, 12]
[a]
name = "0.9"
settings = { checkpoint_completion_target = 0.9, fsync = false }
[b]
url = "postgres:///bench"
before_run = ["/bin/true", "one two"]
[workload]
builtin = ["tpcb-like@3", "select-only"]
scale = 10
"#,
            "x.toml",
        )
        .unwrap();
        assert_eq!(file.duration, Some(Span::seconds(90)));
        assert_eq!(file.cache, Some(CacheChoice::Warmed(Span::seconds(10))));
        let a = file.a.unwrap();
        assert_eq!(a.settings["checkpoint_completion_target"].0, "0.9");
        assert_eq!(a.settings["fsync"].0, "off");
        assert_eq!(file.workload.builtin.unwrap().0, ["tpcb-like@3", "select-only"]);
        assert_eq!(file.b.unwrap().before_run.unwrap(), ["/bin/true", "one two"]);
    }

    #[test]
    fn an_error_has_its_place_and_its_remedy() {
        let cases = [
            (
                "clients = 4\ndurration = 5\n",
                "x.toml:2:1: unknown key 'durration': did you mean 'duration'?\n  |\n2 | durration = 5\n  | ^",
            ),
            (
                "[a]\nsetings = {}\n",
                "x.toml:2:1: unknown key 'setings': did you mean 'settings'?\n  |\n2 | setings = {}\n  | ^",
            ),
            (
                "duration = \"5 parsecs\"",
                "x.toml:1:12: '5 parsecs' is not a length of time: write a number and one of us, ms, s, min, h\n  |\n1 | duration = \"5 parsecs\"\n  |            ^",
            ),
            (
                "cache = \"lukewarm\"",
                "x.toml:1:9: 'lukewarm' is not one of cold, warmed:TIME (such as warmed:30s), carried_over\n  |\n1 | cache = \"lukewarm\"\n  |         ^",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(message(text), expected);
        }
        assert!(message("zzz = 1").contains("known here: title, a, b"), "{}", message("zzz = 1"));
        assert!(message("clients = -1").starts_with("x.toml:1:11: "));
        assert!(message("clients =").starts_with("x.toml:1:"));
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let mut file = ExperimentFile::parse(
            "clients = 4\npairs = 8\n[a]\nversion = 15\n[a.settings]\nx = 1\ny = 2\n",
            "f",
        )
        .unwrap();
        let flags =
            ExperimentFile::parse("clients = 8\n[a]\nurl = \"u\"\n[a.settings]\nx = 3\n", "g")
                .unwrap();
        file.overlay(flags);
        assert_eq!((file.clients, file.pairs), (Some(8), Some(8)));
        let a = file.a.unwrap();
        assert_eq!((a.version, a.url.as_deref()), (None, Some("u")));
        assert_eq!((a.settings["x"].0.as_str(), a.settings["y"].0.as_str()), ("3", "2"));
    }

    #[test]
    fn a_kept_experiment_reads_back_as_it_was() {
        let text = "duration = 90\ncache = \"warmed:1500ms\"\nlooks = [8]\n[a]\nname = \"x\"\n[a.settings]\ny = 1\n[workload]\nbuiltin = \"tpcb-like\"\n";
        let file = ExperimentFile::parse(text, "x").unwrap();
        let kept = file.to_toml().unwrap();
        assert_eq!(ExperimentFile::parse(&kept, "y").unwrap(), file, "{kept}");
    }

    #[test]
    fn a_key_is_found_where_it_stands() {
        let text = "clients = 1\n[workload]\n  scale = 0\n";
        assert_eq!(ExperimentFile::locate(text, "workload.scale"), Some((3, 3)));
        assert_eq!(ExperimentFile::locate(text, "clients"), Some((1, 1)));
        assert_eq!(ExperimentFile::locate(text, "rate"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = ExperimentFile::parse(&text, "x");
            let _ = text.parse::<Span>();
            let _ = text.parse::<CacheChoice>();
        }
    }
}
