//! Filters for text.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::format;
use super::super::methods::{capitalize, split_lines};
use super::super::value::{Args, Obj};
use super::{FilterFn, flag, integer, required, text_of};
use halite_wire::pytext::is_space;
use std::rc::Rc;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("capitalize", |_, v, a| {
        changed("do_capitalize", v, a, capitalize)
    }),
    ("center", center),
    ("d", default),
    ("default", default),
    ("format", format_),
    ("indent", indent),
    ("lower", |_, v, a| {
        changed("do_lower", v, a, str::to_lowercase)
    }),
    ("replace", replace),
    ("string", string),
    ("title", |_, v, a| changed("do_title", v, a, title)),
    ("trim", trim),
    ("truncate", truncate),
    ("upper", |_, v, a| {
        changed("do_upper", v, a, str::to_uppercase)
    }),
    ("urlencode", urlencode),
    ("wordcount", wordcount),
];

/// `markupsafe.soft_str`: text unchanged, anything else converted by `str()`.
fn soft(value: &Obj) -> Result<Rc<str>, Error> {
    match value {
        Obj::Str(text) | Obj::Markup(text) => Ok(text.clone()),
        other => Ok(other.to_str()?.into()),
    }
}

/// A text that is markup if the value was.
fn like(value: &Obj, text: String) -> Obj {
    match value {
        Obj::Markup(_) => Obj::Markup(text.into()),
        _ => text.into(),
    }
}

fn changed(name: &str, value: &Obj, args: &Args, change: fn(&str) -> String) -> Result<Obj, Error> {
    args.bind(name, &[])?;
    Ok(like(value, change(&soft(value)?)))
}

fn string(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("soft_str", &[])?;
    match value {
        Obj::Str(_) | Obj::Markup(_) => Ok(value.clone()),
        other => Ok(other.to_str()?.into()),
    }
}

fn default(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_default", &["default_value", "boolean"])?;
    let replaced = value.is_undefined() || (flag(&bound[1], false)? && !value.truthy()?);
    if replaced {
        Ok(bound[0].clone().unwrap_or_else(|| "".into()))
    } else {
        Ok(value.clone())
    }
}

/// Words start after white space, a hyphen or an opening bracket.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut start = true;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let separator = |c: char| is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
        if separator(c) {
            out.push(c);
            start = true;
            rest = &rest[c.len_utf8()..];
            continue;
        }
        if start {
            out.extend(c.to_uppercase());
            start = false;
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let end = rest.find(separator).unwrap_or(rest.len());
        out.push_str(&rest[..end].to_lowercase());
        rest = &rest[end..];
    }
    out
}

fn center(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_center", &["width"])?;
    let width = Obj::Int(integer(&bound[0], 80)?);
    let text = match value {
        Obj::Markup(_) => value.clone(),
        other => soft(other)?.into(),
    };
    cx.call_method(&text, "center", &Args::positional([width]))
}

fn format_(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    if !args.positional.is_empty() && !args.keyword.is_empty() {
        return Err(Error::filter_argument(
            "can't handle positional and keyword arguments at the same time",
        ));
    }
    let named = super::super::value::Dict::from_iter(args.keyword.iter().cloned());
    let values = if args.keyword.is_empty() {
        Obj::tuple(args.positional.clone())
    } else {
        named.into()
    };
    let text = soft(value)?;
    Ok(like(value, format::percent(cx, &text, &values)?))
}

fn indent(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_indent", &["width", "first", "blank"])?;
    let indention = match bound[0].as_ref().and_then(Obj::as_str) {
        Some(text) => text.to_owned(),
        None => {
            let width = usize::try_from(integer(&bound[0], 4)?).unwrap_or(0);
            cx.check_size(width)?;
            " ".repeat(width)
        }
    };
    let (first, blank) = (flag(&bound[1], false)?, flag(&bound[2], false)?);
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let Some(text) = value.as_str() else {
        return Err(Error::type_error(match value {
            Obj::List(_) => "'str' object cannot be interpreted as an integer".to_owned(),
            other => format!(
                "unsupported operand type(s) for +=: '{}' and 'str'",
                other.type_name()
            ),
        }));
    };
    // As in Jinja: the added line break preserves the last line if the text ends with a line break.
    let text = format!("{text}\n");
    let lines = split_lines(&text, false);
    cx.check_size(text.len() + lines.len() * indention.len())?;
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        let wanted = match n {
            0 => first,
            _ => blank || !line.is_empty(),
        };
        if wanted {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(like(value, out))
}

fn replace(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("do_replace", &["old", "new", "count"], 2)?;
    let count = match &bound[2] {
        Some(Obj::None) => -1,
        other => integer(other, -1)?,
    };
    let (old, new) = (required(&bound[0]), required(&bound[1]));
    if cx.autoescape() {
        let text = match (value, &old, &new) {
            (Obj::Markup(_), ..) => value.clone(),
            (_, Obj::Markup(_), _) | (_, _, Obj::Markup(_)) => {
                Obj::Markup(super::markup::escaped(value)?)
            }
            _ => soft(value)?.into(),
        };
        return cx.call_method(
            &text,
            "replace",
            &Args::positional([old, new, Obj::Int(count)]),
        );
    }
    let text = soft(value)?;
    let args = Args::positional([soft(&old)?.into(), soft(&new)?.into(), Obj::Int(count)]);
    cx.call_method(&text.into(), "replace", &args)
}

fn trim(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("do_trim", &["chars"])?;
    let text = match value {
        Obj::Markup(_) => value.clone(),
        other => soft(other)?.into(),
    };
    let chars = bound[0].clone().unwrap_or(Obj::None);
    cx.call_method(&text, "strip", &Args::positional([chars]))
}

fn truncate(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = ["length", "killwords", "end", "leeway"];
    let bound = args.bind("do_truncate", &names)?;
    let length = integer(&bound[0], 255)?;
    let kill = flag(&bound[1], false)?;
    let end = bound[2].clone().unwrap_or_else(|| "...".into());
    let leeway = match &bound[3] {
        Some(Obj::None) => 5,
        other => integer(other, 5)?,
    };
    let end_length = end.length()? as i64;
    if length < end_length {
        return Err(Error::new(
            ErrorKind::Other,
            format!("expected length >= {end_length}, got {length}"),
        ));
    }
    if leeway < 0 {
        return Err(Error::new(
            ErrorKind::Other,
            format!("expected leeway >= 0, got {leeway}"),
        ));
    }
    if value.length()? as i64 <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let text = text_of(value)?;
    let kept = usize::try_from(length - end_length).unwrap_or(0);
    let kept: String = text.chars().take(kept).collect();
    let kept = if kill {
        kept.as_str()
    } else {
        kept.rsplit_once(' ')
            .map_or(kept.as_str(), |(words, _)| words)
    };
    Ok(like(value, format!("{kept}{}", text_of(&end)?)))
}

fn wordcount(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_wordcount", &[])?;
    let text = soft(value)?;
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    Ok(words.filter(|word| !word.is_empty()).count().into())
}

/// `urllib.parse.quote`; in a query, slashes are quoted and spaces become plus signs.
fn quoted(value: &Obj, query: bool) -> Result<String, Error> {
    let bytes = match value {
        Obj::Bytes(bytes) => bytes.to_vec(),
        other => soft(other)?.as_bytes().to_vec(),
    };
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push(byte as char);
            }
            b'/' if !query => out.push('/'),
            b' ' if query => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    Ok(out)
}

fn urlencode(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("do_urlencode", &[])?;
    let pairs = match value {
        Obj::Dict(dict) => {
            let dict = dict.borrow();
            let pairs = dict
                .iter()
                .map(|(k, v)| Obj::tuple(vec![k.clone(), v.clone()]));
            pairs.collect()
        }
        Obj::Str(_) | Obj::Markup(_) | Obj::Undefined(_) => return Ok(quoted(value, false)?.into()),
        other => match cx.iterate(other) {
            Ok(items) => items,
            Err(_) => return Ok(quoted(value, false)?.into()),
        },
    };
    let mut parts = Vec::new();
    for pair in &pairs {
        let pair = cx.iterate(pair)?;
        let [key, item] = pair.as_slice() else {
            return Err(Error::value_error(match pair.len() {
                n @ ..2 => format!("not enough values to unpack (expected 2, got {n})"),
                _ => "too many values to unpack (expected 2)".to_owned(),
            }));
        };
        parts.push(format!("{}={}", quoted(key, true)?, quoted(item, true)?));
    }
    Ok(parts.join("&").into())
}
