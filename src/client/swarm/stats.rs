//! What a swarm counts, and how it is shown.

use std::collections::BTreeMap;
use std::time::Duration;

/// Kinds of operations that are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// First sign-in of a minion.
    SignIn,
    /// Sign-in of a minion that knows its master already.
    SignInAgain,
    /// Acknowledged answer to a published job.
    Answer,
    /// Acknowledged return that the swarm began by itself.
    Return,
    /// Job that the swarm published: until the last minion had its answer acknowledged.
    Job,
    /// Return of such a job: from its publication to its event on the bus.
    ReturnHeard,
    /// Pillar, opened and judged.
    Pillar,
    /// Request for a hash or a piece of a file.
    FileRequest,
    /// Whole file, held against its hash.
    File,
    /// Event, acknowledged to the minion that fired it.
    Event,
    /// Event: from the minion to a listener of the bus.
    EventHeard,
    /// Minion whose master went away: from the moment when the master took connections again until the minion was
    /// subscribed and had a request answered.
    Back,
    /// The same from the loss of its connection until the next one stood.
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
    /// Wrong answers and given-up operations, by what was wrong.
    pub errors: BTreeMap<String, u64>,
    /// Things that happen to healthy minions too: time-outs, lost connections, sign-ins that
    /// the master asked for, publications seen twice.
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

    /// Counts something worth knowing.
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

    /// Wrong answers of every kind.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Latency in milliseconds at each of `points` (0 to 1); empty if there was none.
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
