//! The lexer (`jinja2/lexer.py`): separates text from tags, and decides which white space is removed.

use super::env::EnvironmentOptions;
use super::error::Error;
use super::unescape::unescape;
use num_bigint::BigInt;
use std::fmt;
use std::rc::Rc;

/// A token and the line it starts on.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Its kind.
    pub kind: Tok,
    /// Line, from 1.
    pub line: usize,
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq)]
pub enum Tok {
    /// Text outside of tags.
    Data(Rc<str>),
    /// `{%`, or the prefix of a line statement.
    BlockBegin,
    /// `%}`, or the end of a line statement.
    BlockEnd,
    /// `{{`
    VariableBegin,
    /// `}}`
    VariableEnd,
    /// A name or a keyword.
    Name(Rc<str>),
    /// A string literal.
    Str(Rc<str>),
    /// An integer literal.
    Int(BigInt),
    /// A float literal.
    Float(f64),
    /// An operator.
    Op(&'static str),
    /// The end of the template.
    Eof,
}

impl fmt::Display for Tok {
    /// The token's name in messages (`describe_token`).
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Tok::Data(_) => "template data / text",
            Tok::BlockBegin => "begin of statement block",
            Tok::BlockEnd => "end of statement block",
            Tok::VariableBegin => "begin of print statement",
            Tok::VariableEnd => "end of print statement",
            Tok::Name(name) => name,
            Tok::Str(_) => "string",
            Tok::Int(_) => "integer",
            Tok::Float(_) => "float",
            Tok::Op(op) => op,
            Tok::Eof => "end of template",
        })
    }
}

/// Operators, longer ones first.
const OPERATORS: [&str; 26] = [
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    ">", "<", "=", ".", ":", "|", ",", ";",
];
/// Maximum length of an integer literal in digits (Python's `sys.int_info.default_max_str_digits`).
const MAX_DIGITS: usize = 4300;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    Raw,
    Comment,
    Block,
    Variable,
    LineStatement,
    LineComment,
}

/// Python's white space.
fn is_space(c: char) -> bool {
    halite_wire::pytext::is_space(c)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Lexer<'a> {
    options: &'a EnvironmentOptions,
    source: &'a str,
    name: &'a Rc<str>,
    pos: usize,
    line: usize,
    /// Whether the last match ended with a line break.
    line_starting: bool,
    rules: Vec<(Begin, &'a str)>,
    out: Vec<Token>,
}

/// Unifies line breaks, and drops the last one unless `keep_last`.
fn normalized(source: &str, keep_last: bool) -> String {
    let mut text = if source.contains('\r') {
        source.replace("\r\n", "\n").replace('\r', "\n")
    } else {
        source.to_owned()
    };
    if !keep_last && text.ends_with('\n') {
        text.pop();
    }
    text
}

/// Splits a template into tokens; the last one is [`Tok::Eof`].
///
/// # Errors
/// An unclosed comment or raw block, an unknown character, or unbalanced brackets.
pub fn tokenize(
    source: &str,
    name: &Rc<str>,
    options: &EnvironmentOptions,
) -> Result<Vec<Token>, Error> {
    let text = normalized(source, options.keep_trailing_newline);
    let mut lexer = Lexer {
        options,
        source: &text,
        name,
        pos: 0,
        line: 1,
        line_starting: true,
        rules: rules(options),
        out: Vec::new(),
    };
    lexer.root()?;
    // The end counts as being on the line of the last token.
    let line = lexer.out.last().map_or(1, |token| token.line);
    lexer.out.push(Token {
        kind: Tok::Eof,
        line,
    });
    Ok(lexer.out)
}

/// The starts of tags, in the order they are tried: longer ones first.
fn rules(options: &EnvironmentOptions) -> Vec<(Begin, &str)> {
    let mut rules = vec![
        (options.comment_start.as_str(), 0, Begin::Comment),
        (options.block_start.as_str(), 1, Begin::Block),
        (options.variable_start.as_str(), 4, Begin::Variable),
    ];
    if let Some(prefix) = &options.line_statement_prefix {
        rules.push((prefix, 3, Begin::LineStatement));
    }
    if let Some(prefix) = &options.line_comment_prefix {
        rules.push((prefix, 2, Begin::LineComment));
    }
    rules.retain(|(text, _, _)| !text.is_empty());
    rules.sort_by_key(|(text, rank, _)| std::cmp::Reverse((text.chars().count(), *rank)));
    rules.into_iter().map(|(t, _, b)| (b, t)).collect()
}

impl<'a> Lexer<'a> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::syntax(message, self.name, self.line))
    }

    fn rest(&self) -> &'a str {
        &self.source[self.pos..]
    }

    fn push(&mut self, kind: Tok) {
        let line = self.line;
        self.out.push(Token { kind, line });
    }

    /// Advances by this many bytes, counting lines.
    fn advance(&mut self, bytes: usize) {
        let text = &self.rest()[..bytes];
        self.line += text.matches('\n').count();
        if bytes > 0 {
            self.line_starting = text.ends_with('\n');
        }
        self.pos += bytes;
    }

    fn root(&mut self) -> Result<(), Error> {
        while self.pos < self.source.len() {
            let Some((at, begin, length)) = self.find_begin() else {
                let rest = self.rest();
                self.data(rest);
                self.advance(rest.len());
                return Ok(());
            };
            let text = &self.source[self.pos..at];
            let (length, sign) = match begin {
                Begin::Raw => (length, self.raw_sign(at)),
                _ => self.with_sign(at, length),
            };
            let kept = self.stripped(text, sign, begin != Begin::Variable);
            self.data(kept);
            self.line += text.matches('\n').count();
            self.pos = at;
            let begin_line = self.line;
            self.advance(length);
            match begin {
                Begin::Raw => self.raw()?,
                Begin::Comment => self.comment()?,
                Begin::LineComment => {
                    let end = self.rest().find('\n').unwrap_or(self.rest().len());
                    self.advance(end);
                }
                Begin::Block | Begin::LineStatement => {
                    self.out.push(Token {
                        kind: Tok::BlockBegin,
                        line: begin_line,
                    });
                    self.tag(begin)?;
                }
                Begin::Variable => {
                    self.out.push(Token {
                        kind: Tok::VariableBegin,
                        line: begin_line,
                    });
                    self.tag(begin)?;
                }
            }
        }
        Ok(())
    }

    /// The next start of a tag: position, kind, length.
    fn find_begin(&self) -> Option<(usize, Begin, usize)> {
        let by_line = self.options.line_statement_prefix.is_some()
            || self.options.line_comment_prefix.is_some();
        let firsts: Vec<u8> = self
            .rules
            .iter()
            .filter_map(|(_, t)| t.bytes().next())
            .collect();
        let bytes = self.source.as_bytes();
        (self.pos..bytes.len()).find_map(|at| {
            if !self.source.is_char_boundary(at) || !by_line && !firsts.contains(&bytes[at]) {
                return None;
            }
            self.begin_at(at).map(|(begin, length)| (at, begin, length))
        })
    }

    fn begin_at(&self, at: usize) -> Option<(Begin, usize)> {
        let text = &self.source[at..];
        if let Some(length) = self.raw_begin(text) {
            return Some((Begin::Raw, length));
        }
        self.rules.iter().find_map(|(begin, start)| match begin {
            Begin::LineStatement => {
                if at > 0 && self.source.as_bytes()[at - 1] != b'\n' {
                    return None;
                }
                let blank = text.len() - text.trim_start_matches([' ', '\t', '\x0b']).len();
                text[blank..]
                    .starts_with(start)
                    .then_some((*begin, blank + start.len()))
            }
            Begin::LineComment => {
                let before = self.source[..at].chars().next_back();
                if before.is_some_and(|c| c != '\n' && is_space(c)) {
                    return None;
                }
                let blank = text.len()
                    - text
                        .trim_start_matches(|c| is_space(c) && c != '\n' && c != '\r')
                        .len();
                text[blank..]
                    .starts_with(start)
                    .then_some((*begin, blank + start.len()))
            }
            _ => text.starts_with(start).then_some((*begin, start.len())),
        })
    }

    /// The length of `{% raw %}`, if the text starts with it.
    fn raw_begin(&self, text: &str) -> Option<usize> {
        let rest = text.strip_prefix(self.options.block_start.as_str())?;
        let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
        let rest = rest.trim_start_matches(is_space).strip_prefix("raw")?;
        let rest = rest.trim_start_matches(is_space);
        let end = self.options.block_end.as_str();
        let rest = match rest.strip_prefix('-').and_then(|r| r.strip_prefix(end)) {
            Some(rest) => rest.trim_start_matches(is_space),
            None => rest.strip_prefix(end)?,
        };
        Some(text.len() - rest.len())
    }

    fn raw_sign(&self, at: usize) -> Option<char> {
        self.with_sign(at, self.options.block_start.len()).1
    }

    /// The length of a tag start including the sign after it, and that sign.
    fn with_sign(&self, at: usize, length: usize) -> (usize, Option<char>) {
        match self.source.as_bytes().get(at + length) {
            Some(b'-') => (length + 1, Some('-')),
            Some(b'+') => (length + 1, Some('+')),
            _ => (length, None),
        }
    }

    /// The text before a tag, with white space stripped as the tag demands.
    fn stripped<'t>(&self, text: &'t str, sign: Option<char>, is_block: bool) -> &'t str {
        match sign {
            Some('-') => text.trim_end_matches(is_space),
            None if self.options.lstrip_blocks && is_block => {
                let line = text.rfind('\n').map_or(0, |at| at + 1);
                let blank = text[line..].chars().all(is_space);
                if blank && (line > 0 || self.line_starting) {
                    &text[..line]
                } else {
                    text
                }
            }
            _ => text,
        }
    }

    fn data(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let newline = self.options.newline_sequence.as_str();
        let text = match newline {
            "\n" => Rc::from(text),
            _ => Rc::from(text.replace('\n', newline)),
        };
        self.push(Tok::Data(text));
    }

    /// The end of a tag at the start of `text`: its length including the white space it removes.
    fn end_length(&self, text: &str, end: &str, plus: bool) -> Option<usize> {
        if plus && let Some(rest) = text.strip_prefix('+').and_then(|r| r.strip_prefix(end)) {
            return Some(text.len() - rest.len());
        }
        if let Some(rest) = text.strip_prefix('-').and_then(|r| r.strip_prefix(end)) {
            return Some(text.len() - rest.trim_start_matches(is_space).len());
        }
        let rest = text.strip_prefix(end)?;
        // Only blocks and comments accept a plus, and only they are trimmed.
        let rest = match rest.strip_prefix('\n') {
            Some(after) if plus && self.options.trim_blocks => after,
            _ => rest,
        };
        Some(text.len() - rest.len())
    }

    fn comment(&mut self) -> Result<(), Error> {
        let text = self.rest();
        let end = self.options.comment_end.as_str();
        let found = text
            .char_indices()
            .find_map(|(at, _)| self.end_length(&text[at..], end, true).map(|n| at + n));
        match found {
            Some(length) => {
                self.advance(length);
                Ok(())
            }
            // If nothing is left, there is no character to report.
            None if text.is_empty() => Ok(()),
            None => self.fail("Missing end of comment tag"),
        }
    }

    fn raw(&mut self) -> Result<(), Error> {
        let text = self.rest();
        let start = self.options.block_start.as_str();
        let end = self.options.block_end.as_str();
        let found = text.match_indices(start).find_map(|(at, _)| {
            let rest = &text[at + start.len()..];
            let sign = rest.chars().next().filter(|c| matches!(c, '-' | '+'));
            let rest = rest.strip_prefix(['-', '+']).unwrap_or(rest);
            let rest = rest.trim_start_matches(is_space).strip_prefix("endraw")?;
            let rest = rest.trim_start_matches(is_space);
            let length = self.end_length(rest, end, true)?;
            Some((at, sign, text.len() - rest.len() + length))
        });
        let Some((at, sign, length)) = found else {
            if text.is_empty() {
                return Ok(());
            }
            return self.fail("Missing end of raw directive");
        };
        let kept = self.stripped(&text[..at], sign, true);
        self.data(kept);
        self.advance(length);
        Ok(())
    }

    /// The inside of a tag, up to and including its end.
    fn tag(&mut self, begin: Begin) -> Result<(), Error> {
        let mut open: Vec<&'static str> = Vec::new();
        loop {
            let text = self.rest();
            if open.is_empty()
                && let Some(length) = self.tag_end(begin, text)
            {
                self.push(match begin {
                    Begin::Variable => Tok::VariableEnd,
                    _ => Tok::BlockEnd,
                });
                self.advance(length);
                return Ok(());
            }
            let Some(first) = text.chars().next() else {
                return Ok(());
            };
            if is_space(first) {
                let length = text.len() - text.trim_start_matches(is_space).len();
                self.advance(length);
            } else if first.is_ascii_digit() {
                self.number(text)?;
            } else if is_word(first) {
                self.name(text)?;
            } else if let Some(length) = string_length(text) {
                self.string(&text[1..length - 1])?;
                self.advance(length);
            } else {
                self.operator(text, first, &mut open)?;
            }
        }
    }

    fn tag_end(&self, begin: Begin, text: &str) -> Option<usize> {
        match begin {
            Begin::Variable => self.end_length(text, &self.options.variable_end, false),
            Begin::LineStatement => {
                let blank = text.len() - text.trim_start_matches(is_space).len();
                if blank == text.len() {
                    return Some(blank);
                }
                text[..blank].rfind('\n').map(|at| at + 1)
            }
            _ => self.end_length(text, &self.options.block_end, true),
        }
    }

    fn name(&mut self, text: &str) -> Result<(), Error> {
        let length = text.len() - text.trim_start_matches(is_word).len();
        let name = &text[..length];
        if name.chars().next().is_some_and(char::is_numeric) {
            return self.fail("Invalid character in identifier");
        }
        self.push(Tok::Name(Rc::from(name)));
        self.advance(length);
        Ok(())
    }

    fn string(&mut self, inside: &str) -> Result<(), Error> {
        let newline = self.options.newline_sequence.as_str();
        match unescape(&inside.replace('\n', newline)) {
            Ok(text) => self.push(Tok::Str(text.into())),
            Err(why) => return self.fail(why),
        }
        Ok(())
    }

    fn number(&mut self, text: &str) -> Result<(), Error> {
        let after_dot = self.source[..self.pos].ends_with('.');
        if !after_dot && let Some(length) = float_length(text) {
            let digits = text[..length].replace('_', "");
            let Ok(value) = digits.parse() else {
                return self.fail(format!("invalid float literal {digits}"));
            };
            self.push(Tok::Float(value));
            self.advance(length);
            return Ok(());
        }
        let (length, base) = integer_length(text);
        let digits = text[if base == 10 { 0 } else { 2 }..length].replace('_', "");
        if digits.len() > MAX_DIGITS {
            return self.fail("the integer literal has too many digits");
        }
        let Some(value) = BigInt::parse_bytes(digits.as_bytes(), base) else {
            return self.fail(format!("invalid integer literal {digits}"));
        };
        self.push(Tok::Int(value));
        self.advance(length);
        Ok(())
    }

    fn operator(
        &mut self,
        text: &str,
        first: char,
        open: &mut Vec<&'static str>,
    ) -> Result<(), Error> {
        let Some(op) = OPERATORS.iter().find(|op| text.starts_with(**op)) else {
            let at = self.source[..self.pos].chars().count();
            let shown = super::value::quote(first.encode_utf8(&mut [0; 4]));
            return self.fail(format!("unexpected char {shown} at {at}"));
        };
        match *op {
            "{" => open.push("}"),
            "(" => open.push(")"),
            "[" => open.push("]"),
            "}" | ")" | "]" => match open.pop() {
                None => return self.fail(format!("unexpected '{op}'")),
                Some(expected) if expected != *op => {
                    return self.fail(format!("unexpected '{op}', expected '{expected}'"));
                }
                Some(_) => {}
            },
            _ => {}
        }
        self.push(Tok::Op(op));
        self.advance(op.len());
        Ok(())
    }
}

/// The length of a string literal including its quotes.
fn string_length(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The length of a run of digits with single underscores between them.
fn digits_length(text: &str, is_digit: fn(&u8) -> bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_digit(&bytes[at]) {
            at += 1;
        } else if bytes[at] == b'_' && at > 0 && bytes.get(at + 1).is_some_and(is_digit) {
            at += 2;
        } else {
            break;
        }
    }
    at
}

fn float_length(text: &str) -> Option<usize> {
    let whole = digits_length(text, u8::is_ascii_digit);
    let fraction = match text[whole..].strip_prefix('.') {
        Some(rest) => match digits_length(rest, u8::is_ascii_digit) {
            0 => 0,
            n => n + 1,
        },
        None => 0,
    };
    let mantissa = whole + fraction;
    let exponent = text[mantissa..].strip_prefix(['e', 'E']).and_then(|rest| {
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        let sign = rest.len() - digits.len();
        match digits_length(digits, u8::is_ascii_digit) {
            0 => None,
            n => Some(1 + sign + n),
        }
    });
    match exponent {
        Some(exponent) => Some(mantissa + exponent),
        None => (fraction > 0).then_some(mantissa),
    }
}

/// The length of an integer literal, and its base.
fn integer_length(text: &str) -> (usize, u32) {
    let based = |digit: fn(&u8) -> bool| {
        let rest = &text[2..];
        // The prefix may be followed by an underscore.
        let skip = usize::from(rest.starts_with('_'));
        match digits_length(&rest[skip..], digit) {
            0 => 0,
            n => 2 + skip + n,
        }
    };
    let (length, base) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0b") => (based(|b| matches!(b, b'0' | b'1')), 2),
        Some("0o") => (based(|b| matches!(b, b'0'..=b'7')), 8),
        Some("0x") => (based(u8::is_ascii_hexdigit), 16),
        _ => (0, 10),
    };
    if length > 0 {
        return (length, base);
    }
    if text.starts_with('0') {
        return (digits_length(text, |b| *b == b'0'), 10);
    }
    (digits_length(text, u8::is_ascii_digit), 10)
}
