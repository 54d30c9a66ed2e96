//! Prints values like Python.

use super::compare::Budget;
use super::{DictKind, Obj};
use crate::error::Error;
use halite_wire::{pytext, yaml};

/// Maximum length of a printed value in bytes.
pub const MAX_PRINTED: usize = 64 << 20;

/// `repr()` of a text.
pub fn quote(text: &str) -> String {
    pytext::str_repr(text)
}

/// `ascii()` from a `repr()`: escapes everything that is not ASCII.
pub fn ascii(repr: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(repr.len());
    for c in repr.chars() {
        let code = c as u32;
        let _ = match code {
            0..0x80 => write!(out, "{c}"),
            0x80..0x100 => write!(out, "\\x{code:02x}"),
            0x100..0x1_0000 => write!(out, "\\u{code:04x}"),
            _ => write!(out, "\\U{code:08x}"),
        };
    }
    out
}

/// `repr()` of a float.
pub fn float_repr(f: f64) -> String {
    pytext::float_repr(f)
}

/// The printing style.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `repr()`.
    Python,
    /// `{{ value }}` in Salt, which prints dicts so that YAML can parse them (`salt/utils/jinja.py PrintableDict`).
    Salt,
}

struct Printer {
    out: String,
    budget: Budget,
    style: Style,
}

impl Obj {
    /// `repr(self)`.
    ///
    /// # Errors
    /// Endless or too long containers; strict undefined values are allowed here.
    pub fn repr(&self) -> Result<String, Error> {
        let mut printer = Printer::new(Style::Python);
        printer.repr(self)?;
        Ok(printer.out)
    }

    /// `str(self)`.
    ///
    /// # Errors
    /// A strict undefined value, or endless or too long containers.
    pub fn to_str(&self) -> Result<String, Error> {
        if let Some(text) = self.as_str() {
            return Ok(text.to_owned());
        }
        let mut printer = Printer::new(Style::Python);
        printer.str(self)?;
        Ok(printer.out)
    }

    /// Appends to `out` what `{{ self }}` prints in Salt.
    ///
    /// # Errors
    /// See [`Obj::to_str`].
    pub fn print_to(&self, out: &mut String) -> Result<(), Error> {
        if let Some(text) = self.as_str() {
            out.push_str(text);
            return Ok(());
        }
        let mut printer = Printer::new(Style::Salt);
        printer.str(self)?;
        out.push_str(&printer.out);
        Ok(())
    }
}

impl Printer {
    fn new(style: Style) -> Printer {
        Printer {
            out: String::new(),
            budget: Budget::default(),
            style,
        }
    }

    fn str(&mut self, obj: &Obj) -> Result<(), Error> {
        match obj {
            Obj::Str(text) | Obj::Markup(text) => self.out.push_str(text),
            Obj::Undefined(missing) => missing.check()?,
            Obj::Native(object) if object.shown().is_none() => self.out.push_str(&object.str()),
            Obj::Dict(dict) if self.style == Style::Salt => {
                let dict = dict.borrow();
                self.budget.enter()?;
                self.out.push('{');
                for (n, (key, value)) in dict.iter().enumerate() {
                    self.separate(n)?;
                    self.repr(key)?;
                    self.out.push_str(": ");
                    match value {
                        Obj::Str(_) | Obj::Markup(_) => self.repr_in_dict(value)?,
                        _ => self.str(value)?,
                    }
                }
                self.out.push('}');
                self.budget.leave();
            }
            _ => self.repr(obj)?,
        }
        Ok(())
    }

    fn repr(&mut self, obj: &Obj) -> Result<(), Error> {
        match obj {
            Obj::Undefined(_) => self.out.push_str("Undefined"),
            Obj::None => self.out.push_str("None"),
            Obj::Bool(b) => self.out.push_str(if *b { "True" } else { "False" }),
            Obj::Int(i) => self.out.push_str(&i.to_string()),
            Obj::Big(big) => self.out.push_str(&big.to_string()),
            Obj::Float(f) => self.out.push_str(&pytext::float_repr(*f)),
            Obj::Str(text) => self.out.push_str(&pytext::str_repr(text)),
            Obj::Markup(text) => {
                self.out.push_str("Markup(");
                self.out.push_str(&pytext::str_repr(text));
                self.out.push(')');
            }
            Obj::Bytes(bytes) => self.out.push_str(&pytext::bytes_repr(bytes)),
            Obj::List(list) => self.sequence("[", &list.borrow(), "]")?,
            Obj::Tuple(items) if items.len() == 1 => self.sequence("(", items, ",)")?,
            Obj::Tuple(items) => self.sequence("(", items, ")")?,
            Obj::Dict(dict) => self.dict(&dict.borrow())?,
            Obj::Set(set) => {
                let items: Vec<Obj> = set.borrow().iter().cloned().collect();
                if items.is_empty() {
                    self.out.push_str("set()")
                } else {
                    self.sequence("{", &items, "}")?
                }
            }
            Obj::Range(range) => {
                let (start, stop, step) = (range.start, range.stop, range.step);
                self.out.push_str(&match step {
                    1 => format!("range({start}, {stop})"),
                    _ => format!("range({start}, {stop}, {step})"),
                });
            }
            Obj::View(view) => {
                self.out.push_str(view.kind.type_name());
                self.sequence("([", &view.items(), "])")?;
            }
            Obj::Iter(iter) => self.out.push_str(&format!(
                "<{} object at {:p}>",
                iter.label,
                std::rc::Rc::as_ptr(iter)
            )),
            Obj::Native(object) => match object.shown() {
                Some((before, value, after)) => {
                    self.budget.enter()?;
                    self.out.push_str(&before);
                    self.repr(&value)?;
                    self.out.push_str(after);
                    self.budget.leave();
                }
                None => self.out.push_str(&object.repr()),
            },
        }
        Ok(())
    }

    fn separate(&mut self, n: usize) -> Result<(), Error> {
        self.budget.step()?;
        if self.out.len() > MAX_PRINTED {
            return Err(Error::limit("the printed value is too long"));
        }
        self.out.push_str(if n == 0 { "" } else { ", " });
        Ok(())
    }

    fn sequence(&mut self, open: &str, items: &[Obj], close: &str) -> Result<(), Error> {
        self.budget.enter()?;
        self.out.push_str(open);
        for (n, item) in items.iter().enumerate() {
            self.separate(n)?;
            self.repr(item)?;
        }
        self.out.push_str(close);
        self.budget.leave();
        Ok(())
    }

    fn dict(&mut self, dict: &super::Dict) -> Result<(), Error> {
        if dict.kind == DictKind::Ordered && self.style == Style::Python {
            return self.ordered_dict(dict);
        }
        self.budget.enter()?;
        self.out.push('{');
        for (n, (key, value)) in dict.iter().enumerate() {
            self.separate(n)?;
            self.repr(key)?;
            self.out.push_str(": ");
            self.repr_in_dict(value)?;
        }
        self.out.push('}');
        self.budget.leave();
        Ok(())
    }

    fn ordered_dict(&mut self, dict: &super::Dict) -> Result<(), Error> {
        let items: Vec<Obj> = dict
            .iter()
            .map(|(k, v)| Obj::tuple(vec![k.clone(), v.clone()]))
            .collect();
        if items.is_empty() {
            self.out.push_str("OrderedDict()")
        } else {
            self.sequence("OrderedDict([", &items, "])")?
        }
        Ok(())
    }

    /// A value of a dict. In Salt's style, texts with line breaks and tabs are quoted for YAML, so that YAML can parse
    /// them (`salt/utils/jinja.py _yaml_safe_repr`).
    fn repr_in_dict(&mut self, value: &Obj) -> Result<(), Error> {
        match value.as_str() {
            Some(text) if self.style == Style::Salt && text.contains(['\n', '\r', '\t']) => {
                self.out.push('"');
                for c in text.chars() {
                    match c {
                        '"' | '\\' => self.out.extend(['\\', c]),
                        c if c.is_control() => self.out.push_str(&yaml::escape(c)),
                        c => self.out.push(c),
                    }
                }
                self.out.push('"');
                Ok(())
            }
            _ => self.repr(value),
        }
    }
}
