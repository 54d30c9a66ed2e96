//! Methods of Python values: `text.split()`, `list.append(x)`, `dict.items()`.

mod bytes;
mod containers;
mod dict;
mod number;
mod text;
mod text_case;
mod text_split;

pub use dict::entries;
pub use text::{encoded, split_lines};
pub use text_case::{capitalize, test_lower, test_upper};

use super::cx::Cx;
use super::error::{Error, ErrorKind};
use super::filters::markup;
use super::value::{Args, Obj};

/// A method: `value.name(*args)`.
type Method = fn(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error>;
/// The methods of one type.
type Table = &'static [(&'static str, Method)];

fn tables(value: &Obj) -> &'static [Table] {
    match value {
        Obj::Str(_) | Obj::Markup(_) => &[text::TABLE, text_case::TABLE, text_split::TABLE],
        Obj::Bytes(_) => &[bytes::TABLE],
        Obj::List(_) => &[containers::LIST],
        Obj::Tuple(_) => &[containers::TUPLE],
        Obj::Set(_) => &[containers::SET],
        Obj::Dict(_) => &[dict::TABLE],
        Obj::Bool(_) | Obj::Int(_) | Obj::Big(_) => &[number::INT],
        Obj::Float(_) => &[number::FLOAT],
        _ => &[],
    }
}

fn find(value: &Obj, name: &str) -> Option<Method> {
    let mut tables = tables(value).iter();
    tables.find_map(|table| {
        let entry = table.iter().find(|(own, _)| *own == name);
        entry.map(|(_, method)| *method)
    })
}

/// The names of a value's methods.
pub fn names(value: &Obj) -> impl Iterator<Item = &'static str> {
    let tables = tables(value).iter();
    tables.flat_map(|table| table.iter().map(|(name, _)| *name))
}

/// Whether values of this type have a method with this name.
pub fn has(value: &Obj, name: &str) -> bool {
    find(value, name).is_some()
}

/// `value.name(*args)`.
///
/// # Errors
/// The method does not exist, the arguments do not match, or it fails.
pub fn call(cx: &mut Cx, value: &Obj, name: &str, args: &Args) -> Result<Obj, Error> {
    let Some(method) = find(value, name) else {
        return Err(Error::new(
            ErrorKind::Attribute,
            format!("'{}' object has no attribute '{name}'", value.type_name()),
        ));
    };
    match value {
        Obj::Markup(text) => {
            let args = markup::escaped_args(cx, args, name)?;
            let result = method(cx, &Obj::Str(text.clone()), &args)?;
            Ok(markup::as_markup(result))
        }
        _ => method(cx, value, args),
    }
}

/// Positional arguments, at least `least` and at most `most` of them.
fn positional<'a>(
    name: &str,
    args: &'a Args,
    least: usize,
    most: usize,
) -> Result<&'a [Obj], Error> {
    if !args.keyword.is_empty() {
        let short = name.rsplit('.').next().unwrap_or(name);
        let shown = if name.starts_with("str.") {
            name
        } else {
            short
        };
        return Err(Error::type_error(format!(
            "{shown}() takes no keyword arguments"
        )));
    }
    let given = args.positional.len();
    if (least..=most).contains(&given) {
        return Ok(&args.positional);
    }
    let short = name.rsplit('.').next().unwrap_or(name);
    Err(Error::type_error(match (least, most) {
        (0, 0) => format!("{name}() takes no arguments ({given} given)"),
        (1, 1) => format!("{name}() takes exactly one argument ({given} given)"),
        (n, m) if n == m => format!("{short} expected {n} arguments, got {given}"),
        (n, _) if given < n => format!(
            "{short} expected at least {n} argument{}, got {given}",
            if n == 1 { "" } else { "s" }
        ),
        (_, m) => format!(
            "{short} expected at most {m} argument{}, got {given}",
            if m == 1 { "" } else { "s" }
        ),
    }))
}

/// The arguments `start` and `end`, clipped like those of a slice.
fn bounds(args: &[Obj], first: usize, length: usize) -> Result<(usize, usize), Error> {
    let at = |obj: Option<&Obj>, default: usize| -> Result<usize, Error> {
        match obj {
            None | Some(Obj::None) => Ok(default),
            Some(obj) => match obj.as_int() {
                Some(i) if i < 0 => Ok(length.saturating_sub(i.unsigned_abs() as usize)),
                Some(i) => Ok(usize::try_from(i).unwrap_or(usize::MAX)),
                None => Err(Error::type_error(
                    "slice indices must be integers or None or have an __index__ method",
                )),
            },
        }
    };
    let start = at(args.get(first), 0)?;
    let end = at(args.get(first + 1), length)?.min(length);
    Ok((start, end))
}

/// An integer argument.
fn integer(obj: &Obj) -> Result<i64, Error> {
    if let Some(i) = obj.as_int() {
        return Ok(i);
    }
    if matches!(obj, Obj::Big(_)) {
        return Err(Error::new(
            ErrorKind::Overflow,
            "Python int too large to convert to C ssize_t",
        ));
    }
    Err(Error::type_error(format!(
        "'{}' object cannot be interpreted as an integer",
        obj.type_name()
    )))
}

/// A length argument; negative values become 0.
fn size(obj: &Obj) -> Result<usize, Error> {
    Ok(usize::try_from(integer(obj)?).unwrap_or(0))
}

/// The text on which a method was called.
fn receiver(value: &Obj) -> &str {
    value.as_str().unwrap_or_default()
}
