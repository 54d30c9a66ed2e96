//! The queue of returns (by job) and events for an upper master. No IO (`salt/minion.py
//! SyndicManager._process_event`).

use halite_sys::log_limiter::LogLimiter;
use halite_wire::ids::{Jid, parse_return_tag};
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::time::Instant;

/// Most queued events; unlike returns, they are not stored.
const MAX_EVENTS: usize = 10_000;
/// Most returns queued in memory; the job cache has the others.
const MAX_RETURNS: usize = 50_000;
/// Most returns in one message.
const MAX_BATCH: usize = 500;

/// Returns of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Returns {
    /// The job's function, if a return named it.
    pub fun: Value,
    /// The master that the job came from, if a return named it.
    pub master_id: Option<Value>,
    /// What stock forwards of each return: `return`, `retcode`, `success`, `fun_args`.
    pub by_id: Map,
}

/// Returns and events waiting to be forwarded.
#[derive(Debug, Default)]
pub struct ForwardQueue {
    returns: BTreeMap<Jid, Returns>,
    held: usize,
    events: Vec<Value>,
    /// Number of dropped events.
    lost: u64,
    said: LogLimiter,
    /// Returns or events were dropped because the queue was full.
    pub overflowed: bool,
}

/// Jid and minion id in the tag of a return.
pub fn return_of(tag: &str) -> Option<(Jid, &str)> {
    let (jid, id) = parse_return_tag(tag)?;
    Some((jid.parse().ok()?, id))
}

/// The fields of a return that stock forwards.
pub fn part(load: &Map) -> Map {
    ["return", "retcode", "success", "fun_args", "out"]
        .into_iter()
        .filter_map(|key| load.get(key).map(|value| (key, value.clone())))
        .collect()
}

impl ForwardQueue {
    /// Queues a return.
    pub fn add_return(&mut self, jid: &Jid, id: &str, load: &Map) {
        if self.held >= MAX_RETURNS {
            self.overflowed = true;
            return;
        }
        let job = self.returns.entry(jid.clone()).or_default();
        if let Some(fun) = load.get("fun") {
            job.fun = fun.clone();
        }
        if let Some(master) = load.get("master_id").filter(|m| !m.is_nil()) {
            job.master_id = Some(master.clone());
        }
        if !job.by_id.contains(id) {
            self.held += 1;
            job.by_id.set(id, part(load));
        }
    }

    /// Queues an event that is not a return.
    pub fn add_event(&mut self, tag: &str, data: Map) {
        // A return code marks a return in another form, which is forwarded as a return.
        if data.contains("retcode") {
            return;
        }
        if self.events.len() >= MAX_EVENTS {
            self.lost += self.events.len() as u64;
            if self.said.tick(Instant::now()).is_some() {
                log::warn!(
                    "dropping {MAX_EVENTS} events that were waiting for the upper master; {} so far",
                    self.lost
                );
            }
            self.events.clear();
        }
        self.events
            .push(halite_wire::map! {"data" => data, "tag" => tag}.into());
    }

    /// Removes and returns the queued events.
    pub fn take_events(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.events)
    }

    /// Removes and returns as many returns as fit into one message.
    pub fn take_returns(&mut self) -> Vec<(Jid, Returns)> {
        let mut out = Vec::new();
        let mut count = 0;
        while count < MAX_BATCH
            && let Some((jid, mut job)) = self.returns.pop_first()
        {
            let room = MAX_BATCH - count;
            if job.by_id.len() > room {
                let rest = Returns {
                    by_id: Map(job.by_id.0.split_off(room)),
                    ..job.clone()
                };
                self.returns.insert(jid.clone(), rest);
            }
            count += job.by_id.len();
            out.push((jid, job));
        }
        self.held = self.held.saturating_sub(count);
        out
    }

    /// Puts back returns that could not be sent.
    pub fn put_back(&mut self, batch: Vec<(Jid, Returns)>) {
        for (jid, job) in batch {
            for (id, part) in job.by_id.0 {
                let slot = self.returns.entry(jid.clone()).or_default();
                slot.fun = job.fun.clone();
                slot.master_id = job.master_id.clone();
                if let Value::Str(id) = id
                    && !slot.by_id.contains(&id)
                {
                    slot.by_id.set(id, part);
                    self.held += 1;
                }
            }
        }
    }

    /// Whether returns are queued.
    pub fn has_returns(&self) -> bool {
        !self.returns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn jid(n: u32) -> Jid {
        format!("202611211200000000{n:02}").parse().unwrap()
    }

    #[test]
    fn returns_go_in_batches_and_come_back() {
        let mut queue = ForwardQueue::default();
        for n in 0..700 {
            let load = map! {"id" => "x", "fun" => "test.ping", "return" => n, "jid" => "1"};
            queue.add_return(&jid(1), &format!("m{n}"), &load);
        }
        queue.add_return(&jid(1), "m1", &map! {"return" => "twice"});
        queue.add_return(&jid(2), "m1", &map! {"return" => 1, "master_id" => "top"});
        let first = queue.take_returns();
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].1.by_id.len(), 500);
        assert_eq!(
            first[0].1.by_id.get("m1"),
            Some(&map! {"return" => 1}.into())
        );
        let second = queue.take_returns();
        assert_eq!(second.len(), 2);
        assert_eq!(second[1].1.master_id, Some("top".into()));
        assert!(!queue.has_returns());
        queue.put_back(first);
        queue.put_back(second);
        assert_eq!(queue.held, 701);
        assert_eq!(queue.take_returns()[0].1.fun, "test.ping".into());
    }

    #[test]
    fn tags_of_returns() {
        let (jid, id) = return_of("salt/job/20261121120000000001/ret/a/b").unwrap();
        assert_eq!((jid.as_str(), id), ("20261121120000000001", "a/b"));
        for no in ["salt/job/1/ret/a", "salt/run/20261121120000000001/ret", "x"] {
            assert!(return_of(no).is_none(), "{no}");
        }
    }

    #[test]
    fn events_are_bounded() {
        let mut queue = ForwardQueue::default();
        queue.add_event("x", map! {"retcode" => 0});
        assert!(queue.take_events().is_empty());
        for n in 0..MAX_EVENTS + 1 {
            queue.add_event("t", map! {"n" => n});
        }
        assert!(queue.take_events().len() <= MAX_EVENTS);
    }
}
