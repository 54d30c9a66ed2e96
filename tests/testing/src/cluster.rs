//! Two masters of one cluster, and the NATS server between them.

use super::nats_server::NatsServer;
use super::proxy::Proxy;
use super::{Master, wait_until};
use halite::client::samples::Samples;
use halite::store::Stores;
use halite::store::jobs::JobStore;
use halite::store::keys::{KeyState, KeyStore};
use halite::sys::procs;
use nix::sys::signal::Signal;
use std::sync::Arc;

/// Name and secret of the cluster of tests.
pub const LINES: &str = "cluster_id: test\ncluster_secret: 0123456789abcdef0123456789abcdef\n";

/// The cluster; the masters end before the server.
pub struct Cluster {
    /// The masters.
    pub masters: [Master; 2],
    /// The server, with JetStream.
    pub nats: NatsServer,
}

impl Cluster {
    /// Starts it, with further lines for the masters. `None`, with a message, if there is no `nats-server`.
    pub fn start(more: &str) -> Option<Cluster> {
        Cluster::start_with("", more)
    }

    /// The same, with further settings of the option `cluster`.
    pub fn start_with(settings: &str, more: &str) -> Option<Cluster> {
        let nats = NatsServer::start(&["--jetstream", "--store_dir", "jetstream"])?;
        let lines = format!(
            "{LINES}cluster: {{servers: ['{}'], replicas: 1, {settings}}}\ngather_job_timeout: 1\n{more}",
            nats.address()
        );
        let first = Master::halite(&format!("id: one\n{lines}"));
        wait_until("the first is a member", || is_member(&first));
        let second = Master::halite(&format!("id: two\n{lines}"));
        wait_until("the second is a member", || is_member(&second));
        Some(Cluster {
            masters: [first, second],
            nats,
        })
    }

    /// Relays to the ports of the first master, with a call to `start` while that master's ports seem to be theirs.
    pub fn behind_relays<T>(&mut self, start: impl FnOnce(&Master) -> T) -> (Relays, T) {
        Relays::before(&mut self.masters[0], start)
    }

    /// Waits until the key of a minion is in this state at all masters.
    pub fn wait_state(&self, id: &str, wanted: Option<KeyState>) {
        for master in &self.masters {
            wait_until(&format!("{id} is {wanted:?} everywhere"), || {
                state(master, id) == wanted
            });
        }
    }
}

/// An address that moves from one master to another.
pub struct Relays {
    publish: Proxy,
    request: Proxy,
}

impl Relays {
    /// At a master, with a call to `start` while that master's ports seem to be theirs.
    pub fn before<T>(master: &mut Master, start: impl FnOnce(&Master) -> T) -> (Relays, T) {
        let own = [master.publish_port, master.ret_port];
        let [publish, request] = own.map(Proxy::to);
        [master.publish_port, master.ret_port] = [publish.port, request.port];
        let started = start(master);
        [master.publish_port, master.ret_port] = own;
        (Relays { publish, request }, started)
    }

    /// Moves it.
    pub fn move_to(&self, master: &Master) {
        self.publish.redirect(master.publish_port);
        self.request.redirect(master.ret_port);
    }
}

/// Whether it has become a member of the cluster since its start.
pub fn is_member(master: &Master) -> bool {
    master.tail().contains("cluster: member of test")
}

/// The job cache of a master.
pub fn jobs(master: &Master) -> Arc<dyn JobStore> {
    let config = halite::config::load_master(&master.home.config_dir());
    Stores::open(&config.expect("its configuration is fine")).jobs
}

/// The keys of a master.
pub fn keys(master: &Master) -> Arc<dyn KeyStore> {
    let config = halite::config::load_master(&master.home.config_dir());
    Stores::open(&config.expect("its configuration is fine")).keys
}

/// The state of a minion's key at a master.
pub fn state(master: &Master, id: &str) -> Option<KeyState> {
    let id = id.parse().expect("an id");
    let found = keys(master).state(&id).expect("keys can be read");
    found.map(|(state, _)| state)
}

/// A figure of a master's metrics; 0 if it does not have it.
pub fn metric(master: &Master, name: &str) -> f64 {
    let samples = Samples::read(&master.home.sockets().join("master_status.ipc"));
    samples.map_or(0.0, |samples| samples.one(name))
}

/// Ends a role of a master with SIGKILL; it is started anew.
pub fn kill_role(master: &Master, title: &str) {
    let main = u32::try_from(master.id()).expect("it runs");
    let found = procs::family(main).expect("processes can be listed");
    let role = found.iter().find(|process| process.title.contains(title));
    let pid = role.unwrap_or_else(|| panic!("there is no {title}")).pid;
    crate::harness::send(pid, Signal::SIGKILL);
}
