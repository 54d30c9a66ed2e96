//! Latencies of requests by class: from their arrival to their answer.

use super::commands::Class;
use halite_wire::{Map, Value};
use std::time::Duration;

/// Upper bounds of the buckets in seconds; one more bucket counts longer ones.
pub const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Measurements of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Buckets {
    /// Number of requests per bucket (not cumulative).
    pub counts: [u64; BOUNDS.len() + 1],
    /// Total of all latencies in seconds.
    pub sum: f64,
}

/// Measurements of all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latencies([Buckets; Class::COUNT]);

impl Latencies {
    /// Records the latency of an answered request.
    pub fn add(&mut self, class: Class, took: Duration) {
        let Some(buckets) = self.0.get_mut(class as usize) else {
            return;
        };
        let seconds = took.as_secs_f64();
        let at = BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(count) = buckets.counts.get_mut(at) {
            *count += 1;
        }
        buckets.sum += seconds;
    }

    /// Encodes for the scoreboard: a list per class with the counts, followed by the sum.
    pub fn to_value(self) -> Value {
        let list = |buckets: Buckets| {
            let counts = buckets.counts.into_iter().map(Value::from);
            Value::Array(counts.chain([buckets.sum.into()]).collect())
        };
        Value::Array(self.0.into_iter().map(list).collect())
    }

    /// Decodes from a record of the scoreboard; missing fields are 0.
    pub fn of(record: &Map, field: &str, class: Class) -> Buckets {
        let mut out = Buckets::default();
        let all = record.get(field).and_then(Value::as_array);
        let list = all.and_then(|all| all.get(class as usize)?.as_array());
        let Some((sum, counts)) = list.and_then(<[Value]>::split_last) else {
            return out;
        };
        for (place, count) in out.counts.iter_mut().zip(counts) {
            *place = count.as_int().and_then(|n| n.try_into().ok()).unwrap_or(0);
        }
        if let Value::Float(sum) = sum {
            out.sum = *sum;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_in_the_bucket_of_its_time() {
        let mut all = Latencies::default();
        for millis in [0, 1, 2, 31_000] {
            all.add(Class::Return, Duration::from_millis(millis));
        }
        let record = halite_wire::map! {"latency" => all.to_value()};
        let back = Latencies::of(&record, "latency", Class::Return);
        assert_eq!(back.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!((back.sum - 31.003).abs() < 1e-9);
        let none = Buckets::default();
        assert_eq!(Latencies::of(&record, "latency", Class::Auth), none);
        assert_eq!(Latencies::of(&Map::new(), "latency", Class::Auth), none);
    }
}
