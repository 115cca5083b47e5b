use std::collections::BTreeSet;

use super::render;
use crate::experiment::document::SessionDocument;
use crate::report::fixture;

/// Every element that the page may hold. None of them runs or fetches anything.
const ELEMENTS: [&str; 47] = [
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "header",
    "nav",
    "section",
    "h1",
    "h2",
    "h3",
    "p",
    "div",
    "span",
    "b",
    "i",
    "small",
    "strong",
    "code",
    "pre",
    "a",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "figure",
    "figcaption",
    "input",
    "label",
    "svg",
    "path",
    "rect",
    "circle",
    "text",
    "em",
];

const ATTRIBUTES: [&str; 38] = [
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "id",
    "href",
    "type",
    "checked",
    "for",
    "role",
    "viewBox",
    "aria-label",
    "aria-hidden",
    "x",
    "y",
    "d",
    "cx",
    "cy",
    "r",
    "width",
    "height",
    "text-anchor",
    "scope",
    "rowspan",
    "colspan",
    "open",
    "style",
    "title",
    "rx",
    "points",
    "x1",
    "x2",
    "y1",
    "y2",
    "transform",
    "tabindex",
];

fn page(document: &SessionDocument) -> String {
    let mut out = Vec::new();
    render(document, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Reads the page as a browser's tokenizer does for the constructs we use, and fails on any other:
/// returns names of elements and of attributes with their values, and whether tags are balanced.
pub(super) fn tokens(page: &str) -> (BTreeSet<String>, Vec<(String, String)>) {
    let mut elements = BTreeSet::new();
    let mut attributes = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a bare > in text: {}", &rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('/') {
            let (name, after) = after.split_once('>').expect("an end tag that ends");
            let expected = open.pop();
            assert_eq!(expected.as_deref(), Some(name), "tags are nested");
            rest = after;
            continue;
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric())).expect("a tag that ends");
        assert!(end > 0, "not a tag: {}", &rest[..rest.len().min(60)]);
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let mut is_self_closed = false;
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix("/>") {
                is_self_closed = true;
                rest = after;
                break;
            }
            if let Some(after) = rest.strip_prefix('>') {
                rest = after;
                break;
            }
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .expect("an attribute that ends");
            assert!(end > 0, "not an attribute: {}", &rest[..rest.len().min(60)]);
            let attribute = rest[..end].to_owned();
            rest = &rest[end..];
            let value = match rest.strip_prefix("=\"") {
                Some(after) => {
                    let (value, after) = after.split_once('"').expect("a value that ends");
                    rest = after;
                    value.to_owned()
                }
                None => String::new(),
            };
            attributes.push((attribute, value));
        }
        let is_void = matches!(name.as_str(), "meta" | "input");
        if !is_self_closed && !is_void {
            open.push(name.clone());
        }
        elements.insert(name);
        // A style sheet is text up to its end tag.
        if open.last().is_some_and(|name| name == "style") {
            let at = rest.find("</style>").expect("a style sheet that ends");
            rest = &rest[at..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    (elements, attributes)
}

fn sessions() -> Vec<(&'static str, SessionDocument)> {
    let mut sessions = fixture::odd_sessions();
    sessions.push(("tiny", fixture::session(fixture::TINY)));
    sessions.push((
        "three arms",
        fixture::session(fixture::Plan { arms: 3, pairs: 6, ..fixture::TINY }),
    ));
    sessions
}

#[test]
fn the_page_runs_nothing_and_fetches_nothing_whatever_the_names_hold() {
    for (name, document) in sessions() {
        let page = page(&document);
        let (elements, attributes) = tokens(&page);
        for element in &elements {
            assert!(ELEMENTS.contains(&element.as_str()), "{name}: <{element}>");
        }
        for (attribute, value) in &attributes {
            assert!(ATTRIBUTES.contains(&attribute.as_str()), "{name}: {attribute}=\"{value}\"");
            if attribute == "href" {
                assert!(value.starts_with('#'), "{name}: {value}");
            }
        }
        assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; img-src data:"));
        assert!(!page.to_lowercase().contains("<script"), "{name}");
        for fetched in ["url(", "@import"] {
            let sheet = page.split("</style>").next().unwrap();
            assert!(!sheet.contains(fetched), "{name}: {fetched}");
        }
    }
}

#[test]
fn no_number_that_is_none_reaches_a_drawing() {
    for (name, document) in sessions() {
        let (_, attributes) = tokens(&page(&document));
        for (attribute, value) in attributes {
            if matches!(
                attribute.as_str(),
                "d" | "x" | "y" | "cx" | "cy" | "width" | "height" | "viewBox"
            ) {
                assert!(
                    !value.contains("NaN") && !value.contains("inf"),
                    "{name}: {attribute}=\"{value}\""
                );
            }
        }
    }
}

#[test]
fn drawings_stay_inside_their_frame() {
    for (name, document) in sessions() {
        let page = page(&document);
        for drawing in page.split("<svg ").skip(1) {
            let drawing = drawing.split("</svg>").next().unwrap();
            let size: Vec<f64> = drawing
                .split("viewBox=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .map(|sizes| sizes.split(' ').map(|n| n.parse().unwrap()).collect())
                .unwrap();
            for (attribute, limit) in
                [(" cx=\"", size[2]), (" cy=\"", size[3]), (" x=\"", size[2]), (" y=\"", size[3])]
            {
                for value in drawing.split(attribute).skip(1) {
                    let value: f64 = value.split('"').next().unwrap().parse().unwrap();
                    assert!(
                        (-2.0..=limit + 2.0).contains(&value),
                        "{name}: {attribute}{value} of {limit}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_id_is_unique_and_every_link_leads_somewhere() {
    for (name, document) in sessions() {
        let (_, attributes) = tokens(&page(&document));
        let mut ids = BTreeSet::new();
        for (attribute, value) in &attributes {
            if attribute == "id" {
                assert!(ids.insert(value.clone()), "{name}: two of {value}");
            }
        }
        for (attribute, value) in &attributes {
            if attribute == "href" {
                assert!(
                    ids.contains(value.trim_start_matches('#')),
                    "{name}: {value} leads nowhere"
                );
            }
        }
    }
}

#[test]
fn an_edited_record_with_equal_indices_or_no_timelines_still_links_right() {
    let mut document = fixture::session(fixture::TINY);
    document.runs.iter_mut().for_each(|run| run.index = 3);
    let (_, attributes) = tokens(&page(&document));
    let ids: Vec<&String> =
        attributes.iter().filter(|(name, _)| name == "id").map(|(_, v)| v).collect();
    let unique: BTreeSet<&String> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    document.runs.iter_mut().for_each(|run| run.timeline.clear());
    assert!(!page(&document).contains("#run-"));
}

#[test]
fn a_page_of_a_thousand_runs_stays_small() {
    let mut document = fixture::session(fixture::TINY);
    let run = document.runs[0].clone();
    document.runs =
        (0..1000).map(|block| crate::experiment::document::Run { block, ..run.clone() }).collect();
    assert!(page(&document).len() < 3_000_000);
}

#[test]
fn an_invalid_session_says_so_before_its_figures() {
    let (_, document) = fixture::odd_sessions().into_iter().find(|(n, _)| *n == "invalid").unwrap();
    let page = page(&document);
    let verdict = page.find("class=\"word\">INVALID").expect("the verdict");
    let notice = page.find("those of an invalid session").expect("the notice");
    let figures = page.find("id=\"measures\"").expect("the figures");
    assert!(verdict < notice && notice < figures);
}

#[test]
fn on_paper_a_heading_is_not_parted_from_its_first_chart() {
    let page = page(&fixture::session(fixture::TINY));
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    // A sheet of A4 is narrower than that, and sections that scroll are cut wherever it ends.
    assert!(style.contains("@media screen and (max-width:720px)"));
    assert_eq!(style.matches("(max-width:720px)").count(), 1);
    let print = style.split_once("@media print").unwrap().1;
    // A paragraph or legend of two lines would be parted, and its heading stay.
    assert!(print.contains("figure,svg.chart,tr,.verdict,p{break-inside:avoid}"));
    assert!(print.contains("h2,h3,.legend,h2+p{break-after:avoid}"));
}
