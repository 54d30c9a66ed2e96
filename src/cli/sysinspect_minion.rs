//! `halite-sysinspect-minion`.

use super::common::Common;
use super::daemon::{CheckOption, background, refused};
use super::minion::{begin, check, status};
use super::start::{self, start};
use clap::{Parser, ValueEnum};
use halite_config::{MinionConfig, load_minion};
use halite_minion::job;
use halite_sys::daemon::{PidFile, in_background};
use halite_sys::exit::ExitError;
use halite_sysinspect::minion;
use std::path::PathBuf;

/// The halite minion for masters that use sysinspect's protocol: reports traits, answers pings, runs allowed
/// functions.
#[derive(Parser, Debug)]
#[command(
    name = "halite-sysinspect-minion",
    version,
    after_help = "Reads the minion's configuration (master, pki_dir, and the options that begin with sysinspect_).\n\n\
        Signals: TERM and INT end it and its functions.\n\n\
        Exit status: 0 stopped, or removed by the master; 1 cannot run, not registered, or connected twice; \
        42 the master's key has another fingerprint; 64 wrong options.\n\n\
        Examples:\n  \
        halite-sysinspect-minion                          join, or show the fingerprint of a master that does not know this minion\n  \
        halite-sysinspect-minion --register FINGERPRINT   accept the key with this fingerprint, register and serve\n  \
        halite-sysinspect-minion --dialect e3             speak as the programs of early 2026 do"
)]
struct SysinspectMinionOptions {
    #[command(flatten)]
    common: Common,

    /// Fingerprint of the master's key to accept, as shown to its operator; overrides the option
    /// `sysinspect_fingerprint`
    #[arg(long, value_name = "FINGERPRINT")]
    register: Option<String>,

    /// Variant of the protocol; overrides the option `sysinspect_dialect`
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,

    /// Master to use; overrides the option `master`
    #[arg(long, value_name = "HOST")]
    master: Option<String>,

    /// Machine id; overrides the option `sysinspect_id`
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Run in the background; returns when it has started to look for its master
    #[arg(short = 'd', long)]
    daemon: bool,

    /// Account to run as; overrides the option `user`
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,

    /// Pid file; by default none is written
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    #[command(flatten)]
    check: CheckOption,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Dialect {
    /// The protocol as documented: base64 payloads, the id encrypted with the master's key
    Seed,
    /// The programs of 2025-12 to 2026-03
    E3,
}

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<SysinspectMinionOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    if job::is_job_process() {
        return job::run();
    }
    let options: SysinspectMinionOptions = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    let config = match load(&options) {
        Ok(config) => config,
        Err(e) => return refused(&e, 1),
    };
    if options.check.check_config {
        return check(&config);
    }
    if options.daemon && !in_background() {
        return background();
    }
    serve(&options, config)
}

fn load(options: &SysinspectMinionOptions) -> Result<MinionConfig, String> {
    let mut config = load_minion(&options.common.config_dir).map_err(|e| e.to_string())?;
    let overlay = |own: &Option<String>, slot: &mut String| {
        if let Some(own) = own {
            slot.clone_from(own);
        }
    };
    overlay(&options.user, &mut config.user);
    overlay(&options.id, &mut config.sysinspect_id);
    if let Some(master) = &options.master {
        config.master = vec![master.clone()];
    }
    match options.dialect {
        Some(Dialect::Seed) => config.sysinspect_dialect = "seed".to_owned(),
        Some(Dialect::E3) => config.sysinspect_dialect = "e3".to_owned(),
        None => {}
    }
    Ok(config)
}

fn serve(options: &SysinspectMinionOptions, mut config: MinionConfig) -> i32 {
    let (start, mut report) = begin(&options.common, &mut config);
    let ended = kept_pid(options).and_then(|_pid| {
        let register = options.register.as_deref();
        minion::run(config, register, start, &mut report)
    });
    status(ended, &mut report)
}

fn kept_pid(options: &SysinspectMinionOptions) -> Result<Option<PidFile>, ExitError> {
    let Some(path) = &options.pid_file else {
        return Ok(None);
    };
    let file = PidFile::write(path);
    file.map(Some)
        .map_err(|e| ExitError::io("pid file", path, &e))
}
