//! Functions available in every template: those of Jinja's sandbox and of Salt.

use super::cx::Cx;
use super::error::{Error, ErrorKind};
use super::run::{Namespace, ShowFullContext};
use super::value::{Args, Dict, DictKind, Obj, Object, Range};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Maximum length of a range (`jinja2.sandbox.MAX_RANGE`).
const MAX_RANGE: usize = 100_000;

type Function = fn(&mut Cx, &Args) -> Result<Obj, Error>;

/// A built-in function.
struct Builtin {
    name: &'static str,
    function: Function,
}

impl Object for Builtin {
    fn type_name(&self) -> &str {
        match self.name {
            "range" | "dict" | "namespace" | "cycler" | "joiner" | "odict" => "type",
            _ => "function",
        }
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
        (self.function)(cx, args)
    }

    fn repr(&self) -> String {
        match self.name {
            "range" => "<function safe_range>".to_owned(),
            "dict" => "<class 'dict'>".to_owned(),
            "odict" => "<class 'collections.OrderedDict'>".to_owned(),
            "namespace" => "<class 'jinja2.utils.Namespace'>".to_owned(),
            "cycler" => "<class 'jinja2.utils.Cycler'>".to_owned(),
            "joiner" => "<class 'jinja2.utils.Joiner'>".to_owned(),
            name => format!("<function {name}>"),
        }
    }
}

/// The built-in functions by name.
pub fn builtins() -> HashMap<Rc<str>, Obj> {
    let functions: [(&'static str, Function); 8] = [
        ("range", range),
        ("dict", dict),
        ("namespace", namespace),
        ("cycler", cycler),
        ("joiner", joiner),
        ("raise", raise),
        ("odict", odict),
        ("lipsum", lipsum),
    ];
    let mut vars: HashMap<Rc<str>, Obj> = functions
        .into_iter()
        .map(|(name, function)| (Rc::from(name), Obj::native(Builtin { name, function })))
        .collect();
    vars.insert("show_full_context".into(), Obj::native(ShowFullContext));
    vars
}

fn integer(value: &Obj) -> Result<i64, Error> {
    match value {
        Obj::Undefined(missing) => Err(missing.error()),
        Obj::Big(_) => Err(Error::new(
            ErrorKind::Overflow,
            "Python int too large to convert to C ssize_t",
        )),
        other => other.as_int().ok_or_else(|| {
            Error::type_error(format!(
                "'{}' object cannot be interpreted as an integer",
                other.type_name()
            ))
        }),
    }
}

fn range(_cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    if !args.keyword.is_empty() {
        return Err(Error::type_error("range() takes no keyword arguments"));
    }
    let numbers = args.positional.iter().map(integer);
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    let (start, stop, step) = match *numbers.as_slice() {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, step] => (start, stop, step),
        [] => {
            return Err(Error::type_error(
                "range expected at least 1 argument, got 0",
            ));
        }
        _ => {
            return Err(Error::type_error(format!(
                "range expected at most 3 arguments, got {}",
                numbers.len()
            )));
        }
    };
    if step == 0 {
        return Err(Error::value_error("range() arg 3 must not be zero"));
    }
    let range = Range { start, stop, step };
    if range.len() > MAX_RANGE {
        return Err(Error::new(
            ErrorKind::Overflow,
            format!(
                "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({MAX_RANGE})."
            ),
        ));
    }
    Ok(Obj::Range(Rc::new(range)))
}

fn filled(cx: &mut Cx, args: &Args, kind: DictKind, name: &str) -> Result<Dict, Error> {
    let mut dict = Dict::new();
    dict.kind = kind;
    match args.positional.as_slice() {
        [] => {}
        [Obj::Dict(other)] => {
            let other = other.borrow();
            cx.charge(other.len())?;
            for (key, value) in other.iter() {
                dict.insert(key.clone(), value.clone())?;
            }
        }
        [pairs] => {
            for (n, pair) in cx.iterate(pairs)?.iter().enumerate() {
                let pair = cx.iterate(pair).map_err(|_| {
                    Error::type_error(format!(
                        "cannot convert dictionary update sequence element #{n} to a sequence"
                    ))
                })?;
                let [key, value] = pair.as_slice() else {
                    return Err(Error::value_error(format!(
                        "dictionary update sequence element #{n} has length {}; 2 is required",
                        pair.len()
                    )));
                };
                dict.insert(key.clone(), value.clone())?;
            }
        }
        more => {
            return Err(Error::type_error(format!(
                "{name} expected at most 1 argument, got {}",
                more.len()
            )));
        }
    }
    for (key, value) in &args.keyword {
        dict.set_str(key, value.clone());
    }
    Ok(dict)
}

fn dict(cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    Ok(Obj::dict(filled(cx, args, DictKind::Plain, "dict")?))
}

fn odict(cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    Ok(Obj::dict(filled(
        cx,
        args,
        DictKind::Ordered,
        "OrderedDict",
    )?))
}

fn namespace(cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    let dict = filled(cx, args, DictKind::Plain, "dict")?;
    Ok(Obj::native(Namespace::new(dict)))
}

fn raise(_cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("jinja_raise", &["msg"], 1)?;
    let message = match bound.first() {
        Some(Some(message)) => message.to_str()?,
        _ => String::new(),
    };
    Err(Error::new(ErrorKind::Raised, message))
}

/// Filler text; unlike Jinja's, the same text every time.
fn lipsum(cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    const TEXT: &str = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod \
                        tempor incididunt ut labore et dolore magna aliqua.";
    let bound = args.bind("generate_lorem_ipsum", &["n", "html", "min", "max"])?;
    let number = match bound.first() {
        Some(Some(n)) => usize::try_from(integer(n)?).unwrap_or(0),
        _ => 5,
    };
    let html = match bound.get(1) {
        Some(Some(html)) => html.truthy()?,
        _ => true,
    };
    cx.check_size(number.saturating_mul(TEXT.len() + 8))?;
    let paragraphs = std::iter::repeat_n(TEXT, number);
    Ok(if html {
        let paragraphs: Vec<String> = paragraphs.map(|text| format!("<p>{text}</p>")).collect();
        Obj::Markup(paragraphs.join("\n").into())
    } else {
        Obj::from(paragraphs.collect::<Vec<_>>().join("\n\n"))
    })
}

fn cycler(_cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    if args.positional.is_empty() {
        return Err(Error::runtime("at least one item has to be provided"));
    }
    Ok(Obj::native(Cycler {
        items: args.positional.clone(),
        at: Cell::new(0),
    }))
}

/// `cycler(...)`.
struct Cycler {
    items: Vec<Obj>,
    at: Cell<usize>,
}

impl Object for Cycler {
    fn type_name(&self) -> &str {
        "Cycler"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.utils")
    }

    fn get_attr(&self, _cx: &mut Cx, name: &str) -> Result<Option<Obj>, Error> {
        Ok(match name {
            "current" => self.items.get(self.at.get()).cloned(),
            "items" => Some(Obj::tuple(self.items.clone())),
            "pos" => Some(Obj::from(self.at.get())),
            _ => None,
        })
    }

    fn call_method(&self, _cx: &mut Cx, name: &str, _args: &Args) -> Result<Option<Obj>, Error> {
        Ok(match name {
            "next" => {
                let current = self.items.get(self.at.get()).cloned();
                self.at.set((self.at.get() + 1) % self.items.len().max(1));
                current
            }
            "reset" => {
                self.at.set(0);
                Some(Obj::None)
            }
            _ => None,
        })
    }
}

impl Drop for Cycler {
    fn drop(&mut self) {
        super::value::drop_all(std::mem::take(&mut self.items));
    }
}

fn joiner(_cx: &mut Cx, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("Joiner", &["sep"])?;
    let separator = match bound.into_iter().next() {
        Some(Some(separator)) => separator,
        _ => Obj::from(", "),
    };
    Ok(Obj::native(Joiner {
        separator: RefCell::new(separator),
        used: Cell::new(false),
    }))
}

/// `joiner(...)`: empty the first time, then the separator.
struct Joiner {
    separator: RefCell<Obj>,
    used: Cell<bool>,
}

impl Object for Joiner {
    fn type_name(&self) -> &str {
        "Joiner"
    }

    fn module(&self) -> Option<&str> {
        Some("jinja2.utils")
    }

    fn callable(&self) -> bool {
        true
    }

    fn call(&self, _cx: &mut Cx, _args: &Args) -> Result<Obj, Error> {
        if self.used.replace(true) {
            return Ok(self.separator.borrow().clone());
        }
        Ok(Obj::from(""))
    }
}

impl Drop for Joiner {
    fn drop(&mut self) {
        super::value::drop_all(vec![std::mem::replace(self.separator.get_mut(), Obj::None)]);
    }
}
