//! Expressions of `\set` and `\if`, compiled to a tree over variable slots.

use super::script::{Slot, Value};

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    pub(crate) root: Node,
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

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Constant(Value),
    Variable(Slot),
    Not(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// `IS [NOT] NULL | TRUE | FALSE`.
    Is(Box<Node>, Value),
    Binary(Binary, Box<Node>, Box<Node>),
    Call(Function, Box<[Node]>),
    /// A random function or `permute`, with its place.
    Draw(DrawFunction, CallSiteId, Box<[Node]>),
    /// `debug(x)`: the command's place is printed before the value.
    Debug(Box<Node>),
    Case(Box<[(Node, Node)]>, Box<Node>),
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
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Mod,
    Pi,
    Pow,
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

/// A function's name, what it is, and how many arguments it takes.
pub(crate) enum Known {
    Plain(Function),
    Draw(DrawFunction),
    Debug,
}

/// Least and most arguments. `hash*` and `permute` take a seed that is `:default_seed` when left out.
pub(crate) fn function(name: &str) -> Option<(Known, usize, usize)> {
    use DrawFunction as D;
    use Function as F;
    const MANY: usize = 16;
    let known = match name.to_ascii_lowercase().as_str() {
        "abs" => (Known::Plain(F::Abs), 1, 1),
        "debug" => (Known::Debug, 1, 1),
        "double" => (Known::Plain(F::Double), 1, 1),
        "exp" => (Known::Plain(F::Exp), 1, 1),
        "greatest" => (Known::Plain(F::Greatest), 1, MANY),
        "hash" | "hash_murmur2" => (Known::Plain(F::HashMurmur2), 1, 2),
        "hash_fnv1a" => (Known::Plain(F::HashFnv1a), 1, 2),
        "int" => (Known::Plain(F::Int), 1, 1),
        "least" => (Known::Plain(F::Least), 1, MANY),
        "ln" => (Known::Plain(F::Ln), 1, 1),
        "mod" => (Known::Plain(F::Mod), 2, 2),
        "permute" => (Known::Draw(D::Permute), 2, 3),
        "pi" => (Known::Plain(F::Pi), 0, 0),
        "pow" | "power" => (Known::Plain(F::Pow), 2, 2),
        "random" => (Known::Draw(D::Random), 2, 2),
        "random_exponential" => (Known::Draw(D::Exponential), 3, 3),
        "random_gaussian" => (Known::Draw(D::Gaussian), 3, 3),
        "random_zipfian" => (Known::Draw(D::Zipfian), 3, 3),
        "sqrt" => (Known::Plain(F::Sqrt), 1, 1),
        _ => return None,
    };
    Some(known)
}

/// All function names, for messages.
pub(crate) const FUNCTION_NAMES: &str = "abs, debug, double, exp, greatest, hash, hash_fnv1a, \
     hash_murmur2, int, least, ln, mod, permute, pi, pow, power, random, random_exponential, \
     random_gaussian, random_zipfian, sqrt";
