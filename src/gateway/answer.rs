//! Arguments of functions, and what agents of gateways return.

use halite_wire::ids::Jid;
use halite_wire::{Map, Value, pytext};

/// What a function has come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `return`.
    pub value: Value,
    /// `retcode`; 0 is success.
    pub retcode: i64,
}

impl Outcome {
    /// All went well.
    pub fn good(value: impl Into<Value>) -> Outcome {
        let value = value.into();
        Outcome { value, retcode: 0 }
    }

    /// It went wrong: how.
    pub fn bad(text: impl Into<String>, retcode: i64) -> Outcome {
        let value = Value::Str(text.into());
        Outcome { value, retcode }
    }
}

/// The `_return` load as Salt minions send it.
pub fn load(id: &str, jid: &Jid, order: &Map, outcome: Outcome) -> Map {
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

/// What a function returns of the grains (`salt/modules/grains.py`).
pub fn told(order: &Map, grains: Map) -> Value {
    let args = Args::of(order);
    match order.str("fun") {
        Some("grains.ls") => {
            let mut names: Vec<String> = grains.iter().map(|(k, _)| text(k)).collect();
            names.sort();
            names.into()
        }
        Some("grains.get") => {
            let mut words = args.words.iter();
            let found = words.next().and_then(|path| find(&grains, path));
            let default = words.next().map_or("", String::as_str);
            found.cloned().unwrap_or_else(|| default.into())
        }
        Some("grains.item") => {
            let mut out = Map::new();
            for name in &args.words {
                let found = find(&grains, name).cloned();
                out.set(name, found.unwrap_or_else(|| "".into()));
            }
            out.into()
        }
        _ => grains.into(),
    }
}

/// One grain by its name, or by a path of names with colons between.
pub fn find<'g>(grains: &'g Map, path: &str) -> Option<&'g Value> {
    if let Some(value) = grains.get(path) {
        return Some(value);
    }
    let (name, rest) = path.split_once(':')?;
    find(grains.get(name)?.as_map()?, rest)
}

/// As Python writes it.
pub fn text(value: &Value) -> String {
    pytext::str(value).into_owned()
}

/// Arguments of a job.
pub struct Args {
    /// Those without a name, as text.
    pub words: Vec<String>,
    /// `name=value`, as the CLI parsed them.
    pub named: Map,
}

impl Args {
    /// Those of an order or load: its `arg`.
    pub fn of(load: &Map) -> Args {
        let mut out = Args {
            words: Vec::new(),
            named: Map::new(),
        };
        for arg in load
            .get("arg")
            .and_then(Value::as_array)
            .unwrap_or_default()
        {
            match arg {
                Value::Map(map) if map.get("__kwarg__").is_some_and(Value::truthy) => {
                    let pairs = map.iter().filter(|(key, _)| !key.is_str("__kwarg__"));
                    for (key, value) in pairs {
                        if let Some(key) = key.as_str() {
                            out.named.set(key, value.clone());
                        }
                    }
                }
                value => out.words.push(text(value)),
            }
        }
        out
    }
}
