//! Methods of text: splitting and joining.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::value::{Args, Obj};
use super::{Table, integer, positional, receiver, split_lines};
use halite_wire::pytext::is_space;

pub(super) const TABLE: Table = &[
    ("join", join),
    ("partition", partition),
    ("rpartition", rpartition),
    ("rsplit", rsplit),
    ("split", split),
    ("splitlines", splitlines),
];

/// Separator and limit of `split`; the maximum means no limit.
fn how(name: &str, args: &Args) -> Result<(Option<String>, usize), Error> {
    let bound = args.bind(name, &["sep", "maxsplit"])?;
    let separator = match &bound[0] {
        None | Some(Obj::None) => None,
        Some(obj) => match obj.as_str() {
            Some("") => return Err(Error::value_error("empty separator")),
            Some(text) => Some(text.to_owned()),
            None => {
                return Err(Error::type_error(format!(
                    "must be str or None, not {}",
                    obj.type_name()
                )));
            }
        },
    };
    let most = bound[1].as_ref().map_or(Ok(-1), integer)?;
    Ok((separator, usize::try_from(most).unwrap_or(usize::MAX)))
}

fn texts<'a>(cx: &mut Cx, parts: impl Iterator<Item = &'a str>) -> Result<Obj, Error> {
    let parts: Vec<Obj> = parts.map(Obj::from).collect();
    cx.check_size(parts.len())?;
    Ok(Obj::list(parts))
}

fn split(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let (separator, most) = how("split", args)?;
    let text = receiver(value);
    if let Some(separator) = separator {
        return texts(cx, text.splitn(most.saturating_add(1), &separator));
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() && parts.len() < most {
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    texts(cx, parts.into_iter())
}

fn rsplit(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let (separator, most) = how("rsplit", args)?;
    let text = receiver(value);
    if let Some(separator) = separator {
        let mut parts: Vec<&str> = text
            .rsplitn(most.saturating_add(1), separator.as_str())
            .collect();
        parts.reverse();
        return texts(cx, parts.into_iter());
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() && parts.len() < most {
        let last = rest.char_indices().rev().find(|(_, c)| is_space(*c));
        let start = last.map_or(0, |(at, c)| at + c.len_utf8());
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    if !rest.is_empty() {
        parts.push(rest);
    }
    parts.reverse();
    texts(cx, parts.into_iter())
}

fn splitlines(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("splitlines", &["keepends"])?;
    let keep = bound[0].as_ref().map_or(Ok(false), Obj::truthy)?;
    texts(cx, split_lines(receiver(value), keep).into_iter())
}

fn parted(name: &str, value: &Obj, args: &Args, last: bool) -> Result<Obj, Error> {
    let args = positional(&format!("str.{name}"), args, 1, 1)?;
    let separator = match args[0].as_str() {
        Some("") => return Err(Error::value_error("empty separator")),
        Some(text) => text,
        None => {
            return Err(Error::type_error(format!(
                "must be str, not {}",
                args[0].type_name()
            )));
        }
    };
    let text = receiver(value);
    let found = if last {
        text.rsplit_once(separator)
    } else {
        text.split_once(separator)
    };
    let parts = match (found, last) {
        (Some((before, after)), _) => [before, separator, after],
        (None, false) => [text, "", ""],
        (None, true) => ["", "", text],
    };
    Ok(Obj::tuple(parts.map(Obj::from).to_vec()))
}

fn partition(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    parted("partition", value, args, false)
}

fn rpartition(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    parted("rpartition", value, args, true)
}

fn join(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let args = positional("str.join", args, 1, 1)?;
    let items = match cx.iterate(&args[0]) {
        Ok(items) => items,
        Err(error) if args[0].is_undefined() => return Err(error),
        Err(_) => return Err(Error::type_error("can only join an iterable")),
    };
    let mut out = String::new();
    for (n, item) in items.iter().enumerate() {
        let Some(text) = item.as_str() else {
            return Err(Error::type_error(format!(
                "sequence item {n}: expected str instance, {} found",
                item.type_name()
            )));
        };
        if n > 0 {
            out.push_str(receiver(value));
        }
        out.push_str(text);
        cx.check_size(out.len())?;
    }
    Ok(out.into())
}
