//! Expressions of `\set` and `\if`, compiled to flat code for a stack.
//!
//! # Rules
//!
//! 1. Jumps only lead forwards, so evaluation ends, after at most [`OPERATIONS_MAX`] steps.
//! 2. The height of the stack is known before evaluation; nothing is allocated for usual expressions.
//! 3. Constants are folded where that cannot fail; what fails, fails when it is evaluated, as in
//!    pgbench, and only if it is.

use std::sync::Arc;

use super::script::{Slot, Value};

/// Most operations of one expression: no person writes as many.
pub const OPERATIONS_MAX: usize = 10_000;

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub(crate) code: Box<[Operation]>,
    /// Where each operation stands in the script.
    pub(crate) places: Box<[Place]>,
    /// Names of the variables that are read, for messages.
    pub(crate) names: Box<[(Slot, Arc<str>)]>,
    /// How high the stack becomes.
    pub(crate) height: usize,
}

/// A place in a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

/// The place of a random function among all of a run's, so that each keeps constants and counts draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallSiteId(pub u32);

/// What a call site's audit calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSiteSource {
    /// The script's name.
    pub script: String,
    /// The line, from 1.
    pub line: u32,
    /// The call as written.
    pub text: String,
}

/// A value without text: what operators work on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
}

impl From<Scalar> for Value {
    #[inline]
    fn from(scalar: Scalar) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Bool(value) => Self::Bool(value),
            Scalar::Int(value) => Self::Int(value),
            Scalar::Double(value) => Self::Double(value),
        }
    }
}

/// One step. Operands lie on the stack, the last one on top; the result takes their place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    Constant(Scalar),
    Load(Slot),
    Not,
    /// `IS NULL | TRUE | FALSE`.
    Is(Scalar),
    Binary(Binary),
    Unary(Unary),
    Hash {
        is_murmur2: bool,
    },
    /// `least` or `greatest` of so many values.
    Extreme {
        is_greatest: bool,
        count: u8,
    },
    /// A random function or `permute`, with its place.
    Draw(DrawFunction, CallSiteId),
    Debug,
    /// Behind the left side of AND (`decides` is false) or OR (true): what decides stays and the right
    /// side is passed over, else it is taken off.
    Connect {
        decides: bool,
        target: u32,
    },
    /// Behind the right side of AND or OR: it must be a truth value or NULL.
    Truth,
    /// Takes a condition off, and goes on at the target unless it counts as true.
    JumpUnless(u32),
    Jump(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Power,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Abs,
    Double,
    Exp,
    Int,
    Ln,
    Sqrt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DrawFunction {
    Random,
    Gaussian,
    Exponential,
    Zipfian,
    Permute,
}

/// What a function's name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Unary(Unary),
    Binary(Binary),
    Hash { is_murmur2: bool },
    Extreme { is_greatest: bool },
    Draw(DrawFunction),
    Debug,
    Pi,
}

/// Most arguments of `least` and `greatest`, as in pgbench.
const ARGUMENTS_MAX: usize = 16;

/// The function of that name, in any case, with its least and largest number of arguments. `hash...`
/// and `permute` take a seed last that is `:default_seed` when left out.
pub(crate) fn function(name: &str) -> Option<(Function, usize, usize)> {
    use DrawFunction as D;
    use Function as F;
    Some(match name.to_ascii_lowercase().as_str() {
        "abs" => (F::Unary(Unary::Abs), 1, 1),
        "debug" => (F::Debug, 1, 1),
        "double" => (F::Unary(Unary::Double), 1, 1),
        "exp" => (F::Unary(Unary::Exp), 1, 1),
        "greatest" => (F::Extreme { is_greatest: true }, 1, ARGUMENTS_MAX),
        "hash" | "hash_murmur2" => (F::Hash { is_murmur2: true }, 1, 2),
        "hash_fnv1a" => (F::Hash { is_murmur2: false }, 1, 2),
        "int" => (F::Unary(Unary::Int), 1, 1),
        "least" => (F::Extreme { is_greatest: false }, 1, ARGUMENTS_MAX),
        "ln" => (F::Unary(Unary::Ln), 1, 1),
        "mod" => (F::Binary(Binary::Modulo), 2, 2),
        "permute" => (F::Draw(D::Permute), 2, 3),
        "pi" => (F::Pi, 0, 0),
        "pow" | "power" => (F::Binary(Binary::Power), 2, 2),
        "random" => (F::Draw(D::Random), 2, 2),
        "random_exponential" => (F::Draw(D::Exponential), 3, 3),
        "random_gaussian" => (F::Draw(D::Gaussian), 3, 3),
        "random_zipfian" => (F::Draw(D::Zipfian), 3, 3),
        "sqrt" => (F::Unary(Unary::Sqrt), 1, 1),
        _ => return None,
    })
}

/// All function names, for messages.
pub(crate) const FUNCTION_NAMES: &str = "abs, debug, double, exp, greatest, hash, hash_fnv1a, \
     hash_murmur2, int, least, ln, mod, permute, pi, pow, power, random, random_exponential, \
     random_gaussian, random_zipfian, sqrt";
