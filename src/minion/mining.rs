//! The minion's own updates of the mine: at the start, then every `mine_interval`
//! (`salt/minion.py Minion.pillar_schedule_refresh`, the internal job `__mine_interval`).

use super::publication::Job;
use crate::config::MinionConfig;
use crate::wire::Value;
use crate::wire::ids::{Jid, JidClock};
use crate::wire::msgpack::{self, Profile};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Updates that may run at once (`maxrunning`).
const MAX_RUNNING: usize = 2;

/// When the next update is due, and which jobs are updates.
#[derive(Debug)]
pub struct Mining {
    interval: Duration,
    next: Option<Instant>,
    returns: bool,
    running: HashSet<Jid>,
    jids: JidClock,
}

/// What becomes of the result of a job.
#[derive(Debug, PartialEq)]
pub enum Fate {
    /// It is no update.
    NotOurs,
    /// Nobody wants it.
    Dropped,
    /// It goes to the master as this load, which asks for a jid.
    Sent(Vec<u8>),
}

impl Mining {
    /// The first update is due at `now`.
    pub fn new(config: &MinionConfig, now: Instant) -> Mining {
        let interval = Duration::from_secs(config.mine_interval.saturating_mul(60));
        let on = config.mine_enabled && !interval.is_zero();
        Mining {
            interval,
            next: on.then_some(now),
            returns: config.mine_return_job,
            running: HashSet::new(),
            jids: JidClock::default(),
        }
    }

    /// Time until the next update.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        self.next.map(|at| at.saturating_duration_since(now))
    }

    /// The job of an update, if one is due and there is something to do.
    pub fn due(&mut self, now: Instant, id: &str, wanted: impl FnOnce() -> bool) -> Option<Job> {
        if self.next.is_none_or(|at| at > now) {
            return None;
        }
        self.next = Some(now + self.interval);
        if self.running.len() >= MAX_RUNNING {
            log::warn!("{MAX_RUNNING} updates of the mine run still; this one is left out");
            return None;
        }
        if !wanted() {
            return None;
        }
        let jid = self.jids.next();
        self.running.insert(jid.clone());
        let load = crate::map! {
            "fun" => "mine.update", "arg" => Vec::<Value>::new(), "tgt" => id, "jid" => jid.as_str(),
            "ret" => "", "tgt_type" => "glob", "schedule" => "__mine_interval",
        };
        Some(Job { jid, load })
    }

    /// What becomes of a job's result.
    pub fn finished(&mut self, jid: &Jid, load: &[u8]) -> Fate {
        if !self.running.remove(jid) {
            return Fate::NotOurs;
        }
        match msgpack::decode(load) {
            Ok(Value::Map(mut map)) if self.returns => {
                map.set("jid", "req");
                Fate::Sent(msgpack::encode_map(&map, Profile::Local))
            }
            _ => Fate::Dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map;

    fn mining(options: crate::wire::Map) -> Mining {
        let config = MinionConfig::from_map(options, std::path::Path::new("/nonexistent")).unwrap();
        Mining::new(&config, Instant::now())
    }

    #[test]
    fn updates_come_by_the_clock() {
        let mut m = mining(map! {"id" => "m1", "mine_interval" => 1});
        let now = Instant::now();
        let job = m.due(now, "m1", || true).unwrap();
        assert_eq!(job.load.str("fun"), Some("mine.update"));
        assert!(m.due(now, "m1", || true).is_none());
        assert!(m.wait(now).unwrap() > Duration::from_secs(59));
        assert_eq!(m.finished(&job.jid, b"\x80"), Fate::Dropped);
        assert_eq!(m.finished(&job.jid, b"\x80"), Fate::NotOurs);
        let later = |n: u64| now + Duration::from_secs(61 * n);
        assert!(m.due(later(1), "m1", || false).is_none());
        assert!(m.due(later(2), "m1", || true).is_some());
        assert!(m.due(later(3), "m1", || true).is_some());
        assert!(m.due(later(4), "m1", || true).is_none(), "two run still");
    }

    #[test]
    fn results_are_sent_on_demand() {
        let mut m = mining(map! {"id" => "m1", "mine_return_job" => true});
        let job = m.due(Instant::now(), "m1", || true).unwrap();
        let load = msgpack::encode_map(&map! {"jid" => job.jid.as_str()}, Profile::Local);
        let want = msgpack::encode_map(&map! {"jid" => "req"}, Profile::Local);
        assert_eq!(m.finished(&job.jid, &load), Fate::Sent(want));
    }

    #[test]
    fn it_can_be_turned_off() {
        for off in [map! {"mine_enabled" => false}, map! {"mine_interval" => 0}] {
            let mut options = map! {"id" => "m1"};
            options.0.extend(off.0);
            let mut m = mining(options);
            assert!(m.due(Instant::now(), "m1", || true).is_none());
            assert!(m.wait(Instant::now()).is_none());
        }
    }
}
