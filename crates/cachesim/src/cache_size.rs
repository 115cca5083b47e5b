//! A cache's size as people write it: pages, a share of the trace's pages, or bytes.
//!
//! `1000` pages, `5%` of the distinct pages, `64MiB`. Units of bytes are powers of 1024, as in
//! postgresql.conf: `kB` and `KiB` are the same, and so on.

use std::fmt;
use std::str::FromStr;

use evenkeel_replacement::policy::MAX_FRAMES;

/// A size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheSize {
    /// Pages.
    Pages(u64),
    /// Share of the trace's distinct pages, above 0.
    Share(f64),
    /// Bytes.
    Bytes(u64),
}

/// A size that cannot be understood or used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CacheSizeError {
    /// Not a number with a known unit.
    #[error(
        "\"{0}\" is no size: write pages (1000), a share of the trace's pages (5%), or bytes (64MiB)"
    )]
    Unreadable(String),
    /// Zero or negative.
    #[error("\"{0}\" is no cache: a size is above zero")]
    Zero(String),
    /// Fewer bytes than a page has.
    #[error("{size} is less than one page of {page_bytes} bytes")]
    BelowOnePage {
        /// The size as it was given.
        size: CacheSize,
        /// Bytes of a page.
        page_bytes: u32,
    },
    /// More than a policy can manage.
    #[error("{0} is more than {MAX_FRAMES} pages")]
    TooLarge(CacheSize),
}

impl CacheSize {
    /// The number of frames for a trace with so many pages of so many bytes. Rounded down; a share
    /// gives at least one frame.
    ///
    /// # Errors
    /// When bytes are fewer than a page's, or there are more than [`MAX_FRAMES`] frames.
    pub fn frames(self, pages: u32, page_bytes: u32) -> Result<u32, CacheSizeError> {
        let frames = match self {
            Self::Pages(frames) => frames,
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates, and is positive"
            )]
            Self::Share(share) => ((f64::from(pages) * share) as u64).max(1),
            Self::Bytes(bytes) => {
                let frames = bytes / u64::from(page_bytes.max(1));
                if frames == 0 {
                    return Err(CacheSizeError::BelowOnePage { size: self, page_bytes });
                }
                frames
            }
        };
        u32::try_from(frames)
            .ok()
            .filter(|frames| *frames <= MAX_FRAMES)
            .ok_or(CacheSizeError::TooLarge(self))
    }
}

impl FromStr for CacheSize {
    type Err = CacheSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let unreadable = || CacheSizeError::Unreadable(text.to_owned());
        let digits = text
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let value: f64 = number.parse().map_err(|_| unreadable())?;
        if value <= 0.0 {
            return Err(CacheSizeError::Zero(text.to_owned()));
        }
        let unit = unit.trim();
        if unit == "%" {
            return Ok(Self::Share(value / 100.0));
        }
        let is_pages = unit.is_empty() || unit.eq_ignore_ascii_case("pages");
        if is_pages {
            return number.parse().map(Self::Pages).map_err(|_| unreadable());
        }
        let factor: u32 = match unit.to_ascii_lowercase().as_str() {
            "b" => 0,
            "kb" | "kib" => 10,
            "mb" | "mib" => 20,
            "gb" | "gib" => 30,
            "tb" | "tib" => 40,
            _ => return Err(unreadable()),
        };
        // Saturates far above what a policy can manage, which is refused later.
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "saturates, and is positive"
        )]
        let bytes = (value * (1_u64 << factor) as f64) as u64;
        Ok(Self::Bytes(bytes))
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(pages) => write!(to, "{pages} pages"),
            Self::Share(share) => write!(to, "{}%", share * 100.0),
            Self::Bytes(bytes) => {
                let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
                for (unit, shift) in units {
                    if *bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
                        return write!(to, "{}{unit}", bytes >> shift);
                    }
                }
                write!(to, "{bytes}B")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_mean_what_people_write() {
        for (text, frames) in [
            ("1000", Ok(1000)),
            (" 5% ", Ok(500)),
            ("0.001%", Ok(1)),
            ("150%", Ok(15_000)),
            ("64MiB", Ok(8192)),
            ("64MB", Ok(8192)),
            ("1.5 GiB", Ok(196_608)),
            ("16kB", Ok(2)),
            ("12 pages", Ok(12)),
            ("4kB", Err("4KiB is less than one page of 8192 bytes")),
            ("0", Err("\"0\" is no cache: a size is above zero")),
            ("0%", Err("\"0%\" is no cache: a size is above zero")),
            ("9TiB", Err("9TiB is more than 1073741824 pages")),
            ("99999999999999999999", Err("\"99999999999999999999\" is no size")),
            ("1.5", Err("\"1.5\" is no size")),
            ("-1", Err("\"-1\" is no size")),
            ("ten", Err("\"ten\" is no size")),
            ("", Err("\"\" is no size")),
            ("5 furlongs", Err("\"5 furlongs\" is no size")),
        ] {
            let read = text.parse::<CacheSize>().and_then(|size| size.frames(10_000, 8192));
            match (read, frames) {
                (Ok(read), Ok(frames)) => assert_eq!(read, frames, "{text}"),
                (Err(error), Err(words)) => {
                    assert!(error.to_string().starts_with(words), "{text}: {error}");
                }
                (read, _) => panic!("{text}: {read:?}"),
            }
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".{0,12}|[0-9.]{0,25}[a-zA-Z%]{0,3}", pages in any::<u32>()) {
            if let Ok(size) = text.parse::<CacheSize>()
                && let Ok(frames) = size.frames(pages, 8192)
            {
                prop_assert!((1..=MAX_FRAMES).contains(&frames));
                prop_assert!(!size.to_string().is_empty());
            }
        }
    }
}
