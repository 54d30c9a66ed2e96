//! The parser (`jinja2/parser.py`): the token stream and error messages.

mod expr;
mod stmt;
mod templates;

use super::ast::{Block, Expr, ExprKind, Template};
use super::env::EnvironmentOptions;
use super::error::Error;
use super::lexer::{Tok, Token, tokenize};
use super::stack;
use super::value::quote;
use std::rc::Rc;

/// Maximum stack use of parsing, in bytes.
const STACK: usize = 768 << 10;
/// Maximum nesting of expressions.
const DEPTH: usize = 300;

/// How often special names have been used so far.
#[derive(Clone, Copy, Default)]
struct Seen {
    varargs: usize,
    kwargs: usize,
    caller: usize,
    looped: usize,
    selfed: usize,
    supered: usize,
}

struct Parser {
    name: Rc<str>,
    tokens: Vec<Token>,
    pos: usize,
    seen: Seen,
    /// Number of assignments to `loop` so far.
    loop_stores: usize,
    blocks: Vec<Rc<Block>>,
    /// Names of the open tags.
    tags: Vec<Rc<str>>,
    /// Names that end the open bodies.
    ends: Vec<&'static [&'static str]>,
    /// Whether an unknown filter is an error only when it is reached.
    soft: bool,
    /// Open scopes that are not the top level, and open loops.
    inner: usize,
    loops: usize,
    stack: usize,
}

/// Parses a template; with `anonymous`, messages do not name it.
///
/// # Errors
/// The first syntax error, with its line.
pub fn parse(
    source: &str,
    name: &Rc<str>,
    anonymous: bool,
    options: &EnvironmentOptions,
) -> Result<Template, Error> {
    let tokens = tokenize(source, name, options)?;
    let mut parser = Parser {
        name: name.clone(),
        tokens,
        pos: 0,
        seen: Seen::default(),
        loop_stores: 0,
        blocks: Vec::new(),
        tags: Vec::new(),
        ends: Vec::new(),
        soft: false,
        inner: 0,
        loops: 0,
        stack: stack::pointer(),
    };
    let body = parser.subparse(None)?;
    Ok(Template {
        name: name.clone(),
        anonymous,
        source: Rc::from(source),
        body,
        uses_self: parser.seen.selfed > 0,
        blocks: parser.blocks,
    })
}

impl Parser {
    fn current(&self) -> &Tok {
        &self.tokens[self.pos].kind
    }

    fn line(&self) -> usize {
        self.tokens[self.pos].line
    }

    fn peek(&self) -> &Tok {
        let next = (self.pos + 1).min(self.tokens.len() - 1);
        &self.tokens[next].kind
    }

    /// Advances by one token and returns the line of the previous one.
    fn next(&mut self) -> usize {
        let line = self.line();
        if self.pos + 1 < self.tokens.len() {
            self.pos += 1;
        }
        line
    }

    fn is_op(&self, op: &str) -> bool {
        matches!(self.current(), Tok::Op(o) if *o == op)
    }

    fn is_name(&self, name: &str) -> bool {
        matches!(self.current(), Tok::Name(n) if n.as_ref() == name)
    }

    fn peek_is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Tok::Name(n) if n.as_ref() == name)
    }

    fn skip_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        if found {
            self.next();
        }
        found
    }

    fn skip_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        if found {
            self.next();
        }
        found
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        self.fail_at(message, self.line())
    }

    fn fail_at<T>(&self, message: impl Into<String>, line: usize) -> Result<T, Error> {
        Err(Error::syntax(message, &self.name, line))
    }

    fn unexpected<T>(&self, expected: &str) -> Result<T, Error> {
        let expected = quote(expected);
        if *self.current() == Tok::Eof {
            return self.fail(format!("unexpected end of template, expected {expected}."));
        }
        let got = quote(&self.current().to_string());
        self.fail(format!("expected token {expected}, got {got}"))
    }

    fn expect_op(&mut self, op: &str) -> Result<usize, Error> {
        if self.is_op(op) {
            return Ok(self.next());
        }
        self.unexpected(op)
    }

    fn expect_name(&mut self, name: &str) -> Result<usize, Error> {
        if self.is_name(name) {
            return Ok(self.next());
        }
        self.unexpected(name)
    }

    fn expect_any_name(&mut self) -> Result<Rc<str>, Error> {
        if let Tok::Name(name) = self.current() {
            let name = name.clone();
            self.next();
            return Ok(name);
        }
        self.unexpected("name")
    }

    fn expect_tok(&mut self, tok: &Tok) -> Result<(), Error> {
        if self.current() == tok {
            self.next();
            return Ok(());
        }
        self.unexpected(&tok.to_string())
    }

    fn check_stack(&self) -> Result<(), Error> {
        if stack::exceeded(self.stack, STACK) {
            return self.fail("the template is nested too deeply");
        }
        Ok(())
    }

    /// An expression that contains others.
    fn expr(&self, kind: ExprKind, line: usize, depth: usize) -> Result<Expr, Error> {
        if depth >= DEPTH {
            return self.fail_at("the expression is nested too deeply", line);
        }
        Ok(Expr {
            kind,
            line,
            depth: depth + 1,
        })
    }

    /// The error for a body without its end, or for an unknown tag.
    fn fail_open<T>(&self, tag: Option<&str>, line: usize) -> Result<T, Error> {
        let mut message = match tag {
            None => "Unexpected end of template.".to_owned(),
            Some(tag) => format!("Encountered unknown tag {}.", quote(tag)),
        };
        if let Some(ends) = self.ends.last() {
            let looking: Vec<String> = ends.iter().map(|end| quote(end)).collect();
            let looking = looking.join(" or ");
            let expected = tag.is_some_and(|tag| self.ends.iter().any(|e| e.contains(&tag)));
            message += &if expected {
                format!(
                    " You probably made a nesting mistake. Jinja is expecting this tag, but \
                     currently looking for {looking}."
                )
            } else {
                format!(" Jinja was looking for the following tags: {looking}.")
            };
        }
        if let Some(tag) = self.tags.last() {
            message += &format!(
                " The innermost block that needs to be closed is {}.",
                quote(tag)
            );
        }
        self.fail_at(message, line)
    }
}
