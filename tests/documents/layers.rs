//! Rules that hold for the whole source tree: layers, sizes, what may stand where.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms of `src`, from the ground up; a room uses only rooms of earlier lines, and itself.
const LAYERS: &[&[&str]] = &[
    &["sys"],
    &["wire"],
    &["crypto"],
    &["config"],
    &["target"],
    &["store"],
    &["render", "schedule"],
    &["transport"],
    &["master", "minion"],
    &["client"],
    &["engine", "gateway", "runtime", "syndic"],
    &["cli"],
];

const LONGEST: usize = 600;

/// Files that are too long still, with the reason why nobody has split them.
const TOO_LONG: &[(&str, &str)] = &[];

/// Places where `unwrap` or `expect` may stand outside of tests: file, part of the line, reason.
const CERTAIN: &[(&str, &str, &str)] = &[];

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files below a directory of the tree, in order, without what cargo and git keep there.
fn files(dir: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![top().join(dir)];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if name == "target" || name == ".git" {
                continue;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(path),
                Ok(kind) if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn sources(dirs: &[&str]) -> Vec<(String, String)> {
    let all = dirs.iter().flat_map(|dir| files(dir));
    let sources: Vec<_> = all
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .map(|path| {
            (
                shown(&path),
                fs::read_to_string(&path).expect("sources are UTF-8"),
            )
        })
        .collect();
    assert!(!sources.is_empty(), "no sources in {dirs:?}");
    sources
}

/// A path as it is written in the tree.
fn shown(path: &Path) -> String {
    let short = path.strip_prefix(top()).unwrap_or(path);
    short.to_string_lossy().into_owned()
}

/// Panics with all findings.
fn none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().position(|line| line.contains(&room))
}

/// Lines without those that are comments only, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line));
    lines.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The part of a file before its tests.
fn without_tests(text: &str) -> &str {
    let end = text.find("#[cfg(test)]\nmod ").filter(|at| {
        // A line `mod tests;` has nothing behind it that belongs to the tests.
        text[*at..]
            .lines()
            .nth(1)
            .is_some_and(|line| line.ends_with('{'))
    });
    &text[..end.unwrap_or(text.len())]
}

fn is_test(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.ends_with("/testing.rs") || file.contains("/tests/")
}

/// Rooms that a line names: `crate::room`, `crate::{room, ...}`, or as many `super` as lead there.
fn rooms_in(line: &str, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    for part in line.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            Some(list) => found.extend(top_level(list)),
            None => found.push(word(part)),
        }
    }
    let up = "super::".repeat(depth);
    if let Some(at) = line.find(&up) {
        found.push(word(line[at..].trim_start_matches("super::")));
    }
    found
}

fn word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// First words of the entries of a `use` list.
fn top_level(list: &str) -> Vec<String> {
    let mut depth = 0;
    let mut entries = vec![String::new()];
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => entries.push(String::new()),
            c => entries.last_mut().expect("never empty").push(c),
        }
    }
    entries.iter().map(|entry| word(entry.trim())).collect()
}

/// How many `super` lead from a file's module to the top of the crate.
fn depth(file: &str) -> usize {
    let parts = file.split('/').count() - 1;
    if file.ends_with("/mod.rs") {
        parts - 1
    } else {
        parts
    }
}

#[test]
fn arrows_point_down() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src"]) {
        let inside = file.trim_start_matches("src/");
        let room = inside
            .split('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs");
        if room == "lib" || room == "bin" {
            continue;
        }
        let Some(own) = layer(room) else {
            wrong.push(format!(
                "{file}: the room {room:?} stands in no layer; add it to LAYERS"
            ));
            continue;
        };
        // One statement per piece, so that lists over several lines are read whole.
        let statements: String = code(&text)
            .map(|(_, line)| line)
            .collect::<Vec<_>>()
            .join(" ");
        for statement in statements.split(';') {
            for used in rooms_in(statement, depth(&file)) {
                let Some(other) = layer(&used) else { continue };
                if used != room && other >= own {
                    wrong.push(format!("{file}: {room} -> {used}"));
                }
            }
        }
    }
    wrong.dedup();
    none("a room uses only what stands below it", &wrong);
}

#[test]
fn mains_only_call_the_command_line() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src/bin"]) {
        let lines = code(&text)
            .filter(|(_, line)| !line.trim().is_empty())
            .count();
        if lines > 3 || !text.contains("halite::cli::") {
            wrong.push(file);
        }
    }
    none(
        "a main is three lines that call halite::cli::<name>::run",
        &wrong,
    );
}

#[test]
fn files_can_be_read_in_one_go() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src", "ipc", "tests"]) {
        let lines = text.lines().count();
        let excused = TOO_LONG.iter().any(|(name, _)| *name == file);
        match lines > LONGEST {
            true if !excused => wrong.push(format!("{file}: {lines} lines")),
            false if excused => {
                wrong.push(format!("{file}: short enough now; take it off TOO_LONG"))
            }
            _ => {}
        }
    }
    none(
        &format!("a file has at most {LONGEST} lines; split it by subject"),
        &wrong,
    );
}

#[test]
fn unsafe_code_stands_in_sys() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src", "ipc/src"]) {
        if file.starts_with("src/sys/") || file == "src/sys" {
            continue;
        }
        for (n, line) in code(&text) {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == "unsafe" || word == "unsafe_code") && !line.contains('"') {
                wrong.push(format!("{file}:{n}: {}", line.trim()));
            }
        }
    }
    none("unsafe code stands only in src/sys", &wrong);
}

#[test]
fn libzmq_stands_in_transport() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src"]) {
        if file.starts_with("src/transport/") {
            continue;
        }
        for (n, line) in code(&text) {
            if line.contains("zmq::") {
                wrong.push(format!("{file}:{n}: {}", line.trim()));
            }
        }
    }
    none("other rooms use the types of src/transport", &wrong);
}

#[test]
fn nothing_from_outside_is_unwrapped() {
    let mut wrong = Vec::new();
    for (file, text) in sources(&["src", "ipc/src"]) {
        if is_test(&file) {
            continue;
        }
        for (n, line) in code(without_tests(&text)) {
            // With a text, as other types have methods of the name too.
            let found = [
                ".unwrap()",
                ".expect(\"",
                ".expect(&format",
                ".unwrap_err()",
                ".expect_err(\"",
            ];
            let certain =
                |(name, part, _): &(&str, &str, &str)| *name == file && line.contains(part);
            if found.iter().any(|f| line.contains(f)) && !CERTAIN.iter().any(certain) {
                wrong.push(format!("{file}:{n}: {}", line.trim()));
            }
        }
    }
    none("no unwrap or expect outside of tests", &wrong);
}

/// Paths of the machine on which something was written are of no use to anybody else.
#[test]
fn no_paths_of_one_machine() {
    // Put together here, so that this file does not hold them.
    let unwanted = [format!("/{}/", "work"), format!("/{}/", "root")];
    let mut wrong = Vec::new();
    for path in files(".") {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for (n, line) in text.lines().enumerate() {
            // Where stock Salt looks for keys when root runs it.
            let line = line.replace("/root/.ssh", "");
            let starts = |at: usize| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.}/*".contains(c))
            };
            if unwanted
                .iter()
                .any(|u| line.match_indices(u.as_str()).any(|(at, _)| starts(at)))
            {
                wrong.push(format!("{}:{}: {}", shown(&path), n + 1, line.trim()));
            }
        }
    }
    none("no path of one machine in the tree", &wrong);
}

/// The scanner itself: what it must see, and what it must not.
#[test]
fn the_scanner_sees_arrows() {
    assert_eq!(rooms_in("use crate::wire::Value", 1), ["wire"]);
    assert_eq!(
        rooms_in("use crate::{sys::x, store::{a, b}}", 2),
        ["sys", "store"]
    );
    assert_eq!(
        rooms_in("let x = crate::cli::run() + crate::sys::y()", 2),
        ["cli", "sys"]
    );
    assert_eq!(rooms_in("use super::super::master::x", 2), ["master"]);
    assert_eq!(rooms_in("use super::sys", 3), Vec::<String>::new());
    assert_eq!(
        (
            depth("src/wire"),
            depth("src/wire/ids.rs"),
            depth("src/a/b/c.rs")
        ),
        (1, 2, 3)
    );
    assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {\nb"), "a\n");
    assert_eq!(
        without_tests("#[cfg(test)]\nmod tests;\nb"),
        "#[cfg(test)]\nmod tests;\nb"
    );
}
