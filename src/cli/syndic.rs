//! `halite-syndic`.

use super::common::Common;
use super::daemon::{CheckOption, background, begin, checked, end, refused};
use super::start::{self, start};
use clap::Parser;
use halite_config::{MasterConfig, MinionConfig, load_master, load_minion};
use halite_sys::daemon::in_background;
use halite_sys::logging::LogOptions;
use std::path::PathBuf;

/// The halite syndic: lets a Salt or halite master of masters reach the minions of the master on this host.
#[derive(Parser, Debug)]
#[command(
    name = "halite-syndic",
    version,
    after_help = "Reads the master's configuration (syndic_master, syndic_master_port, ...) and the minion's (id, pki_dir).\n\n\
        Signals: TERM and INT end it; returns that the upper master lacks are brought after the next start.\n\n\
        Exit status: 0 stopped, 1 cannot run, 64 wrong options, 77 the upper master rejected the key.\n\n\
        Examples:\n  \
        halite-syndic                     serve the syndic_master of /etc/halite/master\n  \
        halite-syndic -d                  the same in the background"
)]
struct SyndicOptions {
    #[command(flatten)]
    common: Common,

    /// Run in the background; returns when the syndic has started to look for its master
    #[arg(short = 'd', long)]
    daemon: bool,

    /// Account to run as; overrides the option `syndic_user`
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,

    /// Pid file; overrides the option `syndic_pidfile`
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    #[command(flatten)]
    check: CheckOption,
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<SyndicOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: SyndicOptions = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    let (master, upper) = match load(&options) {
        Ok(both) => both,
        Err(e) => return refused(&e, 1),
    };
    if options.check.check_config {
        let mut warnings = master.warnings;
        warnings.extend(upper.warnings);
        return checked(&master.conf_file, &warnings, &[]);
    }
    if options.daemon && !in_background() {
        return background();
    }
    serve(&options, master, upper)
}

fn load(options: &SyndicOptions) -> Result<(MasterConfig, MinionConfig), String> {
    let dir = &options.common.config_dir;
    let master = load_master(dir).map_err(|e| e.to_string())?;
    let minion = load_minion(dir).map_err(|e| e.to_string())?;
    let mut upper = halite_syndic::upper(&master, &minion).map_err(|e| e.to_string())?;
    if let Some(user) = &options.user {
        upper.user = user.clone();
    }
    if let Some(path) = &options.pid_file {
        upper.pidfile = path.clone();
    }
    Ok((master, upper))
}

fn serve(options: &SyndicOptions, mut master: MasterConfig, upper: MinionConfig) -> i32 {
    let warnings = std::mem::take(&mut master.warnings);
    let log = LogOptions {
        path: (!upper.log_file.is_empty()).then(|| upper.log_file.as_str().into()),
        ..master.log_options()
    };
    let mut report = begin(&options.common, log, warnings);
    let ended = halite_syndic::run(master, upper, &mut report);
    end(ended.map_err(|e| (e.message, e.status)), &mut report)
}
