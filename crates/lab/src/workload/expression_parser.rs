//! Parses expressions: pgbench's grammar (`src/bin/pgbench/exprparse.y`) by precedence climbing.
//!
//! From weakest to strongest: OR; AND; NOT; IS, ISNULL, NOTNULL; comparisons (not chained); `| # & << >>`;
//! `+ -`; `* / %`; unary `+ -`. A prefixed `~` takes a whole sum.

use super::expression::{
    Binary, CallSiteId, CallSiteSource, DrawFunction, FUNCTION_NAMES, Function, Known, Node,
    function,
};
use super::script::{Symbols, Value};

/// Deepest nesting of an expression.
pub(crate) const NESTING_MAX: usize = 64;

/// What is wrong, and at which byte of the expression's text.
pub(crate) type ParseError = (usize, String);

type Result<T> = std::result::Result<T, ParseError>;

/// Where call sites and variables are entered.
pub(crate) struct Context<'a> {
    pub(crate) symbols: &'a mut Symbols,
    pub(crate) call_sites: &'a mut Vec<CallSiteSource>,
    pub(crate) script: &'a str,
    pub(crate) line: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Token<'a> {
    Integer(u64),
    Double(f64),
    Variable(&'a str),
    Word(&'a str),
    Symbol(&'static str),
    End,
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 22] = [
    "<<", ">>", "<=", ">=", "<>", "!=", "<", ">", "=", "+", "-", "*", "/", "%", "|", "#", "&", "~",
    "(", ")", ",", "!",
];

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// The next token and where it starts.
    fn next(&mut self) -> Result<(Token<'a>, usize)> {
        loop {
            let rest = self.rest();
            let space =
                rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\u{b}', '\u{c}']).len();
            self.at += space;
            // A backslash before the line's end continues the expression on the next line.
            let rest = self.rest();
            if let Some(after) = rest
                .strip_prefix('\\')
                .and_then(|rest| rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\r\n")))
            {
                self.at = self.text.len() - after.len();
                continue;
            }
            break;
        }
        let start = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok((Token::End, start)) };
        if first == ':' {
            let name: &str = rest.get(1..).unwrap_or("");
            let len = name.find(|c| !is_name(c)).unwrap_or(name.len());
            if len == 0 {
                return Err((start, "':' must be followed by a variable's name".to_owned()));
            }
            self.at += 1 + len;
            return Ok((Token::Variable(name.get(..len).unwrap_or("")), start));
        }
        if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            return self.number(start);
        }
        if is_name(first) {
            let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            self.at += len;
            return Ok((Token::Word(rest.get(..len).unwrap_or("")), start));
        }
        for symbol in SYMBOLS {
            if rest.starts_with(symbol) {
                self.at += symbol.len();
                return Ok((Token::Symbol(symbol), start));
            }
        }
        Err((
            start,
            format!("'{}' is not part of an expression", crate::text::terminal(&first.to_string())),
        ))
    }

    fn number(&mut self, start: usize) -> Result<(Token<'a>, usize)> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits =
            |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
        let mut len = digits(0);
        let mut is_double = false;
        if bytes.get(len) == Some(&b'.') {
            is_double = true;
            len += 1 + digits(len + 1);
        }
        if matches!(bytes.get(len), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
            let exponent = digits(len + 1 + sign);
            if exponent > 0 {
                is_double = true;
                len += 1 + sign + exponent;
            }
        }
        let text = rest.get(..len).unwrap_or("");
        self.at += len;
        if is_double {
            return match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok((Token::Double(value), start)),
                _ => Err((start, format!("double constant {text} is out of range"))),
            };
        }
        match text.parse::<u64>() {
            Ok(value) if value <= 1 << 63 => Ok((Token::Integer(value), start)),
            _ => Err((start, format!("integer constant {text} is out of range of 64 bits"))),
        }
    }
}

/// Parses all of `text`.
pub(crate) fn parse(text: &str, context: &mut Context<'_>) -> Result<Node> {
    let mut lexer = Lexer { text, at: 0 };
    let (token, start) = lexer.next()?;
    let mut parser = Parser { lexer, token, start, end: 0, context, depth: 0 };
    let node = parser.disjunction()?;
    match &parser.token {
        Token::End => Ok(node),
        _ => Err((parser.start, "expected an operator or the end of the expression".to_owned())),
    }
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

    fn disjunction(&mut self) -> Result<Node> {
        let mut left = self.conjunction()?;
        while self.is_word("or") {
            self.advance()?;
            let right = self.conjunction()?;
            left = Node::Or(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn conjunction(&mut self) -> Result<Node> {
        let mut left = self.negation()?;
        while self.is_word("and") {
            self.advance()?;
            let right = self.negation()?;
            left = Node::And(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Node> {
        if !self.is_word("not") {
            return self.test();
        }
        self.nested(|parser| {
            parser.advance()?;
            Ok(Node::Not(Box::new(parser.negation()?)))
        })
    }

    fn test(&mut self) -> Result<Node> {
        let mut operand = self.comparison()?;
        loop {
            let (wanted, is_negated) = if self.is_word("isnull") {
                (Value::Null, false)
            } else if self.is_word("notnull") {
                (Value::Null, true)
            } else if self.is_word("is") {
                self.advance()?;
                let is_negated = self.is_word("not");
                if is_negated {
                    self.advance()?;
                }
                let wanted = if self.is_word("null") {
                    Value::Null
                } else if self.is_word("true") {
                    Value::Bool(true)
                } else if self.is_word("false") {
                    Value::Bool(false)
                } else {
                    return Err((self.start, "expected NULL, TRUE or FALSE behind IS".to_owned()));
                };
                (wanted, is_negated)
            } else {
                return Ok(operand);
            };
            self.advance()?;
            operand = Node::Is(Box::new(operand), wanted);
            if is_negated {
                operand = Node::Not(Box::new(operand));
            }
        }
    }

    fn comparison(&mut self) -> Result<Node> {
        let left = self.bits()?;
        let Token::Symbol(symbol) = self.token else { return Ok(left) };
        let (operator, is_swapped) = match symbol {
            "=" => (Binary::Equal, false),
            "<>" | "!=" => (Binary::NotEqual, false),
            "<" => (Binary::Less, false),
            "<=" => (Binary::LessOrEqual, false),
            ">" => (Binary::Less, true),
            ">=" => (Binary::LessOrEqual, true),
            _ => return Ok(left),
        };
        self.advance()?;
        let right = self.bits()?;
        let (left, right) = if is_swapped { (right, left) } else { (left, right) };
        Ok(Node::Binary(operator, Box::new(left), Box::new(right)))
    }

    fn binary_level(
        &mut self,
        operators: &[(&str, Binary)],
        operand: fn(&mut Self) -> Result<Node>,
    ) -> Result<Node> {
        let mut left = operand(self)?;
        loop {
            let Token::Symbol(symbol) = self.token else { return Ok(left) };
            let Some((_, operator)) = operators.iter().find(|(other, _)| *other == symbol) else {
                return Ok(left);
            };
            self.advance()?;
            let right = operand(self)?;
            left = Node::Binary(*operator, Box::new(left), Box::new(right));
        }
    }

    fn bits(&mut self) -> Result<Node> {
        const OPERATORS: [(&str, Binary); 5] = [
            ("|", Binary::BitOr),
            ("#", Binary::BitXor),
            ("&", Binary::BitAnd),
            ("<<", Binary::ShiftLeft),
            (">>", Binary::ShiftRight),
        ];
        self.binary_level(&OPERATORS, Self::sum)
    }

    fn sum(&mut self) -> Result<Node> {
        self.binary_level(&[("+", Binary::Add), ("-", Binary::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Node> {
        const OPERATORS: [(&str, Binary); 3] =
            [("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Modulo)];
        self.binary_level(&OPERATORS, Self::unary)
    }

    fn unary(&mut self) -> Result<Node> {
        if self.is_symbol("+") {
            return self.nested(|parser| {
                parser.advance()?;
                parser.unary()
            });
        }
        if self.is_symbol("~") {
            return self.nested(|parser| {
                parser.advance()?;
                // Binds weaker than sums, as in pgbench's grammar: ~1 + 2 is ~(1 + 2).
                let operand = parser.sum()?;
                let ones = Node::Constant(Value::Int(-1));
                Ok(Node::Binary(Binary::BitXor, Box::new(ones), Box::new(operand)))
            });
        }
        if self.is_symbol("-") {
            return self.nested(|parser| {
                parser.advance()?;
                // The smallest integer has no positive counterpart.
                if parser.token == Token::Integer(1 << 63) {
                    parser.advance()?;
                    return Ok(Node::Constant(Value::Int(i64::MIN)));
                }
                let operand = parser.unary()?;
                Ok(match operand {
                    Node::Constant(Value::Int(value)) => {
                        Node::Constant(Value::Int(value.wrapping_neg()))
                    }
                    Node::Constant(Value::Double(value)) => {
                        // pgbench subtracts from 0, so zero stays positive.
                        Node::Constant(Value::Double(0.0 - value))
                    }
                    operand => {
                        let zero = Node::Constant(Value::Int(0));
                        Node::Binary(Binary::Subtract, Box::new(zero), Box::new(operand))
                    }
                })
            });
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Node> {
        let start = self.start;
        match self.token.clone() {
            Token::Integer(value) => {
                let Ok(value) = i64::try_from(value) else {
                    return Err((
                        start,
                        format!("integer constant {value} is out of range of 64 bits"),
                    ));
                };
                self.advance()?;
                Ok(Node::Constant(Value::Int(value)))
            }
            Token::Double(value) => {
                self.advance()?;
                Ok(Node::Constant(Value::Double(value)))
            }
            Token::Variable(name) => {
                self.advance()?;
                Ok(Node::Variable(self.context.symbols.slot(name)))
            }
            Token::Symbol("(") => self.nested(|parser| {
                parser.advance()?;
                let inner = parser.disjunction()?;
                parser.expect_symbol(")")?;
                Ok(inner)
            }),
            Token::Word(word) => self.word(word, start),
            Token::End => Err((start, "the expression ends where a value is expected".to_owned())),
            Token::Symbol(symbol) => Err((start, format!("expected a value, not '{symbol}'"))),
        }
    }

    fn word(&mut self, word: &'a str, start: usize) -> Result<Node> {
        self.advance()?;
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        if is("true") || is("false") {
            return Ok(Node::Constant(Value::Bool(is("true"))));
        }
        if is("null") {
            return Ok(Node::Constant(Value::Null));
        }
        if is("case") {
            return self.nested(Self::case);
        }
        if !self.is_symbol("(") {
            return Err((start, format!("'{word}' is not a value; write :{word} for a variable")));
        }
        let Some((known, least, most)) = function(word) else {
            return Err((
                start,
                format!("there is no function '{word}'; there are {FUNCTION_NAMES}"),
            ));
        };
        let mut arguments = self.nested(Self::arguments)?;
        if arguments.len() < least || arguments.len() > most {
            let wanted =
                if least == most { least.to_string() } else { format!("{least} to {most}") };
            return Err((
                start,
                format!("function {word} takes {wanted} arguments, not {}", arguments.len()),
            ));
        }
        let mut add_seed = |arguments: &mut Vec<Node>, count: usize| {
            if arguments.len() < count {
                arguments.push(Node::Variable(self.context.symbols.slot("default_seed")));
            }
        };
        match known {
            Known::Debug => Ok(Node::Debug(Box::new(arguments.remove(0)))),
            Known::Plain(function) => {
                if matches!(function, Function::HashFnv1a | Function::HashMurmur2) {
                    add_seed(&mut arguments, 2);
                }
                Ok(Node::Call(function, arguments.into()))
            }
            Known::Draw(function) => {
                if function == DrawFunction::Permute {
                    add_seed(&mut arguments, 3);
                }
                let site = self.context.call_sites.len();
                self.context.call_sites.push(CallSiteSource {
                    script: self.context.script.to_owned(),
                    line: self.context.line,
                    text: self.lexer.text.get(start..self.end).unwrap_or(word).to_owned(),
                });
                let site = CallSiteId(u32::try_from(site).unwrap_or(u32::MAX));
                Ok(Node::Draw(function, site, arguments.into()))
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Node>> {
        self.expect_symbol("(")?;
        let mut arguments = Vec::new();
        if !self.is_symbol(")") {
            loop {
                arguments.push(self.disjunction()?);
                if !self.is_symbol(",") {
                    break;
                }
                self.advance()?;
            }
        }
        self.expect_symbol(")")?;
        Ok(arguments)
    }

    fn case(&mut self) -> Result<Node> {
        let mut arms = Vec::new();
        while self.is_word("when") {
            self.advance()?;
            let condition = self.disjunction()?;
            self.expect_word("then")?;
            arms.push((condition, self.disjunction()?));
        }
        if arms.is_empty() {
            return Err((self.start, "expected WHEN behind CASE".to_owned()));
        }
        let otherwise = if self.is_word("else") {
            self.advance()?;
            self.disjunction()?
        } else {
            Node::Constant(Value::Null)
        };
        self.expect_word("end")?;
        Ok(Node::Case(arms.into(), Box::new(otherwise)))
    }
}
