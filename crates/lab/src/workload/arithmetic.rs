//! Operators and functions on values, with pgbench's types (`src/bin/pgbench/pgbench.c`,
//! `evalStandardFunc`).
//!
//! # Rules
//!
//! 1. An argument that is NULL makes the result NULL.
//! 2. Integers have 64 bits, and an overflow is a fault, never a wrap. (pgbench wraps in one place:
//!    `abs` of the smallest integer.)
//! 3. One double makes an arithmetic or comparing operator work in doubles; `%`, bits and shifts are
//!    for integers, and round doubles to even.

use super::evaluate::Fault;
use super::expression::{Binary, Scalar, Unary};

type Result<T> = std::result::Result<T, Fault>;

pub(crate) const fn type_name(value: Scalar) -> &'static str {
    match value {
        Scalar::Null => "null",
        Scalar::Bool(_) => "boolean",
        Scalar::Int(_) => "int",
        Scalar::Double(_) => "double",
    }
}

#[inline]
pub(crate) fn as_int(value: Scalar) -> Result<i64> {
    match value {
        Scalar::Int(value) => Ok(value),
        Scalar::Double(value) => {
            let rounded = value.round_ties_even();
            // 2^63 itself is a double and no i64.
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                Ok(rounded as i64)
            } else {
                Err(Fault::DoubleToInt(rounded))
            }
        }
        other => Err(Fault::Coercion { from: type_name(other), to: "int" }),
    }
}

#[inline]
pub(crate) fn as_double(value: Scalar) -> Result<f64> {
    match value {
        Scalar::Double(value) => Ok(value),
        Scalar::Int(value) => Ok(value as f64),
        other => Err(Fault::Coercion { from: type_name(other), to: "double" }),
    }
}

#[inline]
pub(crate) fn as_bool(value: Scalar) -> Result<bool> {
    match value {
        Scalar::Bool(value) => Ok(value),
        other => Err(Fault::Coercion { from: type_name(other), to: "boolean" }),
    }
}

/// Whether `value` counts as true in `\if` and `CASE`: true and numbers other than zero do, NULL does
/// not.
#[inline]
pub(crate) fn is_true(value: Scalar) -> bool {
    match value {
        Scalar::Null => false,
        Scalar::Bool(value) => value,
        Scalar::Int(value) => value != 0,
        Scalar::Double(value) => value != 0.0,
    }
}

pub(crate) fn not(value: Scalar) -> Result<Scalar> {
    match value {
        Scalar::Null => Ok(Scalar::Null),
        value => Ok(Scalar::Bool(!as_bool(value)?)),
    }
}

pub(crate) fn unary(function: Unary, value: Scalar) -> Result<Scalar> {
    if value == Scalar::Null {
        return Ok(Scalar::Null);
    }
    Ok(match function {
        Unary::Abs => match value {
            Scalar::Double(value) => Scalar::Double(if value < 0.0 { -value } else { value }),
            other => Scalar::Int(as_int(other)?.checked_abs().ok_or(Fault::Overflow("abs"))?),
        },
        Unary::Double => Scalar::Double(as_double(value)?),
        Unary::Exp => Scalar::Double(as_double(value)?.exp()),
        Unary::Int => Scalar::Int(as_int(value)?),
        Unary::Ln => Scalar::Double(as_double(value)?.ln()),
        Unary::Sqrt => Scalar::Double(as_double(value)?.sqrt()),
    })
}

#[inline]
pub(crate) fn binary(operator: Binary, left: Scalar, right: Scalar) -> Result<Scalar> {
    use Binary as B;
    if left == Scalar::Null || right == Scalar::Null {
        return Ok(Scalar::Null);
    }
    let is_double = matches!(left, Scalar::Double(_)) || matches!(right, Scalar::Double(_));
    match operator {
        B::Power => return Ok(Scalar::Double(as_double(left)?.powf(as_double(right)?))),
        B::Modulo | B::BitAnd | B::BitOr | B::BitXor | B::ShiftLeft | B::ShiftRight => {}
        _ if is_double => return doubles(operator, as_double(left)?, as_double(right)?),
        _ => {}
    }
    integers(operator, as_int(left)?, as_int(right)?)
}

#[allow(clippy::float_cmp, reason = "the language compares doubles exactly")]
fn doubles(operator: Binary, left: f64, right: f64) -> Result<Scalar> {
    use Binary as B;
    Ok(match operator {
        B::Add => Scalar::Double(left + right),
        B::Subtract => Scalar::Double(left - right),
        B::Multiply => Scalar::Double(left * right),
        B::Divide => Scalar::Double(left / right),
        B::Equal => Scalar::Bool(left == right),
        B::NotEqual => Scalar::Bool(left != right),
        B::Less => Scalar::Bool(left < right),
        B::LessOrEqual => Scalar::Bool(left <= right),
        B::Greater => Scalar::Bool(left > right),
        B::GreaterOrEqual => Scalar::Bool(left >= right),
        _ => return Err(Fault::Foreign),
    })
}

#[inline]
fn integers(operator: Binary, left: i64, right: i64) -> Result<Scalar> {
    use Binary as B;
    let checked = |value: Option<i64>, name| value.map(Scalar::Int).ok_or(Fault::Overflow(name));
    match operator {
        B::Add => checked(left.checked_add(right), "add"),
        B::Subtract => checked(left.checked_sub(right), "sub"),
        B::Multiply => checked(left.checked_mul(right), "mul"),
        B::Divide | B::Modulo if right == 0 => Err(Fault::DivisionByZero),
        B::Divide => checked(left.checked_div(right), "div"),
        // The remainder by -1 is 0, also of the smallest integer.
        B::Modulo => Ok(Scalar::Int(left.checked_rem(right).unwrap_or(0))),
        B::Equal => Ok(Scalar::Bool(left == right)),
        B::NotEqual => Ok(Scalar::Bool(left != right)),
        B::Less => Ok(Scalar::Bool(left < right)),
        B::LessOrEqual => Ok(Scalar::Bool(left <= right)),
        B::Greater => Ok(Scalar::Bool(left > right)),
        B::GreaterOrEqual => Ok(Scalar::Bool(left >= right)),
        B::BitAnd => Ok(Scalar::Int(left & right)),
        B::BitOr => Ok(Scalar::Int(left | right)),
        B::BitXor => Ok(Scalar::Int(left ^ right)),
        // C leaves shifts by other than 0 to 63 open; the usual processors take six bits, and so do
        // the methods with a wrapped count.
        B::ShiftLeft => Ok(Scalar::Int(left.wrapping_shl(right as u32))),
        B::ShiftRight => Ok(Scalar::Int(left.wrapping_shr(right as u32))),
        B::Power => Err(Fault::Foreign),
    }
}

/// `least` or `greatest`: integers only give an integer, one double makes all doubles. A NaN counts as
/// pgbench's macro has it: the later value wins where a comparison says no.
pub(crate) fn extreme(is_greatest: bool, values: &[Scalar]) -> Result<Scalar> {
    if values.contains(&Scalar::Null) {
        return Ok(Scalar::Null);
    }
    let Some((first, rest)) = values.split_first() else { return Err(Fault::Foreign) };
    if values.iter().any(|value| matches!(value, Scalar::Double(_))) {
        let mut picked = as_double(*first)?;
        for value in rest {
            let value = as_double(*value)?;
            let stays = if is_greatest { picked > value } else { picked < value };
            picked = if stays { picked } else { value };
        }
        return Ok(Scalar::Double(picked));
    }
    let mut picked = as_int(*first)?;
    for value in rest {
        let value = as_int(*value)?;
        picked = if is_greatest { picked.max(value) } else { picked.min(value) };
    }
    Ok(Scalar::Int(picked))
}
