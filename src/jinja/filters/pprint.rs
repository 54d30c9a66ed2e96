//! Python's `pprint.pformat`, width 80, indent 1.

use super::super::cx::Cx;
use super::super::error::Error;
use super::super::methods::split_lines;
use super::super::value::{Dict, Obj, quote};
use super::sort::merge_sort;
use halite_wire::pytext::is_space;
use std::cmp::Ordering;
use std::convert::Infallible;

const WIDTH: i64 = 80;

/// `pprint.pformat(value)`.
///
/// # Errors
/// Endless nesting.
pub fn pformat(cx: &mut Cx, value: &Obj) -> Result<String, Error> {
    let mut printer = Printer {
        cx,
        out: String::new(),
    };
    printer.format(value, 0, 0, 0)?;
    Ok(printer.out)
}

struct Printer<'a> {
    cx: &'a mut Cx,
    out: String,
}

fn length(text: &str) -> i64 {
    text.chars().count() as i64
}

fn spaces(count: i64) -> String {
    " ".repeat(usize::try_from(count).unwrap_or(0))
}

/// Sorted by key where keys can be ordered, else by the name of their class (`pprint._safe_key`).
fn entries(dict: &Dict) -> Vec<(Obj, Obj)> {
    let entries: Vec<(Obj, Obj)> = dict.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    let less = |a: &(Obj, Obj), b: &(Obj, Obj)| -> Result<bool, Infallible> {
        Ok(match a.0.order(&b.0) {
            Ok(order) => order == Ordering::Less,
            Err(_) => a.0.type_name() < b.0.type_name(),
        })
    };
    match merge_sort(entries, less) {
        Ok(entries) => entries,
        Err(never) => match never {},
    }
}

/// `repr()` with every dict sorted by key.
fn sorted_repr(cx: &mut Cx, value: &Obj, depth: usize) -> Result<String, Error> {
    cx.charge(1)?;
    if depth > 100 {
        return Err(Error::limit("containers are nested too deeply"));
    }
    let mut all = |items: &[Obj]| -> Result<String, Error> {
        let parts: Result<Vec<_>, _> = items
            .iter()
            .map(|i| sorted_repr(cx, i, depth + 1))
            .collect();
        Ok(parts?.join(", "))
    };
    match value {
        Obj::List(list) => Ok(format!("[{}]", all(&list.borrow())?)),
        Obj::Tuple(items) if items.len() == 1 => Ok(format!("({},)", all(items)?)),
        Obj::Tuple(items) => Ok(format!("({})", all(items)?)),
        Obj::Dict(dict) if dict.borrow().kind.type_name() == "dict" => {
            let mut parts = Vec::new();
            for (key, item) in entries(&dict.borrow()) {
                parts.push(format!(
                    "{}: {}",
                    sorted_repr(cx, &key, depth + 1)?,
                    sorted_repr(cx, &item, depth + 1)?
                ));
            }
            Ok(format!("{{{}}}", parts.join(", ")))
        }
        other => other.repr(),
    }
}

impl Printer<'_> {
    /// `allowance`: columns needed for closing brackets after this value.
    fn format(
        &mut self,
        value: &Obj,
        indent: i64,
        allowance: i64,
        level: usize,
    ) -> Result<(), Error> {
        let repr = sorted_repr(self.cx, value, 0)?;
        self.cx.check_size(self.out.len() + repr.len())?;
        if length(&repr) <= WIDTH - indent - allowance {
            self.out.push_str(&repr);
            return Ok(());
        }
        let (allowance, level) = (allowance + 1, level + 1);
        match value {
            Obj::Dict(dict) if dict.borrow().kind.type_name() == "dict" => {
                let entries = entries(&dict.borrow());
                self.dict(&entries, indent, allowance, level)
            }
            Obj::List(list) => {
                let items = list.borrow().clone();
                self.items(&items, "[", "]", indent, allowance, level)
            }
            Obj::Tuple(items) => {
                let close = if items.len() == 1 { ",)" } else { ")" };
                self.items(items, "(", close, indent, allowance, level)
            }
            Obj::Str(text) | Obj::Markup(text) => {
                self.text(text, indent, allowance - 1, level);
                Ok(())
            }
            _ => {
                self.out.push_str(&repr);
                Ok(())
            }
        }
    }

    fn dict(
        &mut self,
        entries: &[(Obj, Obj)],
        indent: i64,
        allowance: i64,
        level: usize,
    ) -> Result<(), Error> {
        self.out.push('{');
        for (i, (key, value)) in entries.iter().enumerate() {
            if i > 0 {
                self.out.push_str(",\n");
                self.out.push_str(&spaces(indent + 1));
            }
            let key = sorted_repr(self.cx, key, 0)?;
            self.out.push_str(&key);
            self.out.push_str(": ");
            let last = i + 1 == entries.len();
            let allowance = if last { allowance } else { 1 };
            self.format(value, indent + 1 + length(&key) + 2, allowance, level)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn items(
        &mut self,
        items: &[Obj],
        open: &str,
        close: &str,
        indent: i64,
        allowance: i64,
        level: usize,
    ) -> Result<(), Error> {
        self.out.push_str(open);
        let allowance = allowance + length(close) - 1;
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push_str(",\n");
                self.out.push_str(&spaces(indent + 1));
            }
            let last = i + 1 == items.len();
            self.format(item, indent + 1, if last { allowance } else { 1 }, level)?;
        }
        self.out.push_str(close);
        Ok(())
    }

    fn text(&mut self, text: &str, mut indent: i64, mut allowance: i64, level: usize) {
        if level == 1 {
            indent += 1;
            allowance += 1;
        }
        let width = WIDTH - indent;
        let lines = split_lines(text, true);
        let mut pieces = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            let room = if i + 1 == lines.len() { allowance } else { 0 };
            let repr = quote(line);
            if length(&repr) <= width - room {
                pieces.push(repr)
            } else {
                break_line(line, width, room, &mut pieces)
            }
        }
        let parentheses = level == 1 && pieces.len() > 1;
        let text = pieces.join(&format!("\n{}", spaces(indent)));
        if parentheses {
            self.out.push_str(&format!("({text})"))
        } else {
            self.out.push_str(&text)
        }
    }
}

/// Breaks one long line after white space.
fn break_line(line: &str, width: i64, allowance: i64, pieces: &mut Vec<String>) {
    let words = words_with_space(line);
    let mut current = String::new();
    for (i, word) in words.iter().enumerate() {
        let room = width - if i + 1 == words.len() { allowance } else { 0 };
        let candidate = format!("{current}{word}");
        if length(&quote(&candidate)) <= room {
            current = candidate;
            continue;
        }
        if !current.is_empty() {
            pieces.push(quote(&current));
        }
        current = (*word).to_owned();
    }
    if !current.is_empty() {
        pieces.push(quote(&current));
    }
}

/// Words with their trailing white space.
fn words_with_space(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.find(is_space).unwrap_or(rest.len());
        let behind = &rest[word..];
        let space = behind.len() - behind.trim_start_matches(is_space).len();
        let (part, more) = rest.split_at(word + space);
        words.push(part);
        rest = more;
    }
    words
}
