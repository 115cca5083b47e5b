//! Miss-ratio curves of replacement policies: a page with a drawing for each trace, or one drawing by
//! itself.
//!
//! The drawing by itself has its few rules of style in it and plain colours: what turns it into paper
//! seldom knows variables or media.

use std::io::{self, Write};

use super::chart::{self, Anchor, Chart, Form};
use super::escape::{At, Lines, Sink, Text, put};
use super::scale::{Quantity, Scale, Spread};
use crate::report::text;

/// Places of a drawing, in its own units.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 690.0;
const LEGEND: f64 = 712.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 360.0;
const HEIGHT: f64 = 410.0;
/// From one name of the legend to the next, and from one line of a name to the next.
const STEP: f64 = 18.0;
const LINE: f64 = 14.0;
/// Longest line of a name, and most lines; the table has it whole.
const NAME_COLUMNS: usize = 34;
const NAME_LINES: usize = 3;

/// Most lines whose intervals are drawn.
const BANDS_MAX: usize = 4;

/// Classes of the hues, and their colours on white paper; the style sheet has the same.
const HUES: [(&str, &str); 9] = [
    ("c0", "#0064a8"),
    ("c1", "#c8500a"),
    ("c2", "#00805c"),
    ("c3", "#8a4fa3"),
    ("c4", "#b3261e"),
    ("c5", "#7a6a00"),
    ("c6", "#00808f"),
    ("c7", "#a8327a"),
    ("c8", "#5b6472"),
];
/// Classes of the lines once all hues are used.
const DASHES: [&str; 3] = ["medium", "medium dashed", "medium dotted"];

/// Style of a drawing by itself, without the hues.
const STYLE: &str = "text{font:12px system-ui,Helvetica,Arial,sans-serif;fill:#1a1d23}\
text.mark{fill:#5b6472;font-size:11.5px}text.name{fill:#5b6472;font-weight:600}\
.grid{stroke:#e8ebef;fill:none}.axis{stroke:#5b6472;fill:none}.paper{fill:#fff}\
.line{fill:none;stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}\
.dashed{stroke-dasharray:7 3}.dotted{stroke-dasharray:1.5 4}\
.dot{stroke:#fff;stroke-width:1.2}.spread{opacity:.15}\
.bound.line{stroke:#1a1d23}.bound.dot,.bound.spread{fill:#1a1d23}";

/// A size of cache and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Size of the cache in pages.
    pub frames: u32,
    /// Share of the references, 0 to 1.
    pub ratio: f64,
    /// Its 95% interval, where it is an estimate.
    pub interval: Option<(f64, f64)>,
}

/// A policy's curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The policy.
    pub name: String,
    /// Whether it is a bound that no cache can have, and not a policy.
    pub is_bound: bool,
    /// By size, ascending.
    pub points: Vec<Point>,
}

/// What is drawn of one trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The trace's name.
    pub title: String,
    /// What it consists of, in a sentence.
    pub facts: String,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Misses a reference.
    pub misses: Vec<Line>,
    /// Evictions of dirty pages a reference; empty where the trace has no writes.
    pub write_backs: Vec<Line>,
}

/// One of a figure's two drawings.
struct Panel<'f> {
    figure: &'f Figure,
    lines: &'f [Line],
    what: &'static str,
}

/// How a line is told from the others.
#[derive(Clone, Copy)]
struct Mark {
    hue: &'static str,
    dash: &'static str,
    form: Form,
}

/// A page with all figures, and the command that repeats them.
///
/// # Errors
/// What the writer refuses.
pub fn page(figures: &[Figure], command: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut sink = Sink::new(out);
    let sink = &mut sink;
    super::open_page("Miss ratios", sink)?;
    sink.put(
        "<header><h1>Miss ratios</h1><p>How many references of a trace miss in a cache of so many pages, \
         by replacement policy. Names stand in the order of the lines at the middle size.</p></header>",
    )?;
    for figure in figures {
        put!(sink, "<section><h2>", Text(&figure.title), "</h2><p>", Text(&figure.facts), "</p>");
        for panel in figure.panels() {
            chart::open(sink, chart::WIDE, panel.height(), &panel.label())?;
            panel.draw(sink)?;
            chart::close(sink)?;
            panel.table(sink)?;
        }
        sink.put("</section>")?;
    }
    put!(
        sink,
        "<section><h2>Repeat it</h2><pre class=\"command\">",
        Lines(command),
        "</pre></section></main></body></html>\n",
    );
    Ok(())
}

/// A figure's drawings, one below the other, as an SVG file.
///
/// # Errors
/// What the writer refuses.
pub fn drawing(figure: &Figure, out: &mut dyn Write) -> io::Result<()> {
    let mut sink = Sink::new(out);
    let sink = &mut sink;
    let panels = figure.panels();
    let head = 40.0;
    let height = head + panels.iter().map(Panel::height).sum::<f64>();
    put!(
        sink,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"960\" height=\"",
        At(height),
        "\" viewBox=\"0 0 960 ",
        At(height),
        "\" aria-label=\"Miss ratios of ",
        Text(&figure.title),
        "\"><style>",
        STYLE,
    );
    for (class, colour) in HUES {
        put!(sink, ".", class, ".line{stroke:", colour, "}.", class, ".dot,.", class);
        put!(sink, ".spread{fill:", colour, "}");
    }
    put!(sink, "</style><rect class=\"paper\" width=\"960\" height=\"", At(height), "\"/>");
    for (y, class, words) in [(16.0, "name", &figure.title), (32.0, "mark", &figure.facts)] {
        chart::label(sink, (LEFT - 6.0, y), Anchor::Start, class, &text::visible(words, 140))?;
    }
    let mut top = head;
    for panel in &panels {
        put!(sink, "<g transform=\"translate(0 ", At(top), ")\">");
        panel.draw(sink)?;
        sink.put("</g>")?;
        top += panel.height();
    }
    chart::close(sink)
}

impl Figure {
    fn panels(&self) -> Vec<Panel<'_>> {
        let misses = Panel { figure: self, lines: &self.misses, what: "misses" };
        let write_backs =
            Panel { figure: self, lines: &self.write_backs, what: "dirty pages evicted" };
        [misses, write_backs].into_iter().filter(|panel| !panel.lines.is_empty()).collect()
    }
}

impl Panel<'_> {
    fn height(&self) -> f64 {
        let names: f64 = self.lines.iter().map(|line| name_height(&name_lines(&line.name))).sum();
        HEIGHT.max(names + TOP + 20.0)
    }

    fn label(&self) -> String {
        format!("{} a reference by size of cache, {}", self.what, self.figure.title)
    }

    fn draw(&self, sink: &mut Sink<'_>) -> io::Result<()> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Scale::covering(
            Spread::Logarithmic,
            Quantity::Plain,
            points().map(|point| f64::from(point.frames)),
            (LEFT, RIGHT),
        );
        // Intervals of caches that a sample cannot tell from none would press all else to the ground;
        // what goes beyond the top ends there.
        let ratios = points().map(|point| point.ratio);
        let y = Scale::covering(
            Spread::Linear,
            Quantity::Share,
            ratios.chain([0.0, 1e-6]),
            (BOTTOM, TOP),
        );
        let mut drawing = Chart { sink, x, y };
        let pages = format!("pages in the cache, of {} bytes", self.figure.page_bytes);
        drawing.axes(9, &pages, 6, &format!("{}, share of the references", self.what))?;
        // More bands than these hide each other; the numbers have them all.
        let banded = if self.lines.len() <= BANDS_MAX { self.lines } else { &[] };
        for (place, line) in banded.iter().enumerate() {
            let ends: Vec<(f64, Option<f64>, Option<f64>)> = line
                .points
                .iter()
                .filter_map(|point| Some((point, point.interval?)))
                .map(|(point, (low, high))| (f64::from(point.frames), Some(low), Some(high)))
                .collect();
            drawing.band(&ends, "spread", mark(place, line).hue)?;
        }
        for (place, line) in self.lines.iter().enumerate() {
            let mark = mark(place, line);
            let points = line.points.iter();
            let places = points.map(|point| (f64::from(point.frames), Some(point.ratio)));
            drawing.line(places, mark.dash, mark.hue)?;
            for point in &line.points {
                let hover = format!("{}, {} pages: {}", line.name, point.frames, words(point));
                let place = (f64::from(point.frames), point.ratio);
                drawing.dot(place, mark.form, "dot", mark.hue, &hover)?;
            }
        }
        self.legend(sink)
    }

    /// The names, in the order in which the lines lie one above the other at the middle size.
    fn legend(&self, sink: &mut Sink<'_>) -> io::Result<()> {
        let height = |line: &Line| line.points.get(line.points.len() / 2).map_or(0.0, |p| p.ratio);
        let mut order: Vec<(usize, &Line)> = self.lines.iter().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| height(b).total_cmp(&height(a)));
        let mut y = TOP + 6.0;
        for (place, line) in order {
            let mark = mark(place, line);
            put!(sink, "<path d=\"M", At(LEGEND), " ", At(y), "h24\" class=\"line ");
            put!(sink, mark.dash, " ", mark.hue, "\"/>");
            chart::dot_at(sink, (LEGEND + 12.0, y), mark.form, "dot", mark.hue, &line.name)?;
            let name = name_lines(&line.name);
            let mut base = y + 4.0;
            for words in &name {
                chart::label(sink, (LEGEND + 31.0, base), Anchor::Start, "mark", words)?;
                base += LINE;
            }
            y += name_height(&name);
        }
        Ok(())
    }

    fn table(&self, sink: &mut Sink<'_>) -> io::Result<()> {
        put!(sink, "<details><summary>Numbers: ", self.what, ", % of the references</summary>");
        sink.put("<div class=\"scroll\"><table><thead><tr><th>pages</th>")?;
        let sizes: &[Point] = self.lines.first().map_or(&[], |line| &line.points);
        for point in sizes {
            put!(sink, "<th class=\"n\">", Text(point.frames.to_string()), "</th>");
        }
        sink.put("</tr></thead><tbody>")?;
        for line in self.lines {
            put!(sink, "<tr><th scope=\"row\">", Text(&line.name), "</th>");
            for point in &line.points {
                put!(sink, "<td class=\"n\">", Text(words(point)), "</td>");
            }
            sink.put("</tr>")?;
        }
        sink.put("</tbody></table></div></details>")
    }
}

/// A name as it stands in a legend. Policies differ in their last parameters as often as in the first.
fn name_lines(name: &str) -> Vec<String> {
    let mut lines = text::wrap(&text::visible(name, NAME_COLUMNS * NAME_LINES), NAME_COLUMNS);
    lines.truncate(NAME_LINES);
    lines
}

fn name_height(lines: &[String]) -> f64 {
    let further = lines.len().saturating_sub(1) as f64;
    LINE.mul_add(further, STEP)
}

fn mark(place: usize, line: &Line) -> Mark {
    let form = chart::arm_form(u32::try_from(place % 3).unwrap_or(0));
    if line.is_bound {
        return Mark { hue: "bound", dash: "medium dashed", form };
    }
    let hue = HUES[place % HUES.len()].0;
    Mark { hue, dash: DASHES[place / HUES.len() % DASHES.len()], form }
}

fn words(point: &Point) -> String {
    let percent = |ratio: f64| format!("{:.3}", ratio * 100.0);
    match point.interval {
        Some((low, high)) => {
            format!("{} ({} .. {})", percent(point.ratio), percent(low), percent(high))
        }
        None => percent(point.ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::HOSTILE;

    fn line(name: &str, is_bound: bool, ratios: &[f64]) -> Line {
        let points = ratios.iter().zip([10, 100, 1000]);
        let point = |(ratio, frames): (&f64, u32)| Point {
            frames,
            ratio: *ratio,
            interval: is_bound.then_some((ratio * 0.9, ratio * 1.1)),
        };
        Line { name: name.to_owned(), is_bound, points: points.map(point).collect() }
    }

    fn figure(title: &str) -> Figure {
        let misses = vec![
            line("lru", false, &[0.9, 0.5, 0.1]),
            line("optimum", true, &[0.7, 0.3, 0.05]),
            line(title, false, &[0.8, 0.4, 0.08]),
        ];
        let write_backs = vec![line("lru", false, &[0.2, 0.1, 0.0])];
        let facts = "1,000 references".to_owned();
        Figure { title: title.to_owned(), facts, page_bytes: 8192, misses, write_backs }
    }

    fn text_of(render: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        render(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_is_drawn_named_and_in_the_table() {
        let page = text_of(|out| page(&[figure("trace"), figure("other")], "evenkeel x", out));
        super::super::tests::tokens(&page);
        assert_eq!(page.matches("<svg class=\"chart\"").count(), 4);
        for words in ["<td class=\"n\">50.000</td>", "30.000 (27.000 .. 33.000)", "evenkeel x"] {
            assert!(page.contains(words), "{words}");
        }
        // A curve and its sample in the legend.
        assert_eq!(page.matches("class=\"line medium dashed bound\"").count(), 4);
    }

    #[test]
    fn a_drawing_by_itself_needs_no_style_sheet_and_no_variable() {
        let drawing = text_of(|out| drawing(&figure("trace"), out));
        assert!(drawing.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
        assert!(!drawing.contains("var("), "{drawing}");
        let sheet = include_str!("style.css");
        for (class, colour) in HUES {
            assert!(drawing.contains(&format!(".{class}.line{{stroke:{colour}}}")), "{class}");
            assert!(sheet.contains(&format!("--{class}:{colour};")), "{class}");
        }
    }

    #[test]
    fn names_from_a_trace_open_no_element() {
        for hostile in HOSTILE {
            let figures = [figure(hostile)];
            let page = text_of(|out| page(&figures, hostile, out));
            super::super::tests::tokens(&page);
            let drawing = text_of(|out| drawing(&figures[0], out));
            for absurd in ["<script", "onload=alert(1)>", "\u{202e}", "NaN"] {
                assert!(!page.contains(absurd) && !drawing.contains(absurd), "{absurd}");
            }
        }
    }

    #[test]
    fn a_long_name_is_told_from_its_neighbour_by_its_last_parameter() {
        let names =
            [3000, 30_000].map(|delay| format!("clock_sweep(cap=10, initial=3, delay_ms={delay})"));
        let misses = names.iter().map(|name| line(name, false, &[0.5, 0.4, 0.3])).collect();
        let figure = Figure { misses, ..figure("trace") };
        let drawing = text_of(|out| drawing(&figure, out));
        for last in ["delay_ms=3000)</text>", "delay_ms=30000)</text>"] {
            assert!(drawing.contains(last), "{last}");
        }
    }

    #[test]
    fn nothing_to_draw_is_drawn_as_nothing() {
        let empty = Figure { misses: Vec::new(), write_backs: Vec::new(), ..figure("none") };
        assert!(text_of(|out| drawing(&empty, out)).ends_with("</svg>\n"));
        let zero = Figure { misses: vec![line("lru", false, &[0.0, 0.0, 0.0])], ..empty };
        assert!(!text_of(|out| drawing(&zero, out)).contains("NaN"));
    }
}
