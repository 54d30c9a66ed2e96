//! Salt's regular expression filters (`salt/utils/jinja.py regex_search`...).

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::{FilterFn, flag, required, text_of};
use halite_target::{MeteredRegex, RegexFlags, RegexTemplate as Template};
use std::rc::Rc;

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("regex_escape", regex_escape),
    ("regex_match", |cx, v, a| {
        groups(cx, v, a, "regex_match", true)
    }),
    ("regex_replace", regex_replace),
    ("regex_search", |cx, v, a| {
        groups(cx, v, a, "regex_search", false)
    }),
];

/// Compiles a pattern with the flags of the filters.
///
/// # Errors
/// It is not a valid Python pattern.
fn compiled(
    cx: &mut Cx,
    pattern: &Obj,
    ignore_case: bool,
    multiline: bool,
    anchored: bool,
) -> Result<Rc<MeteredRegex>, Error> {
    let mode = RegexFlags {
        ignore_case,
        multiline,
        anchored,
        exact: true,
        ..RegexFlags::default()
    };
    let regex = cx.regex(text_of(pattern)?, mode)?;
    regex.map_err(|why| Error::new(ErrorKind::Other, why))
}

/// Whether a pattern matches at the start of a text.
///
/// # Errors
/// It is not a valid Python pattern, or one of the arguments is not text.
pub(crate) fn matches(
    cx: &mut Cx,
    pattern: &Obj,
    text: &Obj,
    ignore_case: bool,
    multiline: bool,
) -> Result<bool, Error> {
    let regex = compiled(cx, pattern, ignore_case, multiline, true)?;
    Ok(regex.captures(text_of(text)?, 0, cx)?.is_some())
}

fn regex_escape(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("regex_escape", &[])?;
    Ok(halite_target::regex_escape(text_of(value)?).into())
}

fn groups(cx: &mut Cx, value: &Obj, args: &Args, name: &str, anchored: bool) -> Result<Obj, Error> {
    let names = ["rgx", "ignorecase", "multiline"];
    let bound = args.bind_required(name, &names, 1)?;
    let (ignore_case, multiline) = (flag(&bound[1], false)?, flag(&bound[2], false)?);
    let regex = compiled(cx, &required(&bound[0]), ignore_case, multiline, anchored)?;
    let text = text_of(value)?;
    let Some(found) = regex.captures(text, 0, cx)? else {
        return Ok(Obj::None);
    };
    let part = |span: &Option<(usize, usize)>| match span {
        Some((start, end)) => Obj::from(&text[*start..*end]),
        None => Obj::None,
    };
    // Without groups, the whole match is the only group.
    let groups = if found.len() > 1 {
        &found[1..]
    } else {
        &found[..]
    };
    Ok(Obj::tuple(groups.iter().map(part).collect()))
}

fn regex_replace(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = ["rgx", "val", "ignorecase", "multiline"];
    let bound = args.bind_required("regex_replace", &names, 2)?;
    let (ignore_case, multiline) = (flag(&bound[2], false)?, flag(&bound[3], false)?);
    let regex = compiled(cx, &required(&bound[0]), ignore_case, multiline, false)?;
    let fail = |why| Error::new(ErrorKind::Other, why);
    let template = Template::new(text_of(&required(&bound[1]))?, &regex.regex).map_err(fail)?;
    let replaced = regex.replace(text_of(value)?, &template, cx)?;
    Ok(replaced.text.into())
}
