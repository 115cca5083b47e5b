//! Comma-separated values with columns by mapping, or by well-known names in a header. libCacheSim's
//! CSV files are of this kind.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroU32;

use super::super::error::{Fault, shown};
use super::super::extent;
use super::super::options::{Column, Columns, Options};
use super::super::reference::Reference;
use super::{Lines, decimal, fields, key_number, known_access, number, time_us};

/// Most classes of pages.
const CLASSES_MAX: usize = 60_000;

/// Names of headers by which columns are known, the more telling first.
const PAGE_NAMES: &[&str] = &[
    "page",
    "lbn",
    "block",
    "lba",
    "obj_id",
    "object_id",
    "obj",
    "object",
    "id",
    "key",
    "page_id",
    "block_id",
    "blk",
];
const ACCESS_NAMES: &[&str] = &["op", "operation", "type", "rw", "access", "opcode"];
const TIME_NAMES: &[&str] =
    &["time", "timestamp", "ts", "clock_time", "time_s", "time_ms", "time_us", "time_ns"];
const SIZE_NAMES: &[&str] = &["size", "length", "len", "bytes", "obj_size"];
const CLASS_NAMES: &[&str] = &["class", "relation"];

/// See the module.
pub(in super::super) struct CsvLines {
    wanted: Option<Columns>,
    places: Option<Places>,
    page_bytes: Option<NonZeroU32>,
    block_bytes: NonZeroU32,
    time_unit_ns: u64,
    class_numbers: HashMap<Vec<u8>, u16>,
    classes: Vec<String>,
}

struct Places {
    page: usize,
    is_key: bool,
    access: Option<usize>,
    time: Option<usize>,
    size: Option<usize>,
    class: Option<usize>,
    /// The last column that matters.
    last: usize,
}

/// Whether a header's names tell where the page is.
pub(in super::super) fn is_known_header(header: &[u8]) -> bool {
    let header = names(header);
    header.len() > 1 && find(&header, PAGE_NAMES).is_some()
}

fn names(header: &[u8]) -> Vec<String> {
    let text = header.trim_ascii();
    fields(text.strip_prefix(b"#").unwrap_or(text))
        .map(|field| String::from_utf8_lossy(&field).to_ascii_lowercase())
        .collect()
}

fn find(header: &[String], wanted: &[&str]) -> Option<usize> {
    wanted.iter().find_map(|name| header.iter().position(|column| column == name))
}

impl CsvLines {
    pub(in super::super) fn new(options: &Options) -> Self {
        Self {
            wanted: options.columns.clone(),
            places: None,
            page_bytes: options.page_bytes,
            block_bytes: options.block_bytes,
            time_unit_ns: options.time_unit_ns,
            class_numbers: HashMap::new(),
            classes: Vec::new(),
        }
    }

    /// Finds the columns by the first line; true where that is a header, false where it is data.
    fn begin(&mut self, line: &[u8]) -> Result<bool, Fault> {
        let header = names(line);
        let Some(wanted) = &self.wanted else {
            let Some(page) = find(&header, PAGE_NAMES) else {
                return Err(Fault::new(
                    format!("the first line {} names no column for the page", shown(line)),
                    "say which column is what, as in --columns page=2,op=3,time=1",
                ));
            };
            let is_key = header.get(page).is_some_and(|name| name == "key");
            let time = find(&header, TIME_NAMES);
            // A unit in the name is more than what is assumed.
            match time.and_then(|column| header.get(column)).map(String::as_str) {
                Some("time_ms") => self.time_unit_ns = 1_000_000,
                Some("time_us") => self.time_unit_ns = 1_000,
                Some("time_ns") => self.time_unit_ns = 1,
                _ => {}
            }
            self.places = Some(Places::new(
                page,
                is_key,
                find(&header, ACCESS_NAMES),
                time,
                find(&header, SIZE_NAMES),
                find(&header, CLASS_NAMES),
            ));
            return Ok(true);
        };
        let mut has_names = false;
        let mut place = |column: &Column| match column {
            Column::Place(place) => Ok(*place),
            Column::Name(name) => {
                has_names = true;
                header.iter().position(|known| known.eq_ignore_ascii_case(name)).ok_or_else(|| {
                    Fault::new(
                        format!(
                            "no column is called '{}' in the header {}",
                            name.escape_debug(),
                            shown(line)
                        ),
                        "name columns as the first line does, or count them from 1",
                    )
                })
            }
        };
        let page = place(&wanted.page)?;
        let mut optional = |column: &Option<Column>| column.as_ref().map(&mut place).transpose();
        let access = optional(&wanted.access)?;
        let time = optional(&wanted.time)?;
        let size = optional(&wanted.size)?;
        let class = optional(&wanted.class)?;
        // Counted columns do not tell whether the first line is a header: its numbers do.
        let must_be_number = if wanted.is_key { size.or(time) } else { Some(page) };
        let is_header = has_names
            || line.first() == Some(&b'#')
            || must_be_number.is_some_and(|column| {
                fields(line).nth(column).is_none_or(|f| !f.first().is_some_and(u8::is_ascii_digit))
            });
        self.places = Some(Places::new(page, wanted.is_key, access, time, size, class));
        Ok(is_header)
    }

    fn class(&mut self, name: &[u8]) -> u16 {
        if let Some(known) = self.class_numbers.get(name) {
            return *known;
        }
        let next = self.classes.len();
        if next >= CLASSES_MAX {
            // The last class, "other", is never looked up by name.
            if next == CLASSES_MAX {
                self.classes.push("other".to_owned());
            }
            return u16::try_from(CLASSES_MAX).unwrap_or(u16::MAX);
        }
        let number = u16::try_from(next).unwrap_or(u16::MAX);
        self.classes.push(String::from_utf8_lossy(name).into_owned());
        self.class_numbers.insert(name.to_vec(), number);
        number
    }
}

impl Places {
    fn new(
        page: usize,
        is_key: bool,
        access: Option<usize>,
        time: Option<usize>,
        size: Option<usize>,
        class: Option<usize>,
    ) -> Self {
        let last = [access, time, size, class].into_iter().flatten().fold(page, usize::max);
        Self { page, is_key, access, time, size, class, last }
    }
}

impl Lines for CsvLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        const REMEDY: &str = "check --columns";
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        if self.places.is_none() && self.begin(line)? {
            return Ok(());
        }
        let Some(places) = &self.places else { return Ok(()) };
        let (mut page, mut access, mut time, mut size, mut class) = (None, None, None, None, None);
        let mut count = 0;
        for (place, field) in fields(line).enumerate().take(places.last + 1) {
            count = place + 1;
            let place = Some(place);
            if place == Some(places.page) {
                page = Some(field.clone());
            }
            if place == places.access {
                access = Some(field.clone());
            }
            if place == places.time {
                time = Some(field.clone());
            }
            if place == places.class {
                class = Some(field.clone());
            }
            if place == places.size {
                size = Some(field);
            }
        }
        if count <= places.last {
            return Err(Fault::new(
                format!("{count} fields, but column {} is wanted", places.last + 1),
                "the line was cut short, or check --columns",
            ));
        }
        let page: Cow<'_, [u8]> = page.unwrap_or_default();
        let number_of_page = match decimal(&page) {
            _ if places.is_key => key_number(&page),
            Some(number) => number,
            None => {
                return Err(Fault::new(
                    format!("the page {} is no whole number below 2^64", shown(&page)),
                    "check --columns; text keys are named by key= instead of page=",
                ));
            }
        };
        let access = access.map(|name| known_access(&name)).transpose()?.unwrap_or_default();
        let unit_ns = self.time_unit_ns;
        let time = time
            .filter(|text| !text.is_empty())
            .map(|text| {
                time_us(&text, unit_ns).ok_or_else(|| {
                    Fault::new(format!("the time {} is no number", shown(&text)), REMEDY)
                })
            })
            .transpose()?;
        let size = size.map(|text| number(&text, "size", REMEDY)).transpose()?;
        let is_key = places.is_key;
        let reference = match (self.page_bytes, size) {
            (Some(page_bytes), Some(size)) if !is_key => {
                let start = u128::from(number_of_page) * u128::from(self.block_bytes.get());
                extent::cut(start, size, page_bytes)?
            }
            _ => Reference::read(number_of_page),
        };
        let class = class.filter(|name| !name.is_empty()).map(|name| self.class(&name));
        out.push(Reference { access, time_us: time, class, ..reference });
        Ok(())
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }
}
