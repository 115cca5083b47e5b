//! PostgreSQL's relations: a number for each fork of a relation, and names from a file beside the
//! trace.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::error::{Fault, Place, TraceError, shown};
use super::input::Input;
use super::text::{decimal, fields};

/// Most forks of relations: more is not a database but a wrong format.
const RELATIONS_MAX: usize = 1 << 22;

/// Most classes; what comes after them shares the last.
const CLASSES_MAX: usize = 60_000;

/// Names of forks as PostgreSQL's `forkNames` has them.
const FORKS: [&str; 4] = ["main", "fsm", "vm", "init"];

/// Where a page lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RelationFork {
    pub(super) space: u32,
    pub(super) database: u32,
    pub(super) relation: u32,
    pub(super) fork: u8,
}

/// Names by relation number.
#[derive(Clone, Debug, Default)]
pub(super) struct RelationNames {
    /// `name/kind` by the trace's own numbers.
    by_number: HashMap<u32, String>,
    /// The same by relfilenode.
    by_file: HashMap<u32, String>,
}

/// Numbers forks of relations in order of appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Relations {
    known: HashMap<RelationFork, u32>,
    /// The last one: look-ups come in bursts.
    last: Option<(RelationFork, u32)>,
    classes: Vec<String>,
    names: RelationNames,
    /// Whether relation numbers are the trace's own rather than relfilenodes.
    has_own_numbers: bool,
}

/// The fork of this name.
pub(super) fn fork_number(name: &[u8]) -> Option<u8> {
    let place = FORKS.iter().position(|fork| fork.as_bytes() == name)?;
    u8::try_from(place).ok()
}

impl Relations {
    pub(super) fn new(names: RelationNames, has_own_numbers: bool) -> Self {
        Self { names, has_own_numbers, ..Self::default() }
    }

    /// The page number and the class of a block.
    pub(super) fn page(&mut self, fork: RelationFork, block: u32) -> Result<(u64, u16), Fault> {
        let number = match self.last {
            Some((last, number)) if last == fork => number,
            _ => self.number(fork)?,
        };
        self.last = Some((fork, number));
        let class = (number as usize).min(CLASSES_MAX);
        Ok((u64::from(number) << 32 | u64::from(block), u16::try_from(class).unwrap_or(u16::MAX)))
    }

    pub(super) fn classes(&self) -> &[String] {
        &self.classes
    }

    fn number(&mut self, fork: RelationFork) -> Result<u32, Fault> {
        if let Some(number) = self.known.get(&fork) {
            return Ok(*number);
        }
        let next = self.known.len();
        if next >= RELATIONS_MAX {
            return Err(Fault::new(
                format!("more than {RELATIONS_MAX} relations"),
                "this is not a trace of PostgreSQL; name its format with --trace-format",
            ));
        }
        let number = u32::try_from(next).unwrap_or(u32::MAX);
        self.known.insert(fork, number);
        match next {
            0..CLASSES_MAX => self.classes.push(self.name(fork)),
            CLASSES_MAX => self.classes.push("other relations".to_owned()),
            _ => {}
        }
        Ok(number)
    }

    fn name(&self, fork: RelationFork) -> String {
        let names = if self.has_own_numbers { &self.names.by_number } else { &self.names.by_file };
        let mut name = match names.get(&fork.relation) {
            Some(name) => name.clone(),
            None => format!("rel {}", fork.relation),
        };
        if fork.fork != 0 {
            name.push('/');
            match FORKS.get(usize::from(fork.fork)) {
                Some(known) => name.push_str(known),
                None => name.push_str(&format!("fork {}", fork.fork)),
            }
        }
        name
    }
}

impl RelationNames {
    /// Of the file that was named, or of the one beside the trace, or none.
    pub(super) fn find(trace: &Path, named: Option<&Path>) -> Result<Self, TraceError> {
        if let Some(path) = named {
            return Self::read(path);
        }
        match beside(trace) {
            Some(path) if path.is_file() => Self::read(&path),
            _ => Ok(Self::default()),
        }
    }

    fn read(path: &Path) -> Result<Self, TraceError> {
        let file = path.display().to_string();
        let mut place = Place::Whole;
        Self::parse(path, &mut place).map_err(|fault| fault.in_file(&file, place))
    }

    fn parse(path: &Path, place: &mut Place) -> Result<Self, Fault> {
        const REMEDY: &str = "a file of names has a header with relfilenode and relname, and \
                              possibly relkind and rel, as psql's \\copy ... csv header writes";
        let (mut input, _) = Input::open(path)?;
        *place = Place::Line(1);
        let header = input.line()?.unwrap_or_default().to_vec();
        let column =
            |name: &str| fields(&header).position(|field| field.as_ref() == name.as_bytes());
        let (Some(file), Some(relation)) = (column("relfilenode"), column("relname")) else {
            return Err(Fault::new("has no columns relfilenode and relname", REMEDY));
        };
        let (kind, own) = (column("relkind"), column("rel"));
        let mut names = Self::default();
        while let Some(line) = input.line()? {
            let line = line.to_vec();
            *place = Place::Line(input.line_number());
            if names.by_file.len() + names.by_number.len() >= 2 * RELATIONS_MAX {
                return Err(Fault::new(
                    format!("names more than {RELATIONS_MAX} relations"),
                    REMEDY,
                ));
            }
            if line.is_empty() {
                continue;
            }
            let row: Vec<_> = fields(&line).collect();
            let number = |column: usize| {
                let field = row.get(column).map(AsRef::as_ref).unwrap_or_default();
                decimal(field).and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
                    Fault::new(format!("{} is no relation number", shown(field)), REMEDY)
                })
            };
            let text = |column: usize| {
                row.get(column).map(|field| String::from_utf8_lossy(field).into_owned())
            };
            let file = number(file)?;
            let name = match text(relation).as_deref() {
                None | Some("" | "?") => format!("rel {file}"),
                Some(name) => {
                    let kind = kind.and_then(text);
                    match kind.as_deref() {
                        Some("r") => format!("{name}/heap"),
                        Some("i") => format!("{name}/index"),
                        Some("t") => format!("{name}/toast"),
                        Some("m") => format!("{name}/materialized view"),
                        Some("S") => format!("{name}/sequence"),
                        _ => name.to_owned(),
                    }
                }
            };
            if let Some(own) = own {
                names.by_number.insert(number(own)?, name.clone());
            }
            names.by_file.insert(file, name);
        }
        Ok(names)
    }
}

/// `a/x.rels.csv` for `a/x.csv.xz`, `a/x.csv` and `a/x.txt.gz`.
fn beside(trace: &Path) -> Option<PathBuf> {
    let name = trace.file_name()?.to_str()?;
    let name = [".gz", ".xz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    Some(trace.with_file_name(format!("{stem}.rels.csv")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(relation: u32, fork: u8) -> RelationFork {
        RelationFork { space: 1663, database: 5, relation, fork }
    }

    #[test]
    fn forks_of_relations_never_share_a_page_number() {
        let mut relations = Relations::default();
        let first = relations.page(fork(16_384, 0), u32::MAX).unwrap();
        let second = relations.page(fork(16_384, 2), u32::MAX).unwrap();
        assert_eq!(first, (u64::from(u32::MAX), 0));
        assert_eq!(second, ((1 << 32) | u64::from(u32::MAX), 1));
        assert_eq!(relations.page(fork(16_384, 0), 3).unwrap(), (3, 0));
        assert_eq!(relations.classes(), ["rel 16384", "rel 16384/vm"]);
    }

    #[test]
    fn names_come_from_the_file_beside_the_trace() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("x.csv.xz");
        std::fs::write(
            folder.path().join("x.rels.csv"),
            "rel,relfilenode,relname,relkind,relpages\n1,2676,?,?,?\n2,16384,accounts,r,9\n",
        )
        .unwrap();
        let names = RelationNames::find(&trace, None).unwrap();
        let mut by_number = Relations::new(names.clone(), true);
        by_number.page(fork(1, 0), 0).unwrap();
        by_number.page(fork(2, 1), 0).unwrap();
        assert_eq!(by_number.classes(), ["rel 2676", "accounts/heap/fsm"]);
        let mut by_file = Relations::new(names, false);
        by_file.page(fork(16_384, 0), 0).unwrap();
        assert_eq!(by_file.classes(), ["accounts/heap"]);
    }

    #[test]
    fn a_file_of_names_without_them_is_an_error_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("names.csv");
        for (text, line) in [("a,b\n", 1), ("relfilenode,relname\n1,a\nx,b\n", 3)] {
            std::fs::write(&path, text).unwrap();
            let error = RelationNames::find(Path::new("t"), Some(&path)).unwrap_err();
            assert_eq!(error.place, Place::Line(line), "{error}");
        }
    }
}
