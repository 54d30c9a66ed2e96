//! Methods of text: searching, padding, predicates, encoding.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::format;
use super::super::value::{Args, Dict, Obj};
use super::{Table, bounds, integer, positional, receiver, size};
use halite_wire::pytext::{is_printable, is_space};
use std::rc::Rc;

pub(super) const TABLE: Table = &[
    ("center", center),
    ("count", count),
    ("encode", encode),
    ("endswith", endswith),
    ("expandtabs", expandtabs),
    ("find", find),
    ("format", format_),
    ("format_map", format_map),
    ("index", index),
    ("isalnum", |_, v, a| {
        question("isalnum", v, a, char::is_alphanumeric)
    }),
    ("isalpha", |_, v, a| {
        question("isalpha", v, a, char::is_alphabetic)
    }),
    ("isascii", isascii),
    ("isdecimal", |_, v, a| {
        question("isdecimal", v, a, is_decimal)
    }),
    ("isdigit", |_, v, a| question("isdigit", v, a, is_digit)),
    ("isidentifier", isidentifier),
    ("isnumeric", |_, v, a| {
        question("isnumeric", v, a, char::is_numeric)
    }),
    ("isprintable", isprintable),
    ("isspace", |_, v, a| question("isspace", v, a, is_space)),
    ("ljust", ljust),
    ("lstrip", |_, v, a| strip("lstrip", v, a, true, false)),
    ("maketrans", maketrans),
    ("removeprefix", removeprefix),
    ("removesuffix", removesuffix),
    ("replace", replace),
    ("rfind", rfind),
    ("rindex", rindex),
    ("rjust", rjust),
    ("rstrip", |_, v, a| strip("rstrip", v, a, false, true)),
    ("startswith", startswith),
    ("strip", |_, v, a| strip("strip", v, a, true, true)),
    ("translate", translate),
    ("zfill", zfill),
];

/// Whether text is split into lines at this character.
pub fn is_line_break(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// `text.splitlines(keep_ends)`.
pub fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(is_line_break).unwrap_or(rest.len());
        let after = &rest[end..];
        let width = match after.strip_prefix("\r\n") {
            Some(_) => 2,
            None => after.chars().next().map_or(0, char::len_utf8),
        };
        lines.push(if keep_ends {
            &rest[..end + width]
        } else {
            &rest[..end]
        });
        rest = &rest[end + width..];
    }
    lines
}

fn text_argument(obj: &Obj) -> Result<&str, Error> {
    obj.as_str()
        .ok_or_else(|| Error::type_error(format!("must be str, not {}", obj.type_name())))
}

/// The part of the text between `start` and `end` (in characters), and the number of characters before it.
fn part<'a>(text: &'a str, args: &[Obj]) -> Result<Option<(&'a str, usize)>, Error> {
    if args.len() < 2 {
        return Ok(Some((text, 0)));
    }
    let length = text.chars().count();
    let (start, end) = bounds(args, 1, length)?;
    if start > end || start > length {
        return Ok(None);
    }
    let offset = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    Ok(Some((&text[offset(start)..offset(end)], start)))
}

fn position(name: &str, value: &Obj, args: &Args, last: bool) -> Result<Option<usize>, Error> {
    let args = positional(name, args, 1, 3)?;
    let wanted = text_argument(&args[0])?;
    let Some((part, before)) = part(receiver(value), args)? else {
        return Ok(None);
    };
    let at = if last {
        part.rfind(wanted)
    } else {
        part.find(wanted)
    };
    Ok(at.map(|at| before + part[..at].chars().count()))
}

fn found(at: Option<usize>) -> Obj {
    at.map_or(Obj::Int(-1), Obj::from)
}

fn must_be_found(at: Option<usize>) -> Result<Obj, Error> {
    at.map(Obj::from)
        .ok_or_else(|| Error::value_error("substring not found"))
}

fn find(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    Ok(found(position("find", value, args, false)?))
}

fn rfind(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    Ok(found(position("rfind", value, args, true)?))
}

fn index(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    must_be_found(position("index", value, args, false)?)
}

fn rindex(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    must_be_found(position("rindex", value, args, true)?)
}

fn count(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("count", args, 1, 3)?;
    let wanted = text_argument(&args[0])?;
    let Some((part, _)) = part(receiver(value), args)? else {
        return Ok(Obj::Int(0));
    };
    Ok(if wanted.is_empty() {
        (part.chars().count() + 1).into()
    } else {
        part.matches(wanted).count().into()
    })
}

fn edge(name: &str, value: &Obj, args: &Args, at: fn(&str, &str) -> bool) -> Result<Obj, Error> {
    let args = positional(name, args, 1, 3)?;
    let part = part(receiver(value), args)?;
    let tried = |obj: &Obj, of: &str| match obj.as_str() {
        Some(wanted) => Ok(part.is_some_and(|(part, _)| at(part, wanted))),
        None => Err(Error::type_error(format!(
            "{name} first arg must be str or a tuple of str, not {of}"
        ))),
    };
    let Obj::Tuple(choices) = &args[0] else {
        return tried(&args[0], args[0].type_name()).map(Obj::Bool);
    };
    for choice in choices.iter() {
        if choice.as_str().is_none() {
            return Err(Error::type_error(format!(
                "tuple for {name} must only contain str, not {}",
                choice.type_name()
            )));
        }
        if tried(choice, "")? {
            return Ok(Obj::Bool(true));
        }
    }
    Ok(Obj::Bool(false))
}

fn startswith(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    edge("startswith", value, args, |text, start| {
        text.starts_with(start)
    })
}

fn endswith(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    edge("endswith", value, args, |text, end| text.ends_with(end))
}

fn fill(args: &[Obj]) -> Result<char, Error> {
    let Some(obj) = args.get(1) else {
        return Ok(' ');
    };
    let Some(text) = obj.as_str() else {
        return Err(Error::type_error(format!(
            "The fill character must be a unicode character, not {}",
            obj.type_name()
        )));
    };
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => Ok(c),
        _ => Err(Error::type_error(
            "The fill character must be exactly one character long",
        )),
    }
}

/// Text with `left` and `right` fill characters.
fn padded(
    cx: &mut Cx,
    name: &str,
    value: &Obj,
    args: &Args,
    split: fn(missing: usize, width: usize) -> (usize, usize),
) -> Result<Obj, Error> {
    let args = positional(name, args, 1, 2)?;
    let width = size(&args[0])?;
    let fill = fill(args)?;
    cx.check_size(width)?;
    let text = receiver(value);
    let missing = width.saturating_sub(text.chars().count());
    let (left, right) = split(missing, width);
    let pad = |count: usize| fill.to_string().repeat(count);
    Ok(format!("{}{text}{}", pad(left), pad(right)).into())
}

fn center(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    padded(cx, "center", value, args, |missing, width| {
        // If both are odd, the odd one goes to the left, as in CPython.
        let left = missing / 2 + (missing & width & 1);
        (left, missing - left)
    })
}

fn ljust(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    padded(cx, "ljust", value, args, |missing, _| (0, missing))
}

fn rjust(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    padded(cx, "rjust", value, args, |missing, _| (missing, 0))
}

fn zfill(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let width = size(&positional("str.zfill", args, 1, 1)?[0])?;
    cx.check_size(width)?;
    let text = receiver(value);
    let zeros = "0".repeat(width.saturating_sub(text.chars().count()));
    let sign = text.len() - text.strip_prefix(['+', '-']).unwrap_or(text).len();
    let (sign, digits) = text.split_at(sign);
    Ok(format!("{sign}{zeros}{digits}").into())
}

fn strip(name: &str, value: &Obj, args: &Args, left: bool, right: bool) -> Result<Obj, Error> {
    let args = positional(name, args, 0, 1)?;
    let text = receiver(value);
    let chars = match args.first() {
        None | Some(Obj::None) => None,
        Some(obj) => Some(
            obj.as_str()
                .ok_or_else(|| Error::type_error(format!("{name} arg must be None or str")))?,
        ),
    };
    let drop = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let text = if left {
        text.trim_start_matches(drop)
    } else {
        text
    };
    let text = if right {
        text.trim_end_matches(drop)
    } else {
        text
    };
    Ok(text.into())
}

fn replace(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("replace", args, 2, 3)?;
    let part = |n: usize| {
        args[n].as_str().ok_or_else(|| {
            Error::type_error(format!(
                "replace() argument {} must be str, not {}",
                n + 1,
                args[n].type_name()
            ))
        })
    };
    let count = args.get(2).map_or(Ok(-1), integer)?;
    replaced(cx, receiver(value), part(0)?, part(1)?, count).map(Obj::from)
}

/// `text.replace(old, new, count)`; a negative count means no limit.
pub fn replaced(
    cx: &mut Cx,
    text: &str,
    old: &str,
    new: &str,
    count: i64,
) -> Result<String, Error> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let places = if old.is_empty() {
        text.chars().count() + 1
    } else {
        text.matches(old).count()
    };
    let places = places.min(count);
    cx.check_size(text.len().saturating_add(places.saturating_mul(new.len())))?;
    Ok(text.replacen(old, new, places))
}

fn removeprefix(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("str.removeprefix", args, 1, 1)?;
    let text = receiver(value);
    Ok(text
        .strip_prefix(text_argument(&args[0])?)
        .unwrap_or(text)
        .into())
}

fn removesuffix(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("str.removesuffix", args, 1, 1)?;
    let text = receiver(value);
    Ok(text
        .strip_suffix(text_argument(&args[0])?)
        .unwrap_or(text)
        .into())
}

fn expandtabs(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("expandtabs", &["tabsize"])?;
    let stop = bound[0].as_ref().map_or(Ok(8), size)?;
    cx.check_size(receiver(value).len().saturating_mul(stop.max(1)))?;
    let (mut out, mut column) = (String::new(), 0);
    for c in receiver(value).chars() {
        match c {
            '\t' if stop > 0 => {
                let missing = stop - column % stop;
                out.push_str(&" ".repeat(missing));
                column += missing;
            }
            '\t' => {}
            c => {
                out.push(c);
                column = if matches!(c, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    Ok(out.into())
}

fn question(name: &str, value: &Obj, args: &Args, is: fn(char) -> bool) -> Result<Obj, Error> {
    positional(&format!("str.{name}"), args, 0, 0)?;
    let text = receiver(value);
    Ok(Obj::Bool(!text.is_empty() && text.chars().all(is)))
}

/// Whether it is a decimal digit of any script (category Nd).
fn is_decimal(c: char) -> bool {
    thread_local! {
        static DECIMAL: Option<regex::Regex> = regex::Regex::new(r"^\p{Nd}$").ok();
    }
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    let mut buffer = [0; 4];
    let text = c.encode_utf8(&mut buffer);
    DECIMAL.with(|decimal| decimal.as_ref().is_some_and(|d| d.is_match(text)))
}

fn is_digit(c: char) -> bool {
    is_decimal(c)
        || matches!(c, '²' | '³' | '¹' | '⁰' | '⁴'..='⁹' | '₀'..='₉' | '①'..='⑨' | '⓪'
            | '⑴'..='⑼' | '⒈'..='⒐' | '❶'..='❾' | '➀'..='➈' | '➊'..='➒')
}

fn isascii(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    positional("str.isascii", args, 0, 0)?;
    Ok(Obj::Bool(receiver(value).is_ascii()))
}

fn isprintable(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    positional("str.isprintable", args, 0, 0)?;
    Ok(Obj::Bool(receiver(value).chars().all(is_printable)))
}

fn isidentifier(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    positional("str.isidentifier", args, 0, 0)?;
    let mut chars = receiver(value).chars();
    let first = chars.next().is_some_and(|c| c == '_' || c.is_alphabetic());
    Ok(Obj::Bool(
        first && chars.all(|c| c == '_' || c.is_alphanumeric()),
    ))
}

fn format_(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    format::str_format(cx, receiver(value), args).map(Obj::from)
}

fn format_map(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("format_map", args, 1, 1)?;
    let Obj::Dict(dict) = &args[0] else {
        return Err(Error::type_error("format_map() wants a dict"));
    };
    let mut named = Args::default();
    for (key, item) in dict.borrow().iter() {
        if let Some(key) = key.as_shared_str() {
            named.push_named(key.clone(), item.clone());
        }
    }
    format::str_format(cx, receiver(value), &named).map(Obj::from)
}

/// `text.encode(encoding, errors)`.
pub fn encoded(text: &str, encoding: &str, errors: &str) -> Result<Vec<u8>, Error> {
    let name = encoding.to_lowercase().replace(['_', ' '], "-");
    let (limit, codec) = match name.as_str() {
        "utf-8" | "utf8" | "u8" => return Ok(text.as_bytes().to_vec()),
        "ascii" | "us-ascii" => (128, "ascii"),
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1" => (256, "latin-1"),
        _ => {
            return Err(Error::new(
                ErrorKind::Other,
                format!("unknown encoding: {encoding}"),
            ));
        }
    };
    let mut out = Vec::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        let code = c as u32;
        match (u8::try_from(code), errors) {
            (Ok(byte), _) if code < limit => out.push(byte),
            (_, "ignore") => {}
            (_, "replace") => out.push(b'?'),
            _ => {
                let shown = match code {
                    ..0x100 => format!("\\x{code:02x}"),
                    0x100..0x1_0000 => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                };
                return Err(Error::value_error(format!(
                    "'{codec}' codec can't encode character '{shown}' in position {at}: \
                     ordinal not in range({limit})"
                )));
            }
        }
    }
    Ok(out)
}

fn encode(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("encode", &["encoding", "errors"])?;
    let text = |n: usize, default: &'static str| match &bound[n] {
        None => Ok(Rc::from(default)),
        Some(obj) => obj.as_shared_str().cloned().ok_or_else(|| {
            Error::type_error(format!(
                "encode() argument '{}' must be str, not {}",
                ["encoding", "errors"][n],
                obj.type_name()
            ))
        }),
    };
    let bytes = encoded(receiver(value), &text(0, "utf-8")?, &text(1, "strict")?)?;
    Ok(Obj::Bytes(bytes.into()))
}

fn maketrans(_: &mut Cx, _: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("maketrans", args, 1, 3)?;
    let mut table = Dict::new();
    let code = |c: char| Obj::Int(i64::from(c as u32));
    if let [Obj::Dict(dict)] = args {
        for (key, item) in dict.borrow().iter() {
            let key = match key.as_str().and_then(|text| text.chars().next()) {
                Some(c) => code(c),
                None => key.clone(),
            };
            table.insert(key, item.clone())?;
        }
        return Ok(table.into());
    }
    let (Some(from), Some(to)) = (args[0].as_str(), args.get(1).and_then(Obj::as_str)) else {
        return Err(Error::type_error(
            "if you give only one argument to maketrans it must be a dict",
        ));
    };
    if from.chars().count() != to.chars().count() {
        return Err(Error::value_error(
            "the first two maketrans arguments must have equal length",
        ));
    }
    for (a, b) in from.chars().zip(to.chars()) {
        table.insert(code(a), code(b))?;
    }
    for c in args
        .get(2)
        .and_then(Obj::as_str)
        .unwrap_or_default()
        .chars()
    {
        table.insert(code(c), Obj::None)?;
    }
    Ok(table.into())
}

fn translate(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("str.translate", args, 1, 1)?;
    let Obj::Dict(table) = &args[0] else {
        return Err(Error::type_error(format!(
            "'{}' object is not subscriptable",
            args[0].type_name()
        )));
    };
    let table = table.borrow();
    let mut out = String::new();
    for c in receiver(value).chars() {
        match table.get(&Obj::Int(i64::from(c as u32)))? {
            None => out.push(c),
            Some(Obj::None) => {}
            Some(other) => match (other.as_str(), other.as_int()) {
                (Some(text), _) => out.push_str(text),
                (_, Some(code)) => {
                    out.extend(u32::try_from(code).ok().and_then(char::from_u32));
                }
                _ => {
                    return Err(Error::type_error(
                        "character mapping must return integer, None or str",
                    ));
                }
            },
        }
        cx.check_size(out.len())?;
    }
    Ok(out.into())
}
