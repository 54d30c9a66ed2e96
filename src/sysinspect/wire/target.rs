//! Whom a message is for (reference 3.3). How it is matched: `target::sysinspect`.

use super::{DecodeError, Dialect, EncodeError, MachineId};
use halite_wire::map;
use halite_wire::{Map, Value};

/// One target structure. Empty parts are no criteria.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Machine ids (`id`), exact, any of them.
    pub ids: Vec<String>,
    /// Globs over host names (`h`), any of them.
    pub hosts: Vec<String>,
    /// Glob over the name of a trait to glob over its value (`t`), all of them.
    pub traits: Vec<(String, String)>,
    /// Session of the addressed minion (`sid`).
    pub session: String,
    /// What to run (`s`): `model/entity/state`, `model:labels` or `cmd://...`.
    pub scheme: String,
    /// Traits query (`qt`).
    pub query: String,
    /// Context (`cq`): `key:value` with commas between.
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

    /// Reads what stands under `t`: a list of targets or one target, each part a text or a list
    /// of texts, or absent. An empty text is no criterion.
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
                return Err(DecodeError::BadTarget("it has a key twice"));
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
        _ => Err(DecodeError::BadTarget("a part that is a text is none")),
    }
}

fn texts(value: Value) -> Result<Vec<String>, DecodeError> {
    match value {
        Value::Array(items) => items.into_iter().map(text).collect(),
        Value::Str(text) if text.is_empty() => Ok(Vec::new()),
        Value::Str(text) => Ok(vec![text]),
        _ => Err(DecodeError::BadTarget(
            "id or h is neither a text nor a list",
        )),
    }
}

fn pairs(value: Value) -> Result<Vec<(String, String)>, DecodeError> {
    let Value::Map(map) = value else {
        return Err(DecodeError::BadTarget("t inside is not an object"));
    };
    let pair = |(key, value): (Value, Value)| {
        let glob = match value {
            Value::Str(text) => text,
            Value::Bool(_) | Value::Int(_) | Value::UInt(_) | Value::Float(_) => {
                serde_json::to_string(&value).unwrap_or_default()
            }
            _ => return Err(DecodeError::BadTarget("the value of a trait is no scalar")),
        };
        Ok((text(key)?, glob))
    };
    map.0.into_iter().map(pair).collect()
}
