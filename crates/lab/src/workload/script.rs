//! A compiled script: what the driver executes.
//!
//! All scripts of a run are compiled against one [`Symbols`] table, so a client's variables are a
//! plain array indexed by [`Slot`], shared by its scripts as in pgbench.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::ScriptError;
use super::expression::{CallSiteSource, Expression};

/// The index of a variable in a client's array of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// The index of a statement among all statements of a run (over all scripts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementId(pub u32);

/// The value of a variable, with pgbench's types.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Value {
    /// Never set. In SQL of the simple protocol such a variable stays as it is written, as in pgbench;
    /// elsewhere a parameter without a value is NULL, and an expression fails.
    #[default]
    Unset,
    /// SQL's NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Double(f64),
    /// Text that came from `-D` or `\gset` and is not (yet) a number.
    Text(Arc<str>),
}

/// The names of all variables of a run.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    by_name: HashMap<String, Slot>,
    names: Vec<String>,
}

impl Symbols {
    /// The slot of `name`, made where there is none.
    ///
    /// # Panics
    /// Never: a run has far fewer than 2^32 variables, the script parser limits them.
    pub fn slot(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.by_name.get(name) {
            return *slot;
        }
        let slot = Slot(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.by_name.insert(name.to_owned(), slot);
        self.names.push(name.to_owned());
        slot
    }

    /// The slot of `name`, where a script or an option mentions it.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Slot> {
        self.by_name.get(name).copied()
    }

    /// The name of `slot`.
    #[must_use]
    pub fn name(&self, slot: Slot) -> &str {
        self.names.get(slot.0 as usize).map_or("?", String::as_str)
    }

    /// How many variables there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no variable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// A piece of SQL text: literal text or the value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that is sent as it stands.
    Text(String),
    /// `:name`, replaced by the variable's value (simple protocol) or by `$n`.
    Variable(Slot),
}

/// One SQL command of a script.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The text in pieces, for the simple protocol. Several statements joined by `\;` are one.
    pub pieces: Vec<Piece>,
    /// The text with `$1`, `$2` ... in place of variables, for the extended protocol.
    pub text: String,
    /// The variables that `$1`, `$2` ... stand for, in order.
    pub parameters: Vec<Slot>,
    /// The line (from 1) at which the command starts.
    pub line: u32,
}

/// What becomes of the rows a statement returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    /// They are read and thrown away.
    None,
    /// `\gset [prefix]`: the one row of the last result becomes variables.
    GSet {
        /// Put before each column's name.
        prefix: String,
    },
    /// `\aset [prefix]`: the last row of each result of a combined query becomes variables.
    ASet {
        /// Put before each column's name.
        prefix: String,
    },
}

/// One command of a script. Jump targets are indices into [`Script::commands`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Send a statement.
    Sql {
        /// Which one.
        statement: StatementId,
        /// What becomes of its rows.
        capture: Capture,
    },
    /// `\set`.
    Set {
        /// The variable.
        variable: Slot,
        /// Its new value.
        expression: Expression,
    },
    /// `\sleep`: pause for the value of the variable, or the constant, in nanoseconds per unit.
    Sleep {
        /// How many units.
        duration: SleepDuration,
        /// Nanoseconds per unit (us, ms or s).
        unit_ns: u64,
    },
    /// `\if`, `\elif`: go on with the next command when true, else jump.
    JumpUnless {
        /// The condition.
        condition: Expression,
        /// Where to go when it is false.
        target: usize,
    },
    /// The end of a taken branch: go behind `\endif`.
    Jump {
        /// Where to go.
        target: usize,
    },
    /// `\startpipeline`.
    StartPipeline,
    /// `\syncpipeline`.
    SyncPipeline,
    /// `\endpipeline`.
    EndPipeline,
}

/// How long `\sleep` pauses, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepDuration {
    /// A number in the script.
    Constant(u64),
    /// A variable.
    Variable(Slot),
}

/// A compiled script.
#[derive(Clone, Debug)]
pub struct Script {
    /// What reports call it: a built-in's name or the file's path as given.
    pub name: String,
    /// The share of transactions that run it, relative to the other scripts' weights.
    pub weight: u32,
    /// The commands, in order.
    pub commands: Vec<Command>,
    /// The source line (from 1) of each command, for messages.
    pub lines: Vec<u32>,
    /// pgbench's number (from 1) of each command: it counts `\else` and `\endif`, which are no commands
    /// here.
    pub numbers: Vec<u32>,
    /// The first line of each command that pgbench counts, as it is written, by its number less one.
    pub listing: Vec<String>,
}

impl Script {
    /// pgbench's number (from 1) of a command.
    #[must_use]
    pub fn number(&self, command: usize) -> u32 {
        self.numbers.get(command).copied().unwrap_or(0)
    }
}

/// All that a run executes.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The scripts; a transaction runs one, drawn by weight.
    pub scripts: Vec<Script>,
    /// The statements of all scripts, by [`StatementId`].
    pub statements: Vec<Statement>,
    /// The variables of all scripts.
    pub symbols: Symbols,
    /// The places of random functions, by their number.
    pub call_sites: Vec<CallSiteSource>,
    /// Values that each client starts with (`-D`, `scale`, `client_id`'s slot excepted).
    pub initial: Vec<(Slot, Value)>,
    /// What a person should know before the run: nothing wrong, but perhaps not what is meant.
    pub remarks: Vec<ScriptError>,
}
