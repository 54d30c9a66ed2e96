//! Escapes and character classes.

use super::*;

enum Member {
    Char(char),
    Category(String),
}

impl Translator {
    pub(super) fn escape(&mut self) -> TranslateResult {
        let Some(c) = self.next() else {
            return fail("bad escape (end of pattern)");
        };
        match c {
            'A' => self.position("\\A"),
            'Z' => self.position("\\z"),
            'b' if self.flags.ascii => self.position("(?-u:\\b)"),
            'b' => self.position("\\b"),
            'B' => self.position("\\B"),
            '1'..='9' => return self.number_escape(c),
            c => match self.shared_escape(c)? {
                Member::Char(c) => self.literal(c),
                Member::Category(text) => self.item(&text),
            },
        }
        Ok(())
    }

    /// `\1` to `\99` are back references; three octal digits are a character code.
    fn number_escape(&mut self, first: char) -> TranslateResult {
        let mut text = String::from(first);
        if let Some(second) = self.peek().filter(char::is_ascii_digit) {
            self.at += 1;
            text.push(second);
            let third = self.peek().filter(|c| c.is_digit(8));
            if let Some(third) = third.filter(|_| text.chars().all(|c| c.is_digit(8))) {
                self.at += 1;
                text.push(third);
                let c = octal(&text)?;
                self.literal(c);
                return Ok(());
            }
        }
        let number = text.parse().unwrap_or(0);
        self.back_reference(number)
    }

    /// Escapes that mean the same inside and outside of a set.
    fn shared_escape(&mut self, c: char) -> TranslateResult<Member> {
        let member = match c {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Member::Category(self.category(c)),
            'a' => Member::Char('\x07'),
            'f' => Member::Char('\x0c'),
            'n' => Member::Char('\n'),
            'r' => Member::Char('\r'),
            't' => Member::Char('\t'),
            'v' => Member::Char('\x0b'),
            'x' => Member::Char(self.hex(2)?),
            'u' => Member::Char(self.hex(4)?),
            'U' => Member::Char(self.hex(8)?),
            '0' => {
                let mut text = String::from("0");
                while let Some(c) = self.peek().filter(|c| text.len() < 3 && c.is_digit(8)) {
                    self.at += 1;
                    text.push(c);
                }
                Member::Char(octal(&text)?)
            }
            c if c.is_ascii_alphanumeric() => return fail(format!("bad escape \\{c}")),
            c => Member::Char(c),
        };
        Ok(member)
    }

    fn category(&self, c: char) -> String {
        // Not those of the engines: Python's words have no marks, and its white space has four separators more.
        let members = match (c.to_ascii_lowercase(), self.flags.ascii) {
            ('d', true) => "0-9",
            ('d', false) => "\\d",
            ('s', true) => " \\t\\n\\r\\x0b\\x0c",
            ('s', false) => "\\s\\x1c-\\x1f",
            (_, true) => "0-9A-Za-z_",
            (_, false) => "\\p{L}\\p{N}_",
        };
        if c.is_ascii_uppercase() {
            format!("[^{members}]")
        } else {
            format!("[{members}]")
        }
    }

    fn hex(&mut self, digits: usize) -> TranslateResult<char> {
        let mut number = 0;
        for _ in 0..digits {
            let Some(digit) = self.next().and_then(|c| c.to_digit(16)) else {
                return fail("incomplete escape");
            };
            // Up to eight digits, which fit into 32 bits.
            number = number * 16 + digit;
        }
        char::from_u32(number).ok_or_else(|| "bad escape: no character".to_owned())
    }

    pub(super) fn class(&mut self) -> TranslateResult {
        self.out.push('[');
        if self.take('^') {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let Some(c) = self.next() else {
                return fail("unterminated character set");
            };
            if c == ']' && !first {
                break;
            }
            first = false;
            self.member(c)?;
        }
        self.item("]");
        Ok(())
    }

    /// One member of a set, or a range.
    fn member(&mut self, c: char) -> TranslateResult {
        let low = self.class_char(c)?;
        let rest = (self.peek(), self.chars.get(self.at + 1).copied());
        match rest {
            (Some('-'), None) => fail("unterminated character set"),
            (Some('-'), Some(next)) if next != ']' => {
                self.at += 2;
                let high = self.class_char(next)?;
                let (Member::Char(low), Member::Char(high)) = (low, high) else {
                    return fail("bad character range");
                };
                if low > high {
                    return fail("bad character range");
                }
                push_member(&mut self.out, low);
                self.out.push('-');
                push_member(&mut self.out, high);
                Ok(())
            }
            _ => {
                match low {
                    Member::Char(c) => push_member(&mut self.out, c),
                    Member::Category(text) => self.out.push_str(&text),
                }
                Ok(())
            }
        }
    }

    fn class_char(&mut self, c: char) -> TranslateResult<Member> {
        if c != '\\' {
            return Ok(Member::Char(c));
        }
        match self.next() {
            None => fail("unterminated character set"),
            Some('b') => Ok(Member::Char('\x08')),
            Some(c @ '1'..='7') => {
                let mut text = String::from(c);
                while let Some(c) = self.peek().filter(|c| text.len() < 3 && c.is_digit(8)) {
                    self.at += 1;
                    text.push(c);
                }
                octal(&text).map(Member::Char)
            }
            Some(c) => self.shared_escape(c),
        }
    }
}

/// Inside a set, ASCII characters that could be syntax are written as numbers.
fn push_member(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() || !c.is_ascii() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{:02x}", c as u32);
    }
}

fn octal(digits: &str) -> TranslateResult<char> {
    match u32::from_str_radix(digits, 8) {
        Ok(number) if number <= 0o377 => {
            char::from_u32(number).ok_or_else(|| "bad escape".to_owned())
        }
        _ => fail("octal escape value outside of range 0-0o377"),
    }
}
