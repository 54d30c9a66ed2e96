//! Escaping for HTML, and text marked as safe (`markupsafe`).

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::escape;
use super::super::value::{Args, Obj, quote};
use super::{FilterFn, flag};
use std::rc::Rc;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("e", escape_),
    ("escape", escape_),
    ("forceescape", forceescape),
    ("safe", safe),
    ("striptags", striptags),
    ("xmlattr", xmlattr),
];

/// `markupsafe.escape(value)`.
///
/// # Errors
/// A strict undefined value.
pub fn escaped(value: &Obj) -> Result<Rc<str>, Error> {
    match value {
        Obj::Markup(text) => Ok(text.clone()),
        other => Ok(escape(&other.to_str()?).into()),
    }
}

/// Marks the texts in a result of a markup method as markup.
pub fn as_markup(value: Obj) -> Obj {
    match value {
        Obj::Str(text) => Obj::Markup(text),
        Obj::List(list) => {
            let items = list.borrow().iter().cloned().map(as_markup).collect();
            Obj::list(items)
        }
        Obj::Tuple(items) => Obj::tuple(items.iter().cloned().map(as_markup).collect()),
        other => other,
    }
}

/// Escapes the arguments of a markup method that end up in the result.
pub fn escaped_args(cx: &mut Cx, args: &Args, method: &str) -> Result<Args, Error> {
    if !matches!(
        method,
        "join" | "replace" | "format" | "format_map" | "center" | "ljust" | "rjust"
    ) {
        return Ok(args.clone());
    }
    let one = |item: &Obj| match item {
        Obj::Str(text) => Obj::Markup(escape(text).into()),
        other => other.clone(),
    };
    let mut result = args.clone();
    if method == "join" {
        if let Some(items) = result.positional.first_mut() {
            let parts = cx.iterate(items)?;
            let parts = parts.iter().map(|part| escaped(part).map(Obj::Markup));
            *items = Obj::list(parts.collect::<Result<_, _>>()?);
        }
        return Ok(result);
    }
    result
        .positional
        .iter_mut()
        .for_each(|item| *item = one(item));
    result
        .keyword
        .iter_mut()
        .for_each(|(_, item)| *item = one(item));
    Ok(result)
}

fn escape_(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("escape", &[])?;
    escaped(value).map(Obj::Markup)
}

fn forceescape(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_forceescape", &[])?;
    Ok(Obj::Markup(escape(&value.to_str()?).into()))
}

fn safe(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_mark_safe", &[])?;
    Ok(Obj::Markup(value.to_str()?.into()))
}

/// Removes comments and tags, joins white space and decodes entities (`Markup.striptags`).
fn striptags(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_striptags", &[])?;
    let text = value.to_str()?;
    let text = without(&text, "<!--", "-->");
    let text = without(&text, "<", ">");
    let words: Vec<&str> = halite_wire::pytext::words(&text).collect();
    Ok(unescape(&words.join(" ")).into())
}

fn without(text: &str, open: &str, close: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let Some(end) = rest[start..].find(close) else {
            break;
        };
        out.push_str(&rest[..start]);
        rest = &rest[start + end + close.len()..];
    }
    out + rest
}

/// Named entities that are likely in templates; numeric ones are decoded as well.
const NAMES: &[(&str, char)] = &[
    ("amp", '&'),
    ("apos", '\''),
    ("copy", '©'),
    ("eacute", 'é'),
    ("egrave", 'è'),
    ("euro", '€'),
    ("gt", '>'),
    ("hellip", '…'),
    ("lt", '<'),
    ("mdash", '—'),
    ("nbsp", '\u{a0}'),
    ("ndash", '–'),
    ("quot", '"'),
    ("reg", '®'),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("uuml", 'ü'),
    ("szlig", 'ß'),
];

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let name = rest[1..].split(';').next().unwrap_or_default();
        let found = if rest[1..].len() > name.len() {
            entity(name)
        } else {
            None
        };
        match found {
            Some(c) => {
                out.push(c);
                rest = &rest[name.len() + 2..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

fn entity(name: &str) -> Option<char> {
    let Some(code) = name.strip_prefix('#') else {
        return NAMES.iter().find(|(own, _)| *own == name).map(|(_, c)| *c);
    };
    let code = match code.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => code.parse(),
    };
    code.ok().and_then(char::from_u32)
}

fn xmlattr(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_xmlattr", &["autospace"])?;
    let autospace = flag(&bound[0], true)?;
    let Obj::Dict(dict) = value else {
        if let Obj::Undefined(missing) = value {
            return Err(missing.error());
        }
        return Err(super::no_attribute(value, "items"));
    };
    let mut items = Vec::new();
    for (key, item) in dict.borrow().iter() {
        if item.is_none() || item.is_undefined() {
            continue;
        }
        let name = super::text_of(key)?;
        if name.contains([' ', '\t', '\n', '\x0b', '\x0c', '\r', '/', '>', '=']) {
            return Err(Error::value_error(format!(
                "Invalid character in attribute name: {}",
                quote(name)
            )));
        }
        items.push(format!("{}=\"{}\"", escaped(key)?, escaped(item)?));
    }
    let mut out = items.join(" ");
    if autospace && !out.is_empty() {
        out.insert(0, ' ');
    }
    Ok(if cx.autoescape() {
        Obj::Markup(out.into())
    } else {
        out.into()
    })
}
