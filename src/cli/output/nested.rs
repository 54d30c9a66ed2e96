//! The default outputter: indented keys and values (`salt/output/nested.py`).

use super::colors::Palette;
use super::python::{python_str, sorted_entries, split_lines, strip_esc};
use halite_wire::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Renders with an indentation of `indent` columns; lists and keys are red if `failed`.
pub(super) fn render(
    value: &Value,
    indent: usize,
    failed: bool,
    strip_colors: bool,
    colors: &Palette,
) -> String {
    let mut nested = Nested {
        colors,
        list: if failed { colors.red } else { colors.green },
        key: if failed { colors.red } else { colors.cyan },
        strip_colors,
        lines: Vec::new(),
    };
    nested.display(value, indent, "");
    nested.lines.join("\n")
}

struct Nested<'a> {
    colors: &'a Palette,
    list: &'static str,
    key: &'static str,
    strip_colors: bool,
    lines: Vec<String>,
}

impl Nested<'_> {
    fn line(&mut self, indent: usize, color: &str, prefix: &str, text: &str, suffix: &str) {
        let end = self.colors.end;
        self.lines
            .push(format!("{:indent$}{color}{prefix}{text}{end}{suffix}", ""));
    }

    fn display(&mut self, value: &Value, indent: usize, prefix: &str) {
        match value {
            Value::Str(text) => self.text(text, indent, prefix),
            // Bytes that are not UTF-8 print nothing, as in stock.
            Value::Bytes(bytes) => {
                if let Ok(text) = std::str::from_utf8(bytes) {
                    self.text(text, indent, prefix);
                }
            }
            Value::Array(items) => self.list(items, indent),
            Value::Map(map) => self.map(map, indent, prefix),
            scalar => {
                let color = self.colors.light_yellow;
                self.line(indent, color, prefix, &python_str(scalar), "");
            }
        }
    }

    fn text(&mut self, text: &str, indent: usize, prefix: &str) {
        for (i, line) in split_lines(text).into_iter().enumerate() {
            let hanging = " ".repeat(prefix.len());
            let prefix = if i == 0 { prefix } else { &hanging };
            let line = if self.strip_colors {
                Cow::Owned(strip_esc(line))
            } else {
                Cow::Borrowed(line)
            };
            self.line(indent, self.colors.green, prefix, &line, "");
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for item in items {
            if matches!(item, Value::Array(_) | Value::Map(_)) {
                self.line(indent, self.list, "", "|_", "");
                self.display(item, indent + 2, "");
            } else {
                self.display(item, indent, "- ");
            }
        }
    }

    fn map(&mut self, map: &Map, indent: usize, prefix: &str) {
        if indent > 0 {
            self.line(indent, self.key, "", "----------", "");
        }
        for (key, value) in entries(map) {
            self.line(indent, self.key, prefix, &key, ":");
            self.display(value, indent + 4, "");
        }
    }
}

/// Entries sorted by key; keys of several types are sorted as text, the last of equal ones wins.
fn entries(map: &Map) -> Vec<(String, &Value)> {
    if let Some(sorted) = sorted_entries(map) {
        let named = sorted.into_iter().map(|(k, v)| (python_str(k), v));
        return named.collect();
    }
    let named: BTreeMap<_, _> = map.iter().map(|(k, v)| (python_str(k), v)).collect();
    named.into_iter().collect()
}
