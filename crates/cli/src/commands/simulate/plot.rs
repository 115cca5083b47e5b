//! Results as a chart: an SVG drawing of one trace, or an HTML page of all.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use evenkeel_lab::experiment::store;
use evenkeel_lab::report::html::miss_ratio::{self, Figure, Line, Point};
use evenkeel_lab::report::model;

use super::output;
use super::results::{Cell, Count, Results};

/// Where a chart goes, checked before the work.
pub(super) struct Plot {
    path: PathBuf,
    is_page: bool,
}

impl Plot {
    /// A chart of so many traces at `path`.
    pub(super) fn new(path: &Path, traces: usize) -> anyhow::Result<Self> {
        let shown = path.display();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let is_page = match ending.to_ascii_lowercase().as_str() {
            "html" | "htm" => true,
            "svg" => false,
            _ => bail!("--plot {shown}: a name that ends in .svg or .html is wanted"),
        };
        if !is_page && traces > 1 {
            bail!("--plot {shown}: a drawing shows one trace, not {traces}: name it .html");
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => bail!("--plot {shown}: is no regular file"),
            _ => {}
        }
        if !folder(path).is_dir() {
            bail!("--plot {shown}: there is no folder {}", folder(path).display());
        }
        Ok(Self { path: path.to_owned(), is_page })
    }

    /// Writes it, in one step.
    pub(super) fn write(&self, all: &[Results]) -> anyhow::Result<()> {
        let figures: Vec<Figure> = all.iter().map(figure).collect();
        let name = self.path.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("--plot {}: no name", self.path.display()))?;
        let command: Vec<String> = std::env::args().collect();
        store::replace_file(folder(&self.path), name, |file| {
            let mut out = std::io::BufWriter::new(file);
            match figures.first() {
                Some(figure) if !self.is_page => miss_ratio::drawing(figure, &mut out)?,
                _ => miss_ratio::page(&figures, &model::command_line(&command), &mut out)?,
            }
            std::io::Write::flush(&mut out)
        })?;
        Ok(())
    }
}

/// The folder that a file's name is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn figure(results: &Results) -> Figure {
    let lines = |of: fn(&Cell) -> Count| -> Vec<Line> {
        let line = |row: &super::results::Row| Line {
            name: row.policy.clone(),
            is_bound: row.is_bound,
            points: results
                .sizes
                .iter()
                .zip(&row.cells)
                .filter_map(|(frames, cell)| {
                    let Count { count, interval } = of(cell);
                    let end = |count| cell.ratio(count).unwrap_or_default();
                    Some(Point {
                        frames: *frames,
                        ratio: cell.ratio(count)?,
                        interval: interval.map(|(low, high)| (end(low), end(high))),
                    })
                })
                .collect(),
        };
        results.rows.iter().map(line).collect()
    };
    let has_writes = results.facts.has_writes;
    Figure {
        title: results.facts.name.clone(),
        facts: [Some(output::facts(&results.facts)), output::sample(&results.facts)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; "),
        page_bytes: results.facts.page_bytes,
        misses: lines(|cell| cell.misses),
        write_backs: if has_writes { lines(|cell| cell.write_backs) } else { Vec::new() },
    }
}
