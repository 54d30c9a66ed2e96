//! Running zypper, one at a time, with stock's error texts (`zypperpkg.py _Zypper`).

use crate::execution::declare::Result;
use crate::execution::pkg::lowpkg;
use crate::execution::program::CommandOutput;
use crate::execution::{Call, CallError, command_helpers, python, systemd};
use halite_sys::command::Helper;
use halite_wire::map;
use halite_wire::xml::{self, Element};
use halite_wire::{Map, Value};
use std::fs::OpenOptions;
use std::time::Duration;

/// Exit codes of success.
pub const SUCCESS_CODES: [i64; 5] = [0, 100, 101, 102, 103];
/// Exit codes of warnings: no repositories, another zypper, a failed refresh, a failed script.
const WARNING_CODES: [i64; 4] = [6, LOCKED, 106, 107];
/// Another zypper is running.
const LOCKED: i64 = 7;
/// The lock file with its process id; the same for every root.
const LOCK: &str = "/var/run/zypp.pid";
/// The lock held by writers of the rpm database.
const RPM_LOCK: &str = "/var/lib/rpm/.rpm.lock";
/// Pause between checks of a lock.
const PAUSE: Duration = Duration::from_secs(5);

/// How to call zypper.
#[derive(Clone, Debug, Default)]
pub struct ZypperOptions {
    /// The root directory of another system.
    pub root: Option<String>,
    /// Allow refreshing repositories.
    pub refresh: bool,
    /// Use a systemd scope if possible.
    pub scope: bool,
    /// Run without the lock: nothing is changed.
    pub readonly: bool,
    /// Failures are no errors.
    pub forgive: bool,
    /// Exit codes treated as 0.
    pub success: &'static [i64],
}

impl ZypperOptions {
    /// Below a root, if the value is one.
    pub fn new(root: &Value) -> ZypperOptions {
        ZypperOptions {
            root: root.truthy().then(|| python::str(root)),
            ..ZypperOptions::default()
        }
    }

    /// Like [`ZypperOptions::new`], for queries.
    pub fn query(root: &Value) -> ZypperOptions {
        ZypperOptions {
            readonly: true,
            ..ZypperOptions::new(root)
        }
    }

    /// Its output.
    ///
    /// # Errors
    /// It failed.
    pub fn text(&self, call: &mut Call<'_>, args: &[String]) -> Result<String> {
        Ok(self.output(call, args)?.stdout)
    }

    /// Its XML output.
    ///
    /// # Errors
    /// It failed, or printed no XML.
    pub fn xml(&self, call: &mut Call<'_>, args: &[String]) -> Result<Element> {
        let output = self.run(call, args, true)?;
        xml::parse(&output.stdout)
            .map_err(|why| CallError::raised("xml.parsers.expat.ExpatError", why))
    }

    /// Its output and exit code.
    ///
    /// # Errors
    /// It failed.
    pub fn output(&self, call: &mut Call<'_>, args: &[String]) -> Result<CommandOutput> {
        self.run(call, args, false)
    }

    fn argv(&self, args: &[String], xml: bool) -> Vec<String> {
        let mut argv = to_args(&["zypper", "--non-interactive"]);
        if xml {
            argv.push("--xmlout".to_owned());
        }
        if !self.refresh && !args.iter().any(|a| a == "--no-refresh") {
            argv.push("--no-refresh".to_owned());
        }
        if let Some(root) = &self.root {
            argv.extend(["--root".to_owned(), root.clone()]);
        }
        argv.extend_from_slice(args);
        argv
    }

    fn helper(&self, call: &mut Call<'_>, args: &[String], xml: bool) -> Helper {
        let mut argv = Vec::new();
        if self.scope && systemd::scope(call) {
            argv.extend(to_args(&["systemd-run", "--scope"]));
        }
        argv.extend(self.argv(args, xml));
        let mut helper = Helper::new(argv);
        // Stock lets every call that may refresh take the lock.
        if self.readonly && !self.refresh {
            let name = "ZYPP_READONLY_HACK".to_owned();
            helper.env.push((name, Some("1".to_owned())));
        }
        helper
    }

    /// Runs it, waiting while another one holds the lock.
    fn run(&self, call: &mut Call<'_>, args: &[String], xml: bool) -> Result<CommandOutput> {
        let helper = self.helper(call, args, xml);
        let mut blocked = false;
        let output = loop {
            let mut output = command_helpers::run_all_with(call, helper.clone())?;
            if self.success.contains(&output.retcode) {
                output.retcode = 0;
                call.retcode = 0.into();
            }
            let event = match output.retcode {
                LOCKED => blocker(call),
                0 => break output,
                _ if rpm_locked() => {
                    map! {"info" => "RPM is temporarily locked.", "success" => true}
                }
                _ => break output,
            };
            blocked = true;
            fire_event(call, event, "zypper/blocked");
            std::thread::sleep(PAUSE);
        };
        let error =
            if SUCCESS_CODES.contains(&output.retcode) || WARNING_CODES.contains(&output.retcode) {
                None
            } else {
                Some(error_text(&output, xml))
            };
        if blocked {
            let info = error.as_deref().unwrap_or("Zypper has been released");
            let event = map! {"success" => error.is_none(), "info" => info};
            fire_event(call, event, "zypper/released");
        }
        match error {
            Some(why) if !self.forgive => {
                Err(CallError::Command(format!("Zypper command failure: {why}")))
            }
            _ => Ok(output),
        }
    }
}

/// Arguments for a program.
pub fn to_args(list: &[&str]) -> Vec<String> {
    list.iter().map(|w| (*w).to_owned()).collect()
}

/// The error message.
fn error_text(output: &CommandOutput, is_xml: bool) -> String {
    let message = if is_xml {
        match xml::parse(&output.stdout) {
            Ok(document) => {
                let messages = document.all("message").into_iter();
                let errors = messages.filter(|m| m.attribute("type") == "error");
                let texts: Vec<String> = errors.filter_map(|m| m.text.clone()).collect();
                texts.join("\n")
            }
            Err(_) => output.stderr.trim().to_owned(),
        }
    } else {
        format!("{}{}", output.stderr.trim(), output.stdout.trim())
    };
    if message.is_empty() {
        "Check Zypper's logs.".to_owned()
    } else {
        message
    }
}

/// The process that holds zypper's lock.
fn blocker(call: &mut Call<'_>) -> Map {
    let Ok(text) = std::fs::read_to_string(LOCK) else {
        let info = "Zypper is locked, but no Zypper lock has been found.";
        return map! {"info" => info, "success" => false};
    };
    let holder = process(call, text.lines().next().unwrap_or_default().trim());
    holder.unwrap_or_else(|fault| {
        let info = format!("Unable to retrieve information about blocking process: {fault}");
        map! {"info" => info, "success" => false}
    })
}

fn process(call: &mut Call<'_>, pid: &str) -> Result<Map> {
    let pid = python::int(&pid.into())?;
    let names = ["pid", "name", "cmdline", "create_time"].map(Value::from);
    let attrs = map! {"attrs" => names.to_vec()};
    let found = call.salt("ps.proc_info", vec![pid.into()], attrs)?;
    let mut data = found.into_map().unwrap_or_default();
    let line = data.get("cmdline").map(Value::str_list).unwrap_or_default();
    data.set("cmdline", line.join(" "));
    let began = match data.get("create_time") {
        Some(Value::Float(seconds)) => *seconds as i64,
        _ => 0,
    };
    let info = format!("Blocking process created at {}.", lowpkg::utc(began));
    data.set("info", info);
    data.set("success", true);
    Ok(data)
}

/// Fires an event at the master, if there is one.
fn fire_event(call: &mut Call<'_>, data: Map, tag: &str) {
    let sent = call.salt(
        "event.fire_master",
        vec![data.into(), tag.into()],
        Map::new(),
    );
    if let Err(fault) = sent {
        log::debug!("cannot send event {tag}: {fault}");
    }
}

/// Whether the rpm database is locked.
fn rpm_locked() -> bool {
    let file = OpenOptions::new().read(true).write(true).open(RPM_LOCK);
    file.is_ok_and(|file| halite_sys::process::is_locked(&file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_vectors() {
        let how = ZypperOptions::new(&"/r".into());
        assert_eq!(
            how.argv(&to_args(&["lu"]), true),
            to_args(&[
                "zypper",
                "--non-interactive",
                "--xmlout",
                "--no-refresh",
                "--root",
                "/r",
                "lu"
            ])
        );
        let how = ZypperOptions {
            refresh: true,
            ..ZypperOptions::default()
        };
        assert_eq!(
            how.argv(&to_args(&["refresh"]), false),
            to_args(&["zypper", "--non-interactive", "refresh"])
        );
        assert_eq!(
            ZypperOptions::default().argv(&to_args(&["--no-refresh", "install"]), false),
            to_args(&["zypper", "--non-interactive", "--no-refresh", "install"])
        );
    }

    #[test]
    fn error_texts() {
        let output = |stdout: &str, stderr: &str| CommandOutput {
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
            ..CommandOutput::default()
        };
        assert_eq!(error_text(&output("Loading\n", "no\n"), false), "noLoading");
        assert_eq!(error_text(&output("", ""), false), "Check Zypper's logs.");
        let xml = "<?xml version='1.0'?>\n<stream>\n<message type=\"info\">i</message>\n\
                   <message type=\"error\">a &apos;b&apos;</message><message type=\"error\">c</message></stream>";
        assert_eq!(error_text(&output(xml, "x"), true), "a 'b'\nc");
        assert_eq!(error_text(&output("<stream>", "cut\n"), true), "cut");
        assert_eq!(
            error_text(&output("<stream/>", "s"), true),
            "Check Zypper's logs."
        );
    }
}
