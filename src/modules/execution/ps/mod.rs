//! `ps`: processes and the host's resources, with psutil's values.

pub(super) mod host;
mod process;
mod sockets;

use super::declare::{Function, Lit, Module, Result, opt, req};
use super::{Call, CallError, python, shell};
use halite_target::{PyRegex, RegexFlags};
use halite_wire::map;
use halite_wire::{Map, Value};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::{ATTRIBUTES, Process, ProcessError, pids};

pub(super) const MODULE: Module = Module {
    name: "ps",
    functions: &[
        Function::new("boot_time", host::boot, "When the host booted: in seconds since the epoch, or in a strftime format.")
            .args(&[opt("time_format", Lit::Nil)]),
        Function::new("cpu_percent", host::cpu_percent, "CPU usage in percent during an interval in seconds.")
            .args(&[opt("interval", Lit::Float(0.1)), opt("per_cpu", Lit::Bool(false))]),
        Function::new("cpu_times", host::cpu_times, "CPU seconds by category.")
            .args(&[opt("per_cpu", Lit::Bool(false))]),
        Function::new("disk_io_counters", host::disk_io_counters, "Read and write counters of all disks or of one.")
            .args(&[opt("device", Lit::Nil)]),
        Function::new("disk_partition_usage", host::disk_partition_usage, "The mounted partitions with size and usage.")
            .args(&[opt("all", Lit::Bool(false))]),
        Function::new("disk_partitions", host::disk_partitions, "The mounted partitions; with all, every mount.")
            .args(&[opt("all", Lit::Bool(false))]),
        Function::new("disk_usage", host::disk_usage, "Size and usage of a path's file system.").args(&[req("path")]),
        Function::new("get_pid_list", |_| Ok(pids().into_iter().map(Value::from).collect::<Vec<_>>().into()), "The ids of all processes."),
        Function::new("get_users", host::users, "The logged-in users."),
        Function::new("kill_pid", kill_pid, "Sends a signal to a process; false if there is none.")
            .args(&[req("pid"), opt("signal", Lit::Int(15))]),
        Function::new("lsof", lsof, "The files that a command's processes have open, by lsof.").args(&[req("name")]),
        Function::new("netstat", |c| lines_with(c, &["netstat", "-nap"]), "The lines of netstat that contain a text.")
            .args(&[req("name")]),
        Function::new("network_io_counters", host::network_io_counters, "Traffic counters of all network interfaces or of one.")
            .args(&[opt("interface", Lit::Nil)]),
        Function::new("num_cpus", |_| Ok(host::cpu_count().into()), "The number of processors."),
        Function::new("pgrep", pgrep, "The ids of the processes whose name, or full command line, contains a text or matches a regular expression.")
            .args(&[
                req("pattern"),
                opt("user", Lit::Nil),
                opt("full", Lit::Bool(false)),
                opt("pattern_is_regex", Lit::Bool(false)),
            ]),
        Function::new("pkill", pkill, "Sends a signal to the processes whose name, or full command line, contains a text.")
            .args(&[
                req("pattern"),
                opt("user", Lit::Nil),
                opt("signal", Lit::Int(15)),
                opt("full", Lit::Bool(false)),
            ]),
        Function::new("proc_info", proc_info, "All attributes of a process, or the given ones.")
            .args(&[req("pid"), opt("attrs", Lit::Nil)]),
        Function::new("psaux", psaux, "The lines of ps aux that match a regular expression, and their number.").args(&[req("name")]),
        Function::new("ss", |c| lines_with(c, &["ss", "-neap"]), "The lines of ss that contain a text.").args(&[req("name")]),
        Function::new("status", status, "Id and name of the processes in a state such as running or sleeping.").args(&[req("status")]),
        Function::new("swap_memory", host::swap_memory, "Size and usage of the swap space."),
        Function::new("top", top, "The processes with the highest CPU usage during an interval in seconds.")
            .args(&[opt("num_processes", Lit::Int(5)), opt("interval", Lit::Int(3))]),
        Function::new("total_physical_memory", |_| Ok(host::total_memory().into()), "The host's memory in bytes."),
        Function::new("virtual_memory", host::virtual_memory, "Size and usage of the memory."),
    ],
};

/// The process an argument names.
enum ProcessArg {
    Found(Process),
    Missing(String),
}

fn process_arg(value: &Value) -> Result<ProcessArg> {
    let number = match value {
        Value::Nil => i64::from(std::process::id()),
        Value::Int(i) => *i,
        Value::Bool(b) => i64::from(*b),
        other => {
            let class = python::type_name(other);
            let text = format!("'<' not supported between instances of '{class}' and 'int'");
            return Err(CallError::Type(text));
        }
    };
    if number < 0 {
        let text = format!("pid must be a positive integer (got {number})");
        return Err(CallError::raised("ValueError", text));
    }
    let missing = |why: &str| ProcessArg::Missing(format!("process PID {why} (pid={number})"));
    let Ok(pid) = i32::try_from(number) else {
        return Ok(missing("out of range"));
    };
    Ok(Process::new(pid).map_or_else(|_| missing("not found"), ProcessArg::Found))
}

fn proc_info(call: &mut Call<'_>) -> Result {
    let process = match process_arg(call.arg("pid"))? {
        ProcessArg::Found(process) => process,
        ProcessArg::Missing(text) => return Err(CallError::Command(text)),
    };
    let names: Vec<String> = match call.arg("attrs") {
        Value::Nil => Vec::new(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => {
            let text = format!("invalid attrs type {}", python::class(other));
            return Err(CallError::Type(text));
        }
    };
    let mut wrong: Vec<&String> = names
        .iter()
        .filter(|n| !ATTRIBUTES.contains(&n.as_str()))
        .collect();
    wrong.dedup();
    if !wrong.is_empty() {
        let shown: Vec<String> = wrong
            .iter()
            .map(|n| python::repr(&n.as_str().into()))
            .collect();
        let plural = if shown.len() > 1 { "s" } else { "" };
        let text = format!("invalid attr name{plural} {}", shown.join(", "));
        return Err(CallError::raised("ValueError", text));
    }
    let names: Vec<&str> = if names.is_empty() {
        ATTRIBUTES.to_vec()
    } else {
        names.iter().map(String::as_str).collect()
    };
    let mut out = Map::new();
    for name in names {
        match process.attribute(name) {
            Ok(value) => out.set(name, value),
            Err(ProcessError::Denied) => out.set(name, Value::Nil),
            Err(ProcessError::Gone) => {
                let name = python::repr(&process.name().into());
                let text = format!(
                    "process no longer exists (pid={}, name={name})",
                    process.pid
                );
                return Err(CallError::Command(text));
            }
        }
    }
    Ok(out.into())
}

fn signal_of(value: &Value) -> Result<Signal> {
    let number = match value {
        Value::Int(i) => *i,
        Value::Bool(b) => i64::from(*b),
        other => {
            let class = python::type_name(other);
            return Err(CallError::Type(format!(
                "'{class}' object cannot be interpreted as an integer"
            )));
        }
    };
    i32::try_from(number)
        .ok()
        .and_then(|n| Signal::try_from(n).ok())
        .ok_or_else(|| CallError::raised("OSError", "[Errno 22] Invalid argument"))
}

/// Whether the signal was sent; false if the process is gone.
fn send(process: &Process, signal: &Value) -> Result<bool> {
    if signal.as_int() == Some(0) {
        return Ok(kill(Pid::from_raw(process.pid), None).is_ok());
    }
    match kill(Pid::from_raw(process.pid), signal_of(signal)?) {
        Ok(()) => Ok(true),
        Err(nix::errno::Errno::ESRCH) => Ok(false),
        Err(_) => {
            let name = python::repr(&process.name().into());
            let text = format!("(pid={}, name={name})", process.pid);
            Err(CallError::raised("psutil.AccessDenied", text))
        }
    }
}

fn kill_pid(call: &mut Call<'_>) -> Result {
    match process_arg(call.arg("pid"))? {
        ProcessArg::Missing(_) => Ok(false.into()),
        ProcessArg::Found(process) => send(&process, call.arg("signal")).map(Into::into),
    }
}

/// The processes of the given user whose name or command line satisfies `fits`.
fn found(call: &Call<'_>, fits: &dyn Fn(&str) -> bool) -> Vec<Process> {
    let full = call.flag("full");
    let user = call.text("user");
    let all = pids().into_iter().filter_map(|pid| Process::new(pid).ok());
    let fits = |process: &Process| {
        if full {
            fits(&process.cmdline().unwrap_or_default().join(" "))
        } else {
            fits(&process.name())
        }
    };
    all.filter(fits)
        .filter(|p| user.is_none() || p.username().ok() == user)
        .collect()
}

fn pattern(call: &Call<'_>) -> Result<String> {
    let value = call.arg("pattern");
    value.as_str().map(str::to_owned).ok_or_else(|| {
        let class = python::type_name(value);
        CallError::Type(format!(
            "'in <string>' requires string as left operand, not {class}"
        ))
    })
}

fn regex(pattern: &str) -> std::result::Result<PyRegex, CallError> {
    PyRegex::with_flags(pattern, RegexFlags::default())
        .map_err(|e| CallError::raised("re.error", e))
}

fn pgrep(call: &mut Call<'_>) -> Result {
    let processes = if call.flag("pattern_is_regex") {
        let regex = regex(&python::str(call.arg("pattern")))?;
        found(call, &|text| regex.captures(text, 0).is_some())
    } else {
        let pattern = pattern(call)?;
        found(call, &|text| text.contains(&pattern))
    };
    let ids: Vec<Value> = processes.iter().map(|p| p.pid.into()).collect();
    Ok(Some(ids).filter(|ids| !ids.is_empty()).into())
}

fn pkill(call: &mut Call<'_>) -> Result {
    let pattern = pattern(call)?;
    let mut killed: Vec<Value> = Vec::new();
    for process in found(call, &|text| text.contains(&pattern)) {
        if send(&process, call.arg("signal"))? {
            killed.push(process.pid.into());
        }
    }
    if killed.is_empty() {
        Ok(Value::Nil)
    } else {
        Ok(map! {"killed" => killed}.into())
    }
}

fn status(call: &mut Call<'_>) -> Result {
    let wanted = call.text("status").filter(|s| !s.is_empty());
    let Some(wanted) = wanted else {
        return Err(CallError::Invocation(
            "Filter is required for ps.status".into(),
        ));
    };
    let all = pids().into_iter().filter_map(|pid| Process::new(pid).ok());
    let out = all
        .filter(|p| p.status() == wanted)
        .map(|p| map! {"pid" => p.pid, "name" => p.name()}.into());
    Ok(Value::Array(out.collect()))
}

fn top(call: &mut Call<'_>) -> Result {
    let Some(count) = halite_wire::pytext::number(call.arg("num_processes")) else {
        let class = python::type_name(call.arg("num_processes"));
        let text = format!("'>=' not supported between instances of 'int' and '{class}'");
        return Err(CallError::Type(text));
    };
    let wait = host::seconds(call, "interval")?;
    let before: Vec<Process> = pids()
        .into_iter()
        .filter_map(|p| Process::new(p).ok())
        .collect();
    std::thread::sleep(wait);
    let mut usage: Vec<(f64, Process)> = Vec::new();
    for old in before {
        let Some(now) = Process::new(old.pid)
            .ok()
            .filter(|n| n.start_time() == old.start_time())
        else {
            continue;
        };
        usage.push((now.busy() - old.busy(), now));
    }
    usage.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut out: Vec<Value> = Vec::new();
    for (_, process) in usage {
        let Ok(memory) = process.memory_info() else {
            continue;
        };
        let cmd: Value = match process.cmdline() {
            Ok(words) if !words.is_empty() => words.into(),
            _ => process.name().into(),
        };
        let entry = map! {
            "cmd" => cmd,
            "user" => process.username().ok(),
            "status" => process.status(),
            "pid" => process.pid,
            "create_time" => process.create_time(),
            "cpu" => process.cpu_times(),
            "mem" => memory,
        };
        out.push(entry.into());
        if out.len() as f64 >= count {
            break;
        }
    }
    Ok(out.into())
}

fn lsof(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let text = shell::run(call, &["lsof", "-c", &name])?;
    Ok(Value::Array(vec![name.into(), text.into()]))
}

fn lines_with(call: &mut Call<'_>, argv: &[&str]) -> Result {
    shell::require(argv[0])?;
    let name = python::str(call.arg("name"));
    let text = shell::run(call, argv)?;
    let lines: Vec<Value> = text
        .lines()
        .filter(|l| l.contains(&name))
        .map(Into::into)
        .collect();
    Ok(Value::Array(vec![name.into(), lines.into()]))
}

fn psaux(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let regex = regex(&name)?;
    let own = self::regex("salt.+ps.psaux.+")?;
    let text = shell::run(call, &["ps", "aux"])?;
    let lines: Vec<Value> = text
        .lines()
        .filter(|l| regex.captures(l, 0).is_some() && own.captures(l, 0).is_none())
        .map(Into::into)
        .collect();
    let count = format!("{} occurrence(s).", lines.len());
    Ok(Value::Array(vec![name.into(), lines.into(), count.into()]))
}

/// The names of all processes.
pub(crate) fn names() -> Vec<String> {
    let all = pids().into_iter().filter_map(|pid| Process::new(pid).ok());
    all.map(|process| process.name()).collect()
}
