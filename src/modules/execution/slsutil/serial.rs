//! Serializers (`salt/serializers`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use halite_jinja::{Environment, EnvironmentOptions, Obj};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value, yaml};

fn wrong(class: &str, text: impl Into<String>) -> CallError {
    CallError::raised(&format!("salt.serializers.{class}"), text)
}

fn unknown(name: &str) -> CallError {
    CallError::Command(format!("Serializer '{name}' not found."))
}

fn option<'a>(call: &'a Call<'_>, name: &str) -> &'a Value {
    call.bound.kwargs.get(name).unwrap_or(&Value::Nil)
}

pub fn serialize(call: &mut Call<'_>) -> Result {
    let obj = call.arg("obj");
    let name = python::str(call.arg("serializer"));
    match name.as_str() {
        "json" => json(call, obj),
        "yaml" if option(call, "default_flow_style").as_bool() == Some(false) => {
            let text = yaml::emit(obj, true);
            Ok(text.trim_end_matches('\n').into())
        }
        "yaml" if option(call, "default_flow_style").truthy() => {
            Ok(yaml::emit_flow_lines(obj).into())
        }
        "yaml" => Ok(yaml::emit_leaves(obj).into()),
        "msgpack" => Ok(Value::Bytes(msgpack::encode(obj, Profile::Local))),
        "configparser" => ini(obj),
        _ => Err(unknown(&name)),
    }
}

/// The template filter writes JSON like Python.
fn json(call: &Call<'_>, obj: &Value) -> Result {
    let variables = vec![
        ("obj".to_owned(), Obj::from(obj)),
        (
            "sort".to_owned(),
            Obj::from(&Value::from(option(call, "sort_keys").truthy())),
        ),
        ("indent".to_owned(), Obj::from(option(call, "indent"))),
    ];
    let template = "{{ obj | json(sort_keys=sort, indent=indent) }}";
    Environment::new(EnvironmentOptions::default())
        .render(template, "json", variables)
        .map(Value::from)
        .map_err(|e| wrong("SerializationError", e.message()))
}

fn ini(obj: &Value) -> Result {
    let Value::Map(sections) = obj else {
        let class = python::class(obj);
        let text = format!("configparser can only serialize dictionaries, not {class}");
        return Err(wrong("SerializationError", text));
    };
    let mut out = String::new();
    for (section, keys) in sections.iter() {
        out.push_str(&format!("[{}]\n", python::str(section)));
        let Value::Map(keys) = keys else {
            let class = python::type_name(keys);
            let text = format!("'{class}' object has no attribute 'items'");
            return Err(wrong("SerializationError", text));
        };
        for (key, value) in keys.iter() {
            if value.is_nil() {
                return Err(wrong("SerializationError", "option values must be strings"));
            }
            let key = python::str(key).to_lowercase();
            let value = python::str(value).replace('\n', "\n\t");
            out.push_str(&format!("{key} = {value}\n"));
        }
        out.push('\n');
    }
    Ok(out.into())
}

pub fn deserialize(call: &mut Call<'_>) -> Result {
    let given = call.arg("stream_or_string");
    let name = python::str(call.arg("serializer"));
    let bytes = given.as_bytes().unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let bad = |text: String| wrong("DeserializationError", text);
    match name.as_str() {
        "json" | "yaml" | "configparser" | "msgpack" if given.as_bytes().is_none() => {
            let class = python::type_name(given);
            Err(bad(format!("'{class}' object has no attribute 'read'")))
        }
        "json" => halite_wire::json::parse(text.as_bytes()).map_err(|e| bad(e.to_string())),
        "yaml" => yaml::parse(&text).map_err(|e| bad(e.message)),
        "msgpack" => msgpack::decode(bytes).map_err(|e| bad(e.to_string())),
        "configparser" => Ok(sections(&text).map_err(bad)?.into()),
        _ => Err(unknown(&name)),
    }
}

/// Sections of an INI file with their keys; indented lines continue a value.
fn sections(text: &str) -> Result<Map, String> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        let inside = bare.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let current = found.last_mut().map(|(_, keys)| keys);
        match (current, inside) {
            (_, Some((name, _))) if !line.starts_with(char::is_whitespace) => {
                found.push((name.to_owned(), Vec::new()));
            }
            (None, _) => {
                return Err(format!(
                    "File contains no section headers.\nfile: '<???>', line: 1\n{}",
                    python::repr(&format!("{line}\n").into())
                ));
            }
            (Some(keys), _) => match (line.starts_with(char::is_whitespace), keys.last_mut()) {
                (true, Some((_, value))) => value.push_str(&format!("\n{bare}")),
                _ => {
                    let (key, value) = bare.split_once(['=', ':']).unwrap_or((bare, ""));
                    keys.push((key.trim().to_lowercase(), value.trim().to_owned()));
                }
            },
        }
    }
    let sections = found.into_iter();
    Ok(sections
        .map(|(name, keys)| (name, keys.into_iter().collect::<Map>()))
        .collect())
}
