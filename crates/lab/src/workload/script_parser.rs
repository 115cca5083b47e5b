//! Reads a script command by command, and points jumps.

use super::compile::{Compiler, Read, check_name};
use super::error::ScriptError;
use super::expression::Expression;
use super::expression_parser::{self, Context};
use super::script::{Capture, Command, SleepDuration, StatementId};
use super::source::Source;
use super::sql_scanner::{self, End, Part};

/// Deepest nesting of `\if`.
const IF_NESTING_MAX: usize = 64;

/// A script's commands, and what is known of each; see [`super::script::Script`].
#[derive(Default)]
pub(super) struct Parsed {
    pub(super) commands: Vec<Command>,
    pub(super) lines: Vec<u32>,
    pub(super) numbers: Vec<u32>,
    pub(super) listing: Vec<String>,
}

type Result<T> = std::result::Result<T, ScriptError>;

/// Whether a pipeline is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pipeline {
    Closed,
    /// Since the command at this byte.
    Open(usize),
    /// That depends on conditions; the session will know.
    Unknown,
}

impl Pipeline {
    /// Where two branches meet.
    fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Self::Closed, Self::Closed) => Self::Closed,
            (Self::Open(since), Self::Open(_)) => Self::Open(since),
            _ => Self::Unknown,
        }
    }
}

struct OpenIf {
    /// Of the `\if`.
    offset: usize,
    /// The command that jumps when the condition of the branch under way is false.
    unless: Option<usize>,
    /// Jumps at branches' ends, to be pointed behind `\endif`.
    ends: Vec<usize>,
    has_else: bool,
    pipeline_before: Pipeline,
    /// What the branches that have ended leave.
    pipeline_behind: Option<Pipeline>,
}

pub(super) struct ScriptParser<'a> {
    compiler: &'a mut Compiler,
    source: &'a Source,
    /// The source's number.
    script: usize,
    at: usize,
    parsed: Parsed,
    ifs: Vec<OpenIf>,
    pipeline: Pipeline,
    /// The SQL command that a `\gset` would belong to.
    last_sql: Option<usize>,
}

impl<'a> ScriptParser<'a> {
    pub(super) fn new(compiler: &'a mut Compiler, source: &'a Source, script: usize) -> Self {
        Self {
            compiler,
            source,
            script,
            at: 0,
            parsed: Parsed::default(),
            ifs: Vec::new(),
            pipeline: Pipeline::Closed,
            last_sql: None,
        }
    }

    pub(super) fn run(mut self) -> Result<Parsed> {
        while self.at < self.source.text.len() {
            let scanned = sql_scanner::scan(&self.source.text, self.at)
                .map_err(|(offset, message)| self.error(offset, message))?;
            self.at = scanned.next;
            // A semicolon alone is a command too: an empty query measures the way there and back.
            if scanned.start.is_some() || scanned.end == End::Semicolon {
                let start = scanned.start.unwrap_or(scanned.next.saturating_sub(1));
                for (name, offset) in scanned.quoted {
                    let slot = self.compiler.workload.symbols.slot(name);
                    self.compiler.quoted.push((slot, self.script, offset));
                }
                let line = self.source.line(start);
                let statement = u32::try_from(self.compiler.drafts.len()).unwrap_or(u32::MAX);
                self.compiler.draft(&scanned.parts, line, self.script);
                let statement = StatementId(statement);
                self.parsed.listing.push(first_line(&scanned.parts, scanned.end));
                self.push_uncounted(Command::Sql { statement, capture: Capture::None }, start);
                self.last_sql = Some(self.parsed.commands.len() - 1);
            }
            if scanned.end == End::Backslash {
                self.meta()?;
            }
        }
        if let Some(open) = self.ifs.last() {
            return Err(self.error(open.offset, "this \\if has no \\endif"));
        }
        if let Pipeline::Open(since) = self.pipeline {
            return Err(self.error(since, "this pipeline is never ended: \\endpipeline is missing"));
        }
        Ok(self.parsed)
    }

    fn error(&self, offset: usize, message: impl Into<String>) -> ScriptError {
        self.source.error(offset, message)
    }

    /// Appends a backslash command that pgbench counts.
    fn push(&mut self, command: Command, offset: usize) {
        self.count(offset);
        self.push_uncounted(command, offset);
    }

    /// Lists the backslash command from `start` to where the parser is; pgbench counts \else and \endif too.
    fn count(&mut self, start: usize) {
        let text = self.source.text.get(start..self.at).unwrap_or("");
        self.parsed.listing.push(text.lines().next().unwrap_or("").trim_end().to_owned());
    }

    fn push_uncounted(&mut self, command: Command, offset: usize) {
        self.parsed.commands.push(command);
        self.parsed.lines.push(self.source.line(offset));
        // Jumps are no commands of their own: they have the number of the one before.
        let number = u32::try_from(self.parsed.listing.len()).unwrap_or(u32::MAX);
        self.parsed.numbers.push(number);
        self.last_sql = None;
    }

    /// A backslash command: up to the end of the line, or of the last continued one.
    fn meta(&mut self) -> Result<()> {
        let start = self.at;
        let text = self.source.text.as_str();
        let bytes = text.as_bytes();
        let rest = bytes.get(start..).unwrap_or(b"");
        let end = memchr::memchr_iter(b'\n', rest)
            .map(|at| start + at)
            // A backslash right before the line's end continues the command; the first one is it.
            .find(|at| *at == start + 1 || bytes.get(at - 1) != Some(&b'\\'))
            .unwrap_or(text.len());
        self.at = end;
        let body = text.get(start + 1..end).unwrap_or("");
        let mut arguments = Arguments { text: body, offset: start + 1 };
        // pgbench passes over a backslash without a command.
        let Some((_, word)) = arguments.word() else { return Ok(()) };
        match word.to_ascii_lowercase().as_str() {
            "set" => self.set(start, arguments),
            "setrandom" => self.set_random(start, arguments),
            "sleep" => self.sleep(start, arguments),
            name @ ("gset" | "aset") => self.capture(name, start, arguments),
            "if" => self.open_if(start, &arguments),
            "elif" => {
                self.close_branch("\\elif", start)?;
                self.count(start);
                self.branch(start, &arguments)
            }
            "else" => {
                self.no_arguments("\\else", arguments)?;
                self.close_branch("\\else", start)?;
                self.count(start);
                if let Some(open) = self.ifs.last_mut() {
                    open.has_else = true;
                }
                Ok(())
            }
            "endif" => {
                self.no_arguments("\\endif", arguments)?;
                self.close_if(start)
            }
            "startpipeline" => {
                self.no_arguments("\\startpipeline", arguments)?;
                if let Pipeline::Open(_) = self.pipeline {
                    return Err(self.error(start, "a pipeline is open already"));
                }
                self.pipeline = Pipeline::Open(start);
                self.push(Command::StartPipeline, start);
                Ok(())
            }
            "syncpipeline" => {
                self.no_arguments("\\syncpipeline", arguments)?;
                if self.pipeline == Pipeline::Closed {
                    return Err(self.error(start, "\\syncpipeline outside of a pipeline"));
                }
                self.push(Command::SyncPipeline, start);
                Ok(())
            }
            "endpipeline" => {
                self.no_arguments("\\endpipeline", arguments)?;
                if self.pipeline == Pipeline::Closed {
                    return Err(self.error(start, "\\endpipeline without \\startpipeline"));
                }
                self.pipeline = Pipeline::Closed;
                self.push(Command::EndPipeline, start);
                Ok(())
            }
            name @ ("shell" | "setshell") => Err(self.error(
                start,
                format!(
                    "\\{name} is refused: a script that starts programs measures them instead of \
                     the server, and could do anything; compute the value with \\set, or pass it \
                     with -D"
                ),
            )),
            _ => Err(self.error(
                start,
                format!(
                    "there is no command \\{}; there are \\set, \\sleep, \\gset, \\aset, \\if, \
                     \\elif, \\else, \\endif, \\startpipeline, \\syncpipeline, \\endpipeline",
                    crate::text::excerpt(word, 40)
                ),
            )),
        }
    }

    fn no_arguments(&self, command: &str, mut arguments: Arguments<'_>) -> Result<()> {
        match arguments.word() {
            None => Ok(()),
            Some((offset, _)) => Err(self.error(offset, format!("{command} takes no argument"))),
        }
    }

    fn expression(&mut self, arguments: &Arguments<'_>) -> Result<Expression> {
        let workload = &mut self.compiler.workload;
        let mut reads = Vec::new();
        let mut context = Context {
            symbols: &mut workload.symbols,
            call_sites: &mut workload.call_sites,
            reads: &mut reads,
            script: &self.source.name,
            place: self.source.place(arguments.offset),
        };
        let expression = expression_parser::parse(arguments.text, &mut context)
            .map_err(|(offset, message)| self.error(arguments.offset + offset, message))?;
        self.compiler.reads.extend(reads.into_iter().map(|(slot, offset)| Read {
            slot,
            script: self.script,
            offset: arguments.offset + offset,
        }));
        Ok(expression)
    }

    fn set(&mut self, start: usize, mut arguments: Arguments<'_>) -> Result<()> {
        let Some((offset, name)) = arguments.word() else {
            return Err(self.error(start, "\\set needs a variable and an expression"));
        };
        check_name(name).map_err(|message| self.error(offset, message))?;
        if arguments.is_empty() {
            let name = crate::text::excerpt(name, 60);
            return Err(self.error(offset, format!("\\set {name} needs an expression")));
        }
        let expression = self.expression(&arguments)?;
        self.define(name, expression, start);
        Ok(())
    }

    fn define(&mut self, name: &str, expression: Expression, start: usize) {
        let variable = self.compiler.workload.symbols.slot(name);
        self.compiler.defined.insert(variable);
        self.push(Command::Set { variable, expression }, start);
    }

    /// `\setrandom name min max [uniform | gaussian P | exponential P]`, of pgbench before 9.6.
    fn set_random(&mut self, start: usize, mut arguments: Arguments<'_>) -> Result<()> {
        let mut words = Vec::new();
        while let Some((offset, word)) = arguments.word() {
            words.push((offset, word));
        }
        for (offset, word) in words.iter().skip(1) {
            let number = word.strip_prefix('-').unwrap_or(word);
            let is_number = !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let is_variable = word.strip_prefix(':').is_some_and(|name| check_name(name).is_ok());
            let is_kind = ["uniform", "gaussian", "exponential"]
                .iter()
                .any(|kind| word.eq_ignore_ascii_case(kind));
            if !(is_number || is_variable || is_kind) {
                return Err(self.error(*offset, "expected a number or a :variable"));
            }
        }
        let texts: Vec<&str> = words.iter().map(|(_, word)| *word).collect();
        let is = |word: &str, kind: &str| word.eq_ignore_ascii_case(kind);
        let (name, call) = match texts.as_slice() {
            [name, min, max] => (*name, format!("random({min}, {max})")),
            [name, min, max, kind] if is(kind, "uniform") => {
                (*name, format!("random({min}, {max})"))
            }
            [name, min, max, kind, parameter]
                if is(kind, "gaussian") || is(kind, "exponential") =>
            {
                (*name, format!("random_{}({min}, {max}, {parameter})", kind.to_ascii_lowercase()))
            }
            _ => {
                return Err(self.error(
                    start,
                    "\\setrandom needs a variable, a least and a largest value, and at most a \
                     distribution; better write \\set name random(min, max)",
                ));
            }
        };
        let offset = words.first().map_or(start, |(offset, _)| *offset);
        check_name(name).map_err(|message| self.error(offset, message))?;
        let reads_before = self.compiler.reads.len();
        // The call is not in the script; what is wrong in it is shown at the command.
        let expression = self
            .expression(&Arguments { text: &call, offset: start })
            .map_err(|error| self.error(start, error.message))?;
        for read in self.compiler.reads.iter_mut().skip(reads_before) {
            read.offset = start;
        }
        self.define(name, expression, start);
        Ok(())
    }

    fn sleep(&mut self, start: usize, mut arguments: Arguments<'_>) -> Result<()> {
        let Some((offset, word)) = arguments.word() else {
            return Err(self.error(start, "\\sleep needs a duration"));
        };
        let (duration, attached) = if let Some(name) = word.strip_prefix(':') {
            check_name(name).map_err(|message| self.error(offset, message))?;
            let slot = self.compiler.workload.symbols.slot(name);
            self.compiler.reads.push(Read { slot, script: self.script, offset });
            (SleepDuration::Variable(slot), "")
        } else {
            let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
            let len = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            // pgbench accepts the unit directly behind the number, as in `\sleep 10ms`.
            let (number, attached) = digits.split_at(len);
            let Ok(units) = number.parse::<u64>() else {
                return Err(self.error(offset, "\\sleep needs a whole number or a :variable"));
            };
            // As in pgbench, a negative pause is none.
            (SleepDuration::Constant(if word.starts_with('-') { 0 } else { units }), attached)
        };
        let (unit_offset, unit) = match arguments.word() {
            Some((offset, unit)) if attached.is_empty() => (offset, unit),
            Some((offset, _)) => return Err(self.error(offset, "\\sleep has one unit")),
            None => (offset + word.len() - attached.len(), attached),
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

    fn capture(&mut self, word: &str, start: usize, mut arguments: Arguments<'_>) -> Result<()> {
        let prefix = match arguments.word() {
            None => String::new(),
            Some((offset, prefix)) => {
                check_name(prefix).map_err(|message| self.error(offset, message))?;
                prefix.to_owned()
            }
        };
        if let Some((offset, _)) = arguments.word() {
            return Err(self.error(offset, format!("\\{word} takes one prefix")));
        }
        if let Pipeline::Open(_) = self.pipeline {
            return Err(self.error(start, format!("\\{word} is not allowed in a pipeline")));
        }
        let capture = match self.last_sql.and_then(|index| self.parsed.commands.get_mut(index)) {
            Some(Command::Sql { capture, .. }) if *capture == Capture::None => capture,
            Some(Command::Sql { .. }) => {
                let message = format!("\\{word} follows a command that has one already");
                return Err(self.error(start, message));
            }
            _ => return Err(self.error(start, format!("\\{word} must follow a SQL command"))),
        };
        self.compiler.prefixes.insert(prefix.clone());
        *capture = if word == "gset" { Capture::GSet { prefix } } else { Capture::ASet { prefix } };
        Ok(())
    }

    fn open_if(&mut self, start: usize, arguments: &Arguments<'_>) -> Result<()> {
        if self.ifs.len() >= IF_NESTING_MAX {
            let message = format!("\\if nests at most {IF_NESTING_MAX} deep");
            return Err(self.error(start, message));
        }
        self.ifs.push(OpenIf {
            offset: start,
            unless: None,
            ends: Vec::new(),
            has_else: false,
            pipeline_before: self.pipeline,
            pipeline_behind: None,
        });
        self.count(start);
        self.branch(start, arguments)
    }

    /// The condition of `\if` or `\elif`.
    fn branch(&mut self, start: usize, arguments: &Arguments<'_>) -> Result<()> {
        if arguments.is_empty() {
            return Err(self.error(start, "a condition is missing"));
        }
        let condition = self.expression(arguments)?;
        let here = self.parsed.commands.len();
        if let Some(open) = self.ifs.last_mut() {
            open.unless = Some(here);
        }
        self.push_uncounted(Command::JumpUnless { condition, target: usize::MAX }, start);
        Ok(())
    }

    /// The end of the branch under way, at `\elif` or `\else`.
    fn close_branch(&mut self, word: &str, start: usize) -> Result<()> {
        let pipeline = self.pipeline;
        match self.ifs.last_mut() {
            None => return Err(self.error(start, format!("{word} without \\if"))),
            Some(open) if open.has_else => {
                return Err(self.error(start, format!("{word} behind \\else")));
            }
            Some(open) => {
                open.pipeline_behind =
                    Some(open.pipeline_behind.map_or(pipeline, |other| other.meet(pipeline)));
                self.pipeline = open.pipeline_before;
            }
        }
        self.push_uncounted(Command::Jump { target: usize::MAX }, start);
        let here = self.parsed.commands.len();
        let unless = self.ifs.last_mut().and_then(|open| {
            open.ends.push(here - 1);
            open.unless.take()
        });
        if let Some(unless) = unless {
            self.point(unless, here);
        }
        Ok(())
    }

    fn close_if(&mut self, start: usize) -> Result<()> {
        let Some(open) = self.ifs.pop() else {
            return Err(self.error(start, "\\endif without \\if"));
        };
        self.count(start);
        self.last_sql = None;
        let mut pipeline = self.pipeline;
        if let Some(other) = open.pipeline_behind {
            pipeline = other.meet(pipeline);
        }
        if !open.has_else {
            pipeline = open.pipeline_before.meet(pipeline);
        }
        self.pipeline = pipeline;
        let here = self.parsed.commands.len();
        for jump in open.ends.into_iter().chain(open.unless) {
            self.point(jump, here);
        }
        Ok(())
    }

    /// Points the jump at `command` to `place`.
    fn point(&mut self, command: usize, place: usize) {
        if let Some(Command::Jump { target } | Command::JumpUnless { target, .. }) =
            self.parsed.commands.get_mut(command)
        {
            *target = place;
        }
    }
}

/// What pgbench lists of a SQL command: its first line, without comments before it, `\;` as `;`.
fn first_line(parts: &[Part<'_>], end: End) -> String {
    let mut line = String::new();
    for part in parts {
        match *part {
            Part::Text(text) => {
                let end = memchr::memchr2(b'\n', b'\r', text.as_bytes());
                line.push_str(text.get(..end.unwrap_or(text.len())).unwrap_or(""));
                if end.is_some() {
                    return line;
                }
            }
            Part::Variable { name, .. } => {
                line.push(':');
                line.push_str(name);
            }
        }
    }
    if end == End::Semicolon {
        line.push(';');
    }
    line
}

/// What follows a backslash, or a backslash command's name.
#[derive(Clone, Copy, Debug)]
struct Arguments<'a> {
    text: &'a str,
    /// Of the text, in the script.
    offset: usize,
}

const SPACE: [char; 6] = [' ', '\t', '\n', '\r', '\u{b}', '\u{c}'];

impl<'a> Arguments<'a> {
    /// Skips spaces and continued lines' ends.
    fn skip_space(&mut self) {
        loop {
            let trimmed = self.text.trim_start_matches(SPACE);
            let trimmed = match trimmed.strip_prefix('\\') {
                Some(after) if after.starts_with('\n') => after,
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
        let mut len = self.text.find(SPACE).unwrap_or(self.text.len());
        let (word, rest) = (self.text.get(..len).unwrap_or(""), self.text.get(len..).unwrap_or(""));
        if word.ends_with('\\') && rest.starts_with('\n') {
            len -= 1;
        }
        if len == 0 {
            return None;
        }
        let (word, rest) = self.text.split_at(len);
        let offset = self.offset;
        (self.text, self.offset) = (rest, offset + len);
        Some((offset, word))
    }

    fn is_empty(&self) -> bool {
        let mut rest = *self;
        rest.word().is_none()
    }
}
