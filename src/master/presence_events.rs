//! Events about who is connected (`salt/master.py Maintenance.handle_presence`).

use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::collections::BTreeSet;

/// Tag of the event with all connected minions.
pub const PRESENT: &str = "salt/presence/present";
/// Tag of the event with those that have come or gone.
const CHANGE: &str = "salt/presence/change";

/// Who was connected when that was told last.
#[derive(Debug, Default)]
pub struct PresenceEvents(BTreeSet<MinionId>);

impl PresenceEvents {
    /// What is to be told: changes, if any, and who is connected.
    pub fn next(&mut self, present: BTreeSet<MinionId>) -> Vec<(String, Map)> {
        fn list<'a>(ids: impl Iterator<Item = &'a MinionId>) -> Value {
            Value::Array(ids.map(Value::from).collect())
        }
        let (new, lost) = (present.difference(&self.0), self.0.difference(&present));
        let change = halite_wire::map! {"new" => list(new), "lost" => list(lost)};
        let all = halite_wire::map! {"present" => list(present.iter())};
        let mut events = vec![(PRESENT.to_owned(), all)];
        if present != self.0 {
            events.insert(0, (CHANGE.to_owned(), change));
        }
        self.0 = present;
        events
    }

    /// Another master has told who is connected, with the event [`PRESENT`].
    pub fn told(&mut self, data: &Map) {
        let ids = data.get("present").and_then(Value::as_array);
        let ids = ids.unwrap_or_default().iter();
        self.0 = ids.filter_map(|id| id.as_str()?.parse().ok()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[&str]) -> BTreeSet<MinionId> {
        ids.iter().map(|id| id.parse().unwrap()).collect()
    }

    fn list(ids: &[&str]) -> Value {
        Value::Array(ids.iter().map(|id| (*id).into()).collect())
    }

    fn change(new: &[&str], lost: &[&str]) -> (String, Map) {
        let data = halite_wire::map! {"new" => list(new), "lost" => list(lost)};
        (CHANGE.to_owned(), data)
    }

    fn present(ids: &[&str]) -> (String, Map) {
        let data = halite_wire::map! {"present" => list(ids)};
        (PRESENT.to_owned(), data)
    }

    #[test]
    fn presence_tells_who_came_and_went() {
        let mut p = PresenceEvents::default();
        assert_eq!(p.next(set(&[])), [present(&[])]);
        let first = p.next(set(&["a", "b"]));
        assert_eq!(first, [change(&["a", "b"], &[]), present(&["a", "b"])]);
        assert_eq!(p.next(set(&["a", "b"])), [present(&["a", "b"])]);
        let second = p.next(set(&["b", "c"]));
        assert_eq!(second, [change(&["c"], &["a"]), present(&["b", "c"])]);
    }

    /// Whoever leads next goes on from what the one before has told.
    #[test]
    fn the_next_teller_knows_what_was_told() {
        let mut p = PresenceEvents::default();
        p.told(&present(&["a", "b"]).1);
        let first = p.next(set(&["b"]));
        assert_eq!(first, [change(&[], &["a"]), present(&["b"])]);
        p.told(&halite_wire::map! {"present" => "garbage"});
        assert_eq!(p.next(set(&[])), [present(&[])]);
    }
}
