//! Gateway: ARENA. This master is the orchestrator of runtimes that execute WASM modules, over MQTT.
//!
//! `fleet` decides about runtimes and modules, `jobs` about what the master asks of them; both know neither sockets nor
//! disks: messages, orders and the time come in, acts go out. One thread asks them and does what they say (`serve.rs`): it
//! hears the broker, the bus and the clock. One thread writes returns, grains and events (`clerk.rs` of all gateways), one keeps the
//! fleet over restarts (`keeper.rs`), one hears the bus, and the connection to the broker has its own.
//!
//! Runtimes are minions: `admission.rs` gives each an id and a key that the operator accepts, `grains.rs` tells what it is,
//! `events.rs` what happens to it and its modules, `output.rs` what they write.
//!
//! Hears `master_event_pub.ipc`, fires on `master_event_pull.ipc`, writes returns to the job log, grains to the cache, keys to
//! the key store; below `cachedir/gateways/arena` it notes which ids came in here, whose they are, and the fleet.
//!
//! When it fails: jobs that wait are forgotten, and clients call them lost. Modules run on; its successor knows them from the
//! store and learns by the next keepalives what has changed.

mod admission;
mod events;
mod fleet;
mod grains;
mod jobs;
mod keeper;
mod output;
mod secure;
mod serve;

use crate::mqtt::Mqtt;
use crate::registry::ArenaStore;
use crate::wire::Topics;
use admission::Door;
use fleet::{Fleet, Rules};
use halite_config::{ArenaGateway, MasterConfig};
use halite_gateway::Gateway;
use halite_gateway::clock::Clock;
use halite_gateway::{news, writer};
use halite_master::roles::{RoleError, Roles};
use halite_store::gateways::GatewayStore;
use halite_sys::signals::StopFlag;
use jobs::Jobs;
use output::Output;
use serve::{Links, Parts, Server};

/// Its name in the table of roles.
pub const ROLE: &str = "gateway-arena";

/// This gateway.
pub const GATEWAY: Gateway = Gateway {
    role: ROLE,
    run,
    fault,
    runners: crate::runner::FUNCTIONS,
};
/// Its name in the configuration and below `cachedir`.
const NAME: &str = "arena";
/// Jobs that may wait for the loop; then the bus waits, and drops for this listener.
const WAITING: usize = 10_000;
/// Messages of the broker that may wait for the loop; more are dropped and counted.
const HEARD: usize = 20_000;
/// Bytes that records of modules take at most: a quarter of what a role may use.
const MAX_OCTETS: usize = 256 << 20;
/// `EX_USAGE`: the configuration is not one to work with.
const EXIT_CONFIG: i32 = 64;

/// What the gateway cannot work with: a key or certificate that cannot be read, or a key that others can.
pub fn fault(config: &MasterConfig) -> Option<String> {
    let wrong = secure::check(&config.arena_gateway()?).err()?;
    Some(format!("{wrong}; runtimes of ARENA are not reached"))
}

/// Runs the role until it is told to stop.
///
/// # Errors
/// A key or the store cannot be read, a setting is such that no broker can be reached, or a thread has ended. Brokers that are
/// away are no error; they are tried again for ever.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let settings = config
        .arena_gateway()
        .ok_or_else(|| RoleError::new(EXIT_CONFIG, "the option gateways asks for no arena"))?;
    let bad = |why: String| RoleError::new(EXIT_CONFIG, why);
    secure::check(&settings).map_err(|e| bad(e.to_string()))?;
    let topics = settings
        .topics()
        .map_err(|e| bad(format!("gateways:arena: {e}")))?;
    let (clerk, tasks) = writer::queue();
    let (keeper, changes) = keeper::queue();
    let (news, told) = crossbeam_channel::bounded(WAITING);
    let (says, heard) = crossbeam_channel::bounded(HEARD);
    GatewayStore::new(&config.cachedir, NAME).create_dirs()?;
    let mut store = ArenaStore::new(&config.cachedir);
    let kept = store.open()?;
    let key = halite_master::master_key(config)?.public();
    let door = Door::new(config, &settings, key, clerk.clone())?;
    let parts = Parts {
        fleet: Fleet::new(rules(&settings, &topics), kept, Clock::now()),
        door,
        jobs: Jobs::new(&settings, topics.clone()),
        output: Output::new(&settings),
        realm: settings.realm.clone(),
    };
    // Answers go where the request came from, which is heard as well: without what this connection says itself.
    let filters = topics.orchestrator_filters();
    let filters: Vec<(&str, bool)> = filters.iter().map(|f| (f.as_str(), true)).collect();
    let mqtt = Mqtt::open_hearing(&secure::connection(&settings), &filters, says)
        .map_err(|e| bad(format!("gateways:arena: {e}")))?;
    let links = Links {
        mqtt,
        heard,
        news: told,
        clerk,
        keeper,
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| writer::run(config, NAME, &tasks));
        let archive = scope.spawn(|| keeper::run(&mut store, &changes));
        let listener = scope.spawn(move || {
            news::hear(config, roles, stop, &mut |item| {
                // The loop has ended; so does the role.
                let _ = news.send(item);
            });
        });
        let threads = [&writer, &archive, &listener];
        let alive = || threads.iter().all(|thread| !thread.is_finished());
        let server = Server::new(links, parts);
        let done = server.run(stop, &alive);
        // The other threads end as well.
        stop.set();
        done
    })
}

fn rules(settings: &ArenaGateway, topics: &Topics) -> Rules {
    Rules {
        topics: topics.clone(),
        keepalive: settings.keepalive,
        policy: settings.policy,
        max_managers: settings.max_managers,
        max_runtimes: settings.max_runtimes,
        max_waiting: settings.max_pending,
        max_modules: settings.max_modules,
        max_octets: MAX_OCTETS,
        forget_after: settings.forget_after,
    }
}
