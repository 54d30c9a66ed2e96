//! `cmd.*` on the master, including `cmd.which` (`salt/modules/cmdmod.py`).
//!
//! Templates are the operator's own files, so commands are not restricted. They run under the master's
//! account, without a shell unless one is asked for, and are killed at the pillar's deadline.

use super::{Call, CallError, CallResult, Function, FunctionContext, Run, text_of};
use halite_sys::command::{Helper, LOCALE, Output};
use halite_wire::{Value, shlex};
use std::time::{Duration, Instant};

const PARAMS: &[&str] = &[
    "cmd",
    "cwd",
    "stdin",
    "runas",
    "shell",
    "python_shell",
    "env",
    "timeout",
    "output_loglevel",
    "ignore_retcode",
    "raise_err",
    "hide_output",
    "rstrip",
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "cmd.run",
        params: PARAMS,
        required: 1,
        run: Run::Data(|s, c| Ok(text(&start(s, c, false, true)?.stdout, c))),
    },
    Function {
        name: "cmd.shell",
        params: PARAMS,
        required: 1,
        run: Run::Data(|s, c| Ok(text(&start(s, c, true, true)?.stdout, c))),
    },
    Function {
        name: "cmd.run_stdout",
        params: PARAMS,
        required: 1,
        run: Run::Data(|s, c| Ok(text(&start(s, c, false, false)?.stdout, c))),
    },
    Function {
        name: "cmd.run_stderr",
        params: PARAMS,
        required: 1,
        run: Run::Data(|s, c| Ok(text(&start(s, c, false, false)?.stderr, c))),
    },
    Function {
        name: "cmd.retcode",
        params: PARAMS,
        required: 1,
        run: Run::Data(|s, c| Ok(start(s, c, false, true)?.code.into())),
    },
    Function {
        name: "cmd.run_all",
        params: PARAMS,
        required: 1,
        run: Run::Data(run_all),
    },
    Function {
        name: "cmd.has_exec",
        params: &["cmd"],
        required: 1,
        run: Run::Data(|_, c| Ok(which(&c.text("cmd")).is_some().into())),
    },
    Function {
        name: "cmd.which",
        params: &["cmd"],
        required: 1,
        run: Run::Data(|_, c| Ok(which(&c.text("cmd")).into())),
    },
];

fn text(bytes: &[u8], call: &Call) -> Value {
    let text = String::from_utf8_lossy(bytes);
    if call.flag("rstrip", true) {
        text.trim_end().into()
    } else {
        text.as_ref().into()
    }
}

fn run_all(scope: &FunctionContext, call: &Call) -> CallResult {
    let output = start(scope, call, false, false)?;
    Ok(Value::Map(halite_wire::map! {
        "pid" => output.pid, "retcode" => output.code,
        "stdout" => text(&output.stdout, call), "stderr" => text(&output.stderr, call),
    }))
}

fn start(
    scope: &FunctionContext,
    call: &Call,
    shell: bool,
    merge: bool,
) -> Result<Output, CallError> {
    if call.some("runas").is_some() {
        return Err(CallError::Function(
            "runas is not available in templates of this master".into(),
        ));
    }
    let given = call.get("cmd").cloned().unwrap_or_default();
    let argv = if call.flag("python_shell", shell) {
        let default = std::env::var("SHELL").ok().filter(|s| s.starts_with('/'));
        let program = call.some("shell").map(text_of).or(default);
        vec![
            program.unwrap_or_else(|| "/bin/sh".into()),
            "-c".into(),
            text_of(&given),
        ]
    } else {
        match &given {
            Value::Array(items) => items.iter().map(text_of).collect(),
            other => shlex::split(&text_of(other)).map_err(|e| CallError::Other(e.to_owned()))?,
        }
    };
    let mut env: Vec<(String, Option<String>)> = LOCALE
        .iter()
        .map(|name| ((*name).to_owned(), Some("C".to_owned())))
        .collect();
    if let Some(Value::Map(own)) = call.some("env") {
        env.extend(
            own.iter()
                .map(|(name, value)| (text_of(name), Some(text_of(value)))),
        );
    }
    let home = std::env::var("HOME")
        .ok()
        .filter(|home| std::path::Path::new(home).is_dir());
    let helper = Helper {
        env,
        cwd: call.some("cwd").map(text_of).or(home),
        stdin: call.some("stdin").map(|v| text_of(v).into_bytes()),
        merge,
        ..Helper::new(argv)
    };
    let own = u64::try_from(call.int("timeout", 0)?).unwrap_or(0);
    let left = scope.deadline.saturating_duration_since(Instant::now());
    let limit = if own == 0 {
        left
    } else {
        left.min(Duration::from_secs(own))
    };
    let output = helper.run(limit).map_err(|e| {
        CallError::Function(format!(
            "Unable to run command '{}', reason: {e}",
            text_of(&given)
        ))
    })?;
    if output.code != 0 && call.flag("raise_err", false) {
        return Err(CallError::Function(text_of(&text(&output.stdout, call))));
    }
    Ok(output)
}

/// Finds a program in `PATH`.
fn which(program: &str) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |path: &std::path::Path| {
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return runs(std::path::Path::new(program)).then(|| program.to_owned());
    }
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|p| runs(p));
    found.map(|p| p.to_string_lossy().into_owned())
}
