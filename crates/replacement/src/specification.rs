//! A policy and its parameters as text: `clock_sweep(cap=10, delay_ms=3000)`.
//!
//! # Grammar
//!
//! ```text
//! specification = name [ "(" [ parameter { "," parameter } ] ")" ]
//! parameter     = name "=" value
//! list          = specification { "," specification }
//! ```
//!
//! Spaces may stand between any two words. A value is a whole number, a decimal number, `on` or
//! `off`, or one of the parameter's words. What is printed names only the parameters that differ from
//! their defaults, in the order of the policy's description, and reads back as the same policy.

use std::fmt;

/// The value of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(u32),
    /// A finite decimal number.
    Real(f64),
    /// On or off.
    Flag(bool),
    /// One of a few words.
    Word(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => write!(to, "{number}"),
            // The shortest digits that read back as the same number.
            Self::Real(number) => write!(to, "{number}"),
            Self::Flag(true) => to.write_str("on"),
            Self::Flag(false) => to.write_str("off"),
            Self::Word(word) => to.write_str(word),
        }
    }
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterKind {
    /// A whole number from `minimum` to `maximum`.
    Integer {
        /// The least.
        minimum: u32,
        /// The greatest.
        maximum: u32,
    },
    /// A decimal number from `minimum` to `maximum`.
    Real {
        /// The least.
        minimum: f64,
        /// The greatest.
        maximum: f64,
    },
    /// `on` or `off`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
}

impl ParameterKind {
    /// The kind in a word, for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer { .. } => "integer",
            Self::Real { .. } => "decimal",
            Self::Flag => "flag",
            Self::Word(_) => "word",
        }
    }

    /// Whether `value` is of this kind and in range.
    #[must_use]
    pub fn allows(self, value: Value) -> bool {
        match (self, value) {
            (Self::Integer { minimum, maximum }, Value::Integer(number)) => {
                (minimum..=maximum).contains(&number)
            }
            (Self::Real { minimum, maximum }, Value::Real(number)) => {
                (minimum..=maximum).contains(&number)
            }
            (Self::Flag, Value::Flag(_)) => true,
            (Self::Word(words), Value::Word(word)) => words.contains(&word),
            _ => false,
        }
    }

    fn read(self, text: &str) -> Option<Value> {
        let value = match self {
            Self::Integer { .. } => {
                // No sign: "+5" would print as another text.
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                Value::Integer(if digits { text.parse().ok()? } else { return None })
            }
            Self::Real { .. } => {
                let number: f64 = text.parse().ok()?;
                // -0 equals 0 and prints differently.
                Value::Real(if number == 0.0 { 0.0 } else { number })
            }
            Self::Flag => match text {
                "on" => Value::Flag(true),
                "off" => Value::Flag(false),
                _ => return None,
            },
            Self::Word(words) => Value::Word(words.iter().copied().find(|word| *word == text)?),
        };
        self.allows(value).then_some(value)
    }
}

impl fmt::Display for ParameterKind {
    /// The range: `0 to 255`, `on, off`, `one, max`.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { minimum, maximum } => write!(to, "{minimum} to {maximum}"),
            Self::Real { minimum, maximum } => write!(to, "{minimum} to {maximum}"),
            Self::Flag => to.write_str("on, off"),
            Self::Word(words) => to.write_str(&words.join(", ")),
        }
    }
}

/// One parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ParameterDescription {
    /// As it is written; a unit stands at its end.
    pub name: &'static str,
    /// Type and range.
    pub kind: ParameterKind,
    /// Unit in words: "ms", "share of the frames", "" when it has none.
    pub unit: &'static str,
    /// What holds when it is not named.
    pub default: Value,
    /// One line.
    pub meaning: &'static str,
}

/// A policy as lists and documents show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyDescription {
    /// As it is written.
    pub name: &'static str,
    /// One line: the idea.
    pub idea: &'static str,
    /// Paper or program.
    pub source: &'static str,
    /// A warning that belongs beside every use, or "".
    pub caution: &'static str,
    /// Its parameters, in the order in which they are printed.
    pub parameters: &'static [ParameterDescription],
}

/// The values of all parameters of one policy, by name.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    description: &'a PolicyDescription,
    values: &'a [Value],
}

impl<'a> Arguments<'a> {
    pub(crate) const fn new(description: &'a PolicyDescription, values: &'a [Value]) -> Self {
        Self { description, values }
    }

    /// The value of the parameter `name`; `None` when the policy has no such parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Value> {
        let place = self.description.parameters.iter().position(|known| known.name == name)?;
        self.values.get(place).copied()
    }

    /// A whole number; 0 when there is no such parameter.
    #[must_use]
    pub fn integer(&self, name: &str) -> u32 {
        if let Some(Value::Integer(number)) = self.value(name) { number } else { 0 }
    }

    /// A decimal number; 0 when there is no such parameter.
    #[must_use]
    pub fn real(&self, name: &str) -> f64 {
        if let Some(Value::Real(number)) = self.value(name) { number } else { 0.0 }
    }

    /// On or off; off when there is no such parameter.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.value(name) == Some(Value::Flag(true))
    }

    /// A word; empty when there is no such parameter.
    #[must_use]
    pub fn word(&self, name: &str) -> &'static str {
        if let Some(Value::Word(word)) = self.value(name) { word } else { "" }
    }
}

/// Text that names no policy. The message begins with the column.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("column {column}: {fault}")]
pub struct SpecificationError {
    /// Where, in characters from 1.
    pub column: usize,
    /// What, and the remedy.
    pub fault: Fault,
}

/// What is wrong with a specification.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A name was expected.
    #[error("{}", expected("the name of a policy", found))]
    PolicyExpected {
        /// What stands there; empty at the end.
        found: String,
    },
    /// No policy has this name.
    #[error("there is no policy \"{name}\"; {}", nearest_text(nearest.as_ref(), known))]
    UnknownPolicy {
        /// The name.
        name: String,
        /// The name most like it, when one is near.
        nearest: Option<&'static str>,
        /// All names, separated by spaces.
        known: String,
    },
    /// `optimum` needs the future.
    #[error(
        "optimum looks into the future of a trace, which no pool can; only the simulator offers it"
    )]
    OptimumIsOffline,
    /// The policy has no such parameter.
    #[error("{policy} has no parameter \"{name}\"; {}", nearest_text(nearest.as_ref(), known))]
    UnknownParameter {
        /// The policy.
        policy: &'static str,
        /// The name.
        name: String,
        /// The name most like it, when one is near.
        nearest: Option<&'static str>,
        /// All names, separated by spaces.
        known: String,
    },
    /// The parameter was given before.
    #[error("{0} is given twice; name it once")]
    Twice(&'static str),
    /// The value is not of the kind, or out of range.
    #[error("{parameter}={value}: {} to be {kind}", if value.is_empty() { "a value has" } else { "it has" })]
    Value {
        /// The parameter.
        parameter: &'static str,
        /// The text.
        value: String,
        /// What it may be.
        kind: ParameterKind,
    },
    /// Two parameters contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// Something else was expected.
    #[error("{}", expected(wanted, found))]
    Expected {
        /// What was expected.
        wanted: &'static str,
        /// What stands there; empty at the end.
        found: String,
    },
}

fn expected(wanted: &str, found: &str) -> String {
    if found.is_empty() {
        format!("{wanted} is expected, the text ends")
    } else {
        format!("{wanted} is expected, not \"{found}\"")
    }
}

fn nearest_text(nearest: Option<&&'static str>, known: &str) -> String {
    match nearest {
        Some(name) => format!("did you mean {name}? There are: {known}"),
        None if known.is_empty() => "it has none".to_owned(),
        None => format!("there are: {known}"),
    }
}

/// The name nearest to `text`, unless all differ in more than a third of their letters.
pub(crate) fn nearest(
    text: &str,
    names: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    // A long text is near to no name and would make the table large.
    if text.len() > 64 {
        return None;
    }
    names
        .map(|name| (edit_distance(text, name), name))
        .filter(|(distance, name)| distance * 3 <= name.len().max(text.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein's distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Walks over a text of one or more specifications.
pub(crate) struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// One parameter as it was written.
pub(crate) struct Given<'a> {
    pub(crate) name: &'a str,
    pub(crate) name_at: usize,
    pub(crate) value: &'a str,
    pub(crate) value_at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The column of a byte offset.
    pub(crate) fn error<T>(&self, at: usize, fault: Fault) -> Result<T, SpecificationError> {
        let column = self.text.get(..at).map_or(0, |before| before.chars().count()) + 1;
        Err(SpecificationError { column, fault })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn skip_spaces(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    pub(crate) fn is_at_end(&mut self) -> bool {
        self.skip_spaces();
        self.rest().is_empty()
    }

    pub(crate) fn takes(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        let is_there = self.rest().starts_with(wanted);
        if is_there {
            self.at += wanted.len_utf8();
        }
        is_there
    }

    /// The word here (letters, digits, `_`, `-`, `.`, `+`) and its offset; it may be empty.
    pub(crate) fn word(&mut self) -> (&'a str, usize) {
        self.skip_spaces();
        let rest = self.rest();
        let end = rest
            .find(|letter: char| !letter.is_alphanumeric() && !"_-.+".contains(letter))
            .unwrap_or(rest.len());
        let start = self.at;
        self.at += end;
        (rest.get(..end).unwrap_or(""), start)
    }

    pub(crate) fn found(&mut self) -> (String, usize) {
        self.skip_spaces();
        let (at, rest) = (self.at, self.rest());
        let (word, _) = self.word();
        self.at = at;
        let found = if word.is_empty() { rest.chars().take(1).collect() } else { word.to_owned() };
        (found, at)
    }

    pub(crate) fn fail_expected<T>(
        &mut self,
        wanted: &'static str,
    ) -> Result<T, SpecificationError> {
        let (found, at) = self.found();
        self.error(at, Fault::Expected { wanted, found })
    }

    /// The parameters in parentheses, if there are any.
    pub(crate) fn parameters(&mut self) -> Result<Vec<Given<'a>>, SpecificationError> {
        let mut given = Vec::new();
        if !self.takes('(') || self.takes(')') {
            return Ok(given);
        }
        loop {
            let (name, name_at) = self.word();
            if name.is_empty() {
                return self.fail_expected("the name of a parameter");
            }
            if !self.takes('=') {
                return self.fail_expected("\"=\" and a value");
            }
            let (value, value_at) = self.word();
            given.push(Given { name, name_at, value, value_at });
            if self.takes(')') {
                return Ok(given);
            }
            if !self.takes(',') {
                return self.fail_expected("\",\" or \")\"");
            }
        }
    }
}

/// Puts the values that were given over the defaults.
pub(crate) fn values_of(
    reader: &Reader<'_>,
    description: &PolicyDescription,
    given: &[Given<'_>],
) -> Result<Vec<Value>, SpecificationError> {
    let parameters = description.parameters;
    let mut values: Vec<Value> = parameters.iter().map(|known| known.default).collect();
    let mut is_given = vec![false; parameters.len()];
    for one in given {
        let Some(place) = parameters.iter().position(|known| known.name == one.name) else {
            let names = || parameters.iter().map(|known| known.name);
            let fault = Fault::UnknownParameter {
                policy: description.name,
                name: one.name.to_owned(),
                nearest: nearest(one.name, names()),
                known: names().collect::<Vec<_>>().join(" "),
            };
            return reader.error(one.name_at, fault);
        };
        let known = &parameters[place];
        if std::mem::replace(&mut is_given[place], true) {
            return reader.error(one.name_at, Fault::Twice(known.name));
        }
        match known.kind.read(one.value) {
            Some(value) => values[place] = value,
            None => {
                let fault = Fault::Value {
                    parameter: known.name,
                    value: one.value.to_owned(),
                    kind: known.kind,
                };
                return reader.error(one.value_at, fault);
            }
        }
    }
    Ok(values)
}

/// Prints what differs from the defaults.
pub(crate) fn print(
    description: &PolicyDescription,
    values: &[Value],
    to: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    to.write_str(description.name)?;
    let mut separator = "(";
    for (known, value) in description.parameters.iter().zip(values) {
        if known.default != *value {
            write!(to, "{separator}{}={value}", known.name)?;
            separator = ", ";
        }
    }
    if separator == ", " { to.write_str(")") } else { Ok(()) }
}
