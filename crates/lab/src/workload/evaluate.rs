//! Evaluates expressions as pgbench does (`src/bin/pgbench/pgbench.c`, `evaluateExpr`).

use std::fmt;

use super::arithmetic::{as_bool, as_double, as_int, binary, extreme, is_true, not, unary};
use super::expression::{DrawFunction, Expression, Operation, Place, Scalar};
use super::script::Value;
use super::value::{scalar, shown};
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

/// An expression that has no value, and where that shows.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationError {
    /// What is wrong.
    pub fault: Fault,
    /// Of the operator, function or variable.
    pub place: Place,
    /// The variable's name, where the fault is one's.
    pub variable: Option<String>,
}

impl fmt::Display for EvaluationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.variable, &self.fault) {
            (Some(name), Fault::Undefined) => write!(f, "undefined variable \"{name}\"")?,
            (Some(name), fault) => write!(f, "variable \"{name}\": {fault}")?,
            (None, fault) => write!(f, "{fault}")?,
        }
        write!(f, " at {}:{}", self.place.line, self.place.column)
    }
}

impl std::error::Error for EvaluationError {}

/// Why an expression has no value. Words as in pgbench, so that they can be looked up.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
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
    #[error("double to int overflow for {0:.6}")]
    DoubleToInt(f64),
    /// The range of a random function has more than 2^63 - 1 values.
    #[error("random range is too large")]
    RangeTooLarge,
    /// An argument a random function cannot work with.
    #[error("{0}")]
    Argument(#[from] ArgumentError),
    /// A variable whose text is no value.
    #[error("malformed value \"{0}\": neither null, a truth value nor a number")]
    Malformed(String),
    /// A variable whose text is a number too large.
    #[error("value \"{0}\" is out of range for type {1}")]
    OutOfRange(String, &'static str),
    /// A variable that has not been set.
    #[error("undefined variable")]
    Undefined,
    /// An expression of another run: a fault of ours.
    #[error("the expression belongs to another run")]
    Foreign,
}

/// Stacks up to this height lie on the thread's own stack.
const USUAL_HEIGHT: usize = 12;

/// The value of `expression` over a client's `variables`. `debug(...)` hands its values to `print`.
///
/// # Errors
/// When the expression has no value, with the place.
#[inline]
pub fn evaluate(
    expression: &Expression,
    variables: &[Value],
    draws: &mut Draws,
    print: &mut dyn FnMut(&str),
) -> Result<Value, Box<EvaluationError>> {
    let mut at = 0;
    let result = if expression.height <= USUAL_HEIGHT {
        let mut stack = [Scalar::Null; USUAL_HEIGHT];
        run(expression, variables, draws, print, &mut stack, &mut at)
    } else {
        let mut stack = vec![Scalar::Null; expression.height];
        run(expression, variables, draws, print, &mut stack, &mut at)
    };
    match result {
        Ok(value) => Ok(value.into()),
        Err(fault) => Err(failed(expression, at, fault)),
    }
}

#[cold]
fn failed(expression: &Expression, at: usize, fault: Fault) -> Box<EvaluationError> {
    let place = expression.places.get(at).copied().unwrap_or_default();
    let variable = match expression.code.get(at) {
        Some(Operation::Load(slot)) => expression
            .names
            .iter()
            .find(|(other, _)| other == slot)
            .map(|(_, name)| crate::text::terminal(name).into_owned()),
        _ => None,
    };
    Box::new(EvaluationError { fault, place, variable })
}

/// Runs the code; `at` is left at the operation that failed. The parser has computed the stack's
/// height, so that an access outside of it is a fault of ours and reported as such.
#[inline]
fn run(
    expression: &Expression,
    variables: &[Value],
    draws: &mut Draws,
    print: &mut dyn FnMut(&str),
    stack: &mut [Scalar],
    at: &mut usize,
) -> Result<Scalar, Fault> {
    let code = &*expression.code;
    // Values on the stack.
    let mut len = 0_usize;
    while let Some(operation) = code.get(*at) {
        let count = match operation {
            Operation::Constant(_) | Operation::Load(_) | Operation::Jump(_) => 0,
            Operation::Not
            | Operation::Is(_)
            | Operation::Unary(_)
            | Operation::Debug
            | Operation::Connect { .. }
            | Operation::Truth
            | Operation::JumpUnless(_) => 1,
            Operation::Binary(_) | Operation::Hash { .. } => 2,
            Operation::Extreme { count, .. } => usize::from(*count),
            Operation::Draw(DrawFunction::Random, _) => 2,
            Operation::Draw(..) => 3,
        };
        let base = len.wrapping_sub(count);
        let operands = stack.get(base..len).unwrap_or(&[]);
        let result = match (operation, operands) {
            (Operation::Constant(value), _) => *value,
            (Operation::Load(slot), _) => match variables.get(slot.0 as usize) {
                Some(Value::Int(value)) => Scalar::Int(*value),
                Some(value) => scalar(value)?,
                None => return Err(Fault::Undefined),
            },
            (Operation::Binary(operator), [left, right]) => binary(*operator, *left, *right)?,
            (Operation::Draw(function, site), [first, second, rest @ ..]) => {
                let site = draws.call_sites.get_mut(site.0 as usize).ok_or(Fault::Foreign)?;
                let third = rest.first().copied();
                draw(*function, site, &mut draws.stream, (*first, *second, third))?
            }
            (Operation::Unary(function), [value]) => unary(*function, *value)?,
            (Operation::Not, [value]) => not(*value)?,
            (Operation::Is(wanted), [value]) => Scalar::Bool(value == wanted),
            (Operation::Hash { is_murmur2 }, [value, seed]) => hash(*is_murmur2, *value, *seed)?,
            (Operation::Extreme { is_greatest, .. }, values) => extreme(*is_greatest, values)?,
            (Operation::Debug, [value]) => {
                print(&shown(*value));
                *value
            }
            (Operation::Truth, [value]) => match *value {
                Scalar::Null => Scalar::Null,
                value => Scalar::Bool(as_bool(value)?),
            },
            (Operation::Connect { decides, target }, [value]) => {
                let stays = *value == Scalar::Null || as_bool(*value)? == *decides;
                if stays {
                    *at = *target as usize;
                } else {
                    len = base;
                    *at += 1;
                }
                continue;
            }
            (Operation::JumpUnless(target), [value]) => {
                let goes_on = is_true(*value);
                len = base;
                *at = if goes_on { *at + 1 } else { *target as usize };
                continue;
            }
            (Operation::Jump(target), _) => {
                *at = *target as usize;
                continue;
            }
            _ => return Err(Fault::Foreign),
        };
        *stack.get_mut(base).ok_or(Fault::Foreign)? = result;
        len = base + 1;
        *at += 1;
    }
    stack.first().copied().filter(|_| len == 1).ok_or(Fault::Foreign)
}

fn hash(is_murmur2: bool, value: Scalar, seed: Scalar) -> Result<Scalar, Fault> {
    if value == Scalar::Null || seed == Scalar::Null {
        return Ok(Scalar::Null);
    }
    let (value, seed) = (as_int(value)?, as_int(seed)?);
    let hash = if is_murmur2 { hash_murmur2(value, seed) } else { hash_fnv1a(value, seed) };
    Ok(Scalar::Int(hash))
}

#[inline]
fn draw(
    function: DrawFunction,
    site: &mut CallSite,
    stream: &mut RandomStream,
    (first, second, third): (Scalar, Scalar, Option<Scalar>),
) -> Result<Scalar, Fault> {
    if first == Scalar::Null || second == Scalar::Null || third == Some(Scalar::Null) {
        return Ok(Scalar::Null);
    }
    let (low, high) = (as_int(first)?, as_int(second)?);
    let third = || third.ok_or(Fault::Foreign);
    if function == DrawFunction::Permute {
        return Ok(Scalar::Int(site.permute(low, high, as_int(third()?)?)?));
    }
    if low <= high && high.checked_sub(low).is_none_or(|last| last == i64::MAX) {
        return Err(Fault::RangeTooLarge);
    }
    let spec = match function {
        DrawFunction::Gaussian => DistributionSpec::Gaussian { parameter: as_double(third()?)? },
        DrawFunction::Exponential => {
            DistributionSpec::Exponential { parameter: as_double(third()?)? }
        }
        DrawFunction::Zipfian => {
            DistributionSpec::Zipfian { exponent: as_double(third()?)?, scattered: false }
        }
        DrawFunction::Random | DrawFunction::Permute => DistributionSpec::Uniform,
    };
    Ok(Scalar::Int(site.draw(stream, spec, low, high)?))
}
