//! The queue of returns (by job) and events for an upper master. No IO (`salt/minion.py
//! SyndicManager._process_event`).

use halite_sys::log_limiter::LogLimiter;
use halite_wire::budget::Budget;
use halite_wire::ids::{Jid, parse_return_tag};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Most queued events; unlike returns, they are not stored.
const MAX_EVENTS: usize = 10_000;
/// Most returns queued in memory; the job cache has the others.
const MAX_RETURNS: usize = 50_000;
/// Most memory for queued returns, and for queued events, in bytes: a minion below may send large ones while the upper
/// master is silent.
const MAX_BYTES: usize = 64 << 20;
/// Most returns in one message.
const MAX_BATCH: usize = 500;
/// Most bytes of returns or events in one message, unless it has only one of them. The upper master refuses messages above its
/// `max_request_size`, and whatever is sent with such a one.
const BATCH_BYTES: usize = 4 << 20;
/// Largest return, in bytes; half of what `max_request_size` is by default. Nothing else says that the upper master would refuse
/// it, again and again.
const LARGEST: usize = 64 << 20;
/// Deepest nesting of what is passed on. It becomes part of a message, of which the upper master reads a hundred levels; it
/// would refuse a deeper one, and whatever is sent with it, again and again.
const DEEPEST: usize = 90;
/// Most bytes of loads of jobs in one message. With [`BATCH_BYTES`], these are fewer values than the upper master reads in a
/// message of any length.
pub const LOAD_BYTES: usize = 2 << 20;
/// Values that a return which is sent alone leaves to the rest of the message.
const SPARE_VALUES: usize = 80_000;
/// What a value takes beside its text.
const VALUE: usize = 32;

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
    /// About how many bytes these are.
    bytes: usize,
    events: VecDeque<Value>,
    event_bytes: usize,
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

/// About how many bytes a value takes, in memory and in a message.
pub fn size(value: &Value) -> usize {
    let inner = match value {
        Value::Str(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| size(key) + size(value)).sum(),
        _ => 0,
    };
    inner + VALUE
}

/// Whether a value has too many levels to be passed on.
pub fn is_too_deep(value: &Map) -> bool {
    fn levels(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
            Value::Map(map) => 1 + deepest(map),
            _ => 0,
        }
    }
    fn deepest(map: &Map) -> usize {
        let each = map
            .iter()
            .map(|(key, value)| levels(key).max(levels(value)));
        each.max().unwrap_or(0)
    }
    deepest(value) > DEEPEST
}

/// Whether a return leaves no values to the rest of a message: a master reads a number that depends on the length.
fn has_too_many_values(part: &Map) -> bool {
    let packed = msgpack::encode_map(part, Profile::Wire);
    let mut budget = Budget::of(packed.len());
    budget.take(SPARE_VALUES).is_err() || msgpack::decode_load(&packed, budget).is_err()
}

/// [`part`], without a value that is too large or too deep to be passed on.
fn bounded_part(load: &Map) -> (Value, usize) {
    let mut part = part(load);
    let all = |part: &Map| part.iter().map(|(_, value)| size(value)).sum::<usize>();
    let bytes = all(&part);
    if bytes > LARGEST || is_too_deep(&part) || (bytes > BATCH_BYTES && has_too_many_values(&part))
    {
        let text = format!(
            "This return, of about {} MiB, is too large or too deep for a syndic to pass on. The master below has it.",
            bytes >> 20
        );
        // The other fields may be what is too large or too deep.
        let small = |value: &Value| matches!(value, Value::Int(_) | Value::Bool(_));
        part.0.retain(|(_, value)| small(value));
        part.set("return", text);
    }
    let part = Value::Map(part);
    let bytes = size(&part);
    (part, bytes)
}

impl ForwardQueue {
    /// Queues a return.
    pub fn add_return(&mut self, jid: &Jid, id: &str, load: &Map) {
        if self.is_full() {
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
            let (part, bytes) = bounded_part(load);
            self.held += 1;
            self.bytes += bytes;
            job.by_id.set(id, part);
        }
    }

    /// Whether there is no room for more returns.
    pub fn is_full(&self) -> bool {
        self.held >= MAX_RETURNS || self.bytes >= MAX_BYTES
    }

    /// Queues an event that is not a return.
    pub fn add_event(&mut self, tag: &str, data: Map) {
        // A return code marks a return in another form, which is forwarded as a return.
        if data.contains("retcode") {
            return;
        }
        if is_too_deep(&data) {
            log::warn!("event {tag} is too deep to be passed on; dropped");
            return;
        }
        if self.events.len() >= MAX_EVENTS || self.event_bytes >= MAX_BYTES {
            self.lost += self.events.len() as u64;
            if self.said.tick(Instant::now()).is_some() {
                log::warn!(
                    "dropping {} events that were waiting for the upper master; {} so far",
                    self.events.len(),
                    self.lost
                );
            }
            self.events.clear();
            self.event_bytes = 0;
        }
        let event = Value::from(halite_wire::map! {"data" => data, "tag" => tag});
        self.event_bytes += size(&event);
        self.events.push_back(event);
    }

    /// Removes and returns as many events as fit into one message.
    pub fn take_events(&mut self) -> Vec<Value> {
        let mut out = Vec::new();
        let mut room = BATCH_BYTES;
        while let Some(bytes) = self.events.front().map(size)
            && (bytes <= room || out.is_empty())
        {
            room = room.saturating_sub(bytes);
            self.event_bytes = self.event_bytes.saturating_sub(bytes);
            out.extend(self.events.pop_front());
        }
        out
    }

    /// Removes and returns as many returns as fit into one message.
    pub fn take_returns(&mut self) -> Vec<(Jid, Returns)> {
        let mut out = Vec::new();
        let (mut count, mut bytes) = (0, 0);
        while let Some((jid, mut job)) = self.returns.pop_first() {
            let mut fit = 0;
            for (_, part) in job.by_id.iter() {
                let more = size(part);
                if count == MAX_BATCH || (bytes + more > BATCH_BYTES && count > 0) {
                    break;
                }
                (fit, count, bytes) = (fit + 1, count + 1, bytes + more);
            }
            let rest = Map(job.by_id.0.split_off(fit));
            let whole = rest.is_empty();
            if !whole {
                let rest = Returns {
                    by_id: rest,
                    fun: job.fun.clone(),
                    master_id: job.master_id.clone(),
                };
                self.returns.insert(jid.clone(), rest);
            }
            if fit > 0 {
                out.push((jid, job));
            }
            if !whole {
                break;
            }
        }
        self.held = self.held.saturating_sub(count);
        self.bytes = self.bytes.saturating_sub(bytes);
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
                    self.held += 1;
                    self.bytes += size(&part);
                    slot.by_id.set(id, part);
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

    #[test]
    fn large_returns_and_events_are_bounded_too() {
        let mut queue = ForwardQueue::default();
        let text = "x".repeat(1 << 20);
        for n in 0..500 {
            let id = format!("m{n}");
            queue.add_return(&jid(n % 50), &id, &map! {"return" => text.as_str()});
            queue.add_event("t", map! {"n" => text.as_str()});
        }
        assert!(queue.overflowed && queue.held <= 64, "{}", queue.held);
        assert!(queue.events.len() <= 64, "{}", queue.events.len());
        let (held, bytes) = (queue.held, queue.bytes);
        let mut batches = Vec::new();
        while queue.has_returns() {
            let batch = queue.take_returns();
            let returns: usize = batch.iter().map(|(_, job)| job.by_id.len()).sum();
            assert!((1..=4).contains(&returns), "{returns}");
            batches.push(batch);
        }
        assert_eq!((queue.held, queue.bytes), (0, 0));
        batches.into_iter().for_each(|batch| queue.put_back(batch));
        assert_eq!((queue.held, queue.bytes), (held, bytes));
        while queue.event_bytes > 0 {
            assert!((1..=4).contains(&queue.take_events().len()));
        }
        assert!(queue.events.is_empty());
    }

    fn is_readable(message: &Map) -> bool {
        let packed = msgpack::encode_map(message, Profile::Wire);
        msgpack::decode_load(&packed, Budget::of(packed.len())).is_ok()
    }

    /// Each of these is accepted from a minion, but not two of them in a message.
    #[test]
    fn what_has_too_many_values_for_the_upper_master_is_not_sent() {
        let mut queue = ForwardQueue::default();
        for count in [100_000, 150_000, 200_000, 262_000, 300_000, 349_000] {
            let load = map! {"return" => vec![Value::Nil; count]};
            assert!(is_readable(&load));
            queue.add_return(&jid(1), &format!("m{count}"), &load);
        }
        let mut whole = 0;
        while queue.has_returns() {
            let job = queue.take_returns().remove(0).1;
            whole += job
                .by_id
                .iter()
                .filter(|(_, part)| size(part) > 1 << 20)
                .count();
            let job_load = vec![Value::Nil; LOAD_BYTES / VALUE];
            let job = map! {"return" => job.by_id, "load" => map! {"arg" => job_load}};
            assert!(is_readable(&map! {"load" => vec![Value::from(job)]}));
        }
        assert_eq!(whole, 3);
    }

    /// A single one would keep the returns of all others from the upper master.
    #[test]
    fn what_is_too_deep_for_the_upper_master_is_not_sent() {
        let nested = |levels: usize| {
            let deeper = |value: Value, _| Value::Array(vec![value]);
            (0..levels).fold(Value::from(1), deeper)
        };
        let mut queue = ForwardQueue::default();
        for levels in 0..100 {
            let id = format!("m{levels}");
            queue.add_return(
                &jid(1),
                &id,
                &map! {"return" => nested(levels), "retcode" => 0},
            );
            queue.add_return(
                &jid(2),
                &id,
                &map! {"return" => 1, "fun_args" => nested(levels)},
            );
            queue.add_event("t", map! {"n" => nested(levels)});
        }
        let (events, returns) = (queue.take_events(), queue.take_returns());
        assert_eq!((events.len(), returns.len()), (DEEPEST + 1, 2));
        let jobs: Vec<Value> = returns
            .into_iter()
            .map(|(_, job)| map! {"return" => job.by_id}.into())
            .collect();
        for message in [map! {"events" => events}, map! {"load" => jobs}] {
            assert!(is_readable(&message));
        }
    }

    #[test]
    fn what_no_message_holds_is_not_tried_again_and_again() {
        let mut queue = ForwardQueue::default();
        let load = map! {"return" => "x".repeat(LARGEST + 1), "retcode" => 3};
        queue.add_return(&jid(1), "big", &load);
        queue.add_return(&jid(2), "small", &map! {"return" => 1});
        let batch = queue.take_returns();
        assert_eq!(batch.len(), 2);
        let part = batch[0].1.by_id.get("big").and_then(Value::as_map).unwrap();
        assert_eq!(part.get("retcode"), Some(&3.into()));
        assert!(part.str("return").unwrap().contains("64 MiB"));
    }
}
