//! What is next in a batch: decisions without IO, with the time given (`salt/utils/batch_state.py`).

use halite_wire::{Map, Value};
use std::collections::VecDeque;

/// Seconds that a minion may take where the record of the batch does not say.
const TIMEOUT: f64 = 60.0;
/// Seconds on top of them for minions that are still asked whether they run the job.
const GATHER_JOB_TIMEOUT: f64 = 10.0;

/// A batch of which this master sends the parts, as its record says: the client that began it wrote the record
/// and has published the first part.
pub(super) struct Plan {
    /// The record with all fields; those below replace the fields of their names.
    record: Map,
    pending: VecDeque<String>,
    /// Who has the job, and since when.
    active: Vec<(String, f64)>,
    done: Map,
    failed: Map,
    /// When places become free again that wait for `batch_wait`.
    wait: Vec<f64>,
    halted: Option<String>,
    last_progress: f64,
    /// Nobody gets the job, and nobody is late: minions may still be on their way back to a master that was away.
    is_paused: bool,
}

/// What a step changed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Step {
    /// Who gets the job now.
    pub publish: Vec<String>,
    /// Whether a minion returned or was given up.
    pub settled: bool,
}

impl Plan {
    /// Reads a record.
    pub fn new(record: Map) -> Plan {
        let map = |key: &str| record.get(key).and_then(Value::as_map).cloned();
        let list = |key: &str| record.get(key).and_then(Value::as_array);
        let halted = record.get("halted").is_some_and(Value::truthy);
        Plan {
            pending: record
                .get("pending")
                .map(Value::str_list)
                .unwrap_or_default()
                .into(),
            active: map("active")
                .unwrap_or_default()
                .iter()
                .filter_map(|(id, since)| Some((id.as_str()?.to_owned(), number(since)?)))
                .collect(),
            done: map("done").unwrap_or_default(),
            failed: map("failed").unwrap_or_default(),
            wait: list("wait")
                .unwrap_or_default()
                .iter()
                .filter_map(number)
                .collect(),
            halted: halted.then(|| record.str("halted_reason").unwrap_or_default().to_owned()),
            last_progress: record
                .get("last_progress")
                .and_then(number)
                .unwrap_or_default(),
            is_paused: false,
            record,
        }
    }

    /// Waits until [`Plan::resume`].
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Goes on after a pause; whoever has the job has its whole time once more.
    pub fn resume(&mut self, now: f64) {
        if std::mem::take(&mut self.is_paused) {
            self.active.iter_mut().for_each(|(_, since)| *since = now);
        }
    }

    /// Whether a minion has the job and has not returned.
    pub fn is_active(&self, id: &str) -> bool {
        self.active.iter().any(|(one, _)| one == id)
    }

    /// Whether a minion would be given up at this time.
    pub fn is_anyone_late(&self, now: f64) -> bool {
        let patience = self.patience();
        !self.is_paused && self.active.iter().any(|(_, since)| now - since >= patience)
    }

    fn patience(&self) -> f64 {
        self.seconds("timeout", TIMEOUT) + self.seconds("gather_job_timeout", GATHER_JOB_TIMEOUT)
    }

    /// The record to keep.
    pub fn to_map(&self) -> Map {
        let mut out = self.record.clone();
        let pending: Vec<String> = self.pending.iter().cloned().collect();
        out.set("pending", pending);
        out.set(
            "active",
            Value::Map(
                self.active
                    .iter()
                    .map(|(id, since)| (Value::from(id.as_str()), Value::from(*since)))
                    .collect(),
            ),
        );
        out.set("done", Value::Map(self.done.clone()));
        out.set("failed", Value::Map(self.failed.clone()));
        let wait: Vec<Value> = self.wait.iter().map(|at| Value::from(*at)).collect();
        out.set("wait", wait);
        out.set("last_progress", self.last_progress);
        out.set("halted", self.halted.is_some());
        out.set(
            "halted_reason",
            self.halted.as_deref().map_or(Value::Nil, Value::from),
        );
        out
    }

    /// A minion returned with `retcode`; the return itself is in the job cache. Only who has the job counts: any minion can
    /// return any job.
    pub fn returned(&mut self, id: &str, retcode: Value, now: f64) -> Step {
        if !self.is_active(id) {
            return Step::default();
        }
        self.active.retain(|(one, _)| one != id);
        let failed = worst(&retcode) > 0;
        let entry = halite_wire::map! {"ret" => Value::Nil, "retcode" => retcode};
        self.done.set(id, Value::Map(entry));
        self.free_later(now);
        if failed && self.flag("failhard") {
            self.halt("failhard");
        }
        Step {
            settled: true,
            ..self.step(now)
        }
    }

    /// Gives up on minions that are late, and fills places that are free.
    pub fn step(&mut self, now: f64) -> Step {
        let mut step = Step::default();
        if self.is_paused {
            return step;
        }
        let patience = self.patience();
        let (late, active) = std::mem::take(&mut self.active)
            .into_iter()
            .partition(|(_, since)| now - since >= patience);
        self.active = active;
        for (id, _) in late {
            self.failed.set(id.as_str(), "timeout");
            self.free_later(now);
            step.settled = true;
        }
        self.wait.retain(|at| *at > now);
        if self.halted.is_some() {
            return step;
        }
        let size = self.seconds("batch_size", 1.0).max(1.0) as usize;
        while self.active.len() + self.wait.len() < size
            && let Some(id) = self.pending.pop_front()
        {
            self.active.push((id.clone(), now));
            step.publish.push(id);
        }
        if step.settled || !step.publish.is_empty() {
            self.last_progress = now;
        }
        step
    }

    /// Sends nothing more.
    pub fn halt(&mut self, reason: &str) {
        self.halted.get_or_insert_with(|| reason.to_owned());
    }

    pub fn is_halted(&self) -> bool {
        self.halted.is_some()
    }

    /// Whether nothing is left to do.
    pub fn is_over(&self) -> bool {
        self.is_halted() || (self.pending.is_empty() && self.active.is_empty())
    }

    fn free_later(&mut self, now: f64) {
        let pause = self.seconds("batch_wait", 0.0);
        if pause > 0.0 {
            self.wait.push(now + pause);
        }
    }

    fn seconds(&self, key: &str, unset: f64) -> f64 {
        self.record.get(key).and_then(number).unwrap_or(unset)
    }

    fn flag(&self, key: &str) -> bool {
        self.record.get(key).is_some_and(Value::truthy)
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(int) => Some(*int as f64),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}

/// A return code; the highest one of several functions.
fn worst(retcode: &Value) -> i64 {
    match retcode {
        Value::Map(map) => map.iter().map(|(_, code)| worst(code)).max().unwrap_or(0),
        code => code.as_int().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(extra: Map) -> Plan {
        let mut record = halite_wire::map! {
            "jid" => "20261121092637195592", "pending" => vec![Value::from("c"), "d".into()],
            "active" => Value::Map(halite_wire::map! {"a" => 100.0, "b" => 100.0}),
            "done" => Value::Map(Map::new()), "failed" => Value::Map(Map::new()),
            "wait" => Vec::<Value>::new(), "batch_size" => 2, "failhard" => false,
            "batch_wait" => 0, "timeout" => 5, "gather_job_timeout" => 10, "halted" => false,
            "last_progress" => 100.0, "own" => "kept",
        };
        for (key, value) in extra.iter() {
            record.set(key.as_str().unwrap(), value.clone());
        }
        Plan::new(record)
    }

    fn publish(step: Step) -> Vec<String> {
        step.publish
    }

    #[test]
    fn a_return_makes_room_for_the_next_minion() {
        let mut plan = plan(Map::new());
        assert_eq!(plan.step(101.0), Step::default());
        assert_eq!(publish(plan.returned("a", 0.into(), 101.0)), ["c"]);
        // The second time it is an echo.
        assert_eq!(plan.returned("a", 0.into(), 102.0), Step::default());
        assert_eq!(publish(plan.returned("b", 1.into(), 102.0)), ["d"]);
        assert!(!plan.is_over());
        plan.returned("c", 0.into(), 103.0);
        plan.returned("d", 0.into(), 103.0);
        assert!(plan.is_over() && !plan.is_halted());
        let record = plan.to_map();
        assert_eq!(record.str("own"), Some("kept"));
        assert_eq!(record.get("halted"), Some(&Value::Bool(false)));
        let done = record.get("done").and_then(Value::as_map).unwrap();
        assert_eq!(done.len(), 4);
    }

    #[test]
    fn late_minions_are_given_up() {
        let mut plan = plan(Map::new());
        assert_eq!(plan.step(114.9), Step::default());
        let step = plan.step(115.0);
        assert!(step.settled);
        assert_eq!(step.publish, ["c", "d"]);
        let record = plan.to_map();
        let failed = record.get("failed").and_then(Value::as_map).unwrap();
        assert_eq!(failed.str("a"), Some("timeout"));
    }

    #[test]
    fn a_pause_keeps_places_empty() {
        let mut plan = plan(halite_wire::map! {"batch_wait" => 3});
        assert_eq!(publish(plan.returned("a", 0.into(), 101.0)), [""; 0]);
        assert_eq!(publish(plan.step(103.9)), [""; 0]);
        assert_eq!(publish(plan.step(104.0)), ["c"]);
    }

    #[test]
    fn the_first_failure_may_end_it() {
        let mut plan = plan(halite_wire::map! {"failhard" => true});
        assert_eq!(publish(plan.returned("a", 0.into(), 101.0)), ["c"]);
        let codes = Value::Map(halite_wire::map! {"test.ping" => 0, "cmd.run" => 2});
        assert_eq!(publish(plan.returned("b", codes, 101.0)), [""; 0]);
        assert!(plan.is_over() && plan.is_halted());
        let again = Plan::new(plan.to_map());
        assert!(again.is_halted());
        assert_eq!(again.to_map().str("halted_reason"), Some("failhard"));
    }

    #[test]
    fn only_who_has_the_job_counts() {
        let mut plan = plan(halite_wire::map! {"failhard" => true});
        for id in ["c", "stranger"] {
            assert_eq!(plan.returned(id, 1.into(), 101.0), Step::default(), "{id}");
        }
        assert!(!plan.is_halted() && plan.to_map().get("done").is_some_and(|d| !d.truthy()));
    }

    #[test]
    fn nothing_is_sent_and_nobody_is_late_in_a_pause() {
        let mut plan = plan(Map::new());
        plan.pause();
        assert_eq!(publish(plan.returned("a", 0.into(), 101.0)), [""; 0]);
        assert!(!plan.is_anyone_late(1000.0));
        assert_eq!(plan.step(1000.0), Step::default());
        plan.resume(1000.0);
        assert_eq!(publish(plan.step(1000.0)), ["c"]);
        assert!(!plan.is_anyone_late(1014.9) && plan.is_anyone_late(1015.0));
    }
}
