//! Laws without a database: independent draws, scans beside a hot set, loops, phases.

use std::collections::VecDeque;

use evenkeel_distribution::{DistributionSpec, RandomStream, Sampler};

use super::arguments::{Arguments, SpecError, misfit};
use super::{Steps, access};
use crate::trace::Reference;

/// Most pages, so that a page number and what is added to it fit.
const PAGES_MAX: u64 = 1 << 40;

fn pages(arguments: &mut Arguments, name: &str, default: u64) -> Result<u64, SpecError> {
    arguments.number(name, default, 1..=PAGES_MAX)
}

fn zipf(arguments: &mut Arguments, default: f64) -> Result<f64, SpecError> {
    arguments.ratio("s", default, 1e-3..=DistributionSpec::ZIPFIAN_MAX)
}

fn write_ratio(arguments: &mut Arguments) -> Result<f64, SpecError> {
    arguments.ratio("write", 0.0, 0.0..=1.0)
}

/// Each reference drawn for itself.
pub(super) struct Independent {
    sampler: Sampler,
    write_ratio: f64,
}

impl Independent {
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, SpecError> {
        let spec = match arguments.family() {
            "zipf" => DistributionSpec::Zipfian {
                exponent: zipf(arguments, 1.0)?,
                scattered: arguments.word("order", &[("scattered", true), ("adjacent", false)])?,
            },
            "gaussian" => DistributionSpec::Gaussian {
                parameter: arguments.ratio("p", 5.0, DistributionSpec::GAUSSIAN_MIN..=1e6)?,
            },
            _ => DistributionSpec::Uniform,
        };
        let last = pages(arguments, "pages", 10_000)? - 1;
        Ok(Self { sampler: Sampler::new(spec, last), write_ratio: write_ratio(arguments)? })
    }
}

impl Steps for Independent {
    fn step(&mut self, stream: &mut RandomStream, out: &mut VecDeque<Reference>) {
        let page = self.sampler.draw(stream).index;
        out.push_back(Reference {
            access: access(stream, self.write_ratio),
            ..Reference::read(page)
        });
    }
}

/// A hot set, and a table that is scanned from its first page to its last, again and again.
pub(super) struct ScanAndHotSet {
    hot: Sampler,
    table: u64,
    share: f64,
    next: u64,
    write_ratio: f64,
    classes: Vec<String>,
}

impl ScanAndHotSet {
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, SpecError> {
        let hot = pages(arguments, "hot", 1_000)?;
        let spec = DistributionSpec::Zipfian { exponent: zipf(arguments, 0.8)?, scattered: true };
        Ok(Self {
            hot: Sampler::new(spec, hot - 1),
            table: pages(arguments, "table", 100_000)?,
            share: arguments.ratio("share", 0.1, 0.0..=1.0)?,
            next: 0,
            write_ratio: write_ratio(arguments)?,
            classes: vec!["hot set".to_owned(), "scanned table".to_owned()],
        })
    }
}

impl Steps for ScanAndHotSet {
    fn step(&mut self, stream: &mut RandomStream, out: &mut VecDeque<Reference>) {
        if stream.unit() < self.share {
            let page = PAGES_MAX + self.next;
            self.next = (self.next + 1) % self.table;
            out.push_back(Reference { class: Some(1), ..Reference::read(page) });
        } else {
            let page = self.hot.draw(stream).index;
            let access = access(stream, self.write_ratio);
            out.push_back(Reference { class: Some(0), access, ..Reference::read(page) });
        }
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }
}

/// One or more loops, the pages divided among them, one reference of each in turn; and a share of
/// references to any page.
pub(super) struct Loops {
    lengths: Vec<u64>,
    places: Vec<u64>,
    turn: usize,
    pages: u64,
    noise: f64,
    write_ratio: f64,
}

impl Loops {
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, SpecError> {
        let total = pages(arguments, "pages", 1_000)?;
        let loops = arguments.number("loops", 1, 1..=1_000)?;
        if loops > total {
            return Err(misfit(format!("loops={loops}: more than pages={total}")));
        }
        // Of different lengths, so that their phases drift: in the ratio 1 : 2 : 3 and so on.
        let parts = u128::from(loops * (loops + 1) / 2);
        let mut lengths: Vec<u64> = (1..=loops)
            .map(|part| (u128::from(total) * u128::from(part) / parts).max(1) as u64)
            .collect();
        let used: u64 = lengths.iter().sum();
        if let Some(last) = lengths.last_mut() {
            *last = (*last + total).saturating_sub(used).max(1);
        }
        Ok(Self {
            places: vec![0; lengths.len()],
            lengths,
            turn: 0,
            pages: total,
            noise: arguments.ratio("noise", 0.0, 0.0..=1.0)?,
            write_ratio: write_ratio(arguments)?,
        })
    }
}

impl Steps for Loops {
    fn step(&mut self, stream: &mut RandomStream, out: &mut VecDeque<Reference>) {
        let page = if self.noise > 0.0 && stream.unit() < self.noise {
            stream.up_to(self.pages - 1)
        } else {
            let start: u64 = self.lengths.iter().take(self.turn).sum();
            let place = &mut self.places[self.turn];
            let page = start + *place;
            *place = (*place + 1) % self.lengths[self.turn];
            self.turn = (self.turn + 1) % self.lengths.len();
            page
        };
        out.push_back(Reference {
            access: access(stream, self.write_ratio),
            ..Reference::read(page)
        });
    }
}

/// A working set that lies elsewhere after each phase.
pub(super) struct Phases {
    set: Sampler,
    pages: u64,
    length: u64,
    done: u64,
    start: u64,
    write_ratio: f64,
}

impl Phases {
    pub(super) fn new(arguments: &mut Arguments) -> Result<Self, SpecError> {
        let total = pages(arguments, "pages", 100_000)?;
        let set = pages(arguments, "set", 1_000)?;
        if set > total {
            return Err(misfit(format!("set={set}: more than pages={total}")));
        }
        let spec = DistributionSpec::Zipfian { exponent: zipf(arguments, 0.8)?, scattered: true };
        Ok(Self {
            set: Sampler::new(spec, set - 1),
            pages: total,
            length: arguments.number("length", 50_000, 1..=1 << 40)?,
            done: 0,
            start: 0,
            write_ratio: write_ratio(arguments)?,
        })
    }
}

impl Steps for Phases {
    fn step(&mut self, stream: &mut RandomStream, out: &mut VecDeque<Reference>) {
        if self.done == self.length {
            self.done = 0;
            self.start = stream.up_to(self.pages - 1);
        }
        self.done += 1;
        let page = (self.start + self.set.draw(stream).index) % self.pages;
        out.push_back(Reference {
            access: access(stream, self.write_ratio),
            ..Reference::read(page)
        });
    }
}
