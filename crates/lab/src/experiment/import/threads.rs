//! Which files are one run's: `prefix.PID` is the log of pgbench's first thread, `prefix.PID.N` that of its
//! N-th further one (pgbench.c, `threadRun`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::ImportError;

/// Groups files by run: `prefix.PID` and `prefix.PID.THREAD` belong together.
///
/// # Errors
/// When a thread's file of a run is not among them, or a file is given twice: the rest would be a part of
/// the run that passes for the whole.
pub fn group_by_run(paths: &[PathBuf]) -> Result<BTreeMap<String, Vec<PathBuf>>, ImportError> {
    let mut groups = BTreeMap::<String, BTreeMap<u64, PathBuf>>::new();
    for path in paths {
        let (run, thread) = run_and_thread(path);
        if groups.entry(run).or_default().insert(thread, path.clone()).is_some() {
            return Err(ImportError::Whole(format!("{} is given twice", path.display())));
        }
    }
    for (run, threads) in &groups {
        let missing = missing(run, threads);
        if !missing.is_empty() {
            return Err(ImportError::Whole(format!(
                "{run} is the run of several threads, a file each; give all of them: {} not given",
                are(&missing)
            )));
        }
    }
    Ok(groups.into_iter().map(|(run, threads)| (run, threads.into_values().collect())).collect())
}

fn are(missing: &BTreeSet<String>) -> String {
    let listed: Vec<&str> = missing.iter().map(String::as_str).collect();
    format!("{} {}", listed.join(", "), if listed.len() == 1 { "is" } else { "are" })
}

/// Files of the run's threads that lie beside those given, or must exist since a later one does.
fn missing(run: &str, threads: &BTreeMap<u64, PathBuf>) -> BTreeSet<String> {
    let is_numbered = run.rsplit_once('.').is_some_and(|(_, process)| is_number(process));
    if !is_numbered {
        return BTreeSet::new();
    }
    let path_of =
        |thread: u64| if thread == 0 { run.to_owned() } else { format!("{run}.{thread}") };
    let last = threads.keys().copied().max().unwrap_or(0);
    // No pgbench has more threads than this; a larger number is no thread's.
    let before = (0..last.min(100_000)).filter(|thread| !threads.contains_key(thread));
    let beside = beside(Path::new(run)).filter(|thread| !threads.contains_key(thread));
    before.chain(beside).map(path_of).take(8).collect()
}

/// Numbers of the threads whose files lie in the directory.
fn beside(run: &Path) -> impl Iterator<Item = u64> {
    let directory = run.parent().filter(|it| !it.as_os_str().is_empty());
    let name = run.file_name().map(|name| name.to_string_lossy().into_owned());
    std::fs::read_dir(directory.unwrap_or(Path::new(".")))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(move |entry| {
            let entry = entry.file_name().to_string_lossy().into_owned();
            match entry.strip_prefix(name.as_deref()?)? {
                "" => Some(0),
                rest => rest.strip_prefix('.').filter(|it| is_number(it))?.parse().ok(),
            }
        })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The run's name, and the number of the thread.
fn run_and_thread(path: &Path) -> (String, u64) {
    let name = path.display().to_string();
    if let Some((before, thread)) = name.rsplit_once('.')
        && is_number(thread)
        && let Some((_, process)) = before.rsplit_once('.')
        && is_number(process)
        && let Ok(thread) = thread.parse()
    {
        return (before.to_owned(), thread);
    }
    (name, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_runs_threads_belong_together() {
        let paths = ["d/pgbench_log.12", "d/pgbench_log.12.1", "d/pgbench_log.13", "x.log"];
        let groups = group_by_run(&paths.map(PathBuf::from)).unwrap();
        let sizes: Vec<usize> = groups.values().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }

    #[test]
    fn half_of_a_runs_threads_never_pass_for_the_run() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        for name in ["pgbench_log.12", "pgbench_log.12.1", "pgbench_log.12.2", "pgbench_log.120"] {
            std::fs::write(path(name), "").unwrap();
        }
        for (given, missing) in [
            (&["pgbench_log.12"][..], "pgbench_log.12.1"),
            (&["pgbench_log.12", "pgbench_log.12.2"], "pgbench_log.12.1 is not given"),
            (&["pgbench_log.12.1", "pgbench_log.12.2"], "pgbench_log.12 is not given"),
            (&["pgbench_log.12", "pgbench_log.12"], "given twice"),
            (&["gone.7", "gone.7.2"], "gone.7.1 is not given"),
        ] {
            let given: Vec<PathBuf> = given.iter().map(|name| path(name)).collect();
            let message = group_by_run(&given).unwrap_err().to_string();
            assert!(message.contains(missing), "{given:?}: {message}");
        }
        let whole = ["pgbench_log.12", "pgbench_log.12.1", "pgbench_log.12.2", "pgbench_log.120"];
        assert_eq!(group_by_run(&whole.map(path)).unwrap().len(), 2);
    }
}
