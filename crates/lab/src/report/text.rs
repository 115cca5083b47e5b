//! Text from outside, made safe to show.
//!
//! Names, messages, settings and file names come from users, servers and files. On a terminal they
//! may move the cursor or reverse the direction of writing, so whatever is not plainly visible is
//! shown as an escape, and what is too long is cut with a mark.

/// `text` on one line, with control characters (C0, C1), line ends, invisible and direction-changing
/// characters shown as `\u{..}`, cut to `columns_max` columns of a terminal with `...` at the end.
#[must_use]
pub fn visible(text: &str, columns_max: usize) -> String {
    let mut shown = String::new();
    let mut columns = 0_usize;
    for character in text.chars() {
        let before = shown.len();
        if is_plain(character) {
            shown.push(character);
            columns += width(character);
        } else {
            for escaped in character.escape_unicode() {
                shown.push(escaped);
                columns += 1;
            }
        }
        if columns > columns_max {
            shown.truncate(before);
            let room = columns_max.saturating_sub(3);
            while self::columns(&shown) > room {
                shown.pop();
            }
            shown.push_str("...");
            break;
        }
    }
    shown
}

/// The same, but what is too long loses its middle: names of settings begin alike and differ at the end.
#[must_use]
pub fn shortened(name: &str, columns_max: usize) -> String {
    super::table::cut(&visible(name, 1_000), columns_max)
}

/// Columns of a terminal that `text` takes.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// The same, with every character outside ASCII shown as `?`, for terminals without UTF-8.
#[must_use]
pub fn visible_ascii(text: &str, chars_max: usize) -> String {
    visible(text, chars_max).chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

/// `sentence` in lines of at most `width` columns, broken at spaces; a word longer than the width is
/// broken where the width ends. There is always a line, if an empty one.
#[must_use]
pub fn wrap(sentence: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut columns = 0;
    for word in sentence.split_inclusive(' ') {
        let length = self::columns(word.trim_end());
        if columns > 0 && columns + length > width {
            lines.push(std::mem::take(&mut line));
            columns = 0;
        }
        for character in word.chars() {
            let own = self::columns(character.encode_utf8(&mut [0; 4]));
            if columns + own > width && character != ' ' {
                lines.push(std::mem::take(&mut line));
                columns = 0;
            }
            line.push(character);
            columns += own;
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

/// Two for East Asian wide characters and emoji, else one (Unicode Standard Annex 11, the blocks that
/// matter; a combining mark counts as one, which only makes a line shorter than it might be).
const fn width(character: char) -> usize {
    match character as u32 {
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
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
    use super::{columns, visible, visible_ascii};

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
            let shown = visible(&"\u{1b}x\u{202e}ü表".repeat(20), limit);
            assert!(columns(&shown) <= limit, "{limit}: {shown}");
        }
    }

    #[test]
    fn a_terminal_without_utf8_gets_ascii_only() {
        assert_eq!(visible_ascii("müller±", 20), "m?ller?");
    }
}
