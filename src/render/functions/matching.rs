//! `match.*`: whether the minion matches a target (`salt/modules/match.py`).

use super::{Call, CallError, CallResult, Function, FunctionContext, Run, text_of};
use crate::filter_by;
use crate::merge::MergeError;
use halite_target::{Subject, Target};
use halite_wire::{Map, Value};

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

struct TargetSubject<'a> {
    id: String,
    scope: &'a FunctionContext,
}

impl Subject for TargetSubject<'_> {
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
        Some(&self.scope.options.nodegroups)
    }
}

fn matches(scope: &FunctionContext, call: &Call, tgt: &Value, kind: &str) -> bool {
    let id = call
        .some("minion_id")
        .map_or_else(|| scope.id.to_string(), text_of);
    let delimiter = call.some("delimiter").map(text_of);
    Target::parse(tgt, kind, delimiter.as_deref())
        .is_ok_and(|t| t.matches(&TargetSubject { id, scope }))
}

fn is(scope: &FunctionContext, call: &Call, kind: &str) -> CallResult {
    let tgt = call.get("tgt").cloned().unwrap_or_default();
    Ok(matches(scope, call, &tgt, kind).into())
}

fn kind(call: &Call) -> String {
    match call.some("tgt_type") {
        None => "compound".to_owned(),
        Some(_) => call.text("tgt_type"),
    }
}

fn lookup(call: &Call) -> Map {
    let table = call.get("lookup").and_then(Value::as_map);
    table.cloned().unwrap_or_default()
}

impl From<MergeError> for CallError {
    fn from(e: MergeError) -> CallError {
        CallError::Type(e.to_string())
    }
}

fn filter_by(scope: &FunctionContext, call: &Call) -> CallResult {
    let kind = kind(call);
    let default = call
        .get("default")
        .cloned()
        .unwrap_or_else(|| "default".into());
    let over = match call.some("merge") {
        None => None,
        Some(Value::Map(over)) => Some((over, call.flag("merge_lists", false))),
        Some(_) => {
            let text = "filter_by merge argument must be a dictionary.";
            return Err(CallError::Other(text.into()));
        }
    };
    let over = over.filter(|(over, _)| !over.is_empty());
    let found = filter_by::filter_by(&lookup(call), &default, over, |key| {
        Ok::<_, CallError>(matches(scope, call, key, &kind))
    })?;
    Ok(found.unwrap_or_default())
}

fn search_by(scope: &FunctionContext, call: &Call) -> CallResult {
    let kind = kind(call);
    filter_by::search_by(&lookup(call), |tgt| Ok(matches(scope, call, tgt, &kind)))
}
