//! JSON as written by Python's `json.dumps` and parsed by `json.loads`.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Dict, Obj, float_repr};
use super::sort::sorted;
use halite_wire::budget::Budget;
use halite_wire::json::check;
use halite_wire::pyjson::quote;
use std::cell::RefCell;

/// Options of `json.dumps`.
pub struct JsonStyle {
    /// Indentation of one level; `None` writes everything on one line.
    pub indent: Option<String>,
    /// Whether dicts are sorted by key.
    pub sort_keys: bool,
    /// Whether non-ASCII characters are escaped.
    pub ascii: bool,
    /// Separators between elements, and between key and value; `None` for Python's defaults.
    pub separators: Option<(String, String)>,
}

struct Writer<'a> {
    style: &'a JsonStyle,
    out: String,
    depth: usize,
    item: String,
    key: String,
}

/// `json.dumps(value)`.
///
/// # Errors
/// Values and keys that JSON cannot represent, keys that cannot be ordered, endless nesting.
pub fn dumps(cx: &mut Cx, value: &Obj, style: &JsonStyle) -> Result<String, Error> {
    let default = match style.indent {
        Some(_) => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let (item, key) = style.separators.clone().unwrap_or(default);
    let mut writer = Writer {
        style,
        out: String::new(),
        depth: 0,
        item,
        key,
    };
    writer.value(cx, value)?;
    Ok(writer.out)
}

impl Writer<'_> {
    fn value(&mut self, cx: &mut Cx, value: &Obj) -> Result<(), Error> {
        cx.charge(1)?;
        match value {
            Obj::Undefined(missing) => return Err(missing.error()),
            Obj::None => self.out.push_str("null"),
            Obj::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Obj::Int(_) | Obj::Big(_) => self.out.push_str(&value.to_str()?),
            Obj::Float(f) => self.out.push_str(&float(*f)),
            Obj::Str(text) | Obj::Markup(text) => quote(&mut self.out, text, self.style.ascii),
            Obj::List(list) => {
                let items = list.borrow().clone();
                self.list(cx, &items)?;
            }
            Obj::Tuple(items) => self.list(cx, items)?,
            Obj::Dict(dict) => self.dict(cx, dict)?,
            Obj::Native(object) => match object.as_data() {
                Some(data) if !matches!(data, Obj::Native(_)) => self.value(cx, &data)?,
                _ => return Err(not_serializable(value)),
            },
            other => return Err(not_serializable(other)),
        }
        cx.check_size(self.out.len())
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > 100 {
            Err(Error::value_error("Circular reference detected"))
        } else {
            Ok(())
        }
    }

    fn line(&mut self) {
        if let Some(indent) = &self.style.indent {
            self.out.push('\n');
            for _ in 0..self.depth {
                self.out.push_str(indent);
            }
        }
    }

    fn list(&mut self, cx: &mut Cx, items: &[Obj]) -> Result<(), Error> {
        if items.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.out.push('[');
        self.enter()?;
        for (n, item) in items.iter().enumerate() {
            if n > 0 {
                self.out.push_str(&self.item);
            }
            self.line();
            self.value(cx, item)?;
        }
        self.depth -= 1;
        self.line();
        self.out.push(']');
        Ok(())
    }

    fn dict(&mut self, cx: &mut Cx, dict: &RefCell<Dict>) -> Result<(), Error> {
        let mut keys: Vec<Obj> = dict.borrow().keys().cloned().collect();
        if keys.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        if self.style.sort_keys {
            keys = sorted(cx, keys.clone(), keys, false)?;
        }
        self.out.push('{');
        self.enter()?;
        for (n, key) in keys.iter().enumerate() {
            if n > 0 {
                self.out.push_str(&self.item);
            }
            self.line();
            self.key(key)?;
            self.out.push_str(&self.key);
            let value = dict.borrow().get(key)?.cloned().unwrap_or(Obj::None);
            self.value(cx, &value)?;
        }
        self.depth -= 1;
        self.line();
        self.out.push('}');
        Ok(())
    }

    fn key(&mut self, key: &Obj) -> Result<(), Error> {
        let text = match key {
            Obj::Str(text) | Obj::Markup(text) => text.to_string(),
            Obj::None => "null".to_owned(),
            Obj::Bool(true) => "true".to_owned(),
            Obj::Bool(false) => "false".to_owned(),
            Obj::Int(_) | Obj::Big(_) => key.to_str()?,
            Obj::Float(f) => float(*f),
            other => {
                return Err(Error::type_error(format!(
                    "keys must be str, int, float, bool or None, not {}",
                    other.type_name()
                )));
            }
        };
        quote(&mut self.out, &text, self.style.ascii);
        Ok(())
    }
}

fn float(f: f64) -> String {
    match (f.is_nan(), f.is_infinite()) {
        (true, _) => "NaN".to_owned(),
        (_, true) if f > 0.0 => "Infinity".to_owned(),
        (_, true) => "-Infinity".to_owned(),
        _ => float_repr(f),
    }
}

fn not_serializable(value: &Obj) -> Error {
    Error::type_error(format!(
        "Object of type {} is not JSON serializable",
        value.type_name()
    ))
}

/// `json.loads(text)`; `None` if it is not JSON.
pub fn loads(text: &str) -> Option<Obj> {
    check(text.as_bytes(), &mut Budget::of(text.len())).ok()?;
    let mut reader = Reader { text, at: 0 };
    reader.space();
    let value = reader.value()?;
    reader.space();
    (reader.at == text.len()).then_some(value)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.at += rest.len() - trimmed.len();
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.rest().starts_with(word);
        self.at += if there { word.len() } else { 0 };
        there
    }

    fn value(&mut self) -> Option<Obj> {
        match self.rest().chars().next()? {
            '"' => self.text().map(Obj::from),
            '[' => self.list(),
            '{' => self.dict(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Option<Obj> {
        let words = [
            ("null", Obj::None),
            ("true", Obj::Bool(true)),
            ("false", Obj::Bool(false)),
            ("NaN", Obj::Float(f64::NAN)),
            ("Infinity", Obj::Float(f64::INFINITY)),
            ("-Infinity", Obj::Float(f64::NEG_INFINITY)),
        ];
        for (word, value) in words {
            if self.take(word) {
                return Some(value);
            }
        }
        self.number()
    }

    fn digits(&mut self) -> usize {
        let run = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += run;
        run
    }

    fn number(&mut self) -> Option<Obj> {
        let start = self.at;
        self.take("-");
        if !self.take("0") && self.digits() == 0 {
            return None;
        }
        let whole = self.at;
        if self.rest().starts_with('.') {
            self.at += 1;
            if self.digits() == 0 {
                self.at = whole;
            }
        }
        let mantissa = self.at;
        if self.rest().starts_with(['e', 'E']) {
            self.at += 1;
            let _ = self.take("+") || self.take("-");
            if self.digits() == 0 {
                self.at = mantissa;
            }
        }
        let text = &self.text[start..self.at];
        if self.at == whole {
            super::parse::int(text, 10).map(Obj::big)
        } else {
            text.parse().ok().map(Obj::Float)
        }
    }

    fn list(&mut self) -> Option<Obj> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take("]") {
            return Some(Obj::list(items));
        }
        loop {
            self.space();
            items.push(self.value()?);
            self.space();
            if self.take("]") {
                return Some(Obj::list(items));
            }
            if !self.take(",") {
                return None;
            }
        }
    }

    fn dict(&mut self) -> Option<Obj> {
        self.at += 1;
        let mut dict = Dict::new();
        self.space();
        if self.take("}") {
            return Some(dict.into());
        }
        loop {
            self.space();
            if !self.rest().starts_with('"') {
                return None;
            }
            let key = self.text()?;
            self.space();
            if !self.take(":") {
                return None;
            }
            self.space();
            let value = self.value()?;
            dict.set_str(&key, value);
            self.space();
            if self.take("}") {
                return Some(dict.into());
            }
            if !self.take(",") {
                return None;
            }
        }
    }

    fn text(&mut self) -> Option<String> {
        self.at += 1;
        let mut units: Vec<u16> = Vec::new();
        loop {
            let c = self.rest().chars().next()?;
            self.at += c.len_utf8();
            match c {
                '"' => return Some(String::from_utf16_lossy(&units)),
                '\\' => {
                    let escape = self.rest().chars().next()?;
                    self.at += escape.len_utf8();
                    let plain = match escape {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        'b' => '\x08',
                        'f' => '\x0c',
                        '"' | '\\' | '/' => escape,
                        'u' => {
                            let digits = self.rest().get(..4)?;
                            if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
                                return None;
                            }
                            units.push(u16::from_str_radix(digits, 16).ok()?);
                            self.at += 4;
                            continue;
                        }
                        _ => return None,
                    };
                    units.push(plain as u16);
                }
                c if (c as u32) < 0x20 => return None,
                c => units.extend_from_slice(c.encode_utf16(&mut [0; 2])),
            }
        }
    }
}
