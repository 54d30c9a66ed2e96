//! Scripts and code snippets: written to a temporary file, run and removed.

use super::super::declare::Result;
use super::super::{Call, CallError, cp, python};
use super::options::{FunctionMode, get, set_arg};
use super::{CommandResult, execute};
use crate::files::{FileClient, MAX_CONTENT, url};
use halite_sys::safe_open::read_finite;
use halite_wire::map;
use halite_wire::shlex;
use halite_wire::{Map, Value};
use rand::Rng;
use rand::distributions::Alphanumeric;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// A file removed on drop.
struct TempFile(PathBuf);

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_file(&self.0) {
            log::error!("Unable to clean tempfile '{}': {e}", self.0.display());
        }
    }
}

impl TempFile {
    fn create(dir: &Path, suffix: &str, content: &[u8], mode: u32) -> io::Result<TempFile> {
        let random: String = rand::thread_rng()
            .sample_iter(Alphanumeric)
            .take(12)
            .map(char::from)
            .collect();
        let path = dir.join(format!("__salt.tmp.{random}{suffix}"));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let own = TempFile(path);
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(own)
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    /// Gives the file to the user who runs it.
    fn set_owner(&self, call: &Call<'_>) -> Result<()> {
        let Some(name) = get(call, "runas").as_str().filter(|n| !n.is_empty()) else {
            return Ok(());
        };
        let user = nix::unistd::User::from_name(name).ok().flatten();
        let Some(user) = user else {
            return Err(CallError::Command(format!(
                "User '{name}' is not available"
            )));
        };
        chown(&self.0, Some(user.uid.as_raw()), None).map_err(|e| failed(&e))
    }
}

fn failed(e: &io::Error) -> CallError {
    CallError::Command(format!("Unable to write a temporary file: {e}"))
}

/// `cmd.script`.
pub fn script(call: &mut Call<'_>) -> Result {
    let source = call.text("source").unwrap_or_default();
    let saltenv = cp::saltenv(call, get(call, "saltenv"));
    let Some(content) = content(call, &source, &saltenv)? else {
        return Ok(map! {
            "pid" => 0, "retcode" => 1, "stdout" => "", "stderr" => "", "cache_error" => true,
        }
        .into());
    };
    set_arg(call, "template", Value::Nil);
    let suffix = Path::new(url::parse(&source).0)
        .extension()
        .map(|e| format!(".{}", e.to_string_lossy()))
        .unwrap_or_default();
    let dir = match call.text("cwd").filter(|c| !c.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => std::env::temp_dir(),
    };
    let file = TempFile::create(&dir, &suffix, &content, 0o500).map_err(|e| failed(&e))?;
    file.set_owner(call)?;
    let args = script_args(call.arg("args"))?;
    let mode = FunctionMode {
        shell: (!args.is_empty()).then_some(false),
        ..FunctionMode::default()
    };
    if !args.is_empty() {
        // Arguments go to the script itself, never through a shell.
        set_arg(call, "python_shell", false.into());
    }
    let mut cmd = vec![Value::from(file.path())];
    cmd.extend(args);
    let hide = call.flag("hide_output");
    match execute(call, &cmd.into(), mode) {
        Ok(ran) => Ok(ran.hide_output(hide).map().into()),
        Err(CallError::Command(text) | CallError::Invocation(text)) => {
            log::error!("cmd.script: Unable to run script '{source}': {text}");
            Ok(Map::new().into())
        }
        Err(other) => Err(other),
    }
}

/// The script, rendered if there is a `template`.
fn content(call: &Call<'_>, source: &str, saltenv: &str) -> Result<Option<Vec<u8>>> {
    let template = get(call, "template");
    if template.truthy() {
        let mut variables = call.bound.kwargs.clone();
        if variables.contains("pillar") || variables.contains("pillarenv") {
            variables.set("pillar", cp::pillar_with(call)?);
        }
        let format = python::str(template);
        let text = cp::rendered(call, source, &format, saltenv, &variables)?;
        return Ok(text.map(String::into_bytes));
    }
    let cached = FileClient::new(call.ctx)?.cache_file(source, saltenv)?;
    Ok(cached.and_then(|path| read_finite(&path, MAX_CONTENT).ok()))
}

/// `cmd.script_retcode`.
pub fn script_retcode(call: &mut Call<'_>) -> Result {
    let ran = script(call)?;
    let code = ran.as_map().and_then(|map| map.get("retcode")).cloned();
    code.ok_or_else(|| CallError::raised("KeyError", "'retcode'"))
}

fn script_args(args: &Value) -> Result<Vec<Value>> {
    match args {
        Value::Str(line) => Ok(shlex::split(line)
            .map_err(|e| CallError::raised("ValueError", e))?
            .into_iter()
            .map(Value::from)
            .collect()),
        Value::Array(list) => Ok(list.clone()),
        other if other.truthy() => Ok(vec![python::str(other).into()]),
        _ => Ok(Vec::new()),
    }
}

/// `cmd.exec_code`.
pub fn exec_code(call: &mut Call<'_>) -> Result {
    Ok(code(call)?.stdout.into())
}

/// `cmd.exec_code_all`.
pub fn exec_code_all(call: &mut Call<'_>) -> Result {
    let hide = get(call, "hide_output").truthy();
    Ok(code(call)?.hide_output(hide).map().into())
}

fn code(call: &mut Call<'_>) -> Result<CommandResult> {
    let lang = call.arg("lang").clone();
    let code = python::str(call.arg("code"));
    let file = TempFile::create(&std::env::temp_dir(), "", code.as_bytes(), 0o600)
        .map_err(|e| failed(&e))?;
    file.set_owner(call)?;
    let mut cmd = vec![lang, file.path().into()];
    match call.arg("args") {
        Value::Str(one) => cmd.push(one.as_str().into()),
        Value::Array(list) => cmd.extend(list.iter().cloned()),
        _ => {}
    }
    call.bound.kwargs.set("python_shell", false);
    let mode = FunctionMode {
        merge: get(call, "redirect_stderr").truthy(),
        ..FunctionMode::default()
    };
    execute(call, &cmd.into(), mode)
}
