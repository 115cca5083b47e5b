//! What PostgreSQL's own tools, and probes on it, say of its pages.

mod buffercache;
mod lookups;
mod perf_script;
mod waldump;

pub(super) use buffercache::{BuffercacheLines, is_header as is_buffercache_header};
pub(super) use lookups::{LookupLines, is_header as is_lookup_header};
pub(super) use perf_script::{PerfScriptLines, is_event as is_perf_event};
pub(super) use waldump::WaldumpLines;

use super::error::{Fault, shown};
use super::text::decimal;

/// A 32-bit number of a field, or what is wrong.
fn number(field: &[u8], what: &str, remedy: &str) -> Result<u32, Fault> {
    decimal(field).and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
        Fault::new(format!("the {what} {} is no 32-bit number", shown(field)), remedy)
    })
}

/// The number of a fork, of which there are few.
fn fork(field: &[u8], remedy: &str) -> Result<u8, Fault> {
    const FORKS_MAX: u64 = 15;
    decimal(field)
        .filter(|fork| *fork <= FORKS_MAX)
        .and_then(|fork| u8::try_from(fork).ok())
        .ok_or_else(|| Fault::new(format!("the fork {} is none", shown(field)), remedy))
}

/// Where the columns of a header are.
fn column(header: &[u8], names: &[&str]) -> Option<usize> {
    super::text::fields(header)
        .position(|field| names.iter().any(|name| name.as_bytes() == field.as_ref()))
}
