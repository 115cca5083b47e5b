//! Drawings: a frame with two axes, and what is drawn into it.
//!
//! Colours and widths come from classes of the style sheet, so that dark mode and print need no
//! second drawing. Explanations on hover are `<title>` elements: no script is needed for them.

use std::io;

use super::escape::{At, Sink, Text, put};
use super::scale::Scale;

/// Width of a drawing across the page, in its own units.
pub(super) const WIDE: f64 = 960.0;

/// A drawing with axes.
pub(super) struct Chart<'s, 'w> {
    pub(super) sink: &'s mut Sink<'w>,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

/// Which side of a mark its words stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Forms that can be told apart without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Circle,
    Square,
    Triangle,
}

/// The class of an arm's colour.
pub(super) const fn arm_class(arm: u32) -> &'static str {
    match arm {
        0 => "a0",
        1 => "a1",
        2 => "a2",
        _ => "a3",
    }
}

/// The form of an arm's dots.
pub(super) const fn arm_form(arm: u32) -> Form {
    match arm % 3 {
        0 => Form::Circle,
        1 => Form::Square,
        _ => Form::Triangle,
    }
}

/// Opens a drawing; `label` tells people who do not see it what it shows.
pub(super) fn open(sink: &mut Sink<'_>, width: f64, height: f64, label: &str) -> io::Result<()> {
    put!(
        sink,
        "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 ",
        At(width),
        " ",
        At(height),
        "\" aria-label=\"",
        Text(label),
        "\">",
    );
    Ok(())
}

/// Closes a drawing.
pub(super) fn close(sink: &mut Sink<'_>) -> io::Result<()> {
    sink.put("</svg>\n")
}

/// Words in a drawing.
pub(super) fn label(
    sink: &mut Sink<'_>,
    (x, y): (f64, f64),
    anchor: Anchor,
    class: &'static str,
    words: &str,
) -> io::Result<()> {
    put!(
        sink,
        "<text x=\"",
        At(x),
        "\" y=\"",
        At(y),
        match anchor {
            Anchor::Start => "\" class=\"",
            Anchor::Middle => "\" text-anchor=\"middle\" class=\"",
            Anchor::End => "\" text-anchor=\"end\" class=\"",
        },
        class,
        "\">",
        Text(words),
        "</text>",
    );
    Ok(())
}

/// A rectangle, with words on hover where there are any.
pub(super) fn area(
    sink: &mut Sink<'_>,
    (x0, x1): (f64, f64),
    (y0, y1): (f64, f64),
    class: &'static str,
    hover: &str,
) -> io::Result<()> {
    put!(
        sink,
        "<rect x=\"",
        At(x0.min(x1)),
        "\" y=\"",
        At(y0.min(y1)),
        "\" width=\"",
        At((x1 - x0).abs()),
        "\" height=\"",
        At((y1 - y0).abs()),
        "\" class=\"",
        class,
    );
    if hover.is_empty() {
        sink.put("\"/>")
    } else {
        put!(sink, "\"><title>", Text(hover), "</title></rect>");
        Ok(())
    }
}

/// A straight line.
pub(super) fn rule(
    sink: &mut Sink<'_>,
    (x0, y0): (f64, f64),
    (x1, y1): (f64, f64),
    class: &'static str,
) -> io::Result<()> {
    put!(
        sink,
        "<path d=\"M",
        At(x0),
        " ",
        At(y0),
        "L",
        At(x1),
        " ",
        At(y1),
        "\" class=\"",
        class,
        "\"/>",
    );
    Ok(())
}

impl<'w> Chart<'_, 'w> {
    /// Frame, grid and marks. Marks that would run into each other are left out.
    pub(super) fn axes(
        &mut self,
        x_marks: usize,
        x_label: &str,
        y_marks: usize,
        y_label: &str,
    ) -> io::Result<()> {
        let (left, right) = self.x.ends();
        let (bottom, top) = self.y.ends();
        let mut marked: Vec<f64> = Vec::new();
        for (value, words) in self.y.marks(y_marks) {
            let Some(y) = self.y.at(value) else { continue };
            if marked.iter().any(|other| (other - y).abs() < 14.0) {
                continue;
            }
            rule(self.sink, (left, y), (right, y), "grid")?;
            label(self.sink, (left - 6.0, y + 4.0), Anchor::End, "mark", &words)?;
            marked.push(y);
        }
        let mut free = f64::NEG_INFINITY;
        let marks = if x_marks == 0 { Vec::new() } else { self.x.marks(x_marks) };
        for (value, words) in marks {
            if let Some(x) = self.x.at(value) {
                rule(self.sink, (x, bottom), (x, bottom + 4.0), "axis")?;
                // About seven units a character at the style sheet's size.
                let half = 3.7 * f64::from(u16::try_from(words.chars().count()).unwrap_or(99));
                if x - half > free && x + half < right + 40.0 {
                    label(self.sink, (x, bottom + 17.0), Anchor::Middle, "mark", &words)?;
                    free = x + half + 4.0;
                }
            }
        }
        rule(self.sink, (left, bottom), (right, bottom), "axis")?;
        if !x_label.is_empty() {
            let place = (f64::midpoint(left, right), bottom + 35.0);
            label(self.sink, place, Anchor::Middle, "name", x_label)?;
        }
        if !y_label.is_empty() {
            label(self.sink, (left - 6.0, top - 10.0), Anchor::Start, "name", y_label)?;
        }
        Ok(())
    }

    /// A line through the points; a point without a value interrupts it.
    pub(super) fn line(
        &mut self,
        points: impl Iterator<Item = (f64, Option<f64>)>,
        class: &'static str,
        arm: &'static str,
    ) -> io::Result<()> {
        let mut is_open = false;
        let mut has_begun = false;
        let mut last = (f64::NAN, f64::NAN);
        for (x, y) in points {
            let place = y.and_then(|y| Some((self.x.at(x)?, self.y.at(y)?)));
            let Some((x, y)) = place else {
                is_open = false;
                continue;
            };
            if !has_begun {
                self.sink.put("<path d=\"")?;
                has_begun = true;
            }
            // Each step costs bytes; what does not move the pen by a tenth is left out.
            if is_open && (x - last.0).abs() < 0.05 && (y - last.1).abs() < 0.05 {
                continue;
            }
            put!(self.sink, if is_open { "L" } else { "M" }, At(x), " ", At(y));
            is_open = true;
            last = (x, y);
        }
        if has_begun {
            put!(self.sink, "\" class=\"line ", class, " ", arm, "\"/>");
        }
        Ok(())
    }

    /// The area between two lines; interrupted where either has no value.
    pub(super) fn band(
        &mut self,
        points: &[(f64, Option<f64>, Option<f64>)],
        class: &'static str,
        arm: &'static str,
    ) -> io::Result<()> {
        let places: Vec<Option<(f64, f64, f64)>> = points
            .iter()
            .map(|(x, low, high)| Some((self.x.at(*x)?, self.y.at((*low)?)?, self.y.at((*high)?)?)))
            .collect();
        for stretch in places.split(Option::is_none) {
            if stretch.len() < 2 {
                continue;
            }
            self.sink.put("<path d=\"")?;
            let mut step: &'static str = "M";
            for (x, low, _) in stretch.iter().flatten() {
                put!(self.sink, step, At(*x), " ", At(*low));
                step = "L";
            }
            for (x, _, high) in stretch.iter().flatten().rev() {
                put!(self.sink, "L", At(*x), " ", At(*high));
            }
            put!(self.sink, "Z\" class=\"", class, " ", arm, "\"/>");
        }
        Ok(())
    }

    /// A dot with words on hover.
    pub(super) fn dot(
        &mut self,
        (x, y): (f64, f64),
        form: Form,
        class: &'static str,
        arm: &'static str,
        hover: &str,
    ) -> io::Result<()> {
        let (Some(x), Some(y)) = (self.x.at(x), self.y.at(y)) else { return Ok(()) };
        dot_at(self.sink, (x, y), form, class, arm, hover)
    }
}

/// A dot at a place of the drawing.
pub(super) fn dot_at(
    sink: &mut Sink<'_>,
    (x, y): (f64, f64),
    form: Form,
    class: &'static str,
    arm: &'static str,
    hover: &str,
) -> io::Result<()> {
    match form {
        Form::Circle => put!(sink, "<circle cx=\"", At(x), "\" cy=\"", At(y), "\" r=\"4"),
        Form::Square => put!(
            sink,
            "<rect x=\"",
            At(x - 3.6),
            "\" y=\"",
            At(y - 3.6),
            "\" width=\"7.2\" height=\"7.2"
        ),
        Form::Triangle => put!(sink, "<path d=\"M", At(x), " ", At(y - 4.8), "l4.6 8.4h-9.2z"),
    }
    put!(sink, "\" class=\"", class, " ", arm, "\"><title>", Text(hover), "</title>");
    sink.put(match form {
        Form::Circle => "</circle>",
        Form::Square => "</rect>",
        Form::Triangle => "</path>",
    })
}

/// A legend above a drawing: one entry for each form, class and words.
pub(super) fn legend(
    sink: &mut Sink<'_>,
    entries: &[(Option<Form>, &'static str, &'static str, String)],
) -> io::Result<()> {
    sink.put("<p class=\"legend\">")?;
    for (form, class, arm, words) in entries {
        sink.put("<span><svg viewBox=\"0 0 22 12\" aria-hidden=\"true\">")?;
        match form {
            Some(form) => dot_at(sink, (11.0, 6.0), *form, class, arm, "")?,
            None => put!(
                sink,
                "<rect x=\"1\" y=\"1\" width=\"20\" height=\"10\" class=\"",
                *class,
                " ",
                *arm,
                "\"/>"
            ),
        }
        put!(sink, "</svg>", Text(words), "</span> ");
    }
    sink.put("</p>")
}
