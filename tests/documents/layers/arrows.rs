//! Which modules of a crate use which: read from the paths in its sources.

use std::collections::{BTreeMap, BTreeSet};

/// A module uses another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// Module of the file, a child of the module that is looked into.
    pub from: String,
    /// Module that it names, another child.
    pub to: String,
    /// Where, from the directory of the crate.
    pub file: String,
}

/// Modules that have children, the top of the crate first, as the parts of their paths.
pub fn parents(sources: &[(String, String)]) -> Vec<Vec<String>> {
    let modules = sources.iter().map(|(file, _)| module(file));
    let above: BTreeSet<Vec<String>> = modules
        .flat_map(|path| (0..path.len()).map(move |n| path[..n].to_vec()))
        .collect();
    above.into_iter().collect()
}

/// Arrows between the children of the module `parent`. `sources` are files and texts; names of files begin
/// at the directory of the crate.
pub fn within(parent: &[String], sources: &[(String, String)]) -> Vec<Arrow> {
    let child = |path: &[String]| path.strip_prefix(parent)?.first().cloned();
    let children: BTreeSet<String> = sources
        .iter()
        .filter_map(|(file, _)| child(&module(file)))
        .collect();
    let exported = sources
        .iter()
        .find(|(file, _)| module(file) == parent)
        .map(|(_, text)| exports(text, &children))
        .unwrap_or_default();
    let mut arrows = BTreeSet::new();
    for (file, text) in sources {
        let Some(from) = child(&module(file)) else {
            continue;
        };
        for path in paths(file, text) {
            let Some(first) = child(&path) else { continue };
            let to = exported.get(&first).cloned().unwrap_or(first);
            if to != from && children.contains(&to) {
                arrows.insert(Arrow {
                    from: from.clone(),
                    to,
                    file: file.clone(),
                });
            }
        }
    }
    arrows.into_iter().collect()
}

/// Groups of modules that reach each other, each in order.
pub fn circles(arrows: &[Arrow]) -> Vec<Vec<String>> {
    let reached = |from: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            for arrow in arrows.iter().filter(|a| a.from == at) {
                if seen.insert(arrow.to.as_str()) {
                    open.push(&arrow.to);
                }
            }
        }
        seen
    };
    let names: BTreeSet<&str> = arrows.iter().map(|a| a.from.as_str()).collect();
    let reach: BTreeMap<&str, _> = names.iter().map(|name| (*name, reached(name))).collect();
    let mut found = BTreeSet::new();
    for name in names.iter().filter(|name| reach[**name].contains(**name)) {
        let circle: Vec<String> = reach[name]
            .iter()
            .filter(|other| reach.get(**other).is_some_and(|r| r.contains(name)))
            .map(|other| (*other).to_owned())
            .collect();
        found.insert(circle);
    }
    found.into_iter().collect()
}

/// The module of a file, as the parts of its path in the crate.
fn module(file: &str) -> Vec<String> {
    let mut parts: Vec<String> = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

/// What a module exports from its children: name and child.
fn exports(text: &str, tops: &BTreeSet<String>) -> BTreeMap<String, String> {
    let words = words(text);
    let mut found = BTreeMap::new();
    for at in (0..words.len()).filter(|at| words[*at] == "use") {
        let mut paths = Vec::new();
        tree(&words, at + 1, &[], &mut paths);
        for path in paths {
            let path = &path[path
                .iter()
                .take_while(|w| *w == "self" || *w == "crate")
                .count()..];
            if let ([first, .., last], true) = (path, path.len() > 1)
                && tops.contains(first)
                && !tops.contains(last)
            {
                found.insert(last.clone(), first.clone());
            }
        }
    }
    found
}

/// Paths that a file names, from the top of its crate: those that begin with `crate`, `super` or `self`.
fn paths(file: &str, text: &str) -> Vec<Vec<String>> {
    let words = words(text);
    let own = module(file);
    // Modules that are written out in the file, with the depth at which they end.
    let mut inner: Vec<(String, usize)> = Vec::new();
    let (mut depth, mut at) = (0_usize, 0);
    let mut found = Vec::new();
    while at < words.len() {
        match words[at].as_str() {
            "#" if words[at..].iter().take(7).map(String::as_str).eq(TEST) => {
                at = after_item(&words, at + TEST.len());
                continue;
            }
            "mod" if words.get(at + 2).is_some_and(|w| w == "{") => {
                inner.push((words[at + 1].clone(), depth));
            }
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                inner.pop_if(|(_, end)| *end == depth);
            }
            "crate" | "super" | "self" if words.get(at + 1).is_some_and(|w| w == "::") => {
                let mut named = Vec::new();
                at = tree(&words, at, &[], &mut named);
                let here: Vec<&str> = own
                    .iter()
                    .map(String::as_str)
                    .chain(inner.iter().map(|(name, _)| name.as_str()))
                    .collect();
                found.extend(named.iter().filter_map(|path| from_top(&here, path)));
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// A path from the top of the crate, as it is named in the module `here`.
fn from_top(here: &[&str], path: &[String]) -> Option<Vec<String>> {
    let mut base: Vec<&str> = here.to_vec();
    let mut rest = path;
    while let [first, others @ ..] = rest {
        match first.as_str() {
            "crate" => base.clear(),
            "self" => {}
            "super" => drop(base.pop()?),
            _ => break,
        }
        rest = others;
    }
    let whole = base.into_iter().chain(rest.iter().map(String::as_str));
    Some(whole.map(str::to_owned).collect())
}

/// Reads a path or a list of paths, as `use` has them; gives the place behind it.
fn tree(words: &[String], at: usize, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = before.to_vec();
    let mut at = at;
    loop {
        match words.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while words.get(at).is_some_and(|w| w != "}") {
                    let next = tree(words, at, &path, found);
                    at = next.max(at + 1);
                    if words.get(at).is_some_and(|w| w == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            Some(word) if word.starts_with(is_word) => path.push(word.to_owned()),
            _ => break,
        }
        at += 1;
        if words.get(at).is_some_and(|w| w == "as") {
            at += 2;
        }
        if words.get(at).is_none_or(|w| w != "::") {
            break;
        }
        at += 1;
    }
    found.push(path);
    at
}

/// The place behind the item that begins here.
fn after_item(words: &[String], at: usize) -> usize {
    let mut depth = 0_usize;
    for (n, word) in words.iter().enumerate().skip(at) {
        match word.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" if depth == 1 => return n + 1,
            "}" | ")" | "]" if depth == 0 => return n,
            "}" | ")" | "]" => depth -= 1,
            ";" | "," if depth == 0 => return n + 1,
            _ => {}
        }
    }
    words.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Words, `::` and single signs of a source, without comments, texts and characters.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            length
        } else if is_word(c) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            end
        } else if rest.starts_with("::") {
            words.push("::".to_owned());
            2
        } else {
            if !c.is_whitespace() {
                words.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[taken..];
    }
    words
}

/// The length of the text or character that a source begins with.
fn literal(source: &str) -> Option<usize> {
    let raw = source.trim_start_matches(['b', 'c']);
    if let Some(marks) = raw.strip_prefix('r')
        && source.len() - raw.len() < 2
    {
        let inside = marks.trim_start_matches('#');
        if inside.starts_with('"') {
            let end = format!("\"{}", &marks[..marks.len() - inside.len()]);
            let begin = source.len() - inside.len() + 1;
            let length = source[begin..].find(&end).map(|at| begin + at + end.len());
            return Some(length.unwrap_or(source.len()));
        }
    }
    let mut chars = source.char_indices();
    let quote = chars.next()?.1;
    match quote {
        '"' => {
            let mut escaped = false;
            for (at, c) in chars {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    '"' => return Some(at + 1),
                    _ => {}
                }
            }
            Some(source.len())
        }
        // A character; what has no second quote so near is a lifetime.
        '\'' => match chars.next()?.1 {
            '\\' => source[2 + 1..].find('\'').map(|at| at + 4),
            c => source[1 + c.len_utf8()..]
                .starts_with('\'')
                .then_some(c.len_utf8() + 2),
        },
        _ => None,
    }
}

/// What the scanner must see, and what it must not.
#[test]
fn the_scanner_sees_arrows() {
    let named = |file: &str, text: &str| -> Vec<String> {
        let paths = paths(file, text);
        paths.iter().map(|path| path.join("::")).collect()
    };
    assert_eq!(named("a.rs", "use crate::wire::Value;"), ["wire::Value"]);
    assert_eq!(
        named("a/b.rs", "use crate::{sys::x, store::{a, b as c}};"),
        ["sys::x", "store::a", "store::b"]
    );
    assert_eq!(
        named(
            "a/b.rs",
            "let x = super::run() + super::super::c::y::<T>();"
        ),
        ["a::run", "c::y"]
    );
    assert_eq!(
        named("a/mod.rs", "use super::c::{self, d};"),
        ["c::self", "c::d"]
    );
    assert_eq!(
        named("a.rs", "mod b { use super::c; } super::d::e()"),
        ["a::c", "d::e"]
    );
    assert_eq!(
        named(
            "a.rs",
            "// crate::b\n\"crate::c\" '\"' b'\\'' r#\"\" crate::d\"# /* super::e */ crate::f"
        ),
        ["f"]
    );
    assert_eq!(
        named(
            "a.rs",
            "#[cfg(test)] mod tests { use crate::b; }\n#[cfg(test)]\nuse crate::c;\nfn a<'a>(x: &'a crate::d::T) {}"
        ),
        ["d::T"]
    );
}

#[test]
fn the_scanner_sees_circles() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let sources = [
        file("lib.rs", "mod a; mod b; pub use c::{Exported, d};"),
        file("a.rs", "use super::b;"),
        file("b/mod.rs", "mod inner;"),
        file("b/inner.rs", "use crate::Exported;"),
        file("c.rs", "fn f() { crate::a::g() }"),
        file("d.rs", "use crate::{a, c};"),
    ];
    let arrows = within(&[], &sources);
    let drawn: Vec<String> = arrows
        .iter()
        .map(|a| format!("{}{}", a.from, a.to))
        .collect();
    assert_eq!(drawn, ["ab", "bc", "ca", "da", "dc"]);
    assert_eq!(circles(&arrows), [["a", "b", "c"]]);
}

#[test]
fn the_scanner_looks_into_modules() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let sources = [
        file("lib.rs", "mod a;"),
        file("a/mod.rs", "mod b; mod c; pub use c::Exported;"),
        file("a/b.rs", "use super::Exported;"),
        file("a/c/mod.rs", "mod d;"),
        file("a/c/d.rs", "use crate::a::b::f;"),
    ];
    let a = vec!["a".to_owned()];
    let c = vec!["a".to_owned(), "c".to_owned()];
    assert_eq!(parents(&sources), [vec![], a.clone(), c]);
    assert_eq!(circles(&within(&a, &sources)), [["b", "c"]]);
}
