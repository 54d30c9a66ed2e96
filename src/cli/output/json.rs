//! JSON as Python's `json.dumps(ensure_ascii=False)` writes it (`salt/output/json_out.py`).

use super::Unshowable;
use super::python::{float_repr, python_repr, sorted_entries};
use halite_wire::pyjson::quote;
use halite_wire::{Map, Value};

/// One document; `indent` in columns, `None` for one line. If a key cannot be represented in JSON, the result
/// is `{}`.
pub(super) fn render(value: &Value, indent: Option<usize>, sort: bool) -> String {
    let mut writer = Writer {
        out: String::new(),
        indent,
        sort,
    };
    match writer.value(value, 0) {
        Ok(()) => writer.out,
        Err(Unshowable) => "{}".into(),
    }
}

struct Writer {
    out: String,
    indent: Option<usize>,
    sort: bool,
}

impl Writer {
    fn value(&mut self, value: &Value, level: usize) -> Result<(), Unshowable> {
        match value {
            Value::Str(text) => quote(&mut self.out, text, false),
            // Stock falls back to `repr` for types unknown to JSON.
            Value::Bytes(_) => quote(&mut self.out, &python_repr(value), false),
            Value::Array(items) => return self.array(items, level),
            Value::Map(map) => return self.map(map, level),
            scalar => self.out.push_str(&scalar_text(scalar)),
        }
        Ok(())
    }

    fn array(&mut self, items: &[Value], level: usize) -> Result<(), Unshowable> {
        if items.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.out.push('[');
        for (i, item) in items.iter().enumerate() {
            self.separate(i, level + 1);
            self.value(item, level + 1)?;
        }
        self.line(level);
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, map: &Map, level: usize) -> Result<(), Unshowable> {
        if map.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        let entries = if self.sort {
            sorted_entries(map).ok_or(Unshowable)?
        } else {
            map.iter().collect()
        };
        self.out.push('{');
        for (i, (key, item)) in entries.into_iter().enumerate() {
            self.separate(i, level + 1);
            self.key(key)?;
            self.out.push_str(": ");
            self.value(item, level + 1)?;
        }
        self.line(level);
        self.out.push('}');
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Result<(), Unshowable> {
        match key {
            Value::Str(text) => quote(&mut self.out, text, false),
            Value::Bytes(_) | Value::Array(_) | Value::Map(_) => return Err(Unshowable),
            scalar => quote(&mut self.out, &scalar_text(scalar), false),
        }
        Ok(())
    }

    fn separate(&mut self, index: usize, level: usize) {
        if index > 0 {
            self.out
                .push_str(if self.indent.is_some() { "," } else { ", " });
        }
        self.line(level);
    }

    fn line(&mut self, level: usize) {
        if let Some(step) = self.indent {
            self.out.push('\n');
            self.out.push_str(&" ".repeat(step * level));
        }
    }
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::Nil => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Float(f) if f.is_nan() => "NaN".into(),
        Value::Float(f) if f.is_infinite() => {
            if *f > 0.0 { "Infinity" } else { "-Infinity" }.into()
        }
        Value::Float(f) => float_repr(*f),
        other => python_repr(other),
    }
}
