//! `match.*`: whether the minion is meant by a target (`salt/modules/match.py`).

use super::{Call, Function, Outcome, Run, Scope, text_of};
use crate::target::{Subject, Target};
use crate::wire::{Map, Value};

const TGT: &[&str] = &["tgt", "minion_id"];
const DATA: &[&str] = &["tgt", "delimiter", "minion_id"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "match.compound",
        params: TGT,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "compound")),
    },
    Function {
        name: "match.glob",
        params: TGT,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "glob")),
    },
    Function {
        name: "match.pcre",
        params: TGT,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "pcre")),
    },
    Function {
        name: "match.list",
        params: TGT,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "list")),
    },
    Function {
        name: "match.ipcidr",
        params: &["tgt"],
        required: 1,
        run: Run::Data(|s, c| is(s, c, "ipcidr")),
    },
    Function {
        name: "match.grain",
        params: DATA,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "grain")),
    },
    Function {
        name: "match.grain_pcre",
        params: DATA,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "grain_pcre")),
    },
    Function {
        name: "match.pillar",
        params: DATA,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "pillar")),
    },
    Function {
        name: "match.pillar_pcre",
        params: DATA,
        required: 1,
        run: Run::Data(|s, c| is(s, c, "pillar_pcre")),
    },
    Function {
        name: "match.filter_by",
        params: &[
            "lookup",
            "tgt_type",
            "minion_id",
            "merge",
            "merge_lists",
            "default",
        ],
        required: 1,
        run: Run::Data(filter_by),
    },
    Function {
        name: "match.search_by",
        params: &["lookup", "tgt_type", "minion_id"],
        required: 1,
        run: Run::Data(search_by),
    },
];

struct About<'a> {
    id: String,
    scope: &'a Scope,
}

impl Subject for About<'_> {
    fn id(&self) -> &str {
        &self.id
    }

    fn grains(&self) -> &Map {
        &self.scope.grains
    }

    fn pillar(&self) -> &Map {
        &self.scope.pillar
    }

    fn nodegroups(&self) -> Option<&Map> {
        Some(&self.scope.config.nodegroups)
    }
}

fn meant(scope: &Scope, call: &Call, tgt: &Value, kind: &str) -> bool {
    let id = call
        .some("minion_id")
        .map_or_else(|| scope.id.to_string(), text_of);
    let delimiter = call.some("delimiter").map(text_of);
    Target::parse(tgt, kind, delimiter.as_deref()).is_ok_and(|t| t.matches(&About { id, scope }))
}

fn is(scope: &Scope, call: &Call, kind: &str) -> Outcome {
    let tgt = call.get("tgt").cloned().unwrap_or_default();
    Ok(meant(scope, call, &tgt, kind).into())
}

fn kind(call: &Call) -> String {
    match call.some("tgt_type") {
        None => "compound".to_owned(),
        Some(_) => call.text("tgt_type"),
    }
}

/// The value of the first key that means the minion, or of `default`.
fn filter_by(scope: &Scope, call: &Call) -> Outcome {
    let none = Map::new();
    let table = call.get("lookup").and_then(Value::as_map).unwrap_or(&none);
    let kind = kind(call);
    let hit = table.iter().find(|(key, _)| meant(scope, call, key, &kind));
    let default = call
        .get("default")
        .cloned()
        .unwrap_or_else(|| "default".into());
    let found = hit.or_else(|| table.iter().find(|(key, _)| *key == default));
    let found = found.map(|(_, value)| value.clone());
    match (found, call.some("merge")) {
        (Some(Value::Map(mut own)), Some(Value::Map(merge))) => {
            crate::render::merge::update(&mut own, merge, call.flag("merge_lists", false));
            Ok(Value::Map(own))
        }
        (None, Some(merge)) => Ok(merge.clone()),
        (found, _) => Ok(found.unwrap_or_default()),
    }
}

/// The names whose targets, one or several, mean the minion; `None` without any.
fn search_by(scope: &Scope, call: &Call) -> Outcome {
    let none = Map::new();
    let table = call.get("lookup").and_then(Value::as_map).unwrap_or(&none);
    let kind = kind(call);
    let found = table.iter().filter(|(_, targets)| {
        let targets = targets.as_array().unwrap_or(std::slice::from_ref(targets));
        targets.iter().any(|tgt| meant(scope, call, tgt, &kind))
    });
    let names: Vec<Value> = found.map(|(name, _)| name.clone()).collect();
    Ok(if names.is_empty() {
        Value::Nil
    } else {
        names.into()
    })
}
