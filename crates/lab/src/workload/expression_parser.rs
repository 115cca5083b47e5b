//! Parses expressions: pgbench's grammar (`src/bin/pgbench/exprparse.y`) by precedence climbing, and
//! writes code as it goes.
//!
//! From weakest to strongest: OR; AND; NOT; IS, ISNULL, NOTNULL; comparisons, which do not chain;
//! `| # & << >>` and the prefix `~`; `+ -`; `* / %`; the prefixes `+ -`. A prefix operator may begin any
//! operand, and reaches as far as what binds stronger than itself: `~1+2` is `~(1+2)`.

use super::arithmetic;
use super::expression::{
    Binary, CallSiteId, CallSiteSource, DrawFunction, Expression, FUNCTION_NAMES, Function,
    OPERATIONS_MAX, Operation, Place, Scalar, function,
};
use super::expression_lexer::{Lexer, ParseError, Token, out_of_range};
use super::script::{Slot, Symbols};

/// Deepest nesting of an expression.
pub(crate) const NESTING_MAX: usize = 64;

type Result<T> = std::result::Result<T, ParseError>;

/// Where call sites and variables are entered.
pub(crate) struct Context<'a> {
    pub(crate) symbols: &'a mut Symbols,
    pub(crate) call_sites: &'a mut Vec<CallSiteSource>,
    /// The variables read, and at which byte of the expression's text.
    pub(crate) reads: &'a mut Vec<(Slot, usize)>,
    pub(crate) script: &'a str,
    /// Where the expression's text starts.
    pub(crate) place: Place,
}

/// How strongly an operator binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Is,
    Comparison,
    Bits,
    Sum,
    Product,
    Sign,
}

/// Parses all of `text`.
pub(crate) fn parse(text: &str, context: &mut Context<'_>) -> Result<Expression> {
    let mut lexer = Lexer::new(text);
    let (token, start) = lexer.next()?;
    let reads_before = context.reads.len();
    let mut parser = Parser {
        lexer,
        token,
        start,
        end: 0,
        context,
        depth: 0,
        code: Vec::new(),
        offsets: Vec::new(),
        height: 0,
        height_max: 0,
    };
    parser.expression(Level::Or)?;
    if parser.token != Token::End {
        return Err((parser.start, "expected an operator or the end of the expression".to_owned()));
    }
    let (code, offsets, height) = (parser.code, parser.offsets, parser.height_max);
    let reads = context.reads.get(reads_before..).unwrap_or(&[]);
    let mut slots: Vec<Slot> = reads.iter().map(|(slot, _)| *slot).collect();
    slots.sort_unstable();
    slots.dedup();
    let names = slots.into_iter().map(|slot| (slot, context.symbols.name(slot).into())).collect();
    let places = places(text, &offsets, context.place);
    Ok(Expression { code: code.into(), places, names, height })
}

/// Lines and columns of byte offsets in `text`, which begins at `first`.
fn places(text: &str, offsets: &[usize], first: Place) -> Box<[Place]> {
    let mut order: Vec<usize> = (0..offsets.len()).collect();
    let offset = |index: usize| offsets.get(index).copied().unwrap_or(0);
    order.sort_unstable_by_key(|index| offset(*index));
    let mut places = vec![Place::default(); offsets.len()];
    let (mut place, mut at) = (first, 0);
    for index in order {
        for c in text.get(at..offset(index)).unwrap_or("").chars() {
            if c == '\n' {
                place = Place { line: place.line.saturating_add(1), column: 1 };
            } else {
                place.column = place.column.saturating_add(1);
            }
        }
        at = offset(index);
        if let Some(entry) = places.get_mut(index) {
            *entry = place;
        }
    }
    places.into()
}

struct Parser<'a, 'c, 'd> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    /// Where `token` starts.
    start: usize,
    /// Where the token before it ended.
    end: usize,
    context: &'c mut Context<'d>,
    depth: usize,
    code: Vec<Operation>,
    offsets: Vec<usize>,
    /// Values on the stack behind the code so far.
    height: usize,
    height_max: usize,
}

impl<'a> Parser<'a, '_, '_> {
    fn advance(&mut self) -> Result<()> {
        self.end = self.lexer.at;
        (self.token, self.start) = self.lexer.next()?;
        Ok(())
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.token, Token::Symbol(other) if other == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Word(other) if other.eq_ignore_ascii_case(word))
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if !self.is_symbol(symbol) {
            return Err((self.start, format!("expected '{symbol}'")));
        }
        self.advance()
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if !self.is_word(word) {
            return Err((self.start, format!("expected {}", word.to_ascii_uppercase())));
        }
        self.advance()
    }

    fn nested<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err((self.start, format!("expressions nest at most {NESTING_MAX} deep")));
        }
        let result = body(self);
        self.depth -= 1;
        result
    }

    /// Appends an operation that takes `operands` values off the stack and puts `results` on it.
    fn push(
        &mut self,
        operation: Operation,
        offset: usize,
        operands: usize,
        results: usize,
    ) -> Result<()> {
        if self.code.len() >= OPERATIONS_MAX {
            return Err((offset, format!("an expression has at most {OPERATIONS_MAX} operations")));
        }
        self.code.push(operation);
        self.offsets.push(offset);
        self.height = self.height.saturating_sub(operands) + results;
        self.height_max = self.height_max.max(self.height);
        Ok(())
    }

    fn constant(&mut self, value: Scalar, offset: usize) -> Result<()> {
        self.push(Operation::Constant(value), offset, 0, 1)
    }

    /// The constants that the code from `from` on consists of, when it is `count` of them.
    fn constants<const COUNT: usize>(&self, from: usize) -> Option<[Scalar; COUNT]> {
        let operations: &[Operation; COUNT] = self.code.get(from..)?.try_into().ok()?;
        let mut values = [Scalar::Null; COUNT];
        for (value, operation) in values.iter_mut().zip(operations) {
            let Operation::Constant(constant) = operation else { return None };
            *value = *constant;
        }
        Some(values)
    }

    /// Puts a constant in the place of the code from `from` on. No jump leads behind `from`: what has
    /// been replaced were constants.
    fn fold(&mut self, from: usize, operands: usize, value: Scalar, offset: usize) -> Result<()> {
        self.code.truncate(from);
        self.offsets.truncate(from);
        self.height = self.height.saturating_sub(operands);
        self.constant(value, offset)
    }

    /// Appends an operator whose left operand's code begins at `from`.
    fn binary(&mut self, operator: Binary, from: usize, offset: usize) -> Result<()> {
        if let Some([left, right]) = self.constants(from)
            && let Ok(value) = arithmetic::binary(operator, left, right)
        {
            return self.fold(from, 2, value, offset);
        }
        self.push(Operation::Binary(operator), offset, 2, 1)
    }

    fn set_target(&mut self, index: usize) {
        let here = u32::try_from(self.code.len()).unwrap_or(u32::MAX);
        if let Some(
            Operation::Jump(target)
            | Operation::JumpUnless(target)
            | Operation::Connect { target, .. },
        ) = self.code.get_mut(index)
        {
            *target = here;
        }
    }

    /// An operand with all operators behind it that bind at least as strongly as `level`.
    fn expression(&mut self, level: Level) -> Result<()> {
        let from = self.code.len();
        self.operand()?;
        loop {
            let offset = self.start;
            if let Some((operator, its_level, next)) = self.infix() {
                if its_level < level {
                    return Ok(());
                }
                self.advance()?;
                self.expression(next)?;
                self.binary(operator, from, offset)?;
                if its_level == Level::Comparison
                    && self.infix().is_some_and(|(_, level, _)| level == Level::Comparison)
                {
                    return Err((
                        self.start,
                        "comparisons do not chain; join two by AND, or use parentheses".to_owned(),
                    ));
                }
            } else if self.is_word("or") && level <= Level::Or {
                self.connect(true, Level::And)?;
            } else if self.is_word("and") && level <= Level::And {
                self.connect(false, Level::Not)?;
            } else if level > Level::Is || !self.test(offset)? {
                return Ok(());
            }
        }
    }

    /// The operator at hand, how strongly it binds, and how strongly operators in its right operand
    /// must.
    fn infix(&self) -> Option<(Binary, Level, Level)> {
        let Token::Symbol(symbol) = self.token else { return None };
        Some(match symbol {
            "=" => (Binary::Equal, Level::Comparison, Level::Bits),
            "<>" | "!=" => (Binary::NotEqual, Level::Comparison, Level::Bits),
            "<" => (Binary::Less, Level::Comparison, Level::Bits),
            "<=" => (Binary::LessOrEqual, Level::Comparison, Level::Bits),
            ">" => (Binary::Greater, Level::Comparison, Level::Bits),
            ">=" => (Binary::GreaterOrEqual, Level::Comparison, Level::Bits),
            "|" => (Binary::BitOr, Level::Bits, Level::Sum),
            "#" => (Binary::BitXor, Level::Bits, Level::Sum),
            "&" => (Binary::BitAnd, Level::Bits, Level::Sum),
            "<<" => (Binary::ShiftLeft, Level::Bits, Level::Sum),
            ">>" => (Binary::ShiftRight, Level::Bits, Level::Sum),
            "+" => (Binary::Add, Level::Sum, Level::Product),
            "-" => (Binary::Subtract, Level::Sum, Level::Product),
            "*" => (Binary::Multiply, Level::Product, Level::Sign),
            "/" => (Binary::Divide, Level::Product, Level::Sign),
            "%" => (Binary::Modulo, Level::Product, Level::Sign),
            _ => return None,
        })
    }

    /// AND or OR, with its right side.
    fn connect(&mut self, decides: bool, right: Level) -> Result<()> {
        let offset = self.start;
        let jump = self.code.len();
        self.push(Operation::Connect { decides, target: 0 }, offset, 1, 0)?;
        self.advance()?;
        self.expression(right)?;
        self.push(Operation::Truth, offset, 1, 1)?;
        self.set_target(jump);
        Ok(())
    }

    /// `IS [NOT] NULL | TRUE | FALSE`, `ISNULL`, `NOTNULL`; false where none stands.
    fn test(&mut self, offset: usize) -> Result<bool> {
        let (wanted, is_negated) = if self.is_word("isnull") {
            (Scalar::Null, false)
        } else if self.is_word("notnull") {
            (Scalar::Null, true)
        } else if self.is_word("is") {
            self.advance()?;
            let is_negated = self.is_word("not");
            if is_negated {
                self.advance()?;
            }
            let wanted = if self.is_word("null") {
                Scalar::Null
            } else if self.is_word("true") {
                Scalar::Bool(true)
            } else if self.is_word("false") {
                Scalar::Bool(false)
            } else {
                return Err((self.start, "expected NULL, TRUE or FALSE behind IS".to_owned()));
            };
            (wanted, is_negated)
        } else {
            return Ok(false);
        };
        self.advance()?;
        self.push(Operation::Is(wanted), offset, 1, 1)?;
        if is_negated {
            self.push(Operation::Not, offset, 1, 1)?;
        }
        Ok(true)
    }

    fn operand(&mut self) -> Result<()> {
        let offset = self.start;
        let from = self.code.len();
        match self.token {
            Token::Integer(value) => {
                let Ok(value) = i64::try_from(value) else {
                    return Err((offset, out_of_range(&value.to_string())));
                };
                self.constant(Scalar::Int(value), offset)?;
                self.advance()
            }
            Token::Double(value) => {
                self.constant(Scalar::Double(value), offset)?;
                self.advance()
            }
            Token::Variable(name) => {
                self.variable(name, offset)?;
                self.advance()
            }
            Token::Symbol("(") => self.nested(|parser| {
                parser.advance()?;
                parser.expression(Level::Or)?;
                parser.expect_symbol(")")
            }),
            Token::Symbol("+") => self.nested(|parser| {
                parser.advance()?;
                parser.expression(Level::Sign)
            }),
            Token::Symbol("-") => self.nested(|parser| {
                parser.advance()?;
                // The smallest integer has no positive counterpart.
                if parser.token == Token::Integer(1 << 63) {
                    parser.constant(Scalar::Int(i64::MIN), offset)?;
                    return parser.advance();
                }
                parser.constant(Scalar::Int(0), offset)?;
                parser.expression(Level::Sign)?;
                parser.binary(Binary::Subtract, from, offset)
            }),
            Token::Symbol("~") => self.nested(|parser| {
                parser.advance()?;
                parser.constant(Scalar::Int(-1), offset)?;
                parser.expression(Level::Sum)?;
                parser.binary(Binary::BitXor, from, offset)
            }),
            Token::Word(word) if word.eq_ignore_ascii_case("not") => self.nested(|parser| {
                parser.advance()?;
                parser.expression(Level::Not)?;
                parser.push(Operation::Not, offset, 1, 1)
            }),
            Token::Word(word) => self.word(word, offset),
            Token::End => Err((offset, "the expression ends where a value is expected".to_owned())),
            Token::Symbol(symbol) => Err((offset, format!("expected a value, not '{symbol}'"))),
        }
    }

    fn variable(&mut self, name: &str, offset: usize) -> Result<()> {
        let slot = self.context.symbols.slot(name);
        self.context.reads.push((slot, offset));
        self.push(Operation::Load(slot), offset, 0, 1)
    }

    fn word(&mut self, word: &'a str, offset: usize) -> Result<()> {
        self.advance()?;
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        if is("true") || is("false") {
            return self.constant(Scalar::Bool(is("true")), offset);
        }
        if is("null") {
            return self.constant(Scalar::Null, offset);
        }
        if is("case") {
            return self.nested(|parser| parser.case(offset));
        }
        let shown = crate::text::excerpt(word, 40);
        if !self.is_symbol("(") {
            let message = format!("'{shown}' is not a value; write :{shown} for a variable");
            return Err((offset, message));
        }
        let Some((function, least, most)) = function(word) else {
            let message = format!("there is no function '{shown}'; there are {FUNCTION_NAMES}");
            return Err((offset, message));
        };
        let from = self.code.len();
        let mut count = self.nested(Self::arguments)?;
        if count < least || count > most {
            let wanted =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            let plural = if most == 1 { "" } else { "s" };
            let message = format!("function {shown} takes {wanted} argument{plural}, not {count}");
            return Err((offset, message));
        }
        let takes_seed =
            matches!(function, Function::Hash { .. } | Function::Draw(DrawFunction::Permute));
        if takes_seed && count < most {
            self.variable("default_seed", offset)?;
            count = most;
        }
        match function {
            Function::Pi => self.constant(Scalar::Double(std::f64::consts::PI), offset),
            Function::Debug => self.push(Operation::Debug, offset, 1, 1),
            Function::Unary(function) => {
                let argument = self.constants(from);
                match argument.map(|[value]| arithmetic::unary(function, value)) {
                    Some(Ok(value)) => self.fold(from, 1, value, offset),
                    _ => self.push(Operation::Unary(function), offset, 1, 1),
                }
            }
            Function::Binary(operator) => self.binary(operator, from, offset),
            Function::Hash { is_murmur2 } => {
                self.push(Operation::Hash { is_murmur2 }, offset, 2, 1)
            }
            Function::Extreme { is_greatest } => {
                // Checked above to be at most 16.
                let operation =
                    Operation::Extreme { is_greatest, count: u8::try_from(count).unwrap_or(0) };
                self.push(operation, offset, count, 1)
            }
            Function::Draw(function) => {
                let site = CallSiteId(u32::try_from(self.context.call_sites.len()).unwrap_or(0));
                let text = self.lexer.text.get(offset..self.end).unwrap_or(word);
                self.context.call_sites.push(CallSiteSource {
                    script: self.context.script.to_owned(),
                    line: self.context.place.line,
                    text: text.to_owned(),
                });
                self.push(Operation::Draw(function, site), offset, count, 1)
            }
        }
    }

    /// Arguments in parentheses; how many.
    fn arguments(&mut self) -> Result<usize> {
        self.expect_symbol("(")?;
        let mut count = 0;
        if !self.is_symbol(")") {
            loop {
                self.expression(Level::Or)?;
                count += 1;
                if !self.is_symbol(",") {
                    break;
                }
                self.advance()?;
            }
        }
        if !self.is_symbol(")") {
            return Err((self.start, "expected ',' or ')'".to_owned()));
        }
        self.advance()?;
        Ok(count)
    }

    fn case(&mut self, offset: usize) -> Result<()> {
        let mut ends = Vec::new();
        if !self.is_word("when") {
            return Err((self.start, "expected WHEN behind CASE".to_owned()));
        }
        while self.is_word("when") {
            self.advance()?;
            self.expression(Level::Or)?;
            let unless = self.code.len();
            self.push(Operation::JumpUnless(0), offset, 1, 0)?;
            self.expect_word("then")?;
            self.expression(Level::Or)?;
            ends.push(self.code.len());
            // The arm's value stays on the stack only where the jump is taken.
            self.push(Operation::Jump(0), offset, 1, 0)?;
            self.set_target(unless);
        }
        if self.is_word("else") {
            self.advance()?;
            self.expression(Level::Or)?;
        } else {
            self.constant(Scalar::Null, offset)?;
        }
        self.expect_word("end")?;
        for jump in ends {
            self.set_target(jump);
        }
        Ok(())
    }
}
