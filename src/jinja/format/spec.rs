//! `format(value, spec)`: Python's format specification mini-language.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Obj, float_repr};
use super::float::{exponent, fixed, general};
use num_bigint::BigInt;

/// `format(value, spec)`.
///
/// # Errors
/// An invalid specification, or one that does not apply to the type of the value.
pub fn format_value(cx: &mut Cx, value: &Obj, spec: &str) -> Result<String, Error> {
    if spec.is_empty() {
        return value.to_str();
    }
    let unsupported = || {
        Error::type_error(format!(
            "unsupported format string passed to {}.__format__",
            value.type_name()
        ))
    };
    if !matches!(
        value,
        Obj::Str(_) | Obj::Markup(_) | Obj::Bool(_) | Obj::Int(_) | Obj::Big(_) | Obj::Float(_)
    ) {
        return Err(unsupported());
    }
    let spec = Spec::parse(spec, value.type_name())?;
    cx.check_size(spec.width.max(spec.precision.unwrap_or(0)))?;
    if let Some(text) = value.as_str() {
        return spec.text(text);
    }
    match (value, value.as_bigint()) {
        (Obj::Float(f), _) => spec.float(*f),
        (_, Some(number)) => spec.integer(value, &number),
        _ => Err(unsupported()),
    }
}

#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn parse(text: &str, type_name: &str) -> Result<Spec, Error> {
        let chars: Vec<char> = text.chars().collect();
        let mut spec = Spec::default();
        let mut at = 0;
        let is_align = |c: Option<&char>| matches!(c, Some('<' | '>' | '=' | '^'));
        if is_align(chars.get(1)) {
            spec.fill = Some(chars[0]);
            spec.align = Some(chars[1]);
            at = 2;
        } else if is_align(chars.first()) {
            spec.align = Some(chars[0]);
            at = 1;
        }
        if let Some(c @ ('+' | '-' | ' ')) = chars.get(at) {
            spec.sign = Some(*c);
            at += 1;
        }
        if chars.get(at) == Some(&'#') {
            spec.alternate = true;
            at += 1;
        }
        if spec.fill.is_none() && chars.get(at) == Some(&'0') {
            spec.zero = true;
            at += 1;
        }
        spec.width = number(&chars, &mut at)?.unwrap_or(0);
        if let Some(c @ (',' | '_')) = chars.get(at) {
            spec.grouping = Some(*c);
            at += 1;
        }
        if chars.get(at) == Some(&'.') {
            at += 1;
            spec.precision = number(&chars, &mut at)?;
            if spec.precision.is_none() {
                return Err(Error::value_error("Format specifier missing precision"));
            }
        }
        match &chars[at..] {
            [] => {}
            [kind] => spec.kind = Some(*kind),
            _ => {
                return Err(Error::value_error(format!(
                    "Invalid format specifier '{text}' for object of type '{type_name}'"
                )));
            }
        }
        Ok(spec)
    }

    fn unknown(&self, kind: char, type_name: &str) -> Error {
        Error::value_error(format!(
            "Unknown format code '{kind}' for object of type '{type_name}'"
        ))
    }

    fn text(&self, text: &str) -> Result<String, Error> {
        if let Some(kind) = self.kind.filter(|kind| *kind != 's') {
            return Err(self.unknown(kind, "str"));
        }
        if self.sign.is_some() {
            return Err(Error::value_error(
                "Sign not allowed in string format specifier",
            ));
        }
        if self.alternate {
            return Err(Error::value_error(
                "Alternate form (#) not allowed in string format specifier",
            ));
        }
        if self.align == Some('=') {
            return Err(Error::value_error(
                "'=' alignment not allowed in string format specifier",
            ));
        }
        if let Some(grouping) = self.grouping {
            return Err(Error::value_error(format!(
                "Cannot specify '{grouping}' with 's'."
            )));
        }
        let cut: String = match self.precision {
            Some(longest) => text.chars().take(longest).collect(),
            None => text.to_owned(),
        };
        Ok(self.padded("", &cut, '<'))
    }

    fn integer(&self, value: &Obj, number: &BigInt) -> Result<String, Error> {
        let kind = self.kind.unwrap_or('d');
        if matches!(kind, 'e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%') {
            return self.float(value.as_float().unwrap_or(f64::NAN));
        }
        if self.precision.is_some() {
            return Err(Error::value_error(
                "Precision not allowed in integer format specifier",
            ));
        }
        let (radix, prefix) = match kind {
            'd' | 'n' => (10, ""),
            'x' => (16, "0x"),
            'X' => (16, "0X"),
            'o' => (8, "0o"),
            'b' => (2, "0b"),
            'c' => return self.character(number),
            other => return Err(self.unknown(other, value.type_name())),
        };
        let text = number.to_str_radix(radix);
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits.to_owned()),
            None => (false, text),
        };
        let digits = match kind {
            'X' => digits.to_uppercase(),
            _ => digits,
        };
        let mut sign = self.signed(negative).to_owned();
        if self.alternate {
            sign.push_str(prefix);
        }
        let every = if radix == 10 { 3 } else { 4 };
        Ok(self.number(&sign, &digits, "", every))
    }

    fn character(&self, number: &BigInt) -> Result<String, Error> {
        let code = u32::try_from(number).ok().and_then(char::from_u32);
        let c =
            code.ok_or_else(|| Error::new(ErrorKind::Overflow, "%c arg not in range(0x110000)"))?;
        Ok(self.padded("", &c.to_string(), '<'))
    }

    fn float(&self, f: f64) -> Result<String, Error> {
        let kind = self.kind;
        let precision = self.precision.unwrap_or(6);
        let text = match kind {
            None => match self.precision {
                None => float_repr(f),
                Some(precision) => general(f, precision, self.alternate, true),
            },
            Some('f' | 'F') => fixed(f, precision, self.alternate),
            Some('e' | 'E') => exponent(f, precision, self.alternate),
            Some('g' | 'G' | 'n') => general(f, precision, self.alternate, false),
            Some('%') => fixed(f * 100.0, precision, self.alternate) + "%",
            Some(other) => return Err(self.unknown(other, "float")),
        };
        let text = match kind {
            Some('E' | 'F' | 'G') => text.to_uppercase(),
            _ => text,
        };
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let whole = text.find(|c: char| !c.is_ascii_digit());
        let (whole, rest) = text.split_at(whole.unwrap_or(text.len()));
        Ok(self.number(self.signed(negative), whole, rest, 3))
    }

    fn signed(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (_, Some('+')) => "+",
            (_, Some(' ')) => " ",
            _ => "",
        }
    }

    /// Groups and pads digits; padding zeros are grouped too.
    fn number(&self, sign: &str, digits: &str, rest: &str, every: usize) -> String {
        let zeros = self.zero && self.align.is_none_or(|align| align == '=');
        let room = self.width.saturating_sub(sign.len() + rest.chars().count());
        let mut length = digits.len().max(1);
        let marks = |length: usize| match self.grouping {
            Some(_) => (length - 1) / every,
            None => 0,
        };
        while zeros && length + marks(length) < room {
            length += 1;
        }
        let missing = "0".repeat(length.saturating_sub(digits.len()));
        let missing = if zeros { missing } else { String::new() };
        let grouped = self.grouped(&(missing + digits), every);
        self.padded(sign, &format!("{grouped}{rest}"), '>')
    }

    fn grouped(&self, digits: &str, every: usize) -> String {
        let Some(mark) = self.grouping else {
            return digits.to_owned();
        };
        let length = digits.len();
        let mut out = String::new();
        for (n, c) in digits.chars().enumerate() {
            if n > 0 && (length - n).is_multiple_of(every) {
                out.push(mark);
            }
            out.push(c);
        }
        out
    }

    fn padded(&self, sign: &str, text: &str, default: char) -> String {
        let length = sign.chars().count() + text.chars().count();
        let missing = self.width.saturating_sub(length);
        let fill = match (self.fill, self.zero) {
            (Some(fill), _) => fill,
            (None, true) => '0',
            _ => ' ',
        };
        let pad = |count: usize| fill.to_string().repeat(count);
        match self.align.unwrap_or(default) {
            '<' => format!("{sign}{text}{}", pad(missing)),
            '^' => {
                let left = missing / 2;
                format!("{}{sign}{text}{}", pad(left), pad(missing - left))
            }
            '=' => format!("{sign}{}{text}", pad(missing)),
            _ => format!("{}{sign}{text}", pad(missing)),
        }
    }
}

fn number(chars: &[char], at: &mut usize) -> Result<Option<usize>, Error> {
    let start = *at;
    while chars.get(*at).is_some_and(char::is_ascii_digit) {
        *at += 1;
    }
    let digits: String = chars[start..*at].iter().collect();
    if digits.is_empty() {
        return Ok(None);
    }
    match digits.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(Error::value_error(
            "Too many decimal digits in format string",
        )),
    }
}
