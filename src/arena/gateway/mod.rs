//! Gateway: ARENA. This master is the orchestrator of runtimes that execute WASM modules, over MQTT.
//!
//! `fleet` decides about runtimes and modules, `jobs` about the master's jobs on them; both know neither sockets nor
//! disks: messages, jobs and the time are passed in, and they return actions. `serve.rs` calls them and carries out
//! the actions in the loop of all gateways (`halite_gateway::frame`). One more thread saves the fleet for the next
//! start (`keeper.rs`), and the connection to the broker has its own.
//!
//! Runtimes are minions: `admission` gives each an id and a key that the operator accepts, `grains` describes it,
//! `events.rs` reports what happens to it and its modules, `output` what they write.
//!
//! Listens to `master_event_pub.ipc`, fires on `master_event_pull.ipc`, writes returns to the job log, grains to the
//! cache, keys to the key store. Below `cachedir/gateways/arena` it records the ids that registered here, their owners and
//! the fleet.
//!
//! After a crash, waiting jobs are forgotten, and clients report them as lost. Modules go on running; the new process
//! knows them from the store and learns from their keepalives what has changed.

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
use admission::KeyAdmission;
use fleet::{Fleet, Rules};
use halite_config::{ArenaGateway, MasterConfig};
use halite_gateway::Gateway;
use halite_gateway::clock::Clock;
use halite_gateway::frame::{EXIT_CONFIG, Frame, Protocol};
use halite_sys::exit::ExitError;
use jobs::Jobs;
use output::Output;
use serve::{Links, Parts, Server};

/// This gateway.
pub const GATEWAY: Gateway = Gateway {
    name: NAME,
    role: "gateway-arena",
    start,
    fault,
    runners: crate::runner::FUNCTIONS,
};
const NAME: &str = "arena";
/// Messages from the broker that may be queued for the loop; more are dropped and counted.
const HEARD: usize = 20_000;
/// Size limit of all records of modules, in bytes: a quarter of the memory that a role may use.
const MAX_BYTES: usize = 256 << 20;

/// Reports a key or certificate that cannot be read, or a key that other accounts can read.
fn fault(config: &MasterConfig) -> Option<String> {
    let wrong = secure::check(&config.arena_gateway()?).err()?;
    Some(format!("{wrong}; runtimes of ARENA cannot be reached"))
}

/// Opens the store and connects to the broker. A broker that cannot be reached is not an error: the connection is
/// retried for ever.
///
/// # Errors
/// A key or the store cannot be read, or the settings of the broker cannot work.
fn start<'scope>(frame: &Frame<'scope, '_>) -> Result<Box<dyn Protocol + 'scope>, ExitError> {
    let config = frame.config;
    let settings = config
        .arena_gateway()
        .ok_or_else(|| ExitError::new(EXIT_CONFIG, "the option gateways has no entry arena"))?;
    let bad = |why: String| ExitError::new(EXIT_CONFIG, why);
    secure::check(&settings).map_err(|e| bad(e.to_string()))?;
    let topics = settings
        .topics()
        .map_err(|e| bad(format!("gateways:arena: {e}")))?;
    let mut store = ArenaStore::new(&config.cachedir);
    let kept = store.open()?;
    let key = halite_master::master_key(config)?.public();
    let admission = KeyAdmission::new(config, frame.stores, &settings, key, frame.writer.clone())?;
    let parts = Parts {
        fleet: Fleet::new(rules(&settings, &topics), kept, Clock::now()),
        admission,
        jobs: Jobs::new(&settings, topics.clone()),
        output: Output::new(&settings),
        realm: settings.realm.clone(),
    };
    // Runtimes answer on the topic of the request, so the gateway subscribes to that as well, without its own
    // messages.
    let filters = topics.orchestrator_filters();
    let filters: Vec<(&str, bool)> = filters.iter().map(|f| (f.as_str(), true)).collect();
    let (says, heard) = crossbeam_channel::bounded(HEARD);
    let mqtt = Mqtt::open_hearing(&secure::connection(&settings), &filters, says)
        .map_err(|e| bad(format!("gateways:arena: {e}")))?;
    let (keeper, changes) = keeper::queue();
    let keeping = frame.scope.spawn(move || keeper::run(&mut store, &changes));
    let links = Links {
        mqtt,
        heard,
        writer: frame.writer.clone(),
        keeper,
        keeping,
    };
    Ok(Box::new(Server::new(links, parts)))
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
        max_bytes: MAX_BYTES,
        forget_after: settings.forget_after,
    }
}
