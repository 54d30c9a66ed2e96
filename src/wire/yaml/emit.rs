//! Values as YAML text, byte for byte as Salt's dumper writes them: PyYAML's representer over libyaml's emitter with
//! a width of 80, an indent of 2 and unicode allowed (`salt/utils/yamldumper.py safe_dump`).

use super::lines::{Lines, SIMPLE_KEY};
use super::represent::{Scalar, ScalarKind, entries, represent};
use super::scalar::{self, Plain};
use super::style::{Analysis, is_break};
use crate::Value;

/// Block style, with a final line end (`safe_dump(value, default_flow_style=False)`). With `sort`,
/// maps are sorted by key if their keys can be compared, as in Salt.
pub fn emit(value: &Value, sort: bool) -> String {
    emit_with(value, sort, 0, Some(false))
}

/// As [`emit`], with `indent` columns per level (2 to 9, else 2) and PyYAML's `default_flow_style`: true for all of it in
/// flow style, none for lists and maps of only scalars.
pub fn emit_with(value: &Value, sort: bool, indent: i64, flow: Option<bool>) -> String {
    let mut e = Emitter::new(sort);
    if (2..10).contains(&indent) {
        e.step = indent as isize;
    }
    e.leaves = flow.is_none();
    if flow == Some(true) {
        e.flow_node(value, false);
    } else {
        e.node(value, Context::Root);
    }
    e.write_indent();
    e.lines.out
}

/// Block style, but lists and maps of only scalars in brackets; without a final line end
/// (`yaml.dump(value, default_flow_style=None)`).
pub fn emit_leaves(value: &Value) -> String {
    let mut e = Emitter::new(true);
    e.leaves = true;
    e.node(value, Context::Root);
    e.lines.out
}

/// The value on one line, lists and maps in brackets; for messages.
pub fn emit_flow(value: &Value) -> String {
    let mut e = Emitter::new(false);
    e.width = usize::MAX;
    e.flow(value);
    e.lines.out
}

/// Flow style, folded at 80 columns, maps sorted by key if their keys can be compared
/// (`safe_dump(value, default_flow_style=True)`).
pub fn emit_flow_lines(value: &Value) -> String {
    let mut e = Emitter::new(true);
    e.flow_node(value, false);
    e.lines.out
}

/// A value that is not a list or map, as written in a file; text without quotes.
pub fn emit_scalar(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Map(_) => emit_flow(value),
        scalar => represent(scalar).text.into_owned(),
    }
}

/// Whether this is a list or map that contains no lists or maps.
fn is_leaf(value: &Value) -> bool {
    let nested = |v: &Value| matches!(v, Value::Array(_) | Value::Map(_));
    match value {
        Value::Array(items) => !items.iter().any(nested),
        Value::Map(map) => !map.iter().any(|(k, v)| nested(k) || nested(v)),
        _ => false,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Root,
    Sequence,
    Mapping,
    SimpleKey,
}

struct Emitter {
    lines: Lines,
    sort: bool,
    /// Write lists and maps of only scalars in flow style.
    leaves: bool,
}

impl std::ops::Deref for Emitter {
    type Target = Lines;

    fn deref(&self) -> &Lines {
        &self.lines
    }
}

impl std::ops::DerefMut for Emitter {
    fn deref_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }
}

impl Emitter {
    fn new(sort: bool) -> Self {
        Emitter {
            lines: Lines::new(),
            sort,
            leaves: false,
        }
    }

    /// Runs `inner` one level deeper; `first` is the indent of the outermost level.
    fn deeper(&mut self, first: isize, indentless: bool, inner: impl FnOnce(&mut Self)) {
        let outer = self.indent;
        if outer < 0 {
            self.indent = first;
        } else if !indentless {
            self.indent += self.step;
        }
        inner(self);
        self.indent = outer;
    }

    fn node(&mut self, value: &Value, context: Context) {
        if self.leaves && is_leaf(value) {
            return self.flow_node(value, context == Context::SimpleKey);
        }
        match value {
            Value::Array(items) if items.is_empty() => self.indicator("[]", true, false),
            Value::Map(map) if map.is_empty() => self.indicator("{}", true, false),
            Value::Array(items) => {
                let indentless = context == Context::Mapping && !self.indention;
                self.deeper(0, indentless, |e| {
                    for item in items {
                        e.write_indent();
                        e.indicator("-", true, true);
                        e.node(item, Context::Sequence);
                    }
                });
            }
            Value::Map(map) => self.deeper(0, false, |e| {
                for (key, value) in entries(map, e.sort) {
                    e.write_indent();
                    e.entry(key, value);
                }
            }),
            scalar => {
                let scalar = represent(scalar);
                self.scalar(&scalar, context == Context::SimpleKey, false);
            }
        }
    }

    fn entry(&mut self, key: &Value, value: &Value) {
        if simple_key(key) {
            self.node(key, Context::SimpleKey);
            self.indicator(":", false, false);
        } else {
            self.indicator("?", true, true);
            self.node(key, Context::Mapping);
            self.write_indent();
            self.indicator(":", true, true);
        }
        self.node(value, Context::Mapping);
    }

    fn flow(&mut self, value: &Value) {
        match value {
            Value::Array(items) => {
                self.put('[');
                for (i, item) in items.iter().enumerate() {
                    self.separator(i);
                    self.flow(item);
                }
                self.put(']');
            }
            Value::Map(map) => {
                self.put('{');
                for (i, (key, value)) in map.iter().enumerate() {
                    self.separator(i);
                    self.flow(key);
                    self.out.push_str(": ");
                    self.flow(value);
                }
                self.put('}');
            }
            scalar => {
                self.whitespace = true;
                let scalar = represent(scalar);
                self.scalar(&scalar, true, true);
            }
        }
    }

    /// A value in flow style, broken after a comma when the line is full
    /// (libyaml `yaml_emitter_emit_flow_sequence_item`).
    fn flow_node(&mut self, value: &Value, simple_key: bool) {
        let within = self.indent >= 0;
        match value {
            Value::Array(items) => {
                self.indicator("[", true, false);
                self.whitespace = true;
                self.deeper(self.step, false, |e| {
                    for (i, item) in items.iter().enumerate() {
                        e.flow_separator(i);
                        e.flow_node(item, false);
                    }
                });
                self.indicator("]", false, false);
            }
            Value::Map(map) => {
                self.indicator("{", true, false);
                self.whitespace = true;
                self.deeper(self.step, false, |e| {
                    for (i, (key, value)) in entries(map, e.sort).into_iter().enumerate() {
                        e.flow_separator(i);
                        if e.flow_key(key) {
                            e.indicator(":", false, false);
                        } else {
                            e.indicator("?", true, false);
                            e.flow_node(key, false);
                            if e.column > e.width {
                                e.write_indent();
                            }
                            e.indicator(":", true, false);
                        }
                        e.flow_node(value, false);
                    }
                });
                self.indicator("}", false, false);
            }
            scalar => {
                let scalar = represent(scalar);
                self.scalar(&scalar, simple_key, within);
            }
        }
    }

    /// Writes a key if it can be a simple key before a colon; whether it was written.
    fn flow_key(&mut self, key: &Value) -> bool {
        let simple = simple_key(key);
        if simple {
            self.flow_node(key, true);
        }
        simple
    }

    fn flow_separator(&mut self, i: usize) {
        if i > 0 {
            self.indicator(",", false, false);
        }
        if self.column > self.width {
            self.write_indent();
        }
    }

    fn separator(&mut self, i: usize) {
        if i > 0 {
            self.out.push_str(", ");
        }
    }

    fn scalar(&mut self, scalar: &Scalar, simple_key: bool, flow: bool) {
        let text = scalar.text.as_ref();
        let analysis = Analysis::of(text);
        let style = match scalar.kind {
            ScalarKind::Binary => {
                self.indicator("!!binary", true, false);
                analysis.block_style(simple_key || flow)
            }
            ScalarKind::Plain => analysis.plain_style(simple_key, flow),
            ScalarKind::Text => match scalar::plain_meaning(text) {
                Plain::Text => analysis.plain_style(simple_key, flow),
                Plain::Other => analysis.quoted_style(simple_key),
            },
        };
        self.styled(text, style, simple_key);
    }
}

fn simple_key(key: &Value) -> bool {
    match key {
        Value::Array(items) => items.is_empty(),
        Value::Map(map) => map.is_empty(),
        scalar => {
            let Scalar { text, kind } = represent(scalar);
            let tag = if kind == ScalarKind::Binary {
                "!!binary".len()
            } else {
                0
            };
            !text.contains(is_break) && text.len() + tag <= SIMPLE_KEY
        }
    }
}
