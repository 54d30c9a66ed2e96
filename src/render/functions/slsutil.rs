//! `slsutil.*` (`salt/modules/slsutil.py`).

use super::{Call, CallError, CallResult, Function, FunctionContext, Run, text_of};
use crate::merge::{MergeStrategy, Merger};
use crate::pipeline::{render_json, render_yaml};
use halite_wire::{Map, Value, yaml};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "slsutil.merge",
        params: &["obj_a", "obj_b", "strategy", "renderer", "merge_lists"],
        required: 2,
        run: Run::Data(merge),
    },
    Function {
        name: "slsutil.merge_all",
        params: &["lst", "strategy", "renderer", "merge_lists"],
        required: 1,
        run: Run::Data(merge_all),
    },
    Function {
        name: "slsutil.renderer",
        params: &["path", "string", "default_renderer", "**"],
        required: 0,
        run: Run::Data(renderer),
    },
    Function {
        name: "slsutil.serialize",
        params: &["serializer", "obj", "**"],
        required: 2,
        run: Run::Data(serialize),
    },
    Function {
        name: "slsutil.deserialize",
        params: &["serializer", "stream_or_string", "**"],
        required: 2,
        run: Run::Data(deserialize),
    },
    Function {
        name: "slsutil.boolstr",
        params: &["value", "true", "false"],
        required: 1,
        run: Run::Data(boolstr),
    },
    Function {
        name: "slsutil.file_exists",
        params: &["path", "saltenv"],
        required: 1,
        run: Run::Data(|s, c| Ok((s.find)(&c.text("path")).is_some().into())),
    },
];

fn merger(call: &Call) -> Merger {
    let word = |name: &str, default: &str| match call.some(name) {
        None => default.to_owned(),
        Some(value) => text_of(value),
    };
    Merger {
        strategy: MergeStrategy::of(&word("strategy", "smart"), &word("renderer", "yaml")),
        lists: call.flag("merge_lists", false),
    }
}

fn not_maps() -> CallError {
    CallError::Type("Cannot update using non-dict types in dictupdate.update()".into())
}

fn merge(_: &FunctionContext, call: &Call) -> CallResult {
    let (Some(Value::Map(a)), Some(Value::Map(b))) = (call.get("obj_a"), call.get("obj_b")) else {
        return Err(not_maps());
    };
    Ok(Value::Map(merger(call).merge(a.clone(), b)))
}

fn merge_all(_: &FunctionContext, call: &Call) -> CallResult {
    let merger = merger(call);
    let mut out = Map::new();
    for item in call
        .get("lst")
        .and_then(Value::as_array)
        .unwrap_or_default()
    {
        out = merger.merge_value(out, item).map_err(|_| not_maps())?;
    }
    Ok(Value::Map(out))
}

/// Renders a text, or a file of the pillar roots.
fn renderer(scope: &FunctionContext, call: &Call) -> CallResult {
    let pipe = match call.some("default_renderer") {
        None => "jinja|yaml".to_owned(),
        Some(_) => call.text("default_renderer"),
    };
    let (text, name) = match (call.some("path"), call.some("string")) {
        (Some(path), _) => {
            let path = text_of(path);
            let name = path.strip_prefix("salt://").unwrap_or(&path);
            let file = (scope.find)(name);
            let file = file.ok_or_else(|| {
                CallError::Other(format!("{path} is not found in the pillar roots"))
            })?;
            (
                file.text.to_string(),
                file.path.to_string_lossy().into_owned(),
            )
        }
        (None, Some(string)) => (text_of(string), ":string:".to_owned()),
        (None, None) => {
            return Err(CallError::Function(
                "either path or string must be given".into(),
            ));
        }
    };
    (scope.render)(&text, &name, &pipe, &call.more).map_err(CallError::Other)
}

fn serialize(_: &FunctionContext, call: &Call) -> CallResult {
    let obj = call.get("obj").cloned().unwrap_or_default();
    match call.text("serializer").as_str() {
        "json" => serde_json::to_string(&obj)
            .map(Value::from)
            .map_err(|e| CallError::Other(e.to_string())),
        "yaml" => Ok(yaml::emit(&obj, true).into()),
        other => Err(CallError::Function(format!(
            "Serializer '{other}' is not available on this master"
        ))),
    }
}

fn deserialize(_: &FunctionContext, call: &Call) -> CallResult {
    let text = call.text("stream_or_string");
    let result = match call.text("serializer").as_str() {
        "json" => render_json(&text),
        "yaml" => render_yaml(&text),
        other => {
            return Err(CallError::Function(format!(
                "Serializer '{other}' is not available on this master"
            )));
        }
    };
    result.map_err(|e| CallError::Other(e.to_string()))
}

fn boolstr(_: &FunctionContext, call: &Call) -> CallResult {
    let word = |name: &str| call.get(name).cloned().unwrap_or_else(|| name.into());
    let yes = match call.get("value") {
        Some(Value::Str(text)) => {
            matches!(text.to_lowercase().as_str(), "true" | "yes" | "on" | "1")
        }
        other => other.is_some_and(Value::truthy),
    };
    Ok(word(if yes { "true" } else { "false" }))
}
