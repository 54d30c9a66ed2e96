//! Compounds: lists of tokens that form a boolean expression (`MCollective::Matcher`).
//!
//! Ruby's servers evaluate every statement first and then the expression of the results, so that a statement that
//! cannot be evaluated fails the whole compound, wherever it is.

use super::data::Query;
use super::{FactTest, Name, Unusable, Verdict, slash_first, unusable};
use crate::ruby::Datum;

/// Deepest nesting of parentheses.
const MAX_DEEP: usize = 64;

/// One statement of a compound.
#[derive(Debug)]
pub(super) enum Test {
    Class(Name),
    Fact(FactTest),
    Data(Query),
    /// It raises an exception on every node.
    Never(Unusable),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    /// The statement with this index.
    Test(usize),
    And,
    Or,
    Not,
    Open,
    Close,
}

#[derive(Debug)]
pub(super) struct Compound {
    tests: Vec<Test>,
    tokens: Vec<Token>,
    /// Why it is not a list of tokens.
    broken: Option<Unusable>,
}

impl Compound {
    pub(super) fn new(list: &Datum) -> Compound {
        let mut compound = Compound {
            tests: Vec::new(),
            tokens: Vec::new(),
            broken: None,
        };
        let Datum::Array(items) = list else {
            let reason = match list.get("expr") {
                Some(_) => "a compound of go-choria (expr), which Ruby's servers do not support",
                None => "a compound that is not a list of tokens",
            };
            compound.broken = Some(Unusable(reason.to_owned()));
            return compound;
        };
        for item in items {
            if let Err(reason) = compound.token(item) {
                compound.broken = Some(reason);
            }
        }
        compound
    }

    fn token(&mut self, item: &Datum) -> Result<(), Unusable> {
        let Datum::Hash(pairs) = item else {
            return unusable("a token of a compound that is not a hash");
        };
        // Ruby's servers skip tokens with other keys.
        let Some((Datum::Str(kind), value)) = pairs.first() else {
            return Ok(());
        };
        let token = match kind.as_str() {
            "statement" => self.test(statement(value)),
            "fstatement" => self.test(Query::new(value).map(Test::Data)),
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            "(" => Token::Open,
            ")" => Token::Close,
            "expr" => return unusable("a compound of go-choria (expr)"),
            _ => return Ok(()),
        };
        self.tokens.push(token);
        Ok(())
    }

    fn test(&mut self, test: Result<Test, Unusable>) -> Token {
        self.tests.push(test.unwrap_or_else(Test::Never));
        Token::Test(self.tests.len() - 1)
    }

    pub(super) fn holds(&self, ask: &mut dyn FnMut(&Test) -> Verdict) -> Verdict {
        if let Some(reason) = &self.broken {
            return Err(reason.clone());
        }
        let mut answers = Vec::with_capacity(self.tests.len());
        for test in &self.tests {
            answers.push(ask(test)?);
        }
        // An empty compound is `nil` in Ruby.
        if self.tokens.is_empty() {
            return Ok(false);
        }
        let mut reader = Reader {
            tokens: &self.tokens,
            answers: &answers,
            at: 0,
            deep: 0,
        };
        let answer = reader.any()?;
        match reader.peek() {
            None => Ok(answer),
            Some(_) => unusable("a compound with a missing operator or an extra parenthesis"),
        }
    }
}

/// A statement about a fact or a class (`Matcher.eval_compound_statement`).
fn statement(value: &Datum) -> Result<Test, Unusable> {
    let Datum::Str(text) = value else {
        return unusable("a statement of a compound that is not text");
    };
    if slash_first(text) {
        return Ok(Test::Class(Name::new(text)));
    }
    let Some(at) = text.find(['>', '<', '=']) else {
        return Ok(Test::Class(Name::new(text)));
    };
    let operator = match text.get(at..at + 2) {
        Some(two @ (">=" | "<=")) => two,
        _ => &text[at..=at],
    };
    // The text between the first and the second operator, as in Ruby's `split`.
    let mut parts = text.split(operator);
    let name = parts.next().unwrap_or_default();
    let value = match parts.next() {
        Some("") if parts.all(str::is_empty) => None,
        value => value,
    };
    let Some(value) = value else {
        return unusable(format!("statement {text:?} compares with nothing"));
    };
    let operator = match operator {
        _ if value.starts_with('/') => "=~",
        "=" => "==",
        operator => operator,
    };
    Ok(Test::Fact(FactTest::of(name, operator, value)))
}

struct Reader<'a> {
    tokens: &'a [Token],
    answers: &'a [bool],
    at: usize,
    deep: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    fn take(&mut self, token: Token) -> bool {
        let there = self.peek() == Some(token);
        self.at += usize::from(there);
        there
    }

    fn any(&mut self) -> Verdict {
        let mut answer = self.all()?;
        while self.take(Token::Or) {
            answer |= self.all()?;
        }
        Ok(answer)
    }

    fn all(&mut self) -> Verdict {
        let mut answer = self.one()?;
        while self.take(Token::And) {
            answer &= self.one()?;
        }
        Ok(answer)
    }

    fn one(&mut self) -> Verdict {
        let mut flip = false;
        while self.take(Token::Not) {
            flip = !flip;
        }
        let answer = match self.peek() {
            Some(Token::Test(number)) => {
                self.at += 1;
                self.answers.get(number).copied().unwrap_or_default()
            }
            Some(Token::Open) => self.parentheses()?,
            _ => return unusable("a compound in which a statement is missing"),
        };
        Ok(answer != flip)
    }

    fn parentheses(&mut self) -> Verdict {
        self.at += 1;
        // Empty ones are `nil` in Ruby.
        if self.take(Token::Close) {
            return Ok(false);
        }
        self.deep += 1;
        if self.deep > MAX_DEEP {
            return unusable(format!("parentheses nest deeper than {MAX_DEEP}"));
        }
        let answer = self.any()?;
        self.deep -= 1;
        if self.take(Token::Close) {
            Ok(answer)
        } else {
            unusable("a compound in which a parenthesis is missing")
        }
    }
}
