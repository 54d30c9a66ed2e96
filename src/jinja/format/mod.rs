//! `'%s' % x`, `'{}'.format(x)` and the format specifications of the latter.

mod float;
mod percent;
mod spec;

pub use float::{exponent, fixed, general};
pub use percent::percent;
pub use spec::format_value;

use super::cx::Cx;
use super::error::{Error, ErrorKind};
use super::value::{Args, Obj, ascii, quote};

/// Maximum nesting of fields in format specifications (`string.Formatter.vformat`).
const DEPTH: usize = 2;

/// `format.format(*args)`, as Jinja's sandbox runs it.
///
/// # Errors
/// Python's errors: a missing field, a bad format specification.
pub fn str_format(cx: &mut Cx, format: &str, args: &Args) -> Result<String, Error> {
    Formatter {
        args,
        numbering: Numbering::Unknown,
    }
    .format(cx, format, DEPTH)
}

enum Numbering {
    Unknown,
    Automatic(usize),
    Manual,
}

struct Formatter<'a> {
    args: &'a Args,
    numbering: Numbering,
}

/// A literal followed by a field, if there is one.
struct Segment {
    literal: String,
    field: Option<Field>,
}

struct Field {
    name: String,
    conversion: Option<char>,
    spec: String,
}

impl Formatter<'_> {
    fn format(&mut self, cx: &mut Cx, format: &str, depth: usize) -> Result<String, Error> {
        if depth == 0 {
            return Err(Error::value_error("Max string recursion exceeded"));
        }
        let chars: Vec<char> = format.chars().collect();
        let mut out = String::new();
        let mut at = 0;
        while at < chars.len() {
            let segment = next_segment(&chars, &mut at)?;
            out.push_str(&segment.literal);
            if let Some(field) = segment.field {
                let text = self.field(cx, &field, depth)?;
                out.push_str(&text);
            }
            cx.check_size(out.len())?;
        }
        Ok(out)
    }

    fn field(&mut self, cx: &mut Cx, field: &Field, depth: usize) -> Result<String, Error> {
        let value = self.value(cx, &field.name)?;
        let value = match field.conversion {
            None => value,
            Some('s') => value.to_str()?.into(),
            Some('r') => value.repr()?.into(),
            Some('a') => ascii(&value.repr()?).into(),
            Some(other) => {
                return Err(Error::value_error(format!(
                    "Unknown conversion specifier {other}"
                )));
            }
        };
        let spec = if field.spec.contains(['{', '}']) {
            self.format(cx, &field.spec, depth - 1)?
        } else {
            field.spec.clone()
        };
        format_value(cx, &value, &spec)
    }

    fn value(&mut self, cx: &mut Cx, name: &str) -> Result<Obj, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, rest) = name.split_at(end);
        let mut value = self.first(first)?;
        let mut rest = rest;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (attribute, more) = after.split_at(end);
                if attribute.is_empty() {
                    return Err(Error::value_error("Empty attribute in format string"));
                }
                value = cx.get_attr(&value, attribute)?;
                rest = more;
                continue;
            }
            let Some(after) = rest.strip_prefix('[') else {
                return Err(Error::value_error(
                    "Only '.' or '[' may follow ']' in format field specifier",
                ));
            };
            let Some(end) = after.find(']') else {
                return Err(Error::value_error("Missing ']' in format string"));
            };
            let key = &after[..end];
            if key.is_empty() {
                return Err(Error::value_error("Empty attribute in format string"));
            }
            let key = match key.parse::<i64>() {
                Ok(index) if key.bytes().all(|b| b.is_ascii_digit()) => Obj::Int(index),
                _ => Obj::from(key),
            };
            value = cx.get_item(&value, &key)?;
            rest = &after[end + 1..];
        }
        Ok(value)
    }

    fn first(&mut self, name: &str) -> Result<Obj, Error> {
        let switch = |from: &str, to: &str| {
            Err(Error::value_error(format!(
                "cannot switch from {from} to {to}"
            )))
        };
        let (manual, automatic) = ("manual field specification", "automatic field numbering");
        let index = if name.is_empty() {
            let next = match self.numbering {
                Numbering::Unknown => 0,
                Numbering::Automatic(n) => n,
                Numbering::Manual => return switch(manual, automatic),
            };
            self.numbering = Numbering::Automatic(next + 1);
            next
        } else if name.bytes().all(|b| b.is_ascii_digit()) {
            if matches!(self.numbering, Numbering::Automatic(_)) {
                return switch(manual, automatic);
            }
            self.numbering = Numbering::Manual;
            name.parse().unwrap_or(usize::MAX)
        } else {
            let value = self.args.named(name).cloned();
            return value.ok_or_else(|| Error::new(ErrorKind::Key, quote(name)));
        };
        let value = self.args.positional.get(index).cloned();
        value.ok_or_else(|| Error::new(ErrorKind::Index, "tuple index out of range"))
    }
}

/// Parses the next literal and field (`_string.formatter_parser`).
fn next_segment(chars: &[char], at: &mut usize) -> Result<Segment, Error> {
    let mut literal = String::new();
    while let Some(&c) = chars.get(*at) {
        *at += 1;
        let doubled = chars.get(*at) == Some(&c);
        match c {
            '{' | '}' if doubled => {
                *at += 1;
                literal.push(c);
            }
            '}' => {
                return Err(Error::value_error(
                    "Single '}' encountered in format string",
                ));
            }
            '{' => {
                if *at >= chars.len() {
                    return Err(Error::value_error(
                        "Single '{' encountered in format string",
                    ));
                }
                let field = Some(next_field(chars, at)?);
                return Ok(Segment { literal, field });
            }
            c => literal.push(c),
        }
    }
    Ok(Segment {
        literal,
        field: None,
    })
}

fn next_field(chars: &[char], at: &mut usize) -> Result<Field, Error> {
    let start = *at;
    let mut depth = 1;
    let mut in_brackets = false;
    while let Some(&c) = chars.get(*at) {
        *at += 1;
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            '{' if !in_brackets => depth += 1,
            '}' if !in_brackets => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return split_field(&chars[start..*at - 1]);
        }
    }
    Err(Error::value_error("expected '}' before end of string"))
}

fn split_field(chars: &[char]) -> Result<Field, Error> {
    let mut in_brackets = false;
    let end = chars.iter().position(|c| {
        match c {
            '[' => in_brackets = true,
            ']' => in_brackets = false,
            _ => {}
        }
        !in_brackets && matches!(c, ':' | '!')
    });
    let end = end.unwrap_or(chars.len());
    let name: String = chars[..end].iter().collect();
    let mut field = Field {
        name,
        conversion: None,
        spec: String::new(),
    };
    let mut rest = &chars[end..];
    if rest.first() == Some(&'!') {
        let Some(&conversion) = rest.get(1) else {
            return Err(Error::value_error(
                "end of string while looking for conversion specifier",
            ));
        };
        field.conversion = Some(conversion);
        rest = &rest[2..];
        if !rest.is_empty() && rest[0] != ':' {
            return Err(Error::value_error(
                "expected ':' after conversion specifier",
            ));
        }
    }
    field.spec = rest.iter().skip(1).collect();
    Ok(field)
}
