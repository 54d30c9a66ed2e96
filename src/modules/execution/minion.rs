//! `minion`: the minion's process, and a local master's keys.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, program, python};
use halite_wire::map;
use halite_wire::{Map, Value};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::Duration;

/// `salt.defaults.exitcodes`: internal error, try again later.
const EX_SOFTWARE: i64 = 70;
const TEMPORARY: i64 = 75;
/// This minion's systemd unit.
const SERVICE: &str = "halite-minion";
/// Directories of a master's keys.
const KEYS: [&str; 4] = [
    "minions",
    "minions_pre",
    "minions_rejected",
    "minions_denied",
];

pub(super) const MODULE: Module = Module {
    name: "minion",
    functions: &[
        Function::new("list", list, "The keys of a master on this host, by state.").inner("list_"),
        Function::new(
            "kill",
            |c| Ok(stop_daemon(c, python::int(c.arg("timeout"))?).into()),
            "Stops the minion and waits for it up to a number of seconds.",
        )
        .args(args![timeout = { 15 }]),
        Function::new(
            "restart",
            restart,
            "Restarts the minion through systemd or minion_restart_command, or only stops it.",
        )
        .args(args![
            systemd = True,
            win_service = True,
            schedule_retry = False,
            retry_delay = { 180 }
        ]),
    ],
};

fn list(call: &mut Call<'_>) -> Result {
    let pki = call.ctx.opts.str("pki_dir").unwrap_or_default();
    let pki = pki.replace("minion", "master");
    let names = |dir: &str| -> Vec<String> {
        let entries = std::fs::read_dir(Path::new(&pki).join(dir));
        let files = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter(|e| e.path().is_file());
        let mut names: Vec<String> = files
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|name| !name.starts_with('.'))
            .collect();
        names.sort_by_key(|name| name.to_lowercase());
        names
    };
    let found: Map = KEYS.iter().map(|dir| (*dir, names(dir))).collect();
    Ok(found.into())
}

fn signal(pid: i64) -> bool {
    match i32::try_from(pid) {
        Ok(pid) if pid > 1 => kill(Pid::from_raw(pid), Signal::SIGTERM).is_ok(),
        _ => false,
    }
}

/// The result of `minion.kill`. The daemon's process id is the grain `pid`; this job has its own.
fn stop_daemon(call: &Call<'_>, timeout: i64) -> Map {
    let Some(pid) = call.ctx.grains.int("pid") else {
        return map! {
            "killed" => Value::Nil, "retcode" => EX_SOFTWARE,
            "comment" => vec![Value::from("Unable to find \"pid\" in grains")],
        };
    };
    if !signal(pid) {
        return map! {
            "killed" => Value::Nil, "retcode" => 1,
            "comment" => vec![Value::from("ps.kill_pid failed")],
        };
    }
    for _ in 0..timeout {
        std::thread::sleep(Duration::from_secs(1));
        if !signal(pid) {
            return map! {"killed" => pid, "retcode" => 0};
        }
    }
    map! {
        "killed" => Value::Nil, "retcode" => TEMPORARY,
        "comment" => vec![Value::from("Timed out waiting for minion to exit")],
    }
}

/// How to restart the daemon.
enum RestartMethod {
    Systemd,
    Command(Vec<String>),
    EndOnly,
}

fn restart(call: &mut Call<'_>) -> Result {
    let mut comment: Vec<String> = Vec::new();
    let method = restart_method(call, &mut comment);
    let mut ret = map! {
        "killed" => Value::Nil, "restart" => Map::new(), "service_restart" => Map::new(), "retcode" => 0,
    };
    if let RestartMethod::Systemd = method {
        service(call, &mut ret, &mut comment);
    } else {
        for (key, value) in stop_daemon(call, 15).0 {
            ret.set(python::str(&key), value);
        }
        comment.extend(
            ret.remove("comment")
                .map(|c| c.str_list())
                .unwrap_or_default(),
        );
        let failed = ret.int("retcode") != Some(0);
        if failed {
            comment.push("Kill failed - not restarting".to_owned());
        }
        if let RestartMethod::Command(words) = method
            && !failed
        {
            start(call, words, &mut ret, &mut comment)?;
        }
    }
    if !comment.is_empty() {
        ret.set("comment", comment);
    }
    Ok(ret.into())
}

fn restart_method(call: &Call<'_>, comment: &mut Vec<String>) -> RestartMethod {
    let mut use_command = |head: &str, words: Vec<String>| {
        comment.push(head.to_owned());
        comment.extend(words.iter().map(|word| format!("    {word}")));
        RestartMethod::Command(words)
    };
    let configured = call.ctx.opts.get("minion_restart_command");
    if let Some(words) = configured.filter(|v| v.truthy()) {
        return use_command(
            "Using configuration minion_restart_command:",
            words.str_list(),
        );
    }
    if call.flag("systemd") && booted() {
        comment.push(format!("Using systemctl to restart {SERVICE}"));
        return RestartMethod::Systemd;
    }
    let words = command_line(call.ctx.grains.int("pid").unwrap_or_default());
    if words.iter().any(|w| w == "-d") {
        return use_command("Restart using process argv:", words);
    }
    comment.push("Not running in daemon mode - will not restart process after killing".to_owned());
    RestartMethod::EndOnly
}

/// `salt/utils/systemd.py booted`.
fn booted() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

fn command_line(pid: i64) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&line);
    let words = line.trim_end_matches('\0').split('\0');
    words.map(str::to_owned).collect()
}

fn start(
    call: &mut Call<'_>,
    words: Vec<String>,
    ret: &mut Map,
    comment: &mut Vec<String>,
) -> Result<()> {
    let options = map! {"python_shell" => false};
    let ran = call.salt("cmd.run_all", vec![words.into()], options)?;
    let mut ran = ran.into_map().unwrap_or_default();
    ran.remove("pid");
    let code = ran.remove("retcode").unwrap_or_default();
    ret.set("restart", ran);
    if code.truthy() {
        comment.push("Restart failed".to_owned());
        ret.set("retcode", code);
    }
    Ok(())
}

/// Restarts the service; schedules a second start first if requested.
fn service(call: &mut Call<'_>, ret: &mut Map, comment: &mut Vec<String>) {
    let mut report = Map::new();
    let mut planned = Ok(());
    if call.flag("schedule_retry") {
        planned = retry(call, &mut report, comment);
    }
    let failure = if planned.is_err() {
        "Adding scheduled retry failed"
    } else {
        "Service restart failed"
    };
    let done = planned.and_then(|()| {
        call.salt(
            "service.restart",
            vec![SERVICE.into()],
            map! {"no_block" => true},
        )
    });
    match done {
        Ok(result) => {
            report.set("result", result);
            comment.push("Service restart successful".to_owned());
            ret.set("retcode", 0);
        }
        Err(fault) => {
            report.set("result", false);
            report.set("stderr", fault.message());
            comment.push(failure.to_owned());
            ret.set("retcode", EX_SOFTWARE);
        }
    }
    ret.set("service_restart", report);
}

fn retry(call: &mut Call<'_>, report: &mut Map, comment: &mut Vec<String>) -> Result<()> {
    report.set("schedule_retry", Map::new());
    let delay = call.arg("retry_delay");
    let seconds = python::int(delay).map_err(|_| {
        let delay = python::str(delay);
        CallError::Command(format!(
            "Invalid retry_delay value: {delay}. Must be a number of seconds."
        ))
    })?;
    let again = format!("systemctl is-active {SERVICE} || systemctl start {SERVICE}");
    let on = format!("--on-active={seconds}");
    let ran = program::run(["systemd-run", &on, "/bin/sh", "-c", &again])?;
    if !ran.ok() {
        return Err(CallError::Command(ran.stderr));
    }
    report.set(
        "schedule_retry",
        map! {"detail" => ran.stderr, "delay" => seconds},
    );
    comment.push(format!(
        "Scheduled retry for minion restart in {seconds} seconds"
    ));
    Ok(())
}
