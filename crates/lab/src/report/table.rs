//! Tables of text that fit the width there is.
//!
//! Rules:
//!
//! 1. A column is as wide as its widest cell, with two columns of space between.
//! 2. Where that is too wide, in this order: the space shrinks to one, columns that say more than is
//!    needed are dropped, and the first column's names are cut, each in its middle, where names of
//!    servers' counters differ least.
//! 3. Numbers are never cut.

use super::model::Tone;
use super::text;

/// Narrowest first column: below this names say nothing.
const LABEL_MIN: usize = 14;

/// A table in the making.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// A column's heading and how it behaves.
#[derive(Debug)]
struct Column {
    heading: String,
    is_left: bool,
    /// Whether the table still says what it must without it.
    is_spare: bool,
}

#[derive(Debug)]
struct Row {
    cells: Vec<String>,
    /// How the last cell should be felt.
    tone: Tone,
}

impl Table {
    /// A table whose first column holds names.
    pub(super) fn new(label: &str) -> Self {
        Self::default().column(label, true, false)
    }

    /// A column of words.
    pub(super) fn words(self, heading: &str) -> Self {
        self.column(heading, true, false)
    }

    /// A column of numbers.
    pub(super) fn numbers(self, heading: &str) -> Self {
        self.column(heading, false, false)
    }

    /// A column of numbers that is left out where there is no room.
    pub(super) fn spare(self, heading: &str) -> Self {
        self.column(heading, false, true)
    }

    fn column(mut self, heading: &str, is_left: bool, is_spare: bool) -> Self {
        self.columns.push(Column { heading: heading.to_owned(), is_left, is_spare });
        self
    }

    /// Adds a row with a cell for each column; `tone` is the last cell's.
    pub(super) fn row(&mut self, cells: Vec<String>, tone: Tone) {
        // Escapes take more columns than what they stand for: before widths are taken.
        let cells = cells.iter().map(|cell| text::visible(cell, 200)).collect();
        self.rows.push(Row { cells, tone });
    }

    /// The lines: what stands before the last cell, and the last cell with its tone. The first line
    /// holds the headings.
    pub(super) fn lines(mut self, width: usize) -> Vec<(String, Tone, String)> {
        let mut widths = self.widths();
        let mut gap = 2;
        let total = |widths: &[usize], gap: usize| {
            widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1)
        };
        if total(&widths, gap) > width {
            gap = 1;
        }
        while total(&widths, gap) > width {
            let Some(place) = self.columns.iter().rposition(|column| column.is_spare) else {
                break;
            };
            self.columns.remove(place);
            for row in &mut self.rows {
                if place < row.cells.len() {
                    row.cells.remove(place);
                }
            }
            widths = self.widths();
        }
        let over = total(&widths, gap).saturating_sub(width);
        if over > 0
            && let Some(first) = widths.first_mut()
        {
            *first = first.saturating_sub(over).max(LABEL_MIN.min(*first));
        }
        let headings: Vec<String> =
            self.columns.iter().map(|column| column.heading.clone()).collect();
        let heading = Row { cells: headings, tone: Tone::Neutral };
        std::iter::once(&heading)
            .chain(&self.rows)
            .map(|row| self.line(row, &widths, gap))
            .collect()
    }

    fn line(&self, row: &Row, widths: &[usize], gap: usize) -> (String, Tone, String) {
        let mut line = String::new();
        let last = self.columns.len().saturating_sub(1);
        for (place, (column, width)) in self.columns.iter().zip(widths).enumerate() {
            let cell = row.cells.get(place).map_or("", String::as_str);
            let cell = if place == 0 { cut(cell, *width) } else { cell.to_owned() };
            let room = width.saturating_sub(text::columns(&cell));
            if place > 0 {
                line.extend(std::iter::repeat_n(' ', gap));
            }
            if place == last && column.is_left {
                return (line, row.tone, cell);
            }
            if column.is_left {
                line.push_str(&cell);
            }
            line.extend(std::iter::repeat_n(' ', room));
            if !column.is_left {
                if place == last {
                    return (line, row.tone, cell);
                }
                line.push_str(&cell);
            }
        }
        (line, row.tone, String::new())
    }

    fn widths(&self) -> Vec<usize> {
        (0..self.columns.len())
            .map(|place| {
                let heading = self.columns.get(place).map_or(0, |it| text::columns(&it.heading));
                let cells = self.rows.iter().filter_map(|row| row.cells.get(place));
                cells.map(|cell| text::columns(cell)).fold(heading, usize::max)
            })
            .collect()
    }
}

/// `name` in at most `width` columns; what is too long loses its middle.
pub(super) fn cut(name: &str, width: usize) -> String {
    if text::columns(name) <= width {
        return name.to_owned();
    }
    let room = width.saturating_sub(2);
    let (mut head, mut tail) = (String::new(), Vec::new());
    let mut used = 0;
    let mut characters = name.chars();
    // More of the end than of the beginning: names of counters begin alike.
    loop {
        let is_tail = used % 3 != 0;
        let Some(next) = (if is_tail { characters.next_back() } else { characters.next() }) else {
            break;
        };
        used += text::columns(next.encode_utf8(&mut [0; 4]));
        if used > room {
            break;
        }
        if is_tail {
            tail.push(next);
        } else {
            head.push(next);
        }
    }
    head.push_str("..");
    head.extend(tail.iter().rev());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new("costs").numbers("baseline").spare("detects").words("mark");
        for name in ["WAL bytes", "pg_stat_checkpointer.buffers_written"] {
            table.row(
                vec![name.into(), "12.3".into(), "4.5%".into(), "same(5%)".into()],
                Tone::Neutral,
            );
        }
        table
    }

    fn shown(width: usize) -> Vec<String> {
        sample().lines(width).into_iter().map(|(line, _, last)| format!("{line}{last}")).collect()
    }

    #[test]
    fn a_narrow_terminal_loses_space_then_spare_columns_then_middles_of_names_but_no_number() {
        let wide = shown(100);
        assert!(
            wide[0].contains("detects") && wide[2].starts_with("pg_stat_checkpointer.buffers_")
        );
        let narrow = shown(60);
        assert!(!narrow[0].contains("detects"), "{narrow:?}");
        assert!(narrow[2].contains("buffers_written "), "{narrow:?}");
        let narrowest = shown(40);
        assert!(narrowest[2].contains("..") && narrowest[2].contains("_written"), "{narrowest:?}");
        for width in [40, 50, 60, 80, 100] {
            for line in shown(width) {
                assert!(text::columns(&line) <= width, "{width}: {line}");
                assert!(line.starts_with("costs") || line.contains("12.3"), "{width}: {line}");
            }
        }
    }

    #[test]
    fn numbers_stand_under_the_end_of_their_heading() {
        let lines = shown(100);
        let end = |line: &str, word: &str| line.find(word).unwrap() + word.len();
        assert_eq!(end(&lines[0], "baseline"), end(&lines[1], "12.3"));
        assert_eq!(end(&lines[0], "detects"), end(&lines[2], "4.5%"));
    }

    #[test]
    fn a_cut_name_keeps_its_width_whatever_its_characters() {
        for width in 3..20 {
            let name = cut("pg_stat_表表表表表.blks_ünlucky_表表", width);
            assert!(text::columns(&name) <= width, "{width}: {name}");
        }
    }
}
