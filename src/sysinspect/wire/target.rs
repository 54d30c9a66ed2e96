//! Targets: whom a message is for (reference 3.3). The module `target` of this crate matches them.

use super::{DecodeError, Dialect, EncodeError, MachineId};
use halite_wire::map;
use halite_wire::{Map, Value};

/// One target structure. Empty parts are not criteria.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Machine ids (`id`), exact, any of them.
    pub ids: Vec<String>,
    /// Globs over host names (`h`), any of them.
    pub hosts: Vec<String>,
    /// Globs for the name and the value of traits (`t`), all of them.
    pub traits: Vec<(String, String)>,
    /// Session of the addressed minion (`sid`).
    pub session: String,
    /// What to run (`s`): `model/entity/state`, `model:labels` or `cmd://...`.
    pub scheme: String,
    /// Traits query (`qt`).
    pub query: String,
    /// Context (`cq`): `key:value`, separated by commas.
    pub context: String,
}

impl Target {
    /// One minion.
    pub fn id(id: &MachineId) -> Target {
        Target {
            ids: vec![id.as_str().to_owned()],
            ..Target::default()
        }
    }

    /// Every minion.
    pub fn everyone() -> Target {
        Target {
            hosts: vec!["*".to_owned()],
            ..Target::default()
        }
    }

    /// Parses the value of `t`: a list of targets or one target. Each part is a string, a list of strings, or absent.
    /// An empty string is not a criterion.
    pub(super) fn list(value: Value) -> Result<Vec<Target>, DecodeError> {
        match value {
            Value::Array(items) => items.into_iter().map(Target::one).collect(),
            one => Ok(vec![Target::one(one)?]),
        }
    }

    fn one(value: Value) -> Result<Target, DecodeError> {
        let Value::Map(map) = value else {
            return Err(DecodeError::BadTarget(
                "it is neither an object nor a list of them",
            ));
        };
        let mut seen = Vec::new();
        let mut out = Target::default();
        for (key, value) in map.0 {
            let key = key.as_str().unwrap_or_default();
            let known = ["id", "h", "t", "sid", "s", "qt", "cq"];
            let Some(key) = known.iter().find(|k| **k == key) else {
                continue;
            };
            if seen.contains(key) {
                return Err(DecodeError::BadTarget("it has a repeated key"));
            }
            seen.push(key);
            match *key {
                "id" => out.ids = texts(value)?,
                "h" => out.hosts = texts(value)?,
                "t" => out.traits = pairs(value)?,
                "sid" => out.session = text(value)?,
                "s" => out.scheme = text(value)?,
                "qt" => out.query = text(value)?,
                _ => out.context = text(value)?,
            }
        }
        Ok(out)
    }

    pub(super) fn written(targets: &[Target], dialect: Dialect) -> Result<Value, EncodeError> {
        match (dialect, targets) {
            (Dialect::Seed | Dialect::E1, targets) => {
                let list: Vec<Value> = targets.iter().map(|t| t.in_list().into()).collect();
                Ok(list.into())
            }
            (Dialect::Modern, []) => Ok(Target::default().single()?.into()),
            (Dialect::Modern, [one]) => Ok(one.single()?.into()),
            (Dialect::Modern, _) => Err(EncodeError::Target),
        }
    }

    /// All three keys, as E1 requires them.
    fn in_list(&self) -> Map {
        let traits: Map = self.traits.iter().map(|(k, v)| (k, v)).collect();
        map! {"id" => self.ids.clone(), "t" => traits, "h" => self.hosts.clone()}
    }

    fn single(&self) -> Result<Map, EncodeError> {
        let id = match self.ids.as_slice() {
            [] => "",
            [id] => id,
            _ => return Err(EncodeError::Target),
        };
        if !self.traits.is_empty() {
            return Err(EncodeError::Target);
        }
        Ok(map! {
            "id" => id,
            "sid" => &self.session,
            "s" => &self.scheme,
            "qt" => &self.query,
            "h" => self.hosts.clone(),
            "cq" => &self.context,
        })
    }
}

fn text(value: Value) -> Result<String, DecodeError> {
    match value {
        Value::Str(text) => Ok(text),
        _ => Err(DecodeError::BadTarget("a part is not a string")),
    }
}

fn texts(value: Value) -> Result<Vec<String>, DecodeError> {
    match value {
        Value::Array(items) => items.into_iter().map(text).collect(),
        Value::Str(text) if text.is_empty() => Ok(Vec::new()),
        Value::Str(text) => Ok(vec![text]),
        _ => Err(DecodeError::BadTarget(
            "id or h is neither a string nor a list",
        )),
    }
}

fn pairs(value: Value) -> Result<Vec<(String, String)>, DecodeError> {
    let Value::Map(map) = value else {
        return Err(DecodeError::BadTarget("its t is not an object"));
    };
    let pair = |(key, value): (Value, Value)| {
        let glob = match value {
            Value::Str(text) => text,
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
                serde_json::to_string(&value).unwrap_or_default()
            }
            _ => {
                return Err(DecodeError::BadTarget(
                    "the value of a trait is not a scalar",
                ));
            }
        };
        Ok((text(key)?, glob))
    };
    map.0.into_iter().map(pair).collect()
}
