//! `npm`: packages of Node.js (`npm(1)`).

use super::command_helpers::run_all_as;
use super::declare::{Function, Module, Result, args};
use super::program::CommandOutput;
use super::{Call, CallError, python};
use halite_wire::{Map, Value, json, map};
use nix::unistd::User;

pub(super) const MODULE: Module = Module {
    name: "npm",
    functions: &[
        Function::new(
            "install",
            install,
            "Installs packages in a directory or for the system; without any, what package.json of the directory names.",
        )
        .args(args![
            pkg = None,
            pkgs = None,
            dir = None,
            runas = None,
            registry = None,
            env = None,
            dry_run = False,
            silent = True
        ])
        .names(&["pkg", "pkgs"]),
        Function::new("uninstall", uninstall, "Removes a package.")
            .args(args![pkg, dir = None, runas = None, env = None])
            .names(&["pkg"]),
        Function::new("list", list, "The installed packages with what npm knows about them.")
            .inner("list_")
            .args(args![pkg = None, dir = None, runas = None, env = None, depth = None])
            .names(&["pkg"]),
        Function::new("cache_clean", cache_clean, "Empties the cache, or removes a part of it.")
            .args(args![path = None, runas = None, env = None, force = False])
            .names(&["path"]),
        Function::new("cache_list", cache_list, "What is in the cache.")
            .args(args![path = None, runas = None, env = None])
            .names(&["path"]),
        Function::new("cache_path", cache_path, "The directory of the cache.")
            .args(args![runas = None, env = None]),
    ],
};

/// Runs npm as the user and with the environment of the call.
fn npm(
    call: &mut Call<'_>,
    words: Vec<String>,
    cwd: Option<String>,
    tolerant: bool,
) -> Result<CommandOutput> {
    let mut env = match call.arg("env").clone() {
        Value::Array(list) => {
            let maps = list.into_iter().filter_map(Value::into_map);
            Map(maps.flat_map(|map| map.0).collect())
        }
        other => other.into_map().unwrap_or_default(),
    };
    if let Some(name) = call.text("runas") {
        let user = User::from_name(&name).ok().flatten();
        if let Some(user) = user.filter(|user| !user.uid.is_root()) {
            // npm changes to the user of sudo by itself.
            env.set("SUDO_UID", user.uid.to_string());
            env.set("SUDO_USER", "");
        }
    }
    let mut kwargs = map! {"runas" => call.arg("runas").clone(), "env" => env};
    if let Some(cwd) = cwd {
        kwargs.set("cwd", cwd);
    }
    if tolerant {
        kwargs.set("ignore_retcode", true);
    }
    let mut argv = vec!["npm".to_owned()];
    argv.extend(words);
    run_all_as(call, argv, kwargs)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

fn given(call: &Call<'_>, name: &str) -> Option<String> {
    call.text(name).filter(|text| !text.is_empty())
}

/// The first JSON list or object in a text.
fn find_json(text: &str) -> Option<Value> {
    let starts = text.match_indices(['{', '[']);
    starts
        .take(1000)
        .find_map(|(at, _)| json::parse_first(&text.as_bytes()[at..]).ok())
}

fn install(call: &mut Call<'_>) -> Result {
    let mut all = words(&["install", "--json"]);
    if call.flag("silent") {
        all.push("--silent".to_owned());
    }
    let cwd = match given(call, "dir") {
        Some(dir) => dir,
        None => {
            all.push("--global".to_owned());
            std::env::temp_dir().to_string_lossy().into_owned()
        }
    };
    if let Some(registry) = given(call, "registry") {
        all.push(format!("--registry={registry}"));
    }
    if call.flag("dry_run") {
        all.push("--dry-run".to_owned());
    }
    match given(call, "pkg") {
        Some(one) => all.push(one),
        None => {
            let list = call.arg("pkgs").as_array().unwrap_or_default();
            all.extend(list.iter().map(python::str));
        }
    }
    let ran = npm(call, all, Some(cwd), false)?;
    if !ran.ok() {
        return Err(CallError::Command(ran.stderr));
    }
    let out = if ran.stdout.is_empty() {
        ran.stderr
    } else {
        ran.stdout
    };
    Ok(find_json(&out).unwrap_or_else(|| out.into()))
}

fn uninstall(call: &mut Call<'_>) -> Result {
    let mut all = vec!["uninstall".to_owned(), python::str(call.arg("pkg"))];
    let dir = given(call, "dir");
    if dir.is_none() {
        all.push("--global".to_owned());
    }
    let ran = npm(call, all, dir, false)?;
    if !ran.ok() {
        log::error!("{}", ran.stderr);
    }
    Ok(ran.ok().into())
}

fn list(call: &mut Call<'_>) -> Result {
    let mut all = words(&["list", "--json", "--silent"]);
    let dir = given(call, "dir");
    if dir.is_none() {
        all.push("--global".to_owned());
    }
    match call.arg("depth") {
        Value::Nil => {}
        Value::Int(depth) => all.push(format!("--depth={depth}")),
        Value::Float(depth) => all.push(format!("--depth={}", depth.trunc())),
        other => {
            let text = format!("Error: depth {} must be a number", python::str(other));
            return Err(CallError::Invocation(text));
        }
    }
    all.extend(given(call, "pkg"));
    let ran = npm(call, all, dir, true)?;
    // npm also fails where there is no such package, but then says nothing.
    if !ran.ok() && !ran.stderr.is_empty() {
        return Err(CallError::Command(ran.stderr));
    }
    let found: Value = json::parse(ran.stdout.as_bytes())
        .map_err(|e| CallError::raised("JSONDecodeError", e.to_string()))?;
    let mut found = found.into_map().unwrap_or_default();
    let none = || Map::new().into();
    Ok(found.remove("dependencies").unwrap_or_else(none))
}

fn cache_clean(call: &mut Call<'_>) -> Result {
    let mut all = words(&["cache", "clean"]);
    all.extend(given(call, "path"));
    if call.arg("force") == &Value::Bool(true) {
        all.push("--force".to_owned());
    }
    let ran = npm(call, all, None, true)?;
    if !ran.ok() {
        log::error!("{}", ran.stderr);
    }
    Ok(ran.ok().into())
}

fn cache_list(call: &mut Call<'_>) -> Result {
    let mut all = words(&["cache", "ls"]);
    all.extend(given(call, "path"));
    let ran = npm(call, all, None, true)?;
    if !ran.ok() && !ran.stderr.is_empty() {
        return Err(CallError::Command(ran.stderr));
    }
    Ok(ran.stdout.into())
}

fn cache_path(call: &mut Call<'_>) -> Result {
    let ran = npm(call, words(&["config", "get", "cache"]), None, true)?;
    let out = if ran.stdout.is_empty() {
        ran.stderr
    } else {
        ran.stdout
    };
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::find_json;
    use halite_wire::Value;

    #[test]
    fn json_in_a_text() {
        let found = find_json("npm [warn] x\n{\"a\": \"}\\\"{\"} done");
        let map = found.and_then(Value::into_map);
        assert_eq!(
            map.and_then(|m| m.str("a").map(str::to_owned)),
            Some("}\"{".to_owned())
        );
        assert_eq!(find_json("nothing {here"), None);
    }
}
