//! Counters of a swarm, and how they are displayed.

use std::collections::BTreeMap;
use std::time::Duration;

/// Kinds of timed operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// First sign-in of a minion.
    SignIn,
    /// Sign-in of a minion that already knows its master.
    SignInAgain,
    /// Acknowledged answer to a published job.
    Answer,
    /// Acknowledged return that the swarm started itself.
    Return,
    /// Job published by the swarm, until the last minion's answer was acknowledged.
    Job,
    /// Return of such a job, from its publication to its event on the bus.
    ReturnHeard,
    /// Pillar, decrypted and checked.
    Pillar,
    /// Request for a hash or a chunk of a file.
    FileRequest,
    /// Whole file, checked against its hash.
    File,
    /// Event, acknowledged to the minion that fired it.
    Event,
    /// Event, from the minion to a listener on the bus.
    EventHeard,
    /// Minion after an outage of the master: from the time when the master accepted connections again until the
    /// minion was subscribed and had a request answered.
    Back,
    /// The same, from the loss of its connection until the next one was open.
    Away,
}

impl Op {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Op::SignIn => "sign-in",
            Op::SignInAgain => "sign-in again",
            Op::Answer => "job answer",
            Op::Return => "return",
            Op::Job => "job",
            Op::ReturnHeard => "return heard",
            Op::Pillar => "pillar",
            Op::FileRequest => "file request",
            Op::File => "file",
            Op::Event => "event",
            Op::EventHeard => "event heard",
            Op::Back => "back",
            Op::Away => "away",
        }
    }
}

/// Counters and latencies of one shard, or of all together.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Microseconds from first sending to verified reply.
    pub latencies: BTreeMap<Op, Vec<u32>>,
    /// Wrong answers and operations given up, by description.
    pub errors: BTreeMap<String, u64>,
    /// Events that also occur with healthy minions: time-outs, lost connections, sign-ins requested by the
    /// master, publications seen twice.
    pub notes: BTreeMap<&'static str, u64>,
}

impl Stats {
    /// Counts a finished operation.
    pub fn done(&mut self, op: Op, took: Duration) {
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        self.latencies.entry(op).or_default().push(micros);
    }

    /// Counts a wrong answer.
    pub fn error(&mut self, what: impl Into<String>) {
        *self.errors.entry(what.into()).or_default() += 1;
    }

    /// Counts a noteworthy event.
    pub fn note(&mut self, what: &'static str) {
        *self.notes.entry(what).or_default() += 1;
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: Stats) {
        for (op, mut latencies) in other.latencies {
            self.latencies.entry(op).or_default().append(&mut latencies);
        }
        for (what, count) in other.errors {
            *self.errors.entry(what).or_default() += count;
        }
        for (what, count) in other.notes {
            *self.notes.entry(what).or_default() += count;
        }
    }

    /// Number of finished operations of a kind.
    pub fn count(&self, op: Op) -> usize {
        self.latencies.get(&op).map_or(0, Vec::len)
    }

    /// Number of wrong answers of all kinds.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Latency in milliseconds at each of `points` (0 to 1); empty without measurements.
    pub fn percentiles(&self, op: Op, points: &[f64]) -> Vec<f64> {
        let Some(latencies) = self.latencies.get(&op).filter(|l| !l.is_empty()) else {
            return Vec::new();
        };
        let mut sorted = latencies.clone();
        sorted.sort_unstable();
        let at = |p: f64| ((sorted.len() - 1) as f64 * p).round() as usize;
        points
            .iter()
            .map(|p| f64::from(sorted[at(*p)]) / 1000.0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_list() {
        let mut stats = Stats::default();
        for ms in (1..=101).rev() {
            stats.done(Op::Return, Duration::from_millis(ms));
        }
        assert_eq!(
            stats.percentiles(Op::Return, &[0.0, 0.5, 0.99, 1.0]),
            [1.0, 51.0, 100.0, 101.0]
        );
        assert!(stats.percentiles(Op::SignIn, &[0.5]).is_empty());
    }

    #[test]
    fn merging_adds() {
        let mut a = Stats::default();
        a.error("x");
        a.done(Op::SignIn, Duration::ZERO);
        let b = a.clone();
        a.merge(b);
        assert_eq!((a.error_count(), a.count(Op::SignIn)), (2, 2));
    }
}
