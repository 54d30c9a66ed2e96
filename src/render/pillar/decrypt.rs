//! `decrypt_pillar`: decrypts parts of the compiled pillar as the last step, whatever their source
//! (`Pillar.decrypt_pillar`, `salt/utils/crypt.py decrypt`).

use super::super::functions::text_of;
use super::Compilation;
use halite_wire::{Map, Value, yaml};

impl Compilation<'_> {
    /// Decrypts what the option names. Errors are added to `_errors`.
    pub(super) fn decrypt(&self, pillar: &mut Map) {
        let wanted = &self.options().decrypt_pillar.0;
        if !wanted.truthy() {
            return;
        }
        let keys = keys(wanted);
        let mut errors = Vec::new();
        if keys.is_empty() {
            errors.push("decrypt_pillar config option is malformed".to_owned());
        }
        for (key, renderer) in keys {
            if let Err(why) = self.decrypt_key(pillar, &key, &renderer) {
                let error = format!("Failed to decrypt pillar key '{key}': {why}");
                log::error!("{error}");
                errors.push(error);
            }
        }
        if errors.is_empty() {
            return;
        }
        let errors = errors.into_iter().map(Value::from);
        match pillar.get_mut("_errors") {
            Some(Value::Array(known)) => known.extend(errors),
            _ => pillar.set("_errors", Value::Array(errors.collect())),
        }
    }

    fn decrypt_key(&self, pillar: &mut Map, key: &str, renderer: &Value) -> Result<(), String> {
        let options = self.options();
        let Some(value) = part(pillar, key, &options.decrypt_pillar_delimiter) else {
            log::debug!("Pillar key {key} not present");
            return Ok(());
        };
        let renderer = if renderer.truthy() {
            text_of(renderer)
        } else {
            options.decrypt_pillar_default.clone()
        };
        let allowed = &options.decrypt_pillar_renderers;
        let gpg = &self.master.context.gpg;
        gpg.decrypt_by(&renderer, allowed, value, false, self.deadline)
    }
}

/// Keys with their renderers, from a map, or from a list of keys and maps of one key each
/// (`repack_dictlist`); empty for anything else.
fn keys(wanted: &Value) -> Vec<(String, Value)> {
    let parsed;
    let wanted = match wanted {
        Value::Str(text) => {
            parsed = yaml::parse(text).unwrap_or_default();
            &parsed
        }
        other => other,
    };
    let pairs: Option<Vec<(String, Value)>> = match wanted {
        Value::Map(map) => return map.iter().map(|(k, v)| (text_of(k), v.clone())).collect(),
        Value::Array(items) => items
            .iter()
            .map(|item| match item {
                Value::Map(map) => match map.0.as_slice() {
                    [(key, renderer)] => Some((text_of(key), renderer.clone())),
                    _ => None,
                },
                Value::Str(_) | Value::Int(_) | Value::Float(_) => {
                    Some((text_of(item), Value::Nil))
                }
                _ => None,
            })
            .collect(),
        _ => None,
    };
    let mut out: Vec<(String, Value)> = Vec::new();
    for (key, renderer) in pairs.unwrap_or_default() {
        match out.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = renderer,
            None => out.push((key, renderer)),
        }
    }
    out
}

/// The value at a path through maps, unless it is `None` (`traverse_dict`).
fn part<'a>(pillar: &'a mut Map, key: &str, delimiter: &str) -> Option<&'a mut Value> {
    let mut words = match delimiter {
        "" => vec![key],
        delimiter => key.split(delimiter).collect(),
    }
    .into_iter();
    let mut at = pillar.get_mut(words.next()?)?;
    for word in words {
        let Value::Map(map) = at else { return None };
        at = map.get_mut(word)?;
    }
    Some(at).filter(|value| !value.is_nil())
}
