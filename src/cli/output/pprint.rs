//! Python's `pprint.pformat`, width 80.

use super::python::{
    bytes_repr, is_space, pprint_entries, python_repr, split_lines_keeping_ends, str_repr,
};
use halite_wire::{Map, Value};

const WIDTH: i64 = 80;

/// The text of `pprint.pformat(value, indent=indent)`; Python's default indent is 1.
pub(super) fn pformat(value: &Value, indent: i64) -> String {
    let mut printer = Printer {
        out: String::new(),
        step: indent,
    };
    printer.format(value, 0, 0, 0);
    printer.out
}

struct Printer {
    out: String,
    /// Columns per level.
    step: i64,
}

fn length(text: &str) -> i64 {
    text.chars().count() as i64
}

fn spaces(count: i64) -> String {
    " ".repeat(usize::try_from(count).unwrap_or(0))
}

/// `repr()` with every dict sorted by key.
fn sorted_repr(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let parts: Vec<_> = items.iter().map(sorted_repr).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let parts: Vec<_> = pprint_entries(map)
                .into_iter()
                .map(|(k, v)| format!("{}: {}", sorted_repr(k), sorted_repr(v)))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
        other => python_repr(other),
    }
}

impl Printer {
    /// `allowance`: columns needed for the closing brackets after this value.
    fn format(&mut self, value: &Value, indent: i64, allowance: i64, level: usize) {
        let repr = sorted_repr(value);
        if length(&repr) <= WIDTH - indent - allowance {
            self.out.push_str(&repr);
            return;
        }
        match value {
            Value::Map(map) => self.dict(map, indent, allowance + 1, level + 1),
            Value::Array(items) => self.list(items, indent, allowance + 1, level + 1),
            Value::Str(text) => self.text(text, indent, allowance, level + 1),
            Value::Bytes(bytes) => self.bytes(bytes, indent, allowance, level + 1),
            _ => self.out.push_str(&repr),
        }
    }

    fn open(&mut self, bracket: char) {
        self.out.push(bracket);
        self.out.push_str(&spaces(self.step - 1));
    }

    fn dict(&mut self, map: &Map, indent: i64, allowance: i64, level: usize) {
        self.open('{');
        let indent = indent + self.step;
        let entries = pprint_entries(map);
        for (i, (key, value)) in entries.iter().enumerate() {
            if i > 0 {
                self.out.push_str(",\n");
                self.out.push_str(&spaces(indent));
            }
            let key = sorted_repr(key);
            self.out.push_str(&key);
            self.out.push_str(": ");
            let last = i + 1 == entries.len();
            let allowance = if last { allowance } else { 1 };
            self.format(value, indent + length(&key) + 2, allowance, level);
        }
        self.out.push('}');
    }

    fn list(&mut self, items: &[Value], indent: i64, allowance: i64, level: usize) {
        self.open('[');
        let indent = indent + self.step;
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push_str(",\n");
                self.out.push_str(&spaces(indent));
            }
            let last = i + 1 == items.len();
            self.format(item, indent, if last { allowance } else { 1 }, level);
        }
        self.out.push(']');
    }

    /// Chunks one below the other, in parentheses at the top level.
    fn pieces(&mut self, pieces: &[String], indent: i64, parentheses: bool) {
        if parentheses {
            self.out.push('(');
        }
        self.out
            .push_str(&pieces.join(&format!("\n{}", spaces(indent))));
        if parentheses {
            self.out.push(')');
        }
    }

    fn text(&mut self, text: &str, mut indent: i64, mut allowance: i64, level: usize) {
        if text.is_empty() {
            self.out.push_str("''");
            return;
        }
        if level == 1 {
            indent += 1;
            allowance += 1;
        }
        let width = WIDTH - indent;
        let lines = split_lines_keeping_ends(text);
        let mut pieces = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            let last = i + 1 == lines.len();
            let repr = str_repr(line);
            if length(&repr) <= width - if last { allowance } else { 0 } {
                pieces.push(repr);
                continue;
            }
            break_line(line, width, if last { allowance } else { 0 }, &mut pieces);
        }
        let parentheses = level == 1 && pieces.len() > 1;
        self.pieces(&pieces, indent, parentheses);
    }

    fn bytes(&mut self, bytes: &[u8], mut indent: i64, mut allowance: i64, level: usize) {
        if bytes.len() <= 4 {
            self.out.push_str(&bytes_repr(bytes));
            return;
        }
        if level == 1 {
            indent += 1;
            allowance += 1;
        }
        let mut width = WIDTH - indent;
        let mut pieces = Vec::new();
        let mut current = Vec::new();
        let last = bytes.len() / 4 * 4;
        for (i, part) in bytes.chunks(4).enumerate() {
            if i * 4 == last {
                width -= allowance;
            }
            let candidate = [&current[..], part].concat();
            if length(&bytes_repr(&candidate)) <= width {
                current = candidate;
                continue;
            }
            if !current.is_empty() {
                pieces.push(bytes_repr(&current));
            }
            current = part.to_vec();
        }
        pieces.push(bytes_repr(&current));
        self.pieces(&pieces, indent, level == 1);
    }
}

/// Breaks one long line after white space.
fn break_line(line: &str, width: i64, allowance: i64, pieces: &mut Vec<String>) {
    let words = words_with_space(line);
    let mut current = String::new();
    for (i, word) in words.iter().enumerate() {
        let last = i + 1 == words.len();
        let room = width - if last { allowance } else { 0 };
        let candidate = format!("{current}{word}");
        if length(&str_repr(&candidate)) <= room {
            current = candidate;
            continue;
        }
        if !current.is_empty() {
            pieces.push(str_repr(&current));
        }
        current = (*word).to_owned();
    }
    if !current.is_empty() {
        pieces.push(str_repr(&current));
    }
}

/// Words, each with the white space after it.
fn words_with_space(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut after_space = false;
    for (at, c) in line.char_indices() {
        let space = is_space(c);
        if after_space && !space {
            words.push(&line[start..at]);
            start = at;
        }
        after_space = space;
    }
    words.push(&line[start..]);
    words
}
