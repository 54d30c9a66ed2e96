//! Read-only functions.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::run::{Git, first_word, keyword, list, opts, reject_unknown_kwargs};
use halite_wire::{Map, Value};

pub fn current_branch(call: &mut Call<'_>) -> Result {
    Git::plain(call, &["rev-parse", "--abbrev-ref", "HEAD"]).value(call)
}

pub fn describe(call: &mut Call<'_>) -> Result {
    Git::plain(call, &["describe", "--always"])
        .arg(python::str(call.arg("rev")))
        .value(call)
}

pub fn diff(call: &mut Call<'_>) -> Result {
    let (no_index, cached) = (call.flag("no_index"), call.flag("cached"));
    if no_index && cached {
        return Err(CallError::Command(
            "The 'no_index' and 'cached' options cannot be used together".into(),
        ));
    }
    let item = |name: &str| Some(call.arg(name)).filter(|v| v.truthy()).map(python::str);
    let mut git = Git::new(call, &["diff"])?
        .current_dir(call.arg("cwd").clone())
        .args(opts(call)?)
        .merge_stderr();
    git = if no_index {
        git.arg("--no-index").may_fail().ignore_retcode()
    } else if cached {
        git.arg("--cached").args(item("item1"))
    } else {
        git.args(item("item1")).args(item("item2"))
    };
    let paths = call.arg("paths");
    if !paths.is_nil() {
        let paths = list(paths);
        if !paths.is_empty() {
            git = git.arg("--").args(paths);
        }
    }
    git.value(call)
}

fn lines(text: &str) -> Value {
    text.lines().map(Value::from).collect::<Vec<_>>().into()
}

fn references(call: &mut Call<'_>, below: &str) -> Result {
    let words = ["for-each-ref", "--format", "%(refname:short)", below];
    let text = Git::plain(call, &words).text(call)?;
    Ok(lines(&text))
}

pub fn list_branches(call: &mut Call<'_>) -> Result {
    let remote = call.flag("remote");
    references(
        call,
        if remote {
            "refs/remotes/"
        } else {
            "refs/heads/"
        },
    )
}

pub fn list_tags(call: &mut Call<'_>) -> Result {
    references(call, "refs/tags/")
}

pub fn merge_base(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["all"])?;
    let all = keyword(call, "all").truthy();
    let [octopus, is_ancestor, independent] =
        ["octopus", "is_ancestor", "independent"].map(|name| call.flag(name));
    let fork_point = Some(call.arg("fork_point"))
        .filter(|v| v.truthy())
        .map(python::str);
    if all && (independent || is_ancestor || fork_point.is_some()) {
        return Err(CallError::Invocation(
            "The 'all' argument is not compatible with 'independent', 'is_ancestor', or 'fork_point'"
                .into(),
        ));
    }
    let mut refs = match call.arg("refs") {
        Value::Nil => Vec::new(),
        Value::Array(items) => items.iter().map(python::str).collect(),
        other => list(other).iter().map(|r| r.trim().to_owned()).collect(),
    };
    let chosen = [octopus, independent, is_ancestor, fork_point.is_some()];
    let wrong = if chosen.iter().filter(|c| **c).count() > 1 {
        Some("Only one of 'octopus', 'independent', 'is_ancestor', and 'fork_point' is permitted")
    } else if is_ancestor && refs.len() != 2 {
        Some("Two refs/commits are required if 'is_ancestor' is True")
    } else if fork_point.is_some() && refs.len() > 1 {
        Some("At most one ref/commit can be passed if 'fork_point' is specified")
    } else {
        None
    };
    if let Some(text) = wrong {
        return Err(CallError::Invocation(text.into()));
    }
    if fork_point.is_some() && refs.is_empty() {
        refs.push("HEAD".to_owned());
    }
    let mut git = Git::new(call, &["merge-base"])?
        .args(opts(call)?)
        .flag(all, "--all")
        .flag(octopus, "--octopus")
        .flag(is_ancestor, "--is-ancestor")
        .flag(independent, "--independent");
    if let Some(point) = fork_point {
        git = git.arg("--fork-point").arg(point);
    }
    git = git.args(refs);
    if is_ancestor {
        return Ok((git.may_fail().run(call)?.code == 0).into());
    }
    let bases = git.text(call)?;
    if all {
        return Ok(lines(&bases));
    }
    first_line(&bases)
}

fn first_line(text: &str) -> Result {
    let first = text.lines().next().map(Value::from);
    first.ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
}

pub fn merge_tree(call: &mut Call<'_>) -> Result {
    let [one, other] = ["ref1", "ref2"].map(|name| python::str(call.arg(name)));
    let base = match call.text("base") {
        Some(base) => base,
        None => common(call, &one, &other)?,
    };
    Git::plain(call, &["merge-tree", &base, &one, &other]).value(call)
}

fn common(call: &mut Call<'_>, one: &str, other: &str) -> Result<String> {
    let git = Git::plain(call, &["merge-base", one, other]);
    match git.text(call) {
        Ok(text) => first_line(&text).map(|v| python::str(&v)),
        Err(CallError::Command(_) | CallError::Invocation(_)) => Err(CallError::Command(format!(
            "Unable to determine merge base for {one} and {other}"
        ))),
        Err(fault) => Err(fault),
    }
}

pub fn rev_parse(call: &mut Call<'_>) -> Result {
    Git::new(call, &["rev-parse"])?
        .args(opts(call)?)
        .args(call.text("rev"))
        .value(call)
}

pub fn revision(call: &mut Call<'_>) -> Result {
    Git::plain(call, &["rev-parse"])
        .flag(call.flag("short"), "--short")
        .arg(python::str(call.arg("rev")))
        .value(call)
}

pub fn status(call: &mut Call<'_>) -> Result {
    let text = Git::plain(call, &["status", "-z", "--porcelain"]).text(call)?;
    let mut found: Vec<(&str, Vec<Value>)> = Vec::new();
    for (state, file) in text.split('\0').filter_map(first_word) {
        let state = match state {
            "M" => "modified",
            "A" => "new",
            "D" => "deleted",
            "??" => "untracked",
            other => other,
        };
        match found.iter_mut().find(|(s, _)| *s == state) {
            Some((_, files)) => files.push(file.into()),
            None => found.push((state, vec![file.into()])),
        }
    }
    Ok(found.into_iter().collect::<Map>().into())
}

/// The version number printed by git.
pub fn number(call: &mut Call<'_>) -> Result<String> {
    let text = Git::plain(call, &["--version"])
        .current_dir(Value::Nil)
        .text(call)?;
    let text = text.split('(').next().unwrap_or_default();
    let text = text.split(".windows").next().unwrap_or_default();
    let version = text.split_whitespace().last();
    Ok(version.unwrap_or("unknown").to_owned())
}

pub fn version(call: &mut Call<'_>) -> Result {
    let version = number(call)?;
    if !call.flag("versioninfo") {
        return Ok(version.into());
    }
    let part = |part: &str| {
        part.parse::<i64>()
            .map_or_else(|_| part.into(), Value::from)
    };
    Ok(version.split('.').map(part).collect::<Vec<_>>().into())
}
