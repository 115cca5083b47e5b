//! Ctrl-C and its like: once to end in order, twice to leave at once.

use std::sync::Arc;

use anyhow::Context as _;
use evenkeel::runtime::Runtime;
use evenkeel_lab::experiment::laboratory::Interruption;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// From now on SIGINT, SIGTERM and SIGHUP set the flags of the value returned. The second of them
/// ends the process: servers are shut down by the kernel with us, and what they leave behind is
/// removed by the next session.
///
/// # Errors
/// When the system refuses the handlers or a thread.
pub(crate) fn listen(runtime: &Arc<dyn Runtime>) -> anyhow::Result<Interruption> {
    listen_saying(
        runtime,
        "stopping: results so far are kept; once more to leave at once",
        "leaving; what is left behind is removed by the next session",
    )
}

/// As [`listen`], with what is said at the first signal and at the second.
///
/// # Errors
/// As [`listen`].
pub(crate) fn listen_saying(
    runtime: &Arc<dyn Runtime>,
    first: &'static str,
    second: &'static str,
) -> anyhow::Result<Interruption> {
    let interruption = Interruption::default();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signal handlers")?;
    let heard = interruption.clone();
    runtime
        .spawn(
            "signals",
            Box::new(move || {
                for (count, _) in signals.forever().enumerate() {
                    if count == 0 {
                        heard.interrupt();
                        say(first);
                    } else {
                        say(second);
                        std::process::exit(130);
                    }
                }
            }),
        )
        .context("a thread for signals")?;
    Ok(interruption)
}

#[allow(clippy::print_stderr, reason = "the answer to a signal is for the person who sent it")]
fn say(text: &str) {
    eprintln!("\nevenkeel: {text}");
}
