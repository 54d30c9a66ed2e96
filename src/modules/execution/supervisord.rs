//! `supervisord`: programs that Supervisor runs (`supervisorctl(1)`).

use super::cmd::which;
use super::command_helpers::{read_file, run_all_as};
use super::declare::{Arg, Function, Module, Result, args, with_names};
use super::program::CommandOutput;
use super::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

const ALL: &[Arg] = args![name = "all", user = None, conf_file = None, bin_env = None];
const ONE: &[Arg] = args![name, user = None, conf_file = None, bin_env = None];
const STATUS: &[Arg] = args![name = None, user = None, conf_file = None, bin_env = None];

const FUNCTIONS: [Function; 12] = with_names(
    &["name", "command"],
    [
        Function::new(
            "start",
            |c| processes(c, "start"),
            "Starts a program, a group (group:*) or all.",
        )
        .args(ALL),
        Function::new(
            "restart",
            |c| processes(c, "restart"),
            "Restarts a program, a group (group:*) or all.",
        )
        .args(ALL),
        Function::new(
            "stop",
            |c| processes(c, "stop"),
            "Stops a program, a group (group:*) or all.",
        )
        .args(ALL),
        Function::new(
            "add",
            |c| group(c, "add"),
            "Activates what the configuration says about a program or group.",
        )
        .args(ONE),
        Function::new(
            "remove",
            |c| group(c, "remove"),
            "Forgets a program or group.",
        )
        .args(ONE),
        Function::new(
            "reread",
            |c| said(c, "reread", None),
            "Has the configuration read again.",
        )
        .args(args![user = None, conf_file = None, bin_env = None]),
        Function::new(
            "update",
            |c| group(c, "update"),
            "Has the configuration read again and applied.",
        )
        .args(args![
            user = None,
            conf_file = None,
            bin_env = None,
            name = None
        ]),
        Function::new("status", status, "The programs with their states.").args(STATUS),
        Function::new(
            "status_raw",
            status_raw,
            "The programs with their states, as Supervisor shows them.",
        )
        .args(STATUS),
        Function::new("custom", custom, "Any command for supervisorctl.").args(args![
            command,
            user = None,
            conf_file = None,
            bin_env = None
        ]),
        Function::new(
            "status_bool",
            status_bool,
            "Whether there is a program, and in this state.",
        )
        .args(args![
            name,
            expected_state = None,
            user = None,
            conf_file = None,
            bin_env = None
        ]),
        Function::new(
            "options",
            options,
            "What the configuration says about a program.",
        )
        .args(args![name, conf_file = None]),
    ],
);

pub(super) const MODULE: Module = Module {
    name: "supervisord",
    functions: &FUNCTIONS,
};

/// supervisorctl of the system, of a virtual environment, or the named one.
fn program(call: &Call<'_>) -> Result<String> {
    let missing =
        || CallError::CommandNotFound("Could not find a `supervisorctl` binary".to_owned());
    let Some(env) = call.text("bin_env").filter(|env| !env.is_empty()) else {
        return which("supervisorctl").ok_or_else(missing);
    };
    if !Path::new(&env).is_dir() {
        return Ok(env);
    }
    let found = Path::new(&env).join("bin/supervisorctl");
    if found.is_file() {
        Ok(found.to_string_lossy().into_owned())
    } else {
        Err(missing())
    }
}

fn ctl(call: &mut Call<'_>, command: &str, name: Option<String>) -> Result<CommandOutput> {
    let mut argv = vec![program(call)?];
    if let Some(file) = call.text("conf_file") {
        argv.extend(["-c".to_owned(), file]);
    }
    argv.push(command.to_owned());
    argv.extend(name.filter(|name| !name.is_empty()));
    let kwargs = map! {"runas" => call.arg("user").clone()};
    run_all_as(call, argv, kwargs)
}

/// The output of a command. One that fails has `ERROR` in it.
fn text(ran: CommandOutput) -> String {
    if ran.ok() || ran.stdout.contains("ERROR") {
        ran.stdout
    } else {
        format!("ERROR: {}", ran.stdout)
    }
}

fn said(call: &mut Call<'_>, command: &str, name: Option<String>) -> Result {
    Ok(text(ctl(call, command, name)?).into())
}

fn processes(call: &mut Call<'_>, command: &str) -> Result {
    let name = python::str(call.arg("name"));
    // supervisorctl knows a group as `group:`, too.
    let name = match name.strip_suffix(":*") {
        Some(group) => format!("{group}:"),
        None => name,
    };
    said(call, command, Some(name))
}

fn group(call: &mut Call<'_>, command: &str) -> Result {
    let name = call.text("name").map(|name| {
        let short = name.strip_suffix(':').or_else(|| name.strip_suffix(":*"));
        short.map(str::to_owned).unwrap_or(name)
    });
    said(call, command, name)
}

fn status_raw(call: &mut Call<'_>) -> Result {
    let name = call.text("name");
    said(call, "status", name)
}

/// A line about a program: its name, its state, and what is to say about it.
fn fields(line: &str) -> Result<[&str; 3]> {
    let blank = |text: &str| text.find(char::is_whitespace).unwrap_or(text.len());
    let line = line.trim();
    let (process, rest) = line.split_at(blank(line));
    let rest = rest.trim_start();
    let (state, rest) = rest.split_at(blank(rest));
    let words = line.split_whitespace().count();
    if words < 2 {
        let text = format!(
            "not enough values to unpack (expected 3, got {})",
            words + 1
        );
        return Err(CallError::raised("ValueError", text));
    }
    Ok([process, state, rest.trim_start()])
}

fn status(call: &mut Call<'_>) -> Result {
    let name = call.text("name");
    let ran = ctl(call, "status", name)?;
    // Since 4.0 it fails with 3 where a program does not run. For stock that is an error in front of the first line.
    let out = if ran.retcode == 3 {
        ran.stdout
    } else {
        text(ran)
    };
    let mut all = Map::new();
    for line in out.lines() {
        let [process, state, reason] = fields(line)?;
        all.set(process, map! {"state" => state, "reason" => reason});
    }
    Ok(all.into())
}

fn custom(call: &mut Call<'_>) -> Result {
    let command = python::str(call.arg("command"));
    said(call, &command, None)
}

fn status_bool(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let ran = ctl(call, &format!("status {name}"), None)?;
    let out = if ran.retcode == 3 {
        ran.stdout
    } else {
        text(ran)
    };
    let Some(last) = out.lines().next_back() else {
        return Ok(false.into());
    };
    let [process, state, reason] = fields(last)?;
    if reason == "(no such process)" || process != name {
        return Ok(false.into());
    }
    Ok(call
        .text("expected_state")
        .is_none_or(|wanted| wanted == state)
        .into())
}

/// The settings of a section of an INI file, in its order. Names are in lower case, and lines that begin with blanks
/// go on with the value.
fn section(text: &str, wanted: &str) -> Option<Vec<(String, String)>> {
    let mut found: Option<Vec<(String, String)>> = None;
    let mut inside = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = found
                .as_mut()
                .filter(|_| inside)
                .and_then(|all| all.last_mut())
            {
                value.push('\n');
                value.push_str(trimmed);
            }
        } else if let Some(name) = trimmed.strip_prefix('[').and_then(|t| t.split(']').next()) {
            inside = name == wanted;
            if inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some(all)) = (inside, found.as_mut()) {
            let (key, value) = trimmed.split_once(['=', ':']).unwrap_or((trimmed, ""));
            all.push((key.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
    found
}

/// A number or a boolean, if the text is one.
fn typed(text: &str) -> Value {
    let number = text.parse::<i64>().map(Value::from);
    let number = number.or_else(|_| text.parse::<f64>().map(Value::Float));
    number.unwrap_or_else(|_| match text.to_lowercase().as_str() {
        "true" => true.into(),
        "false" => false.into(),
        _ => text.into(),
    })
}

fn options(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let paths = ["/etc/supervisor/supervisord.conf", "/etc/supervisord.conf"];
    let usual = || paths.into_iter().find(|path| Path::new(path).exists());
    let Some(file) = call
        .text("conf_file")
        .or_else(|| usual().map(str::to_owned))
    else {
        return Err(CallError::Command(
            "No suitable config file found".to_owned(),
        ));
    };
    // As stock: a file that is not there has no sections.
    let text = read_file(&file).unwrap_or_default();
    let Some(found) = section(&text, &format!("program:{name}")) else {
        return Err(CallError::Command(format!("Process '{name}' not found")));
    };
    let mut ret = Map::new();
    for (key, value) in found {
        let value = value.split(';').next().unwrap_or_default().trim();
        ret.set(key, typed(value));
    }
    Ok(ret.into())
}

#[cfg(test)]
mod tests {
    use super::{fields, section, typed};
    use halite_wire::Value;

    #[test]
    fn lines_of_status() {
        let line = "a:b      RUNNING   pid 3, uptime 0:01:00";
        assert_eq!(
            fields(line),
            Ok(["a:b", "RUNNING", "pid 3, uptime 0:01:00"])
        );
        assert_eq!(fields("a STARTING"), Ok(["a", "STARTING", ""]));
        assert!(fields("a").is_err());
    }

    #[test]
    fn settings() {
        let text = "[program:a]\nx=1\n[program:b]\nCommand = /bin/x ; y\nenv: A=b,\n  C=d\n; no\n[z]\nq=2\n";
        let wanted = [("command", "/bin/x ; y"), ("env", "A=b,\nC=d")];
        let wanted = wanted.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
        assert_eq!(section(text, "program:b"), Some(wanted));
        assert_eq!(section(text, "none"), None);
        assert_eq!(
            (typed("3"), typed("True")),
            (Value::Int(3), Value::Bool(true))
        );
    }
}
