//! Text from outside in a line of the log.

use std::fmt;

/// A text as `{:?}` shows it, cut to `most` characters: `{:.64?}` does not cut a text.
pub fn excerpt(text: &str, most: usize) -> impl fmt::Display {
    Excerpt(text, most)
}

struct Excerpt<'a>(&'a str, usize);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.0.char_indices().nth(self.1) {
            Some((end, _)) => write!(f, "{:?}...", &self.0[..end]),
            None => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn long_texts_are_cut() {
        let shown = |text: &str| excerpt(text, 3).to_string();
        assert_eq!(shown(""), "\"\"");
        assert_eq!(shown("grü"), "\"grü\"");
        assert_eq!(shown("grün"), "\"grü\"...");
        assert_eq!(shown("\x1b\n\"x"), "\"\\u{1b}\\n\\\"\"...");
    }
}
