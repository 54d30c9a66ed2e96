//! `sed`, `grep` and `patch`, and `sed` with Python's regular expressions.

use super::super::declare::Result;
use super::super::{Call, CallError, python, shell};
use super::os;
use super::paths::{self, expanduser};
use super::pattern;
use halite_target::RegexTemplate;
use halite_wire::{Value, shlex};

/// Escapes special characters of a `sed` expression (`_sed_esc`).
fn escaped(text: &str, all: bool) -> String {
    let mut out = text.replace('\'', "'\"'\"'").replace('/', "\\/");
    if all {
        for c in "^.[$()|*+?{".chars() {
            out = out.replace(c, &format!("\\{c}"));
        }
    }
    out
}

fn text(call: &Call<'_>, name: &str) -> String {
    match call.arg(name) {
        Value::Nil => "None".to_owned(),
        other => python::str(other),
    }
}

fn split_options(line: &str) -> Result<Vec<String>> {
    shlex::split(line).map_err(|e| CallError::raised("ValueError", e))
}

fn limited(limit: &str, command: String) -> String {
    if limit.is_empty() {
        command
    } else {
        format!("/{limit}/ {command}")
    }
}

pub fn sed(call: &mut Call<'_>) -> Result {
    let path = expanduser(&text(call, "path"));
    if !paths::exists(&path) {
        return Ok(false.into());
    }
    let all = call.arg("escape_all") == &Value::Bool(true);
    let [before, after, limit] =
        ["before", "after", "limit"].map(|name| escaped(&text(call, name), all));
    let backup = super::replace::suffix(call.arg("backup"));
    let mut argv = vec!["sed".to_owned(), format!("-i{backup}")];
    argv.extend(split_options(&text(call, "options"))?);
    let negate = if call.flag("negate_match") { "!" } else { "" };
    let flags = text(call, "flags");
    argv.push(limited(
        &limit,
        format!("{negate}s/{before}/{after}/{flags}"),
    ));
    argv.push(path);
    shell::run_all_map(call, &argv)
}

pub fn sed_contains(call: &mut Call<'_>) -> Result {
    let path = expanduser(&text(call, "path"));
    if !paths::exists(&path) {
        return Ok(false.into());
    }
    let [wanted, limit] = ["text", "limit"].map(|name| escaped(&text(call, name), false));
    let flags = text(call, "flags");
    let script = limited(&limit, format!("s/{wanted}/$/p{flags}"));
    let shown = shell::run(call, &["sed", "-n", "-r", "-e", &script, &path])?;
    Ok((!shown.is_empty()).into())
}

/// With `multi`, stock iterates over the first line's letters, and fails with a limit.
pub fn psed(call: &mut Call<'_>) -> Result {
    let path = expanduser(&text(call, "path"));
    let all = call.arg("escape_all") == &Value::Bool(true);
    let [before, limit] = ["before", "limit"].map(|name| escaped(&text(call, name), all));
    let (after, mut letters) = (text(call, "after"), text(call, "flags"));
    let backup = format!("{path}{}", text(call, "backup"));
    os::copy_aside(&path, &backup)?;
    os::overwrite(&path, b"")?;
    let content = os::read_text(&backup)?;
    let pieces: Vec<String> = if call.flag("multi") {
        let first = halite_wire::pylines::of_file(&content);
        let first = first.first().copied().unwrap_or_default();
        first.chars().map(String::from).collect()
    } else {
        vec![content]
    };
    if !limit.is_empty() && !pieces.is_empty() {
        pattern::text(&limit, 0)?;
        return Err(CallError::Type(
            "must be str or None, not re.Pattern".to_owned(),
        ));
    }
    let count = usize::from(!letters.contains('g'));
    letters = letters.replace('g', "");
    let mut bits = 0;
    for letter in letters.chars().filter(|_| !pieces.is_empty()) {
        if !"ILMSUX".contains(letter) {
            return Err(CallError::raised("KeyError", format!("'{letter}'")));
        }
        bits |= pattern::flags(&letter.to_string().into())?;
    }
    let mut new = String::new();
    let regex = pattern::text(&before, bits)?;
    let template = RegexTemplate::new(&after, &regex).map_err(pattern::template_error)?;
    for piece in &pieces {
        let done = regex.replace(piece, &template, count, |_| Ok::<(), CallError>(()))?;
        new.push_str(&done.text);
    }
    os::overwrite(&path, new.as_bytes())?;
    Ok(Value::Nil)
}

pub fn grep(call: &mut Call<'_>) -> Result {
    let path = expanduser(&text(call, "path"));
    let mut argv = vec!["grep".to_owned()];
    for option in &call.bound.varargs {
        let option = python::str(option);
        let split = split_options(&option)?;
        if split.len() > 1 {
            return os::invocation(format!(
                "Passing multiple command line arguments in a single string is not supported, please pass the \
                 following arguments separately: {option}"
            ));
        }
        argv.extend(split);
    }
    argv.push(text(call, "pattern"));
    let found = paths::glob(&path);
    if found.is_empty() {
        argv.push(path)
    } else {
        argv.extend(found)
    }
    shell::run_all_map(call, &argv)
}

/// The arguments of `file.patch`.
#[derive(Clone, Debug, Default)]
pub struct PatchArgs {
    /// A file or directory.
    pub original: String,
    /// The patch file.
    pub patch: String,
    /// More options for `patch`.
    pub options: String,
    /// Change nothing.
    pub dry_run: bool,
}

/// Runs `patch`; the result is that of `cmd.run_all`.
///
/// # Errors
/// The program is missing.
pub fn patch(call: &mut Call<'_>, request: &PatchArgs) -> Result {
    let Some(program) = super::super::cmd::which("patch") else {
        return os::command(
            "patch executable not found. Is the distribution's patch package installed?",
        );
    };
    let mut argv = vec![program];
    argv.extend(split_options(&request.options)?);
    let mut has = |tests: &[&str], default: &str| {
        let there = argv.iter().any(|w| {
            tests
                .iter()
                .any(|t| w == t || t.ends_with('*') && w.starts_with(&t[..t.len() - 1]))
        });
        if !there {
            argv.push(default.to_owned());
        }
    };
    if request.dry_run {
        has(&[], "--dry-run");
    }
    has(&["-N", "--forward"], "--forward");
    has(&["-r", "-r *", "--reject-file*"], "--reject-file=-");
    argv.extend(["-i".to_owned(), request.patch.clone()]);
    if !paths::is_dir(&request.original) {
        argv.push(request.original.clone());
        return shell::run_all_map(call, &argv);
    }
    argv.extend(["-d".to_owned(), request.original.clone()]);
    if !argv
        .iter()
        .any(|w| w.starts_with("-p") || w.starts_with("--strip="))
    {
        argv.push("--strip=0".to_owned());
    }
    shell::run_all_map(call, &argv)
}

pub fn patch_function(call: &mut Call<'_>) -> Result {
    let request = PatchArgs {
        original: text(call, "originalfile"),
        patch: text(call, "patchfile"),
        options: call.text("options").unwrap_or_default(),
        dry_run: call.flag("dry_run"),
    };
    patch(call, &request)
}
