//! Starting, stopping, enabling and masking services.

use super::{Systemctl, masked, name, root, units, warn_if_changed};
use crate::execution::cmd::which;
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, command_helpers, python, systemd};
use halite_wire::Value;

/// A failed command's output, without scope names.
fn without_scope(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|l| !l.ends_with(".scope")).collect();
    lines.join("\n").trim().to_owned()
}

/// On by default for the minion's own service, which would otherwise wait for its own stop.
fn no_block(call: &Call<'_>, name: &str) -> bool {
    match call.arg("no_block") {
        Value::Nil => {
            super::unit(name) == "salt-minion.service"
                || super::unit(name) == "halite-minion.service"
        }
        other => other.truthy(),
    }
}

pub fn daemon_reload(call: &mut Call<'_>) -> Result {
    let ctl = Systemctl {
        action: &["--system", "daemon-reload"],
        ..Systemctl::default()
    };
    let ran = ctl.run_merged(call, false)?;
    if ran.ok() {
        Ok(true.into())
    } else {
        Err(CallError::Command(format!(
            "Problem performing systemctl daemon-reload: {}",
            ran.stdout
        )))
    }
}

fn unmask_first(call: &mut Call<'_>, name: &str, root: Option<&str>) -> Result {
    for (flag, runtime) in [("unmask", false), ("unmask_runtime", true)] {
        if call.flag(flag) {
            remove_mask(call, name, runtime, root)?;
        }
    }
    Ok(Value::Nil)
}

/// `start`, `restart`, `reload` and `force-reload`.
pub fn run_action(call: &mut Call<'_>, action: &str) -> Result {
    let name = name(call);
    warn_if_changed(call, &name)?;
    unmask_first(call, &name, None)?;
    let no_block = no_block(call, &name);
    let action = [action];
    let ctl = Systemctl {
        action: &action,
        name: Some(&name),
        scope: true,
        no_block,
        ..Systemctl::default()
    };
    let ran = ctl.run(call)?;
    if ran.ok() {
        Ok(true.into())
    } else {
        Err(CallError::Command(without_scope(&ran.stderr)))
    }
}

pub fn stop(call: &mut Call<'_>) -> Result {
    let name = name(call);
    warn_if_changed(call, &name)?;
    let no_block = no_block(call, &name);
    let ctl = Systemctl {
        action: &["stop"],
        name: Some(&name),
        scope: true,
        no_block,
        ..Systemctl::default()
    };
    Ok(ctl.run(call)?.ok().into())
}

pub fn mask(call: &mut Call<'_>) -> Result {
    let (name, root, runtime) = (name(call), root(call), call.flag("runtime"));
    warn_if_changed(call, &name)?;
    let action: &[&str] = if runtime {
        &["mask", "--runtime"]
    } else {
        &["mask"]
    };
    let ctl = Systemctl {
        action,
        name: Some(&name),
        scope: true,
        root: root.as_deref(),
        ..Systemctl::default()
    };
    let ran = ctl.run_merged(call, false)?;
    if ran.ok() {
        return Ok(true.into());
    }
    let mut text = format!("Failed to mask service '{name}'");
    if !ran.stdout.is_empty() {
        text.push_str(&format!(". Additional info follows:\n\n{}", ran.stdout));
    }
    Err(CallError::Command(text))
}

pub fn unmask(call: &mut Call<'_>) -> Result {
    let (name, root, runtime) = (name(call), root(call), call.flag("runtime"));
    remove_mask(call, &name, runtime, root.as_deref())
}

fn remove_mask(call: &mut Call<'_>, name: &str, runtime: bool, root: Option<&str>) -> Result {
    warn_if_changed(call, name)?;
    if !masked(call, name, runtime, root)? {
        return Ok(true.into());
    }
    let action: &[&str] = if runtime {
        &["unmask", "--runtime"]
    } else {
        &["unmask"]
    };
    let ctl = Systemctl {
        action,
        name: Some(name),
        scope: true,
        root,
        ..Systemctl::default()
    };
    if ctl.run_merged(call, false)?.ok() {
        Ok(true.into())
    } else {
        Err(CallError::Command(format!(
            "Failed to unmask service '{name}'"
        )))
    }
}

pub fn enable(call: &mut Call<'_>) -> Result {
    let (name, root, no_block) = (name(call), root(call), call.flag("no_block"));
    warn_if_changed(call, &name)?;
    unmask_first(call, &name, root.as_deref())?;
    if units::sysv(root.as_deref()).contains(&name) {
        return sysv(call, &name, &["-f", &name, "defaults", "99"], "on");
    }
    let ctl = Systemctl {
        action: &["enable"],
        name: Some(&name),
        scope: true,
        no_block,
        root: root.as_deref(),
        more: &[],
    };
    let ran = ctl.run(call)?;
    call.retcode = 0.into();
    if ran.ok() {
        Ok(true.into())
    } else {
        Err(CallError::Command(without_scope(&ran.stderr)))
    }
}

pub fn disable(call: &mut Call<'_>) -> Result {
    let (name, root, no_block) = (name(call), root(call), call.flag("no_block"));
    warn_if_changed(call, &name)?;
    if units::sysv(root.as_deref()).contains(&name) {
        return sysv(call, &name, &["-f", &name, "remove"], "off");
    }
    let ctl = Systemctl {
        action: &["disable"],
        name: Some(&name),
        scope: true,
        no_block,
        root: root.as_deref(),
        more: &[],
    };
    let ran = ctl.run(call)?;
    call.retcode = 0.into();
    Ok(ran.ok().into())
}

/// A service with an init script, managed by the host's program for them.
fn sysv(call: &mut Call<'_>, name: &str, update: &[&str], chkconfig: &str) -> Result {
    let mut argv = Vec::new();
    if systemd::scope(call) {
        argv.extend(["systemd-run".to_owned(), "--scope".to_owned()]);
    }
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    if let Some(program) = which("update-rc.d") {
        argv.push(program);
        argv.extend(words(update));
    } else if let Some(program) = which("chkconfig") {
        argv.push(program);
        argv.extend(words(&[name, chkconfig]));
    } else {
        let text = "Unable to find sysv service manager (tried update-rc.d, chkconfig)";
        return Err(CallError::Command(text.to_owned()));
    }
    Ok(command_helpers::run_all_tolerant(call, argv)?.ok().into())
}

pub fn firstboot(call: &mut Call<'_>) -> Result {
    const OPTIONS: [(&str, &str); 7] = [
        ("locale", "locale"),
        ("locale-message", "locale_message"),
        ("keymap", "keymap"),
        ("timezone", "timezone"),
        ("hostname", "hostname"),
        ("machine-ID", "machine_id"),
        ("root", "root"),
    ];
    let mut argv = vec![which("systemd-firstboot").unwrap_or("systemd-firstboot".to_owned())];
    for (option, arg) in OPTIONS {
        if call.flag(arg) {
            argv.extend([format!("--{option}"), python::str(call.arg(arg))]);
        }
    }
    let ran = command_helpers::run_all(call, argv)?;
    if ran.ok() {
        Ok(true.into())
    } else {
        Err(CallError::Command(format!(
            "systemd-firstboot error: {}",
            ran.stderr
        )))
    }
}
