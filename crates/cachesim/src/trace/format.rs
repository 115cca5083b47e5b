//! The formats and their names.

use std::fmt;
use std::str::FromStr;

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// evenkeel's own: compact, checksummed.
    Evenkeel,
    /// Text, one page number a line, with the markers of LIRS's traces.
    Ids,
    /// Four numbers a line: first block, count, ignored, request (ARC's traces).
    Arc,
    /// Comma-separated, with columns by mapping or by well-known names in a header.
    Csv,
    /// UMass / Storage Performance Council: ASU, LBA, size, opcode, time.
    Spc,
    /// Microsoft Research Cambridge: time, host, disk, type, offset, size, response time.
    Msr,
    /// Twitter's cache traces: time, key, key size, value size, client, operation, time to live.
    Twitter,
    /// libCacheSim's oracleGeneral records.
    OracleGeneral,
    /// libCacheSim's lcs, version 1.
    Lcs,
    /// VMware's vscsiStats, version 1 records.
    VscsiV1,
    /// The same, version 2.
    VscsiV2,
    /// 4-byte page numbers, highest byte first.
    U32BigEndian,
    /// 4-byte page numbers, lowest byte first.
    U32LittleEndian,
    /// 8-byte page numbers, highest byte first.
    U64BigEndian,
    /// 8-byte page numbers, lowest byte first.
    U64LittleEndian,
    /// PostgreSQL page look-ups as CSV: op, client, rel, fork, block.
    PgLookups,
    /// Text of `pg_waldump`.
    PgWaldump,
    /// Snapshots of `pg_buffercache` as CSV.
    PgBuffercache,
    /// `perf script` output of the probes `buffer__read__done` and `buffer__extend__done`.
    PgProbes,
    /// Not a format of files: a trace made by [`crate::generate`].
    Generated,
}

/// Name, format, what it is.
pub const FORMATS: [(&str, Format, &str); 19] = [
    ("evenkeel", Format::Evenkeel, "evenkeel's own, compact and checksummed"),
    ("ids", Format::Ids, "one page number a line; LIRS's traces"),
    ("arc", Format::Arc, "first block, count, ignored, request; ARC's .lis traces"),
    ("csv", Format::Csv, "comma-separated, see --columns; libCacheSim's CSV"),
    ("spc", Format::Spc, "UMass / SPC: ASU,LBA,size,opcode,time"),
    ("msr", Format::Msr, "MSR Cambridge: time,host,disk,type,offset,size,response"),
    ("twitter", Format::Twitter, "Twitter: time,key,key size,value size,client,operation,TTL"),
    ("oracle-general", Format::OracleGeneral, "libCacheSim's oracleGeneral"),
    ("lcs", Format::Lcs, "libCacheSim's lcs, version 1"),
    ("vscsi-v1", Format::VscsiV1, "vscsiStats, 32-byte records"),
    ("vscsi-v2", Format::VscsiV2, "vscsiStats, 40-byte records"),
    ("u32be", Format::U32BigEndian, "4-byte page numbers, big-endian; cache2k"),
    ("u32le", Format::U32LittleEndian, "4-byte page numbers, little-endian"),
    ("u64be", Format::U64BigEndian, "8-byte page numbers, big-endian; Corda, Scarab"),
    ("u64le", Format::U64LittleEndian, "8-byte page numbers, little-endian"),
    (
        "pg-lookups",
        Format::PgLookups,
        "PostgreSQL: op,client,rel,fork,block; the bpftrace one-liner",
    ),
    ("pg-waldump", Format::PgWaldump, "PostgreSQL: text of pg_waldump"),
    ("pg-buffercache", Format::PgBuffercache, "PostgreSQL: pg_buffercache as CSV"),
    ("pg-probes", Format::PgProbes, "PostgreSQL: perf script of the probe buffer__read__done"),
];

impl Format {
    /// The name for `--trace-format`.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = FORMATS.iter().find(|(_, format, _)| *format == self);
        known.map_or("generated", |(name, _, _)| name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(String);

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = FORMATS.iter().map(|(name, _, _)| *name).collect();
        write!(f, "no trace format is called '{}'; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        FORMATS
            .iter()
            .find(|(name, _, _)| *name == text)
            .map(|(_, format, _)| *format)
            .ok_or_else(|| UnknownFormat(text.escape_debug().to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_means_its_format() {
        for (name, format, _) in FORMATS {
            assert_eq!(name.parse(), Ok(format));
            assert_eq!(format.to_string(), name);
        }
        assert!("tape".parse::<Format>().unwrap_err().to_string().contains("oracle-general"));
    }
}
