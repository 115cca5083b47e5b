//! An index page over many sessions: what was asked, what came out, and where the page is.
//!
//! The intervals of all sessions share one axis, so that the column of bars reads as a forest plot. The
//! rules of the report's page hold here, too.

use std::io::{self, Write};
use std::path::Path;

use super::escape::{Sink, Text, Whole, put};
use super::scale::{Quantity, Scale, Spread};
use super::{tables, title};
use crate::experiment::document::{Arrival, MeasureRow, SessionDocument};
use crate::report::{model, number};

/// Sessions on one page; what is left out is named.
const SESSIONS_MAX: usize = 2000;

/// One session of the index.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The record.
    pub document: SessionDocument,
    /// Where its page is, relative to the index; none where there is no page.
    pub page: Option<String>,
}

/// Renders the index, the latest session first.
///
/// # Errors
/// What the writer refuses.
pub fn render(entries: &[Entry], out: &mut dyn Write) -> io::Result<()> {
    let mut sink = Sink::new(out);
    let sink = &mut sink;
    let mut order: Vec<&Entry> = entries.iter().collect();
    order.sort_by(|a, b| b.document.started_at.cmp(&a.document.started_at));
    super::open_page("Sessions", sink)?;
    put!(
        sink,
        "<header><h1>Sessions</h1><p>",
        Whole(entries.len() as u64),
        if entries.len() == 1 { " session" } else { " sessions" },
        ", the latest first. Intervals are of the primary measure, 95%, on one axis; the grey band is each \
         session's margin.</p></header>",
    );
    let rows = || order.iter().take(SESSIONS_MAX).filter_map(|entry| primary(&entry.document));
    let scale = Scale::covering(
        Spread::Change,
        Quantity::Change,
        rows().flat_map(|row| [row.low_ratio, row.high_ratio, row.change_ratio]).flatten(),
        (4.0, 176.0),
    );
    put!(
        sink,
        "<div class=\"scroll\"><table><thead><tr><th>when</th><th>session</th><th>arms</th>\
         <th>workload</th><th>verdict</th><th>measure</th><th class=\"n\">a</th><th class=\"n\">b</th>\
         <th class=\"n\">change</th><th class=\"n\">95% interval, %</th><th class=\"drawn\">interval</th>\
         <th class=\"n\">pairs</th></tr></thead><tbody>",
    );
    for entry in order.iter().take(SESSIONS_MAX) {
        row(entry, &scale, sink)?;
    }
    sink.put("</tbody></table></div>")?;
    if order.len() > SESSIONS_MAX {
        put!(
            sink,
            "<p class=\"aside\">",
            Whole((order.len() - SESSIONS_MAX) as u64),
            " older sessions are left out.</p>",
        );
    }
    sink.put("</main></body></html>\n")
}

fn primary(document: &SessionDocument) -> Option<&MeasureRow> {
    model::primary_row(&document.analysis.as_ref()?.comparison)
}

fn row(entry: &Entry, scale: &Scale, sink: &mut Sink<'_>) -> io::Result<()> {
    let document = &entry.document;
    let verdict = model::verdict(document);
    // Date and time to the minute; the rest is on the session's own page.
    let when: String = document.started_at.chars().take(16).collect();
    put!(sink, "<tr><td class=\"u\">", Text(when.replace('T', " ")), "</td><th scope=\"row\">");
    match &entry.page {
        Some(page) => {
            put!(sink, "<a href=\"", Text(page), "\">", Text(title(document)), "</a>");
        }
        None => put!(sink, Text(title(document))),
    }
    let arms: Vec<&str> = document.arms.iter().map(|arm| arm.name.as_str()).collect();
    put!(
        sink,
        "</th><td>",
        Text(arms.join(" / ")),
        "</td><td>",
        Text(workload(document)),
        "</td><td class=\"",
        tables::tone_class(verdict.tone),
        "\">",
        verdict.word,
        "</td>",
    );
    let comparison = document.analysis.as_ref().map(|analysis| &analysis.comparison);
    let pairs = document.analysis.as_ref().map_or(0, |analysis| analysis.pairs);
    match (comparison, primary(document)) {
        (Some(comparison), Some(row)) => {
            let values = model::row_values(document, comparison, row);
            put!(
                sink,
                "<td>",
                Text(model::measure_name(&row.measure).title),
                "</td><td class=\"n\">",
                Text(values.against),
                "</td><td class=\"n\">",
                Text(format!("{} {}", values.value, values.unit)),
                "</td><td class=\"n\">",
                Text(row.change_ratio.map_or_else(|| number::ABSENT.to_owned(), number::change)),
                "</td><td class=\"n\">",
                Text(number::interval(row.low_ratio, row.high_ratio)),
                "</td><td class=\"drawn\">",
            );
            tables::interval_bar(row, scale, document.protocol.margin_ratio, sink)?;
            sink.put("</td>")?;
        }
        _ => sink.put("<td class=\"none\" colspan=\"6\">nothing was compared</td>")?,
    }
    put!(sink, "<td class=\"n\">", Whole(u64::from(pairs)), "</td></tr>");
    Ok(())
}

/// Scripts, scale, clients and arrivals, as one would say them.
fn workload(document: &SessionDocument) -> String {
    let protocol = &document.protocol;
    let mut words = vec![model::scripts_text(document)];
    words.extend(protocol.scale.map(|scale| format!("scale {scale}")));
    words.push(match protocol.clients {
        1 => "1 client".to_owned(),
        clients => format!("{clients} clients"),
    });
    words.push(match protocol.arrival {
        Arrival::Closed => "closed loop".to_owned(),
        Arrival::Poisson { rate_per_s } | Arrival::Constant { rate_per_s } => {
            format!("{}/s", number::significant(rate_per_s))
        }
    });
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The address of `page` as seen from the folder of the index, both absolute: relative, so that the
/// whole tree can be moved, and percent-encoded, so that no name is taken for anything else.
#[must_use]
pub fn relative_address(from_folder: &Path, page: &Path) -> String {
    let (from, to): (Vec<_>, Vec<_>) =
        (from_folder.components().collect(), page.components().collect());
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - common);
    let down = to[common..].iter().map(|part| encoded(part.as_os_str().as_encoded_bytes()));
    let parts: Vec<String> = up.chain(down).collect();
    format!("./{}", parts.join("/"))
}

fn encoded(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn index(entries: &[Entry]) -> String {
        let mut out = Vec::new();
        render(entries, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_session_has_a_row_the_latest_first_whatever_is_in_it() {
        let mut entries: Vec<Entry> = fixture::odd_sessions()
            .into_iter()
            .map(|(_, document)| Entry { document, page: None })
            .collect();
        let mut latest = fixture::session(fixture::TINY);
        latest.title = "the latest".to_owned();
        latest.started_at = "~9999-01-01T00:00:00Z".to_owned();
        entries.push(Entry { document: latest, page: Some("./x/report.html".to_owned()) });
        let page = index(&entries);
        super::super::tests::tokens(&page);
        assert_eq!(page.matches("<tr><td class=\"u\">").count(), entries.len());
        let first = page.find("<tr><td class=\"u\">").unwrap();
        assert!(page[first..].starts_with("<tr><td class=\"u\">~9999-01-01 00:0</td>"), "order");
        assert!(page.contains("<a href=\"./x/report.html\">the latest</a>"));
        for absurd in ["NaN", "inf%", "\u{202e}", "<script"] {
            assert!(!page.contains(absurd), "{absurd}");
        }
    }

    #[test]
    fn an_index_of_nothing_says_so() {
        assert!(index(&[]).contains("<p>0 sessions"));
    }

    #[test]
    fn addresses_are_relative_and_no_name_is_taken_for_a_scheme_or_markup() {
        let address = |from: &str, to: &str| relative_address(Path::new(from), Path::new(to));
        assert_eq!(address("/r", "/r/one/report.html"), "./one/report.html");
        assert_eq!(address("/r/i", "/r/one/report.html"), "./../one/report.html");
        assert_eq!(address("/r", "/r/javascript:x\"/a b.html"), "./javascript%3Ax%22/a%20b.html");
    }
}
