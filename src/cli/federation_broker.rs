//! `halite-federation-broker`.

use super::common::Common;
use super::daemon::{DaemonOptions, background, begin, checked, dump, end, pid_file, refused};
use super::start::{self, start};
use clap::Parser;
use halite_collective::federation;
use halite_config::{FederationConfig, Role, load_federation_broker, sample_config};
use halite_sys::daemon::Report;
use halite_sys::process::drop_privileges;
use halite_sys::sandbox::Sandbox;
use halite_sys::service::Service;
use halite_sys::signals::StopFlag;

/// The halite federation broker: lets clients in one NATS network reach the Choria nodes of another.
#[derive(Parser, Debug)]
#[command(
    name = "halite-federation-broker",
    version,
    after_help = "A federation joins networks that do not see each other. Its clients connect to the NATS servers of the federation, its \
        nodes to those of a collective, and brokers like this one connect to both. Start as many with the same `cluster` as you like, on one \
        host or on several: they share the work, and one that ends takes nothing along but what it was just passing on.\n\
        Carried are requests from choria.federation.NAME.federation to each subject in their header federation.target, and \
        replies from choria.federation.NAME.collective to the client. Only headers are read; messages stay signed by whoever sent \
        them. Subjects that are not for nodes or for replies, and messages that go in circles, are refused and counted.\n\n\
        Configuration: the file federation-broker in the configuration directory, and federation-broker.d/*.conf. The least of it:\n  \
        cluster: london\n  \
        federation_servers: [nats.example.net:4222]\n  \
        collective_servers: [nats.london.example.net:4222]\n\n\
        Signals: TERM and INT end it; it leaves the groups, passes on what it has, and ends (drain_timeout).\n\n\
        Exit status: 0 stopped, 1 cannot run, 64 wrong options, 78 the configuration lacks something.\n\n\
        Examples:\n  \
        halite-federation-broker --sample-config          print a file to begin with\n  \
        halite-federation-broker -l info                  serve, and tell on the terminal who is connected\n  \
        halite-federation-broker -d                       the same in the background\n  \
        curl http://127.0.0.1:PORT/stats                  statistics, where stats_port is set\n  \
        nats sub 'choria.federation.*.stats'              the same from NATS, every ten seconds"
)]
struct BrokerOptions {
    #[command(flatten)]
    common: Common,

    #[command(flatten)]
    daemon: DaemonOptions,
}

/// Exit status for an incomplete configuration (`EX_CONFIG`).
const EXIT_CONFIG: i32 = 78;

/// The command with its options.
pub(super) fn command() -> clap::Command {
    start::command::<BrokerOptions>()
}

/// Runs the command and returns its exit status.
pub fn run() -> i32 {
    let options: BrokerOptions = match start() {
        Ok(options) => options,
        Err(status) => return status,
    };
    if options.daemon.sample_config {
        print!("{}", sample_config(Role::FederationBroker));
        return 0;
    }
    let config = match load(&options) {
        Ok(config) => config,
        Err(e) => return refused(&e, 1),
    };
    if options.daemon.config_dump {
        return dump(config.as_map());
    }
    let lacking = config.incomplete();
    if options.daemon.check.check_config {
        let faults: Vec<String> = lacking.into_iter().collect();
        return checked(&config.conf_file, &config.warnings, &faults);
    }
    if let Some(why) = lacking {
        return refused(&why, EXIT_CONFIG);
    }
    if options.daemon.starts_another() {
        return background();
    }
    serve(&options, config)
}

fn load(options: &BrokerOptions) -> Result<FederationConfig, String> {
    let dir = &options.common.config_dir;
    let mut config = load_federation_broker(dir).map_err(|e| e.to_string())?;
    options
        .daemon
        .overlay(&mut config.user, &mut config.pidfile);
    Ok(config)
}

fn serve(options: &BrokerOptions, mut config: FederationConfig) -> i32 {
    let warnings = std::mem::take(&mut config.warnings);
    let mut report = begin(&options.common, config.log_options(), warnings);
    let ended = work(&config, &mut report).map_err(|why| (why, 1));
    end(ended, &mut report)
}

fn work(config: &FederationConfig, report: &mut Report) -> Result<(), String> {
    let stop = StopFlag::install().map_err(|e| e.to_string())?;
    let _kept = pid_file(&config.pidfile)?;
    if !config.user.is_empty() {
        drop_privileges(&config.user).map_err(|e| e.to_string())?;
    }
    let sandbox = Sandbox::daemon(vec![config.stats_port]);
    sandbox.enter().map_err(|e| e.to_string())?;
    // Ready already now: a server that is down must not keep the broker from trying to connect.
    report.ready();
    let mut service = Service::inherited();
    service.ready("connecting to both sides");
    federation::run(config, &stop, &mut service).map_err(|e| e.to_string())
}
