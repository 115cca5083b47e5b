//! Text that came from outside (servers, files, names), made safe to show.
//!
//! A terminal obeys control characters, and a reader believes what bidirectional marks rearrange.
//! Everything that we did not write ourselves passes [`terminal`] before it is printed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// How many characters of text from a peer that has not proven who it is are shown.
const UNAUTHENTICATED_CHARACTERS: usize = 300;

/// `text` on one line, with every character that moves, hides, recolours or rearranges output
/// shown as an escape: C0 and C1 controls, DEL, line and paragraph separators, bidirectional
/// marks, characters of no width, and tags. Backslashes stay as they are.
#[must_use]
pub fn terminal(text: &str) -> Cow<'_, str> {
    escape(text, false)
}

/// As [`terminal`], but line feeds stay.
#[must_use]
pub fn terminal_lines(text: &str) -> Cow<'_, str> {
    escape(text, true)
}

/// What a peer said before it proved who it is: cut, neutralised and marked (the danger is
/// CVE-2024-10977: an impostor's words taken for the client's own).
#[must_use]
pub fn unauthenticated(text: &str) -> String {
    format!("(unauthenticated peer) {}", excerpt(text, UNAUTHENTICATED_CHARACTERS))
}

/// The first `characters` characters of `text`, made safe as by [`terminal`], and an ellipsis where
/// something was cut off.
#[must_use]
pub fn excerpt(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => terminal(text).into_owned(),
        Some((end, _)) => {
            let mut cut = terminal(&text[..end]).into_owned();
            cut.push('…');
            cut
        }
    }
}

fn escape(text: &str, keep_line_feeds: bool) -> Cow<'_, str> {
    let is_unsafe = |c: char| is_deceptive(c) && !(keep_line_feeds && c == '\n');
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            _ if !is_unsafe(c) => escaped.push(c),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // Writing to a String cannot fail.
            _ if u32::from(c) < 0x100 => drop(write!(escaped, "\\x{:02x}", u32::from(c))),
            _ => drop(write!(escaped, "\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character controls, hides or rearranges the text around it.
pub(crate) const fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' // controls
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{2028}' | '\u{2029}' // line and paragraph separators
        | '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{feff}' // no width
        | '\u{e0000}'..='\u{e007f}') // tags
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_terminal_receives_no_control_character() {
        let cases = [
            ("plain text, accents é, emoji 👩‍🔬", "plain text, accents é, emoji 👩‍🔬"),
            ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{9b}31m", "\\x9b31m"),
            ("user\u{202e}txt.exe", "user\\u{202e}txt.exe"),
            ("zero\u{200b}width\u{feff}", "zero\\u{200b}width\\u{feff}"),
        ];
        for (hostile, shown) in cases {
            assert_eq!(terminal(hostile), shown);
        }
        assert_eq!(terminal_lines("a\nb\x1b"), "a\nb\\x1b");
    }

    #[test]
    fn words_of_an_unproven_peer_are_cut_and_marked() {
        let shown = unauthenticated(&"x".repeat(5000));
        assert!(shown.starts_with("(unauthenticated peer) xxx"));
        assert!(shown.ends_with("x…"));
        assert!(shown.chars().count() < 350);
        assert!(!unauthenticated("ok\npsql: enter password").contains('\n'));
    }

    proptest! {
        #[test]
        fn no_text_escapes_the_filter(text in any::<String>()) {
            prop_assert!(!terminal(&text).contains(is_deceptive));
        }
    }
}
