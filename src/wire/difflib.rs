//! Differences of texts as Python's `difflib` finds and prints them (`SequenceMatcher`, `unified_diff`).
//!
//! The lines of a diff depend on which of several equally good matches is chosen, and on the rule that
//! very frequent lines of long texts are ignored; both are as in Python.

use std::collections::HashMap;

/// Very frequent lines are ignored in texts of at least this many lines.
const POPULAR_FROM: usize = 200;
/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// A run of lines and what became of it: `tag, i1, i2, j1, j2` of `get_opcodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Op {
    equal: bool,
    a: (usize, usize),
    b: (usize, usize),
}

/// `''.join(difflib.unified_diff(a, b, from, to))`: lines carry their line ends.
pub fn unified_diff<S: AsRef<str>>(a: &[S], b: &[S], from: &str, to: &str) -> String {
    unified_lines(a, b, from, to).concat()
}

/// `''.join(difflib.unified_diff(a, b, n=0))`: changed lines only.
pub fn changed_lines<S: AsRef<str>>(a: &[S], b: &[S]) -> String {
    lines_around(a, b, "", "", 0).concat()
}

/// `list(difflib.unified_diff(a, b, from, to))`.
pub fn unified_lines<S: AsRef<str>>(a: &[S], b: &[S], from: &str, to: &str) -> Vec<String> {
    lines_around(a, b, from, to, CONTEXT)
}

fn lines_around<S: AsRef<str>>(
    a: &[S],
    b: &[S],
    from: &str,
    to: &str,
    context: usize,
) -> Vec<String> {
    let mut out = Vec::new();
    for group in grouped(opcodes(a, b), context) {
        if out.is_empty() {
            out.push(format!("--- {from}\n"));
            out.push(format!("+++ {to}\n"));
        }
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        out.push(format!(
            "@@ -{} +{} @@\n",
            range(first.a.0, last.a.1),
            range(first.b.0, last.b.1)
        ));
        for op in &group {
            let mut put = |sign: char, lines: &[S]| {
                out.extend(lines.iter().map(|l| format!("{sign}{}", l.as_ref())));
            };
            if op.equal {
                put(' ', &a[op.a.0..op.a.1]);
                continue;
            }
            put('-', &a[op.a.0..op.a.1]);
            put('+', &b[op.b.0..op.b.1]);
        }
    }
    out
}

/// `_format_range_unified`.
fn range(start: usize, stop: usize) -> String {
    match stop - start {
        1 => (start + 1).to_string(),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// `SequenceMatcher(None, a, b).get_opcodes()`; replacing, deleting and inserting are one kind.
fn opcodes<S: AsRef<str>>(a: &[S], b: &[S]) -> Vec<Op> {
    let (mut i, mut j) = (0, 0);
    let mut ops = Vec::new();
    for (ai, bj, size) in matching_blocks(a, b) {
        if i < ai || j < bj {
            ops.push(Op {
                equal: false,
                a: (i, ai),
                b: (j, bj),
            });
        }
        (i, j) = (ai + size, bj + size);
        if size > 0 {
            ops.push(Op {
                equal: true,
                a: (ai, i),
                b: (bj, j),
            });
        }
    }
    ops
}

/// `get_grouped_opcodes(3)`.
fn grouped(mut ops: Vec<Op>, context: usize) -> Vec<Vec<Op>> {
    if ops.is_empty() {
        return Vec::new();
    }
    if let Some(first) = ops.first_mut().filter(|op| op.equal) {
        first.a.0 = first.a.0.max(first.a.1.saturating_sub(context));
        first.b.0 = first.b.0.max(first.b.1.saturating_sub(context));
    }
    if let Some(last) = ops.last_mut().filter(|op| op.equal) {
        last.a.1 = last.a.1.min(last.a.0 + context);
        last.b.1 = last.b.1.min(last.b.0 + context);
    }
    let mut groups = Vec::new();
    let mut group = Vec::new();
    for mut op in ops {
        if op.equal && op.a.1 - op.a.0 > 2 * context {
            group.push(Op {
                equal: true,
                a: (op.a.0, op.a.1.min(op.a.0 + context)),
                b: (op.b.0, op.b.1.min(op.b.0 + context)),
            });
            groups.push(std::mem::take(&mut group));
            op.a.0 = op.a.0.max(op.a.1.saturating_sub(context));
            op.b.0 = op.b.0.max(op.b.1.saturating_sub(context));
        }
        group.push(op);
    }
    if !(group.is_empty() || group.len() == 1 && group[0].equal) {
        groups.push(group);
    }
    groups
}

/// `get_matching_blocks`, the empty one at the end included.
fn matching_blocks<S: AsRef<str>>(a: &[S], b: &[S]) -> Vec<(usize, usize, usize)> {
    let matcher = Matcher::new(a, b);
    let mut work = Work::new(b.len());
    let mut queue = vec![(0, a.len(), 0, b.len())];
    let mut blocks = Vec::new();
    while let Some((alo, ahi, blo, bhi)) = queue.pop() {
        let (i, j, size) = matcher.longest(&mut work, (alo, ahi), (blo, bhi));
        if size == 0 {
            continue;
        }
        blocks.push((i, j, size));
        if alo < i && blo < j {
            queue.push((alo, i, blo, j));
        }
        if i + size < ahi && j + size < bhi {
            queue.push((i + size, ahi, j + size, bhi));
        }
    }
    blocks.sort_unstable();
    let mut joined: Vec<(usize, usize, usize)> = Vec::new();
    for (i, j, size) in blocks {
        match joined.last_mut() {
            Some(last) if last.0 + last.2 == i && last.1 + last.2 == j => last.2 += size,
            _ => joined.push((i, j, size)),
        }
    }
    joined.push((a.len(), b.len(), 0));
    joined
}

/// The lines as numbers, and the positions of each in the second text.
struct Matcher {
    a: Vec<usize>,
    b: Vec<usize>,
    places: Vec<Vec<usize>>,
}

/// Lengths of the matches that end at a line of the second text, for two neighbouring lines of the first.
struct Work {
    last: Vec<usize>,
    now: Vec<usize>,
    last_used: Vec<usize>,
    now_used: Vec<usize>,
}

impl Work {
    fn new(lines: usize) -> Work {
        Work {
            last: vec![0; lines],
            now: vec![0; lines],
            last_used: Vec::new(),
            now_used: Vec::new(),
        }
    }

    fn next(&mut self) {
        for j in self.last_used.drain(..) {
            self.last[j] = 0;
        }
        std::mem::swap(&mut self.last, &mut self.now);
        std::mem::swap(&mut self.last_used, &mut self.now_used);
    }
}

impl Matcher {
    fn new<S: AsRef<str>>(a: &[S], b: &[S]) -> Matcher {
        fn number<'a>(ids: &mut HashMap<&'a str, usize>, line: &'a str) -> usize {
            let next = ids.len();
            *ids.entry(line).or_insert(next)
        }
        let mut ids = HashMap::new();
        let b: Vec<usize> = b.iter().map(|l| number(&mut ids, l.as_ref())).collect();
        let a: Vec<usize> = a.iter().map(|l| number(&mut ids, l.as_ref())).collect();
        let mut places = vec![Vec::new(); ids.len()];
        for (j, id) in b.iter().enumerate() {
            places[*id].push(j);
        }
        if b.len() >= POPULAR_FROM {
            let most = b.len() / 100 + 1;
            for found in &mut places {
                if found.len() > most {
                    found.clear();
                }
            }
        }
        Matcher { a, b, places }
    }

    /// `find_longest_match`.
    fn longest(
        &self,
        work: &mut Work,
        (alo, ahi): (usize, usize),
        (blo, bhi): (usize, usize),
    ) -> (usize, usize, usize) {
        let (mut i, mut j, mut size) = (alo, blo, 0);
        for at in alo..ahi {
            let places = &self.places[self.a[at]];
            let start = places.partition_point(|p| *p < blo);
            for &place in places[start..].iter().take_while(|p| **p < bhi) {
                let before = match place {
                    0 => 0,
                    place => work.last[place - 1],
                };
                let length = before + 1;
                work.now[place] = length;
                work.now_used.push(place);
                if length > size {
                    (i, j, size) = (at + 1 - length, place + 1 - length, length);
                }
            }
            work.next();
        }
        work.next();
        work.next();
        while i > alo && j > blo && self.a[i - 1] == self.b[j - 1] {
            (i, j, size) = (i - 1, j - 1, size + 1);
        }
        while i + size < ahi && j + size < bhi && self.a[i + size] == self.b[j + size] {
            size += 1;
        }
        (i, j, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A generator both sides know ; CPython 3.11 made the digests in `tests/data/difflib.txt`.
    fn texts(seed: u64, lines: usize, kinds: u64) -> (Vec<String>, Vec<String>) {
        let mut state = seed;
        let mut next = move |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let a: Vec<String> = (0..lines)
            .map(|_| format!("line {}\n", next(kinds)))
            .collect();
        let mut b = Vec::new();
        for line in &a {
            match next(8) {
                0 => {}
                1 => b.push(format!("new {}\n", next(kinds))),
                2 => b.extend([line.clone(), format!("line {}\n", next(kinds))]),
                _ => b.push(line.clone()),
            }
        }
        (a, b)
    }

    #[test]
    fn as_cpython() {
        let known = include_str!("../../tests/data/difflib.txt");
        for line in known.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse::<u64>().unwrap();
            let (a, b) = texts(number(0), number(1) as usize, number(2));
            let diff = unified_diff(&a, &b, "x", "y");
            let digest = crate::fnv::fnv(diff.as_bytes());
            assert_eq!(format!("{digest:016x}"), words[3], "{line}");
        }
    }

    #[test]
    fn small_ones() {
        let none: [&str; 0] = [];
        assert_eq!(unified_diff(&["a\n"], &["a\n"], "", ""), "");
        assert_eq!(
            unified_diff(&none, &["a\n"], "", ""),
            "--- \n+++ \n@@ -0,0 +1 @@\n+a\n"
        );
        assert_eq!(
            unified_diff(&["a\n", "b"], &["a\n", "c\n"], "x", "y"),
            "--- x\n+++ y\n@@ -1,2 +1,2 @@\n a\n-b+c\n"
        );
    }
}
