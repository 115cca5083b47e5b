//! Reads every trace of a folder and compares its counts with those in the folder's README.md: table
//! rows of the form `| path | bytes | requests | distinct | ...`. A path may end in `*` (several files
//! of the same content); only rows with both counts are looked at.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use evenkeel::runtime::{Clock, OsRuntime};
use evenkeel_cachesim::trace::{self, Options};

use crate::{print, say};

/// A row of the table.
struct Row {
    path: String,
    requests: u64,
    distinct: u64,
}

pub(crate) fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [folder] = arguments else {
        bail!("name the folder: cargo xtask check-traces FOLDER");
    };
    let folder = Path::new(folder);
    let readme = folder.join("README.md");
    let text = std::fs::read_to_string(&readme)
        .with_context(|| format!("cannot read {}", readme.display()))?;
    let rows = rows(&text);
    if rows.is_empty() {
        bail!("{} has no row of path, bytes, requests, distinct", readme.display());
    }
    let runtime = OsRuntime::new();
    let (mut checked, mut wrong) = (0, 0);
    for row in &rows {
        let files = files(folder, &row.path)?;
        if files.is_empty() {
            print(&format!("{:<44} MISSING", row.path));
            wrong += 1;
        }
        for file in files {
            let begun = runtime.now();
            let shown = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            checked += 1;
            match trace::load(&file, &Options::default(), &mut |_| {}) {
                Ok(dense) => {
                    let found = (dense.references().len() as u64, u64::from(dense.pages()));
                    let is_right = found == (row.requests, row.distinct);
                    let seconds = runtime.now().nanos_since(begun) as f64 / 1e9;
                    let verdict = if is_right { "ok" } else { "WRONG" };
                    print(&format!(
                        "{shown:<44} {:>10} {:>9} {:>8} writes  {seconds:>5.2} s  {verdict}",
                        found.0,
                        found.1,
                        dense.writes()
                    ));
                    wrong += u32::from(!is_right);
                }
                Err(error) => {
                    say(&format!("{error}"));
                    wrong += 1;
                }
            }
        }
    }
    if wrong > 0 {
        bail!("{wrong} of {checked} traces do not have the counts of {}", readme.display());
    }
    print(&format!("{checked} traces have the counts that {} lists", readme.display()));
    Ok(())
}

fn rows(text: &str) -> Vec<Row> {
    let number = |cell: &str| cell.replace(',', "").parse::<u64>().ok();
    text.lines()
        .filter_map(|line| {
            let cells: Vec<&str> =
                line.trim().strip_prefix('|')?.split('|').map(str::trim).collect();
            let (path, requests, distinct) = (cells.first()?, cells.get(2)?, cells.get(3)?);
            Some(Row {
                path: (*path).to_owned(),
                requests: number(requests)?,
                distinct: number(distinct)?,
            })
        })
        .collect()
}

fn files(folder: &Path, path: &str) -> anyhow::Result<Vec<PathBuf>> {
    let Some(prefix) = path.strip_suffix('*') else {
        let file = folder.join(path);
        return Ok(if file.is_file() { vec![file] } else { Vec::new() });
    };
    let (inner, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder.join(inner))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(start) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_counts_are_passed_over() {
        let rows = rows(
            "| file | bytes | requests | distinct | what |\n|---|--:|--:|--:|---|\n\
                         | a/b.gz | 1,234 | 10,448 | 3,083 | x |\n| c | d |\ntext\n",
        );
        assert_eq!(rows.len(), 1);
        assert_eq!(
            (rows[0].path.as_str(), rows[0].requests, rows[0].distinct),
            ("a/b.gz", 10_448, 3_083)
        );
    }
}
