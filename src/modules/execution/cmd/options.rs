//! Turns the arguments of a `cmd` function into a command. Checks follow the order of stock's `_run`
//! (`salt/modules/cmdmod.py`), so that the same error is reported first.

use super::super::{Call, CallError, python};
use super::exec::{CommandSpec, OUTPUT_LIMIT};
use super::user::{Identity, identity};
use crate::execution::declare::Result;
use halite_sys::command::LOCALE;
use halite_target::fnmatch;
use halite_wire::shlex;
use halite_wire::{Map, Value};
use nix::unistd::{AccessFlags, access};
use std::path::Path;
use std::time::Duration;

/// Differences between the `cmd` functions.
#[derive(Clone, Copy, Default)]
pub struct FunctionMode {
    /// Merge standard error into standard output.
    pub merge: bool,
    /// Start only.
    pub background: bool,
    /// Default of `python_shell`.
    pub shell: Option<bool>,
}

/// A command to run, and how to interpret its result.
pub struct PreparedCommand {
    /// A command to run.
    pub spec: CommandSpec,
    /// The command as Python prints it.
    pub shown: String,
    /// The shell, if one is used.
    pub shell: Option<String>,
    /// Return codes treated as 0.
    pub success_retcodes: Vec<i64>,
    /// Output texts that set the return code to 0.
    pub success_stdout: Vec<String>,
    /// The same for standard error.
    pub success_stderr: Vec<String>,
    /// Leave the job's return code alone.
    pub ignore_retcode: bool,
    /// Neither log nor show anything of the command.
    pub quiet: bool,
    /// The timeout as given, for the error message.
    pub timeout_text: String,
    /// Name of the output encoding.
    pub encoding: Option<String>,
    /// Strip trailing whitespace; output of a terminal is left as it is.
    pub rstrip: bool,
}

/// A named option: a declared argument, or a keyword that stock passes on.
pub fn get<'a>(call: &'a Call<'_>, name: &str) -> &'a Value {
    match call.arg(name) {
        Value::Nil => call.bound.kwargs.get(name).unwrap_or(&Value::Nil),
        value => value,
    }
}

/// Overrides an option.
pub fn set_arg(call: &mut Call<'_>, name: &str, value: Value) {
    let at = call.function.args.iter().position(|arg| arg.name == name);
    match at.and_then(|at| call.bound.named.get_mut(at)) {
        Some(slot) => *slot = value,
        None => call.bound.kwargs.set(name, value),
    }
}

fn text(call: &Call<'_>, name: &str) -> Option<String> {
    let value = get(call, name);
    value.truthy().then(|| python::str(value))
}

/// An option that defaults to true.
fn unless_false(call: &Call<'_>, name: &str) -> bool {
    let value = get(call, name);
    value.is_nil() || value.truthy()
}

/// The requested shell; `None` if the caller wants none.
fn shell(call: &Call<'_>) -> Option<String> {
    let declared = call.function.args.iter().any(|a| a.name == "shell");
    if !declared && !call.bound.kwargs.contains("shell") {
        return Some(crate::grains::default_shell());
    }
    text(call, "shell")
}

/// Builds the command.
///
/// # Errors
/// Stock's messages; unsupported options are named.
pub fn prepare(call: &Call<'_>, cmd: &Value, mode: FunctionMode) -> Result<PreparedCommand> {
    refuse(call)?;
    let runas = text(call, "runas");
    let cwd = cwd(call, runas.as_deref());
    let shell = shell(call);
    if let Some(path) = shell.as_deref().filter(|p| !is_program(p)) {
        return Err(CallError::Command(format!(
            "The shell {path} is not available"
        )));
    }
    let from_job = call.bound.kwargs.contains("__pub_jid");
    if from_job && !is_allowed(call, cmd) {
        return Err(CallError::Command(format!(
            "The shell command \"{}\" is not permitted",
            python::str(cmd)
        )));
    }
    let background = mode.background || get(call, "bg").truthy();
    let terminal = get(call, "use_vt").truthy() && !background;
    let identity = identity(runas.as_deref(), text(call, "group").as_deref())?;
    let env = environment(call, runas.is_some(), identity.as_ref());
    let umask = umask(get(call, "umask"))?;
    if !cwd.starts_with('/') || !Path::new(&cwd).is_dir() {
        return Err(CallError::Command(format!(
            "Specified cwd '{cwd}' either not absolute or does not exist"
        )));
    }
    let use_shell = match get(call, "python_shell") {
        Value::Nil => mode.shell.unwrap_or(from_job || unsafe_allowed(call)),
        value => value.truthy(),
    };
    let quiet = get(call, "output_loglevel").is_str("quiet");
    let (argv, shown) = argv(cmd, use_shell, shell.as_deref())?;
    let success_retcodes = retcodes(get(call, "success_retcodes"))?;
    let (timeout, timeout_text) = timeout(get(call, "timeout"))?;
    let stdin = match get(call, "stdin") {
        Value::Nil => None,
        value => Some(input(call, value)),
    };
    Ok(PreparedCommand {
        spec: CommandSpec {
            argv,
            cwd,
            env,
            stdin: stdin.filter(|_| !background),
            // As in stock.
            merge: mode.merge && !terminal,
            umask,
            identity,
            timeout,
            background,
            terminal,
            limit: OUTPUT_LIMIT,
        },
        shown,
        shell: use_shell.then(|| shell.unwrap_or_else(|| "/bin/sh".to_owned())),
        success_retcodes,
        success_stdout: list(get(call, "success_stdout")),
        success_stderr: list(get(call, "success_stderr")),
        ignore_retcode: background || get(call, "ignore_retcode").truthy(),
        quiet,
        timeout_text,
        encoding: text(call, "output_encoding"),
        rstrip: !terminal && unless_false(call, "rstrip"),
    })
}

/// Rejects unsupported options that would change the meaning of a command.
fn refuse(call: &Call<'_>) -> Result<()> {
    if get(call, "encoded_cmd").truthy() {
        return Err(CallError::Command(
            "This minion has no 'encoded_cmd' for commands: it is for PowerShell only".to_owned(),
        ));
    }
    Ok(())
}

/// The given directory, else the home of the user the command runs as, else `/`.
fn cwd(call: &Call<'_>, runas: Option<&str>) -> String {
    if let Some(cwd) = text(call, "cwd") {
        return cwd;
    }
    let home = match runas {
        Some(name) => nix::unistd::User::from_name(name)
            .ok()
            .flatten()
            .map(|u| u.dir.to_string_lossy().into_owned()),
        None => std::env::var("HOME").ok().or_else(|| {
            let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok()??;
            Some(user.dir.to_string_lossy().into_owned())
        }),
    };
    home.filter(|h| Path::new(h).is_dir() && access(h.as_str(), AccessFlags::R_OK).is_ok())
        .unwrap_or_else(|| "/".to_owned())
}

fn is_program(path: &str) -> bool {
    Path::new(path).is_file() && access(path, AccessFlags::X_OK).is_ok()
}

/// Checks `cmd_blacklist_glob` and `cmd_whitelist_glob` of the configuration, grains or pillar.
fn is_allowed(call: &Call<'_>, cmd: &Value) -> bool {
    let line = match cmd {
        Value::Array(words) => words.iter().map(python::str).collect::<Vec<_>>().join(" "),
        other => python::str(other),
    };
    let globs = |name: &str| {
        let ctx = call.ctx;
        [&ctx.opts, &ctx.grains, &ctx.pillar]
            .iter()
            .find_map(|m| m.get(name))
            .map(Value::str_list)
            .unwrap_or_default()
    };
    if globs("cmd_blacklist_glob")
        .iter()
        .any(|g| fnmatch(&line, g))
    {
        return false;
    }
    let allowed = globs("cmd_whitelist_glob");
    allowed.is_empty() || allowed.iter().any(|g| fnmatch(&line, g))
}

/// `cmd_safe: False` enables the shell for all commands.
fn unsafe_allowed(call: &Call<'_>) -> bool {
    call.ctx.opts.get("cmd_safe").and_then(Value::as_bool) == Some(false)
}

/// The given environment over the minion's own. With `runas`, the variables that name the user are set as at login;
/// the user's shell profile is not read.
fn environment(call: &Call<'_>, runas: bool, identity: Option<&Identity>) -> Vec<(String, String)> {
    let given = env_pairs(get(call, "env"));
    let mut env = Vec::new();
    if !get(call, "clean_env").truthy() {
        env.extend(halite_sys::environment::all());
    }
    if let Some(user) = identity.filter(|_| runas) {
        put(&mut env, "HOME", &user.home);
        put(&mut env, "USER", &user.name);
        put(&mut env, "LOGNAME", &user.name);
        put(&mut env, "SHELL", &user.shell);
    }
    for (key, value) in &given {
        put(&mut env, key, value);
    }
    if unless_false(call, "reset_system_locale") {
        let asked = |key: &str| given.iter().any(|(k, _)| k == key);
        LOCALE
            .iter()
            .filter(|key| !asked(key))
            .for_each(|key| put(&mut env, key, "C"));
    }
    if let Some(first) = text(call, "prepend_path") {
        let path = env.iter().find(|(k, _)| k == "PATH");
        let path = path.map_or(first.clone(), |(_, v)| format!("{first}:{v}"));
        put(&mut env, "PATH", &path);
    }
    if !given.iter().any(|(k, _)| k == "NOTIFY_SOCKET") {
        env.retain(|(k, _)| k != "NOTIFY_SOCKET");
    }
    // Invalid variables would make the start fail with an error that does not name them.
    env.retain(|(k, v)| !k.is_empty() && !k.contains(['=', '\0']) && !v.contains('\0'));
    env
}

fn put(env: &mut Vec<(String, String)>, key: &str, value: &str) {
    match env.iter_mut().find(|(k, _)| k == key) {
        Some((_, slot)) => value.clone_into(slot),
        None => env.push((key.to_owned(), value.to_owned())),
    }
}

/// `env` as a map or a list of maps. Nil becomes an empty value; other types are ignored.
fn env_pairs(env: &Value) -> Vec<(String, String)> {
    let maps: Vec<&Map> = match env {
        Value::Map(map) => vec![map],
        Value::Array(list) => list.iter().filter_map(Value::as_map).collect(),
        _ => Vec::new(),
    };
    let mut out = Vec::new();
    for (key, value) in maps.into_iter().flat_map(Map::iter) {
        let value = match value {
            Value::Nil => String::new(),
            other => python::str(other),
        };
        put(&mut out, &python::str(key), &value);
    }
    out
}

fn umask(value: &Value) -> Result<Option<u32>> {
    if value.is_nil() {
        return Ok(None);
    }
    let shown = python::str(value);
    let digits = shown.trim_start_matches('0');
    if digits.is_empty() {
        return Err(CallError::Command("Zero umask is not allowed.".to_owned()));
    }
    u32::from_str_radix(digits, 8)
        .map(Some)
        .map_err(|_| CallError::Command(format!("Invalid umask: '{shown}'")))
}

fn input(call: &Call<'_>, value: &Value) -> Vec<u8> {
    if let Value::Bytes(raw) = value {
        return raw.clone();
    }
    let text = python::str(value);
    if get(call, "stdin_raw_newlines").truthy() {
        return text.into_bytes();
    }
    text.replace("\\n", "\n").into_bytes()
}

/// The argument vector, and the command as Python prints it.
fn argv(cmd: &Value, use_shell: bool, shell: Option<&str>) -> Result<(Vec<String>, String)> {
    let blank = || CallError::raised("IndexError", "list index out of range");
    if use_shell {
        let mut words = vec![shell.unwrap_or("/bin/sh").to_owned(), "-c".to_owned()];
        match cmd {
            Value::Array(list) => words.extend(list.iter().map(python::str)),
            other => words.push(python::str(other)),
        }
        if words.get(2).is_none_or(|first| first.trim().is_empty()) {
            return Err(blank());
        }
        return Ok((words, python::str(cmd)));
    }
    let words = match cmd {
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => {
            shlex::split(&python::str(other)).map_err(|e| CallError::raised("ValueError", e))?
        }
    };
    if words.first().is_none_or(|w| w.is_empty()) {
        return Err(blank());
    }
    let shown = python::repr(&words.clone().into());
    Ok((words, shown))
}

/// A list, or a text separated by commas.
fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Nil => Vec::new(),
        Value::Array(items) => items.iter().map(python::str).collect(),
        other => python::str(other)
            .split(',')
            .map(|s| s.trim().to_owned())
            .collect(),
    }
}

fn retcodes(value: &Value) -> Result<Vec<i64>> {
    if value.is_nil() {
        return Ok(vec![0]);
    }
    list(value)
        .iter()
        .map(|s| s.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| {
            CallError::Invocation("success_retcodes must be a list of integers".to_owned())
        })
}

fn timeout(value: &Value) -> Result<(Option<Duration>, String)> {
    let text = python::str(value);
    let seconds = match value {
        value if !value.truthy() => return Ok((None, text)),
        Value::Int(i) => *i as f64,
        Value::Float(f) => *f,
        Value::Bool(_) => 1.0,
        _ => {
            return Err(CallError::raised(
                "salt.exceptions.TimedProcTimeoutError",
                format!("Error: timeout {text} must be a number"),
            ));
        }
    };
    let time = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
    Ok((Some(time), text))
}
