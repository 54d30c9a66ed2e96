//! Character classes: `[...]`.

use super::escapes::{self, Chars};
use super::{MAX_DEEP, Translated, fail};

/// A member of a class.
enum Member {
    One(char),
    Set(String),
}

/// Reads a class after `[`, up to its `]`.
pub(super) fn read(rest: &mut Chars, deep: usize) -> Translated<String> {
    if deep >= MAX_DEEP {
        return fail(format!("classes nest deeper than {MAX_DEEP}"));
    }
    let mut out = String::from("[");
    if rest.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    let mut empty = true;
    // Whether a dash here follows a range or a set, so that it cannot start another range.
    let mut after_set = false;
    loop {
        let Some(c) = rest.next() else {
            return fail("premature end of char-class");
        };
        if c == ']' && !empty {
            out.push(']');
            return Ok(out);
        }
        if c == ']' && !rest.clone().any(|c| c == ']') {
            return fail("empty char-class");
        }
        if c == '&' && rest.peek() == Some(&'&') {
            rest.next();
            out.push_str("&&");
            after_set = false;
            continue;
        }
        empty = false;
        let member = member(c, rest, deep)?;
        let low = match member {
            Member::Set(text) => {
                out.push_str(&text);
                if dash_before_member(rest) {
                    return fail("unmatched range specifier in char-class");
                }
                after_set = true;
                continue;
            }
            Member::One(low) => low,
        };
        if after_set && c == '-' || !dash_before_member(rest) {
            push(&mut out, low);
            after_set = false;
            continue;
        }
        rest.next();
        let Some(c) = rest.next() else {
            return fail("premature end of char-class");
        };
        let Member::One(high) = self::member(c, rest, deep)? else {
            return fail("char-class value at end of range");
        };
        if high < low {
            return fail("empty range in char class");
        }
        push(&mut out, low);
        out.push('-');
        push(&mut out, high);
        after_set = true;
    }
}

/// Whether a dash follows that is not the last character of the class.
fn dash_before_member(rest: &Chars) -> bool {
    let mut ahead = rest.clone();
    ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']')
}

fn push(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() {
        out.push(c)
    } else {
        out.push_str(&format!("\\x{{{:X}}}", u32::from(c)))
    }
}

fn member(c: char, rest: &mut Chars, deep: usize) -> Translated<Member> {
    match c {
        '[' if rest.peek() == Some(&':') => match posix(rest)? {
            Some(set) => Ok(Member::Set(set)),
            None => read(rest, deep + 1).map(Member::Set),
        },
        '[' => read(rest, deep + 1).map(Member::Set),
        '\\' => {
            let Some(c) = rest.next() else {
                return fail("end pattern at escape");
            };
            if let Some((members, negated)) = escapes::class(c) {
                return Ok(Member::Set(if negated {
                    format!("[^{members}]")
                } else {
                    members.to_owned()
                }));
            }
            match c {
                'b' => Ok(Member::One('\u{8}')),
                'p' | 'P' => {
                    let name = escapes::braced(rest)?;
                    escapes::property(&name, c == 'P').map(Member::Set)
                }
                'R' | 'X' | '1'..='9' => fail(format!("\\{c} in a class is not supported")),
                c => Ok(Member::One(escapes::character(c, rest)?.unwrap_or(c))),
            }
        }
        c => Ok(Member::One(c)),
    }
}

/// `:alpha:]` after a bracket; `None` if it is an ordinary class that starts with a colon.
fn posix(rest: &mut Chars) -> Translated<Option<String>> {
    let mut ahead = rest.clone();
    ahead.next();
    let mut name = String::new();
    while let Some(c) = ahead.next_if(|c| c.is_ascii_alphabetic() || *c == '^') {
        name.push(c);
        if name.len() > 16 {
            return Ok(None);
        }
    }
    if ahead.next() != Some(':') || ahead.next() != Some(']') {
        return Ok(None);
    }
    *rest = ahead;
    escapes::property(&name, false).map(Some)
}
