//! Python's `textwrap.TextWrapper`, for the filter `wordwrap` and the highstate outputter.

/// How to wrap; white space is kept.
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// Columns of a line, at least one.
    pub width: usize,
    /// Whether to break a word longer than a line.
    pub break_words: bool,
    /// Whether a line may be broken after a hyphen.
    pub break_hyphens: bool,
}

type Chunk = Vec<char>;

impl Wrapper {
    /// Wraps `text` into lines.
    pub fn wrap(&self, text: &str) -> Vec<String> {
        let text: Vec<char> = text.chars().collect();
        let mut chunks = self.split(&text);
        chunks.reverse();
        let mut lines: Vec<String> = Vec::new();
        while !chunks.is_empty() {
            if !lines.is_empty() && chunks.last().is_some_and(is_blank) {
                chunks.pop();
            }
            let mut line: Vec<Chunk> = Vec::new();
            let mut used = 0;
            while let Some(chunk) = chunks.pop_if(|chunk| used + chunk.len() <= self.width) {
                used += chunk.len();
                line.push(chunk);
            }
            if let Some(long) = chunks.pop_if(|chunk| chunk.len() > self.width) {
                self.long_word(long, used, &mut line, &mut chunks);
            }
            if line.last().is_some_and(is_blank) {
                line.pop();
            }
            if !line.is_empty() {
                lines.push(line.into_iter().flatten().collect());
            }
        }
        lines
    }

    /// Breaks a word longer than a line after its last hyphen that fits, else where the line is full.
    fn long_word(
        &self,
        mut word: Chunk,
        used: usize,
        line: &mut Vec<Chunk>,
        rest: &mut Vec<Chunk>,
    ) {
        if !self.break_words {
            if line.is_empty() {
                line.push(word)
            } else {
                rest.push(word)
            }
            return;
        }
        let mut end = self.width - used;
        if self.break_hyphens
            && let Some(hyphen) = word[..end].iter().rposition(|c| *c == '-')
            && word[..hyphen].iter().any(|c| *c != '-')
        {
            end = hyphen + 1;
        }
        let tail = word.split_off(end);
        line.push(word);
        rest.push(tail);
    }

    /// Chunks between which a line may be broken: white space, words, parts of hyphenated words, long dashes.
    fn split(&self, text: &[char]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let end = self.chunk_end(text, start);
            chunks.push(text[start..end].to_vec());
            start = end;
        }
        chunks
    }

    fn chunk_end(&self, text: &[char], start: usize) -> usize {
        let blank = is_wrap_space(text[start]);
        if blank || !self.break_hyphens {
            let run = text[start..]
                .iter()
                .take_while(|c| is_wrap_space(**c) == blank);
            return start + run.count();
        }
        if start > 0
            && may_precede_dashes(text[start - 1])
            && let Some(end) = dashes_end(text, start)
        {
            return end;
        }
        word_end(text, start)
    }
}

fn is_blank(chunk: &Chunk) -> bool {
    chunk.iter().all(|c| super::pytext::is_space(*c))
}

/// White space according to `textwrap`: only that of ASCII.
pub fn is_wrap_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_letter(c: char) -> bool {
    is_word(c) && !c.is_numeric()
}

/// The end of two or more dashes at `at` that a word follows.
fn dashes_end(text: &[char], at: usize) -> Option<usize> {
    let dashes = text[at..].iter().take_while(|c| **c == '-').count();
    let end = at + dashes;
    (dashes >= 2 && text.get(end).is_some_and(|c| is_word(*c))).then_some(end)
}

fn may_precede_dashes(c: char) -> bool {
    is_word(c) || matches!(c, '!' | '"' | '\'' | '&' | '.' | ',' | '?')
}

/// Whether a word may be broken after the hyphen at `at`: there are letters on both sides of it.
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
        if may_precede_dashes(text[at - 1]) && dashes_end(text, at).is_some() {
            return at;
        }
    }
    text.len()
}
