//! Common parts of daemons.

use super::common::{Common, fail};
use halite_sys::daemon::{Report, in_background, start_in_background, survive_signals};
use halite_sys::logging::LogOptions;
use halite_sys::process::arguments;
use halite_wire::{Map, Value, yaml};
use std::path::{Path, PathBuf};

/// Options of a daemon.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct DaemonOptions {
    /// Run in the background; returns when the daemon is ready, or has reported why it is not
    #[arg(short = 'd', long)]
    daemon: bool,

    /// Account to run as; overrides the option `user`
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,

    /// Pid file; overrides the option `pidfile`
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    /// Accepted for compatibility; a daemon never restarts itself
    #[arg(long)]
    disable_keepalive: bool,

    /// Print the configuration in effect as YAML, and exit
    #[arg(long)]
    pub config_dump: bool,

    /// Print a commented configuration file with all options, and exit
    #[arg(long)]
    pub sample_config: bool,

    #[command(flatten)]
    pub check: CheckOption,
}

/// The option for checking the configuration.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct CheckOption {
    /// Check the configuration, print what is wrong with it, and exit: with 0, or with 1 if the program could
    /// not run
    #[arg(long)]
    pub check_config: bool,
}

/// Prints what is wrong with the configuration in `file`; with faults the program could not run. Returns the
/// exit status.
pub(super) fn checked(file: &Path, warnings: &[String], faults: &[String]) -> i32 {
    for warning in warnings {
        println!("warning: {warning}");
    }
    for fault in faults {
        println!("error: {fault}");
    }
    if !faults.is_empty() {
        return 1;
    }
    println!("{}: the configuration is usable", file.display());
    0
}

impl DaemonOptions {
    /// Whether this process only starts the daemon in the background.
    pub fn starts_another(&self) -> bool {
        self.daemon && !in_background()
    }

    /// Overrides the configuration with the options.
    pub fn overlay(&self, user: &mut String, pidfile: &mut PathBuf) {
        if let Some(own) = &self.user {
            user.clone_from(own);
        }
        if let Some(own) = &self.pid_file {
            pidfile.clone_from(own);
        }
    }
}

/// Starts the daemon in the background and waits until it is ready. Returns the exit status.
pub(super) fn background() -> i32 {
    let kept = arguments()
        .into_iter()
        .filter(|a| a != "-d" && a != "--daemon");
    match start_in_background(kept) {
        Ok(Ok(())) => 0,
        Ok(Err(e)) => fail(e.message, e.status),
        Err(e) => fail(e, 1),
    }
}

/// Starts a daemon: starts the log, shows warnings about the configuration and, if this is a background start,
/// leaves the terminal's session. The report is for the starting process.
pub(super) fn begin(common: &Common, log: LogOptions, warnings: Vec<String>) -> Report {
    common.start_log(log);
    survive_signals();
    for warning in warnings {
        log::warn!("{warning}");
    }
    let report = Report::inherited();
    if report.is_awaited() {
        let _ = nix::unistd::setsid();
    }
    report
}

/// The exit status of a daemon. A failure is reported to the log and to a waiting starter.
pub(super) fn end(ended: Result<(), (String, i32)>, report: &mut Report) -> i32 {
    match ended {
        Ok(()) => 0,
        Err((why, status)) => {
            report.failed(&why);
            log::error!("{why}");
            status
        }
    }
}

/// Reports why a daemon does not start, to the terminal and to a waiting starter. Returns the exit status.
pub(super) fn refused(why: &str, status: i32) -> i32 {
    Report::inherited().failed(why);
    fail(why, status)
}

/// Writes the pid file, if one is configured.
#[cfg(feature = "gateways")]
pub(super) fn pid_file(path: &Path) -> Result<Option<halite_sys::daemon::PidFile>, String> {
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    let file = halite_sys::daemon::PidFile::write(path);
    file.map(Some)
        .map_err(|e| format!("the pid file {}: {e}", path.display()))
}

/// Prints a configuration as YAML. Returns the exit status.
pub(super) fn dump(values: Map) -> i32 {
    print!("{}", yaml::emit(&Value::Map(values), true));
    0
}
