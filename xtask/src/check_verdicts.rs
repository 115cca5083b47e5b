//! `cargo xtask check-verdicts`: how often the laboratory is wrong, where the truth is known.
//!
//! 1. A/A sessions on a synthetic target end in a false "better" or "worse" in at most 8% of cases, and
//!    are void in at most 5%.
//! 2. A change of the size that is promised to be found, and the numbers of pairs that are named for a
//!    change, find it in 80% of sessions; a change of the tail is found in the tail alone.
//! 3. Our tests keep their level, and intervals and bands hold the truth as often as they say, while
//!    rules of thumb on the same numbers do not.
//!
//! A share that is promised is compared with the exact binomial limit that the promise leaves to chance
//! (one in a thousand). Everything follows from fixed seeds. With `--real` an A/A experiment is run on
//! PostgreSQL by `evenkeel compare`.

mod picture;
mod progress;
mod rules;
mod sessions;

use anyhow::{Context, bail, ensure};
use progress::Progress;

/// Columns of a row: its name, what was found, the limit, and whether it holds.
const NAME_COLUMNS: usize = 48;
const FOUND_COLUMNS: usize = 20;
const LIMIT_COLUMNS: usize = 22;

const USAGE: &str = "check-verdicts takes nothing (all parts), or some of --false, --injected, --rules; \
    --sessions N (200) for other numbers; --picture to write docs/images/false-verdicts.svg; or --real";

/// What was asked for.
struct Request {
    is_false: bool,
    is_injected: bool,
    is_rules: bool,
    is_picture: bool,
    sessions: u32,
}

/// The checks so far.
struct Checks {
    progress: Progress,
    done: u32,
    failed: Vec<String>,
}

impl Checks {
    /// A row of results. `holds` is `None` where it is shown for comparison only.
    fn row(&mut self, name: &str, found: &str, limit: &str, holds: Option<bool>) {
        let word = match holds {
            None => "",
            Some(true) => "ok",
            Some(false) => "FAILED",
        };
        self.progress.clear();
        let line = format!(
            "  {name:<NAME_COLUMNS$} {found:>FOUND_COLUMNS$}  {limit:<LIMIT_COLUMNS$} {word}"
        );
        crate::print(line.trim_end());
        if let Some(holds) = holds {
            self.done += 1;
            if !holds {
                self.failed.push(format!("{name}: {found}, {limit}"));
            }
        }
    }

    fn head(&mut self, text: &str) {
        self.progress.clear();
        crate::print(text);
    }
}

/// Runs the checks.
pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    if arguments == ["--real"] {
        return real();
    }
    let request = Request::read(arguments)?;
    let sessions = f64::from(request.sessions);
    let mut work = 0.0;
    if request.is_false {
        work += sessions::false_verdicts_work(sessions);
    }
    if request.is_injected {
        work += sessions::injected_work(sessions);
    }
    if request.is_rules {
        work += rules::work(sessions);
    }
    let mut checks =
        Checks { progress: Progress::new("check-verdicts", work), done: 0, failed: Vec::new() };
    if request.is_false {
        let found = sessions::false_verdicts(&mut checks, request.sessions);
        if request.is_picture {
            let path = crate::root().join("docs/images/false-verdicts.svg");
            std::fs::write(&path, picture::false_verdicts(&found, request.sessions))
                .with_context(|| format!("write {}", path.display()))?;
            crate::say(&format!("wrote {}", path.display()));
        }
    }
    if request.is_injected {
        sessions::injected(&mut checks, request.sessions);
    }
    if request.is_rules {
        rules::check(&mut checks, request.sessions);
    }
    checks.progress.clear();
    crate::print(&format!(
        "limits: false verdicts at most {:.0}%, void sessions at most {:.0}%, promised changes found in",
        sessions::FALSE_RATIO_MAX * 100.0,
        sessions::VOID_RATIO_MAX * 100.0
    ));
    crate::print(
        "80%, tests at their level, coverage as promised; shares within binomial limits (0.1%)",
    );
    if checks.failed.is_empty() {
        crate::print(&format!("PASSED: all {} checks are within their limits", checks.done));
        return Ok(());
    }
    for failed in &checks.failed {
        crate::print(&format!("beyond its limit: {failed}"));
    }
    crate::print(&format!("FAILED: {} of {} checks", checks.failed.len(), checks.done));
    bail!("{} of {} checks are beyond their limits", checks.failed.len(), checks.done)
}

impl Request {
    fn read(arguments: &[String]) -> anyhow::Result<Self> {
        let mut request = Self {
            is_false: false,
            is_injected: false,
            is_rules: false,
            is_picture: false,
            sessions: 200,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--false" => request.is_false = true,
                "--injected" => request.is_injected = true,
                "--rules" => request.is_rules = true,
                "--picture" => (request.is_picture, request.is_false) = (true, true),
                "--sessions" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    request.sessions = number
                        .filter(|number| (10..=100_000).contains(number))
                        .context("--sessions takes a number from 10 to 100000")?;
                }
                _ => bail!(USAGE),
            }
        }
        if !(request.is_false || request.is_injected || request.is_rules) {
            (request.is_false, request.is_injected, request.is_rules) = (true, true, true);
        }
        Ok(request)
    }
}

/// `12 of 200 (6.0%)`.
fn share(count: u32, of: u32) -> String {
    format!("{count} of {of} ({:.1}%)", f64::from(count) / f64::from(of.max(1)) * 100.0)
}

/// A real A/A experiment: both arms are the same build and settings.
fn real() -> anyhow::Result<()> {
    let status = std::process::Command::new(env!("CARGO"))
        .args(["run", "--release", "--package", "evenkeel-cli", "--", "compare"])
        .arg("experiments/aa.toml")
        .args(["--out", "results/check-verdicts-real"])
        .current_dir(crate::root())
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the A/A experiment ended with {status}");
    let text =
        std::fs::read_to_string(crate::root().join("results/check-verdicts-real/session.json"))
            .context("the session left no record")?;
    let record: serde_json::Value = serde_json::from_str(&text).context("the record is broken")?;
    let kind = record["analysis"]["comparison"]["verdict"]["kind"].as_str().unwrap_or("absent");
    ensure!(
        matches!(kind, "no_material_difference" | "inconclusive"),
        "an A/A experiment ended in '{kind}'"
    );
    crate::say(&format!("the real A/A experiment ended in '{kind}'"));
    Ok(())
}
