//! `augeas`: configuration files as trees, through `augtool(1)`. Stock asks libaugeas through Python; the same lenses read
//! and write the files.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, command_helpers, python, shell};
use halite_sys::command::Helper;
use halite_wire::{Map, Value, map, shlex};
use std::collections::HashMap;

pub(super) const MODULE: Module = Module {
    name: "augeas",
    functions: &[
        Function::new(
            "execute",
            execute,
            "Runs changes (set, setm, mv, ins, rm) on a file and saves it if all of them succeed.",
        )
        .args(args![
            context = None,
            lens = None,
            commands = None,
            load_path = None
        ]),
        Function::new("get", get, "The value of a path.").args(args![
            path,
            value = "",
            load_path = None
        ]),
        Function::new(
            "match",
            matches,
            "The paths that an expression matches, with values.",
        )
        .args(args![path, value = "", load_path = None]),
        Function::new("ls", ls, "The children of a path, with values.")
            .args(args![path, load_path = None]),
        Function::new("tree", tree, "All below a path, with values.")
            .args(args![path, load_path = None]),
        Function::new(
            "remove",
            remove,
            "Removes the nodes that an expression matches.",
        )
        .args(args![path, load_path = None]),
        Function::new(
            "setvalue",
            set_values,
            "Sets the values of paths, given in turn; prefix= is put before each.",
        )
        .varargs()
        .keywords(),
    ],
};

/// What `augtool` said.
struct Said {
    stdout: String,
    /// The first error, in one line.
    error: Option<String>,
}

/// How the tree is loaded.
#[derive(Default)]
struct Tree {
    /// A lens and the one file that it reads; without, all that Augeas knows is read.
    only: Option<(String, String)>,
    load_path: Option<String>,
}

impl Tree {
    fn of(call: &Call<'_>) -> Tree {
        Tree {
            only: None,
            load_path: call.text("load_path").filter(|path| !path.is_empty()),
        }
    }

    /// Runs commands of `augtool`; all are run, also after an error.
    fn run(&self, call: &mut Call<'_>, commands: &[String]) -> Result<Said> {
        shell::require("augtool").map_err(|_| {
            CallError::Command(
                "augtool is not installed; it is in the package augeas-tools (Debian) or augeas (RPM)".into(),
            )
        })?;
        let mut argv = vec!["augtool"];
        let mut lines = Vec::new();
        if let Some((lens, file)) = &self.only {
            argv.extend(["--noautoload", "--noload"]);
            let lens = if lens.contains(".lns") {
                lens.clone()
            } else {
                format!("{lens}.lns")
            };
            lines.push(format!("set /augeas/load/Only/lens {}", quoted(&lens)?));
            lines.push(format!("set /augeas/load/Only/incl {}", quoted(file)?));
            lines.push("load".to_owned());
        }
        if let Some(path) = &self.load_path {
            argv.extend(["--include", path]);
        }
        lines.extend_from_slice(commands);
        let helper = Helper {
            stdin: Some((lines.join("\n") + "\n").into_bytes()),
            ..Helper::new(argv)
        };
        let ran = command_helpers::run_all_with(call, helper)?;
        call.retcode = 0.into();
        let error = ran
            .stderr
            .lines()
            .map(|line| line.strip_prefix("error: ").unwrap_or(line));
        let error: Vec<&str> = error.filter(|line| !line.is_empty()).take(2).collect();
        Ok(Said {
            error: (ran.retcode != 0).then(|| error.join(": ")),
            stdout: ran.stdout,
        })
    }
}

/// A word of `augtool`'s commands.
fn quoted(word: &str) -> Result<String> {
    let mut out = String::with_capacity(word.len() + 2);
    out.push('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                return Err(CallError::Command(format!(
                    "Augeas: {word:?} contains a control character"
                )));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(out)
}

/// Paths and values as `print` of `augtool` shows them.
fn printed(text: &str) -> Map {
    let mut all = Map::new();
    for line in text.lines().filter(|line| line.starts_with('/')) {
        match line.split_once(" = \"") {
            Some((path, value)) => {
                let value = value.strip_suffix('"').unwrap_or(value);
                all.set(path, unescaped(value));
            }
            None => all.set(line, Value::Nil),
        }
    }
    all
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    out
}

/// A path below the context.
fn below(context: &str, path: &str) -> String {
    match context.trim_end_matches('/') {
        "" => path.to_owned(),
        context if path.is_empty() => context.to_owned(),
        context => format!("{context}/{}", path.trim_start_matches('/')),
    }
}

/// A change in the words of `augtool`, with the name of the function of libaugeas that does it.
fn change(
    context: &str,
    command: &str,
) -> Result<Result<(&'static str, String), String>, CallError> {
    let invalid = |text: &str| {
        Ok(Err(format!(
            "Invalid formatted command, see debug log for details: {text}"
        )))
    };
    let Some((method, rest)) = command.split_once(' ') else {
        return invalid(command);
    };
    let wanted = match method {
        "set" => 1..=2,
        "setm" | "ins" | "insert" => 3..=3,
        "mv" | "move" => 2..=2,
        "rm" | "remove" => 1..=1,
        _ => return Ok(Err(format!("Command {method} is not supported (yet)"))),
    };
    let Some(words) = shlex::split(rest)
        .ok()
        .filter(|words| wanted.contains(&words.len()))
    else {
        return invalid(rest);
    };
    let word = |n: usize| words.get(n).map(String::as_str).unwrap_or_default();
    let path = |n: usize| quoted(&below(context, word(n)));
    Ok(Ok(match method {
        "set" if words.len() == 1 => ("set", format!("set {}", path(0)?)),
        "set" => ("set", format!("set {} {}", path(0)?, quoted(word(1))?)),
        "setm" => (
            "setm",
            format!(
                "setm {} {} {}",
                path(0)?,
                quoted(word(1))?,
                quoted(word(2))?
            ),
        ),
        "mv" | "move" => ("move", format!("mv {} {}", path(0)?, path(1)?)),
        "rm" | "remove" => ("remove", format!("rm {}", path(0)?)),
        _ => match word(1) {
            side @ ("before" | "after") => (
                "insert",
                format!("ins {} {side} {}", quoted(word(0))?, path(2)?),
            ),
            _ => return invalid(rest),
        },
    }))
}

fn execute(call: &mut Call<'_>) -> Result {
    let failed = |text: String| Ok(map! {"retval" => false, "error" => text}.into());
    let context = call.text("context").unwrap_or_default();
    let mut tree = Tree::of(call);
    if let Some(lens) = call.text("lens").filter(|lens| !lens.is_empty()) {
        let file = context.strip_prefix("/files").unwrap_or(&context);
        if std::fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
            return failed(format!("{file} is no regular file"));
        }
        tree.only = Some((lens, file.to_owned()));
    }
    let mut changes = Vec::new();
    for command in call.arg("commands").as_array().unwrap_or_default() {
        match change(&context, &python::str(command))? {
            Ok(done) => changes.push(done),
            Err(text) => return failed(text),
        }
    }
    apply(call, &tree, &changes)?.map_or_else(failed, |()| Ok(map! {"retval" => true}.into()))
}

/// Applies changes and saves; the inner error is that of saving.
fn apply(
    call: &mut Call<'_>,
    tree: &Tree,
    changes: &[(&'static str, String)],
) -> Result<Result<(), String>, CallError> {
    let mut lines: Vec<String> = changes.iter().map(|(_, line)| line.clone()).collect();
    // augtool goes on after an error, and would save what the other changes did.
    if changes.len() > 1
        && tree.run(call, &lines)?.error.is_some()
        && let Some(text) = refused(call, tree, changes)?
    {
        return Ok(Err(text));
    }
    lines.push("save".to_owned());
    lines.push("print /augeas//error".to_owned());
    let saved = tree.run(call, &lines)?;
    let Some(error) = saved.error else {
        return Ok(Ok(()));
    };
    if let Some(text) = refused(call, tree, changes)? {
        return Ok(Err(text));
    }
    // Which file, and why: `/augeas/files/PATH/error/message`.
    let all = printed(&saved.stdout);
    let messages = all.0.iter().filter_map(|(path, value)| {
        let path = path.as_str()?.strip_suffix("/error/message")?;
        let path = path.strip_prefix("/augeas/files")?;
        let line = all.str(&format!("/augeas/files{path}/error/line"));
        let line = line.map(|line| format!(", line {line}"));
        let line = line.unwrap_or_default();
        Some(format!("{path}{line}: {}", python::str(value)))
    });
    let messages: Vec<String> = messages.collect();
    let text = if messages.is_empty() {
        error
    } else {
        messages.join("; ")
    };
    Ok(Err(format!("Augeas.save() failed: {text}")))
}

/// Why the first of these changes that fails does; the outer error is stock's exception.
fn refused(
    call: &mut Call<'_>,
    tree: &Tree,
    changes: &[(&'static str, String)],
) -> Result<Option<String>, CallError> {
    let mut lines = Vec::new();
    for (name, line) in changes {
        lines.push(line.clone());
        let Some(error) = tree.run(call, &lines)?.error else {
            continue;
        };
        if error.starts_with("Lens not found") {
            return Ok(Some(format!("Augeas.save() failed: {error}")));
        }
        return Err(CallError::raised(
            "augeas.AugeasValueError",
            format!("Augeas.{name}() failed: {error}"),
        ));
    }
    Ok(None)
}

/// The nodes that an expression matches, in order, with their values.
fn found(call: &mut Call<'_>, path: &str) -> Result<Map> {
    let path = quoted(path)?;
    // `match` tells what matches, `print` what it is; the answer about a node that is not there stands between them.
    let mark = format!("/halite-{:016x}", rand::random::<u64>());
    let commands = [
        format!("match {path}"),
        format!("get {mark}"),
        format!("print {path}"),
    ];
    let said = Tree::of(call).run(call, &commands)?;
    if let Some(error) = said.error {
        return Err(CallError::Command(format!(
            "Augeas.match() failed: {error}"
        )));
    }
    let (matching, all) = said.stdout.split_once(&mark).unwrap_or((&said.stdout, ""));
    let all = printed(all).0;
    let all: HashMap<&str, &Value> = all
        .iter()
        .filter_map(|(path, value)| Some((path.as_str()?, value)))
        .collect();
    let mut found = Map::new();
    for line in matching.lines() {
        let paths = line.match_indices(" = ").map(|(at, _)| &line[..at]);
        if let Some((path, value)) = paths
            .filter_map(|path| Some((path, *all.get(path)?)))
            .next()
        {
            found.set(path, value.clone());
        }
    }
    Ok(found)
}

fn get(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    let value = call.text("value").unwrap_or_default();
    let path = path.trim_end_matches('/');
    let path = if value.is_empty() {
        path.to_owned()
    } else {
        format!("{path}/{}", value.trim_start_matches('/'))
    };
    let mut found = found(call, &path)?;
    if found.len() > 1 {
        return Err(CallError::raised(
            "augeas.AugeasValueError",
            format!(
                "Augeas.get() failed: Too many matches for path expression: There are {} nodes matching {path}",
                found.len()
            ),
        ));
    }
    let value = if found.is_empty() {
        "".into()
    } else {
        found.0.remove(0).1
    };
    Ok(map! {path.as_str() => value}.into())
}

fn matches(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    let wanted = call.text("value").unwrap_or_default();
    let found = found(call, &path)?;
    let kept = found
        .0
        .into_iter()
        .filter(|(_, value)| wanted.is_empty() || value.is_str(&wanted));
    Ok(Map(kept.collect()).into())
}

fn ls(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    let path = format!("{}/", path.trim_end_matches('/'));
    let children = found(call, &format!("{path}*"))?;
    let grandchildren = found(call, &format!("{path}*/*"))?;
    let mut out = Map::new();
    for (child, value) in children.0 {
        let child = python::str(&child);
        let below = format!("{child}/");
        let parent = grandchildren
            .0
            .iter()
            .any(|(path, _)| path.as_str().is_some_and(|p| p.starts_with(&below)));
        let name = child.strip_prefix(&path).unwrap_or(&child);
        out.set(
            if parent {
                format!("{name}/")
            } else {
                name.to_owned()
            },
            value,
        );
    }
    Ok(out.into())
}

fn tree(call: &mut Call<'_>) -> Result {
    let path = call.text("path").unwrap_or_default();
    let path = quoted(path.trim_end_matches('/'))?;
    let said = Tree::of(call).run(call, &[format!("print {path}")])?;
    match said.error {
        Some(error) => Err(CallError::Command(format!(
            "Augeas.match() failed: {error}"
        ))),
        None => Ok(printed(&said.stdout).into()),
    }
}

fn remove(call: &mut Call<'_>) -> Result {
    let path = quoted(&call.text("path").unwrap_or_default())?;
    let said = Tree::of(call).run(call, &[format!("rm {path}"), "save".to_owned()])?;
    if let Some(error) = said.error {
        return Ok(map! {"retval" => false, "error" => error, "count" => -1}.into());
    }
    let count = said.stdout.lines().find_map(|line| {
        let count = line.strip_prefix("rm :")?.rsplit(' ').next()?;
        count.parse::<i64>().ok()
    });
    Ok(match count.unwrap_or_default() {
        0 => map! {"retval" => true, "count" => 0},
        count => map! {"retval" => true, "count" => count},
    }
    .into())
}

fn set_values(call: &mut Call<'_>) -> Result {
    let prefix = call
        .bound
        .kwargs
        .str("prefix")
        .unwrap_or_default()
        .to_owned();
    let words: Vec<String> = call.bound.varargs.iter().map(python::str).collect();
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(CallError::Command(
            "augeas.setvalue takes paths and values in turn".into(),
        ));
    }
    let mut changes = Vec::new();
    for pair in words.chunks(2) {
        let path = quoted(&below(&prefix, &pair[0]))?;
        changes.push(("set", format!("set {path} {}", quoted(&pair[1])?)));
    }
    let tree = Tree::of(call);
    Ok(match apply(call, &tree, &changes)? {
        Ok(()) => map! {"retval" => true},
        Err(error) => map! {"retval" => false, "error" => error},
    }
    .into())
}
