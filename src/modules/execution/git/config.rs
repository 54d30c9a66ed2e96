//! The configuration of git: of a repository, or with `global` of a user.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::run::{Git, GitOutput, cwd, first_word, keyword, list, reject_unknown_kwargs};
use halite_wire::{Map, Value};

/// Whether the keyword `global` is given; otherwise a repository is required.
fn is_global(call: &Call<'_>) -> Result<bool> {
    let global = keyword(call, "global").truthy();
    match cwd(call) {
        None if !global => Err(CallError::Invocation(
            "'cwd' argument required unless global=True".into(),
        )),
        _ => Ok(global),
    }
}

fn scope_option(global: bool) -> &'static str {
    if global { "--global" } else { "--local" }
}

fn run_config(call: &mut Call<'_>, how: &str, global: bool) -> Result<GitOutput> {
    let key = python::str(call.arg("key"));
    let regex = match how {
        "--get-regexp" => call.text("value_regex"),
        _ => None,
    };
    Git::plain(call, &["config", scope_option(global), how])
        .arg(key)
        .args(regex)
        .may_fail()
        .run(call)
}

/// All values of a key; `None` if it is not set.
fn values(call: &mut Call<'_>, global: bool) -> Result<Option<Vec<String>>> {
    let done = run_config(call, "--get-all", global)?;
    Ok((done.code != 1).then(|| done.stdout.lines().map(str::to_owned).collect()))
}

pub fn get(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["all", "global"])?;
    let global = is_global(call)?;
    let all = keyword(call, "all").truthy();
    Ok(match values(call, global)? {
        None => Value::Nil,
        Some(values) if all => values.into(),
        Some(values) => values.last().map_or_else(|| "".into(), Value::from),
    })
}

pub fn get_regexp(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["global"])?;
    let global = is_global(call)?;
    let done = run_config(call, "--get-regexp", global)?;
    let mut found: Vec<(&str, Vec<Value>)> = Vec::new();
    if done.code != 1 {
        for (key, value) in done.stdout.lines().filter_map(first_word) {
            match found.iter_mut().find(|(k, _)| *k == key) {
                Some((_, values)) => values.push(value.into()),
                None => found.push((key, vec![value.into()])),
            }
        }
    }
    Ok(found.into_iter().collect::<Map>().into())
}

pub fn set(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["add", "global"])?;
    let global = is_global(call)?;
    let add = keyword(call, "add").truthy();
    let key = python::str(call.arg("key"));
    let put = |call: &mut Call<'_>, how: &str, value: String| {
        let mut words = vec!["config"];
        words.extend(global.then_some("--global"));
        words.push(how);
        Git::plain(call, &words)
            .arg(key.clone())
            .arg(value)
            .run(call)
    };
    match (call.text("value"), call.arg("multivar").clone()) {
        (Some(_), multivar) if !multivar.is_nil() => {
            return Err(CallError::Invocation(
                "Only one of 'value' and 'multivar' is permitted".into(),
            ));
        }
        (Some(value), _) => {
            put(call, if add { "--add" } else { "--replace-all" }, value)?;
        }
        (None, Value::Nil) => {
            return Err(CallError::Type("'NoneType' object is not iterable".into()));
        }
        (None, multivar) => {
            for (n, value) in list(&multivar).into_iter().enumerate() {
                put(call, if n > 0 { "--add" } else { "--replace-all" }, value)?;
            }
        }
    }
    Ok(values(call, global)?.into())
}

pub fn unset(call: &mut Call<'_>) -> Result {
    reject_unknown_kwargs(call, &["all", "global"])?;
    let global = is_global(call)?;
    let how = if keyword(call, "all").truthy() {
        "--unset-all"
    } else {
        "--unset"
    };
    let key = python::str(call.arg("key"));
    let regex = call.text("value_regex");
    let done = Git::plain(call, &["config", how, scope_option(global)])
        .arg(key.clone())
        .args(regex.clone())
        .may_fail()
        .run(call)?;
    let text = match done.code {
        0 => return Ok(true.into()),
        1 => "Section or key is invalid".to_owned(),
        5 => several(call, &key, regex.is_some())?,
        6 => "The value_regex is invalid".to_owned(),
        code => {
            let end = if done.stderr.is_empty() {
                String::new()
            } else {
                format!("; {}", done.stderr)
            };
            format!("Failed to unset key '{key}', git config returned exit code {code}{end}")
        }
    };
    Err(CallError::Command(text))
}

/// The error for a key with several values. Stock queries the repository even with `global`.
fn several(call: &mut Call<'_>, key: &str, by_regex: bool) -> Result<String> {
    if cwd(call).is_none() {
        return Err(CallError::Invocation(
            "'cwd' argument required unless global=True".into(),
        ));
    }
    let end = if by_regex {
        " and value_regex matches multiple values"
    } else {
        ""
    };
    Ok(match values(call, false)? {
        None => format!("Key '{key}' does not exist"),
        Some(_) => format!("Multiple values exist for key '{key}'{end}"),
    })
}
