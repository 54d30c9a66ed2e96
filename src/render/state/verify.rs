//! The form of high data (`salt/state.py _verify_high`).

use super::declare::id_text;
use super::{first_key, internal, is_requisite, reference};
use halite_wire::{Map, Value};

/// All errors in the form of `high`; empty if it is fine.
pub(super) fn verify(high: &Map) -> Vec<String> {
    let mut errors = Vec::new();
    for (id, body) in high.iter() {
        let name = id_text(id);
        let sls = body
            .as_map()
            .and_then(|b| b.str("__sls__"))
            .unwrap_or_default();
        if id.as_str().is_none() {
            let kind = kind(id);
            errors.push(format!(
                "ID '{name}' in SLS '{sls}' is not formed as a string, but is type {kind}. It may need to be quoted."
            ));
        } else if internal(id) {
            continue;
        }
        let Value::Map(body) = body else {
            errors.push(format!("The type {name} is not formatted as a dictionary"));
            continue;
        };
        for (state, declaration) in body.iter().filter(|(k, _)| !internal(k)) {
            let at = StateLocation {
                id: &name,
                sls,
                state: state.as_str().unwrap_or_default(),
            };
            match declaration {
                Value::Nil => errors.push(format!(
                    "ID '{name}' in SLS '{sls}' contains a short declaration ({}) with a trailing colon; without arguments the colon must go",
                    at.state
                )),
                Value::Array(list) => at.declaration(list, &mut errors),
                _ => errors.push(format!("State '{name}' in SLS '{sls}' is not formed as a list")),
            }
        }
    }
    errors
}

/// Python's name of the type of a key.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::UInt(_) => "int",
        Value::Float(_) => "float",
        _ => "NoneType",
    }
}

struct StateLocation<'a> {
    id: &'a str,
    sls: &'a str,
    state: &'a str,
}

impl StateLocation<'_> {
    fn declaration(&self, list: &[Value], errors: &mut Vec<String>) {
        let StateLocation { id, sls, state } = self;
        let mut functions: Vec<&str> = state.split_once('.').map(|(_, f)| f).into_iter().collect();
        for arg in list {
            match arg {
                Value::Str(function) => {
                    functions.push(function);
                    if function.trim().contains(' ') {
                        errors.push(format!(
                            "The function \"{function}\" in state \"{id}\" in SLS \"{sls}\" has whitespace; \
                             a function has none, perhaps this is an argument that lacks its \":\""
                        ));
                    }
                }
                Value::Map(arg) => self.argument(arg, errors),
                _ => {}
            }
        }
        match functions.len() {
            0 => errors.push(format!(
                "No function declared in state '{id}' in SLS '{sls}'"
            )),
            1 => {}
            _ => errors.push(format!(
                "Too many functions declared in state '{id}' in SLS '{sls}'. Please choose one of the following: {}",
                functions.join(", ")
            )),
        }
    }

    fn argument(&self, arg: &Map, errors: &mut Vec<String>) {
        let StateLocation { id, sls, .. } = self;
        let Some(key) = first_key(arg) else { return };
        let list = arg.get(key).and_then(Value::as_array);
        if key == "names" && list.is_none() {
            errors.push(format!(
                "The 'names' argument in state '{id}' in SLS '{sls}' needs to be formed as a list"
            ));
        }
        if !is_requisite(key) || key == "onfail_stop" {
            return;
        }
        if list.is_none() {
            errors.push(format!(
                "The {key} statement in state '{id}' in SLS '{sls}' needs to be formed as a list"
            ));
        }
        for item in list.unwrap_or_default() {
            let single = item.as_map().is_none_or(|m| m.len() == 1);
            let Some((kind, value)) = reference(item).filter(|_| single) else {
                errors.push(format!(
                    "Requisite declaration {key} in state {id} in SLS {sls} is not formed as a single key dictionary"
                ));
                continue;
            };
            if let Some((module, _)) = kind.split_once('.') {
                errors.push(format!(
                    "Invalid requisite type '{kind}' in state '{id}', in SLS '{sls}'. \
                     Requisite types must not contain dots, did you mean '{module}'?"
                ));
            }
            if matches!(value, Value::Map(_) | Value::Array(_)) {
                errors.push(format!(
                    "Illegal requisite of {key} in state '{id}' in SLS \"{sls}\": a name is expected, not a list or dictionary"
                ));
            }
        }
        if arg.len() != 1 {
            errors.push(format!(
                "Multiple dictionaries defined in argument of state '{id}' in SLS '{sls}'"
            ));
        }
    }
}
