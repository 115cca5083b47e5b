//! Evaluates expressions with pgbench's types and rules (`src/bin/pgbench/pgbench.c`,
//! `evalStandardFunc`, `evalLazyFunc`).
//!
//! # Rules
//!
//! 1. An argument that is NULL makes the result NULL, except for `IS`, `debug` and `CASE`.
//! 2. Integers have 64 bits, and an overflow is an error, never a wrap. One double makes an
//!    arithmetic or comparing operator work in doubles; `%`, bits and shifts are for integers.
//! 3. A variable that holds text is read as null, a truth value, an integer or a double when it is
//!    used, as pgbench reads values of `-D` and `\gset`.

use super::expression::{Binary, DrawFunction, Expression, Function, Node};
use super::script::Value;
use crate::distribution::{
    ArgumentError, CallSite, DistributionSpec, RandomStream, hash_fnv1a, hash_murmur2,
};

/// What a client's expressions draw from and what is counted of their draws.
#[derive(Clone, Debug)]
pub struct Draws {
    /// The client's stream.
    pub stream: RandomStream,
    /// One per place of a random function in the run's scripts.
    pub call_sites: Vec<CallSite>,
}

/// An expression that has no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvaluationError {
    /// A value of the wrong type.
    #[error("cannot coerce {from} to {to}")]
    Coercion {
        /// What it is.
        from: &'static str,
        /// What is needed.
        to: &'static str,
    },
    /// A result that needs more than 64 bits.
    #[error("bigint {0} out of range")]
    Overflow(&'static str),
    /// A divisor of zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A double too large for an integer.
    #[error("double to int overflow for {0}")]
    DoubleToInt(f64),
    /// An argument a random function cannot work with.
    #[error("{0}")]
    Argument(#[from] ArgumentError),
    /// A variable whose text is no number.
    #[error("malformed variable value: \"{0}\" is not null, a truth value or a number")]
    Malformed(String),
    /// A variable that has not been set.
    #[error("a variable is used before it is set")]
    Undefined,
    /// A call site that the run does not know: a fault of ours.
    #[error("the expression belongs to another run")]
    Foreign,
}

type Result<T> = std::result::Result<T, EvaluationError>;

/// The value of `expression` over a client's `variables`. `debug(...)` hands its values to `print`.
///
/// # Errors
/// When the expression has no value, as rule 2 says.
#[inline]
pub fn evaluate(
    expression: &Expression,
    variables: &[Value],
    draws: &mut Draws,
    print: &mut dyn FnMut(&str),
) -> Result<Value> {
    Evaluator { variables, draws, print }.node(&expression.root)
}

/// Whether `value` counts as true in `\if` and `CASE`: true and numbers other than zero do, NULL does
/// not.
///
/// # Errors
/// When it is text that is no number.
pub fn truth(value: &Value) -> Result<bool> {
    Ok(match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Int(value) => *value != 0,
        Value::Double(value) => *value != 0.0,
        Value::Text(text) => return truth(&typed(text)?),
    })
}

/// Reads the text of a variable as pgbench does.
fn typed(text: &str) -> Result<Value> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    // Prefixes are as good as the words, but "o" could be on or off.
    let prefixes = |word: &str| {
        !text.is_empty()
            && word.get(..text.len()).is_some_and(|head| head.eq_ignore_ascii_case(text))
    };
    if is("null") {
        Ok(Value::Null)
    } else if prefixes("true") || prefixes("yes") || is("on") {
        Ok(Value::Bool(true))
    } else if prefixes("false") || prefixes("no") || is("off") || is("of") {
        Ok(Value::Bool(false))
    } else if let Ok(value) = text.parse::<i64>() {
        Ok(Value::Int(value))
    } else if let Ok(value) = text.trim_start().parse::<f64>() {
        Ok(Value::Double(value))
    } else {
        Err(EvaluationError::Malformed(crate::text::terminal(text).into_owned()))
    }
}

fn name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) => "int",
        Value::Double(_) => "double",
        Value::Text(_) => "text",
    }
}

fn as_int(value: &Value) -> Result<i64> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Double(value) => {
            let rounded = value.round_ties_even();
            // 2^63 itself is a double and no i64.
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                Ok(rounded as i64)
            } else {
                Err(EvaluationError::DoubleToInt(*value))
            }
        }
        other => Err(EvaluationError::Coercion { from: name(other), to: "int" }),
    }
}

fn as_double(value: &Value) -> Result<f64> {
    match value {
        Value::Double(value) => Ok(*value),
        Value::Int(value) => Ok(*value as f64),
        other => Err(EvaluationError::Coercion { from: name(other), to: "double" }),
    }
}

fn as_bool(value: &Value) -> Result<bool> {
    match value {
        Value::Bool(value) => Ok(*value),
        other => Err(EvaluationError::Coercion { from: name(other), to: "boolean" }),
    }
}

struct Evaluator<'a> {
    variables: &'a [Value],
    draws: &'a mut Draws,
    print: &'a mut dyn FnMut(&str),
}

impl Evaluator<'_> {
    fn node(&mut self, node: &Node) -> Result<Value> {
        Ok(match node {
            Node::Constant(value) => value.clone(),
            Node::Variable(slot) => match self.variables.get(slot.0 as usize) {
                Some(Value::Text(text)) => typed(text)?,
                Some(value) => value.clone(),
                None => return Err(EvaluationError::Undefined),
            },
            Node::Binary(operator, left, right) => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                binary(*operator, &left, &right)?
            }
            Node::Call(function, arguments) => self.call(*function, arguments)?,
            Node::Draw(function, site, arguments) => self.draw(*function, *site, arguments)?,
            Node::Not(operand) => match self.node(operand)? {
                Value::Null => Value::Null,
                value => Value::Bool(!as_bool(&value)?),
            },
            Node::And(left, right) => self.connective(left, right, false)?,
            Node::Or(left, right) => self.connective(left, right, true)?,
            Node::Is(operand, wanted) => Value::Bool(self.node(operand)? == *wanted),
            Node::Debug(operand) => {
                let value = self.node(operand)?;
                (self.print)(&shown(&value));
                value
            }
            Node::Case(arms, otherwise) => {
                for (condition, result) in arms {
                    let condition = self.node(condition)?;
                    if truth(&condition)? {
                        return self.node(result);
                    }
                }
                self.node(otherwise)?
            }
        })
    }

    /// AND (`decides` is false) and OR (true): the right side is not looked at once the left decides.
    fn connective(&mut self, left: &Node, right: &Node, decides: bool) -> Result<Value> {
        for side in [left, right] {
            match self.node(side)? {
                Value::Null => return Ok(Value::Null),
                value if as_bool(&value)? == decides => return Ok(Value::Bool(decides)),
                _ => {}
            }
        }
        Ok(Value::Bool(!decides))
    }

    fn call(&mut self, function: Function, arguments: &[Node]) -> Result<Value> {
        match (function, arguments) {
            (Function::Pi, _) => Ok(Value::Double(std::f64::consts::PI)),
            (Function::Greatest | Function::Least, _) => self.extreme(function, arguments),
            (_, [argument]) => match self.node(argument)? {
                Value::Null => Ok(Value::Null),
                value => unary(function, &value),
            },
            (_, [left, right]) => {
                let (left, right) = (self.node(left)?, self.node(right)?);
                if left == Value::Null || right == Value::Null {
                    return Ok(Value::Null);
                }
                match function {
                    Function::Mod => binary(Binary::Modulo, &left, &right),
                    Function::Pow => Ok(Value::Double(as_double(&left)?.powf(as_double(&right)?))),
                    Function::HashFnv1a => {
                        Ok(Value::Int(hash_fnv1a(as_int(&left)?, as_int(&right)?)))
                    }
                    Function::HashMurmur2 => {
                        Ok(Value::Int(hash_murmur2(as_int(&left)?, as_int(&right)?)))
                    }
                    // The parser has checked the number of arguments.
                    _ => Err(EvaluationError::Foreign),
                }
            }
            _ => Err(EvaluationError::Foreign),
        }
    }

    /// Integers only give an integer; one double makes all doubles.
    fn extreme(&mut self, function: Function, arguments: &[Node]) -> Result<Value> {
        let values: Vec<Value> =
            arguments.iter().map(|argument| self.node(argument)).collect::<Result<_>>()?;
        if values.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        let is_greatest = function == Function::Greatest;
        if values.iter().any(|value| matches!(value, Value::Double(_))) {
            let doubles = values.iter().map(as_double).collect::<Result<Vec<_>>>()?;
            let pick = if is_greatest { f64::max } else { f64::min };
            let first = doubles.first().copied().unwrap_or(0.0);
            return Ok(Value::Double(doubles.into_iter().fold(first, pick)));
        }
        let integers = values.iter().map(as_int).collect::<Result<Vec<_>>>()?;
        let picked = if is_greatest { integers.iter().max() } else { integers.iter().min() };
        Ok(Value::Int(picked.copied().unwrap_or(0)))
    }

    #[inline]
    fn draw(
        &mut self,
        function: DrawFunction,
        site: super::expression::CallSiteId,
        arguments: &[Node],
    ) -> Result<Value> {
        let mut values = [Value::Null, Value::Null, Value::Null];
        for (place, argument) in values.iter_mut().zip(arguments) {
            *place = self.node(argument)?;
            if *place == Value::Null {
                return Ok(Value::Null);
            }
        }
        let [first, second, third] = &values;
        let (low, high) = (as_int(first)?, as_int(second)?);
        let spec = match function {
            DrawFunction::Random => DistributionSpec::Uniform,
            DrawFunction::Gaussian => DistributionSpec::Gaussian { parameter: as_double(third)? },
            DrawFunction::Exponential => {
                DistributionSpec::Exponential { parameter: as_double(third)? }
            }
            DrawFunction::Zipfian => {
                DistributionSpec::Zipfian { exponent: as_double(third)?, scattered: false }
            }
            DrawFunction::Permute => {
                let seed = as_int(third)?;
                let site = self
                    .draws
                    .call_sites
                    .get_mut(site.0 as usize)
                    .ok_or(EvaluationError::Foreign)?;
                return Ok(Value::Int(site.permute(low, high, seed)?));
            }
        };
        let Draws { stream, call_sites } = &mut *self.draws;
        let site = call_sites.get_mut(site.0 as usize).ok_or(EvaluationError::Foreign)?;
        Ok(Value::Int(site.draw(stream, spec, low, high)?))
    }
}

fn unary(function: Function, value: &Value) -> Result<Value> {
    Ok(match function {
        Function::Abs => match value {
            Value::Double(value) => Value::Double(value.abs()),
            other => {
                Value::Int(as_int(other)?.checked_abs().ok_or(EvaluationError::Overflow("abs"))?)
            }
        },
        Function::Double => Value::Double(as_double(value)?),
        Function::Exp => Value::Double(as_double(value)?.exp()),
        Function::Int => Value::Int(as_int(value)?),
        Function::Ln => Value::Double(as_double(value)?.ln()),
        Function::Sqrt => Value::Double(as_double(value)?.sqrt()),
        _ => return Err(EvaluationError::Foreign),
    })
}

#[inline]
fn binary(operator: Binary, left: &Value, right: &Value) -> Result<Value> {
    use Binary as B;
    if *left == Value::Null || *right == Value::Null {
        return Ok(Value::Null);
    }
    let is_double = matches!(left, Value::Double(_)) || matches!(right, Value::Double(_));
    let overloaded = matches!(
        operator,
        B::Add
            | B::Subtract
            | B::Multiply
            | B::Divide
            | B::Equal
            | B::NotEqual
            | B::Less
            | B::LessOrEqual
    );
    if is_double && overloaded {
        let (left, right) = (as_double(left)?, as_double(right)?);
        #[allow(clippy::float_cmp, reason = "the language's = compares doubles exactly")]
        return Ok(match operator {
            B::Add => Value::Double(left + right),
            B::Subtract => Value::Double(left - right),
            B::Multiply => Value::Double(left * right),
            B::Divide => Value::Double(left / right),
            B::Equal => Value::Bool(left == right),
            B::NotEqual => Value::Bool(left != right),
            B::Less => Value::Bool(left < right),
            _ => Value::Bool(left <= right),
        });
    }
    let (left, right) = (as_int(left)?, as_int(right)?);
    let checked =
        |value: Option<i64>, name| value.map(Value::Int).ok_or(EvaluationError::Overflow(name));
    match operator {
        B::Add => checked(left.checked_add(right), "add"),
        B::Subtract => checked(left.checked_sub(right), "sub"),
        B::Multiply => checked(left.checked_mul(right), "mul"),
        B::Divide | B::Modulo if right == 0 => Err(EvaluationError::DivisionByZero),
        B::Divide => checked(left.checked_div(right), "div"),
        // The remainder by -1 is 0, also of the smallest integer.
        B::Modulo => Ok(Value::Int(left.checked_rem(right).unwrap_or(0))),
        B::Equal => Ok(Value::Bool(left == right)),
        B::NotEqual => Ok(Value::Bool(left != right)),
        B::Less => Ok(Value::Bool(left < right)),
        B::LessOrEqual => Ok(Value::Bool(left <= right)),
        B::BitAnd => Ok(Value::Int(left & right)),
        B::BitOr => Ok(Value::Int(left | right)),
        B::BitXor => Ok(Value::Int(left ^ right)),
        // Shifts by more than 63 are undefined in C; the processor's answer takes six bits.
        B::ShiftLeft => Ok(Value::Int(left.wrapping_shl(right as u32))),
        B::ShiftRight => Ok(Value::Int(left.wrapping_shr(right as u32))),
    }
}

/// As `debug(...)` prints it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("boolean {value}"),
        Value::Int(value) => format!("int {value}"),
        Value::Double(value) => format!("double {}", general(*value)),
        Value::Text(text) => format!("text {}", crate::text::terminal(text)),
    }
}

/// C's `%.15g`.
fn general(value: f64) -> String {
    const DIGITS: i32 = 15;
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan".to_owned() } else { "nan".to_owned() };
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    let scientific = format!("{value:.*e}", (DIGITS - 1) as usize);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |digits: &str| {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits.to_owned()
        }
    };
    if (-4..DIGITS).contains(&exponent) {
        trim(&format!("{value:.*}", (DIGITS - 1 - exponent).max(0) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    }
}
