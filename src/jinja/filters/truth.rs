//! Salt's filters that return true or false.

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::{FilterFn, flag, integer, required, text_of};
use halite_target::{PyRegex, fnmatch};
use halite_wire::pytext::is_space;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("check_whitelist_blacklist", check_whitelist_blacklist),
    ("contains_whitespace", contains_whitespace),
    ("exactly_n_true", exactly_n_true),
    ("exactly_one_true", exactly_one_true),
    ("is_iter", is_iter),
    ("is_list", is_list),
    ("substring_in_list", substring_in_list),
    ("to_bool", to_bool),
];

fn to_bool(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("to_bool", &[])?;
    if let Obj::Undefined(missing) = value {
        missing.check()?;
    }
    Ok(Obj::Bool(match value {
        Obj::Bool(b) => *b,
        Obj::Str(text) | Obj::Markup(text) => {
            matches!(text.to_lowercase().as_str(), "yes" | "1" | "true")
        }
        Obj::Int(i) => *i > 0,
        Obj::Big(big) => big.sign() == num_bigint::Sign::Plus,
        Obj::List(_) | Obj::Dict(_) | Obj::Set(_) => value.length()? > 0,
        _ => false,
    }))
}

fn contains_whitespace(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("contains_whitespace", &[])?;
    for item in cx.iterate(value)? {
        let Some(text) = item.as_str() else {
            return Err(super::no_attribute(&item, "isspace"));
        };
        if !text.is_empty() && text.chars().all(is_space) {
            return Ok(Obj::Bool(true));
        }
    }
    Ok(Obj::Bool(false))
}

fn is_list(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("is_list", &[])?;
    Ok(Obj::Bool(matches!(value, Obj::List(_))))
}

fn is_iter(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("is_iter", &["ignore"])?;
    let ignored = flag(&bound[0], true)? && value.as_str().is_some();
    Ok(Obj::Bool(!ignored && iterable(cx, value)?))
}

/// Whether Python considers the class `Hashable`: everything except lists, dicts and sets.
pub(super) fn hashable(value: &Obj) -> bool {
    !matches!(
        value,
        Obj::List(_) | Obj::Dict(_) | Obj::Set(_) | Obj::View(_)
    )
}

/// Whether a value can be iterated.
pub(super) fn iterable(cx: &mut Cx, value: &Obj) -> Result<bool, Error> {
    Ok(match value {
        Obj::Undefined(missing) => {
            missing.check()?;
            true
        }
        Obj::None | Obj::Bool(_) | Obj::Int(_) | Obj::Big(_) | Obj::Float(_) => false,
        Obj::Native(object) => object.clone().iter(cx)?.is_some(),
        _ => true,
    })
}

fn exactly(cx: &mut Cx, value: &Obj, wanted: usize) -> Result<Obj, Error> {
    let mut count = 0;
    for item in cx.iterate(value)? {
        count += usize::from(item.truthy()?);
    }
    Ok(Obj::Bool(count == wanted))
}

fn exactly_one_true(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("exactly_one", &[])?;
    exactly(cx, value, 1)
}

fn exactly_n_true(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("exactly_n", &["amount"])?;
    exactly(
        cx,
        value,
        usize::try_from(integer(&bound[0], 1)?).unwrap_or(0),
    )
}

fn substring_in_list(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("substr_in_list", &["list_to_search"], 1)?;
    for item in cx.iterate(&required(&bound[0]))? {
        if cx.contains(&item, value)? {
            return Ok(Obj::Bool(true));
        }
    }
    Ok(Obj::Bool(false))
}

/// A list of expressions; a single text counts as a list of one.
fn expressions(cx: &mut Cx, list: &Option<Obj>, name: &str) -> Result<Vec<Obj>, Error> {
    let Some(list) = list else {
        return Ok(Vec::new());
    };
    if !list.truthy()? {
        return Ok(Vec::new());
    }
    if list.as_str().is_some() {
        return Ok(vec![list.clone()]);
    }
    if iterable(cx, list)? {
        cx.iterate(list)
    } else {
        Err(Error::type_error(format!(
            "Expecting iterable {name}, but got {} ({})",
            list.type_name(),
            list.to_str()?
        )))
    }
}

/// Matches a glob, or a regular expression against the whole text (`salt/utils/stringutils.py expr_match`).
fn matches(value: &Obj, expression: &Obj) -> Result<bool, Error> {
    let (Ok(text), Ok(expression)) = (text_of(value), text_of(expression)) else {
        return Ok(false);
    };
    if fnmatch(text, expression) {
        return Ok(true);
    }
    match PyRegex::new(&format!(r"\A{expression}\Z")) {
        Ok(regex) => regex
            .matches(text)
            .map_err(|e| Error::new(ErrorKind::Other, e.to_string())),
        Err(_) => Ok(false),
    }
}

fn check_whitelist_blacklist(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind("check_whitelist_blacklist", &["whitelist", "blacklist"])?;
    let black = expressions(cx, &bound[1], "blacklist")?;
    let white = expressions(cx, &bound[0], "whitelist")?;
    let listed = |list: &[Obj]| {
        let mut each = list.iter();
        each.try_fold(false, |found, expression| {
            Ok::<bool, Error>(found || matches(value, expression)?)
        })
    };
    Ok(Obj::Bool(
        !listed(&black)? && (white.is_empty() || listed(&white)?),
    ))
}
