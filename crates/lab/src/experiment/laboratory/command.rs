//! Commands of the experiment file, run between runs.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::runtime::Runtime;

/// How often a command is looked after.
const LOOK_EVERY_NS: u64 = 20_000_000;

/// Runs `words` (program, arguments) and waits for it; it is killed when `stop` is set.
///
/// # Errors
/// What went wrong, with the command's last words.
pub(super) fn run(
    words: &[String],
    runtime: &dyn Runtime,
    stop: &AtomicBool,
) -> Result<(), String> {
    let [program, arguments @ ..] = words else {
        return Err("an empty command".to_owned());
    };
    // To a file and not a pipe: a pipe that nobody reads would stop the command when it is full.
    let output = tempfile().map_err(|error| format!("cannot make a file for output: {error}"))?;
    let clone = || output.try_clone().map(Stdio::from);
    let (standard, errors) = match (clone(), clone()) {
        (Ok(standard), Ok(errors)) => (standard, errors),
        (Err(error), _) | (_, Err(error)) => return Err(format!("{program}: {error}")),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(standard)
        .stderr(errors)
        .spawn()
        .map_err(|error| format!("cannot run '{program}': {error}"))?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if stop.load(Ordering::Relaxed) => {
                // It may have ended by itself meanwhile, which is as good.
                let _ = child.kill();
                let _ = child.wait();
                return Err("interrupted".to_owned());
            }
            Ok(None) => runtime.sleep_until(runtime.now().plus_nanos(LOOK_EVERY_NS)),
            Err(error) => return Err(format!("waiting for '{program}': {error}")),
        }
    };
    if status.success() {
        return Ok(());
    }
    Err(format!("'{}' failed ({status}): {}", words.join(" "), last_words(output)))
}

/// A file that is gone when it is closed.
fn tempfile() -> std::io::Result<std::fs::File> {
    let directory = std::env::temp_dir();
    rustix::fs::open(
        &directory,
        rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
    )
    .map(std::fs::File::from)
    .map_err(std::io::Error::from)
}

fn last_words(mut output: std::fs::File) -> String {
    use std::io::{Read, Seek, SeekFrom};
    const BYTES: u64 = 2000;
    let length = output.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    let read = output
        .seek(SeekFrom::Start(length.saturating_sub(BYTES)))
        .and_then(|_| Read::by_ref(&mut output).take(BYTES).read_to_end(&mut bytes));
    match read {
        Ok(0) => "it said nothing".to_owned(),
        Ok(_) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) => format!("its words cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::OsRuntime;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_command_that_fails_is_quoted_with_its_words() {
        let runtime = OsRuntime::new();
        let stop = AtomicBool::new(false);
        assert_eq!(run(&words(&["true"]), &runtime, &stop), Ok(()));
        let error = run(&words(&["ls", "/no such place"]), &runtime, &stop).unwrap_err();
        assert!(error.contains("No such file"), "{error}");
        assert!(
            run(&words(&["/no/such/program"]), &runtime, &stop).unwrap_err().contains("cannot run")
        );
    }

    #[test]
    fn a_command_does_not_outlive_the_users_patience() {
        let stop = AtomicBool::new(true);
        let error = run(&words(&["sleep", "1000"]), &OsRuntime::new(), &stop).unwrap_err();
        assert_eq!(error, "interrupted");
    }

    #[test]
    fn no_shell_reads_the_arguments() {
        let stop = AtomicBool::new(false);
        let error = run(&words(&["ls", "$(true); *"]), &OsRuntime::new(), &stop).unwrap_err();
        assert!(error.contains("$(true); *"), "{error}");
    }
}
