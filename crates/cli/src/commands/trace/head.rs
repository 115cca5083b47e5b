//! `evenkeel trace head`.

use std::fmt::Write as _;

use evenkeel_cachesim::trace::{Access, Format};
use evenkeel_lab::report::text::visible;

use super::{TraceInput, print};
use crate::exit::Outcome;

/// Print the first references of a trace
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 10)]
    count: usize,
    #[command(flatten)]
    input: TraceInput,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let mut reader = arguments.input.open()?;
    let is_postgres = matches!(
        reader.format(),
        Format::PgLookups | Format::PgWaldump | Format::PgBuffercache | Format::PgProbes
    );
    let mut out = String::new();
    let mut left = arguments.count;
    let page = if is_postgres { "block" } else { "page" };
    let _ = writeln!(out, "{page:>20}  {:<7}  {:>16}  class", "op", "time s");
    let mut batch = Vec::new();
    let mut failure = None;
    while left > 0 {
        match reader.read(&mut batch) {
            Ok(true) => {}
            Ok(false) => break,
            // What comes before the place of an error is shown, too.
            Err(error) => failure = Some(error),
        }
        for event in batch.drain(..).flat_map(evenkeel_cachesim::trace::Reference::each).take(left)
        {
            left -= 1;
            let page = if is_postgres { event.page & u64::from(u32::MAX) } else { event.page };
            let access = match event.access {
                Access::Read => "read",
                Access::Write => "write",
                Access::Dirtied => "dirtied",
            };
            let time =
                event.time_us.map_or_else(|| "-".to_owned(), |t| format!("{:.6}", t as f64 / 1e6));
            let class = event.class.and_then(|class| reader.classes().get(usize::from(class)));
            let class = class.map_or_else(String::new, |class| visible(class, 48));
            let line = format!("{page:>20}  {access:<7}  {time:>16}  {class}");
            let _ = writeln!(out, "{}", line.trim_end());
        }
        if failure.is_some() {
            break;
        }
    }
    let printed = print(&out)?;
    match failure {
        Some(error) if left > 0 => Err(error.into()),
        _ => Ok(printed),
    }
}
