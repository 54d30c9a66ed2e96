//! `halite-master`.

use super::common::{Common, fail};
use super::daemon::{DaemonOptions, background, checked, dump, refused};
use super::gateways::{GATEWAYS, check_cluster, register_runners};
use super::start::{self, start};
use clap::Parser;
use halite_client::{runner, wheel};
use halite_config::{MasterConfig, load_master};
use halite_master::access::rules::CallApi;
use halite_master::functions::{FunctionHooks, RUNNER_ROLE};
use halite_master::roles::{TOPOLOGY, confine};
use halite_sys::daemon::{Report, private_umask, survive_signals};
use halite_sys::memory::limit_memory;
use halite_sys::process::{RoleSpec, TITLE, role, tie_to_parent};
use std::sync::Arc;

/// The halite master: serves Salt minions 3006, 3007 and 3008 as well as halite's own.
#[derive(Parser, Debug)]
#[command(
    name = "halite-master",
    version,
    after_help = "Signals: TERM, INT and QUIT stop the master within three seconds, USR1 writes a report to the temporary directory, HUP reopens the log files.\n\nExit status: 0 ended by a signal, 1 cannot run, 4 an address cannot be bound or another master runs, 64 wrong options, 67 the account of the option user cannot be taken on.\n\nExamples:\n  halite-master                     serve with /etc/halite/master, log to the terminal\n  halite-master -d                  the same in the background\n  halite-master -c /etc/salt        take over an existing Salt master's directory\n  halite-master --check-config      say what is wrong with the configuration"
)]
struct MasterOptions {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    daemon: DaemonOptions,

    /// Print the process table: sockets and responsibilities of each process
    #[arg(long)]
    topology: bool,

    /// Create directories and key files, hand them over to the account of the option `user`, and exit; for root, before the master
    /// starts under that account
    #[arg(long)]
    prepare: bool,
}

const ROLE_MAIN: &str = "main";

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<MasterOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    if role().as_deref() == Some(halite_master::access::eauth::child::ROLE) {
        return halite_master::access::eauth::child::run();
    }
    let options: MasterOptions = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    register_runners();
    if options.topology {
        print!("{}", halite_master::check::topology());
        return 0;
    }
    if options.daemon.sample_config {
        print!(
            "{}",
            halite_config::sample_config(halite_config::Role::Master)
        );
        return 0;
    }
    let config = match load(&options) {
        Ok(config) => config,
        Err(e) => return refused(&e, 1),
    };
    if options.daemon.check.check_config {
        return check(&config);
    }
    if options.daemon.config_dump {
        return dump(config.as_map());
    }
    if options.prepare {
        return prepare(&options, &config);
    }
    match role() {
        None if options.daemon.starts_another() => background(),
        None => become_main(),
        Some(role) => serve(&options, config, &role),
    }
}

fn load(options: &MasterOptions) -> Result<MasterConfig, String> {
    let mut config = load_master(&options.common.config_dir).map_err(|e| e.to_string())?;
    options
        .daemon
        .overlay(&mut config.user, &mut config.pidfile);
    match faults(&config).first() {
        Some(fault) if !options.daemon.check.check_config => Err(fault.clone()),
        _ => Ok(config),
    }
}

/// What keeps the master from running.
fn faults(config: &MasterConfig) -> Vec<String> {
    let mut out = halite_master::check::faults(config);
    out.extend(config.check_sockets().err().map(|e| e.to_string()));
    out.extend(absent_roles(config));
    out
}

/// Roles that the configuration asks for, in a program that was built without them.
fn absent_roles(config: &MasterConfig) -> Vec<String> {
    let optional = |name: &str| ["api", "cluster"].contains(&name) || name.starts_with("gateway-");
    let absent = TOPOLOGY.iter().filter(|role| {
        cfg!(not(feature = "gateways")) && optional(role.name) && (role.is_enabled)(config)
    });
    let told = |name: &str| {
        format!("this halite-master was built without the feature `gateways`, so it has no {name}")
    };
    absent.map(|role| told(role.name)).collect()
}

/// Settings that cannot be honoured; the master runs without them.
pub(super) fn denials(config: &MasterConfig) -> Vec<String> {
    let mut out = halite_master::check::denials(config);
    out.extend(halite_engine::faults(config));
    out.extend(halite_gateway::faults(GATEWAYS, config));
    out
}

/// What needs root before the master starts under an account without privileges.
fn prepare(options: &MasterOptions, config: &MasterConfig) -> i32 {
    private_umask();
    start_log(&options.common, config);
    match halite_master::hand_over(config) {
        Ok(()) => 0,
        Err(e) => fail(&e, e.status),
    }
}

fn check(config: &MasterConfig) -> i32 {
    let mut warnings = config.warnings.clone();
    warnings.extend(denials(config));
    warnings.extend(halite_python::check::faults(&Arc::new(config.as_map())));
    warnings.extend(halite_master::check::capacity(config));
    warnings.extend(halite_master::check::loose_files(config));
    let mut faults = faults(config);
    if faults.is_empty() {
        let (more, found) = check_cluster(config);
        warnings.extend(more);
        faults = found;
    }
    checked(&config.conf_file, &warnings, &faults)
}

/// Becomes the supervisor, with its own title in the process list.
fn become_main() -> i32 {
    let command: Vec<String> = std::env::args_os()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let command = command.join(" ");
    let spec = RoleSpec {
        role: ROLE_MAIN.into(),
        title: format!("{command} MainProcess"),
        env: vec![(TITLE.into(), command.into())],
    };
    fail(format!("cannot start the supervisor: {}", spec.exec()), 1)
}

/// Most memory of a role: what no fleet needs, and no peer must be able to take from the host.
const MOST_MEMORY: u64 = 2 << 30;

/// Runs a role of the supervisor; returns its exit status.
fn run_role(config: &Arc<MasterConfig>, role: &str) -> i32 {
    if let Err(e) = limit_memory(MOST_MEMORY) {
        log::warn!("the memory of {role} is not limited: {e}");
    }
    tie_to_parent(role.strip_prefix("MWorker").map_or(role, |_| "MWorker"));
    // Without clients of databases in this program, returners are programs.
    let programs = role == "returner" && cfg!(not(feature = "databases"));
    if let Err(e) = confine(role, config, programs) {
        log::error!("{role}: {e}");
        return e.status;
    }
    let lent = FunctionHooks {
        wheel: wheel::answer,
        declared: |api, fun| match api {
            CallApi::Runner => runner::native(fun).map_or(&[][..], |function| function.args),
            CallApi::Wheel => wheel::find(fun).map_or(&[][..], |function| function.args),
        },
        #[cfg(feature = "gateways")]
        arena: |config, path| halite_arena::rest::answer(&config.cachedir, path),
        #[cfg(not(feature = "gateways"))]
        arena: |_, _| Ok(None),
    };
    let engine = halite_engine::run_role(role, config);
    let own = engine.or_else(|| halite_gateway::run_role(GATEWAYS, role, config));
    #[cfg(feature = "gateways")]
    let own = own
        .or_else(|| halite_cluster::run_role(role, config))
        .or_else(|| halite_api::run_role(role, config));
    match own.unwrap_or_else(|| halite_master::run_role(role, config, lent)) {
        Ok(()) => 0,
        Err(e) => {
            log::error!("{role}: {e}");
            e.status
        }
    }
}

fn serve(options: &MasterOptions, mut config: MasterConfig, role: &str) -> i32 {
    private_umask();
    start_log(&options.common, &config);
    survive_signals();
    if role == RUNNER_ROLE {
        tie_to_parent(role);
        return runner::process::run(config);
    }
    if role != ROLE_MAIN {
        return run_role(&Arc::new(config), role);
    }
    tie_to_parent(role);
    for warning in std::mem::take(&mut config.warnings) {
        log::warn!("{warning}");
    }
    for denial in denials(&config) {
        log::error!("{denial}");
    }
    let mut report = Report::inherited();
    if report.is_awaited() {
        // Background start: leave the terminal's session.
        let _ = nix::unistd::setsid();
    }
    let command = std::env::var(TITLE).unwrap_or_else(|_| "halite-master".into());
    let config = Arc::new(config);
    let run = |role: &str| run_role(&config, role);
    match halite_master::supervise(&config, &command, &mut report, &run) {
        Ok(()) => 0,
        Err(e) => {
            report.failed(&e.message);
            log::error!("{e}");
            e.status
        }
    }
}

/// Starts logging in a master process.
fn start_log(common: &Common, config: &MasterConfig) {
    common.start_log(config.log_options());
}
