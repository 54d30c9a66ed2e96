//! `virtualenv`: virtual environments of Python and their packages (`salt/states/virtualenv_mod.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

const MANAGED: &[Arg] = args![
    venv_bin = None,
    requirements = None,
    system_site_packages = False,
    distribute = False,
    clear = False,
    python = None,
    extra_search_dir = None,
    never_download = None,
    prompt = None,
    user = None,
    cwd = None,
    index_url = None,
    extra_index_url = None,
    pre_releases = False,
    no_deps = False,
    pip_exists_action = None,
    pip_ignore_installed = False,
    proxy = None,
    env_vars = None,
    pip_upgrade = False,
    pip_pkgs = None,
    pip_no_cache_dir = False,
    pip_cache_dir = None,
    no_binary = None
];

pub(super) const MODULE: StateModule = StateModule {
    name: "virtualenv",
    functions: &[
        StateFunction::new(
            "managed",
            managed,
            "Ensures that a virtual environment exists, with packages.",
        )
        .args(MANAGED)
        .keywords(),
        StateFunction::new("manage", managed, "Alias of virtualenv.managed.")
            .args(MANAGED)
            .keywords(),
    ],
};

/// The packages of the environment.
fn frozen(s: &mut State<'_, '_>) -> Result<Vec<String>> {
    let mut kwargs = s.pick(&["user", "cwd", "env_vars"]);
    kwargs.set("bin_env", s.name());
    match s.salt_with("pip.freeze", Vec::new(), kwargs) {
        Ok(list) => Ok(list.str_list()),
        // A broken environment has none.
        Err(CallError::Command(_) | CallError::CommandNotFound(_)) => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

/// What its interpreter says of its version on standard error, as stock does: only old ones say something.
fn interpreter(s: &mut State<'_, '_>) -> Result<String> {
    let argv = vec![format!("{}/bin/python", s.name()), "-V".to_owned()];
    let mut kwargs = map! {"python_shell" => false, "ignore_retcode" => true};
    if s.flag("user") {
        kwargs.set("runas", s.arg("user").clone());
    }
    let said = s.salt_with("cmd.run_stderr", vec![argv.into()], kwargs)?;
    Ok(python::str(&said))
}

fn managed(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let there = Path::new(&name).join("bin/python").exists();
    let clear = s.flag("clear");
    let mut changes = Map::new();
    if there && clear {
        changes.set("cleared_packages", frozen(s)?);
        changes.set("old", interpreter(s)?);
    }
    let packages = s.flag("requirements") || s.flag("pip_pkgs");
    if s.test {
        let text = match (there, clear) {
            (true, true) => format!("Virtualenv {name} is set to be cleared"),
            (true, false) if !packages => "virtualenv exists".to_owned(),
            (true, false) => format!("Virtualenv {name} is already created"),
            (false, _) => format!("Virtualenv {name} is set to be created"),
        };
        let result = if there && !clear && !packages {
            Some(true)
        } else {
            None
        };
        return Ok(StateOutcome::new(result, text).changes(changes));
    }
    let mut comment = "virtualenv exists".to_owned();
    if !there || clear {
        let mut kwargs = s.pick(&[
            "venv_bin",
            "system_site_packages",
            "distribute",
            "clear",
            "python",
            "extra_search_dir",
            "never_download",
            "prompt",
            "user",
        ]);
        for key in ["pip", "symlinks", "upgrade"] {
            if let Some(value) = s.kwargs.get(key) {
                kwargs.set(key, value.clone());
            }
        }
        let ran = match s.salt_with("virtualenv.create", vec![name.as_str().into()], kwargs) {
            Ok(ran) => ran.into_map().unwrap_or_default(),
            Err(CallError::Command(text)) if !text.starts_with("Unable to run") => {
                let text = format!("Failed to create virtualenv: {text}");
                return Ok(StateOutcome::bad(text));
            }
            Err(fault) => return Err(fault),
        };
        if ran.int("retcode") != Some(0) {
            let said = [ran.str("stdout"), ran.str("stderr")];
            let said: Vec<&str> = said
                .into_iter()
                .flatten()
                .filter(|t| !t.is_empty())
                .collect();
            return Ok(StateOutcome::bad(said.join("\n")).changes(changes));
        }
        changes.set("new", interpreter(s)?);
        comment = if clear {
            "Cleared existing virtualenv"
        } else {
            "Created new virtualenv"
        }
        .to_owned();
    }
    if packages {
        let before = frozen(s)?;
        let mut kwargs = s.pick(&[
            "requirements",
            "user",
            "cwd",
            "index_url",
            "extra_index_url",
            "pre_releases",
            "no_deps",
            "proxy",
            "env_vars",
            "no_binary",
        ]);
        for (arg, own) in [
            ("pkgs", "pip_pkgs"),
            ("exists_action", "pip_exists_action"),
            ("ignore_installed", "pip_ignore_installed"),
            ("upgrade", "pip_upgrade"),
            ("no_cache_dir", "pip_no_cache_dir"),
            ("cache_dir", "pip_cache_dir"),
        ] {
            kwargs.set(arg, s.arg(own).clone());
        }
        kwargs.set("bin_env", name);
        kwargs.set("saltenv", s.saltenv());
        let ran = s.salt_with("pip.install", Vec::new(), kwargs)?;
        let ran = ran.into_map().unwrap_or_default();
        if ran.int("retcode") != Some(0) {
            let text = |key: &str| ran.str(key).unwrap_or_default().to_owned();
            let said = format!("{}\n{}", text("stdout"), text("stderr"));
            return Ok(StateOutcome::bad(said).changes(changes));
        }
        let after = frozen(s)?;
        let but = |one: &[String], other: &[String]| -> Vec<Value> {
            let new = one.iter().filter(|p| !other.contains(p));
            new.map(|p| Value::from(p.as_str())).collect()
        };
        let (new, old) = (but(&after, &before), but(&before, &after));
        if !new.is_empty() || !old.is_empty() {
            changes.set("packages", map! {"new" => new, "old" => old});
        }
    }
    Ok(StateOutcome::good(comment).changes(changes))
}
