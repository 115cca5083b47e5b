//! Text from outside, made safe to show.
//!
//! Names, messages, settings and file names come from users, servers and files. On a terminal they
//! may move the cursor or reverse the direction of writing, so whatever is not plainly visible is
//! shown as an escape, and what is too long is cut with a mark.

/// `text` on one line, with control characters (C0, C1), line ends, invisible and direction-changing
/// characters shown as `\u{..}`, cut to `chars_max` characters with `...` at the end.
#[must_use]
pub fn visible(text: &str, chars_max: usize) -> String {
    let mut shown = String::new();
    let mut chars = 0_usize;
    for character in text.chars() {
        let before = shown.len();
        if is_plain(character) {
            shown.push(character);
            chars += 1;
        } else {
            for escaped in character.escape_unicode() {
                shown.push(escaped);
                chars += 1;
            }
        }
        if chars > chars_max {
            shown.truncate(before);
            let keep = shown.chars().count().min(chars_max.saturating_sub(3));
            let cut = shown.char_indices().nth(keep).map_or(shown.len(), |(at, _)| at);
            shown.truncate(cut);
            shown.push_str("...");
            break;
        }
    }
    shown
}

/// The same, with every character outside ASCII shown as `?`, for terminals without UTF-8.
#[must_use]
pub fn visible_ascii(text: &str, chars_max: usize) -> String {
    visible(text, chars_max).chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

fn is_plain(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{00ad}'
                | '\u{061c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
mod tests {
    use super::{visible, visible_ascii};

    #[test]
    fn a_servers_message_cannot_move_the_cursor_or_reverse_the_line() {
        for (outside, shown) in [
            ("plain text", "plain text"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("a\u{9b}1mb", "a\\u{9b}1mb"),
            ("two\nlines\r", "two\\u{a}lines\\u{d}"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
            ("müller", "müller"),
            ("", ""),
        ] {
            assert_eq!(visible(outside, 100), shown);
        }
    }

    #[test]
    fn long_text_is_cut_with_a_mark_and_never_exceeds_the_limit() {
        assert_eq!(visible("abcdefghij", 10), "abcdefghij");
        assert_eq!(visible("abcdefghijk", 10), "abcdefg...");
        for limit in 3..30 {
            let shown = visible(&"\u{1b}x\u{202e}ü".repeat(20), limit);
            assert!(shown.chars().count() <= limit, "{limit}: {shown}");
        }
    }

    #[test]
    fn a_terminal_without_utf8_gets_ascii_only() {
        assert_eq!(visible_ascii("müller±", 20), "m?ller?");
    }
}
