//! Shell globs as Python's `fnmatch` reads them.
//!
//! `*` matches anything, dots, slashes and newlines included; `?` one character; `[abc]`, `[a-z]`
//! and `[!a-z]` one character of a set; there are no braces and no escapes. Case counts.

/// A compiled glob.
#[derive(Clone, Debug)]
pub struct Glob {
    /// The parts between the stars; a single part means that there is no star.
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Plain(String),
    Mixed(Vec<Token>),
}

#[derive(Clone, Debug)]
enum Token {
    Char(char),
    Any,
    Set(Set),
}

#[derive(Clone, Debug, Default)]
struct Set {
    negated: bool,
    chars: Vec<char>,
    ranges: Vec<(char, char)>,
}

/// Whether the whole text matches the glob.
pub fn fnmatch(text: &str, glob: &str) -> bool {
    Glob::new(glob).matches(text)
}

impl Glob {
    /// Compiles a glob; any text is valid.
    pub fn new(glob: &str) -> Glob {
        let chars: Vec<char> = glob.chars().collect();
        let mut parts = Vec::new();
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            let c = chars[at];
            at += 1;
            match c {
                '*' => {
                    // Consecutive stars count as one.
                    if parts.is_empty() || !tokens.is_empty() {
                        parts.push(Part::new(std::mem::take(&mut tokens)));
                    }
                }
                '?' => tokens.push(Token::Any),
                '[' => match close_of(&chars, at) {
                    Some(close) => {
                        tokens.push(Token::Set(Set::new(&chars[at..close])));
                        at = close + 1;
                    }
                    None => tokens.push(Token::Char('[')),
                },
                c => tokens.push(Token::Char(c)),
            }
        }
        parts.push(Part::new(tokens));
        Glob { parts }
    }

    /// The text, if this glob matches exactly one text.
    pub fn literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Plain(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the whole text matches.
    ///
    /// Each part is searched once, from the left, after the one before it. That is enough,
    /// because the leftmost match leaves most text for the next star: no backtracking over parts.
    pub fn matches(&self, text: &str) -> bool {
        let (Some((first, rest)), Some(last)) = (self.parts.split_first(), self.parts.last())
        else {
            return false;
        };
        let Some(at) = first.prefix(text) else {
            return false;
        };
        let Some((_, middle)) = rest.split_last() else {
            return at == text.len();
        };
        let mut text = &text[at..];
        let Some(end) = last.suffix(text) else {
            return false;
        };
        text = &text[..end];
        middle.iter().all(|part| match part.find_end(text) {
            Some(at) => {
                text = &text[at..];
                true
            }
            None => false,
        })
    }
}

impl Part {
    fn new(tokens: Vec<Token>) -> Part {
        let plain = tokens
            .iter()
            .map(|t| match t {
                Token::Char(c) => Some(*c),
                _ => None,
            })
            .collect();
        match plain {
            Some(text) => Part::Plain(text),
            None => Part::Mixed(tokens),
        }
    }

    /// Number of bytes that this part matches at the start of the text.
    fn prefix(&self, text: &str) -> Option<usize> {
        match self {
            Part::Plain(plain) => text.starts_with(plain.as_str()).then_some(plain.len()),
            Part::Mixed(tokens) => {
                let mut rest = text.chars();
                let fits = tokens
                    .iter()
                    .all(|t| rest.next().is_some_and(|c| t.fits(c)));
                fits.then(|| text.len() - rest.as_str().len())
            }
        }
    }

    /// Where this part starts if the text ends with it.
    fn suffix(&self, text: &str) -> Option<usize> {
        match self {
            Part::Plain(plain) => text
                .ends_with(plain.as_str())
                .then(|| text.len() - plain.len()),
            Part::Mixed(tokens) => {
                let (at, _) = text
                    .char_indices()
                    .rev()
                    .nth(tokens.len().checked_sub(1)?)?;
                self.prefix(&text[at..]).map(|_| at)
            }
        }
    }

    /// Where the first occurrence of this part in the text ends.
    fn find_end(&self, text: &str) -> Option<usize> {
        match self {
            Part::Plain(plain) => text.find(plain.as_str()).map(|at| at + plain.len()),
            Part::Mixed(_) => text
                .char_indices()
                .find_map(|(at, _)| self.prefix(&text[at..]).map(|len| at + len)),
        }
    }
}

impl Token {
    fn fits(&self, c: char) -> bool {
        match self {
            Token::Char(own) => *own == c,
            Token::Any => true,
            Token::Set(set) => set.fits(c),
        }
    }
}

/// Position of the `]` that ends the set which starts at `at`, after the `[`.
fn close_of(chars: &[char], at: usize) -> Option<usize> {
    let mut from = at;
    from += usize::from(chars.get(from) == Some(&'!'));
    // A `]` in the first place is an ordinary member.
    from += usize::from(chars.get(from) == Some(&']'));
    let found = chars.get(from..)?.iter().position(|c| *c == ']')?;
    Some(from + found)
}

impl Set {
    /// Parses the text between the brackets.
    ///
    /// The order of the steps decides odd cases and is `fnmatch.translate`'s: split at the hyphens
    /// that make ranges, join the pieces of empty ranges (`z-a`), then look for the leading `!`.
    fn new(body: &[char]) -> Set {
        let mut pieces = split_ranges(body);
        for k in (1..pieces.len()).rev() {
            if pieces[k - 1].last() > pieces[k].first() {
                let right = pieces.remove(k);
                pieces[k - 1].pop();
                pieces[k - 1].extend(right.into_iter().skip(1));
            }
        }
        let mut set = Set::default();
        if pieces[0].first() == Some(&'!') {
            set.negated = true;
            pieces[0].remove(0);
            if pieces[0].is_empty() && pieces.len() > 1 {
                // The start of the range is gone; its hyphen remains.
                set.chars.push('-');
            }
        }
        for pair in pieces.windows(2) {
            if let (Some(low), Some(high)) = (pair[0].last(), pair[1].first()) {
                set.ranges.push((*low, *high));
            }
        }
        set.chars.extend(pieces.into_iter().flatten());
        set
    }

    fn fits(&self, c: char) -> bool {
        let listed = self.chars.contains(&c)
            || self
                .ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&c));
        listed != self.negated
    }
}

/// Splits a set at the hyphens between two members. Always at least one piece.
fn split_ranges(body: &[char]) -> Vec<Vec<char>> {
    let mut pieces: Vec<Vec<char>> = Vec::new();
    let mut start = 0;
    let mut from = 1 + usize::from(body.first() == Some(&'!'));
    while let Some(found) = body
        .get(from..)
        .and_then(|rest| rest.iter().position(|c| *c == '-'))
    {
        let hyphen = from + found;
        pieces.push(body[start..hyphen].to_vec());
        start = hyphen + 1;
        // The member after the hyphen ends this range and cannot start the next one.
        from = hyphen + 3;
    }
    match pieces.last_mut() {
        Some(last) if start == body.len() => last.push('-'),
        _ => pieces.push(body[start..].to_vec()),
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_cases() {
        for (glob, text, expected) in [
            ("*", "", true),
            ("*", "a.b/c\nd", true),
            ("", "", true),
            ("", "a", false),
            ("web*", "web1.example.com", true),
            ("*.com", "web1.example.com", true),
            ("w*.*.com", "web1.example.com", true),
            ("a*a", "a", false),
            ("ab*ba", "aba", false),
            ("?", "ü", true),
            ("web?", "web", false),
            ("[!a]*", "b", true),
            ("{a,b}", "a", false),
            ("WEB", "web", false),
            ("a?c*", "abcd", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[x", "[x", true),
            ("*a*b", "xaxxab", true),
            ("*a*b", "xaxxabc", false),
        ] {
            assert_eq!(fnmatch(text, glob), expected, "{glob:?} {text:?}");
        }
        assert_eq!(Glob::new("web1").literal(), Some("web1"));
        assert_eq!(Glob::new("web*").literal(), None);
        assert_eq!(Glob::new("web[").literal(), Some("web["));
    }

    #[test]
    fn long_input_is_quick() {
        let text = "a".repeat(100_000);
        let glob = "*a".repeat(2_000) + "b";
        assert!(!fnmatch(&text, &glob));
    }

    /// The slow and obvious meaning of a glob without sets.
    fn slow(text: &[char], glob: &[char]) -> bool {
        match (glob.split_first(), text.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) if slow(text, rest) => true,
            (Some(('*', _)), Some((_, tail))) => slow(tail, glob),
            (Some((g, rest)), Some((t, tail))) if *g == '?' || g == t => slow(tail, rest),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn anything(text in ".*", glob in ".*") {
            fnmatch(&text, &glob);
        }

        #[test]
        fn sets(text in "[a-e!\\[\\]-]{0,4}", glob in "[a-e!\\[\\]?*^-]{0,9}") {
            fnmatch(&text, &glob);
        }

        #[test]
        fn as_the_slow_one(text in "[abü]{0,8}", glob in "[abü?*]{0,8}") {
            let (t, g): (Vec<char>, Vec<char>) = (text.chars().collect(), glob.chars().collect());
            prop_assert_eq!(fnmatch(&text, &glob), slow(&t, &g));
        }
    }
}
