//! Shared code of the package managers (`salt/modules/pkg_resource.py`, `salt/utils/pkg`).

use crate::execution::declare::Result;
use crate::execution::program::CommandOutput;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value, yaml};
use indexmap::IndexMap;

/// Packages with their versions.
pub type Packages = IndexMap<String, Vec<String>>;

/// The positional arguments as text.
pub fn names(call: &Call<'_>) -> Vec<String> {
    call.bound.varargs.iter().map(python::str).collect()
}

/// An argument or undeclared keyword; nil if not given.
pub fn option(call: &Call<'_>, name: &str) -> Value {
    match call.arg(name) {
        Value::Nil => call.bound.kwargs.get(name).cloned().unwrap_or_default(),
        other => other.clone(),
    }
}

/// Whether an argument or undeclared keyword is given and true in Python's sense.
pub fn option_is_true(call: &Call<'_>, name: &str) -> bool {
    option(call, name).truthy()
}

/// Whether a keyword is given.
pub fn has_keyword(call: &Call<'_>, name: &str) -> bool {
    call.bound.kwargs.contains(name)
}

/// Undeclared keywords without those the job adds.
pub fn keywords(call: &Call<'_>) -> Map {
    let mut map = call.bound.kwargs.clone();
    map.0.retain(|(k, _)| !python::str(k).starts_with("__"));
    map
}

/// Rejects unknown keywords.
///
/// # Errors
/// There is one.
pub fn reject_unknown_kwargs(keywords: &Map) -> Result<()> {
    if keywords.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = keywords
        .iter()
        .map(|(k, v)| format!("{}={}", python::str(k), python::str(v)))
        .collect();
    Err(CallError::Invocation(format!(
        "The following keyword arguments are not valid: {}",
        list.join(", ")
    )))
}

/// Versions as lists, or joined by commas.
pub fn value(packages: &Packages, as_list: bool) -> Map {
    let one = |versions: &Vec<String>| -> Value {
        if as_list {
            versions.clone().into()
        } else {
            versions.join(",").into()
        }
    };
    packages
        .iter()
        .map(|(name, v)| (name.clone(), one(v)))
        .collect()
}

/// The changes between two package lists.
pub fn changes(old: &Packages, new: &Packages) -> Map {
    command_helpers::compare(&value(old, false), &value(new, false))
}

/// `pkg.version`.
pub fn version(call: &Call<'_>, installed: &Packages) -> Value {
    use crate::execution::nested::is_true;
    let mut ret = Packages::new();
    let mut glob = false;
    for name in names(call) {
        if name.contains('*') {
            glob = true;
            let found = installed.iter().filter(|(n, _)| fnmatch(n, &name));
            ret.extend(found.map(|(n, v)| (n.clone(), v.clone())));
        } else {
            let versions = installed.get(&name).cloned().unwrap_or_default();
            ret.insert(name, versions);
        }
    }
    let ret = value(&ret, is_true(&option(call, "versions_as_list")));
    match ret.0.as_slice() {
        [(_, only)] if !glob => only.clone(),
        _ => ret.into(),
    }
}

/// Names with their wanted versions.
pub type WantedVersions = Vec<(String, Option<String>)>;

/// What to install or remove.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// Nothing.
    None,
    /// Packages with their wanted versions.
    Repository(WantedVersions),
    /// Package files.
    File(Vec<String>),
    /// Advisories by id.
    Advisory(Vec<String>),
}

/// `pkg_resource.parse_targets`; `normalize` normalizes names.
///
/// # Errors
/// Lists with duplicates, or sources that are not absolute paths.
pub fn targets(
    call: &mut Call<'_>,
    name: &Value,
    pkgs: &Value,
    sources: &Value,
    normalize: &dyn Fn(&str) -> String,
) -> Result<Targets> {
    if pkgs.truthy() && sources.truthy() {
        log::error!("Only one of \"pkgs\" and \"sources\" can be used.");
        return Ok(Targets::None);
    }
    if has_keyword(call, "advisory_ids") {
        if pkgs.truthy() {
            return Ok(Targets::None);
        }
        let ids = option(call, "advisory_ids");
        let ids = match &ids {
            Value::Array(list) if !list.is_empty() => list.iter().map(python::str).collect(),
            // As in stock, text is split into letters.
            Value::Str(text) if !text.is_empty() => text.chars().map(String::from).collect(),
            _ => vec![python::str(name)],
        };
        return Ok(Targets::Advisory(ids));
    }
    if pkgs.truthy() {
        return Ok(match parse_pkgs(pkgs, normalize)? {
            list if list.is_empty() => Targets::None,
            list => Targets::Repository(list),
        });
    }
    if sources.truthy() {
        let sources = parse_sources(sources);
        if sources.is_empty() {
            return Ok(Targets::None);
        }
        let files: Result<Vec<String>> = sources
            .into_iter()
            .map(|(package, path)| source(call, &package, path))
            .collect();
        return Ok(Targets::File(files?));
    }
    if !name.truthy() {
        return Ok(Targets::None);
    }
    let version = Some(option(call, "version"))
        .filter(|v| !v.is_nil())
        .map(|v| python::str(&v));
    let mut list = WantedVersions::new();
    for one in python::str(name).split(',') {
        let one = normalize(one);
        if !list.iter().any(|(n, _)| *n == one) {
            list.push((one, version.clone()));
        }
    }
    Ok(Targets::Repository(list))
}

/// A list of names and of maps from one name to one version; empty if it has another form.
///
/// # Errors
/// A name is there twice.
pub fn parse_pkgs(pkgs: &Value, normalize: &dyn Fn(&str) -> String) -> Result<WantedVersions> {
    let parsed;
    let (items, count) = match pkgs {
        Value::Str(text) => {
            parsed = yaml::parse(text).unwrap_or_default();
            (&parsed, text.chars().count())
        }
        Value::Map(map) => (pkgs, map.len()),
        other => (other, other.as_array().map_or(0, <[_]>::len)),
    };
    let mut list = WantedVersions::new();
    for item in items.as_array().unwrap_or_default() {
        let (name, version) = match item {
            Value::Map(map) => match map.0.as_slice() {
                [(name, version)] => (python::str(name), version.clone()),
                _ => return Ok(Vec::new()),
            },
            Value::Array(_) | Value::Nil => return Ok(Vec::new()),
            other => (python::str(other), Value::Nil),
        };
        let version = (!version.is_nil()).then(|| python::str(&version));
        let name = normalize(&name);
        match list.iter_mut().find(|(n, _)| *n == name) {
            Some(slot) => slot.1 = version,
            None => list.push((name, version)),
        }
    }
    if list.len() != count {
        return Err(CallError::Invocation(format!(
            "You are passing a list of packages that contains duplicated packages names: {}. This cannot be \
             processed. In case you are targeting different versions of the same package, please target them \
             individually",
            python::str(pkgs)
        )));
    }
    Ok(list)
}

/// A list of maps from one name to one path or address; empty if it has another form.
pub fn parse_sources(sources: &Value) -> Vec<(String, String)> {
    let parsed;
    let sources = match sources {
        Value::Str(text) => {
            parsed = yaml::parse(text).unwrap_or_default();
            &parsed
        }
        other => other,
    };
    let mut list = Vec::new();
    for item in sources.as_array().unwrap_or_default() {
        match item.as_map().map(|m| m.0.as_slice()) {
            Some([(name, path)]) => list.push((python::str(name), python::str(path))),
            _ => return Vec::new(),
        }
    }
    list
}

/// A package file as a path; remote files are fetched.
fn source(call: &mut Call<'_>, package: &str, path: String) -> Result<String> {
    if remote(&path) {
        let env = call
            .bound
            .kwargs
            .get("saltenv")
            .cloned()
            .unwrap_or_else(|| "base".into());
        let found = cached(call, &path, env).map_err(|fault| match fault {
            CallError::Raised(class, text) if class == "salt.exceptions.MinionError" => {
                CallError::Command(text)
            }
            other => other,
        });
        return match found? {
            Some(cached) => Ok(cached),
            None => Err(CallError::Command(format!(
                "Unable to cache source {path} for package {package}"
            ))),
        };
    }
    if !path.starts_with('/') {
        return Err(CallError::Invocation(format!(
            "Path {path} for package {package} is either not absolute or an invalid protocol"
        )));
    }
    Ok(path)
}

/// Whether a URL is remote (`config.valid_fileproto`).
pub fn remote(path: &str) -> bool {
    let scheme = path.split(':').next().unwrap_or_default();
    path.contains(':')
        && ["salt", "file", "http", "https", "ftp", "swift", "s3"]
            .contains(&scheme.to_lowercase().as_str())
}

/// `cp.cache_file`.
///
/// # Errors
/// Those of the function.
pub fn cached(call: &mut Call<'_>, path: &str, env: Value) -> Result<Option<String>> {
    let found = call.salt("cp.cache_file", vec![path.into(), env], Map::new())?;
    Ok(found.as_str().filter(|p| !p.is_empty()).map(str::to_owned))
}

/// Splits `>=1.0` into the comparison and the version.
pub fn split_comparison(version: &str) -> (&str, &str) {
    const ALL: [&str; 10] = ["<=>", "!=", ">=", "<=", ">>", "<<", "<>", ">", "<", "="];
    let Some(sign) = ALL.iter().find(|s| version.starts_with(**s)) else {
        return ("", version);
    };
    let rest = &version[sign.len()..];
    let rest = rest.strip_prefix(char::is_whitespace).unwrap_or(rest);
    if rest.is_empty() || rest.contains(['<', '>', '=']) {
        ("", version)
    } else {
        (sign, rest)
    }
}

/// Whether a comparison holds for versions of this order (`salt/utils/versions.py compare`).
pub fn holds(order: Option<i64>, sign: &str) -> bool {
    let Some(order) = order else { return false };
    match sign {
        "<" => order < 0,
        "<=" => order <= 0,
        "==" => order == 0,
        ">=" => order >= 0,
        ">" => order > 0,
        "!=" => order != 0,
        _ => false,
    }
}

/// The result of an upgrade: the changes, and on failure the program's output.
///
/// # Errors
/// The program failed.
pub fn outcome_of_upgrade(ran: &CommandOutput, old: &Packages, new: &Packages) -> Result {
    let ret = changes(old, new);
    if ran.ok() {
        Ok(ret.into())
    } else {
        Err(failed_upgrade(ran, ret))
    }
}

/// The error of a failed upgrade, with its output and changes.
pub fn failed_upgrade(ran: &CommandOutput, changes: Map) -> CallError {
    let result = map! {
        "pid" => ran.pid, "retcode" => ran.retcode, "stdout" => ran.stdout.as_str(), "stderr" => ran.stderr.as_str(),
    };
    let info = map! {"changes" => changes, "result" => result};
    with_info("Problem encountered upgrading packages", &info.into())
}

/// A `CommandExecutionError` with data below its message.
pub fn with_info(message: &str, info: &Value) -> CallError {
    if !info.truthy() {
        return CallError::Command(message.to_owned());
    }
    let stop = if message.ends_with(['.', '?', '!']) {
        ""
    } else {
        "."
    };
    let mut lines = Vec::new();
    nested(info, 0, "", &mut lines);
    let text = lines.join("\n");
    CallError::Command(format!(
        "{message}{stop} Additional info follows:\n\n{}",
        text.trim_end()
    ))
}

/// The outputter `nested` without colours.
fn nested(value: &Value, indent: usize, prefix: &str, out: &mut Vec<String>) {
    let pad = " ".repeat(indent);
    match value {
        Value::Str(text) => {
            for (i, line) in text.lines().enumerate() {
                let blank = " ".repeat(prefix.len());
                let prefix = if i == 0 { prefix } else { &blank };
                out.push(format!("{pad}{prefix}{line}"));
            }
        }
        Value::Array(list) => {
            for item in list {
                match item {
                    Value::Array(_) | Value::Map(_) => {
                        out.push(format!("{pad}|_"));
                        let prefix = if matches!(item, Value::Map(_)) {
                            ""
                        } else {
                            "- "
                        };
                        nested(item, indent + 2, prefix, out);
                    }
                    other => nested(other, indent, "- ", out),
                }
            }
        }
        Value::Map(map) => {
            if indent > 0 {
                out.push(format!("{pad}----------"));
            }
            let mut pairs: Vec<(String, &Value)> =
                map.iter().map(|(k, v)| (python::str(k), v)).collect();
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
            for (key, value) in pairs {
                out.push(format!("{pad}{prefix}{key}:"));
                nested(value, indent + 4, "", out);
            }
        }
        other => out.push(format!("{pad}{prefix}{}", python::str(other))),
    }
}

/// The error of an installation or removal.
pub fn change_error(what: &str, errors: Vec<String>, changes: Map) -> CallError {
    let info = map! {"errors" => errors, "changes" => changes};
    with_info(
        &format!("Problem encountered {what} package(s)"),
        &info.into(),
    )
}

/// Returns an empty map.
pub fn empty() -> Result {
    Ok(Map::new().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons() {
        assert_eq!(split_comparison(">=1.0"), (">=", "1.0"));
        assert_eq!(split_comparison("> 1.0"), (">", "1.0"));
        assert_eq!(split_comparison("1.0"), ("", "1.0"));
        assert_eq!(split_comparison(">"), ("", ">"));
        assert!(holds(Some(0), ">=") && !holds(None, "==") && !holds(Some(0), "="));
    }

    #[test]
    fn errors_show_their_data() {
        let errors = vec!["E: one\ntwo".to_owned()];
        let CallError::Command(text) = change_error("installing", errors, Map::new()) else {
            panic!();
        };
        assert_eq!(
            text,
            "Problem encountered installing package(s). Additional info follows:\n\nchanges:\n    ----------\n\
             errors:\n    - E: one\n      two"
        );
    }

    #[test]
    fn package_lists() {
        let same = |n: &str| n.to_owned();
        let list = Value::Array(vec!["a".into(), map! {"b" => 2}.into()]);
        assert_eq!(
            parse_pkgs(&list, &same).unwrap(),
            [
                ("a".to_owned(), None),
                ("b".to_owned(), Some("2".to_owned()))
            ]
        );
        let twice = Value::Array(vec!["a".into(), "a".into()]);
        assert!(parse_pkgs(&twice, &same).is_err());
    }
}
