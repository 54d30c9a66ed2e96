//! `halite-api`.

use super::common::Common;
use super::daemon::{CheckOption, background, begin, checked, end, pid_file, refused};
use super::start::{self, start};
use clap::Parser;
use halite_config::{ApiConfig, MasterConfig, load_master};
use halite_store::audit::AuditLog;
use halite_sys::daemon::{Report, in_background, private_umask};
use halite_sys::exit::EXIT_NO_USER;
use halite_sys::memory::limit_memory;
use halite_sys::process::drop_privileges;
use halite_sys::sandbox::Sandbox;
use halite_sys::service::Service;
use halite_sys::signals::StopFlag;
use nix::unistd::User;
use std::cell::RefCell;
use std::path::PathBuf;

/// The REST service of a master, compatible with salt-api, under an account of its own.
#[derive(Parser, Debug)]
#[command(
    name = "halite-api",
    version,
    after_help = "Without this program the service is a role of the master, under the master's account. With `user` in the option `api` of \
        the master, the master leaves it to this program, which runs as that account. It reads the master's configuration (group halite), \
        hears its events (the same group), and sends what its clients ask for to the master's request port, with their credentials. It \
        cannot read the master's keys and caches.\n\n\
        Signals: TERM, INT and QUIT end it; sessions end with it. HUP reopens the log file.\n\n\
        Exit status: 0 stopped, 1 cannot run, 64 wrong options, 67 the account cannot be taken on, 78 the configuration has no `api` with \
        a port and a user.\n\n\
        Examples:\n  \
        halite-api                     serve the master of /etc/halite/master\n  \
        halite-api -c /etc/salt -d     the same for /etc/salt/master, in the background\n  \
        halite-api --check-config      say what is wrong with the configuration"
)]
struct ApiOptions {
    #[command(flatten)]
    common: Common,

    /// Run in the background; returns when the port is bound
    #[arg(short = 'd', long)]
    daemon: bool,

    /// Pid file; there is none without this
    #[arg(long, value_name = "FILE")]
    pid_file: Option<PathBuf>,

    #[command(flatten)]
    check: CheckOption,
}

/// Exit status for an incomplete configuration (`EX_CONFIG`).
const EXIT_CONFIG: i32 = 78;
/// Most memory, as for the roles of the master.
const MOST_MEMORY: u64 = 2 << 30;

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<ApiOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: ApiOptions = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    let config = match load_master(&options.common.config_dir) {
        Ok(config) => config,
        Err(e) => return refused(&e.to_string(), EXIT_CONFIG),
    };
    let served = served(&config);
    if options.check.check_config {
        let faults = served
            .as_ref()
            .map_or_else(|e| Some(e.clone()), |(api, user)| unusable(api, user).err());
        let faults: Vec<String> = faults.into_iter().collect();
        return checked(&config.conf_file, &config.warnings, &faults);
    }
    let (api, user) = match served {
        Ok(served) => served,
        Err(why) => return refused(&why, EXIT_CONFIG),
    };
    if options.daemon && !in_background() {
        return background();
    }
    serve(&options, config, &api, &user)
}

/// What is to be served, and by which account.
fn served(config: &MasterConfig) -> Result<(ApiConfig, String), String> {
    let file = config.conf_file.display();
    let api = config.api().ok_or_else(|| {
        format!("{file}: the option `api` has no port, so there is nothing to serve")
    })?;
    let user = api.user.clone().ok_or_else(|| {
        format!(
            "{file}: the service is a role of the master, which runs it; `user` in the option `api` makes it a daemon of its own"
        )
    })?;
    Ok((api, user))
}

/// Whether there is such an account, and whether it can write its audit log, if this process has it.
fn unusable(api: &ApiConfig, user: &str) -> Result<(), String> {
    let account = User::from_name(user).map_err(|e| e.to_string())?;
    let account = account.ok_or_else(|| {
        format!("api:user: there is no account {user:?}; the package halite-api creates halite-api")
    })?;
    if account.uid.is_root() {
        return Err(format!("api:user: {user} is root by another name"));
    }
    let own = halite_sys::process::user_name();
    match &api.audit_log {
        Some(path) if own == user => AuditLog::new(path)
            .check()
            .map_err(|e| format!("api:audit_log: {user} cannot write {}: {e}", path.display())),
        _ if own == user || own == "root" => Ok(()),
        _ => Err(format!(
            "it serves as {user} (api:user), and was started as {own}: start it as {user}, or as root"
        )),
    }
}

fn serve(options: &ApiOptions, mut config: MasterConfig, api: &ApiConfig, user: &str) -> i32 {
    let warnings = std::mem::take(&mut config.warnings);
    // The master's log file is not its own; `--log-file` names one.
    let log = halite_sys::logging::LogOptions {
        path: None,
        ..config.log_options()
    };
    let mut report = begin(&options.common, log, warnings);
    let ended = work(options, &config, api, user, &mut report);
    end(ended, &mut report)
}

fn work(
    options: &ApiOptions,
    config: &MasterConfig,
    api: &ApiConfig,
    user: &str,
    report: &mut Report,
) -> Result<(), (String, i32)> {
    let failed = |e: std::io::Error| (e.to_string(), 1);
    private_umask();
    let stop = StopFlag::install().map_err(failed)?;
    let path = options.pid_file.clone().unwrap_or_default();
    let _kept = pid_file(&path).map_err(|why| (why, 1))?;
    // The manager may be out of reach of the account.
    let service = RefCell::new(Service::inherited());
    unusable(api, user).map_err(|why| (why, EXIT_NO_USER))?;
    drop_privileges(user).map_err(|e| (e.to_string(), EXIT_NO_USER))?;
    unusable(api, user).map_err(|why| (why, 1))?;
    if let Err(e) = limit_memory(MOST_MEMORY) {
        log::warn!("the memory is not limited: {e}");
    }
    Sandbox::daemon(vec![api.port]).enter().map_err(failed)?;
    let report = RefCell::new(report);
    let ready = || {
        report.borrow_mut().ready();
        let status = format!("serves {}:{}", api.host, api.port);
        service.borrow_mut().ready(&status);
    };
    let mut alive = || service.borrow_mut().beat(true);
    let ended = halite_api::serve(config, api, &stop, &ready, &mut alive);
    service.borrow_mut().stopping();
    ended.map_err(|e| (e.message, e.status))
}
