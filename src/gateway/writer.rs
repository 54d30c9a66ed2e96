//! The thread of a gateway that writes: returns, grains and events. The loop that serves connections never waits for a
//! disk or for a bus that restarts, unless very much waits to be written already.

use crossbeam_channel::{Receiver, Sender};
use halite_client::keys as operator;
use halite_config::MasterConfig;
use halite_master::events::Bus;
use halite_master::returns;
use halite_store::gateways::{GatewayStore, REFRESH};
use halite_store::jobs::JobStore;
use halite_store::keys::KeyState;
use halite_store::minions::MinionCache;
use halite_store::open;
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Shortest time between two lists of who is connected.
const TELL: Duration = Duration::from_secs(1);
/// Tasks that may wait; then the loop waits.
const WAITING: usize = 20_000;

/// What is to be written.
#[derive(Debug)]
pub enum Task {
    /// A return of a job.
    Return(MinionId, Jid, Map),
    /// Grains of a minion.
    Grains(MinionId, Map),
    /// An event.
    Fire(String, Map),
    /// A minion is to be forgotten.
    Unregister(MinionId),
    /// Who is connected, and from where.
    Connected(BTreeMap<MinionId, IpAddr>),
}

/// When the list of who is connected is written anew: not at once with every change, and now and then without any.
#[derive(Debug, Default)]
pub struct Telling {
    told: Option<Instant>,
    /// Whether it is another list than the last one.
    pub changed: bool,
}

impl Telling {
    /// Whether it is time; then what was told counts as told.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let since = self.told.map(|at| now.duration_since(at));
        let due = since.is_none_or(|s| s >= REFRESH || (self.changed && s >= TELL));
        if due {
            self.told = Some(now);
            self.changed = false;
        }
        due
    }
}

/// The queue of tasks.
pub fn queue() -> (Sender<Task>, Receiver<Task>) {
    crossbeam_channel::bounded(WAITING)
}

/// Puts a task into the queue.
pub fn give(clerk: &Sender<Task>, task: Task) {
    if clerk.send(task).is_err() {
        log::error!("the thread that writes has ended; what a minion said is lost");
    }
}

/// Works for the gateway `name` until the queue's other end is gone.
pub fn run(config: &MasterConfig, name: &'static str, tasks: &Receiver<Task>) {
    let mut clerk = Clerk {
        config,
        name,
        jobs: Box::new(open::job_store(config)),
        minions: open::minion_cache(config),
        bus: Bus::new(config),
        records: GatewayStore::new(&config.cachedir, name),
    };
    for task in tasks {
        clerk.work(task);
    }
}

struct Clerk<'a> {
    config: &'a MasterConfig,
    name: &'static str,
    jobs: Box<dyn JobStore>,
    minions: MinionCache,
    bus: Bus,
    records: GatewayStore,
}

impl Clerk<'_> {
    fn work(&mut self, task: Task) {
        match task {
            Task::Return(id, jid, load) => self.hand_in(&id, &jid, load),
            Task::Grains(id, grains) => self.keep(&id, &grains),
            Task::Fire(tag, data) => self.bus.fire(&tag, data),
            Task::Unregister(id) => {
                if let Err(e) = self.forget(&id) {
                    log::error!("{id} cannot be unregistered: {e}");
                }
            }
            Task::Connected(who) => {
                if let Err(e) = self.records.put_connected(&who) {
                    log::error!("who is connected cannot be written: {e}");
                }
            }
        }
    }

    fn hand_in(&mut self, id: &MinionId, jid: &Jid, mut load: Map) {
        let stamp = halite_ipc::stamp_now(self.config.salt_series.stamp_style());
        load.set("_stamp", stamp);
        let store = self.config.job_cache;
        if let Err(e) = returns::hand_in(&*self.jobs, &mut self.bus, store, jid, id, load) {
            log::error!("the return of {id} for the job {jid} could not be kept: {e}");
        }
    }

    fn keep(&mut self, id: &MinionId, grains: &Map) {
        if !self.config.minion_data_cache {
            return;
        }
        // Minions tell their traits with every hello, often twice.
        let held = self.minions.get(id);
        if held.is_some_and(|data| *data.grains == *grains) {
            return;
        }
        if let Err(e) = self.minions.store(id, grains, &Map::new()) {
            log::error!("the grains of {id} could not be kept: {e}");
            return;
        }
        if self.config.minion_data_cache_events {
            let data = halite_wire::map! {"Minion data cache refresh" => id.as_str()};
            self.bus.fire(&format!("minion/refresh/{id}"), data);
        }
    }

    /// Deletes key, record and data of a minion, as `halite-key -d` does.
    fn forget(&self, id: &MinionId) -> io::Result<()> {
        let mut keys = operator::Keys::new(self.config);
        let selection = vec![
            (KeyState::Accepted, vec![id.clone()]),
            (KeyState::Denied, vec![id.clone()]),
        ];
        let changed = keys.delete(&selection)?;
        keys.forget_vanished(&changed, &[])?;
        self.records.remove(id)?;
        log::info!("the {} minion {id} has been unregistered", self.name);
        Ok(())
    }
}
