//! `'%s' % values`.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Obj, ascii, quote};
use super::float::{exponent, fixed, general};

/// `format % values`.
///
/// # Errors
/// Python's errors: too few or too many values, a bad format character.
pub fn percent(cx: &mut Cx, format: &str, values: &Obj) -> Result<String, Error> {
    let mut format = PercentFormat {
        chars: format.chars().collect(),
        at: 0,
        values: match values {
            Obj::Tuple(items) => items.to_vec(),
            single => vec![single.clone()],
        },
        next: 0,
        mapping: is_mapping(values).then(|| values.clone()),
        out: String::new(),
    };
    while let Some(&c) = format.chars.get(format.at) {
        format.at += 1;
        match c {
            '%' => format.conversion(cx)?,
            c => format.out.push(c),
        }
        cx.check_size(format.out.len())?;
    }
    if format.next < format.values.len() && format.mapping.is_none() {
        return Err(Error::type_error(
            "not all arguments converted during string formatting",
        ));
    }
    Ok(format.out)
}

/// What Python accepts as a mapping here: anything with elements except tuples and text.
fn is_mapping(values: &Obj) -> bool {
    matches!(
        values,
        Obj::Dict(_) | Obj::List(_) | Obj::Bytes(_) | Obj::Range(_) | Obj::Native(_)
    )
}

struct PercentFormat {
    chars: Vec<char>,
    at: usize,
    values: Vec<Obj>,
    next: usize,
    mapping: Option<Obj>,
    out: String,
}

#[derive(Default)]
struct Flags {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

impl PercentFormat {
    fn peek(&self) -> Result<char, Error> {
        let c = self.chars.get(self.at).copied();
        c.ok_or_else(|| Error::value_error("incomplete format"))
    }

    fn value(&mut self) -> Result<Obj, Error> {
        let value = self.values.get(self.next).cloned();
        self.next += 1;
        value.ok_or_else(|| Error::type_error("not enough arguments for format string"))
    }

    fn conversion(&mut self, cx: &mut Cx) -> Result<(), Error> {
        if self.peek()? == '(' {
            let key = self.key()?;
            let Some(mapping) = &self.mapping else {
                return Err(Error::type_error("format requires a mapping"));
            };
            let value = match mapping {
                Obj::Dict(dict) => dict.borrow().get_str(&key).cloned(),
                Obj::Native(_) => {
                    let found = cx.get_item(mapping, &Obj::from(key.as_str()))?;
                    (!found.is_undefined()).then_some(found)
                }
                _ => {
                    return Err(Error::type_error(format!(
                        "{} indices must be integers or slices, not str",
                        mapping.type_name()
                    )));
                }
            };
            let value = value.ok_or_else(|| Error::new(ErrorKind::Key, quote(&key)))?;
            self.values = vec![value];
            self.next = 0;
        }
        let flags = self.flags()?;
        let kind = self.peek()?;
        self.at += 1;
        if kind == '%' {
            self.out.push('%');
            return Ok(());
        }
        cx.check_size(flags.width.max(flags.precision.unwrap_or(0)))?;
        let index = self.at - 1;
        let value = self.value()?;
        let text = converted(kind, &value, &flags, index)?;
        self.out.push_str(&text);
        Ok(())
    }

    fn key(&mut self) -> Result<String, Error> {
        self.at += 1;
        let start = self.at;
        let mut depth = 1;
        while let Some(&c) = self.chars.get(self.at) {
            self.at += 1;
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(self.chars[start..self.at - 1].iter().collect());
            }
        }
        Err(Error::value_error("incomplete format key"))
    }

    fn flags(&mut self) -> Result<Flags, Error> {
        let mut flags = Flags::default();
        loop {
            match self.peek()? {
                '-' => flags.left = true,
                '+' => flags.plus = true,
                ' ' => flags.space = true,
                '#' => flags.alternate = true,
                '0' => flags.zero = true,
                _ => break,
            }
            self.at += 1;
        }
        if let Some(width) = self.number()? {
            flags.left |= width < 0;
            flags.width = width.unsigned_abs() as usize;
        }
        if self.peek()? == '.' {
            self.at += 1;
            let precision = self.number()?.unwrap_or(0);
            flags.precision = Some(usize::try_from(precision).unwrap_or(0));
        }
        if matches!(self.peek()?, 'h' | 'l' | 'L') {
            self.at += 1;
        }
        Ok(flags)
    }

    /// Digits, or the value for a `*`.
    fn number(&mut self) -> Result<Option<i64>, Error> {
        if self.peek()? == '*' {
            self.at += 1;
            let value = self.value()?;
            return match value.as_int() {
                Some(i) => Ok(Some(i)),
                None => Err(Error::type_error("* wants int")),
            };
        }
        let start = self.at;
        while self.peek()?.is_ascii_digit() {
            self.at += 1;
        }
        let digits: String = self.chars[start..self.at].iter().collect();
        if digits.is_empty() {
            return Ok(None);
        }
        match digits.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(Error::value_error("width too big")),
        }
    }
}

fn converted(kind: char, value: &Obj, flags: &Flags, index: usize) -> Result<String, Error> {
    match kind {
        's' => Ok(flags.text(&value.to_str()?)),
        'r' => Ok(flags.text(&value.repr()?)),
        'a' => Ok(flags.text(&ascii(&value.repr()?))),
        'c' => flags.character(value),
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => flags.integer(kind, value),
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => flags.float(kind, value),
        other => Err(Error::value_error(format!(
            "unsupported format character '{other}' (0x{:x}) at index {index}",
            other as u32
        ))),
    }
}

impl Flags {
    fn text(&self, text: &str) -> String {
        match self.precision {
            Some(longest) => {
                self.padded("", &text.chars().take(longest).collect::<String>(), false)
            }
            None => self.padded("", text, false),
        }
    }

    fn character(&self, value: &Obj) -> Result<String, Error> {
        if let Some(text) = value.as_str() {
            if text.chars().count() == 1 {
                return Ok(self.padded("", text, false));
            }
        } else if let Some(code) = value.as_int() {
            let c = u32::try_from(code).ok().and_then(char::from_u32);
            let c =
                c.ok_or_else(|| Error::new(ErrorKind::Overflow, "%c arg not in range(0x110000)"))?;
            return Ok(self.padded("", &c.to_string(), false));
        }
        Err(Error::type_error("%c requires int or char"))
    }

    fn integer(&self, kind: char, value: &Obj) -> Result<String, Error> {
        let decimal = matches!(kind, 'd' | 'i' | 'u');
        let number = match value {
            Obj::Float(f) if decimal && f.is_finite() => format!("{:.0}", f.trunc()).parse().ok(),
            Obj::Float(f) if decimal => {
                let (what, error) = if f.is_nan() {
                    ("float NaN", ErrorKind::Value)
                } else {
                    ("float infinity", ErrorKind::Overflow)
                };
                return Err(Error::new(
                    error,
                    format!("cannot convert {what} to integer"),
                ));
            }
            other => other.as_bigint(),
        };
        let Some(number) = number else {
            if let Obj::Undefined(missing) = value {
                return Err(missing.error());
            }
            let wanted = if decimal {
                "a real number"
            } else {
                "an integer"
            };
            return Err(Error::type_error(format!(
                "%{kind} format: {wanted} is required, not {}",
                value.type_name()
            )));
        };
        let (radix, prefix) = match kind {
            'x' | 'X' => (16, "0x"),
            'o' => (8, "0o"),
            _ => (10, ""),
        };
        let text = number.to_str_radix(radix);
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.as_str()),
        };
        let least = self.precision.unwrap_or(0);
        let digits = "0".repeat(least.saturating_sub(digits.len())) + digits;
        let mut sign = self.sign(negative).to_owned();
        if self.alternate {
            sign.push_str(prefix);
        }
        match kind {
            'X' => Ok(self.padded(&sign.to_uppercase(), &digits.to_uppercase(), true)),
            _ => Ok(self.padded(&sign, &digits, true)),
        }
    }

    fn float(&self, kind: char, value: &Obj) -> Result<String, Error> {
        let Some(f) = value.as_float() else {
            if let Obj::Undefined(missing) = value {
                return Err(missing.error());
            }
            return Err(Error::type_error(format!(
                "must be real number, not {}",
                value.type_name()
            )));
        };
        let precision = self.precision.unwrap_or(6);
        let text = match kind.to_ascii_lowercase() {
            'f' => fixed(f, precision, self.alternate),
            'e' => exponent(f, precision, self.alternate),
            _ => general(f, precision, self.alternate, false),
        };
        let text = if kind.is_ascii_uppercase() {
            text.to_uppercase()
        } else {
            text
        };
        match text.strip_prefix('-') {
            Some(digits) => Ok(self.padded("-", digits, true)),
            None => Ok(self.padded(self.sign(false), &text, true)),
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn padded(&self, sign: &str, text: &str, number: bool) -> String {
        let length = sign.chars().count() + text.chars().count();
        let missing = self.width.saturating_sub(length);
        if self.left {
            return format!("{sign}{text}{}", " ".repeat(missing));
        }
        if self.zero && number {
            return format!("{sign}{}{text}", "0".repeat(missing));
        }
        format!("{}{sign}{text}", " ".repeat(missing))
    }
}
