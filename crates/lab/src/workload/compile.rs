//! Compiles scripts in pgbench's language into one [`Workload`].

use std::collections::HashSet;

use super::error::ScriptError;
use super::expression::CallSiteSource;
use super::script::{Piece, Script, Slot, Statement, Value, Workload};
use super::script_parser::{Parsed, ScriptParser};
use super::source::Source;
use super::sql_scanner::Part;

/// Variables that the driver sets for each client.
pub const AUTOMATIC_VARIABLES: [&str; 3] = ["client_id", "random_seed", "default_seed"];

/// More remarks than this nobody reads.
const REMARKS_MAX: usize = 10;

/// Collects scripts and variables, then gives the workload.
#[derive(Debug, Default)]
pub struct Compiler {
    pub(super) workload: Workload,
    sources: Vec<Source>,
    /// Names that get a value: by `\set`, an option, or the driver.
    pub(super) defined: HashSet<Slot>,
    /// What `\gset` and `\aset` put before the names of columns, which only the server knows.
    pub(super) prefixes: HashSet<String>,
    /// Where variables are read, by script.
    pub(super) reads: Vec<Read>,
    /// What looks like variables within literals.
    pub(super) quoted: Vec<(Slot, usize, usize)>,
    /// Statements whose variables are not sorted out yet.
    pub(super) drafts: Vec<Draft>,
}

/// A place where a variable must have a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) slot: Slot,
    /// Which source.
    pub(super) script: usize,
    /// The byte in it.
    pub(super) offset: usize,
}

/// A statement as it was scanned.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) pieces: Vec<DraftPiece>,
    pub(super) line: u32,
}

#[derive(Debug)]
pub(super) enum DraftPiece {
    Text(String),
    Variable { slot: Slot, may_be_sql: bool },
}

impl Compiler {
    /// A compiler without scripts.
    #[must_use]
    pub fn new() -> Self {
        let mut compiler = Self::default();
        for name in AUTOMATIC_VARIABLES {
            let slot = compiler.workload.symbols.slot(name);
            compiler.defined.insert(slot);
        }
        compiler
    }

    /// Gives `name` a value that each client starts with (`-D name=value`, the target's scale).
    ///
    /// # Errors
    /// When the name is not one.
    pub fn define(&mut self, name: &str, value: Value) -> Result<(), ScriptError> {
        check_name(name).map_err(|message| ScriptError::whole("-D", message))?;
        let slot = self.workload.symbols.slot(name);
        self.defined.insert(slot);
        self.workload.initial.retain(|(other, _)| *other != slot);
        self.workload.initial.push((slot, value));
        Ok(())
    }

    /// Defines a variable as the option `-D` has it: `name=value`. A `scale` other than the one that is
    /// defined already, from the target, is refused.
    ///
    /// # Errors
    /// When a part is missing, the name is not one, or the scale is another.
    pub fn define_option(&mut self, definition: &str) -> Result<(), ScriptError> {
        let refused = |message: String| Err(ScriptError::whole("-D", message));
        let (name, value) = match definition.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => (name, value),
            _ => {
                let shown = crate::text::excerpt(definition, 60);
                return refused(format!(
                    "'{shown}': a name, an equals sign and a value are needed"
                ));
            }
        };
        let scale = self.workload.symbols.find("scale").filter(|_| name == "scale");
        let found = self.workload.initial.iter().find(|(slot, _)| Some(*slot) == scale);
        if let Some((_, Value::Int(found))) = found {
            return match value.trim().parse::<i64>() {
                Ok(asked) if asked == *found => Ok(()),
                _ => refused(format!(
                    "scale is {found} in the database, and cannot be {}; leave it out",
                    crate::text::excerpt(value, 60)
                )),
            };
        }
        self.define(name, Value::Text(value.into()))
    }

    /// Adds a script.
    ///
    /// # Errors
    /// The first thing in it that is wrong, with its place.
    pub fn add(&mut self, name: &str, weight: u32, text: &str) -> Result<(), ScriptError> {
        let source = Source::new(name, text)?;
        let script = self.sources.len();
        let Parsed { commands, lines, numbers, listing } =
            ScriptParser::new(self, &source, script).run()?;
        if commands.is_empty() {
            return Err(ScriptError::whole(
                name,
                "the script holds no command; write SQL, or a backslash command",
            ));
        }
        let name = name.to_owned();
        self.workload.scripts.push(Script { name, weight, commands, lines, numbers, listing });
        self.sources.push(source);
        Ok(())
    }

    /// The workload.
    ///
    /// # Errors
    /// When there is no script with a weight, or a variable is used that nothing can define.
    pub fn finish(mut self) -> Result<Workload, ScriptError> {
        if self.workload.scripts.iter().all(|script| script.weight == 0) {
            let message = "no script has a weight above zero; nothing would run";
            return Err(ScriptError::whole("scripts", message));
        }
        let undefined = self.reads.iter().find(|read| !self.is_definable(read.slot));
        if let Some(read) = undefined {
            return Err(self.undefined(*read));
        }
        self.remark_quoted();
        for draft in std::mem::take(&mut self.drafts) {
            let statement = self.statement(draft);
            self.workload.statements.push(statement);
        }
        Ok(self.workload)
    }

    /// Whether anything in the run may give the variable a value.
    fn is_definable(&self, slot: Slot) -> bool {
        if self.defined.contains(&slot) {
            return true;
        }
        let name = self.workload.symbols.name(slot);
        self.prefixes.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
    }

    fn undefined(&self, read: Read) -> ScriptError {
        let name = crate::text::excerpt(self.workload.symbols.name(read.slot), 60);
        let message = if name == "scale" {
            "variable 'scale' is not known: the database has no pgbench tables; give it with -s"
                .to_owned()
        } else {
            format!("variable '{name}' is never set; use \\set or -D {name}=...")
        };
        match self.sources.get(read.script) {
            Some(source) => source.error(read.offset, message),
            None => ScriptError::whole("scripts", message),
        }
    }

    /// Says where pgbench would put a value into a literal and we do not.
    fn remark_quoted(&mut self) {
        let mut seen = HashSet::new();
        for (slot, script, offset) in std::mem::take(&mut self.quoted) {
            if !self.defined.contains(&slot) || !seen.insert((slot, script)) {
                continue;
            }
            if self.workload.remarks.len() >= REMARKS_MAX {
                return;
            }
            let name = crate::text::excerpt(self.workload.symbols.name(slot), 60);
            let message = format!(
                ":{name} within a literal is text here; pgbench would replace it in simple mode. To \
                 have its value, write '...' || :{name} || '...'"
            );
            if let Some(source) = self.sources.get(script) {
                self.workload.remarks.push(source.error(offset, message));
            }
        }
    }

    /// Sorts out which names are variables: where SQL has colons of its own, those that can have a value.
    fn statement(&self, draft: Draft) -> Statement {
        let (mut pieces, mut text) = (Vec::new(), String::new());
        let mut parameters: Vec<Slot> = Vec::new();
        let mut literal = String::new();
        for piece in draft.pieces {
            match piece {
                DraftPiece::Text(part) => literal.push_str(&part),
                DraftPiece::Variable { slot, may_be_sql } => {
                    if may_be_sql && !self.is_definable(slot) {
                        literal.push(':');
                        literal.push_str(self.workload.symbols.name(slot));
                        continue;
                    }
                    if !literal.is_empty() {
                        text.push_str(&literal);
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    }
                    parameters.push(slot);
                    text.push('$');
                    text.push_str(&parameters.len().to_string());
                    pieces.push(Piece::Variable(slot));
                }
            }
        }
        if !literal.is_empty() || pieces.is_empty() {
            text.push_str(&literal);
            pieces.push(Piece::Text(literal));
        }
        Statement { pieces, text, parameters, line: draft.line }
    }

    /// Enters a statement's variables.
    pub(super) fn draft(&mut self, parts: &[Part<'_>], line: u32, script: usize) {
        let pieces = parts
            .iter()
            .map(|part| match *part {
                Part::Text(text) => DraftPiece::Text(text.to_owned()),
                Part::Variable { name, offset, may_be_sql } => {
                    let slot = self.workload.symbols.slot(name);
                    if !may_be_sql {
                        self.reads.push(Read { slot, script, offset });
                    }
                    DraftPiece::Variable { slot, may_be_sql }
                }
            })
            .collect();
        self.drafts.push(Draft { pieces, line });
    }
}

/// A variable's name: a letter, underscore or any character beyond ASCII, then digits as well.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    if name.chars().all(good) && !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty()
    {
        return Ok(());
    }
    Err(format!(
        "'{}' is not a variable's name: letters, digits and underscores, no digit first",
        crate::text::excerpt(name, 60)
    ))
}

/// The audits' names of all call sites, by their number.
#[must_use]
pub fn call_site_names(sources: &[CallSiteSource]) -> Vec<String> {
    sources.iter().map(|site| format!("{}:{}: {}", site.script, site.line, site.text)).collect()
}
