//! Errors of renderers in Salt's wording (`salt/exceptions.py SaltRenderError`).

use std::fmt;

/// Lines of context shown before and after the faulty line.
const AROUND: usize = 5;
const MARKER: &str = "    <======================";

/// Why a source could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    message: String,
    line: usize,
    context: String,
}

impl RenderError {
    /// An error without a location.
    pub fn new(message: impl Into<String>) -> RenderError {
        RenderError {
            message: message.into(),
            line: 0,
            context: String::new(),
        }
    }

    /// The line, from 1; 0 if unknown.
    pub fn line(&self) -> usize {
        self.line
    }

    /// An error at a line (from 1) of `source`; 0 if the line is unknown.
    pub fn at(message: impl Into<String>, line: usize, source: &str) -> RenderError {
        let context = if line == 0 || source.is_empty() {
            String::new()
        } else {
            context(source, line)
        };
        RenderError {
            message: message.into(),
            line,
            context,
        }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.context.is_empty() {
            return Ok(());
        }
        write!(f, "; line {}\n\n{}", self.line, self.context)
    }
}

impl std::error::Error for RenderError {}

/// The lines around `line`, which is marked (`salt/utils/stringutils.py get_context`).
pub fn context(source: &str, line: usize) -> String {
    let lines: Vec<&str> = source.lines().collect();
    if line == 0 || line > lines.len() {
        return source.to_owned();
    }
    let start = line.saturating_sub(AROUND + 1);
    let end = (line + AROUND).min(lines.len());
    let mut out = String::from("---\n");
    if start > 0 {
        out.push_str("[...]\n");
    }
    for (n, text) in lines.iter().enumerate().take(end).skip(start) {
        out.push_str(text);
        out.push_str(if n + 1 == line { MARKER } else { "" });
        out.push('\n');
    }
    if end < lines.len() {
        out.push_str("[...]\n");
    }
    out + "---"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_the_line() {
        let source: String = (1..=20).map(|n| format!("line {n}\n")).collect();
        let text = RenderError::at("bad", 8, &source).to_string();
        let expected = "bad; line 8\n\n---\n[...]\nline 3\nline 4\nline 5\nline 6\nline 7\n\
            line 8    <======================\nline 9\nline 10\nline 11\nline 12\nline 13\n[...]\n---";
        assert_eq!(text, expected);
        assert_eq!(
            RenderError::at("bad", 99, "a\nb").to_string(),
            "bad; line 99\n\na\nb"
        );
        assert_eq!(RenderError::at("bad", 0, "a").to_string(), "bad");
    }
}
