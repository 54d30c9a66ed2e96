//! Rules that hold for the whole source tree: arrows between modules, sizes, what may stand where.

mod arrows;

use std::fs;
use std::path::{Path, PathBuf};

/// Sibling modules that use each other in a circle, with the module above them, the crate first, and the
/// reason why nobody has cut it. The list names exactly the modules of the circle, so that it shrinks with
/// it.
const CIRCLES: &[(&str, &[&str], &str)] = &[
    (
        "states/modules/file",
        &["clean", "directory", "recurse"],
        "what a cleaning directory keeps are the files that file.recurse manages below it, and recurse cleans as well",
    ),
    (
        "config",
        &[
            "doc",
            "error",
            "federation",
            "file",
            "finish",
            "gateways",
            "master",
            "minion",
            "paths",
            "returners",
            "runtime",
            "source",
            "table",
        ],
        "the table of options names types whose modules read options; errors name files and paths",
    ),
    (
        "config",
        &["kinds", "value"],
        "a value is converted to its kind, and kinds are read from values",
    ),
    (
        "jinja",
        &[
            "arith", "ast", "cx", "env", "error", "filters", "format", "globals", "lexer",
            "methods", "ops", "parser", "run", "tests", "value",
        ],
        "an interpreter: values call functions, which evaluate expressions, which have values",
    ),
    (
        "jinja/filters/query",
        &["eval", "functions"],
        "an interpreter of expressions: functions such as sort_by apply an expression to each element",
    ),
    (
        "master",
        &["commands", "worker"],
        "the table of commands names their handlers, and the worker looks up in it which one to call",
    ),
    (
        "transport",
        &["poll", "sockets"],
        "a poller waits for libzmq's sockets in libzmq's own way, and a socket says what is to be waited for",
    ),
];

const LONGEST: usize = 600;

/// Files that are too long still, with the reason why nobody has split them.
const TOO_LONG: &[(&str, &str)] = &[("src/config/master.rs", "one table, a row per option")];

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
    // The tests of Jinja (`x is defined`) are none of ours.
    if file == "src/jinja/tests.rs" {
        return false;
    }
    file.ends_with("/tests.rs") || file.ends_with("/testing.rs") || file.contains("/tests/")
}

/// The crates below `src`, from their directories.
fn crates() -> Vec<String> {
    let manifests = files("src").into_iter().map(|path| shown(&path));
    manifests
        .filter_map(|path| {
            let name = path.strip_prefix("src/")?.strip_suffix("/Cargo.toml")?;
            Some(name.to_owned())
        })
        .collect()
}

/// At the top of a crate and inside each of its modules.
#[test]
fn modules_of_a_crate_form_no_circle() {
    let mut wrong = Vec::new();
    let mut excused = vec![false; CIRCLES.len()];
    for name in crates() {
        let dir = format!("src/{name}");
        let sources: Vec<_> = sources(&[&dir])
            .into_iter()
            .filter(|(file, _)| !is_test(file))
            .map(|(file, text)| (file[dir.len() + 1..].to_owned(), text))
            .collect();
        let modules = arrows::parents(&sources);
        let found = modules.iter().flat_map(|module| {
            let arrows = arrows::within(module, &sources);
            let place = std::iter::once(&name).chain(module).cloned();
            let place = place.collect::<Vec<_>>().join("/");
            arrows::circles(&arrows)
                .into_iter()
                .map(|circle| (place.clone(), circle, arrows.clone()))
                .collect::<Vec<_>>()
        });
        for (place, circle, arrows) in found {
            let known = |row: &(&str, &[&str], &str)| row.0 == place && row.1 == circle;
            match CIRCLES.iter().position(known) {
                Some(at) => excused[at] = true,
                None => {
                    let inside = arrows
                        .iter()
                        .filter(|a| circle.contains(&a.from) && circle.contains(&a.to));
                    wrong.push(format!("{place}: {}", circle.join(", ")));
                    wrong.extend(
                        inside.map(|a| format!("    {} -> {}: {dir}/{}", a.from, a.to, a.file)),
                    );
                }
            }
        }
    }
    for ((name, circle, _), seen) in CIRCLES.iter().zip(excused) {
        if !seen {
            wrong.push(format!(
                "{name}: {}: no such circle now; change CIRCLES",
                circle.join(", ")
            ));
        }
    }
    none("modules of a crate use each other in one direction", &wrong);
}

/// The drawing of crates in ARCHITECTURE.md: a crate uses only crates of lower lines.
#[test]
fn crates_are_drawn_above_what_they_use() {
    let text = fs::read_to_string(top().join("ARCHITECTURE.md")).expect("it is there");
    let section = text.split("\n## Crates\n").nth(1).expect("a section");
    let drawing: Vec<&str> = section.split("```").nth(1).expect("one").lines().collect();
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let line_of = |name: &str| {
        drawing
            .iter()
            .position(|l| words(l).contains(&name.to_owned()))
    };
    let mut wrong = Vec::new();
    for name in crates() {
        let Some(own) = line_of(&name) else {
            wrong.push(format!("{name} is not drawn"));
            continue;
        };
        let manifest = top().join("src").join(&name).join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("it is there");
        let used = manifest
            .split("[dev-dependencies]")
            .next()
            .unwrap_or_default();
        for used in used.lines().filter_map(|l| l.strip_prefix("halite-")) {
            let used = used.split(['.', ' ', '=']).next().unwrap_or_default();
            if line_of(used).is_none_or(|other| other <= own) {
                wrong.push(format!("{name} uses {used}, which is not drawn below it"));
            }
        }
    }
    none("the drawing of crates agrees with Cargo.toml", &wrong);
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
        "a main is three lines that call a function of halite::cli",
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

/// What is a test is found by its place.
#[test]
fn tests_are_left_out() {
    assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {\nb"), "a\n");
    assert_eq!(
        without_tests("#[cfg(test)]\nmod tests;\nb"),
        "#[cfg(test)]\nmod tests;\nb"
    );
    assert!(is_test("src/wire/tests/x.rs") && is_test("src/wire/testing.rs"));
    assert!(!is_test("src/jinja/tests.rs"));
}

/// Keys must not end up in a core dump, whichever program has them.
#[test]
fn no_program_dumps_core() {
    let text = |path: &PathBuf| fs::read_to_string(path).expect("it can be read");
    let mut wrong = Vec::new();
    for path in files("src/bin") {
        let text = text(&path);
        if !text.contains("halite::cli::start::main(")
            && !text.contains("halite::cli::start::main_with_modules(")
        {
            wrong.push(shown(&path));
        }
    }
    for path in files("packaging/systemd") {
        if !text(&path).contains("\nLimitCORE=0") {
            wrong.push(shown(&path));
        }
    }
    none(
        "programs begin with start::main, units have LimitCORE",
        &wrong,
    );
}
