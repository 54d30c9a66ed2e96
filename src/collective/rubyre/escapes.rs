//! Backslash escapes, in patterns and in classes.

use super::{Translated, Translator, fail};
use std::iter::Peekable;

pub(super) type Chars<'p> = Peekable<std::str::Chars<'p>>;

/// The members of the class of an escape letter, and whether it is negated.
pub(super) fn class(c: char) -> Option<(&'static str, bool)> {
    let members = match c.to_ascii_lowercase() {
        'd' => "0-9",
        'w' => "a-zA-Z0-9_",
        's' => r"\t\n\x0B\x0C\r\x20",
        'h' => "0-9a-fA-F",
        _ => return None,
    };
    Some((members, c.is_ascii_uppercase()))
}

/// A Unicode property by its Ruby name, as members of a class.
pub(super) fn property(name: &str, negated: bool) -> Translated<String> {
    let (name, negated) = match name.strip_prefix('^') {
        Some(name) => (name, !negated),
        None => (name, negated),
    };
    let members = match name.to_ascii_lowercase().as_str() {
        "alpha" => r"\p{Alphabetic}".to_owned(),
        "digit" => r"\p{Nd}".to_owned(),
        "alnum" => r"\p{Alphabetic}\p{Nd}".to_owned(),
        "upper" => r"\p{Uppercase}".to_owned(),
        "lower" => r"\p{Lowercase}".to_owned(),
        "space" => r"\p{White_Space}".to_owned(),
        "blank" => r"\t\p{Zs}".to_owned(),
        "cntrl" => r"\p{Cc}".to_owned(),
        "punct" => r"\p{P}$+<=>\^`|\~".to_owned(),
        "xdigit" => "0-9a-fA-F".to_owned(),
        "word" => r"\w".to_owned(),
        "ascii" => r"\x00-\x7F".to_owned(),
        "graph" | "print" => return fail(format!("the class {name} is not supported")),
        "" => return fail("empty name of a property"),
        _ => format!(r"\p{{{name}}}"),
    };
    Ok(if negated {
        format!("[^{members}]")
    } else {
        members
    })
}

/// The name in `{name}` after `\p`.
pub(super) fn braced(rest: &mut Chars) -> Translated<String> {
    let mut name = String::new();
    if rest.next_if_eq(&'{').is_none() {
        return fail("invalid character property name");
    }
    for c in rest.by_ref() {
        match c {
            '}' => return Ok(name),
            c if c.is_ascii_alphanumeric() || "_^ -=".contains(c) => name.push(c),
            _ => break,
        }
    }
    fail("invalid character property name")
}

/// The character of an escape; `None` if it is not an escape of a single character.
pub(super) fn character(c: char, rest: &mut Chars) -> Translated<Option<char>> {
    let digits = |rest: &mut Chars, radix: u32, most: usize, first: &str| {
        let mut text = first.to_owned();
        while text.len() < most
            && let Some(c) = rest.next_if(|c| c.is_digit(radix))
        {
            text.push(c);
        }
        text
    };
    let code = |text: &str, radix: u32| match u32::from_str_radix(text, radix) {
        Ok(code) => match char::from_u32(code) {
            Some(c) => Ok(Some(c)),
            None => fail("invalid code point"),
        },
        Err(_) => fail("invalid escape"),
    };
    Ok(Some(match c {
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        'f' => '\u{c}',
        'v' => '\u{b}',
        'a' => '\u{7}',
        'e' => '\u{1b}',
        'x' => {
            let text = digits(rest, 16, 2, "");
            // Above ASCII these are bytes of some encoding, not characters.
            return match u8::from_str_radix(&text, 16) {
                Ok(code) if code < 0x80 => Ok(Some(code.into())),
                _ => fail("invalid hex escape"),
            };
        }
        '0' => return code(&digits(rest, 8, 3, "0"), 8),
        'u' if rest.peek() != Some(&'{') => {
            let text = digits(rest, 16, 4, "");
            return match text.len() {
                4 => code(&text, 16),
                _ => fail("too short escape sequence"),
            };
        }
        'u' => {
            rest.next();
            let text = digits(rest, 16, 6, "");
            return match rest.next() {
                Some('}') => code(&text, 16),
                _ => fail("invalid Unicode escape"),
            };
        }
        'c' | 'C' | 'M' => return fail("control escapes are not supported"),
        c if c.is_ascii_alphanumeric() => return Ok(None),
        c => c,
    }))
}

impl Translator<'_> {
    pub(super) fn escape(&mut self) -> Translated {
        let Some(c) = self.rest.next() else {
            return fail("too short escape sequence");
        };
        if let Some((members, negated)) = class(c) {
            let caret = if negated { "^" } else { "" };
            self.item(&format!("[{caret}{members}]"));
            return Ok(());
        }
        match c {
            'A' | 'z' | 'b' | 'B' => self.item(&format!("\\{c}")),
            'Z' => self.item(r"(?:\n?\z)"),
            'G' => self.item(r"\A"),
            'R' => {
                self.needs_backtracking = true;
                self.item(r"(?>\r\n|[\n\x0B\x0C\r\x{85}\x{2028}\x{2029}])");
            }
            'K' | 'X' | 'g' => return fail(format!("\\{c} is not supported")),
            'p' | 'P' => {
                let name = braced(&mut self.rest)?;
                let members = property(&name, c == 'P')?;
                self.item(&format!("[{members}]"));
            }
            'k' => {
                let mark = match self.rest.next() {
                    Some('<') => '>',
                    Some('\'') => '\'',
                    _ => return fail("invalid backref number/name"),
                };
                let name = self.until(mark)?;
                match name.parse::<usize>() {
                    Ok(number) => self.back_reference(number)?,
                    Err(_) => {
                        self.needs_backtracking = true;
                        self.item(&format!("\\k<{name}>"));
                    }
                }
            }
            '1'..='9' => self.digits(c)?,
            c => match character(c, &mut self.rest)? {
                Some(c) => self.literal(c),
                // Other letters stand for themselves.
                None => self.literal(c),
            },
        }
        Ok(())
    }

    /// A back reference if there are that many groups, or it is a single digit; else an octal character code.
    fn digits(&mut self, first: char) -> Translated {
        let mut text = first.to_string();
        let mut ahead = self.rest.clone();
        while text.len() < 3
            && let Some(c) = ahead.next_if(char::is_ascii_digit)
        {
            text.push(c);
        }
        let number = text.parse::<usize>().unwrap_or(usize::MAX);
        if text.len() == 1 || number <= self.groups {
            self.rest = ahead;
            return self.back_reference(number);
        }
        fail("octal escapes without a zero are not supported")
    }

    fn back_reference(&mut self, number: usize) -> Translated {
        let number = self.reference(number)?;
        self.needs_backtracking = true;
        self.item(&format!("(?:\\{number})"));
        Ok(())
    }
}
