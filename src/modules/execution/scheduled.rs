//! Metadata of a scheduled job.

use halite_wire::{Map, Value};

/// Metadata of a running scheduled job; its return starts with them.
pub fn scheduled_note(id: &str, load: &Map) -> Map {
    let args = load.get("arg").and_then(Value::as_array);
    let mut out =
        halite_wire::map! {"id" => id, "fun" => load.get("fun").cloned().unwrap_or_default()};
    out.set("fun_args", unmarked(args.unwrap_or_default()));
    for key in ["schedule", "jid", "metadata"] {
        if let Some(value) = load.get(key) {
            out.set(key, value.clone());
        }
    }
    out.set("pid", i64::from(std::process::id()));
    out
}

/// Arguments in the schedule's form, without the keyword marker.
fn unmarked(args: &[Value]) -> Vec<Value> {
    let plain = |arg: &Value| match arg {
        Value::Map(map) => {
            let mut map = map.clone();
            map.remove("__kwarg__");
            Value::Map(map)
        }
        other => other.clone(),
    };
    args.iter().map(plain).collect()
}
