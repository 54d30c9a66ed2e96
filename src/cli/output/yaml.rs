//! YAML as PyYAML's `safe_dump(allow_unicode=True)` writes it through libyaml, for the yaml outputter.

use super::python::{float_repr, sorted_entries};
use base64::Engine;
use halite_wire::yaml::escape;
use halite_wire::{Map, Value};
use regex::Regex;
use std::sync::LazyLock;

/// Columns after which a line is broken at the next blank (libyaml's default).
const BEST_WIDTH: usize = 80;
/// libyaml takes a longer key out of its line, with `? ` before it.
const SIMPLE_KEY_LENGTH: usize = 128;

/// The value in block style, two columns a level; `sort` puts keys in order where they compare.
pub fn emit(value: &Value, sort: bool) -> String {
    emit_with(value, sort, 2, false)
}

/// As [`emit`], with the columns per level (2 to 9, else 2) and optionally all in flow style.
pub fn emit_with(value: &Value, sort: bool, indent: i64, flow: bool) -> String {
    let step = if (2..10).contains(&indent) { indent } else { 2 };
    let mut emitter = Emitter {
        out: String::new(),
        column: 0,
        whitespace: true,
        indention: true,
        indent: -1,
        step,
        flow_level: 0,
        flow,
        sort,
    };
    emitter.node(value, Place::Root);
    emitter.write_indent();
    emitter.out
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Item,
    Value,
    /// A key in front of its colon, on one line.
    SimpleKey,
}

struct Emitter {
    out: String,
    column: usize,
    /// The last thing written was white space.
    whitespace: bool,
    /// Nothing but indentation stands on this line.
    indention: bool,
    /// Columns of the current level, -1 outside everything.
    indent: i64,
    step: i64,
    flow_level: usize,
    flow: bool,
    sort: bool,
}

impl Emitter {
    fn node(&mut self, value: &Value, place: Place) {
        match value {
            Value::Array(items) => self.sequence(items, place),
            Value::Map(map) => self.mapping(map),
            Value::Str(text) => self.scalar(text, None, resolves(text), place),
            Value::Bytes(octets) => self.binary(octets, place),
            other => self.scalar(&plain_text(other), None, false, place),
        }
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_str(&mut self, text: &str) {
        text.chars().for_each(|c| self.put(c));
    }

    fn put_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    fn write_indent(&mut self) {
        let indent = usize::try_from(self.indent).unwrap_or(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, text: &str, need_space: bool, is_space: bool, is_indention: bool) {
        if need_space && !self.whitespace {
            self.put(' ');
        }
        self.put_str(text);
        self.whitespace = is_space;
        self.indention = self.indention && is_indention;
    }

    /// Goes one level deeper; gives the old level back.
    fn deeper(&mut self, flow: bool, indentless: bool) -> i64 {
        let old = self.indent;
        if old < 0 {
            self.indent = if flow { self.step } else { 0 };
        } else if !indentless {
            self.indent += self.step;
        }
        old
    }

    fn sequence(&mut self, items: &[Value], place: Place) {
        if self.flow_level > 0 || self.flow || items.is_empty() {
            return self.flow_sequence(items);
        }
        let indentless = place == Place::Value && !self.indention;
        let old = self.deeper(false, indentless);
        for item in items {
            self.write_indent();
            self.indicator("-", true, false, true);
            self.node(item, Place::Item);
        }
        self.indent = old;
    }

    fn flow_sequence(&mut self, items: &[Value]) {
        let old = self.open_flow("[");
        for (i, item) in items.iter().enumerate() {
            self.separate_flow(i);
            self.node(item, Place::Item);
        }
        self.close_flow("]", old);
    }

    fn open_flow(&mut self, bracket: &str) -> i64 {
        self.indicator(bracket, true, true, false);
        self.flow_level += 1;
        self.deeper(true, false)
    }

    fn separate_flow(&mut self, index: usize) {
        if index > 0 {
            self.indicator(",", false, false, false);
        }
        if self.column > BEST_WIDTH {
            self.write_indent();
        }
    }

    fn close_flow(&mut self, bracket: &str, old: i64) {
        self.flow_level -= 1;
        self.indent = old;
        self.indicator(bracket, false, false, false);
    }

    fn mapping(&mut self, map: &Map) {
        let entries = match self.sort {
            true => sorted_entries(map).unwrap_or_else(|| map.iter().collect()),
            false => map.iter().collect(),
        };
        if self.flow_level > 0 || self.flow || map.is_empty() {
            return self.flow_mapping(&entries);
        }
        let old = self.deeper(false, false);
        for (key, value) in entries {
            self.write_indent();
            if is_simple_key(key) {
                self.node(key, Place::SimpleKey);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, true);
                self.node(key, Place::Value);
                self.write_indent();
                self.indicator(":", true, false, true);
            }
            self.node(value, Place::Value);
        }
        self.indent = old;
    }

    fn flow_mapping(&mut self, entries: &[&(Value, Value)]) {
        let old = self.open_flow("{");
        for (i, (key, value)) in entries.iter().enumerate() {
            self.separate_flow(i);
            if is_simple_key(key) {
                self.node(key, Place::SimpleKey);
                self.indicator(":", false, false, false);
            } else {
                self.indicator("?", true, false, false);
                self.node(key, Place::Value);
                if self.column > BEST_WIDTH {
                    self.write_indent();
                }
                self.indicator(":", true, false, false);
            }
            self.node(value, Place::Value);
        }
        self.close_flow("}", old);
    }

    fn binary(&mut self, octets: &[u8], place: Place) {
        self.scalar(&base64_lines(octets), Some("!!binary"), false, place);
    }

    /// `quote`: plain, the text would read back as something else.
    fn scalar(&mut self, text: &str, tag: Option<&str>, quote: bool, place: Place) {
        let chars: Vec<char> = text.chars().collect();
        let facts = Facts::of(&chars);
        let simple_key = place == Place::SimpleKey;
        let old = self.deeper(true, false);
        if let Some(tag) = tag {
            self.indicator(tag, true, false, false);
        }
        let breaks = !simple_key;
        let in_flow = self.flow_level > 0;
        let literal = tag.is_some() && facts.block && !in_flow && !simple_key;
        let plain = match in_flow {
            true => facts.flow_plain,
            false => facts.block_plain,
        };
        let needs_quotes = quote || tag.is_some() || !plain || (simple_key && facts.multiline);
        let empty_in_tight_place = chars.is_empty() && (in_flow || simple_key);
        if literal {
            self.literal(&chars);
        } else if tag.is_some() || !facts.single_quoted || (simple_key && facts.multiline) {
            self.double_quoted(&chars, breaks);
        } else if needs_quotes || empty_in_tight_place {
            self.single_quoted(&chars, breaks);
        } else {
            self.plain(&chars, breaks);
        }
        self.indent = old;
    }

    fn plain(&mut self, chars: &[char], allow_breaks: bool) {
        if !self.whitespace && (!chars.is_empty() || self.flow_level > 0) {
            self.put(' ');
        }
        let mut after_space = false;
        for (i, &c) in chars.iter().enumerate() {
            let space = c == ' ';
            if space && self.may_break(allow_breaks, after_space) && chars.get(i + 1) != Some(&' ')
            {
                self.write_indent();
            } else {
                self.put(c);
            }
            if !space {
                self.indention = false;
            }
            after_space = space;
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn may_break(&self, allow_breaks: bool, after_space: bool) -> bool {
        allow_breaks && !after_space && self.column > BEST_WIDTH
    }

    fn single_quoted(&mut self, chars: &[char], allow_breaks: bool) {
        self.indicator("'", true, false, false);
        let mut after_space = false;
        let mut after_break = false;
        for (i, &c) in chars.iter().enumerate() {
            if c == ' ' {
                let inner = i > 0 && i + 1 < chars.len() && chars[i + 1] != ' ';
                if inner && self.may_break(allow_breaks, after_space) {
                    self.write_indent();
                } else {
                    self.put(c);
                }
                after_space = true;
            } else if is_break(c) {
                if !after_break && c == '\n' {
                    self.put_break('\n');
                }
                self.put_break(c);
                self.indention = true;
                after_break = true;
            } else {
                if after_break {
                    self.write_indent();
                }
                if c == '\'' {
                    self.put(c);
                }
                self.put(c);
                self.indention = false;
                after_space = false;
                after_break = false;
            }
        }
        if after_break {
            self.write_indent();
        }
        self.indicator("'", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn double_quoted(&mut self, chars: &[char], allow_breaks: bool) {
        self.indicator("\"", true, false, false);
        let mut after_space = false;
        for (i, &c) in chars.iter().enumerate() {
            if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.put_str(&escape(c));
                after_space = false;
                continue;
            }
            if c != ' ' {
                self.put(c);
                after_space = false;
                continue;
            }
            let inner = i > 0 && i + 1 < chars.len();
            if inner && self.may_break(allow_breaks, after_space) {
                self.write_indent();
                if chars[i + 1] == ' ' {
                    self.put('\\');
                }
            } else {
                self.put(c);
            }
            after_space = true;
        }
        self.indicator("\"", false, false, false);
        self.whitespace = false;
        self.indention = false;
    }

    /// Only for base64, which ends with one line feed and never starts with white space.
    fn literal(&mut self, chars: &[char]) {
        self.indicator("|", true, false, false);
        self.put_break('\n');
        self.indention = true;
        self.whitespace = true;
        let mut after_break = true;
        for &c in chars {
            if is_break(c) {
                self.put_break(c);
                self.indention = true;
                after_break = true;
                continue;
            }
            if after_break {
                self.write_indent();
            }
            self.put(c);
            self.indention = false;
            after_break = false;
        }
    }
}

/// Base64 in lines of 76, each with its line feed, as Python's `base64.encodebytes`.
fn base64_lines(octets: &[u8]) -> String {
    let mut out = String::new();
    for part in octets.chunks(57) {
        out.push_str(&base64::engine::general_purpose::STANDARD.encode(part));
        out.push('\n');
    }
    out
}

fn is_simple_key(key: &Value) -> bool {
    let text = match key {
        Value::Str(text) => text.clone(),
        Value::Bytes(octets) if octets.is_empty() => return true,
        Value::Array(items) => return items.is_empty(),
        Value::Map(map) => return map.is_empty(),
        Value::Bytes(_) => return false,
        other => plain_text(other),
    };
    text.len() <= SIMPLE_KEY_LENGTH && !text.chars().any(is_break)
}

/// Null, booleans and numbers.
fn plain_text(value: &Value) -> String {
    match value {
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::UInt(u) => u.to_string(),
        Value::Float(f) if f.is_nan() => ".nan".into(),
        Value::Float(f) if f.is_infinite() => if *f > 0.0 { ".inf" } else { "-.inf" }.into(),
        Value::Float(f) => {
            let repr = float_repr(*f);
            // YAML 1.1 wants a point in a float.
            match repr.split_once('e') {
                Some((digits, exponent)) if !digits.contains('.') => {
                    format!("{digits}.0e{exponent}")
                }
                _ => repr,
            }
        }
        _ => "null".into(),
    }
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\0') || is_break(c)
}

/// libyaml's idea of printable: nothing outside the basic plane.
fn is_printable(c: char) -> bool {
    match c {
        '\n' | ' '..='~' => true,
        '\u{feff}' => false,
        c => ('\u{a0}'..='\u{fffd}').contains(&c),
    }
}

/// Which styles a text allows (libyaml `yaml_emitter_analyze_scalar`).
struct Facts {
    multiline: bool,
    flow_plain: bool,
    block_plain: bool,
    single_quoted: bool,
    block: bool,
}

impl Facts {
    fn of(chars: &[char]) -> Facts {
        let (Some(&first), Some(&last)) = (chars.first(), chars.last()) else {
            return Facts {
                multiline: false,
                flow_plain: false,
                block_plain: true,
                single_quoted: true,
                block: false,
            };
        };
        let (flow_indicator, block_indicator) = indicators(chars);
        let multiline = chars.iter().any(|c| is_break(*c));
        let special = !chars.iter().all(|c| is_printable(*c));
        let edge = |c: char| c == ' ' || is_break(c);
        let pair =
            |a: fn(char) -> bool, b: fn(char) -> bool| chars.windows(2).any(|w| a(w[0]) && b(w[1]));
        let is_space = |c: char| c == ' ';
        let break_space = pair(is_break, is_space);
        let space_break = pair(is_space, is_break);
        let quotable = !break_space && !space_break && !special;
        let plain = quotable && !edge(first) && !edge(last) && !multiline;
        Facts {
            multiline,
            flow_plain: plain && !flow_indicator,
            block_plain: plain && !block_indicator,
            single_quoted: quotable,
            block: last != ' ' && !space_break && !special,
        }
    }
}

/// Whether the text holds YAML's own signs, for flow and for block context.
fn indicators(chars: &[char]) -> (bool, bool) {
    let (mut flow, mut block) = (false, false);
    if chars.starts_with(&['-', '-', '-']) || chars.starts_with(&['.', '.', '.']) {
        (flow, block) = (true, true);
    }
    for (i, &c) in chars.iter().enumerate() {
        let before_blank = chars.get(i + 1).is_none_or(|c| is_blank(*c));
        let after_blank = i == 0 || is_blank(chars[i - 1]);
        let (in_flow, in_block) = match c {
            '#' if i == 0 || after_blank => (true, true),
            ',' | '[' | ']' | '{' | '}' => (true, i == 0),
            '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => (i == 0, i == 0),
            '?' => (true, i == 0 && before_blank),
            ':' => (true, before_blank),
            '-' if i == 0 && before_blank => (true, true),
            _ => (false, false),
        };
        flow |= in_flow;
        block |= in_block;
    }
    (flow, block)
}

/// Plain texts that YAML 1.1 reads as null, boolean, number, timestamp, merge or value sign.
static RESOLVES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let parts = [
        "",
        "~|null|Null|NULL",
        "yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF",
        "true|True|TRUE|false|False|FALSE",
        "<<|=|[!&*]",
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?",
        r"\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?",
        r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*",
        r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)",
        "[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}",
        concat!(
            r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}",
            r"(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?"
        ),
    ];
    Regex::new(&format!("^(?:{})$", parts.join("|"))).ok()
});

fn resolves(text: &str) -> bool {
    RESOLVES.as_ref().is_none_or(|r| r.is_match(text))
}
