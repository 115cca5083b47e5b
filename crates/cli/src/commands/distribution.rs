//! `evenkeel distribution`: print a key distribution without a database.

use std::io::Write;

use anyhow::Context;
use evenkeel::runtime::{Entropy, OsRuntime};
use evenkeel_lab::distribution::{
    DistributionSpec, KeyAuditCounter, Purpose, RandomStream, Sampler, TOP_RATIOS,
};
use evenkeel_lab::experiment::document::KeyAudit;

use crate::exit::Outcome;

/// Print what a key distribution promises, and what it draws
///
/// Shares of draws that fall on the most likely 20, 10, 5 and 1% of keys, by decile of the key space,
/// and on the hottest key; with --draws also as drawn.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// uniform, gaussian:P, exponential:P or zipfian:S[,scattered]
    #[arg(value_name = "SPEC")]
    distribution: DistributionSpec,
    /// Number of keys, for example 100000 times the scale
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Draw so often and show the shares drawn
    #[arg(long, value_name = "M", default_value_t = 0,
          value_parser = clap::value_parser!(u64).range(..=10_000_000_000))]
    draws: u64,
    /// Seed of the draws; random when not given, and printed
    #[arg(long)]
    seed: Option<u64>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Csv,
    Json,
}

/// Deciles of the key space.
const PARTS: u64 = 10;

/// Width of the density plot, in characters.
const PLOT_WIDTH: f64 = 50.0;

struct Figures {
    audit: KeyAudit,
    /// Share of each tenth of the key space: expected, drawn.
    parts: Vec<(f64, Option<f64>)>,
    hottest: f64,
    seed: Option<u64>,
}

/// Runs the command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Outcome> {
    let figures = figures(&arguments);
    let mut out = std::io::stdout().lock();
    let written = match arguments.format {
        Format::Text => text(&mut out, &arguments, &figures),
        Format::Csv => csv(&mut out, &figures),
        Format::Json => json(&mut out, &figures),
    };
    match written {
        // A reader such as `head` that has seen enough is not an error.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Outcome::Success),
        other => other.map(|()| Outcome::Success).context("cannot write to the standard output"),
    }
}

fn figures(arguments: &Arguments) -> Figures {
    let last = arguments.keys - 1;
    let sampler = Sampler::new(arguments.distribution, last);
    let law = sampler.law();
    let seed = (arguments.draws > 0)
        .then(|| arguments.seed.unwrap_or_else(|| OsRuntime::new().entropy_u64()));
    let mut counter = KeyAuditCounter::new(last);
    let mut drawn = [0_u64; PARTS as usize];
    let is_scattered =
        matches!(arguments.distribution, DistributionSpec::Zipfian { scattered: true, .. });
    if let Some(seed) = seed {
        let mut stream = RandomStream::new(seed, 0, Purpose::Audit);
        for _ in 0..arguments.draws {
            let draw = sampler.draw(&mut stream);
            counter.count(draw.rank);
            let part = u128::from(draw.index) * u128::from(PARTS) / u128::from(arguments.keys);
            if let Some(place) = drawn.get_mut(usize::try_from(part).unwrap_or(0)) {
                *place += 1;
            }
        }
    }
    let end_of = |part: u64| {
        // Ceiling, as the index of a key in part p is at least keys x p / 10.
        (u128::from(arguments.keys) * u128::from(part)).div_ceil(u128::from(PARTS))
    };
    let parts = (0..PARTS)
        .zip(drawn)
        .map(|(part, count)| {
            let expected = if is_scattered {
                // The permutation spreads the hot keys over the parts as it spreads all keys.
                (end_of(part + 1) - end_of(part)) as f64 / arguments.keys as f64
            } else {
                law.share(end_of(part), end_of(part + 1))
            };
            (expected, seed.map(|_| count as f64 / arguments.draws as f64))
        })
        .collect();
    let name = arguments.distribution.to_string();
    Figures {
        audit: counter.audit(&sampler, "command line", &name),
        parts,
        hottest: law.share_of_top(1),
        seed,
    }
}

fn text(out: &mut impl Write, arguments: &Arguments, figures: &Figures) -> std::io::Result<()> {
    let share = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.5}"));
    writeln!(out, "distribution   {}", figures.audit.distribution)?;
    writeln!(out, "keys           {}", arguments.keys)?;
    if let Some(seed) = figures.seed {
        writeln!(out, "draws          {} (seed {seed})", arguments.draws)?;
    }
    writeln!(out)?;
    let tops: Vec<String> =
        TOP_RATIOS.iter().map(|ratio| format!("{:.0}%", ratio * 100.0)).collect();
    writeln!(out, "access probability of the most likely {} of keys", tops.join(", ").trim())?;
    let row =
        |values: Vec<Option<f64>>| values.into_iter().map(share).collect::<Vec<_>>().join("  ");
    let expected = figures.audit.shares.iter().map(|s| Some(s.expected_ratio)).collect();
    writeln!(out, "  expected     {}", row(expected))?;
    if figures.seed.is_some() {
        let drawn = figures.audit.shares.iter().map(|s| s.drawn_ratio).collect();
        writeln!(out, "  drawn        {}", row(drawn))?;
        let verdict = if figures.audit.is_passed {
            "drawn and expected agree within chance"
        } else {
            "DRAWN AND EXPECTED DIFFER by more than chance"
        };
        writeln!(out, "  audit        {verdict}")?;
    }
    // Of many keys even the hottest one's share has no digit in a fixed number of decimals.
    if figures.hottest < 1e-4 {
        writeln!(out, "hottest key    {:.4e}", figures.hottest)?;
    } else {
        writeln!(out, "hottest key    {:.6}", figures.hottest)?;
    }
    writeln!(out)?;
    writeln!(out, "share of draws by tenth of the key space")?;
    let most = figures.parts.iter().map(|(e, _)| *e).fold(0.0, f64::max);
    for (part, (expected, drawn)) in figures.parts.iter().enumerate() {
        let width = if most > 0.0 { (expected / most * PLOT_WIDTH).round() } else { 0.0 };
        let bar = "#".repeat(width as usize);
        let drawn = drawn.map_or_else(String::new, |drawn| format!("  {drawn:.5}"));
        let line = format!("  {:>3}%  {expected:.5}{drawn}  {bar}", (part + 1) * 10);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn csv(out: &mut impl Write, figures: &Figures) -> std::io::Result<()> {
    writeln!(out, "kind,place_ratio,expected_ratio,drawn_ratio")?;
    let cell = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| ratio.to_string());
    for share in &figures.audit.shares {
        let drawn = cell(share.drawn_ratio);
        writeln!(out, "top,{},{},{drawn}", share.top_ratio, share.expected_ratio)?;
    }
    for (part, (expected, drawn)) in figures.parts.iter().enumerate() {
        writeln!(out, "tenth,{},{expected},{}", (part + 1) as f64 / PARTS as f64, cell(*drawn))?;
    }
    Ok(())
}

fn json(out: &mut impl Write, figures: &Figures) -> std::io::Result<()> {
    let tenths: Vec<_> = figures
        .parts
        .iter()
        .map(|(expected, drawn)| {
            serde_json::json!({ "expected_ratio": expected, "drawn_ratio": drawn })
        })
        .collect();
    let document = serde_json::json!({
        "audit": figures.audit,
        "hottest_key_ratio": figures.hottest,
        "seed": figures.seed,
        "tenths": tenths,
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
