//! Arguments of functions, and what is returned.

use super::super::grains::find;
use super::super::words::Say;
use super::Step;
use crate::wire::ids::Jid;
use crate::wire::sysinspect::{Code, MachineId};
use crate::wire::{Map, Value, pytext};

/// What a function has come to.
pub(super) struct Outcome {
    pub value: Value,
    pub retcode: i64,
}

impl Outcome {
    pub fn good(value: impl Into<Value>) -> Outcome {
        let value = value.into();
        Outcome { value, retcode: 0 }
    }

    pub fn bad(text: impl Into<String>, retcode: i64) -> Outcome {
        let value = Value::Str(text.into());
        Outcome { value, retcode }
    }
}

pub(super) fn retcode(code: Code) -> i64 {
    match code {
        Code::Undef | Code::Success => 0,
        // "Equal to 1 of POSIX", says the seed.
        Code::GeneralFailure => 1,
        other => i64::try_from(other.number()).unwrap_or(i64::MAX),
    }
}

pub(super) fn returned(id: &MachineId, jid: &Jid, order: &Map, outcome: Outcome) -> Step {
    let load = load(id, jid, order, outcome);
    Step::Return(id.clone(), jid.clone(), load)
}

/// The `_return` load as Salt minions send it.
pub(super) fn load(id: &MachineId, jid: &Jid, order: &Map, outcome: Outcome) -> Map {
    let copy = |key: &str| order.get(key).cloned().unwrap_or_default();
    let mut load = crate::map! {
        "cmd" => "_return", "id" => id.as_str(), "success" => outcome.retcode == 0,
        "return" => outcome.value, "retcode" => outcome.retcode, "jid" => jid.as_str(),
        "fun" => copy("fun"), "fun_args" => copy("arg"),
    };
    if let Some(user) = order.get("user") {
        load.set("user", user.clone());
    }
    load
}

/// What a function returns of the grains (`salt/modules/grains.py`).
pub(super) fn told(order: &Map, grains: Map) -> Value {
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

pub(super) fn text(value: &Value) -> String {
    pytext::str(value).into_owned()
}

/// Arguments of a job.
pub(super) struct Args {
    pub words: Vec<String>,
    pub named: Map,
}

impl Args {
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

    /// The command of `sysinspect.call`.
    pub fn command(self) -> Option<Say> {
        let mut words = self.words.into_iter();
        let scheme = words.next().filter(|s| !s.trim().is_empty())?;
        let context = self
            .named
            .iter()
            .map(|(key, value)| (text(key), text(value)));
        Some(Say::Command {
            scheme,
            words: words.collect(),
            context: context.collect(),
        })
    }
}
