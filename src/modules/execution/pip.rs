//! `pip`: Python packages of an interpreter or a virtual environment (`salt/modules/pip.py`).

use super::cmd::which;
use super::command_helpers::{compare, run_all_as};
use super::declare::{Arg, Function, Module, Result, args};
use super::program::CommandOutput;
use super::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

const ENV: &[Arg] = args![bin_env = None, user = None, cwd = None, env_vars = None];

pub(super) const MODULE: Module =
    Module {
        name: "pip",
        functions: &[
            Function::new("version", |c| Ok(version(c)?.into()), "The version of pip.")
                .args(args![bin_env = None, cwd = None, user = None]),
            Function::new("list", list, "The installed packages with their versions.")
                .inner("list_")
                .args(args![
                    prefix = None,
                    bin_env = None,
                    user = None,
                    cwd = None,
                    env_vars = None
                ])
                .keywords(),
            Function::new("freeze", freeze, "The installed packages as requirements.")
                .args(ENV)
                .keywords(),
            Function::new(
                "list_freeze_parse",
                list_freeze_parse,
                "The installed packages with their versions, as pip freeze shows them.",
            )
            .args(args![
                prefix = None,
                bin_env = None,
                user = None,
                cwd = None,
                env_vars = None
            ])
            .keywords(),
            Function::new(
                "list_all_versions",
                list_all_versions,
                "The versions of a package that can be installed.",
            )
            .args(args![
                pkg,
                bin_env = None,
                include_alpha = False,
                include_beta = False,
                include_rc = False,
                user = None,
                cwd = None,
                index_url = None,
                extra_index_url = None
            ]),
            Function::new(
                "list_upgrades",
                |c| Ok(upgrades(c)?.into()),
                "The packages that have newer versions, with these.",
            )
            .args(args![bin_env = None, user = None, cwd = None]),
            Function::new(
                "upgrade_available",
                |c| Ok(upgrades(c)?.contains(&text(c, "pkg")).into()),
                "Whether a package has a newer version.",
            )
            .args(args![pkg, bin_env = None, user = None, cwd = None]),
            Function::new(
                "upgrade",
                upgrade,
                "Upgrades all packages that have newer versions.",
            )
            .args(args![
                bin_env = None,
                user = None,
                cwd = None,
                use_vt = False
            ]),
            Function::new(
                "is_installed",
                is_installed,
                "Whether a package is installed.",
            )
            .args(args![pkgname, bin_env = None, user = None, cwd = None]),
            Function::new(
                "normalize",
                |c| Ok(normalized(&text(c, "name")).into()),
                "A name as indexes compare it.",
            )
            .args(args![name]),
            Function::new(
                "install",
                install,
                "Installs packages or what requirements files name.",
            )
            .args(args![
                pkgs = None,
                requirements = None,
                bin_env = None,
                log = None,
                proxy = None,
                timeout = None,
                editable = None,
                find_links = None,
                index_url = None,
                extra_index_url = None,
                no_index = False,
                target = None,
                upgrade = False,
                force_reinstall = False,
                ignore_installed = False,
                exists_action = None,
                no_deps = False,
                global_options = None,
                install_options = None,
                user = None,
                cwd = None,
                pre_releases = False,
                cert = None,
                saltenv = "base",
                env_vars = None,
                trusted_host = None,
                no_cache_dir = False,
                cache_dir = None,
                no_binary = None,
                extra_args = None,
                disable_version_check = False
            ])
            .names(&["pkgs"])
            .keywords(),
            Function::new(
                "uninstall",
                uninstall,
                "Removes packages or what requirements files name.",
            )
            .args(args![
                pkgs = None,
                requirements = None,
                bin_env = None,
                log = None,
                proxy = None,
                timeout = None,
                user = None,
                cwd = None,
                saltenv = "base",
                use_vt = False,
                extra_args = None
            ])
            .names(&["pkgs"]),
        ],
    };

fn text(call: &Call<'_>, name: &str) -> String {
    call.text(name).unwrap_or_default()
}

/// Words of a text separated by commas, or of a list.
fn words(value: &Value) -> Vec<String> {
    match value {
        Value::Nil => Vec::new(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => {
            let text = python::str(other);
            let words = text.split(',').map(str::trim).filter(|w| !w.is_empty());
            words.map(str::to_owned).collect()
        }
    }
}

/// The command that runs pip of `bin_env`: a directory of an environment, an interpreter, or pip itself.
fn program(call: &Call<'_>) -> Result<Vec<String>> {
    let missing =
        |name: &str| CallError::CommandNotFound(format!("Could not find a `pip` binary in {name}"));
    let module = |interpreter: String| vec![interpreter, "-m".to_owned(), "pip".to_owned()];
    let Some(env) = call.text("bin_env").filter(|e| !e.is_empty()) else {
        for name in ["pip3", "pip"] {
            if let Some(found) = which(name) {
                return Ok(vec![found]);
            }
        }
        return match which("python3") {
            Some(found) => Ok(module(found)),
            None => Err(missing("PATH")),
        };
    };
    let path = Path::new(&env);
    if path.is_dir() {
        for name in ["python", "python3"] {
            let found = path.join("bin").join(name);
            if found.is_file() {
                return Ok(module(found.to_string_lossy().into_owned()));
            }
        }
        return Err(missing(&env));
    }
    let found = if path.is_file() {
        Some(env.clone())
    } else {
        which(&env)
    };
    let Some(found) = found else {
        return Err(missing(&env));
    };
    let name = Path::new(&found)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    Ok(if name.starts_with("python") {
        module(found)
    } else {
        vec![found]
    })
}

/// Runs pip as the user and in the directory of the call.
fn run(call: &mut Call<'_>, more: Vec<String>) -> Result<CommandOutput> {
    let mut argv = program(call)?;
    argv.extend(more);
    let mut kwargs = map! {"ignore_retcode" => true};
    for (key, arg) in [("runas", "user"), ("cwd", "cwd"), ("env", "env_vars")] {
        if call.flag(arg) {
            kwargs.set(key, call.arg(arg).clone());
        }
    }
    run_all_as(call, argv, kwargs)
}

fn said(ran: CommandOutput) -> CallError {
    let text = if ran.stderr.is_empty() {
        ran.stdout
    } else {
        ran.stderr
    };
    CallError::Command(text)
}

fn version(call: &mut Call<'_>) -> Result<String> {
    let ran = run(call, vec!["--version".to_owned()])?;
    let mut words = ran.stdout.split_whitespace();
    Ok(words.nth(1).unwrap_or_default().to_owned())
}

/// A name in lower case, with runs of `-`, `_` and `.` as one `-`.
fn normalized(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            other => out.extend(other.to_lowercase()),
        }
    }
    out
}

/// What versions are compared by (PEP 440), local parts left out: the numbers, the rank beside the release, its number.
/// `1.0a1` < `1.0rc1` < `1.0` < `1.0.post1`.
pub fn version_key(text: &str) -> (Vec<u64>, i64, u64) {
    let text = text.trim_start_matches('v').to_lowercase();
    let text = text.split('+').next().unwrap_or_default();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let mut numbers: Vec<u64> = text[..end]
        .split('.')
        .filter_map(|part| part.parse().ok())
        .collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    let rest = text[end..].trim_start_matches(['.', '-', '_']);
    let letters: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
    let number = rest[letters.len()..]
        .trim_start_matches('.')
        .parse()
        .unwrap_or(0);
    let rank = match letters.as_str() {
        "dev" => -4,
        "a" | "alpha" => -3,
        "b" | "beta" => -2,
        "rc" | "c" | "pre" => -1,
        "post" | "rev" | "r" => 1,
        _ => 0,
    };
    (numbers, rank, number)
}

/// The versions that the index has, oldest first; without early ones, unless they are asked for.
fn list_all_versions(call: &mut Call<'_>) -> Result {
    let pkg = text(call, "pkg");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !pkg.starts_with(|c: char| c.is_ascii_alphanumeric()) || !pkg.chars().all(is_of_name) {
        return Err(CallError::Command(format!(
            "{pkg:?} is not the name of a package"
        )));
    }
    let ran = run(call, vec!["--version".to_owned()])?;
    if !ran.ok() {
        return Err(said(ran));
    }
    let pip = version_key(ran.stdout.split_whitespace().nth(1).unwrap_or_default());
    let mut argv = vec!["--disable-pip-version-check".to_owned()];
    // Older ones tell the versions when they do not find one.
    let (has_index, has_new_resolver) = (pip >= version_key("21.2"), pip >= version_key("20.3"));
    if has_index {
        argv.extend(["index", "versions", &pkg].map(str::to_owned));
    } else {
        argv.extend(has_new_resolver.then(|| "--use-deprecated=legacy-resolver".to_owned()));
        argv.extend(["install".to_owned(), format!("{pkg}==versions")]);
    }
    let indexes = [
        ("index_url", "--index-url"),
        ("extra_index_url", "--extra-index-url"),
    ];
    options(call, &mut argv, &indexes);
    let ran = run(call, argv)?;
    let said = format!("{}\n{}", ran.stdout, ran.stderr);
    let found = said.lines().find_map(|line| match has_index {
        true => line.trim_start().strip_prefix("Available versions:"),
        false => line.split_once("(from versions:")?.1.strip_suffix(')'),
    });
    let Some(found) = found else {
        return Ok(Value::Nil);
    };
    let early = [
        ("a", "include_alpha"),
        ("b", "include_beta"),
        ("rc", "include_rc"),
    ];
    let left_out = early.map(|(mark, arg)| (!call.flag(arg)).then_some(mark));
    let mut versions: Vec<&str> = found
        .split(',')
        .map(str::trim)
        .filter(|one| !one.is_empty() && *one != "none")
        .filter(|one| !left_out.iter().flatten().any(|mark| one.contains(mark)))
        .collect();
    versions.sort_by_cached_key(|one| version_key(one));
    Ok(match versions.is_empty() {
        true => Value::Nil,
        false => Value::Array(versions.into_iter().map(Value::from).collect()),
    })
}

fn list(call: &mut Call<'_>) -> Result {
    let argv = ["list", "--format=json", "--disable-pip-version-check"];
    let ran = run(call, argv.map(str::to_owned).to_vec())?;
    if !ran.ok() {
        return Err(said(ran));
    }
    let all: serde_json::Value = halite_wire::json::parse(ran.stdout.as_bytes())
        .map_err(|e| CallError::Command(format!("pip list: {e}")))?;
    let prefix = text(call, "prefix");
    let mut found = Map::new();
    for one in all.as_array().into_iter().flatten() {
        let get = |key: &str| {
            one.get(key)
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default()
        };
        let name = get("name");
        if !name.is_empty() && normalized(name).starts_with(&normalized(&prefix)) {
            found.set(name, get("version"));
        }
    }
    Ok(found.into())
}

fn freeze(call: &mut Call<'_>) -> Result {
    let ran = run(call, vec!["freeze".to_owned(), "--all".to_owned()])?;
    if !ran.ok() {
        return Err(said(ran));
    }
    let lines: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
    Ok(lines.into())
}

fn list_freeze_parse(call: &mut Call<'_>) -> Result {
    let prefix = text(call, "prefix");
    let mut found = Map::new();
    let lines = freeze(call)?.str_list();
    if prefix.is_empty() || "pip".starts_with(&prefix) {
        found.set("pip", version(call)?);
    }
    for line in lines {
        let Some((name, version)) = line.split_once("==") else {
            continue;
        };
        if normalized(name).starts_with(&normalized(&prefix)) {
            found.set(name, version);
        }
    }
    Ok(found.into())
}

/// Newer versions and their kinds, by package.
fn upgrades(call: &mut Call<'_>) -> Result<Map> {
    let argv = [
        "list",
        "--outdated",
        "--disable-pip-version-check",
        "--format=json",
    ];
    let ran = run(call, argv.map(str::to_owned).to_vec())?;
    if !ran.ok() {
        return Err(said(ran));
    }
    let all: serde_json::Value = halite_wire::json::parse(ran.stdout.as_bytes())
        .map_err(|_| CallError::Command("Invalid JSON".to_owned()))?;
    let mut found = Map::new();
    for one in all.as_array().into_iter().flatten() {
        let get = |key: &str| one.get(key).and_then(serde_json::Value::as_str);
        if let (Some(name), Some(new)) = (get("name"), get("latest_version")) {
            let kind = get("latest_filetype").unwrap_or_default();
            found.set(name, format!("{new} [{kind}]"));
        }
    }
    Ok(found)
}

fn upgrade(call: &mut Call<'_>) -> Result {
    let mut kwargs = Map::new();
    for key in ["bin_env", "user", "cwd"] {
        kwargs.set(key, call.arg(key).clone());
    }
    let all = |call: &mut Call<'_>| -> Result<Map> {
        let all = call.salt("pip.list", Vec::new(), kwargs.clone())?;
        Ok(all.into_map().unwrap_or_default())
    };
    let old = all(call)?;
    let (mut good, mut comment) = (true, String::new());
    for (name, _) in upgrades(call)?.iter() {
        let argv = ["install", "-U", "--disable-pip-version-check"];
        let mut argv = argv.map(str::to_owned).to_vec();
        argv.push(python::str(name));
        let ran = run(call, argv)?;
        if !ran.ok() {
            good = false;
            comment += &ran.stderr;
        }
    }
    let new = all(call)?;
    Ok(map! {
        "changes" => compare(&old, &new), "result" => good, "comment" => comment,
    }
    .into())
}

fn is_installed(call: &mut Call<'_>) -> Result {
    let mut kwargs = Map::new();
    for key in ["bin_env", "user", "cwd"] {
        kwargs.set(key, call.arg(key).clone());
    }
    let name = normalized(&text(call, "pkgname"));
    let all = call.salt("pip.list", Vec::new(), kwargs)?;
    let all = all.into_map().unwrap_or_default();
    Ok(all
        .iter()
        .any(|(n, _)| normalized(&python::str(n)) == name)
        .into())
}

/// Files of requirements as local paths.
fn requirements(call: &mut Call<'_>, argv: &mut Vec<String>) -> Result<()> {
    for file in words(&call.arg("requirements").clone()) {
        let path = if file.starts_with("salt://") || file.starts_with("http") {
            let args = vec![Value::from(file.as_str()), call.arg("saltenv").clone()];
            let found = call.salt("cp.cache_file", args, Map::new())?;
            match found.as_str().filter(|p| !p.is_empty()) {
                Some(path) => path.to_owned(),
                None => return Err(CallError::Command(format!("{file} is not there"))),
            }
        } else {
            file
        };
        argv.extend(["--requirement".to_owned(), path]);
    }
    Ok(())
}

/// Adds `--name value` for arguments that are given.
fn options(call: &Call<'_>, argv: &mut Vec<String>, names: &[(&str, &str)]) {
    for (arg, option) in names {
        for value in words(call.arg(arg)) {
            argv.extend([(*option).to_owned(), value]);
        }
    }
}

/// Adds what the caller wants to have added.
fn extra(call: &Call<'_>, argv: &mut Vec<String>) {
    for item in call.arg("extra_args").as_array().unwrap_or_default() {
        match item {
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    argv.extend([python::str(key), python::str(value)]);
                }
            }
            other => argv.push(python::str(other)),
        }
    }
}

fn result(ran: CommandOutput) -> Result {
    Ok(map! {
        "pid" => ran.pid, "retcode" => ran.retcode, "stdout" => ran.stdout, "stderr" => ran.stderr,
    }
    .into())
}

fn install(call: &mut Call<'_>) -> Result {
    let mut argv = vec!["install".to_owned()];
    requirements(call, &mut argv)?;
    argv.push("--disable-pip-version-check".to_owned());
    options(
        call,
        &mut argv,
        &[
            ("log", "--log"),
            ("proxy", "--proxy"),
            ("timeout", "--timeout"),
            ("find_links", "--find-links"),
            ("index_url", "--index-url"),
            ("extra_index_url", "--extra-index-url"),
            ("target", "--target"),
            ("exists_action", "--exists-action"),
            ("global_options", "--global-option"),
            ("install_options", "--install-option"),
            ("cert", "--cert"),
            ("trusted_host", "--trusted-host"),
            ("cache_dir", "--cache-dir"),
            ("no_binary", "--no-binary"),
        ],
    );
    for (arg, option) in [
        ("no_index", "--no-index"),
        ("upgrade", "--upgrade"),
        ("force_reinstall", "--force-reinstall"),
        ("ignore_installed", "--ignore-installed"),
        ("no_deps", "--no-deps"),
        ("pre_releases", "--pre"),
        ("no_cache_dir", "--no-cache-dir"),
    ] {
        if call.flag(arg) {
            argv.push(option.to_owned());
        }
    }
    for editable in words(call.arg("editable")) {
        let local = Path::new(&editable).exists();
        if !local && !editable.contains("egg=") {
            let text = "You must specify an egg for this editable";
            return Err(CallError::Command(text.to_owned()));
        }
        argv.extend(["--editable".to_owned(), editable]);
    }
    argv.extend(words(call.arg("pkgs")));
    extra(call, &mut argv);
    let ran = run(call, argv)?;
    result(ran)
}

fn uninstall(call: &mut Call<'_>) -> Result {
    let mut argv = vec!["uninstall".to_owned(), "-y".to_owned()];
    requirements(call, &mut argv)?;
    options(
        call,
        &mut argv,
        &[
            ("log", "--log"),
            ("proxy", "--proxy"),
            ("timeout", "--timeout"),
        ],
    );
    argv.extend(words(call.arg("pkgs")));
    extra(call, &mut argv);
    let ran = run(call, argv)?;
    result(ran)
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn names() {
        assert_eq!(normalized("Foo._-Bar_2"), "foo-bar-2");
    }
}
