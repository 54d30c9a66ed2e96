//! The short outputters: txt, raw, key, no_return, newline_values_only.

use super::Unshowable;
use super::colors::Palette;
use super::pprint::pformat;
use super::python::{compare, decode, python_str, sorted_entries, split_lines, strip_esc};
use halite_wire::Value;
use std::cmp::Ordering;

/// `id: line` per line of text (`salt/output/txt.py`).
pub(super) fn txt(value: &Value) -> String {
    let Value::Map(map) = value else {
        return match value {
            Value::Str(text) => text.clone(),
            other => pformat(other, 1),
        };
    };
    let mut out = String::new();
    for (key, item) in map.iter() {
        let key = python_str(key);
        for line in txt_lines(item) {
            out.push_str(&format!("{key}: {line}\n"));
        }
    }
    out
}

fn txt_lines(item: &Value) -> Vec<String> {
    match item {
        Value::Str(text) => split_lines(text).into_iter().map(str::to_owned).collect(),
        Value::Bytes(bytes) => byte_lines(bytes)
            .into_iter()
            .map(|line| python_str(&Value::from(line)))
            .collect(),
        other => vec![python_str(other)],
    }
}

/// `bytes.splitlines()`, which splits at line feeds and carriage returns only.
fn byte_lines(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| matches!(b, b'\n' | b'\r')) {
        let wide = rest[at..].starts_with(b"\r\n");
        lines.push(&rest[..at]);
        rest = &rest[at + 1 + usize::from(wide)..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Values only, lists with one element per line (`salt/output/newline_values_only.py` of 3006 and 3007).
pub(super) fn newline_values_only(value: &Value) -> Result<String, Unshowable> {
    let map = value.as_map().ok_or(Unshowable)?;
    let mut lines = Vec::new();
    for (_, item) in map.iter() {
        match item {
            Value::Array(items) => lines.extend(items.iter().map(python_str)),
            other => lines.push(python_str(other)),
        }
    }
    Ok(lines.join("\n"))
}

/// Red lines under cyan ids for minions that did not return (`salt/output/no_return.py`).
pub(super) fn no_return(value: &Value, colors: &Palette) -> Result<String, Unshowable> {
    let mut out = String::new();
    no_return_level(value, 0, colors, &mut out)?;
    Ok(out)
}

fn no_return_level(
    value: &Value,
    indent: usize,
    colors: &Palette,
    out: &mut String,
) -> Result<(), Unshowable> {
    let end = colors.end;
    match value {
        Value::Str(text) => {
            for line in text.split('\n') {
                out.push_str(&format!("{}{:indent$}{line}{end}\n", colors.red, ""));
            }
        }
        Value::Map(map) => {
            for (key, item) in sorted_entries(map).ok_or(Unshowable)? {
                let key = python_str(key);
                out.push_str(&format!("{}{:indent$}{key}{end}:\n", colors.cyan, ""));
                no_return_level(item, indent + 4, colors, out)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Heading, colour of the heading and of the ids, for a group of keys.
fn key_group<'a>(status: &str, c: &'a Palette) -> Option<(&'static str, &'a str, &'a str)> {
    Some(match status {
        "local" => ("Local Keys:", c.light_magenta, c.magenta),
        "minions" => ("Accepted Keys:", c.light_green, c.green),
        "minions_denied" => ("Denied Keys:", c.light_magenta, c.magenta),
        "minions_pre" => ("Unaccepted Keys:", c.light_red, c.red),
        "minions_rejected" => ("Rejected Keys:", c.light_blue, c.blue),
        _ => return None,
    })
}

/// The listing of `salt-key` (`salt/output/key.py`): groups of ids, or of ids with fingerprint or key.
pub(super) fn key(
    value: &Value,
    strip_colors: bool,
    colors: &Palette,
) -> Result<String, Unshowable> {
    let map = value.as_map().ok_or(Unshowable)?;
    let end = colors.end;
    let shown = |id: &Value| {
        let id = python_str(&decode(id));
        if strip_colors { strip_esc(&id) } else { id }
    };
    let mut lines = Vec::new();
    for (status, group) in sorted_entries(map).ok_or(Unshowable)? {
        let status = status.as_str().ok_or(Unshowable)?;
        let (heading, bold, color) = key_group(status, colors).ok_or(Unshowable)?;
        lines.push(format!("{bold}{heading}{end}"));
        match group {
            Value::Array(ids) => {
                for id in sorted(ids)? {
                    lines.push(format!("{color}{}{end}", shown(id)));
                }
            }
            Value::Map(ids) => {
                for (id, text) in sorted_entries(ids).ok_or(Unshowable)? {
                    lines.push(format!("{color}{}:  {}{end}", shown(id), python_str(text)));
                }
            }
            // To Python, a string is a sequence of characters, of which stock prints none.
            Value::Str(_) | Value::Bytes(_) => {}
            _ => return Err(Unshowable),
        }
    }
    Ok(lines.join("\n"))
}

fn sorted(items: &[Value]) -> Result<Vec<&Value>, Unshowable> {
    let mut sorted: Vec<_> = items.iter().collect();
    if items.windows(2).any(|w| compare(&w[0], &w[1]).is_none()) {
        return Err(Unshowable);
    }
    sorted.sort_by(|a, b| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(sorted)
}
