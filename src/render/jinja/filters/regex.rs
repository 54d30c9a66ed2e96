//! Salt's filters of regular expressions (`salt/utils/jinja.py regex_search`...).

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Obj};
use super::{FilterFn, flag, must, text_of};
use crate::target::{PyRegex, RegexMode};

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
/// It is no pattern of Python.
fn compiled(
    pattern: &Obj,
    ignore_case: bool,
    multiline: bool,
    anchored: bool,
) -> Result<PyRegex, Error> {
    let mode = RegexMode {
        ignore_case,
        multiline,
        anchored,
        exact: true,
    };
    PyRegex::with_mode(text_of(pattern)?, mode).map_err(|why| Error::new(ErrorKind::Other, why))
}

/// Whether a pattern matches at the start of a text.
///
/// # Errors
/// It is no pattern of Python, or one of both is no text.
pub(in crate::render::jinja) fn matches(
    pattern: &Obj,
    text: &Obj,
    ignore_case: bool,
    multiline: bool,
) -> Result<bool, Error> {
    let regex = compiled(pattern, ignore_case, multiline, true)?;
    Ok(regex.captures(text_of(text)?, 0).is_some())
}

fn regex_escape(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("regex_escape", &[])?;
    let mut out = String::new();
    for c in text_of(value)?.chars() {
        if "()[]{}?*+-|^$\\.&~# \t\n\r\x0b\x0c".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    Ok(out.into())
}

fn groups(_: &mut Cx, value: &Obj, args: &Args, name: &str, anchored: bool) -> Result<Obj, Error> {
    let names = ["rgx", "ignorecase", "multiline"];
    let bound = args.bind_required(name, &names, 1)?;
    let (ignore_case, multiline) = (flag(&bound[1], false)?, flag(&bound[2], false)?);
    let regex = compiled(&must(&bound[0]), ignore_case, multiline, anchored)?;
    let text = text_of(value)?;
    let Some(found) = regex.captures(text, 0) else {
        return Ok(Obj::None);
    };
    let part = |span: &Option<(usize, usize)>| match span {
        Some((start, end)) => Obj::from(&text[*start..*end]),
        None => Obj::None,
    };
    // Without groups the match itself is the only one.
    let groups = if found.len() > 1 {
        &found[1..]
    } else {
        &found[..]
    };
    Ok(Obj::tuple(groups.iter().map(part).collect()))
}

/// One piece of a replacement.
enum Piece {
    Text(String),
    Group(usize),
}

fn regex_replace(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let names = ["rgx", "val", "ignorecase", "multiline"];
    let bound = args.bind_required("regex_replace", &names, 2)?;
    let (ignore_case, multiline) = (flag(&bound[2], false)?, flag(&bound[3], false)?);
    let regex = compiled(&must(&bound[0]), ignore_case, multiline, false)?;
    let template = pieces(text_of(&must(&bound[1]))?, &regex)?;
    let text = text_of(value)?;
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while at <= text.len() {
        let Some(found) = regex.captures(text, at) else {
            break;
        };
        let Some((start, end)) = found[0] else { break };
        out.push_str(&text[copied..start]);
        for piece in &template {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Group(n) => {
                    if let Some(Some((start, end))) = found.get(*n) {
                        out.push_str(&text[*start..*end]);
                    }
                }
            }
        }
        cx.check_size(out.len())?;
        cx.charge(10)?;
        copied = end;
        at = match end > start {
            true => end,
            // Behind an empty match one character is passed over.
            false => {
                let step = text[end..].chars().next().map_or(1, char::len_utf8);
                if let Some(passed) = text.get(end..end + step) {
                    out.push_str(passed);
                    copied = end + step;
                }
                end + step
            }
        };
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Ok(out.into())
}

/// The template of `re.sub`: `\1`, `\g<name>`, and the escapes of control characters.
fn pieces(template: &str, regex: &PyRegex) -> Result<Vec<Piece>, Error> {
    let fail = |why: String| Err(Error::new(ErrorKind::Other, why));
    let mut pieces = Vec::new();
    let mut text = String::new();
    let chars: Vec<char> = template.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        at += 1;
        if c != '\\' {
            text.push(c);
            continue;
        }
        let Some(&kind) = chars.get(at) else {
            return fail(format!(
                "bad escape (end of pattern) at position {}",
                at - 1
            ));
        };
        at += 1;
        let group = match kind {
            'g' => {
                let end = chars[at..].iter().position(|c| *c == '>').map(|n| at + n);
                let Some(end) = end.filter(|_| chars.get(at) == Some(&'<')) else {
                    return fail(format!("missing < at position {at}"));
                };
                let name: String = chars[at + 1..end].iter().collect();
                let number = match name.parse() {
                    Ok(number) => Some(number),
                    Err(_) => regex.group(&name),
                };
                let Some(number) = number else {
                    return fail(format!("unknown group name '{name}'"));
                };
                at = end + 1;
                number
            }
            '0' => {
                let digits: String = chars[at..]
                    .iter()
                    .take(2)
                    .take_while(|c| c.is_digit(8))
                    .collect();
                at += digits.len();
                let code = u32::from_str_radix(&format!("0{digits}"), 8).unwrap_or(0);
                text.extend(char::from_u32(code));
                continue;
            }
            '1'..='9' => {
                let mut digits = kind.to_string();
                if let Some(next) = chars.get(at).filter(|c| c.is_ascii_digit()) {
                    digits.push(*next);
                    at += 1;
                }
                digits.parse().unwrap_or(usize::MAX)
            }
            other => {
                match other {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'a' => text.push('\x07'),
                    'b' => text.push('\x08'),
                    'f' => text.push('\x0c'),
                    'v' => text.push('\x0b'),
                    '\\' => text.push('\\'),
                    other if other.is_ascii_alphabetic() => {
                        return fail(format!("bad escape \\{other} at position {}", at - 2));
                    }
                    other => text.extend(['\\', other]),
                }
                continue;
            }
        };
        if group >= regex.groups() {
            return fail(format!(
                "invalid group reference {group} at position {}",
                at.saturating_sub(1)
            ));
        }
        pieces.push(Piece::Text(std::mem::take(&mut text)));
        pieces.push(Piece::Group(group));
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}
