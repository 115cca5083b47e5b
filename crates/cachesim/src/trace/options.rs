//! What the caller knows about a trace.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::str::FromStr;

use super::format::Format;

/// Bytes that one unit of a disk trace's block numbers stands for, unless told otherwise: a sector.
pub const SECTOR_BYTES: u32 = 512;

/// How to read a trace. The default recognises the format by the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format; recognised where not given.
    pub format: Option<Format>,
    /// Where a CSV file has what; implies [`Format::Csv`].
    pub columns: Option<Columns>,
    /// Bytes of a page. Formats that carry lengths are cut into pages of this size; where it is not
    /// given, those whose requests name objects are not cut, and those of disks by [`PAGE_BYTES`].
    pub page_bytes: Option<NonZeroU32>,
    /// Bytes of one unit of block numbers, for cutting.
    pub block_bytes: NonZeroU32,
    /// Names of relations for PostgreSQL's formats: a CSV file with the columns `relfilenode`,
    /// `relname` and possibly `relkind`, `rel`. Else `X.rels.csv` beside `X.csv.xz` is taken.
    pub relations: Option<PathBuf>,
    /// What one unit of a CSV file's times is, in nanoseconds.
    pub time_unit_ns: u64,
    /// Most memory that [`super::load`] may take, in bytes; no bound where not given. Reading as a
    /// stream needs a few MiB whatever the trace.
    pub memory_bytes: Option<u64>,
}

/// Bytes of a page where nobody says otherwise: PostgreSQL's.
pub const PAGE_BYTES: u32 = 8192;

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            columns: None,
            page_bytes: None,
            block_bytes: NonZeroU32::new(SECTOR_BYTES).unwrap_or(NonZeroU32::MIN),
            relations: None,
            time_unit_ns: 1_000_000_000,
            memory_bytes: None,
        }
    }
}

/// A column of a CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By place, from 0 (written from 1).
    Place(usize),
    /// By the name in the header.
    Name(String),
}

/// Which column of a CSV file is what: `page=lbn,op=op,time=time,size=size,class=relation`, or with
/// `key=` instead of `page=` where pages are named by text. Columns are names of the header or places
/// from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The page or block number, or the key.
    pub page: Column,
    /// Whether `page` is text, to be hashed.
    pub is_key: bool,
    /// Read or write.
    pub access: Option<Column>,
    /// Time.
    pub time: Option<Column>,
    /// Length in bytes.
    pub size: Option<Column>,
    /// Class.
    pub class: Option<Column>,
}

/// A column mapping that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnsError(String);

impl fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: write page=COLUMN or key=COLUMN, then any of op=, time=, size=, class=",
            self.0
        )
    }
}

impl std::error::Error for ColumnsError {}

impl FromStr for Columns {
    type Err = ColumnsError;

    fn from_str(text: &str) -> Result<Self, ColumnsError> {
        let (mut page, mut is_key) = (None, false);
        let (mut access, mut time, mut size, mut class) = (None, None, None, None);
        for part in text.split(',') {
            let Some((what, column)) = part.split_once('=') else {
                return Err(ColumnsError(format!("'{part}' has no '='")));
            };
            let column = column.trim();
            let column = match column.parse::<usize>() {
                Ok(0) => return Err(ColumnsError("columns are counted from 1".to_owned())),
                Ok(place) => Column::Place(place - 1),
                Err(_) if column.is_empty() => {
                    return Err(ColumnsError(format!("'{part}' names no column")));
                }
                Err(_) => Column::Name(column.to_owned()),
            };
            let place = match what.trim() {
                "page" => &mut page,
                "key" => {
                    is_key = true;
                    &mut page
                }
                "op" => &mut access,
                "time" => &mut time,
                "size" => &mut size,
                "class" => &mut class,
                other => return Err(ColumnsError(format!("'{other}' is unknown"))),
            };
            if place.replace(column).is_some() {
                return Err(ColumnsError(format!("'{}' is given twice", what.trim())));
            }
        }
        let Some(page) = page else {
            return Err(ColumnsError("no column for the page".to_owned()));
        };
        Ok(Self { page, is_key, access, time, size, class })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_names_or_places() {
        let columns: Columns = "page=lbn, op=3,time=ts".parse().unwrap();
        assert_eq!(columns.page, Column::Name("lbn".to_owned()));
        assert_eq!(columns.access, Some(Column::Place(2)));
        assert_eq!(columns.time, Some(Column::Name("ts".to_owned())));
        assert!(!columns.is_key && "key=1".parse::<Columns>().unwrap().is_key);
    }

    #[test]
    fn a_mapping_that_says_too_little_or_too_much_is_refused() {
        for text in ["", "op=1", "page", "page=", "page=0", "page=1,key=2", "page=1,x=2"] {
            assert!(text.parse::<Columns>().is_err(), "{text}");
        }
    }
}
