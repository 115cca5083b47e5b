//! Compiles scripts in pgbench's language into one [`Workload`].

use super::error::ScriptError;
use super::expression::{CallSiteSource, Expression};
use super::expression_parser::{self, Context};
use super::script::{
    Capture, Command, Piece, Script, SleepDuration, Slot, Statement, StatementId, Symbols, Value,
    Workload,
};
use super::sql_scanner::{self, End};

/// Largest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 16 << 20;

/// Longest line, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Deepest nesting of `\if`.
pub const IF_NESTING_MAX: usize = 64;

/// Collects scripts and variables, then gives the workload.
#[derive(Debug, Default)]
pub struct Compiler {
    workload: Workload,
    /// Names that get a value: by `\set`, an option, or the driver.
    defined: std::collections::HashSet<Slot>,
    /// Where each variable is first used, to say so when nothing defines it.
    uses: Vec<(Slot, ScriptError)>,
    has_captures: bool,
}

/// Variables that the driver sets for each client.
pub const AUTOMATIC_VARIABLES: [&str; 4] = ["client_id", "random_seed", "default_seed", "scale"];

struct OpenIf {
    line_start: usize,
    /// The command that jumps when the condition of the branch under way is false.
    unless: Option<usize>,
    /// Jumps at branches' ends, to be pointed behind `\endif`.
    ends: Vec<usize>,
    has_else: bool,
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

    /// Adds a script.
    ///
    /// # Errors
    /// The first thing in it that is wrong, with its place.
    pub fn add(&mut self, name: &str, weight: u32, text: &str) -> Result<(), ScriptError> {
        if text.len() > SCRIPT_BYTES_MAX {
            let message = format!("a script has at most {} MiB", SCRIPT_BYTES_MAX >> 20);
            return Err(ScriptError::whole(name, message));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut offset = 0;
        for line in text.split_inclusive('\n') {
            if line.len() > LINE_BYTES_MAX {
                let message = format!("a line has at most {} KiB", LINE_BYTES_MAX >> 10);
                return Err(ScriptError::at(name, text, offset, message));
            }
            offset += line.len();
        }
        let mut parser = ScriptParser {
            compiler: self,
            name,
            text,
            at: 0,
            line: 1,
            line_counted_to: 0,
            commands: Vec::new(),
            lines: Vec::new(),
            ifs: Vec::new(),
            pipeline_start: None,
            last_sql: None,
        };
        parser.run()?;
        let (commands, lines) = (parser.commands, parser.lines);
        if commands.is_empty() {
            return Err(ScriptError::whole(name, "the script holds no command"));
        }
        self.workload.scripts.push(Script { name: name.to_owned(), weight, commands, lines });
        Ok(())
    }

    /// The workload.
    ///
    /// # Errors
    /// When there is no script with a weight, or a variable is used that nothing defines.
    pub fn finish(self) -> Result<Workload, ScriptError> {
        if self.workload.scripts.iter().all(|script| script.weight == 0) {
            return Err(ScriptError::whole("scripts", "no script has a weight above zero"));
        }
        if !self.has_captures {
            // Columns captured by \gset have names that only the server knows.
            for (slot, place) in self.uses {
                if !self.defined.contains(&slot) {
                    return Err(place);
                }
            }
        }
        Ok(self.workload)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    if !name.is_empty() && name.chars().all(good) {
        return Ok(());
    }
    Err(format!(
        "'{}' is not a variable's name: letters, digits and underscores",
        crate::text::terminal(name)
    ))
}

struct ScriptParser<'a> {
    compiler: &'a mut Compiler,
    name: &'a str,
    text: &'a str,
    at: usize,
    /// The line at `line_counted_to`, kept up to date so that lines cost nothing to count.
    line: u32,
    line_counted_to: usize,
    commands: Vec<Command>,
    lines: Vec<u32>,
    ifs: Vec<OpenIf>,
    pipeline_start: Option<usize>,
    /// The SQL command that a `\gset` would belong to.
    last_sql: Option<usize>,
}

impl ScriptParser<'_> {
    fn error(&self, offset: usize, message: impl Into<String>) -> ScriptError {
        ScriptError::at(self.name, self.text, offset, message)
    }

    fn line_at(&mut self, offset: usize) -> u32 {
        if offset >= self.line_counted_to {
            let between = self.text.as_bytes().get(self.line_counted_to..offset).unwrap_or(b"");
            self.line += u32::try_from(memchr::memchr_iter(b'\n', between).count()).unwrap_or(0);
            self.line_counted_to = offset;
        }
        self.line
    }

    fn push(&mut self, command: Command, offset: usize) {
        let line = self.line_at(offset);
        self.commands.push(command);
        self.lines.push(line);
    }

    fn run(&mut self) -> Result<(), ScriptError> {
        while self.at < self.text.len() {
            let before = self.compiler.workload.symbols.len();
            let scanned =
                sql_scanner::scan(self.text, self.at, &mut self.compiler.workload.symbols)
                    .map_err(|(offset, message)| self.error(offset, message))?;
            let from = self.at;
            self.at = scanned.next;
            if let Some(start) = scanned.start {
                self.note_uses(&scanned.pieces, from, before);
                self.sql(scanned.pieces, start);
            }
            if scanned.end == End::Backslash {
                self.meta()?;
            }
        }
        if let Some(open) = self.ifs.last() {
            return Err(self.error(open.line_start, "this \\if has no \\endif"));
        }
        if let Some(start) = self.pipeline_start {
            return Err(self.error(start, "this pipeline is never ended: \\endpipeline is missing"));
        }
        Ok(())
    }

    /// Remembers where variables are first used.
    fn note_uses(&mut self, pieces: &[Piece], from: usize, _before: usize) {
        let mut offset = from;
        for piece in pieces {
            let Piece::Variable(slot) = piece else { continue };
            if self.compiler.defined.contains(slot)
                || self.compiler.uses.iter().any(|(other, _)| other == slot)
            {
                continue;
            }
            let name = self.compiler.workload.symbols.name(*slot).to_owned();
            let rest = self.text.get(offset..).unwrap_or("");
            offset += rest.find(&format!(":{name}")).unwrap_or(0);
            let message = format!("variable '{name}' is never set; use \\set or -D {name}=...");
            let place = self.error(offset, message);
            self.compiler.uses.push((*slot, place));
        }
    }

    fn sql(&mut self, pieces: Vec<Piece>, start: usize) {
        let mut text = String::new();
        let mut parameters: Vec<Slot> = Vec::new();
        for piece in &pieces {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                Piece::Variable(slot) => {
                    parameters.push(*slot);
                    text.push_str(&format!("${}", parameters.len()));
                }
            }
        }
        let line = self.line_at(start);
        let statements = &mut self.compiler.workload.statements;
        let statement = StatementId(u32::try_from(statements.len()).unwrap_or(u32::MAX));
        statements.push(Statement { pieces, text, parameters, line });
        self.last_sql = Some(self.commands.len());
        self.push(Command::Sql { statement, capture: Capture::None }, start);
    }

    /// A backslash command: up to the end of the line, or of the last continued one.
    fn meta(&mut self) -> Result<(), ScriptError> {
        let start = self.at;
        let mut end = start;
        loop {
            let rest = self.text.get(end..).unwrap_or("");
            let Some(newline) = rest.find('\n') else {
                end = self.text.len();
                break;
            };
            let line = rest.get(..newline).unwrap_or("");
            if line.trim_end_matches('\r').ends_with('\\') {
                end += newline + 1;
                continue;
            }
            end += newline;
            break;
        }
        let body = self.text.get(start + 1..end).unwrap_or("");
        self.at = end;
        let word_len =
            body.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(body.len());
        let (word, rest) = body.split_at(word_len);
        let arguments = Arguments { text: rest, offset: start + 1 + word_len };
        match word.to_ascii_lowercase().as_str() {
            "set" => self.set(start, arguments),
            "sleep" => self.sleep(start, arguments),
            "gset" | "aset" => self.capture(word, start, arguments),
            "if" => {
                let nested = self.ifs.len();
                if nested >= IF_NESTING_MAX {
                    let message = format!("\\if nests at most {IF_NESTING_MAX} deep");
                    return Err(self.error(start, message));
                }
                self.ifs.push(OpenIf {
                    line_start: start,
                    unless: None,
                    ends: Vec::new(),
                    has_else: false,
                });
                self.branch(start, arguments)
            }
            "elif" => {
                self.close_branch("\\elif", start)?;
                self.branch(start, arguments)
            }
            "else" => {
                self.no_arguments("\\else", &arguments)?;
                self.close_branch("\\else", start)?;
                if let Some(open) = self.ifs.last_mut() {
                    open.has_else = true;
                }
                Ok(())
            }
            "endif" => {
                self.no_arguments("\\endif", &arguments)?;
                let Some(open) = self.ifs.pop() else {
                    return Err(self.error(start, "\\endif without \\if"));
                };
                let here = self.commands.len();
                for jump in open.ends.into_iter().chain(open.unless) {
                    self.point(jump, here);
                }
                self.last_sql = None;
                Ok(())
            }
            "startpipeline" => {
                self.no_arguments("\\startpipeline", &arguments)?;
                if self.pipeline_start.is_some() {
                    return Err(self.error(start, "a pipeline is open already"));
                }
                self.pipeline_start = Some(start);
                self.push(Command::StartPipeline, start);
                Ok(())
            }
            "syncpipeline" => {
                self.no_arguments("\\syncpipeline", &arguments)?;
                if self.pipeline_start.is_none() {
                    return Err(self.error(start, "\\syncpipeline outside of a pipeline"));
                }
                self.push(Command::SyncPipeline, start);
                Ok(())
            }
            "endpipeline" => {
                self.no_arguments("\\endpipeline", &arguments)?;
                if self.pipeline_start.take().is_none() {
                    return Err(self.error(start, "\\endpipeline without \\startpipeline"));
                }
                self.push(Command::EndPipeline, start);
                Ok(())
            }
            "shell" | "setshell" => Err(self.error(
                start,
                format!(
                    "\\{word} is refused: a script that starts programs measures them instead of the \
                     server, and could do anything; compute the value with \\set or pass it with -D"
                ),
            )),
            "" => Err(self.error(start, "a backslash must be followed by a command")),
            _ => Err(self.error(
                start,
                format!(
                    "there is no command \\{word}; there are \\set, \\sleep, \\gset, \\aset, \\if, \
                     \\elif, \\else, \\endif, \\startpipeline, \\syncpipeline, \\endpipeline"
                ),
            )),
        }
    }

    fn no_arguments(&self, command: &str, arguments: &Arguments<'_>) -> Result<(), ScriptError> {
        match arguments.clone().word() {
            None => Ok(()),
            Some((offset, _)) => Err(self.error(offset, format!("{command} takes no argument"))),
        }
    }

    fn expression(&mut self, arguments: &Arguments<'_>) -> Result<Expression, ScriptError> {
        let line = self.line_at(arguments.offset);
        let workload = &mut self.compiler.workload;
        let mut context = Context {
            symbols: &mut workload.symbols,
            call_sites: &mut workload.call_sites,
            script: self.name,
            line,
        };
        let root = expression_parser::parse(arguments.text, &mut context)
            .map_err(|(offset, message)| self.error(arguments.offset + offset, message))?;
        Ok(Expression { root })
    }

    fn set(&mut self, start: usize, mut arguments: Arguments<'_>) -> Result<(), ScriptError> {
        let Some((offset, name)) = arguments.word() else {
            return Err(self.error(start, "\\set needs a variable and an expression"));
        };
        check_name(name).map_err(|message| self.error(offset, message))?;
        if arguments.is_empty() {
            return Err(self.error(offset, format!("\\set {name} needs an expression")));
        }
        let expression = self.expression(&arguments)?;
        let variable = self.compiler.workload.symbols.slot(name);
        self.compiler.defined.insert(variable);
        self.push(Command::Set { variable, expression }, start);
        Ok(())
    }

    fn sleep(&mut self, start: usize, mut arguments: Arguments<'_>) -> Result<(), ScriptError> {
        let Some((offset, duration)) = arguments.word() else {
            return Err(self.error(start, "\\sleep needs a duration"));
        };
        // pgbench accepts the unit directly behind a number, as in `\sleep 10ms`.
        let digits = duration.find(|c: char| !c.is_ascii_digit()).unwrap_or(duration.len());
        let (number, attached) = duration.split_at(digits);
        let (duration, attached) = if let Some(name) = duration.strip_prefix(':') {
            check_name(name).map_err(|message| self.error(offset, message))?;
            (SleepDuration::Variable(self.compiler.workload.symbols.slot(name)), "")
        } else {
            match number.parse() {
                Ok(units) => (SleepDuration::Constant(units), attached),
                Err(_) => {
                    return Err(self.error(offset, "\\sleep needs a whole number or a :variable"));
                }
            }
        };
        let (unit_offset, unit) = match arguments.word() {
            Some((offset, unit)) if attached.is_empty() => (offset, unit),
            Some((offset, _)) => return Err(self.error(offset, "\\sleep has one unit")),
            None => (offset + digits, attached),
        };
        let unit_ns = match unit.to_ascii_lowercase().as_str() {
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" | "" => 1_000_000_000,
            _ => return Err(self.error(unit_offset, "the unit of \\sleep is us, ms or s")),
        };
        if let Some((offset, _)) = arguments.word() {
            return Err(self.error(offset, "\\sleep takes a duration and a unit"));
        }
        self.push(Command::Sleep { duration, unit_ns }, start);
        Ok(())
    }

    fn capture(
        &mut self,
        word: &str,
        start: usize,
        mut arguments: Arguments<'_>,
    ) -> Result<(), ScriptError> {
        let prefix = arguments.word().map_or(String::new(), |(_, prefix)| prefix.to_owned());
        if let Some((offset, _)) = arguments.word() {
            return Err(self.error(offset, format!("\\{word} takes one prefix")));
        }
        if self.pipeline_start.is_some() {
            return Err(self.error(start, format!("\\{word} is not allowed in a pipeline")));
        }
        let Some(Command::Sql { capture, .. }) =
            self.last_sql.and_then(|index| self.commands.get_mut(index))
        else {
            return Err(self.error(start, format!("\\{word} must follow a SQL command")));
        };
        if *capture != Capture::None {
            return Err(
                self.error(start, format!("\\{word} follows a command that has one already"))
            );
        }
        *capture = if word.eq_ignore_ascii_case("gset") {
            Capture::GSet { prefix }
        } else {
            Capture::ASet { prefix }
        };
        self.last_sql = None;
        self.compiler.has_captures = true;
        Ok(())
    }

    /// The condition of `\if` or `\elif`.
    fn branch(&mut self, start: usize, arguments: Arguments<'_>) -> Result<(), ScriptError> {
        if arguments.is_empty() {
            return Err(self.error(start, "a condition is missing"));
        }
        let condition = self.expression(&arguments)?;
        let here = self.commands.len();
        if let Some(open) = self.ifs.last_mut() {
            open.unless = Some(here);
        }
        self.push(Command::JumpUnless { condition, target: usize::MAX }, start);
        self.last_sql = None;
        Ok(())
    }

    /// The end of the branch under way, at `\elif` or `\else`.
    fn close_branch(&mut self, word: &str, start: usize) -> Result<(), ScriptError> {
        match self.ifs.last() {
            None => return Err(self.error(start, format!("{word} without \\if"))),
            Some(open) if open.has_else => {
                return Err(self.error(start, format!("{word} behind \\else")));
            }
            Some(_) => {}
        }
        self.push(Command::Jump { target: usize::MAX }, start);
        let here = self.commands.len();
        let unless = self.ifs.last_mut().and_then(|open| {
            open.ends.push(here - 1);
            open.unless.take()
        });
        if let Some(unless) = unless {
            self.point(unless, here);
        }
        self.last_sql = None;
        Ok(())
    }

    /// Points the jump at `command` to `place`.
    fn point(&mut self, command: usize, place: usize) {
        if let Some(Command::Jump { target } | Command::JumpUnless { target, .. }) =
            self.commands.get_mut(command)
        {
            *target = place;
        }
    }
}

/// What follows a backslash command's name.
#[derive(Clone, Debug)]
struct Arguments<'a> {
    text: &'a str,
    /// Of the text, in the script.
    offset: usize,
}

impl<'a> Arguments<'a> {
    /// Skips spaces and continued line ends.
    fn skip_space(&mut self) {
        loop {
            let trimmed = self.text.trim_start();
            let trimmed = match trimmed.strip_prefix('\\') {
                Some(after) if after.starts_with(['\n', '\r']) => after,
                _ => trimmed,
            };
            let skipped = self.text.len() - trimmed.len();
            if skipped == 0 {
                return;
            }
            self.text = trimmed;
            self.offset += skipped;
        }
    }

    fn word(&mut self) -> Option<(usize, &'a str)> {
        self.skip_space();
        let len = self.text.find(char::is_whitespace).unwrap_or(self.text.len());
        if len == 0 {
            return None;
        }
        let (word, rest) = self.text.split_at(len);
        let offset = self.offset;
        (self.text, self.offset) = (rest, offset + len);
        Some((offset, word))
    }

    fn is_empty(&self) -> bool {
        self.clone().word().is_none()
    }
}

/// The audits' names of all call sites, by their number.
#[must_use]
pub fn call_site_names(sources: &[CallSiteSource]) -> Vec<String> {
    sources.iter().map(|site| format!("{}:{}: {}", site.script, site.line, site.text)).collect()
}

/// An empty table of names, for tests and tools.
#[must_use]
pub fn no_symbols() -> Symbols {
    Symbols::default()
}
