//! Ruby's regular expressions (Onigmo, Ruby 3.1) on Rust's engines.
//!
//! A pattern is translated token by token, since the syntaxes differ: in Ruby `^` and `$` match at
//! every line, `(?m)` lets a dot match line ends, `\w`, `\d` and `\s` are ASCII, `{` may be a plain character, and `(?i)` within
//! a pattern groups the alternatives after it. What Ruby refuses is refused, and so is what neither engine supports
//! (recursion, absence, `\K`, `\X`). The result runs on `regex`, in linear time, or on `fancy-regex` with a backtracking
//! limit.

mod class;
mod escapes;

use std::iter::Peekable;

/// Longest pattern, in bytes. One entry of a filter may name some thousands of nodes.
pub const MAX_REGEX: usize = 64 * 1024;
/// Largest compiled program, in bytes; fits the longest pattern without repetitions.
const SIZE_LIMIT: usize = 4 * 1024 * 1024;
/// Largest cache of the lazy DFA, in bytes.
const DFA_LIMIT: usize = 2 * 1024 * 1024;
/// Most backtracking steps of one match before it fails.
const BACKTRACK_LIMIT: usize = 100_000;
/// Deepest nesting of groups and of classes.
const MAX_DEEP: usize = 50;

/// Ruby's option bit that ignores case.
pub const IGNORE_CASE: u8 = 1;
/// Ruby's option bit that skips white space and comments.
pub const EXTENDED: u8 = 2;
/// Ruby's option bit that lets a dot match line ends.
pub const DOT_ALL: u8 = 4;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct RubyRegex(Engine);

#[derive(Clone, Debug)]
enum Engine {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

impl RubyRegex {
    /// Compiles the pattern between the slashes, with Ruby's option bits.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn new(pattern: &str, options: u8) -> Result<RubyRegex, String> {
        if pattern.len() > MAX_REGEX {
            return Err(format!("the pattern is longer than {MAX_REGEX} bytes"));
        }
        let (pattern, needs_backtracking) = translate(pattern, options)?;
        let last_line =
            |message: String| message.lines().last().unwrap_or_default().trim().to_owned();
        if needs_backtracking {
            return fancy_regex::RegexBuilder::new(&pattern)
                .backtrack_limit(BACKTRACK_LIMIT)
                .delegate_size_limit(SIZE_LIMIT)
                .delegate_dfa_size_limit(DFA_LIMIT)
                .build()
                .map(|regex| RubyRegex(Engine::Backtracking(Box::new(regex))))
                .map_err(|error| last_line(error.to_string()));
        }
        regex::RegexBuilder::new(&pattern)
            .size_limit(SIZE_LIMIT)
            .dfa_size_limit(DFA_LIMIT)
            .build()
            .map(|regex| RubyRegex(Engine::Linear(regex)))
            .map_err(|error| last_line(error.to_string()))
    }

    /// Whether the pattern matches somewhere in the text.
    ///
    /// # Errors
    /// The backtracking limit is exceeded; Ruby would continue for hours.
    pub fn is_match(&self, text: &str) -> Result<bool, String> {
        match &self.0 {
            Engine::Linear(regex) => Ok(regex.is_match(text)),
            Engine::Backtracking(regex) => regex.is_match(text).map_err(|e| e.to_string()),
        }
    }
}

/// What precedes a quantifier.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    /// An item that starts at this byte of the result.
    Item(usize),
    /// The same with a quantifier on it.
    Repeated(usize),
}

struct Group {
    start: usize,
    extended: bool,
    /// Groups opened by options within it, which end with it.
    inner: usize,
}

struct Translator<'p> {
    rest: Peekable<std::str::Chars<'p>>,
    out: String,
    before: Before,
    extended: bool,
    needs_backtracking: bool,
    open: Vec<Group>,
    /// Groups opened by options outside of any group.
    inner: usize,
    /// Numbered groups in the whole pattern, as far as that shows before it is read; they do not capture if there are named ones.
    groups: usize,
    named: bool,
    /// Numbered groups that were read.
    captures: usize,
    /// The largest number of a group that the pattern refers to.
    referenced: usize,
}

const NO_SUCH_GROUP: &str = "invalid backref number/name";

type Translated<T = ()> = Result<T, String>;

fn fail<T>(reason: impl Into<String>) -> Translated<T> {
    Err(reason.into())
}

fn translate(pattern: &str, options: u8) -> Translated<(String, bool)> {
    let mut t = Translator {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len() + 16),
        before: Before::Nothing,
        extended: options & EXTENDED != 0,
        needs_backtracking: false,
        open: Vec::new(),
        inner: 0,
        groups: 0,
        named: false,
        captures: 0,
        referenced: 0,
    };
    t.count_groups();
    t.out.push_str("(?m");
    if options & IGNORE_CASE != 0 {
        t.out.push('i');
    }
    if options & DOT_ALL != 0 {
        t.out.push('s');
    }
    t.out.push(')');
    while let Some(c) = t.rest.next() {
        t.token(c)?;
    }
    if !t.open.is_empty() {
        return fail("end pattern with unmatched parenthesis");
    }
    // A comment may have looked like a group. fancy-regex would read outside of what it has saved.
    if t.referenced > t.captures {
        return fail(NO_SUCH_GROUP);
    }
    t.out.push_str(&")".repeat(t.inner));
    Ok((t.out, t.needs_backtracking))
}

impl Translator<'_> {
    /// Counts the groups in advance, since references may precede them.
    fn count_groups(&mut self) {
        let chars: Vec<char> = self.rest.clone().collect();
        let (mut at, mut classes) = (0, 0_usize);
        while let Some(c) = chars.get(at) {
            let after = |n: usize| chars.get(at + n).copied();
            match c {
                '\\' => at += 1,
                '[' => classes += 1,
                ']' => classes = classes.saturating_sub(1),
                // The condition of `(?(1)a|b)`.
                '(' if classes == 0 && after(1) == Some('?') && after(2) == Some('(') => at += 2,
                '(' if classes == 0 && after(1) != Some('?') => self.groups += 1,
                '(' if classes == 0
                    && (after(2) == Some('\'')
                        || after(2) == Some('<') && !matches!(after(3), Some('=' | '!'))) =>
                {
                    self.named = true;
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn take(&mut self, c: char) -> bool {
        self.rest.next_if_eq(&c).is_some()
    }

    fn until(&mut self, mark: char) -> Translated<String> {
        let mut text = String::new();
        for c in self.rest.by_ref() {
            if c == mark {
                return Ok(text);
            }
            text.push(c);
        }
        fail("end pattern in group")
    }

    fn item(&mut self, text: &str) {
        self.before = Before::Item(self.out.len());
        self.out.push_str(text);
    }

    fn literal(&mut self, c: char) {
        self.item(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    fn token(&mut self, c: char) -> Translated {
        match c {
            c if self.extended && c.is_ascii_whitespace() => {}
            '#' if self.extended => while self.rest.next().is_some_and(|c| c != '\n') {},
            '\\' => self.escape()?,
            '[' => {
                let class = class::read(&mut self.rest, 0)?;
                self.item(&class);
            }
            '(' => self.group()?,
            ')' => self.close()?,
            '|' => {
                self.out.push('|');
                self.before = Before::Nothing;
            }
            '^' | '$' | '.' => self.item(c.encode_utf8(&mut [0; 4])),
            '*' | '+' | '?' => self.quantifier(&c.to_string(), false)?,
            '{' => self.braces()?,
            c => self.literal(c),
        }
        Ok(())
    }

    fn quantifier(&mut self, text: &str, counted: bool) -> Translated {
        let start = match self.before {
            Before::Nothing => return fail("target of repeat operator is not specified"),
            Before::Item(start) => start,
            Before::Repeated(start) => {
                self.out.insert_str(start, "(?:");
                self.out.push(')');
                start
            }
        };
        self.out.push_str(text);
        self.before = Before::Repeated(start);
        // After `{n}` a question mark or a plus is a separate quantifier, after `{n,m}` a plus.
        if counted {
            return Ok(());
        }
        if self.take('?') {
            self.out.push('?');
        } else if !text.starts_with('{') && self.take('+') {
            self.out.push('+');
            self.needs_backtracking = true;
        }
        Ok(())
    }

    /// `{n}`, `{n,}`, `{,m}`, `{n,m}`; anything else is an ordinary brace.
    fn braces(&mut self) -> Translated {
        let mut ahead = self.rest.clone();
        let mut inside = String::new();
        while let Some(c) = ahead.next_if(|c| c.is_ascii_digit() || *c == ',') {
            inside.push(c);
            if inside.len() > 16 {
                break;
            }
        }
        let (low, high) = inside.split_once(',').unwrap_or((&inside, &inside));
        if ahead.next() != Some('}') || high.contains(',') || low.is_empty() && high.is_empty() {
            self.literal('{');
            return Ok(());
        }
        self.rest = ahead;
        let number = |text: &str| match text.parse::<u32>() {
            Ok(number) if number <= 100_000 => Ok(number),
            _ => Err("too big number for repeat range".to_owned()),
        };
        let low = if low.is_empty() { 0 } else { number(low)? };
        if high.is_empty() {
            return self.quantifier(&format!("{{{low},}}"), false);
        }
        let high = number(high)?;
        if high < low {
            return fail("upper is smaller than lower in repeat range");
        }
        self.quantifier(&format!("{{{low},{high}}}"), !inside.contains(','))
    }

    fn open(&mut self, text: &str) -> Translated {
        if self.open.len() >= MAX_DEEP {
            return fail(format!("groups nest deeper than {MAX_DEEP}"));
        }
        self.open.push(Group {
            start: self.out.len(),
            extended: self.extended,
            inner: 0,
        });
        self.out.push_str(text);
        self.before = Before::Nothing;
        Ok(())
    }

    fn close(&mut self) -> Translated {
        let Some(group) = self.open.pop() else {
            return fail("unmatched close parenthesis");
        };
        self.extended = group.extended;
        self.out.push_str(&")".repeat(group.inner + 1));
        self.before = Before::Item(group.start);
        Ok(())
    }

    fn group(&mut self) -> Translated {
        if !self.take('?') {
            self.captures += 1;
            return self.open("(");
        }
        let Some(c) = self.rest.next() else {
            return fail("end pattern in group");
        };
        match c {
            ':' => self.open("(?:"),
            '#' => self.until(')').map(|_| ()),
            '=' | '!' | '>' => self.fancy(&format!("(?{c}")),
            '<' if self.take('=') => self.fancy("(?<="),
            '<' if self.take('!') => self.fancy("(?<!"),
            '<' => {
                let name = self.until('>')?;
                self.named(&name)
            }
            '\'' => {
                let name = self.until('\'')?;
                self.named(&name)
            }
            '(' => {
                let number = self.until(')')?;
                let number = self.reference(number.parse().unwrap_or(0))?;
                self.fancy(&format!("(?({number})"))
            }
            '-' | 'i' | 'm' | 'x' | 'a' | 'd' => self.options(c),
            _ => fail("undefined group option"),
        }
    }

    /// The number of a group that is referred to.
    fn reference(&mut self, number: usize) -> Translated<usize> {
        if self.named {
            return fail("numbered backref/call is not allowed. (use name)");
        }
        if number == 0 || number > self.groups {
            return fail(NO_SUCH_GROUP);
        }
        self.referenced = self.referenced.max(number);
        Ok(number)
    }

    fn fancy(&mut self, text: &str) -> Translated {
        self.needs_backtracking = true;
        self.open(text)
    }

    fn named(&mut self, name: &str) -> Translated {
        let mut chars = name.chars();
        let starts = chars.next().is_some_and(|c| c == '_' || c.is_alphabetic());
        if !starts || !chars.all(|c| c == '_' || c.is_alphanumeric()) {
            return fail("group name is empty or has a bad character");
        }
        self.open(&format!("(?<{name}>"))
    }

    /// `(?i)`, which applies up to the end of the group, alternatives included, or `(?i-m:...)`.
    fn options(&mut self, first: char) -> Translated {
        let (mut on, mut off) = (String::new(), String::new());
        let (mut extended, mut switch_on) = (self.extended, true);
        let mut c = Some(first);
        let whole = loop {
            let letters = if switch_on { &mut on } else { &mut off };
            match c {
                Some('-') if switch_on => switch_on = false,
                Some('i') if !letters.contains('i') => letters.push('i'),
                Some('m') if !letters.contains('s') => letters.push('s'),
                Some('i' | 'm') => {}
                // White space and comments are removed here, so the engine needs no option.
                Some('x') => extended = switch_on,
                // These are the default.
                Some('a' | 'd') if switch_on => {}
                Some(':') => break false,
                Some(')') => break true,
                _ => return fail("undefined group option"),
            }
            c = self.rest.next();
        };
        let dash = if off.is_empty() { "" } else { "-" };
        let text = format!("(?{on}{dash}{off}:");
        if whole {
            self.out.push_str(&text);
            self.before = Before::Nothing;
            let inner = self
                .open
                .last_mut()
                .map_or(&mut self.inner, |g| &mut g.inner);
            *inner += 1;
            if *inner > MAX_DEEP {
                return fail(format!("options nest deeper than {MAX_DEEP}"));
            }
        } else {
            self.open(&text)?;
        }
        self.extended = extended;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
