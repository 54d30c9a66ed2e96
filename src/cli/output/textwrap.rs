//! Python's `textwrap.TextWrapper.fill`, as far as the highstate outputter uses it.

use super::python::{is_space, lstrip};

/// Wraps text to `width` columns, each line behind `indent` spaces.
pub(super) fn fill(text: &str, width: usize, indent: usize) -> String {
    let mut chunks = split(&munge(text));
    chunks.reverse();
    let room = width.saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    while !chunks.is_empty() {
        if !lines.is_empty() && chunks.last().is_some_and(|c| is_blank(c)) {
            chunks.pop();
        }
        let mut line: Vec<Vec<char>> = Vec::new();
        let mut used = 0;
        while let Some(chunk) = chunks.pop() {
            if used + chunk.len() <= room {
                used += chunk.len();
                line.push(chunk);
                continue;
            }
            if chunk.len() <= room {
                chunks.push(chunk);
                break;
            }
            let (head, tail) = break_word(chunk, room - used);
            line.push(head);
            chunks.push(tail);
            break;
        }
        if line.last().is_some_and(|c| is_blank(c)) {
            line.pop();
        }
        if !line.is_empty() {
            let text: String = line.into_iter().flatten().collect();
            lines.push(format!("{}{text}", " ".repeat(indent)));
        }
    }
    lines.join("\n")
}

fn is_blank(chunk: &[char]) -> bool {
    chunk.iter().all(|c| is_space(*c))
}

/// A word longer than a line is cut: behind its last hyphen that fits, else where the line is full.
fn break_word(mut chunk: Vec<char>, room: usize) -> (Vec<char>, Vec<char>) {
    let mut end = room;
    if let Some(hyphen) = chunk[..room].iter().rposition(|c| *c == '-')
        && chunk[..hyphen].iter().any(|c| *c != '-')
    {
        end = hyphen + 1;
    }
    let tail = chunk.split_off(end);
    (chunk, tail)
}

fn is_wrap_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ')
}

/// Tabs to the next multiple of eight, then every kind of ASCII white space to a blank.
fn munge(text: &str) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len());
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' => {
                let fill = 8 - column % 8;
                out.extend(std::iter::repeat_n(' ', fill));
                column += fill;
            }
            '\n' | '\r' => {
                out.push(' ');
                column = 0;
            }
            c => {
                out.push(if is_wrap_space(c) { ' ' } else { c });
                column += 1;
            }
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_letter(c: char) -> bool {
    is_word(c) && !c.is_numeric()
}

/// A run of at least two dashes at `at` with a word behind it.
fn em_dash_end(text: &[char], at: usize) -> Option<usize> {
    let dashes = text[at..].iter().take_while(|c| **c == '-').count();
    let end = at + dashes;
    (dashes >= 2 && text.get(end).is_some_and(|c| is_word(*c))).then_some(end)
}

fn may_precede_em_dash(c: char) -> bool {
    is_word(c) || matches!(c, '!' | '"' | '\'' | '&' | '.' | ',' | '?')
}

/// Whether a word may be parted behind the hyphen at `at`: letters on both sides of it.
fn is_hyphenation(text: &[char], at: usize) -> bool {
    let letter = |i: usize| text.get(i).is_some_and(|c| is_letter(*c));
    let dash = |i: usize| text.get(i) == Some(&'-');
    let before = (at >= 2 && letter(at - 1) && letter(at - 2))
        || (at >= 3 && letter(at - 1) && dash(at - 2) && letter(at - 3));
    let behind = letter(at + 1) && (letter(at + 2) || (dash(at + 2) && letter(at + 3)));
    dash(at) && before && behind
}

fn word_end(text: &[char], start: usize) -> usize {
    for at in start + 1..text.len() {
        if is_hyphenation(text, at) {
            return at + 1;
        }
        if is_wrap_space(text[at]) {
            return at;
        }
        if may_precede_em_dash(text[at - 1]) && em_dash_end(text, at).is_some() {
            return at;
        }
    }
    text.len()
}

/// Pieces between which a line may end: white space, words, parts of hyphenated words, long dashes.
fn split(text: &[char]) -> Vec<Vec<char>> {
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < text.len() {
        let end = chunk_end(text, start);
        chunks.push(text[start..end].to_vec());
        start = end;
    }
    chunks
}

fn chunk_end(text: &[char], start: usize) -> usize {
    if is_wrap_space(text[start]) {
        let run = text[start..].iter().take_while(|c| is_wrap_space(**c));
        return start + run.count();
    }
    if start > 0
        && may_precede_em_dash(text[start - 1])
        && let Some(end) = em_dash_end(text, start)
    {
        return end;
    }
    word_end(text, start)
}

/// `str.lstrip()` of the wrapped text, for a first line that stands behind a label.
pub(super) fn fill_behind_label(text: &str, width: usize, indent: usize) -> String {
    lstrip(&fill(text, width, indent)).to_owned()
}
