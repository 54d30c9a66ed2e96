//! Checks whether all minions of a job belong to a target for which a user has permissions.

use halite_target::{DataQuery, Inventory, MinionId, QueryResults, RegexLimit, Target};
use halite_wire::{Map, Value};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

/// Whether every one of `minions` belongs to the compound target `scope` (`salt/utils/minions.py
/// CkMinions.validate_tgt`).
///
/// A minion belongs only if that is certain: if the target needs its grains, pillar or address, and they are
/// not cached, it does not, not even under `not`.
pub fn covers(
    scope: &str,
    minions: &[String],
    inventory: &dyn Inventory,
    nodegroups: &Map,
) -> bool {
    let members = members(scope, inventory, nodegroups);
    let allowed: HashSet<&str> = members.iter().map(MinionId::as_str).collect();
    minions.iter().all(|id| allowed.contains(id.as_str()))
}

/// The minions that certainly belong to the compound target `scope`; none if it is invalid.
pub fn members(scope: &str, inventory: &dyn Inventory, nodegroups: &Map) -> HashSet<MinionId> {
    let target = match Target::parse(&Value::from(scope), "compound", None) {
        Ok(target) => target,
        Err(e) => {
            log::error!("the permission for {scope:?} is not a valid target: {e}");
            return HashSet::new();
        }
    };
    let strict = Strict {
        inner: inventory,
        unknown: RefCell::default(),
    };
    let expected = target.expected(&strict, nodegroups);
    if let Some(why) = expected.error {
        log::error!("the permission for {scope:?} grants nothing: {why}");
        return HashSet::new();
    }
    let unknown = strict.unknown.into_inner();
    let minions = expected.minions.into_iter();
    minions.filter(|id| !unknown.contains(id)).collect()
}

/// Records the minions about which unknown data was requested.
struct Strict<'a> {
    inner: &'a dyn Inventory,
    unknown: RefCell<HashSet<MinionId>>,
}

impl Strict<'_> {
    fn record_missing(&self, id: &MinionId, found: Option<Arc<Map>>) -> Option<Arc<Map>> {
        if found.is_none() {
            self.unknown.borrow_mut().insert(id.clone());
        }
        found
    }
}

/// Query results that record the minions without data.
struct Noted<'a> {
    strict: &'a Strict<'a>,
    inner: Box<dyn QueryResults + 'a>,
}

impl QueryResults for Noted<'_> {
    fn get(&self, at: usize) -> Result<Option<bool>, RegexLimit> {
        let found = self.inner.get(at)?;
        if found.is_none()
            && let Some(id) = self.strict.ids().get(at)
        {
            self.strict.unknown.borrow_mut().insert(id.clone());
        }
        Ok(found)
    }
}

impl Inventory for Strict<'_> {
    fn ids(&self) -> &[MinionId] {
        self.inner.ids()
    }

    fn contains(&self, id: &str) -> bool {
        self.inner.contains(id)
    }

    fn grains(&self, id: &MinionId) -> Option<Arc<Map>> {
        let found = if self.inner.caches_data() {
            self.inner.grains(id)
        } else {
            None
        };
        self.record_missing(id, found)
    }

    fn pillar(&self, id: &MinionId) -> Option<Arc<Map>> {
        let found = if self.inner.caches_data() {
            self.inner.pillar(id)
        } else {
            None
        };
        self.record_missing(id, found)
    }

    fn query<'b>(&'b self, question: DataQuery<'b>) -> Option<Box<dyn QueryResults + 'b>> {
        if !self.inner.caches_data() {
            return None;
        }
        let inner = self.inner.query(question)?;
        Some(Box::new(Noted {
            strict: self,
            inner,
        }))
    }

    /// Otherwise a target by grains would match everybody.
    fn caches_data(&self) -> bool {
        true
    }
}
