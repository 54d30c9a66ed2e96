//! Lays text out on lines like libyaml's emitter, with a width of 80 and unicode allowed.

use super::style::{Style, escape, is_break, is_printable};

/// Columns after which a line is broken.
pub(crate) const WIDTH: usize = 80;
/// Default columns of one level.
pub const INDENT: isize = 2;
/// Longest key, in bytes, that may be on the same line as its value.
pub const SIMPLE_KEY: usize = 128;

/// The part of libyaml's emitter state that decides on spaces and line ends.
pub struct Lines {
    /// The output so far.
    pub out: String,
    /// Columns after which lines are broken.
    pub(crate) width: usize,
    /// Columns of one level.
    pub(crate) step: isize,
    /// Characters on the last line.
    pub(crate) column: usize,
    /// Current indentation in columns; -1 outside of everything.
    pub indent: isize,
    /// The last character was a space or a line end.
    pub(crate) whitespace: bool,
    /// This line has only indentation and indicators so far.
    pub indention: bool,
    /// The last scalar is a block that keeps its trailing blank lines.
    pub open_ended: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new()
    }
}

impl Lines {
    /// An empty text.
    pub fn new() -> Self {
        Lines {
            out: String::new(),
            width: WIDTH,
            step: INDENT,
            column: 0,
            indent: -1,
            whitespace: true,
            indention: true,
            open_ended: false,
        }
    }

    /// Writes a scalar, one level deeper than its surroundings.
    pub fn styled(&mut self, text: &str, style: Style, simple_key: bool) {
        let outer = self.indent;
        self.indent = outer.max(0) + self.step;
        match style {
            Style::Plain => self.plain(text, !simple_key),
            Style::Single => self.single(text, !simple_key),
            Style::Double => self.double(text, !simple_key),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    /// Writes a character.
    pub(crate) fn put(&mut self, c: char) {
        self.out.push(c);
        self.column = if is_break(c) { 0 } else { self.column + 1 };
    }

    /// Starts a new indented line, unless already at the start of one.
    pub fn write_indent(&mut self) {
        let indent = self.indent.max(0) as usize;
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put('\n');
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    /// Writes a YAML indicator.
    pub fn indicator(&mut self, text: &str, space_before: bool, is_indention: bool) {
        if space_before && !self.whitespace {
            self.put(' ');
        }
        text.chars().for_each(|c| self.put(c));
        self.whitespace = false;
        self.indention &= is_indention;
        self.open_ended = false;
    }

    fn plain(&mut self, text: &str, breaks_allowed: bool) {
        if !self.whitespace && !text.is_empty() {
            self.put(' ');
        }
        self.folded_text(text, breaks_allowed, false);
        self.whitespace = false;
        self.indention = false;
    }

    fn single(&mut self, text: &str, breaks_allowed: bool) {
        self.indicator("'", true, false);
        let ended_by_break = self.folded_text(text, breaks_allowed, true);
        if ended_by_break {
            self.write_indent();
        }
        self.indicator("'", false, false);
        self.indention = false;
    }

    /// Writes the text of a plain or single-quoted scalar, folded at spaces past the width. Returns
    /// whether it ended in a line end.
    fn folded_text(&mut self, text: &str, breaks_allowed: bool, quoted: bool) -> bool {
        let chars: Vec<char> = text.chars().collect();
        let (mut spaces, mut breaks) = (false, false);
        for (i, &c) in chars.iter().enumerate() {
            if c == ' ' {
                let edge = quoted && (i == 0 || i + 1 == chars.len());
                let next_space = chars.get(i + 1) == Some(&' ');
                if breaks_allowed && !spaces && self.column > self.width && !edge && !next_space {
                    self.write_indent();
                } else {
                    self.put(c);
                }
                spaces = true;
            } else if is_break(c) {
                if !breaks && c == '\n' {
                    self.put('\n');
                }
                self.put(c);
                self.indention = true;
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if quoted && c == '\'' {
                    self.put('\'');
                }
                self.put(c);
                self.indention = false;
                (spaces, breaks) = (false, false);
            }
        }
        breaks
    }

    fn double(&mut self, text: &str, breaks_allowed: bool) {
        self.indicator("\"", true, false);
        let chars: Vec<char> = text.chars().collect();
        let mut spaces = false;
        for (i, &c) in chars.iter().enumerate() {
            if !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                escape(c).chars().for_each(|c| self.put(c));
                spaces = false;
            } else if c == ' ' {
                let edge = i == 0 || i + 1 == chars.len();
                if breaks_allowed && !spaces && self.column > self.width && !edge {
                    self.write_indent();
                    if chars.get(i + 1) == Some(&' ') {
                        self.put('\\');
                    }
                } else {
                    self.put(c);
                }
                spaces = true;
            } else {
                self.put(c);
                spaces = false;
            }
        }
        self.indicator("\"", false, false);
        self.indention = false;
    }

    /// A block of lines as they are (libyaml `yaml_emitter_write_literal_scalar`).
    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false);
        if text.starts_with(' ') || text.starts_with(is_break) {
            self.indicator(&self.step.to_string(), false, false);
        }
        let mut ends = text.chars().rev().map(is_break);
        match (ends.next(), ends.next()) {
            (Some(true), None | Some(true)) => {
                self.indicator("+", false, false);
                self.open_ended = true;
            }
            (Some(true), Some(false)) => {}
            _ => self.indicator("-", false, false),
        }
        self.put('\n');
        self.indention = true;
        self.whitespace = true;
        let mut breaks = true;
        for c in text.chars() {
            breaks = if is_break(c) {
                self.put(c);
                self.indention = true;
                true
            } else {
                if breaks {
                    self.write_indent();
                }
                self.put(c);
                self.indention = false;
                false
            };
        }
    }
}
