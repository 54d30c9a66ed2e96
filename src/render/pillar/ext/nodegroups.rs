//! `nodegroups`: the names of the minion's nodegroups (`salt/pillar/nodegroups.py`).

use super::super::Compilation;
use super::{ExtArgs, ExtResult};
use halite_target::Target;
use halite_wire::{Map, Value};

pub(super) fn run(compile: &Compilation, _: &Map, args: &ExtArgs) -> ExtResult {
    let name = args
        .text("pillar_name")?
        .filter(|n| !n.is_empty())
        .unwrap_or("nodegroups");
    let mut inside: Vec<Value> = Vec::new();
    for (group, _) in compile.options().nodegroups.iter() {
        if group.as_str().is_some_and(|group| member(compile, group)) {
            inside.push(group.clone());
        }
    }
    Ok(Value::Map(halite_wire::map! { name => inside }))
}

/// Whether the minion is in a nodegroup, by its accepted key and its cached data.
pub(super) fn member(compile: &Compilation, group: &str) -> bool {
    let groups = &compile.options().nodegroups;
    let (Some(definition), Some(fleet)) = (groups.get(group), &compile.master.context.fleet) else {
        return false;
    };
    match Target::parse(definition, "compound", None) {
        Ok(target) => fleet.matches(&compile.request.id, &target, groups),
        Err(e) => {
            log::error!("nodegroup '{group}': {e}");
            false
        }
    }
}
