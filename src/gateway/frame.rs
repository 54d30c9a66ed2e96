//! The frame of every gateway: one loop, a thread that listens to the event bus, and a thread that writes.
//!
//! A gateway implements [`Protocol`], which knows its peers and decides what to do; the frame talks to the master. The
//! loop waits for both, passes on what arrived, calls `tick`, publishes counters and writes the list of connected
//! agents. It ends the role when a thread has stopped or the role uses too much memory; the supervisor then restarts
//! it.

use super::Gateway;
use super::clock::Clock;
use super::duty::Duty;
use super::master_events::{self, MasterEvent, MasterEvents};
use super::writer::{self, Presence, Task, WriteQueue};
use halite_config::MasterConfig;
use halite_master::roles::{Roles, exit_if_oversized};
use halite_master::score::Score;
use halite_store::Stores;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::thread::Scope;
use std::time::Duration;

/// Time between two calls of [`Protocol::tick`], and the longest wait.
pub const TICK: Duration = Duration::from_millis(100);
/// Messages that [`Protocol::receive`] handles before the master and the clock get their turn.
pub const BATCH: usize = 256;
/// `EX_USAGE`: the role cannot work with this configuration.
pub const EXIT_CONFIG: i32 = 64;

/// The side of a gateway that speaks the foreign protocol.
///
/// All methods run in one thread, and none may block: slow work belongs to the writer or to the gateway's own threads,
/// whose replies count as messages of peers.
pub trait Protocol {
    /// Sleeps until a peer has sent something, `events` is not empty, or `limit` has passed.
    ///
    /// # Errors
    /// Waiting is no longer possible; the role ends.
    fn wait(&mut self, events: &MasterEvents, limit: Duration) -> Result<(), ExitError>;

    /// Handles what peers have sent, at most about [`BATCH`] messages. Returns whether more is waiting.
    ///
    /// # Errors
    /// A thread of the gateway has stopped ([`thread_ended`]); the role ends.
    fn receive(&mut self) -> Result<bool, ExitError>;

    /// Handles a job or a change of keys.
    fn master_event(&mut self, event: MasterEvent, now: Clock);

    /// Does what is due; called every [`TICK`].
    fn tick(&mut self, now: Clock);

    /// Counters of the role for metrics and `fleet.status`.
    fn counters(&self) -> Map;

    /// Whether agents have connected or disconnected since the last call.
    fn presence_changed(&mut self) -> bool;

    /// The connected agents and their addresses, for `manage.*` and presence events.
    fn connected(&self) -> BTreeMap<MinionId, IpAddr>;

    /// Whether the gateway's own threads are running.
    fn alive(&self) -> bool {
        true
    }

    /// Sends last messages; called once, when the role stops.
    fn close(self: Box<Self>) {}
}

/// What a gateway builds its [`Protocol`] from.
pub struct Frame<'scope, 'env> {
    /// Where the gateway starts its own threads; they must stop when `stop` is set or the protocol is dropped.
    pub scope: &'scope Scope<'scope, 'env>,
    /// The master's options.
    pub config: &'env MasterConfig,
    /// The master's stores.
    pub stores: &'env Stores,
    /// Set when the role has to stop.
    pub stop: &'env StopFlag,
    /// Where to queue returns, grains and events.
    pub writer: WriteQueue,
}

/// The error of a role if one of its threads has stopped.
pub fn thread_ended() -> ExitError {
    ExitError::new(1, "a thread of the gateway has ended")
}

/// Runs the role of a gateway until it is told to stop. In a cluster, one master after the other runs a gateway that reaches its
/// agents through a broker; the role waits at the others.
///
/// # Errors
/// The gateway cannot start ([`Gateway::start`] says why), a thread has stopped, or too much memory is used.
pub fn run(
    gateway: &Gateway,
    config: &MasterConfig,
    roles: &Roles,
    stop: &StopFlag,
) -> Result<(), ExitError> {
    let stores = Stores::open(config);
    stores.gateways.of(gateway.name).prepare()?;
    let mut score = Score::inherited(gateway.role);
    let name = gateway.name;
    let Some(mut duty) = Duty::of(name, config) else {
        let goes_on = &mut || !stop.is_set();
        return session(gateway, config, &stores, roles, stop, &mut score, goes_on);
    };
    roles.ready();
    log::info!("the gateway {name} waits: one master of the cluster runs it");
    while !stop.is_set() {
        if duty.is_ours() {
            log::info!("this master runs the gateway {name} for the cluster");
            let goes_on = &mut || !stop.is_set() && duty.is_ours();
            let ends = StopFlag::default();
            session(gateway, config, &stores, roles, &ends, &mut score, goes_on)?;
            if !stop.is_set() {
                log::warn!("this master runs the gateway {name} no more: another one can");
            }
        }
        score.tick(|| halite_wire::map! {"waits" => 1u64});
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// Starts the gateway and runs it as long as `goes_on` says; then it sets `stop`, which ends its threads.
fn session(
    gateway: &Gateway,
    config: &MasterConfig,
    stores: &Stores,
    roles: &Roles,
    stop: &StopFlag,
    score: &mut Score,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), ExitError> {
    let (writer, tasks) = writer::queue();
    let (events, bus) = master_events::queue()?;
    std::thread::scope(|scope| {
        let frame = Frame {
            scope,
            config,
            stores,
            stop,
            writer: writer.clone(),
        };
        let done = (gateway.start)(&frame).and_then(|protocol| {
            let writing = scope.spawn(|| writer::run(config, stores, gateway.name, &tasks));
            let listening =
                scope.spawn(move || master_events::listen_to(config, stores, roles, stop, &bus));
            let alive = || !writing.is_finished() && !listening.is_finished();
            serve(protocol, &events, &writer, score, &alive, goes_on)
        });
        // Other threads wait for this.
        stop.set();
        drop(writer);
        done
    })
}

/// The main loop, as long as `goes_on` says.
fn serve(
    mut protocol: Box<dyn Protocol + '_>,
    events: &MasterEvents,
    writer: &WriteQueue,
    score: &mut Score,
    alive: &dyn Fn() -> bool,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), ExitError> {
    let mut presence = Presence::default();
    let mut ticked = Clock::now();
    let mut more = false;
    while goes_on() {
        protocol.wait(events, if more { Duration::ZERO } else { TICK })?;
        more = match protocol.receive() {
            Ok(more) => more,
            // The gateway's own threads may see the signal first.
            Err(_) if !goes_on() => break,
            Err(e) => return Err(e),
        };
        for event in events.take() {
            protocol.master_event(event, Clock::now());
        }
        let now = Clock::now();
        if now.is_past(ticked.at, TICK) {
            ticked = now;
            protocol.tick(now);
            presence.changed |= protocol.presence_changed();
            if presence.is_due(now.at) {
                writer.push(Task::Connected(protocol.connected()));
                exit_if_oversized()?;
            }
        }
        score.tick(|| protocol.counters());
        // In this order: the threads may see the signal first.
        if !(alive() && protocol.alive()) && goes_on() {
            return Err(thread_ended());
        }
    }
    // The list must not outlive the gateway.
    writer.push(Task::Connected(BTreeMap::new()));
    protocol.close();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, Select, TryRecvError};
    use std::net::Ipv4Addr;
    use std::sync::{Arc, Mutex};

    /// A gateway without sockets: its peers are a channel, and it records what it is asked to do.
    struct Double {
        peers: Receiver<&'static str>,
        stop: StopFlag,
        done: Arc<Mutex<Vec<String>>>,
        connected: BTreeMap<MinionId, IpAddr>,
        changed: bool,
    }

    impl Double {
        fn note(&self, what: impl Into<String>) {
            self.done.lock().unwrap().push(what.into());
        }
    }

    impl Protocol for Double {
        fn wait(&mut self, events: &MasterEvents, limit: Duration) -> Result<(), ExitError> {
            let mut select = Select::new();
            select.recv(&self.peers);
            select.recv(events.receiver());
            let _ = select.ready_timeout(limit);
            Ok(())
        }

        fn receive(&mut self) -> Result<bool, ExitError> {
            match self.peers.try_recv() {
                Ok("stop") => self.stop.set(),
                Ok(id) => {
                    self.note(id);
                    let address = Ipv4Addr::LOCALHOST.into();
                    self.connected.insert(id.parse().unwrap(), address);
                    self.changed = true;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return Err(thread_ended()),
            }
            Ok(!self.peers.is_empty())
        }

        fn master_event(&mut self, event: MasterEvent, _: Clock) {
            match event {
                MasterEvent::Job(order) => self.note(format!("job {}", order.jid)),
                MasterEvent::Key { id, .. } => self.note(format!("key {id}")),
            }
        }

        fn tick(&mut self, _: Clock) {}

        fn counters(&self) -> Map {
            Map::new()
        }

        fn presence_changed(&mut self) -> bool {
            std::mem::take(&mut self.changed)
        }

        fn connected(&self) -> BTreeMap<MinionId, IpAddr> {
            self.connected.clone()
        }

        fn close(self: Box<Self>) {
            self.note("closed");
        }
    }

    struct Setup {
        done: Arc<Mutex<Vec<String>>>,
        tasks: Receiver<Task>,
        result: Result<(), ExitError>,
    }

    fn serve_double(messages: &[&'static str], keys: &[&str], alive: bool) -> Setup {
        let (says, peers) = crossbeam_channel::unbounded();
        let (events, bus) = master_events::queue().unwrap();
        let (writer, tasks) = writer::queue();
        let stop = StopFlag::default();
        let done = Arc::default();
        let double = Double {
            peers,
            stop: stop.clone(),
            done: Arc::clone(&done),
            connected: BTreeMap::new(),
            changed: false,
        };
        for id in keys {
            bus.send(MasterEvent::Key {
                id: (*id).to_owned(),
                deleted: false,
            });
        }
        messages.iter().for_each(|one| says.send(one).unwrap());
        let connected = (messages.last() == Some(&"stop")).then_some(says);
        let mut score = Score::inherited("gateway-double");
        let double = Box::new(double);
        let goes_on = &mut || !stop.is_set();
        let result = serve(double, &events, &writer, &mut score, &|| alive, goes_on);
        drop((connected, writer));
        Setup {
            done,
            tasks,
            result,
        }
    }

    #[test]
    fn peers_and_the_master_get_their_turns() {
        let setup = serve_double(&["a1", "a2", "stop"], &["k1", "k2"], true);
        setup.result.unwrap();
        let done = setup.done.lock().unwrap();
        let mut sorted = done.clone();
        sorted.sort();
        assert_eq!(sorted, ["a1", "a2", "closed", "key k1", "key k2"]);
        assert_eq!(done.last().unwrap(), "closed");
        assert!(done.iter().position(|d| d == "a1") < done.iter().position(|d| d == "a2"));
        // The last list is empty.
        let lists: Vec<_> = setup.tasks.iter().collect();
        assert!(matches!(lists.last(), Some(Task::Connected(who)) if who.is_empty()));
    }

    #[test]
    fn a_thread_that_ends_ends_the_role() {
        let setup = serve_double(&["a1"], &[], false);
        assert!(setup.result.is_err());
        // A peer's channel without a sender is also a thread that has stopped.
        let setup = serve_double(&["a1"], &[], true);
        assert!(setup.result.is_err());
        assert_eq!(*setup.done.lock().unwrap(), ["a1"]);
        assert!(
            setup
                .tasks
                .iter()
                .all(|task| matches!(task, Task::Connected(_)))
        );
    }
}
