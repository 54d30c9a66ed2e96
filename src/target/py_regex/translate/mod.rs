//! Translates Python's `re` syntax (3.11) to the common syntax of `regex` and `fancy-regex`.

mod escapes;

use std::collections::HashMap;
use std::fmt::Write;

/// Maximum nesting depth of groups.
const MAX_GROUPS_DEEP: usize = 50;

/// Flags that apply to the whole pattern, and how it will be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegexFlags {
    /// `re.I`.
    pub ignore_case: bool,
    /// `re.M`.
    pub multiline: bool,
    /// `re.S`.
    pub dot_all: bool,
    /// `re.X`.
    pub verbose: bool,
    /// `re.A`; always on for patterns of bytes.
    pub ascii: bool,
    /// It must match at the start of the text.
    pub anchored: bool,
    /// The end of a match matters, not only whether there is one.
    pub exact: bool,
}

/// A translated pattern.
pub struct Translated {
    pub pattern: String,
    /// Whether it contains something that needs `fancy-regex`.
    pub needs_backtracking: bool,
    /// The numbers of named groups; the translated pattern has no names.
    pub names: HashMap<String, usize>,
}

/// What precedes a quantifier.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Position,
    Item,
    Quantifier,
}

/// Flags that change how the rest is parsed. The engine handles the others.
#[derive(Clone, Copy, Default)]
struct Flags {
    ascii: bool,
    multiline: bool,
    verbose: bool,
}

struct Group {
    number: Option<usize>,
    outer: Flags,
    /// Number of `|` still allowed: a conditional may have only one.
    bars_left: Option<usize>,
}

struct Translator {
    chars: Vec<char>,
    at: usize,
    out: String,
    needs_backtracking: bool,
    exact: bool,
    before: Before,
    flags: Flags,
    global: String,
    open: Vec<Group>,
    groups: usize,
    names: HashMap<String, usize>,
}

type TranslateResult<T = ()> = Result<T, String>;

/// Translates a pattern; the error is the reason why Python (or this function) refuses it.
pub fn translate(pattern: &str, how: &RegexFlags) -> TranslateResult<Translated> {
    let mut t = Translator {
        chars: pattern.chars().collect(),
        at: 0,
        out: String::with_capacity(pattern.len() + 16),
        needs_backtracking: false,
        before: Before::Nothing,
        flags: Flags {
            multiline: how.multiline,
            verbose: how.verbose,
            ascii: how.ascii,
        },
        exact: how.exact,
        global: [
            (how.ignore_case, 'i'),
            (how.multiline, 'm'),
            (how.dot_all, 's'),
        ]
        .iter()
        .filter_map(|(on, letter)| on.then_some(*letter))
        .collect(),
        open: Vec::new(),
        groups: 0,
        names: HashMap::new(),
    };
    while let Some(c) = t.next() {
        t.token(c)?;
    }
    if !t.open.is_empty() {
        return Err("missing ), unterminated group".to_owned());
    }
    let flags = match t.global.as_str() {
        "" => String::new(),
        letters => format!("(?{letters})"),
    };
    Ok(Translated {
        pattern: format!(
            "{flags}{}(?:{})",
            if how.anchored { "\\A" } else { "" },
            t.out
        ),
        needs_backtracking: t.needs_backtracking,
        names: t.names,
    })
}

fn fail<T>(reason: impl Into<String>) -> TranslateResult<T> {
    Err(reason.into())
}

impl Translator {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn take(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        self.at += usize::from(there);
        there
    }

    /// Consumes everything up to and including a mark, and returns the text before it.
    fn until(&mut self, mark: char, what: &str) -> TranslateResult<String> {
        let mut text = String::new();
        while let Some(c) = self.next() {
            if c == mark {
                return Ok(text);
            }
            text.push(c);
        }
        fail(format!("missing {mark} after {what}"))
    }

    fn item(&mut self, text: &str) {
        self.out.push_str(text);
        self.before = Before::Item;
    }

    fn position(&mut self, text: &str) {
        self.out.push_str(text);
        self.before = Before::Position;
    }

    fn literal(&mut self, c: char) {
        if "\\.+*?()|[]{}^$".contains(c) {
            self.out.push('\\');
        }
        self.out.push(c);
        self.before = Before::Item;
    }

    fn token(&mut self, c: char) -> TranslateResult {
        if self.flags.verbose && c.is_ascii_whitespace() {
            return Ok(());
        }
        match c {
            '#' if self.flags.verbose => while self.next().is_some_and(|c| c != '\n') {},
            '\\' => self.escape()?,
            '[' => self.class()?,
            '(' => self.group()?,
            ')' => self.close()?,
            '|' => self.bar()?,
            '^' => self.position("^"),
            '$' if self.flags.multiline => self.position("$"),
            // Python's `$` also matches before a line feed at the end of the text.
            '$' if self.exact => {
                self.needs_backtracking = true;
                self.position("(?=\\n?\\z)");
            }
            '$' => self.position("(?:\\n?\\z)"),
            '.' => self.item("."),
            '*' | '+' | '?' => self.quantifier(&c.to_string())?,
            '{' => self.braces()?,
            c => self.literal(c),
        }
        Ok(())
    }

    fn bar(&mut self) -> TranslateResult {
        if let Some(left) = self.open.last_mut().and_then(|g| g.bars_left.as_mut()) {
            let Some(fewer) = left.checked_sub(1) else {
                return fail("conditional backref with more than two branches");
            };
            *left = fewer;
        }
        self.out.push('|');
        self.before = Before::Nothing;
        Ok(())
    }

    fn quantifier(&mut self, text: &str) -> TranslateResult {
        match self.before {
            Before::Nothing | Before::Position => return fail("nothing to repeat"),
            Before::Quantifier => return fail("multiple repeat"),
            Before::Item => {}
        }
        self.out.push_str(text);
        self.before = Before::Quantifier;
        if self.take('?') {
            self.out.push('?');
        } else if self.take('+') {
            self.out.push('+');
            self.needs_backtracking = true;
        }
        Ok(())
    }

    /// `{m}`, `{m,}`, `{,n}`, `{m,n}`; anything else is a literal brace.
    fn braces(&mut self) -> TranslateResult {
        let start = self.at;
        let low = self.digits();
        let comma = self.take(',');
        let high = if comma { self.digits() } else { low.clone() };
        if !self.take('}') || (low.is_empty() && !comma) {
            self.at = start;
            self.literal('{');
            return Ok(());
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| "repeat too large");
        let low = if low.is_empty() { 0 } else { number(&low)? };
        if high.is_empty() {
            return self.quantifier(&format!("{{{low},}}"));
        }
        let high = number(&high)?;
        if high < low {
            return fail("min repeat greater than max repeat");
        }
        self.quantifier(&format!("{{{low},{high}}}"))
    }

    fn digits(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.peek().filter(char::is_ascii_digit) {
            text.push(c);
            self.at += 1;
        }
        text
    }

    fn open(&mut self, text: &str, number: Option<usize>) -> TranslateResult {
        if self.open.len() >= MAX_GROUPS_DEEP {
            return fail(format!("groups nest deeper than {MAX_GROUPS_DEEP}"));
        }
        self.out.push_str(text);
        self.open.push(Group {
            number,
            outer: self.flags,
            bars_left: None,
        });
        self.before = Before::Nothing;
        Ok(())
    }

    fn open_numbered(&mut self, name: Option<String>) -> TranslateResult {
        self.groups += 1;
        if let Some(name) = name
            && self.names.insert(name, self.groups).is_some()
        {
            return fail("redefinition of a group name");
        }
        self.open("(", Some(self.groups))
    }

    fn close(&mut self) -> TranslateResult {
        let Some(group) = self.open.pop() else {
            return fail("unbalanced parenthesis");
        };
        self.flags = group.outer;
        self.item(")");
        Ok(())
    }

    fn group(&mut self) -> TranslateResult {
        if !self.take('?') {
            return self.open_numbered(None);
        }
        let Some(c) = self.next() else {
            return fail("unexpected end of pattern");
        };
        match c {
            ':' => self.open("(?:", None),
            '#' => self.until(')', "a comment").map(|_| ()),
            'P' => self.named(),
            '(' => self.conditional(),
            '=' => self.fancy_group("(?="),
            '!' => self.fancy_group("(?!"),
            '>' => self.fancy_group("(?>"),
            '<' if self.take('=') => self.fancy_group("(?<="),
            '<' if self.take('!') => self.fancy_group("(?<!"),
            '-' | 'a'..='z' | 'A'..='Z' => self.flag_group(c),
            c => fail(format!("unknown extension ?{c}")),
        }
    }

    fn fancy_group(&mut self, text: &str) -> TranslateResult {
        self.needs_backtracking = true;
        self.open(text, None)
    }

    fn named(&mut self) -> TranslateResult {
        match self.next() {
            Some('<') => {
                let name = self.until('>', "a group name")?;
                check_name(&name)?;
                self.open_numbered(Some(name))
            }
            Some('=') => {
                let name = self.until(')', "a group name")?;
                let Some(number) = self.names.get(&name).copied() else {
                    return fail(format!("unknown group name {name:?}"));
                };
                self.back_reference(number)
            }
            _ => fail("unknown extension ?P"),
        }
    }

    fn back_reference(&mut self, number: usize) -> TranslateResult {
        if number == 0 || number > self.groups {
            return fail(format!("invalid group reference {number}"));
        }
        if self.open.iter().any(|g| g.number == Some(number)) {
            return fail("cannot refer to an open group");
        }
        self.needs_backtracking = true;
        self.item(&format!("(?:\\{number})"));
        Ok(())
    }

    fn conditional(&mut self) -> TranslateResult {
        let name = self.until(')', "a group name")?;
        let number = match name.parse::<usize>() {
            Ok(number) => number,
            Err(_) => self.names.get(&name).copied().unwrap_or(0),
        };
        if number == 0 || number > self.groups {
            return fail(format!("unknown group {name:?}"));
        }
        // For Python such a group does not exist yet; for the engine it does.
        if self.open.iter().any(|g| g.number == Some(number)) {
            return fail("cannot refer to an open group");
        }
        self.fancy_group(&format!("(?({number})"))?;
        if let Some(group) = self.open.last_mut() {
            group.bars_left = Some(1);
        }
        Ok(())
    }

    /// `(?i)` at the very start, or `(?i-s:...)`.
    fn flag_group(&mut self, first: char) -> TranslateResult {
        let mut flags = self.flags;
        let (mut on, mut off) = (String::new(), String::new());
        let mut switch_on = true;
        let mut c = Some(first);
        loop {
            match c {
                Some('-') if switch_on => switch_on = false,
                Some(letter @ ('i' | 's')) => push_flag(switch_on, &mut on, &mut off, letter),
                Some('m') => {
                    flags.multiline = switch_on;
                    push_flag(switch_on, &mut on, &mut off, 'm');
                }
                // White space and comments are removed here, so the engine needs no flag.
                Some('x') => flags.verbose = switch_on,
                Some('a') if switch_on => flags.ascii = true,
                Some('u') if switch_on => flags.ascii = false,
                Some(':') => break,
                Some(')') if switch_on => return self.global_flags(flags, &on),
                _ => return fail("unknown flag"),
            }
            c = self.next();
        }
        let dash = if off.is_empty() { "" } else { "-" };
        self.open(&format!("(?{on}{dash}{off}:"), None)?;
        self.flags = flags;
        Ok(())
    }

    fn global_flags(&mut self, flags: Flags, on: &str) -> TranslateResult {
        if !self.open.is_empty() || !self.out.is_empty() {
            return fail("global flags not at the start of the expression");
        }
        self.flags = flags;
        for letter in on.chars() {
            if !self.global.contains(letter) {
                self.global.push(letter);
            }
        }
        Ok(())
    }
}

fn push_flag(switch_on: bool, on: &mut String, off: &mut String, letter: char) {
    let text = if switch_on { on } else { off };
    if !text.contains(letter) {
        text.push(letter);
    }
}

fn check_name(name: &str) -> TranslateResult {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c == '_' || c.is_alphabetic());
    if starts && chars.all(|c| c == '_' || c.is_alphanumeric()) {
        return Ok(());
    }
    fail(format!("bad character in group name {name:?}"))
}
