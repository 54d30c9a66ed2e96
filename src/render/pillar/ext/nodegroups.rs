//! `nodegroups`: the names of the groups a minion is in (`salt/pillar/nodegroups.py`).

use super::super::Compilation;
use super::{ExtArgs, ExtResult};
use halite_store::keys::KeyState;
use halite_store::minions::Known;
use halite_target::Target;
use halite_wire::{Map, Value};
use std::sync::Arc;

pub(super) fn run(compile: &Compilation, _: &Map, args: &ExtArgs) -> ExtResult {
    let name = args
        .text("pillar_name")?
        .filter(|n| !n.is_empty())
        .unwrap_or("nodegroups");
    let mut inside: Vec<Value> = Vec::new();
    for (group, _) in compile.config().nodegroups.iter() {
        if group.as_str().is_some_and(|group| member(compile, group)) {
            inside.push(group.clone());
        }
    }
    Ok(Value::Map(halite_wire::map! { name => inside }))
}

/// Whether the minion is in a group, by its accepted key and the data that were last cached of
/// it, as `CkMinions.check_minions` sees it.
pub(super) fn member(compile: &Compilation, group: &str) -> bool {
    let groups = &compile.config().nodegroups;
    let Some(definition) = groups.get(group) else {
        return false;
    };
    let master = compile.master;
    let id = &compile.request.id;
    if !master
        .shared
        .keys
        .get(KeyState::Accepted, id)
        .is_ok_and(|key| key.is_some())
    {
        return false;
    }
    let known = Known {
        ids: Arc::new(vec![id.clone()]),
        cache: &master.shared.minions,
        caches_data: compile.config().minion_data_cache,
    };
    match Target::parse(definition, "compound", None) {
        Ok(target) => !target.expected(&known, groups).minions.is_empty(),
        Err(e) => {
            log::error!("nodegroup '{group}': {e}");
            false
        }
    }
}
