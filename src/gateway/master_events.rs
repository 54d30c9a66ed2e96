//! The events of the master that concern a gateway: jobs and changes of keys.

use crossbeam_channel::{Receiver, Sender};
use halite_client::listen::listen;
use halite_config::MasterConfig;
use halite_ipc::Event;
use halite_master::events::is_trimmed;
use halite_master::roles::Roles;
use halite_store::Stores;
use halite_store::jobs::JobStore;
use halite_sys::signals::StopFlag;
use halite_wire::ids::Jid;
use halite_wire::{Map, Value, msgpack};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events that may be queued for the loop. If the queue is full the listener waits, and the bus drops events for it.
const QUEUE: usize = 10_000;
/// How long a job too large for the bus may take to appear in the job cache.
const PATIENCE: Duration = Duration::from_secs(2);

/// A published job (`salt/job/<jid>/new`).
#[derive(Clone, Debug)]
pub struct Order {
    /// Its jid.
    pub jid: Jid,
    /// The minions expected to return.
    pub ids: Vec<String>,
    /// `fun`, `arg`, `tgt`, `tgt_type` and `user`, shared by all minions that the job runs on.
    pub load: Arc<Map>,
}

impl Order {
    /// Reads the event; `None` if it is malformed, or if the bus trimmed it.
    pub fn of(event: &Map) -> Option<Order> {
        Order::new(event.str("jid")?.parse().ok()?, event, event.get("minions"))
    }

    /// A job for the minions in a list; `None` if `minions` is not a list.
    pub fn new(jid: Jid, load: &Map, minions: Option<&Value>) -> Option<Order> {
        let Value::Array(minions) = minions? else {
            return None;
        };
        let ids = minions.iter().filter_map(Value::as_str).map(str::to_owned);
        let mut kept = Map::new();
        for key in ["fun", "arg", "tgt", "tgt_type", "user"] {
            if let Some(value) = load.get(key) {
                kept.set(key, value.clone());
            }
        }
        Some(Order {
            jid,
            ids: ids.collect(),
            load: Arc::new(kept),
        })
    }
}

/// An event of the master that concerns a gateway.
pub enum MasterEvent {
    /// A job was published.
    Job(Order),
    /// A key has changed.
    Key {
        /// The id it belongs to.
        id: String,
        /// Whether the key was deleted.
        deleted: bool,
    },
}

impl MasterEvent {
    /// Reads an event from the bus; `None` if it does not concern a gateway.
    fn of(event: &Event, jobs: &dyn JobStore) -> Option<MasterEvent> {
        let data = || msgpack::decode(&event.payload).ok()?.into_map();
        if event.tag == "salt/key" {
            let data = data()?;
            return Some(MasterEvent::Key {
                id: data.str("id")?.to_owned(),
                deleted: data.str("act") == Some("delete"),
            });
        }
        let jid = event.tag.strip_prefix("salt/job/")?.strip_suffix("/new")?;
        let jid: Jid = jid.parse().ok()?;
        let data = data()?;
        if is_trimmed(&data) {
            find_in_job_cache(&jid, jobs, PATIENCE).map(MasterEvent::Job)
        } else {
            Order::of(&data).map(MasterEvent::Job)
        }
    }
}

/// Reads a job that was too large for the bus from the job cache, where it appears a moment later.
fn find_in_job_cache(jid: &Jid, jobs: &dyn JobStore, patience: Duration) -> Option<Order> {
    let end = Instant::now() + patience;
    loop {
        match jobs.get(jid) {
            Ok(Some(job)) if !job.minions.is_empty() => {
                let minions = Value::from(job.minions);
                return Order::new(jid.clone(), &job.load, Some(&minions));
            }
            Err(e) => log::warn!("the job {jid} cannot be read: {e}"),
            Ok(_) => {}
        }
        if Instant::now() > end {
            log::error!(
                "the job {jid} is too large for the bus and not in the job cache; the agents of this gateway miss it"
            );
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The loop's end of the event queue.
pub struct MasterEvents {
    queue: Receiver<MasterEvent>,
    /// Readable when the queue may have events.
    ready: Arc<EventFd>,
}

/// The listener's end of the event queue.
pub struct MasterEventSender {
    queue: Sender<MasterEvent>,
    ready: Arc<EventFd>,
}

/// Creates an empty queue.
///
/// # Errors
/// No file descriptors are left.
pub fn queue() -> io::Result<(MasterEvents, MasterEventSender)> {
    let (sender, receiver) = crossbeam_channel::bounded(QUEUE);
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let ready = Arc::new(EventFd::from_flags(flags)?);
    let events = MasterEvents {
        queue: receiver,
        ready: Arc::clone(&ready),
    };
    let sender = MasterEventSender {
        queue: sender,
        ready,
    };
    Ok((events, sender))
}

impl MasterEvents {
    /// For loops that wait on channels.
    pub fn receiver(&self) -> &Receiver<MasterEvent> {
        &self.queue
    }

    /// Takes the events queued now.
    pub fn take(&self) -> impl Iterator<Item = MasterEvent> + '_ {
        // An empty counter is not an error: there was nothing.
        let _ = self.ready.read();
        self.queue.try_iter().take(self.queue.len())
    }
}

/// For loops that wait on descriptors: readable when there are events.
impl AsFd for MasterEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl MasterEventSender {
    /// Queues an event; blocks while the queue is full.
    pub fn send(&self, event: MasterEvent) {
        // If the loop has stopped the role is ending anyway.
        if self.queue.send(event).is_ok() {
            // A full counter wakes the loop as well.
            let _ = self.ready.write(1);
        }
    }
}

/// Listens to the event bus until `stop` is set. Reports the role as ready once it is connected.
pub fn listen_to(
    config: &MasterConfig,
    stores: &Stores,
    roles: &Roles,
    stop: &StopFlag,
    events: &MasterEventSender,
) {
    let path = config.event_pub();
    let mut each = |event: Event| {
        if let Some(event) = MasterEvent::of(&event, &*stores.jobs) {
            events.send(event);
        }
    };
    listen(path, stop, &mut || roles.ready(), &mut each);
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::msgpack::Profile;

    const JID: &str = "20261121092637195592";

    fn event(tag: &str, data: Map) -> Event {
        Event {
            tag: tag.to_owned(),
            payload: msgpack::encode_map(&data, Profile::Local),
        }
    }

    fn ids(event: Option<MasterEvent>) -> Vec<String> {
        match event {
            Some(MasterEvent::Job(order)) => order.ids,
            _ => panic!("no job"),
        }
    }

    #[test]
    fn jobs_and_keys_are_heard() {
        let jobs = &*halite_store::memory::stores().jobs;
        let tag = format!("salt/job/{JID}/new");
        let minions = vec!["a1".to_owned(), "a2".to_owned()];
        let data =
            halite_wire::map! {"jid" => JID, "fun" => "test.ping", "minions" => minions.clone()};
        assert_eq!(
            ids(MasterEvent::of(&event(&tag, data.clone()), jobs)),
            minions
        );
        for other in [
            "salt/job/x/new".to_owned(),
            format!("salt/job/{JID}/ret/a1"),
            format!("syndic/s/salt/job/{JID}/new"),
        ] {
            assert!(MasterEvent::of(&event(&other, data.clone()), jobs).is_none());
        }
        let key = halite_wire::map! {"id" => "a1", "act" => "delete"};
        let found = MasterEvent::of(&event("salt/key", key), jobs);
        assert!(matches!(
            found,
            Some(MasterEvent::Key { deleted: true, .. })
        ));
    }

    #[test]
    fn a_job_too_large_for_the_bus_is_looked_up() {
        let jobs = &*halite_store::memory::stores().jobs;
        let jid: Jid = JID.parse().unwrap();
        assert!(find_in_job_cache(&jid, jobs, Duration::ZERO).is_none());
        let minions = vec!["a1".to_owned()];
        let load =
            halite_wire::map! {"jid" => JID, "fun" => "test.ping", "arg" => Vec::<Value>::new()};
        jobs.save_load(&jid, &load, &minions, &[]).unwrap();
        let data =
            halite_wire::map! {"jid" => JID, "fun" => "test.ping", "minions" => "VALUE_TRIMMED"};
        let tag = format!("salt/job/{JID}/new");
        assert_eq!(ids(MasterEvent::of(&event(&tag, data), jobs)), minions);
    }
}
