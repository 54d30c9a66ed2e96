//! `halite-minion`.

use super::common::Common;
use super::daemon::{self, DaemonOptions, background, checked, dump, refused};
use super::start::{self, start};
use clap::Parser;
use halite_config::{MinionConfig, Role, load_minion, sample_config};
use halite_minion::daemon::{self as minion, Start};
use halite_minion::job;
use halite_sys::daemon::Report;
use halite_sys::exit::ExitError;
use halite_wire::ids::MinionId;

/// The halite minion: runs jobs of a Salt or halite master.
#[derive(Parser, Debug)]
#[command(
    name = "halite-minion",
    version,
    after_help = "Signals: TERM and INT end the minion and its jobs within two seconds, QUIT leaves the jobs running, USR1 writes a report to the temporary directory, HUP opens the log files anew.\n\n\
        Exit status: 0 stopped, 1 cannot run, 42 the master has another fingerprint than master_finger, 64 wrong \
        options, 67 there is no account `user`, 77 the master rejected the key.\n\n\
        Examples:\n  \
        halite-minion                     serve with /etc/halite/minion, log to the terminal\n  \
        halite-minion -d                  the same in the background\n  \
        halite-minion -c /etc/salt        take over an existing Salt minion's directory"
)]
struct MinionOptions {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    daemon: DaemonOptions,
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<MinionOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    if job::is_job_process() {
        return job::run();
    }
    let options: MinionOptions = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    if options.daemon.sample_config {
        print!("{}", sample_config(Role::Minion));
        return 0;
    }
    let config = match load(&options) {
        Ok(config) => config,
        Err(e) => return refused(&e, 1),
    };
    if options.daemon.config_dump {
        return dump(config.as_map());
    }
    if options.daemon.check.check_config {
        return check(&config);
    }
    if options.daemon.starts_another() {
        return background();
    }
    serve(&options, config)
}

fn load(options: &MinionOptions) -> Result<MinionConfig, String> {
    let mut config = load_minion(&options.common.config_dir).map_err(|e| e.to_string())?;
    options
        .daemon
        .overlay(&mut config.user, &mut config.pidfile);
    Ok(config)
}

/// Prints what is wrong with a minion's configuration. Returns the exit status.
pub(super) fn check(config: &MinionConfig) -> i32 {
    let id = config.id.parse::<MinionId>();
    let mut faults: Vec<String> = id
        .err()
        .map(|e| format!("the option `id`: {e}"))
        .into_iter()
        .collect();
    faults.extend(halite_minion::check::faults(config));
    let mut warnings = config.warnings.clone();
    warnings.extend(halite_minion::check::warnings(config));
    checked(&config.conf_file, &warnings, &faults)
}

fn serve(options: &MinionOptions, mut config: MinionConfig) -> i32 {
    let (start, mut report) = begin(&options.common, &mut config);
    let ended = minion::run(config, start, &mut report);
    status(ended, &mut report)
}

/// Starts a minion daemon; returns parameters for its jobs as well.
pub(super) fn begin(common: &Common, config: &mut MinionConfig) -> (Start, Report) {
    let warnings = std::mem::take(&mut config.warnings);
    let report = daemon::begin(common, config.log_options(), warnings);
    let start = Start {
        title: title(),
        log: log_levels(common, config),
    };
    (start, report)
}

/// The exit status of a minion. A failure is reported to the log and to a waiting starter.
pub(super) fn status(ended: Result<(), ExitError>, report: &mut Report) -> i32 {
    daemon::end(ended.map_err(|e| (e.message, e.status)), report)
}

/// The command line, as prefix of job names in the process list.
fn title() -> String {
    let words: Vec<String> = std::env::args_os()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// Log settings for a job's process: console level, file level, file.
fn log_levels(common: &Common, config: &MinionConfig) -> (String, String, String) {
    let console = common.log_level.as_ref().unwrap_or(&config.log_level);
    let own = common
        .log_file_level
        .as_ref()
        .or(config.log_level_logfile.as_ref());
    let file = common.log_file.as_ref().unwrap_or(&config.log_file);
    (
        console.clone(),
        own.unwrap_or(console).clone(),
        file.clone(),
    )
}
