//! Checks and fixes on the source text, where YAML 1.1 and libyaml differ from the parser used here.

use super::YamlError;
use saphyr_parser::{Marker, ScanError, Span};

pub(super) fn place(mark: &Marker) -> (usize, usize) {
    (mark.line(), mark.col() + 1)
}

/// Rejects control characters anywhere, as PyYAML does (`yaml/reader.py NON_PRINTABLE`).
pub fn check_characters(text: &str) -> Result<(), YamlError> {
    let (mut line, mut column) = (1, 1);
    for c in text.chars() {
        let printable = matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{7e}' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..);
        if !printable {
            let message = format!("the character U+{:04X} is not allowed in YAML", c as u32);
            return Err(YamlError::at((line, column), message));
        }
        match c {
            '\n' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    Ok(())
}

/// Where to insert blanks; indexes count characters.
#[derive(Clone, Copy)]
pub(super) enum Fix {
    /// In place of the blanks before this index, if there is a tab among them.
    TabsBefore(usize),
    /// Before the '#' at this index.
    Comment(usize),
    /// Before a line of the quoted text that starts at this index, up to this column.
    Quoted(usize, usize),
    /// Before the line with this index, which is inside brackets.
    Bracketed(usize),
    /// Before the colon at this index, after the anchor of an empty key.
    Anchor(usize),
}

/// Blanks to insert before a line inside brackets; more is tried if that is not enough.
const DEEP: usize = 64;

impl Fix {
    /// A fix that may avoid this error of the scanner.
    pub fn of(e: &ScanError) -> Option<Fix> {
        let (what, at) = (e.info(), e.marker().index());
        if what.starts_with("':' must be followed by a valid") {
            return Some(Fix::TabsBefore(at));
        }
        if what.starts_with("invalid indentation in quoted") {
            return Some(Fix::Quoted(at, e.marker().col()));
        }
        // Only brackets let the scanner read on at a smaller indentation.
        if matches!(
            what,
            "invalid indentation" | "invalid indentation in flow construct"
        ) {
            return Some(Fix::Bracketed(at));
        }
        let comment = what.starts_with("comments must be separated");
        comment.then_some(Fix::Comment(at))
    }

    /// The byte range to replace, and the number of blanks to replace it with.
    pub fn edit(self, text: &str) -> Option<(usize, usize, usize)> {
        let byte = |at| text.char_indices().nth(at).map_or(text.len(), |(i, _)| i);
        match self {
            Fix::TabsBefore(at) => {
                let end = byte(at);
                let start = text[..end].trim_end_matches([' ', '\t']).len();
                let tab = text[start..end].contains('\t');
                tab.then_some((start, end, (end - start).max(1)))
            }
            Fix::Comment(at) => {
                let at = byte(at);
                text[at..].starts_with('#').then_some((at, at, 1))
            }
            Fix::Bracketed(at) => {
                let end = byte(at);
                let line = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
                let blank = text[line..end].trim_matches(' ').is_empty();
                blank.then_some((line, line, DEEP))
            }
            Fix::Anchor(at) => {
                let at = byte(at);
                text[at..].starts_with(':').then_some((at, at, 1))
            }
            Fix::Quoted(at, column) => {
                let start = byte(at);
                let line = start + outdented(&text[start..], column)?;
                Some((line, line, column))
            }
        }
    }
}

/// Where the first line of a quoted text with fewer leading blanks than `column` starts;
/// leading blanks are not part of the text.
fn outdented(text: &str, column: usize) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if quote == '"' => drop(chars.next().filter(|(_, c)| *c != '\n')),
            c if c == quote => {
                // Two single quotes stand for one.
                let doubled = quote == '\'' && chars.peek().is_some_and(|(_, c)| *c == quote);
                if !doubled {
                    return None;
                }
                chars.next();
            }
            _ => {}
        }
        let escaped = c == '\\' && text[at + 1..].starts_with('\n');
        if c != '\n' && !escaped {
            continue;
        }
        let begin = at + c.len_utf8() + usize::from(escaped);
        let line = text[begin..].split('\n').next().unwrap_or_default();
        let blanks = line.len() - line.trim_start_matches(' ').len();
        if blanks < column && !line.trim().is_empty() {
            return Some(begin);
        }
    }
    None
}

/// The source by characters, for details that parser events do not have.
pub(super) struct Source<'a> {
    text: &'a str,
    /// Empty if the text has no bracket or anchor, since it is not needed then.
    chars: Vec<char>,
    /// Number of characters, if the text does not end in a line end.
    unended: Option<usize>,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Self {
        let needed = text.contains(['[', '{', '&']);
        let ended = text.ends_with(['\n', '\r']);
        Source {
            text,
            chars: if needed {
                text.chars().collect()
            } else {
                Vec::new()
            },
            unended: (!ended).then(|| text.chars().count()),
        }
    }

    /// Whether a container is in brackets. The span of its start reaches from its tag or anchor past the
    /// bracket; without a bracket it ends before the first item.
    pub fn is_bracket(&self, span: &Span) -> bool {
        let (start, end) = (span.start.index(), span.end.index());
        start < end && matches!(self.chars.get(end - 1), Some('[' | '{'))
    }

    /// Rejects anchors that would swallow text, such as the password `&secret!`. The span of a
    /// node starts at its anchor or tag.
    ///
    /// # Errors
    /// A text such as `&name: value`, which libyaml reads as an empty key with an anchor, can be fixed.
    pub fn check_anchor(&self, anchor: usize, span: &Span) -> Result<(), (YamlError, Option<Fix>)> {
        // Most nodes have none: the rest of the text is not searched for each of them.
        if anchor == 0 {
            return Ok(());
        }
        let start = span.start.index();
        let rest = self.chars.get(start..).unwrap_or_default();
        let mut begin = 0;
        let mut words = rest.split(|c| c.is_whitespace());
        let Some(name) = words.find(|word| {
            let found = word.first() == Some(&'&');
            begin += if found { 0 } else { word.len() + 1 };
            found
        }) else {
            return Ok(());
        };
        let name = name[1..].split(|c| matches!(c, ',' | ']' | '}')).next();
        let name = name.unwrap_or_default();
        let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let is_name = |name: &[char]| !name.is_empty() && name.iter().all(plain);
        if is_name(name) {
            return Ok(());
        }
        let key = name.strip_suffix(&[':']).filter(|key| is_name(key));
        let fix = key.map(|key| Fix::Anchor(start + begin + 1 + key.len()));
        let what = "an anchor ('&') has letters, digits, '-' and '_' only; put text that starts with '&' in quotes";
        Err((YamlError::at(place(&span.start), what), fix))
    }

    /// Whether a block scalar runs to the end of a text without final line end. Then it gets no
    /// line end, unlike in YAML 1.2, unless the last line is blank and too short to belong to it.
    pub fn ends_open(&self, span: &Span) -> bool {
        let last = self.text.rsplit('\n').next().unwrap_or_default();
        let blanks = last.len() - last.trim_end_matches(' ').len();
        if self
            .unended
            .is_none_or(|end| span.end.index() + blanks < end)
        {
            return false;
        }
        // The span starts after the indentation of the first line.
        !last.trim_matches(' ').is_empty() || last.len() >= span.start.col()
    }

    /// Rejects plain text that YAML 1.1 does not allow.
    pub fn check_plain(&self, text: &str, span: &Span, flow: bool) -> Result<(), YamlError> {
        let Some(first) = text.chars().next() else {
            return Ok(());
        };
        let reserved = "|>%@`".contains(first) || (flow && matches!(first, ':' | '?'));
        if reserved {
            let message = format!("'{first}' cannot start plain text here; put it in quotes");
            return Err(YamlError::at(place(&span.start), message));
        }
        let (start, end) = (span.start.index(), span.end.index());
        let shown = self.chars.get(start..self.chars.len().min(end + 2));
        let colon = |pair: &[char]| pair[0] == ':' && ",?[]{}".contains(pair[1]);
        if flow && shown.is_some_and(|s| s.windows(2).any(colon)) {
            let message = "a ':' inside brackets needs a space after it; or put the text in quotes";
            return Err(YamlError::at(place(&span.start), message));
        }
        Ok(())
    }
}
