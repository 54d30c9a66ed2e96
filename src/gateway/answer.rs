//! Arguments of functions, and the returns of a gateway's agents.

use halite_wire::ids::Jid;
use halite_wire::yaml::job_input;
use halite_wire::{Map, Value, pytext};

/// The result of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionResult {
    /// `return`.
    pub value: Value,
    /// `retcode`; 0 is success.
    pub retcode: i64,
}

impl FunctionResult {
    /// Success, with this return value.
    pub fn success(value: impl Into<Value>) -> FunctionResult {
        let value = value.into();
        FunctionResult { value, retcode: 0 }
    }

    /// Failure, with this text as the return value.
    pub fn failure(text: impl Into<String>, retcode: i64) -> FunctionResult {
        let value = Value::Str(text.into());
        FunctionResult { value, retcode }
    }
}

/// The `_return` load of a job, as Salt minions send it.
pub fn return_load(id: &str, jid: &Jid, order: &Map, outcome: FunctionResult) -> Map {
    let copy = |key: &str| order.get(key).cloned().unwrap_or_default();
    let mut load = halite_wire::map! {
        "cmd" => "_return", "id" => id, "success" => outcome.retcode == 0,
        "return" => outcome.value, "retcode" => outcome.retcode, "jid" => jid.as_str(),
        "fun" => copy("fun"), "fun_args" => copy("arg"),
    };
    if let Some(user) = order.get("user") {
        load.set("user", user.clone());
    }
    load
}

/// The return value of `grains.ls`, `grains.get`, `grains.item` and `grains.items` (`salt/modules/grains.py`).
pub fn grains_result(order: &Map, grains: Map) -> Value {
    let args = Args::of(order);
    match order.str("fun") {
        Some("grains.ls") => {
            let mut names: Vec<String> = grains.iter().map(|(k, _)| text(k)).collect();
            names.sort();
            names.into()
        }
        Some("grains.get") => {
            let mut positional = args.positional.iter();
            let found = positional.next().and_then(|path| find(&grains, path));
            let default = positional.next().map_or("", String::as_str);
            found.cloned().unwrap_or_else(|| default.into())
        }
        Some("grains.item") => {
            let mut out = Map::new();
            for name in &args.positional {
                let found = find(&grains, name).cloned();
                out.set(name, found.unwrap_or_else(|| "".into()));
            }
            out.into()
        }
        _ => grains.into(),
    }
}

/// Looks up a grain by its name, or by a path with colons.
pub fn find<'g>(grains: &'g Map, path: &str) -> Option<&'g Value> {
    if let Some(value) = grains.get(path) {
        return Some(value);
    }
    let (name, rest) = path.split_once(':')?;
    find(grains.get(name)?.as_map()?, rest)
}

/// The value as Python's `str` shows it.
pub fn text(value: &Value) -> String {
    pytext::str(value).into_owned()
}

/// An argument as text. The CLI parses what looks like a list or a map; here it is JSON again, as it was most likely
/// written.
pub fn argument(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Map(_) => serde_json::to_string(value).unwrap_or_default(),
        value => text(value),
    }
}

/// The arguments of a job.
pub struct Args {
    /// Positional arguments, as text.
    pub positional: Vec<String>,
    /// Keyword arguments (`name=value`), as the CLI parsed them.
    pub named: Map,
}

impl Args {
    /// Reads `arg` of a job or load, as minions and the permissions of users do.
    pub fn of(load: &Map) -> Args {
        let args = load.get("arg").and_then(Value::as_array);
        let (positional, keyword) = job_input(args.unwrap_or_default());
        let mut named = Map::new();
        for (name, value) in keyword.0 {
            if let Value::Str(name) = name {
                named.set(name, value);
            }
        }
        Args {
            positional: positional.iter().map(argument).collect(),
            named,
        }
    }
}
