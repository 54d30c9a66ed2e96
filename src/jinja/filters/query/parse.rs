//! Parser for JMESPath expressions.

use super::super::json::loads;
use super::{DEPTH, fail};
use crate::error::Error;
use crate::value::{CmpOp, Obj};

/// A node of the expression tree.
pub enum Node {
    Current,
    Field(String),
    Index(i64),
    Slice([Option<i64>; 3]),
    Literal(Obj),
    /// The first, then the second on its result.
    Then(Box<Node>, Box<Node>),
    /// The second on every element of the list that the first returns.
    Each(Box<Node>, Box<Node>),
    /// The second on every value of the map that the first returns.
    EachValue(Box<Node>, Box<Node>),
    /// The elements of the list that satisfy the condition, then the third expression on each.
    Filter(Box<Node>, Box<Node>, Box<Node>),
    Flatten(Box<Node>),
    Or(Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Not(Box<Node>),
    Equal(Box<Node>, Box<Node>, bool),
    Order(Box<Node>, CmpOp, Box<Node>),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    Call(String, Vec<Node>),
    /// `&expression`, an argument of a function.
    Reference(Box<Node>),
}

#[derive(Clone, Debug, PartialEq)]
enum Tok {
    Name(String),
    Quoted(String),
    Number(i64),
    Literal(String),
    Mark(&'static str),
    End,
}

const MARKS: [&str; 23] = [
    "[?", "[]", "||", "&&", "==", "!=", "<=", ">=", "<", ">", "!", "|", "&", "@", "*", "(", ")",
    "[", "]", "{", "}", ",", ":",
];

fn tokens(text: &str) -> Result<Vec<Tok>, Error> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c.is_whitespace() {
            rest = rest.trim_start();
            continue;
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let (name, more) = rest.split_at(end.unwrap_or(rest.len()));
            out.push(Tok::Name(name.to_owned()));
            rest = more;
            continue;
        }
        if c.is_ascii_digit() || c == '-' {
            let end = rest[1..]
                .find(|c: char| !c.is_ascii_digit())
                .map(|at| at + 1);
            let (number, more) = rest.split_at(end.unwrap_or(rest.len()));
            let number = number.parse().map_err(|_| bad(text, rest))?;
            out.push(Tok::Number(number));
            rest = more;
            continue;
        }
        if let '"' | '\'' | '`' = c {
            let (inner, more) = quoted(rest, c).ok_or_else(|| {
                fail(format!(
                    "Invalid jmespath expression: Unclosed {c} delimiter: {text}"
                ))
            })?;
            out.push(match c {
                '"' => match loads(&format!("\"{inner}\""))
                    .as_ref()
                    .and_then(Obj::as_str)
                {
                    Some(name) => Tok::Quoted(name.to_owned()),
                    None => return Err(bad(text, rest)),
                },
                '\'' => Tok::Literal(format!("'{}", inner.replace("\\'", "'"))),
                _ => Tok::Literal(inner.replace("\\`", "`")),
            });
            rest = more;
            continue;
        }
        if let Some(more) = rest.strip_prefix('.') {
            out.push(Tok::Mark("."));
            rest = more;
            continue;
        }
        let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
        let Some(mark) = mark else {
            return Err(bad(text, rest));
        };
        out.push(Tok::Mark(mark));
        rest = &rest[mark.len()..];
    }
    out.push(Tok::End);
    Ok(out)
}

fn bad(text: &str, rest: &str) -> Error {
    let at = text.len() - rest.len();
    fail(format!(
        "Bad jmespath expression: Unknown token {}:\n{text}\n{}^",
        rest.chars().next().unwrap_or(' '),
        " ".repeat(at)
    ))
}

/// The text between a delimiter and the next one that is not preceded by a backslash.
fn quoted(text: &str, delimiter: char) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == delimiter && !escaped {
            return Some((&text[1..at], &text[at + 1..]));
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Tok>,
    at: usize,
    depth: usize,
}

/// Parses an expression.
///
/// # Errors
/// It is not valid.
pub fn parse(text: &str) -> Result<Node, Error> {
    if text.trim().is_empty() {
        return Err(fail("Invalid JMESPath expression: cannot be empty."));
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
    };
    let node = parser.expression(0)?;
    match parser.peek() {
        Tok::End => Ok(node),
        _ => Err(parser.unexpected()),
    }
}

/// How tightly a token binds to the expression before it.
fn power(tok: &Tok) -> u32 {
    match tok {
        Tok::Mark("|") => 1,
        Tok::Mark("||") => 2,
        Tok::Mark("&&") => 3,
        Tok::Mark("==" | "!=" | "<" | "<=" | ">" | ">=") => 5,
        Tok::Mark("[]") => 9,
        Tok::Mark("*") => 20,
        Tok::Mark("[?") => 21,
        Tok::Mark(".") => 40,
        Tok::Mark("{") => 50,
        Tok::Mark("[") => 55,
        Tok::Mark("(") => 60,
        _ => 0,
    }
}

impl Parser<'_> {
    fn peek(&self) -> &Tok {
        self.tokens.get(self.at).unwrap_or(&Tok::End)
    }

    fn next(&mut self) -> Tok {
        let tok = self.peek().clone();
        self.at += 1;
        tok
    }

    fn take(&mut self, mark: &str) -> bool {
        let there = matches!(self.peek(), Tok::Mark(own) if *own == mark);
        self.at += usize::from(there);
        there
    }

    fn want(&mut self, mark: &str) -> Result<(), Error> {
        if self.take(mark) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    fn unexpected(&self) -> Error {
        let text = self.text;
        fail(match self.peek() {
            Tok::End => format!(
                "Invalid jmespath expression: Incomplete expression:\n\"{text}\"\n{}^",
                " ".repeat(text.chars().count() + 1)
            ),
            _ => format!("Invalid jmespath expression: Parse error in \"{text}\""),
        })
    }

    fn expression(&mut self, least: u32) -> Result<Node, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(Error::limit("the expression is nested too deeply"));
        }
        let mut left = self.prefix()?;
        while least < power(self.peek()) {
            left = self.infix(left)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    fn prefix(&mut self) -> Result<Node, Error> {
        let tok = self.next();
        Ok(match tok {
            Tok::Literal(text) => Node::Literal(literal(&text)),
            Tok::Name(name) => Node::Field(name),
            Tok::Quoted(name) => match self.peek() {
                Tok::Mark("(") => return Err(self.unexpected()),
                _ => Node::Field(name),
            },
            Tok::Mark("@") => Node::Current,
            Tok::Mark("*") => {
                let right = self.projection(20)?;
                Node::EachValue(Box::new(Node::Current), Box::new(right))
            }
            Tok::Mark("[?") => self.filter(Node::Current)?,
            Tok::Mark("{") => self.map()?,
            Tok::Mark("(") => {
                let inner = self.expression(0)?;
                self.want(")")?;
                inner
            }
            Tok::Mark("[]") => {
                let right = self.projection(9)?;
                Node::Each(
                    Box::new(Node::Flatten(Box::new(Node::Current))),
                    Box::new(right),
                )
            }
            Tok::Mark("!") => Node::Not(Box::new(self.expression(45)?)),
            Tok::Mark("&") => Node::Reference(Box::new(self.expression(0)?)),
            Tok::Mark("[") => self.bracket(Node::Current, true)?,
            _ => {
                self.at -= 1;
                return Err(self.unexpected());
            }
        })
    }

    fn infix(&mut self, left: Node) -> Result<Node, Error> {
        let tok = self.next();
        let binary = |parser: &mut Self| parser.expression(power(&tok)).map(Box::new);
        let left = Box::new(left);
        Ok(match &tok {
            Tok::Mark("|") => Node::Then(left, binary(self)?),
            Tok::Mark("||") => Node::Or(left, binary(self)?),
            Tok::Mark("&&") => Node::And(left, binary(self)?),
            Tok::Mark("==") => Node::Equal(left, binary(self)?, true),
            Tok::Mark("!=") => Node::Equal(left, binary(self)?, false),
            Tok::Mark("<") => Node::Order(left, CmpOp::Lt, binary(self)?),
            Tok::Mark("<=") => Node::Order(left, CmpOp::Le, binary(self)?),
            Tok::Mark(">") => Node::Order(left, CmpOp::Gt, binary(self)?),
            Tok::Mark(">=") => Node::Order(left, CmpOp::Ge, binary(self)?),
            Tok::Mark(".") => {
                if self.take("*") {
                    let right = self.projection(20)?;
                    return Ok(Node::EachValue(left, Box::new(right)));
                }
                Node::Then(left, Box::new(self.behind_dot(40)?))
            }
            Tok::Mark("[]") => {
                let right = self.projection(9)?;
                Node::Each(Box::new(Node::Flatten(left)), Box::new(right))
            }
            Tok::Mark("[?") => self.filter(*left)?,
            Tok::Mark("[") => self.bracket(*left, false)?,
            Tok::Mark("(") => match *left {
                Node::Field(name) => self.call(name)?,
                _ => return Err(self.unexpected()),
            },
            _ => {
                self.at -= 1;
                return Err(self.unexpected());
            }
        })
    }

    fn behind_dot(&mut self, least: u32) -> Result<Node, Error> {
        match self.peek() {
            Tok::Name(_) | Tok::Quoted(_) | Tok::Mark("*") => self.expression(least),
            Tok::Mark("[") => {
                self.at += 1;
                self.list()
            }
            Tok::Mark("{") => {
                self.at += 1;
                self.map()
            }
            _ => Err(self.unexpected()),
        }
    }

    /// The expression applied to every element of a projection.
    fn projection(&mut self, least: u32) -> Result<Node, Error> {
        if power(self.peek()) < 10 {
            return Ok(Node::Current);
        }
        match self.peek() {
            Tok::Mark("[" | "[?") => self.expression(least),
            Tok::Mark(".") => {
                self.at += 1;
                self.behind_dot(least)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn filter(&mut self, left: Node) -> Result<Node, Error> {
        let condition = self.expression(0)?;
        self.want("]")?;
        let right = match self.peek() {
            Tok::Mark("[]") => Node::Current,
            _ => self.projection(21)?,
        };
        Ok(Node::Filter(
            Box::new(left),
            Box::new(condition),
            Box::new(right),
        ))
    }

    /// An index, a slice, `[*]`, or, at the start of an expression, a list of expressions.
    fn bracket(&mut self, left: Node, list_allowed: bool) -> Result<Node, Error> {
        let left = Box::new(left);
        match self.peek().clone() {
            Tok::Number(_) | Tok::Mark(":") => {
                let mut parts = [None; 3];
                let mut n = 0;
                loop {
                    match self.next() {
                        Tok::Number(number) => parts[n] = Some(number),
                        Tok::Mark(":") if n < 2 => n += 1,
                        Tok::Mark("]") => break,
                        _ => {
                            self.at -= 1;
                            return Err(self.unexpected());
                        }
                    }
                }
                if n == 0 {
                    let index = Node::Index(parts[0].unwrap_or(0));
                    return Ok(Node::Then(left, Box::new(index)));
                }
                let slice = Node::Then(left, Box::new(Node::Slice(parts)));
                let right = self.projection(20)?;
                Ok(Node::Each(Box::new(slice), Box::new(right)))
            }
            Tok::Mark("*") if self.tokens.get(self.at + 1) == Some(&Tok::Mark("]")) => {
                self.at += 2;
                let right = self.projection(20)?;
                Ok(Node::Each(left, Box::new(right)))
            }
            _ if list_allowed => self.list(),
            _ => Err(self.unexpected()),
        }
    }

    fn list(&mut self) -> Result<Node, Error> {
        let mut items = Vec::new();
        loop {
            items.push(self.expression(0)?);
            if self.take("]") {
                return Ok(Node::List(items));
            }
            self.want(",")?;
        }
    }

    fn map(&mut self) -> Result<Node, Error> {
        let mut entries = Vec::new();
        loop {
            let (Tok::Name(name) | Tok::Quoted(name)) = self.next() else {
                self.at -= 1;
                return Err(self.unexpected());
            };
            self.want(":")?;
            entries.push((name, self.expression(0)?));
            if self.take("}") {
                return Ok(Node::Map(entries));
            }
            self.want(",")?;
        }
    }

    fn call(&mut self, name: String) -> Result<Node, Error> {
        let mut args = Vec::new();
        while !self.take(")") {
            args.push(self.expression(0)?);
            if !self.take(",") {
                self.want(")")?;
                break;
            }
        }
        Ok(Node::Call(name, args))
    }
}

/// A raw text or JSON. Anything that is not JSON is text, as in older versions of JMESPath.
fn literal(text: &str) -> Obj {
    if let Some(raw) = text.strip_prefix('\'') {
        return raw.into();
    }
    let json = text.trim_start();
    loads(json)
        .or_else(|| loads(&format!("\"{json}\"")))
        .unwrap_or(Obj::None)
}
