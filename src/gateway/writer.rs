//! The thread of a gateway that writes returns, grains and events, so that the loop never waits for a disk or a
//! restarting bus unless the queue is full.

use crossbeam_channel::{Receiver, Sender};
use halite_client::keys as operator;
use halite_config::MasterConfig;
use halite_master::events::Bus;
use halite_master::returns;
use halite_store::Stores;
use halite_store::gateways::{GatewayStore, REFRESH};
use halite_store::keys::KeyState;
use halite_transport::sockets::{Context, Push, PushOptions};
use halite_wire::Map;
use halite_wire::ids::{Jid, MinionId};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Shortest time between two writes of the list of connected minions.
const PRESENCE: Duration = Duration::from_secs(1);
/// Tasks that may be queued; if the queue is full the loop waits.
const QUEUE: usize = 20_000;

/// Something to write.
#[derive(Debug)]
pub enum Task {
    /// Stores the return of a job.
    Return(MinionId, Jid, Map),
    /// Stores the grains of a minion.
    Grains(MinionId, Map),
    /// Fires an event with this tag and data.
    Fire(String, Map),
    /// Deletes the key, record and data of a minion.
    Unregister(MinionId),
    /// Tells the other masters of the cluster what is recorded of a minion.
    Share(MinionId),
    /// Writes the list of connected minions and their addresses.
    Connected(BTreeMap<MinionId, IpAddr>),
}

/// When to write the list of connected minions: [`PRESENCE`] after the last write if it has changed, else every
/// [`REFRESH`].
#[derive(Debug, Default)]
pub(crate) struct Presence {
    written: Option<Instant>,
    /// Whether the list differs from the one written last.
    pub(crate) changed: bool,
}

impl Presence {
    /// Whether the list is due; if so, it counts as written.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        let since = self.written.map(|at| now.duration_since(at));
        let due = since.is_none_or(|s| s >= REFRESH || (self.changed && s >= PRESENCE));
        if due {
            self.written = Some(now);
            self.changed = false;
        }
        due
    }
}

/// The queue to the writer thread.
#[derive(Clone)]
pub struct WriteQueue(Sender<Task>);

/// Creates an empty queue; [`run`] works on the receiving end.
pub fn queue() -> (WriteQueue, Receiver<Task>) {
    let (sender, receiver) = crossbeam_channel::bounded(QUEUE);
    (WriteQueue(sender), receiver)
}

impl WriteQueue {
    /// Queues a task; blocks while the queue is full.
    pub fn push(&self, task: Task) {
        if self.0.send(task).is_err() {
            log::error!(
                "the gateway's writer thread has stopped; a return, an event or grains are lost"
            );
        }
    }
}

/// Writes for the gateway `name` until every [`WriteQueue`] is dropped.
pub fn run(config: &MasterConfig, stores: &Stores, name: &'static str, tasks: &Receiver<Task>) {
    let mut writer = Writer {
        config,
        name,
        stores: stores.clone(),
        bus: Bus::new(config),
        records: stores.gateways.of(name),
        cluster: cluster_socket(config),
    };
    for task in tasks {
        writer.run_task(task);
    }
}

struct Writer<'a> {
    config: &'a MasterConfig,
    name: &'static str,
    stores: Stores,
    bus: Bus,
    records: Arc<dyn GatewayStore>,
    /// To the role `cluster`.
    cluster: Option<Push>,
}

fn cluster_socket(config: &MasterConfig) -> Option<Push> {
    let options = PushOptions {
        reconnect: Some((Duration::from_millis(20), Duration::from_millis(200))),
        send_timeout: Some(Duration::from_millis(50)),
    };
    let connect = || Push::connect(&Context::new(), &config.cluster_pull(), options);
    let socket = config.cluster().map(|_| connect()).transpose();
    socket.unwrap_or_else(|e| {
        log::error!("other masters do not hear of the minions of this gateway: {e}");
        None
    })
}

impl Writer<'_> {
    /// Tells the role `cluster` that something was stored of a minion.
    fn share(&self, id: &MinionId) {
        let parts = ["", "minion", id.as_str()];
        if let Some(cluster) = &self.cluster
            && let Err(e) = cluster.send(&parts)
        {
            log::error!(minion:% = id; "data of {id} do not reach the other masters of the cluster: {e}");
        }
    }

    fn run_task(&mut self, task: Task) {
        match task {
            Task::Return(id, jid, load) => self.store_return(&id, &jid, load),
            Task::Grains(id, grains) => self.store_grains(&id, &grains),
            Task::Fire(tag, data) => self.bus.fire(&tag, data),
            Task::Share(id) => self.share(&id),
            Task::Unregister(id) => {
                if let Err(e) = self.forget(&id) {
                    log::error!("{id} cannot be unregistered: {e}");
                }
            }
            Task::Connected(who) => {
                if let Err(e) = self.records.put_connected(&who) {
                    log::error!("the list of connected minions cannot be written: {e}");
                }
            }
        }
    }

    fn store_return(&mut self, id: &MinionId, jid: &Jid, mut load: Map) {
        let stamp = halite_ipc::stamp_now(self.config.salt_series.stamp_style());
        load.set("_stamp", stamp);
        let store = self.config.job_cache;
        if let Err(e) =
            returns::store_and_fire(&*self.stores.jobs, &mut self.bus, store, jid, id, load)
        {
            log::error!("the return of {id} for the job {jid} cannot be stored: {e}");
        }
    }

    fn store_grains(&mut self, id: &MinionId, grains: &Map) {
        if !self.config.minion_data_cache {
            return;
        }
        // Minions send their traits with every hello, often twice.
        let cached = self.stores.minions.get(id);
        if cached.is_some_and(|data| *data.grains == *grains) {
            return;
        }
        if let Err(e) = self.stores.minions.store(id, grains, &Map::new()) {
            log::error!("the grains of {id} cannot be stored: {e}");
            return;
        }
        self.share(id);
        if self.config.minion_data_cache_events {
            let data = halite_wire::map! {"Minion data cache refresh" => id.as_str()};
            self.bus.fire(&format!("minion/refresh/{id}"), data);
        }
    }

    /// Deletes the key, record and data of a minion, as `halite-key -d` does.
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
