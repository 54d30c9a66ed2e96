//! Expected, received and wrong answers to a job. No IO, no clock.

use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

/// An acknowledged return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its jid.
    pub jid: Arc<str>,
    /// Id of the minion.
    pub id: String,
    /// When the acknowledgement was read.
    pub at: Instant,
}

/// The tally of one job, from the acknowledgements that minions got and, if there is a listener, from the bus.
#[derive(Debug)]
pub struct JobTally {
    jid: String,
    /// Minions of the swarm that the master named and that have no acknowledgement yet.
    silent: HashSet<String>,
    answered: HashSet<String>,
    /// How often each was heard on the bus. `None` without a listener.
    heard: Option<HashMap<String, u32>>,
    last: Option<Instant>,
    errors: BTreeMap<String, u64>,
    expected: usize,
}

impl JobTally {
    /// Starts the tally of a job. `named` are the minions of the swarm among those named by the master.
    pub fn new(jid: &str, named: Vec<String>, listening: bool) -> JobTally {
        let expected = named.len();
        let silent: HashSet<String> = named.into_iter().collect();
        let mut tally = JobTally {
            jid: jid.to_owned(),
            heard: listening.then(HashMap::new),
            answered: HashSet::new(),
            last: None,
            errors: BTreeMap::new(),
            expected: silent.len(),
            silent,
        };
        if tally.expected < expected {
            tally.error("the master named a minion twice", 1);
        }
        tally
    }

    /// Jid of the job.
    pub fn jid(&self) -> &str {
        &self.jid
    }

    /// Number of minions expected to answer.
    pub fn expected(&self) -> usize {
        self.expected
    }

    fn error(&mut self, what: &str, count: u64) {
        *self.errors.entry(what.to_owned()).or_default() += count;
    }

    /// Counts an acknowledgement, if it is of this job.
    pub fn acknowledged(&mut self, item: &Acknowledged) {
        if *item.jid != *self.jid {
            return;
        }
        self.last = self.last.max(Some(item.at));
        if self.silent.remove(&item.id) {
            self.answered.insert(item.id.clone());
        } else if self.answered.contains(&item.id) {
            self.error("a minion answered a job twice", 1);
        } else {
            self.error("a minion answered that the master did not name", 1);
        }
    }

    /// Checks the event of a return: tag and data. The data must contain that of `expected`, the return that
    /// minions send. Returns whether the event belongs to this job and is correct.
    pub fn heard(&mut self, tag: &str, data: &Map, expected: &Map) -> bool {
        let prefix = format!("salt/job/{}/ret/", self.jid);
        let Some(id) = tag.strip_prefix(&prefix) else {
            return false;
        };
        let same = |key: &str| data.get(key) == expected.get(key);
        if data.str("id") != Some(id) || data.str("jid") != Some(&self.jid) {
            self.error("the event of a return is under a tag of another", 1);
            return false;
        }
        if !["return", "success", "retcode", "fun", "fun_args"]
            .into_iter()
            .all(same)
        {
            self.error(
                "the event of a return does not hold what the minion sent",
                1,
            );
            return false;
        }
        if let Some(heard) = &mut self.heard {
            *heard.entry(id.to_owned()).or_default() += 1;
        }
        true
    }

    /// Whether every minion was acknowledged and, if there is a listener, heard.
    pub fn complete(&self) -> bool {
        self.silent.is_empty() && self.unheard() == 0
    }

    /// Whether every minion was acknowledged.
    pub fn all_answered(&self) -> bool {
        self.silent.is_empty()
    }

    fn unheard(&self) -> usize {
        self.heard.as_ref().map_or(0, |heard| {
            self.answered
                .iter()
                .filter(|id| !heard.contains_key(*id))
                .count()
        })
    }

    /// Time of the last acknowledgement.
    pub fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Returns all errors, with their number. `repeated` means that returns were sent more than once, so that
    /// duplicate events are legitimate.
    pub fn close(mut self, repeated: bool) -> BTreeMap<String, u64> {
        if !self.silent.is_empty() {
            let count = self.silent.len() as u64;
            self.error("a minion that the master named has not answered", count);
        }
        let unheard = self.unheard() as u64;
        if unheard > 0 {
            self.error("an acknowledged return was not heard on the bus", unheard);
        }
        let heard = self.heard.take().unwrap_or_default();
        let strangers: BTreeSet<&String> = heard
            .keys()
            .filter(|id| !self.answered.contains(*id) && !self.silent.contains(*id))
            .collect();
        let strangers = strangers.len() as u64;
        let twice = heard.values().filter(|n| **n > 1).count() as u64;
        if strangers > 0 {
            self.error("the bus has a return that no minion sent", strangers);
        }
        if twice > 0 && !repeated {
            self.error("a return was heard twice on the bus", twice);
        }
        self.errors
    }
}

/// The data of an event as a map.
pub fn event_data(payload: &[u8]) -> Option<Map> {
    halite_wire::msgpack::decode(payload)
        .ok()
        .and_then(Value::into_map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(jid: &str, id: &str) -> Acknowledged {
        Acknowledged {
            jid: jid.into(),
            id: id.into(),
            at: Instant::now(),
        }
    }

    fn tally(listening: bool) -> JobTally {
        JobTally::new("7", vec!["a".into(), "b".into()], listening)
    }

    fn sent() -> Map {
        halite_wire::map! {
            "return" => true, "success" => true, "retcode" => 0, "fun" => "test.ping",
            "fun_args" => Vec::<Value>::new(),
        }
    }

    fn event(id: &str) -> Map {
        let mut map = sent();
        map.set("id", id);
        map.set("jid", "7");
        map
    }

    fn only(tally: JobTally) -> String {
        let errors = tally.close(false);
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors.into_keys().next().unwrap()
    }

    #[test]
    fn a_job_that_everybody_answers_once_is_right() {
        let mut tally = tally(true);
        for id in ["a", "b"] {
            tally.acknowledged(&ack("7", id));
            tally.acknowledged(&ack("6", id));
            assert!(!tally.complete());
            assert!(tally.heard(&format!("salt/job/7/ret/{id}"), &event(id), &sent()));
        }
        assert!(tally.complete() && tally.last().is_some());
        assert_eq!(tally.close(false), BTreeMap::new());
    }

    #[test]
    fn silence_strangers_and_repetition_are_errors() {
        let mut quiet = tally(false);
        quiet.acknowledged(&ack("7", "a"));
        assert!(!quiet.all_answered());
        assert!(only(quiet).contains("has not answered"));

        let mut twice = tally(false);
        for id in ["a", "b", "b"] {
            twice.acknowledged(&ack("7", id));
        }
        assert!(only(twice).contains("twice"));

        let mut more = tally(false);
        for id in ["a", "b", "c"] {
            more.acknowledged(&ack("7", id));
        }
        assert!(only(more).contains("did not name"));

        let named = vec!["a".into(), "a".into()];
        let mut double = JobTally::new("7", named, false);
        double.acknowledged(&ack("7", "a"));
        assert!(only(double).contains("named a minion twice"));
    }

    #[test]
    fn what_the_bus_lacks_or_has_too_much_is_an_error() {
        let full = || {
            let mut tally = tally(true);
            for id in ["a", "b"] {
                tally.acknowledged(&ack("7", id));
            }
            assert!(tally.heard("salt/job/7/ret/a", &event("a"), &sent()));
            tally
        };
        assert!(only(full()).contains("not heard"));

        let mut twice = full();
        for _ in 0..2 {
            twice.heard("salt/job/7/ret/b", &event("b"), &sent());
        }
        assert!(only(twice).contains("heard twice"));

        let mut stranger = full();
        for id in ["b", "c"] {
            stranger.heard(&format!("salt/job/7/ret/{id}"), &event(id), &sent());
        }
        assert!(only(stranger).contains("no minion sent"));
    }

    #[test]
    fn tampered_events_are_errors() {
        for (key, value) in [
            ("return", Value::Bool(false)),
            ("success", Value::Bool(false)),
            ("retcode", Value::Int(1)),
            ("id", Value::from("b")),
            ("jid", Value::from("8")),
        ] {
            let mut tally = tally(true);
            let mut data = event("a");
            data.set(key, value);
            assert!(!tally.heard("salt/job/7/ret/a", &data, &sent()), "{key}");
            let errors = tally.close(false);
            assert!(errors.keys().any(|e| e.starts_with("the event")), "{key}");
        }
        let mut other = tally(true);
        assert!(!other.heard("salt/job/6/ret/a", &event("a"), &sent()));
    }
}
