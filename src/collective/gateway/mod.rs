//! Gateway: MCollective and Choria. Outward, their servers are minions of this master; inward, this master's minions are nodes
//! of their collective.
//!
//! One thread decides everything (`serve.rs`): it hears the connector, the bus and the clock, and asks the two halves,
//! which know neither sockets nor disks: messages in, acts out (`act.rs`). `outward` finds nodes, keeps their
//! facts as grains and runs jobs on them; `inward` answers for minions. The connector's threads belong to the
//! broker; one thread hears the bus, one writes (`clerk.rs` of all gateways), and `inward` has three for what it asks
//! disks, bus and master for.
//!
//! Hears `master_event_pub.ipc`, fires on `master_event_pull.ipc`, writes returns to the job log, grains to the cache,
//! keys to the key store. Below `cachedir/gateways/collective` it notes which ids came in here.
//!
//! When it fails: requests that were running are forgotten, and clients call their nodes lost; its successor looks
//! for all nodes at once.

mod act;
mod echoes;
mod inward;
mod outward;
mod secure;
mod serve;

pub use inward::interface;

use crate::broker::open;
use act::Clock;
use halite_config::{CollectiveGateway, MasterConfig};
use halite_gateway::Gateway;
use halite_gateway::{news, writer};
use halite_master::roles::{RoleError, Roles};
use halite_store::gateways::GatewayStore;
use halite_sys::signals::StopFlag;
use inward::Inward;
use inward::workers::Hands;
use outward::{Keys, Outward, Rules};
use serve::{Inner, Links, Server};

/// Its name in the table of roles.
pub const ROLE: &str = "gateway-collective";

/// This gateway.
pub const GATEWAY: Gateway = Gateway {
    role: ROLE,
    run,
    fault,
    runners: &[],
};
/// Its name in the configuration and below `cachedir`.
const NAME: &str = "collective";
/// Jobs that may wait for the loop; then the bus waits, and drops for this listener.
const WAITING: usize = 10_000;
/// Messages of the broker that may wait for the loop; more are dropped and counted.
const HEARD: usize = 20_000;
/// `EX_USAGE`: the configuration is not one to work with.
const EXIT_CONFIG: i32 = 64;

/// What the gateway cannot work with: a key that cannot be read, or that others can.
pub fn fault(config: &MasterConfig) -> Option<String> {
    let wrong = secure::build(&config.collective_gateway()?).err()?;
    Some(format!("{wrong}; the collective is not reached"))
}

/// Runs the role until it is told to stop.
///
/// # Errors
/// A key cannot be read, a setting is such that no broker can be reached, or a thread has ended. Brokers that are away
/// are no error; they are tried again for ever.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let settings = config
        .collective_gateway()
        .ok_or_else(|| RoleError::new(EXIT_CONFIG, "the option gateways asks for no collective"))?;
    let secure =
        secure::build(&settings).map_err(|e| RoleError::new(EXIT_CONFIG, e.to_string()))?;
    log::info!(
        "the collective knows this master as {}, which trusts {}",
        secure.security.caller(),
        secure.trusts
    );
    let (clerk, tasks) = writer::queue();
    let (news, told) = crossbeam_channel::bounded(WAITING);
    let (says, heard) = crossbeam_channel::bounded(HEARD);
    GatewayStore::new(&config.cachedir, NAME).create_dirs()?;
    let outward = if settings.outward {
        Some(outward(config, &settings, &secure, &clerk)?)
    } else {
        None
    };
    let connector = open(&settings, secure.security.caller(), says)
        .map_err(|e| RoleError::new(EXIT_CONFIG, format!("gateways:collective: {e}")))?;
    let links = Links {
        connector,
        heard,
        news: told,
        clerk,
        security: secure.security,
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| writer::run(config, NAME, &tasks));
        let listener = scope.spawn(move || {
            news::hear(config, roles, stop, &mut |item| {
                // The loop has ended; so does the role.
                let _ = news.send(item);
            });
        });
        let inward = settings.inward.then(|| {
            let (hands, news) = Hands::start(scope, config, &settings, stop);
            let half = Inward::new(config, &settings, Clock::now());
            Inner { half, hands, news }
        });
        let alive = || !writer.is_finished() && !listener.is_finished();
        let server = Server::new(&settings, links, outward, inward);
        let done = server.run(stop, &alive);
        // The other threads end as well.
        stop.set();
        done
    })
}

fn outward(
    config: &MasterConfig,
    settings: &CollectiveGateway,
    secure: &secure::Secure,
    clerk: &crossbeam_channel::Sender<writer::Task>,
) -> Result<Outward, RoleError> {
    let bad = |e: crate::wire::BadName| RoleError::new(EXIT_CONFIG, e.to_string());
    let rules = Rules::new(settings, secure.security.caller()).map_err(bad)?;
    let key = halite_master::master_key(config)?.public();
    let mut keys = Keys::new(config, settings, key, clerk.clone());
    let known = keys.sweep()?;
    Ok(Outward::new(rules, Box::new(keys), &known, Clock::now()))
}
