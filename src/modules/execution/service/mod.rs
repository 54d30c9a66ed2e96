//! `service`: services of hosts with systemd, including hosts where it is installed but not running, like containers
//! and images; there the scripts of `/etc/init.d` start and stop them on Debian.

mod change;
mod sysv;
mod units;

use super::cmd::which;
use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::program::CommandOutput;
use super::{Call, CallError, command_helpers, python, systemd};
use halite_sys::command::Helper;

const NIL: Lit = Lit::Nil;
const NO: Lit = Lit::Bool(false);

/// `start` and `reload`.
const START: &[Arg] = &[
    req("name"),
    opt("no_block", NO),
    opt("unmask", NO),
    opt("unmask_runtime", NO),
];
const MASK: &[Arg] = &[req("name"), opt("runtime", NO), opt("root", NIL)];

pub(super) const MODULE: Module = Module {
    name: "service",
    functions: &[
        Function::new("start", |c| act(c, "start"), "Starts a service.")
            .args(START)
            .names(&["name"]),
        Function::new(
            "stop",
            |c| act(c, "stop"),
            "Stops a service; returns whether it worked.",
        )
        .args(&[req("name"), opt("no_block", NIL)])
        .names(&["name"]),
        Function::new("restart", |c| act(c, "restart"), "Restarts a service.")
            .args(&[
                req("name"),
                opt("no_block", NIL),
                opt("unmask", NO),
                opt("unmask_runtime", NO),
            ])
            .names(&["name"]),
        Function::new(
            "reload",
            |c| act(c, "reload"),
            "Has a service reload its configuration.",
        )
        .inner("reload_")
        .args(START)
        .names(&["name"]),
        Function::new(
            "force_reload",
            |c| act(c, "force-reload"),
            "Reloads a service, or restarts it if it cannot reload.",
        )
        .args(&[
            req("name"),
            opt("no_block", Lit::Bool(true)),
            opt("unmask", NO),
            opt("unmask_runtime", NO),
        ])
        .names(&["name"]),
        Function::new(
            "status",
            |c| {
                if sysv::applies(c) {
                    sysv::status(c)
                } else {
                    units::status(c)
                }
            },
            "Whether a service is running; for a glob, of each matching one.",
        )
        .args(&[req("name"), opt("sig", NIL)])
        .names(&["name"]),
        Function::new(
            "enable",
            |c| {
                if sysv::applies(c) {
                    sysv::enable(c, true)
                } else {
                    change::enable(c)
                }
            },
            "Enables a service at boot.",
        )
        .args(&[
            req("name"),
            opt("no_block", NO),
            opt("unmask", NO),
            opt("unmask_runtime", NO),
            opt("root", NIL),
        ])
        .keywords()
        .names(&["name"]),
        Function::new(
            "disable",
            |c| {
                if sysv::applies(c) {
                    sysv::enable(c, false)
                } else {
                    change::disable(c)
                }
            },
            "Disables a service at boot.",
        )
        .args(&[req("name"), opt("no_block", NO), opt("root", NIL)])
        .keywords()
        .names(&["name"]),
        Function::new(
            "enabled",
            |c| Ok(enabled(c)?.into()),
            "Whether a service is enabled at boot.",
        )
        .args(&[req("name"), opt("root", NIL)])
        .keywords()
        .names(&["name"]),
        Function::new(
            "disabled",
            |c| Ok(disabled(c)?.into()),
            "Whether a service is disabled at boot.",
        )
        .args(&[req("name"), opt("root", NIL)])
        .names(&["name"]),
        Function::new(
            "mask",
            change::mask,
            "Masks a service, so that it cannot be started.",
        )
        .args(MASK)
        .names(&["name"]),
        Function::new("unmask", change::unmask, "Unmasks a service.")
            .inner("unmask_")
            .args(MASK)
            .names(&["name"]),
        Function::new("masked", masked_function, "Whether a service is masked.")
            .args(MASK)
            .names(&["name"]),
        Function::new(
            "available",
            |c| Ok(available(c)?.into()),
            "Whether a service exists.",
        )
        .args(&[req("name")])
        .names(&["name"]),
        Function::new(
            "missing",
            |c| Ok((!available(c)?).into()),
            "Whether a service does not exist.",
        )
        .args(&[req("name")])
        .names(&["name"]),
        Function::new(
            "get_all",
            |c| {
                Ok(if sysv::applies(c) {
                    sysv::listed(sysv::all())
                } else {
                    units::all_services(root(c).as_deref()).into()
                })
            },
            "All services.",
        )
        .args(&[opt("root", NIL)]),
        Function::new("get_running", units::running, "The running services."),
        Function::new(
            "get_enabled",
            |c| {
                if sysv::applies(c) {
                    Ok(sysv::listed(sysv::enabled()))
                } else {
                    units::with_state(c, "enabled")
                }
            },
            "The services enabled at boot.",
        )
        .args(&[opt("root", NIL)]),
        Function::new(
            "get_disabled",
            |c| {
                if sysv::applies(c) {
                    Ok(sysv::listed(&sysv::all() - &sysv::enabled()))
                } else {
                    units::with_state(c, "disabled")
                }
            },
            "The services disabled at boot.",
        )
        .args(&[opt("root", NIL)]),
        Function::new(
            "get_static",
            |c| units::with_state(c, "static"),
            "The services that are only started by others.",
        )
        .args(&[opt("root", NIL)]),
        Function::new(
            "show",
            |c| Ok(units::show(c, &name(c))?.into()),
            "The properties of a service.",
        )
        .args(&[req("name"), opt("root", NIL)])
        .names(&["name"]),
        Function::new("execs", units::execs, "The programs of all services.")
            .args(&[opt("root", NIL)]),
        Function::new(
            "systemctl_reload",
            change::daemon_reload,
            "Has systemd reload its units.",
        ),
        Function::new(
            "offline",
            |_| Ok(offline()),
            "The path of systemctl if systemd is installed but not running.",
        ),
        Function::new(
            "firstboot",
            change::firstboot,
            "Sets what systemd-firstboot asks for on a first boot.",
        )
        .args(&[
            opt("locale", NIL),
            opt("locale_message", NIL),
            opt("keymap", NIL),
            opt("timezone", NIL),
            opt("hostname", NIL),
            opt("machine_id", NIL),
            opt("root", NIL),
        ]),
    ],
};

fn name(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

fn root(call: &Call<'_>) -> Option<String> {
    call.text("root").filter(|r| !r.is_empty())
}

fn offline() -> halite_wire::Value {
    if systemd::booted() {
        false.into()
    } else {
        systemd::offline().into()
    }
}

fn act(call: &mut Call<'_>, action: &str) -> Result {
    if sysv::applies(call) {
        sysv::act(call, action)
    } else if action == "stop" {
        change::stop(call)
    } else {
        change::run_action(call, action)
    }
}

fn enabled(call: &mut Call<'_>) -> Result<bool> {
    if sysv::applies(call) {
        Ok(sysv::enabled().contains(&name(call)))
    } else {
        units::enabled(call)
    }
}

fn disabled(call: &mut Call<'_>) -> Result<bool> {
    if sysv::applies(call) {
        let name = name(call);
        Ok(sysv::all().contains(&name) && !sysv::enabled().contains(&name))
    } else {
        Ok(!units::enabled(call)?)
    }
}

/// A path below another root.
fn under_root(path: &str, root: Option<&str>) -> String {
    match root {
        Some(root) => format!("{}{path}", root.trim_end_matches('/')),
        None => path.to_owned(),
    }
}

/// A name with its unit type.
fn unit(name: &str) -> String {
    if units::KINDS.iter().any(|kind| name.ends_with(kind)) {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

/// How to call `systemctl`.
#[derive(Clone, Debug, Default)]
struct Systemctl<'a> {
    action: &'a [&'a str],
    name: Option<&'a str>,
    scope: bool,
    no_block: bool,
    root: Option<&'a str>,
    more: &'a [&'a str],
}

impl Systemctl<'_> {
    /// The argument vector; `scope` says whether systemd scopes are available.
    fn argv(&self, program: &str, scope: bool) -> Vec<String> {
        let mut argv: Vec<String> = Vec::new();
        if self.scope && scope {
            argv.extend([
                which("systemd-run").unwrap_or_default(),
                "--scope".to_owned(),
            ]);
        }
        argv.push(program.to_owned());
        if self.no_block {
            argv.push("--no-block".to_owned());
        }
        if let Some(root) = self.root {
            argv.extend(["--root".to_owned(), root.to_owned()]);
        }
        argv.extend(self.action.iter().map(|w| (*w).to_owned()));
        argv.extend(self.name.map(unit));
        if self.action.contains(&"status") {
            argv.extend(["-n".to_owned(), "0".to_owned()]);
        }
        argv.extend(self.more.iter().map(|w| (*w).to_owned()));
        argv
    }

    fn full_argv(&self, call: &mut Call<'_>) -> Result<Vec<String>> {
        let Some(program) = which("systemctl") else {
            // Stock uses another module on hosts without systemd.
            let fun = call.function.name;
            return Err(CallError::Missing(format!(
                "'service.{fun}' is not available."
            )));
        };
        let scope = self.scope && systemd::scope(call);
        if scope && which("systemd-run").is_none() {
            return Err(CallError::Command(
                "systemd-run is required for running systemctl with --scope, but it was not found on the system. Make \
                 sure systemd-run is installed and in the system's PATH or disable it using the 'systemd.scope' config \
                 option."
                    .to_owned(),
            ));
        }
        Ok(self.argv(&program, scope))
    }

    /// `cmd.run_all`.
    fn run(&self, call: &mut Call<'_>) -> Result<CommandOutput> {
        let argv = self.full_argv(call)?;
        command_helpers::run_all(call, argv)
    }

    /// The same with standard error merged; `anyway` leaves the job's return code alone.
    fn run_merged(&self, call: &mut Call<'_>, anyway: bool) -> Result<CommandOutput> {
        let argv = self.full_argv(call)?;
        let ran = command_helpers::run_all_with(
            call,
            Helper {
                merge: true,
                ..Helper::new(argv)
            },
        )?;
        if anyway {
            call.retcode = 0.into();
        }
        Ok(ran)
    }
}

fn status_of(call: &mut Call<'_>, name: &str) -> Result<CommandOutput> {
    Systemctl {
        action: &["status"],
        name: Some(name),
        ..Systemctl::default()
    }
    .run_merged(call, true)
}

fn require_booted(name: &str) -> Result<()> {
    if systemd::booted() {
        return Ok(());
    }
    Err(CallError::Command(format!(
        "Cannot run in offline mode. Failed to get information on unit '{name}'"
    )))
}

/// Whether systemd knows a unit.
fn known(call: &mut Call<'_>, name: &str) -> Result<bool> {
    require_booted(name)?;
    let ran = status_of(call, name)?;
    is_known(name, &ran)
}

/// What the status of a unit says of [`known`].
fn is_known(name: &str, ran: &CommandOutput) -> Result<bool> {
    if systemd::version().is_some_and(|v| v >= 231) {
        return Ok((0..4).contains(&ran.retcode));
    }
    let text = ran.stdout.to_lowercase();
    if text.contains("could not be found") {
        return Ok(false);
    }
    let loaded = text
        .lines()
        .find_map(|l| l.trim_start().strip_prefix("loaded:"));
    match loaded.and_then(|l| l.split_whitespace().next()) {
        Some(word) => Ok(word != "not-found"),
        None => Err(CallError::Command(format!(
            "Failed to get information on unit '{name}'"
        ))),
    }
}

/// Has systemd reload its units if the requested one is new or changed. The status of the unit, unless it was reloaded.
fn warn_if_changed(call: &mut Call<'_>, name: &str) -> Result<Option<CommandOutput>> {
    let path = format!("/etc/systemd/system/{}", unit(name));
    let readable = nix::unistd::access(path.as_str(), nix::unistd::AccessFlags::R_OK).is_ok();
    if readable {
        require_booted(name)?;
    }
    let ran = status_of(call, name)?;
    let fresh = readable && !is_known(name, &ran)?;
    let hint = "'systemctl daemon-reload'";
    if fresh || ran.stdout.to_lowercase().contains(hint) {
        change::daemon_reload(call)?;
        return Ok(None);
    }
    Ok(Some(ran))
}

fn available(call: &mut Call<'_>) -> Result<bool> {
    let name = name(call);
    if sysv::applies(call) {
        return Ok(sysv::all().contains(&name));
    }
    match warn_if_changed(call, &name)? {
        Some(ran) => {
            require_booted(&name)?;
            is_known(&name, &ran)
        }
        None => known(call, &name),
    }
}

fn masked_function(call: &mut Call<'_>) -> Result {
    let (name, root, runtime) = (name(call), root(call), call.flag("runtime"));
    Ok(masked(call, &name, runtime, root.as_deref())?.into())
}

fn masked(call: &mut Call<'_>, name: &str, runtime: bool, root: Option<&str>) -> Result<bool> {
    warn_if_changed(call, name)?;
    let dir = under_root(if runtime { "/run" } else { "/etc" }, root);
    let link = std::fs::read_link(format!("{dir}/systemd/system/{}", unit(name)));
    Ok(link.is_ok_and(|to| to.as_os_str() == "/dev/null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_vectors() {
        let ctl = Systemctl {
            action: &["status"],
            name: Some("a.timer"),
            ..Systemctl::default()
        };
        assert_eq!(
            ctl.argv("ctl", true),
            ["ctl", "status", "a.timer", "-n", "0"]
        );
        let ctl = Systemctl {
            action: &["mask", "--runtime"],
            name: Some("a"),
            no_block: true,
            root: Some("/r"),
            more: &["-P"],
            ..Systemctl::default()
        };
        let wanted = [
            "ctl",
            "--no-block",
            "--root",
            "/r",
            "mask",
            "--runtime",
            "a.service",
            "-P",
        ];
        assert_eq!(ctl.argv("ctl", true), wanted);
        assert_eq!(under_root("/etc", Some("/r/")), "/r/etc");
    }
}
