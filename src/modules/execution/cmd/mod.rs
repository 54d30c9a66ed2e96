//! `cmd`: runs commands.
//!
//! Not supported: PowerShell, virtual terminals. Unlike stock, every command has its own process group, a timeout
//! kills the whole group, and output is limited to [`exec::OUTPUT_LIMIT`].

mod args;
mod chroot;
mod exec;
mod options;
mod script;
mod shells;

mod user;

pub(super) use exec::{CommandEnd, CommandSpec, OUTPUT_LIMIT, start, wait_for};
pub(super) use user::{Identity, IdentityGuard, identity};

use super::declare::{Function, Module, Result, opt, req};
use super::{Call, CallError, declare::Lit, python};
pub(crate) use crate::programs::which;
use halite_wire::map;
use halite_wire::{Map, Value};
use options::{FunctionMode, PreparedCommand, get, prepare};

pub(super) const MODULE: Module = Module {
    name: "cmd",
    functions: &[
        Function::new("run", run, "Runs a command and returns its output, including standard error. Its return code becomes the job's.")
            .args(args::RUN)
            .keywords(),
        Function::new("shell", shell, "Like cmd.run, always through the shell.").args(args::SHELL).keywords(),
        Function::new("run_stdout", run_stdout, "Runs a command and returns only its standard output.")
            .args(args::RUN_STDOUT)
            .keywords(),
        Function::new("run_stderr", run_stderr, "Runs a command and returns only its standard error.")
            .args(args::RUN_STDERR)
            .keywords(),
        Function::new("run_all", run_all, "Runs a command and returns a map of pid, retcode, stdout and stderr.")
            .args(args::RUN_ALL)
            .keywords(),
        Function::new("run_bg", run_bg, "Starts a command without waiting for it and returns its pid.")
            .args(args::RUN_BG)
            .keywords(),
        Function::new("retcode", retcode, "Runs a command and returns its return code.").args(args::RETCODE).keywords(),
        Function::new("script", script::script, "Copies a script from an absolute path on the minion, runs it with the given arguments and returns the result of cmd.run_all.")
            .args(args::SCRIPT)
            .keywords(),
        Function::new("exec_code", script::exec_code, "Runs code with the given interpreter and returns its standard output.")
            .args(&[req("lang"), req("code"), opt("cwd", Lit::Nil), opt("args", Lit::Nil)])
            .keywords(),
        Function::new("exec_code_all", script::exec_code_all, "Like cmd.exec_code, but returns the result of cmd.run_all.")
            .args(&[req("lang"), req("code"), opt("cwd", Lit::Nil), opt("args", Lit::Nil)])
            .keywords(),
        Function::new("script_retcode", script::script_retcode, "Like cmd.script, but returns only the return code.")
            .args(args::SCRIPT_RETCODE)
            .keywords(),
        Function::new("run_chroot", chroot::run_chroot, "Runs a command in another root directory, with dev, proc, sys and the given directories mounted there, and returns the result of cmd.run_all.")
            .args(args::RUN_CHROOT)
            .keywords(),
        Function::new("shell_info", shells::shell_info, "Whether a shell or interpreter is installed, its path and its version.")
            .args(&[req("shell"), opt("list_modules", Lit::Bool(false))]),
        Function::new("tty", shells::tty, "Writes text to a terminal.")
            .args(&[req("device"), opt("echo", Lit::Str(""))]),
        Function::new("has_exec", |c| Ok(which_arg(c.arg("cmd")).is_some().into()), "Whether a program is installed and executable.")
            .args(&[req("cmd")]),
        Function::new("which", |c| Ok(which_arg(c.arg("cmd")).into()), "The path of a program, or nothing.").args(&[req("cmd")]),
        Function::new("which_bin", which_bin, "The path of the first installed program of a list, or nothing.")
            .args(&[req("cmds")]),
        Function::new("shells", shells, "The shells in /etc/shells."),
    ],
};

/// A command's result in the fields of `cmd.run_all`.
struct CommandResult {
    pid: u32,
    code: Option<i64>,
    stdout: String,
    stderr: String,
    timed_out: bool,
}

impl CommandResult {
    /// The key order is stock's, which is different after a timeout.
    fn map(self) -> Map {
        if self.timed_out {
            return map! {
                "stdout" => self.stdout, "stderr" => self.stderr,
                "retcode" => self.code, "pid" => self.pid,
            };
        }
        map! {
            "pid" => self.pid, "retcode" => self.code,
            "stdout" => self.stdout, "stderr" => self.stderr,
        }
    }

    fn hide_output(mut self, hide: bool) -> CommandResult {
        if hide {
            self.stdout.clear();
            self.stderr.clear();
        }
        self
    }
}

/// The command and its directory, rendered if there is a `template` (`_render_cmd`).
fn rendered(call: &mut Call<'_>, cmd: &Value) -> Result {
    let template = options::get(call, "template").clone();
    if !template.truthy() {
        return Ok(cmd.clone());
    }
    let format = super::python::str(&template);
    let saltenv = super::cp::saltenv(call, options::get(call, "saltenv"));
    let failed = "Failed to execute cmd with error";
    let render = |call: &Call<'_>, text: &Value| {
        super::cp::rendered_text(call, &format, &super::python::str(text), &saltenv, failed)
    };
    let cwd = options::get(call, "cwd").clone();
    if cwd.truthy() {
        let cwd = render(call, &cwd)?;
        options::set_arg(call, "cwd", cwd.into());
    }
    let cmd = render(call, cmd)?;
    options::set_arg(call, "template", Value::Nil);
    Ok(cmd.into())
}

/// Runs a command with the call's options and sets the job's return code as stock does.
fn execute(call: &mut Call<'_>, cmd: &Value, mode: FunctionMode) -> Result<CommandResult> {
    let cmd = &rendered(call, cmd)?;
    let ready = prepare(call, cmd, mode)?;
    if !ready.quiet {
        log::info!(
            "Executing command {} in directory '{}'",
            first_word(cmd),
            ready.spec.cwd
        );
    }
    let (child, readers) = exec::start(&ready.spec).map_err(|e| cannot_start(&ready, &e))?;
    let done = match exec::wait_for(&ready.spec, child, readers)? {
        CommandEnd::Background(pid) => {
            call.retcode = 0.into();
            return Ok(CommandResult {
                pid,
                code: None,
                stdout: String::new(),
                stderr: String::new(),
                timed_out: false,
            });
        }
        CommandEnd::TimedOut(pid) => {
            // Stock does not change the job's return code here.
            return Ok(CommandResult {
                pid,
                code: Some(1),
                stdout: format!(
                    "{} : Timed out after {} seconds",
                    ready.shown, ready.timeout_text
                ),
                stderr: String::new(),
                timed_out: true,
            });
        }
        CommandEnd::Finished(done) => done,
    };
    let stdout = decode(&ready, &done.stdout)?;
    let stderr = decode(&ready, &done.stderr)?;
    let mut code = done.code;
    let contains = |text: &str, wanted: &[String]| wanted.iter().any(|w| text.contains(w.as_str()));
    if ready.success_retcodes.contains(&code)
        || contains(&stdout, &ready.success_stdout)
        || contains(&stderr, &ready.success_stderr)
    {
        code = 0;
    }
    call.retcode = if ready.ignore_retcode { 0 } else { code }.into();
    if code != 0 && !ready.ignore_retcode && !ready.quiet {
        log::error!(
            "Command '{}' failed with return code: {code}",
            first_word(cmd)
        );
    }
    Ok(CommandResult {
        pid: done.pid,
        code: Some(code),
        stdout,
        stderr,
        timed_out: false,
    })
}

/// Only the program is logged, because arguments may be secret.
fn first_word(cmd: &Value) -> String {
    let line = match cmd {
        Value::Array(words) => words.first().map(python::str).unwrap_or_default(),
        other => python::str(other),
    };
    line.split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Salt's message for a program that cannot be started, including the keywords of the Python call.
fn cannot_start(ready: &PreparedCommand, error: &std::io::Error) -> CallError {
    let shown = if ready.quiet {
        "REDACTED"
    } else {
        &ready.shown
    };
    let python_bool = |b| if b { "True" } else { "False" };
    let executable = match &ready.shell {
        Some(path) => format!("'executable': {}, ", python::repr(&path.into())),
        None => String::new(),
    };
    let reason = match error.raw_os_error() {
        Some(number) => format!(
            "[Errno {number}] {}: {}",
            nix::errno::Errno::from_raw(number).desc(),
            python::repr(&ready.spec.argv.first().into())
        ),
        None => error.to_string(),
    };
    CallError::Command(format!(
        "Unable to run command '{shown}' with the context '{{'cwd': {}, 'shell': {}, 'stdout': -1, 'stderr': {}, \
         'with_communicate': True, 'timeout': {}, 'bg': {}, {executable}'close_fds': True}}', reason: {reason}",
        python::repr(&ready.spec.cwd.as_str().into()),
        python_bool(ready.shell.is_some()),
        if ready.spec.merge { -2 } else { -1 },
        ready.timeout_text,
        python_bool(ready.spec.background),
    ))
}

/// The output as text: UTF-8 with replacements, or Latin-1 on request.
fn decode(ready: &PreparedCommand, raw: &[u8]) -> Result<String> {
    let name = ready.encoding.as_deref().unwrap_or("utf-8");
    let text: String = match name.to_ascii_lowercase().replace('_', "-").as_str() {
        "utf-8" | "utf8" | "ascii" | "us-ascii" => String::from_utf8_lossy(raw).into_owned(),
        "latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" => {
            raw.iter().map(|b| char::from(*b)).collect()
        }
        _ => {
            return Err(CallError::raised(
                "LookupError",
                format!("unknown encoding: {name}; this minion supports utf-8 and latin-1"),
            ));
        }
    };
    if !ready.rstrip {
        return Ok(text);
    }
    // Python treats the four separators U+001C to U+001F as whitespace.
    let blank = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    Ok(text.trim_end_matches(blank).to_owned())
}

fn cmd(call: &Call<'_>) -> Value {
    call.arg("cmd").clone()
}

fn run(call: &mut Call<'_>) -> Result {
    let merge = call.flag("redirect_stderr");
    run_text(call, merge, None)
}

fn shell(call: &mut Call<'_>) -> Result {
    run_text(call, true, Some(true))
}

fn run_text(call: &mut Call<'_>, merge: bool, shell: Option<bool>) -> Result {
    let mode = FunctionMode {
        merge,
        shell,
        ..FunctionMode::default()
    };
    let hide = call.flag("hide_output");
    let ran = execute(call, &cmd(call), mode)?.hide_output(hide);
    let failed = ran.code.unwrap_or(0) != 0 && !get(call, "ignore_retcode").truthy();
    if failed && get(call, "raise_err").truthy() {
        return Err(CallError::Command(ran.stdout));
    }
    Ok(ran.stdout.into())
}

fn run_stdout(call: &mut Call<'_>) -> Result {
    let hide = call.flag("hide_output");
    let ran = execute(call, &cmd(call), FunctionMode::default())?;
    Ok(ran.hide_output(hide).stdout.into())
}

fn run_stderr(call: &mut Call<'_>) -> Result {
    let hide = call.flag("hide_output");
    let ran = execute(call, &cmd(call), FunctionMode::default())?;
    Ok(ran.hide_output(hide).stderr.into())
}

fn run_all(call: &mut Call<'_>) -> Result {
    let mode = FunctionMode {
        merge: call.flag("redirect_stderr"),
        ..FunctionMode::default()
    };
    let hide = call.flag("hide_output");
    let ran = execute(call, &cmd(call), mode)?;
    Ok(ran.hide_output(hide).map().into())
}

fn run_bg(call: &mut Call<'_>) -> Result {
    let mode = FunctionMode {
        background: true,
        ..FunctionMode::default()
    };
    let ran = execute(call, &cmd(call), mode)?;
    Ok(map! {"pid" => ran.pid}.into())
}

fn retcode(call: &mut Call<'_>) -> Result {
    let mode = FunctionMode {
        merge: true,
        ..FunctionMode::default()
    };
    Ok(execute(call, &cmd(call), mode)?.code.into())
}

fn which_arg(name: &Value) -> Option<String> {
    which(name.as_str()?)
}

fn which_bin(call: &mut Call<'_>) -> Result {
    let names = call.arg("cmds").str_list();
    Ok(names.iter().find_map(|n| which(n)).into())
}

fn shells(_: &mut Call<'_>) -> Result {
    let text = std::fs::read_to_string("/etc/shells").unwrap_or_default();
    let lines: Vec<String> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(str::to_owned)
        .collect();
    Ok(lines.into())
}

#[cfg(test)]
mod tests;
