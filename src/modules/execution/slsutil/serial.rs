//! Serializers (`salt/serializers`).

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::configparser;
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
        "configparser" => ini(call, obj),
        "toml" => match obj {
            Value::Map(map) => Ok(super::toml::emit(map).into()),
            other => {
                let class = python::type_name(other);
                let text = format!("toml needs a map, not '{class}'");
                Err(wrong("SerializationError", text))
            }
        },
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

/// Keywords of Python's `ConfigParser`. Those that only count when a file is read are passed over when one is written.
const INI_OPTIONS: &[&str] = &[
    "defaults",
    "dict_type",
    "allow_no_value",
    "delimiters",
    "comment_prefixes",
    "inline_comment_prefixes",
    "strict",
    "empty_lines_in_values",
    "default_section",
    "interpolation",
    "converters",
];

/// The section whose values count for all sections.
fn default_section(call: &Call<'_>) -> String {
    match option(call, "default_section") {
        Value::Nil => configparser::Options::default().default_section,
        name => python::str(name),
    }
}

fn ini(call: &Call<'_>, obj: &Value) -> Result {
    let bad = |text: String| Err(wrong("SerializationError", text));
    let items = |value: &Value| match value {
        Value::Map(map) => Ok(map.clone()),
        other => {
            let class = python::type_name(other);
            let text = format!("'{class}' object has no attribute 'items'");
            Err(wrong("SerializationError", text))
        }
    };
    let Value::Map(sections) = obj else {
        let class = python::class(obj);
        return bad(format!(
            "configparser can only serialize dictionaries, not {class}"
        ));
    };
    for (name, _) in call.bound.kwargs.iter() {
        let name = python::str(name);
        if !name.starts_with("__") && !INI_OPTIONS.contains(&name.as_str()) {
            return bad(format!(
                "RawConfigParser.__init__() got an unexpected keyword argument '{name}'"
            ));
        }
    }
    let common = default_section(call);
    // It stands first, with what was given as an option and what is in the data.
    let mut all = vec![(common.clone(), Map::new())];
    let defaults = option(call, "defaults");
    let given = (!defaults.is_nil()).then(|| (common.clone().into(), defaults.clone()));
    for (section, keys) in given.iter().chain(sections.iter()) {
        let section = python::str(section);
        let at = match all.iter().position(|(name, _)| *name == section) {
            Some(at) => at,
            None => {
                all.push((section, Map::new()));
                all.len() - 1
            }
        };
        for (key, value) in items(keys)?.0 {
            all[at].1.set(python::str(&key).to_lowercase(), value);
        }
    }
    if all[0].1.is_empty() {
        all.remove(0);
    }
    let delimiter = match option(call, "delimiters") {
        Value::Nil => "=".to_owned(),
        Value::Str(all) => all.chars().take(1).collect(),
        other => other.str_list().into_iter().next().unwrap_or_default(),
    };
    if delimiter.is_empty() {
        return bad("tuple index out of range".to_owned());
    }
    let interpolates = !call.bound.kwargs.contains("interpolation");
    let mut out = String::new();
    for (section, keys) in &all {
        out.push_str(&format!("[{section}]\n"));
        for (key, value) in keys.iter() {
            let key = python::str(key);
            if value.is_nil() {
                match option(call, "allow_no_value").truthy() {
                    true => out.push_str(&format!("{key}\n")),
                    false => return bad("option values must be strings".to_owned()),
                }
                continue;
            }
            let value = python::str(value);
            if interpolates && let Some(at) = stray_percent(&value) {
                let shown = python::repr(&value.into());
                return bad(format!(
                    "invalid interpolation syntax in {shown} at position {at}"
                ));
            }
            let value = value.replace('\n', "\n\t");
            out.push_str(&format!("{key} {delimiter} {value}\n"));
        }
        out.push('\n');
    }
    Ok(out.into())
}

/// Where a `%` is that is neither doubled nor that of a `%(name)s`, counted as Python does, without all of these.
fn stray_percent(value: &str) -> Option<usize> {
    let mut rest = value.replace("%%", "");
    while let Some(start) = rest.find("%(") {
        let Some(end) = rest[start + 2..].find(')').map(|at| start + 2 + at) else {
            break;
        };
        if end == start + 2 || !rest[end..].starts_with(")s") {
            break;
        }
        rest.replace_range(start..end + 2, "");
    }
    let at = rest.find('%')?;
    Some(rest[..at].chars().count())
}

pub fn deserialize(call: &mut Call<'_>) -> Result {
    let given = call.arg("stream_or_string");
    let name = python::str(call.arg("serializer"));
    let bytes = given.as_bytes().unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let bad = |text: String| wrong("DeserializationError", text);
    match name.as_str() {
        "json" | "yaml" | "configparser" | "msgpack" | "toml" if given.as_bytes().is_none() => {
            let class = python::type_name(given);
            Err(bad(format!("'{class}' object has no attribute 'read'")))
        }
        "json" => halite_wire::json::parse(text.as_bytes()).map_err(|e| bad(e.to_string())),
        "yaml" => yaml::parse(&text).map_err(|e| bad(e.message)),
        "toml" => super::toml::parse(&text).map_err(bad),
        "msgpack" => msgpack::decode(bytes).map_err(|e| bad(e.to_string())),
        "configparser" => Ok(read_ini(call, &text).map_err(bad)?.into()),
        _ => Err(unknown(&name)),
    }
}

fn read_ini(call: &Call<'_>, text: &str) -> std::result::Result<Map, String> {
    let text_list = |name: &str, usual: Vec<String>| match option(call, name) {
        Value::Nil => usual,
        given => given.str_list(),
    };
    let flag = |name: &str, usual: bool| match option(call, name) {
        Value::Nil => usual,
        given => given.truthy(),
    };
    let usual = configparser::Options::default();
    let options = configparser::Options {
        defaults: option(call, "defaults")
            .as_map()
            .cloned()
            .unwrap_or_default(),
        default_section: default_section(call),
        allow_no_value: flag("allow_no_value", usual.allow_no_value),
        delimiters: text_list("delimiters", usual.delimiters),
        comment_prefixes: text_list("comment_prefixes", usual.comment_prefixes),
        inline_comment_prefixes: text_list("inline_comment_prefixes", Vec::new()),
        strict: flag("strict", usual.strict),
        empty_lines_in_values: flag("empty_lines_in_values", usual.empty_lines_in_values),
        interpolates: !call.bound.kwargs.contains("interpolation"),
    };
    configparser::read(text, &options)
}
