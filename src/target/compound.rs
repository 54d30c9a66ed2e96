//! Compound expressions: words, operators, precedence.
//!
//! `not` binds tighter than `and`, `and` tighter than `or`; `a not b` means `a and not b`. In Salt, master and minion
//! check the words one by one and let Python evaluate the result. Here both share one grammar, which accepts whatever
//! both of them accept.

use super::MAX_DEPTH;
use super::error::TargetError;

/// A boolean expression over tests.
#[derive(Debug)]
pub enum Node<T> {
    /// One test.
    Test(T),
    /// The negation.
    Not(Box<Node<T>>),
    /// All of them must hold.
    All(Vec<Node<T>>),
    /// At least one of them must hold.
    Any(Vec<Node<T>>),
}

/// An operand split as in `salt/utils/minions.py parse_target`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operand<'a> {
    /// The letter before the `@`; `None` for a plain glob.
    pub engine: Option<char>,
    /// The character between the letter and the `@`, if there is one.
    pub delimiter: Option<char>,
    /// The rest.
    pub pattern: &'a str,
}

/// Whether a word is an operator.
pub fn is_operator(word: &str) -> bool {
    matches!(word, "and" | "or" | "not" | "(" | ")")
}

/// Splits an operand. Anything not of the form `<letter>[delimiter]@<pattern>` is a glob as a whole.
pub fn operand(word: &str) -> Operand<'_> {
    let plain = Operand {
        engine: None,
        delimiter: None,
        pattern: word,
    };
    let mut rest = word.chars();
    let Some(engine) = rest.next().filter(|c| "GPIJLNSERTM".contains(*c)) else {
        return plain;
    };
    let after = rest.as_str();
    let mut rest = after.chars();
    let delimiter = rest.next().filter(|_| "GPIJ".contains(engine));
    // Try the longer reading first: in `G@@x` the delimiter is an `@`.
    if let Some(pattern) = rest.as_str().strip_prefix('@')
        && delimiter.is_some()
        && !pattern.is_empty()
    {
        return Operand {
            engine: Some(engine),
            delimiter,
            pattern,
        };
    }
    match after.strip_prefix('@') {
        Some(pattern) if !pattern.is_empty() => Operand {
            engine: Some(engine),
            delimiter: None,
            pattern,
        },
        _ => plain,
    }
}

impl<T> Node<T> {
    /// Calls `each` for every test.
    pub fn each(&mut self, each: &mut impl FnMut(&mut T)) {
        match self {
            Node::Test(own) => each(own),
            Node::Not(node) => node.each(each),
            Node::All(nodes) | Node::Any(nodes) => {
                nodes.iter_mut().for_each(|node| node.each(each));
            }
        }
    }

    /// Whether the expression holds. Evaluates tests from left to right, and no more than needed.
    ///
    /// # Errors
    /// That of a test: without its result, nothing is known, least of all under a `not`.
    pub fn holds<'n, E>(
        &'n self,
        test: &mut impl FnMut(&'n T) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let (nodes, decisive) = match self {
            Node::Test(own) => return test(own),
            Node::Not(node) => return node.holds(test).map(|holds| !holds),
            Node::All(nodes) => (nodes, false),
            Node::Any(nodes) => (nodes, true),
        };
        for node in nodes {
            if node.holds(test)? == decisive {
                return Ok(decisive);
            }
        }
        Ok(!decisive)
    }
}

/// Parses the words of an expression. `make` turns an operand into a test; its second argument says whether a `not`
/// directly precedes it.
pub fn parse<T, F>(words: &[String], make: F) -> Result<Node<T>, TargetError>
where
    F: FnMut(&str, bool) -> Result<T, TargetError>,
{
    let mut parser = Parser {
        words,
        at: 0,
        depth: 0,
        make,
    };
    let node = parser.any()?;
    match parser.peek() {
        None => Ok(node),
        Some(")") => Err(parser.fail("')' without '('")),
        Some(_) => Err(parser.fail("an operator is missing")),
    }
}

struct Parser<'a, F> {
    words: &'a [String],
    at: usize,
    depth: usize,
    make: F,
}

impl<F> Parser<'_, F> {
    fn peek(&self) -> Option<&str> {
        self.words.get(self.at).map(String::as_str)
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.at += usize::from(there);
        there
    }

    fn fail(&self, reason: &'static str) -> TargetError {
        TargetError::Compound {
            word: self.peek().unwrap_or_default().to_owned(),
            reason,
        }
    }

    fn any<T>(&mut self) -> Result<Node<T>, TargetError>
    where
        F: FnMut(&str, bool) -> Result<T, TargetError>,
    {
        let mut nodes = vec![self.all()?];
        while self.take("or") {
            nodes.push(self.all()?);
        }
        Ok(single(nodes, Node::Any))
    }

    fn all<T>(&mut self) -> Result<Node<T>, TargetError>
    where
        F: FnMut(&str, bool) -> Result<T, TargetError>,
    {
        let mut nodes = vec![self.one()?];
        while self.take("and") || self.peek() == Some("not") {
            nodes.push(self.one()?);
        }
        Ok(single(nodes, Node::All))
    }

    fn one<T>(&mut self) -> Result<Node<T>, TargetError>
    where
        F: FnMut(&str, bool) -> Result<T, TargetError>,
    {
        if self.take("not") {
            return Ok(Node::Not(Box::new(self.atom(true)?)));
        }
        self.atom(false)
    }

    fn atom<T>(&mut self, negated: bool) -> Result<Node<T>, TargetError>
    where
        F: FnMut(&str, bool) -> Result<T, TargetError>,
    {
        if self.take("(") {
            return self.parentheses();
        }
        let Some(word) = self.words.get(self.at).filter(|word| !is_operator(word)) else {
            return Err(self.fail("a target is missing"));
        };
        self.at += 1;
        (self.make)(word, negated).map(Node::Test)
    }

    fn parentheses<T>(&mut self) -> Result<Node<T>, TargetError>
    where
        F: FnMut(&str, bool) -> Result<T, TargetError>,
    {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TargetError::TooMany {
                what: "levels of parentheses",
                limit: MAX_DEPTH,
            });
        }
        let node = self.any()?;
        self.depth -= 1;
        if self.take(")") {
            return Ok(node);
        }
        Err(match self.peek() {
            None => self.fail("')' is missing"),
            Some(_) => self.fail("an operator is missing"),
        })
    }
}

fn single<T>(mut nodes: Vec<Node<T>>, many: fn(Vec<Node<T>>) -> Node<T>) -> Node<T> {
    match nodes.pop() {
        Some(node) if nodes.is_empty() => node,
        Some(node) => {
            nodes.push(node);
            many(nodes)
        }
        None => many(nodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn eval(text: &str) -> Option<bool> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let node = parse(&words, |word, _| Ok(word == "t")).ok()?;
        node.holds(&mut |value: &bool| Ok::<bool, ()>(*value)).ok()
    }

    #[test]
    fn precedence() {
        for (text, expected) in [
            ("t", true),
            ("not t", false),
            ("t or f and f", true),
            ("( t or f ) and f", false),
            ("not f and f", false),
            ("not ( f and f )", true),
            ("t not f", true),
            ("f or t not t", false),
            ("( ( ( t ) ) )", true),
        ] {
            assert_eq!(eval(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn nonsense() {
        for text in [
            "",
            "and",
            "or t",
            "t and",
            "t t",
            "( t",
            "t )",
            "( )",
            "not",
            "not not t",
            "( and t )",
            "t and and t",
            "t ( t )",
            "t or ( )",
        ] {
            assert_eq!(eval(text), None, "{text}");
        }
        let deep = "( ".repeat(5000) + "t" + &" )".repeat(5000);
        assert_eq!(eval(&deep), None);
    }

    #[test]
    fn operands() {
        let case = |engine, delimiter, pattern| Operand {
            engine,
            delimiter,
            pattern,
        };
        assert_eq!(operand("web*"), case(None, None, "web*"));
        assert_eq!(operand("G@os:x"), case(Some('G'), None, "os:x"));
        assert_eq!(operand("G|@os|x"), case(Some('G'), Some('|'), "os|x"));
        assert_eq!(operand("G@@x"), case(Some('G'), Some('@'), "x"));
        assert_eq!(operand("G@@"), case(Some('G'), None, "@"));
        assert_eq!(operand("G@"), case(None, None, "G@"));
        assert_eq!(operand("L|@x"), case(None, None, "L|@x"));
        assert_eq!(operand("L@@x"), case(Some('L'), None, "@x"));
        assert_eq!(operand("X@x"), case(None, None, "X@x"));
        assert_eq!(operand("Gü@a"), case(Some('G'), Some('ü'), "a"));
    }

    proptest! {
        #[test]
        fn any_words(text in "(and |or |not |\\( |\\) |t |f ){0,20}") {
            eval(&text);
        }

        #[test]
        fn any_word(word in ".*") {
            operand(&word);
        }
    }
}
