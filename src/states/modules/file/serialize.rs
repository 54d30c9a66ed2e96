//! `file.serialize`.

use super::check::Check;
use super::managed::Managed;
use super::{Step, change, fail, mode_of, named};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::{os, paths};
use halite_modules::execution::{CallError, python, traverse};
use halite_wire::{Map, Value, map};

/// The formats that can be written.
const SERIALIZERS: [&str; 6] = ["configparser", "json", "msgpack", "toml", "yaml", "yamlex"];
/// In a diff of data: there is no such key.
const NOTHING: &str = "<_null_>";

/// Options given as a list of maps; anything else is ignored.
fn options(value: &Value) -> Map {
    let mut all = Map::new();
    let list = value.as_array().unwrap_or_default();
    for (key, value) in list.iter().filter_map(Value::as_map).flat_map(Map::iter) {
        all.set(python::str(key), value.clone());
    }
    all
}

/// The text of data in a format.
fn text(s: &mut State<'_, '_>, serializer: &str, data: &Value) -> Step<Value> {
    let mut with = defaults(serializer);
    for (key, value) in options(s.arg("serializer_opts")).iter() {
        with.set(python::str(key), value.clone());
    }
    let sort = with.get("sort_keys").is_none_or(Value::truthy);
    let block = with.get("default_flow_style") == Some(&Value::Bool(false));
    match serializer {
        "json" if with.get("indent").is_none_or(Value::is_nil) => {
            Ok(on_one_line(s, data, sort)?.into())
        }
        "yaml" if block => {
            let indent = with.int("indent").unwrap_or(2);
            let text = halite_wire::yaml::emit_with(data, sort, indent, Some(false));
            Ok(text.trim_end_matches('\n').into())
        }
        // It writes the same as `yaml` for plain data.
        "yamlex" => {
            Ok(s.salt_with("slsutil.serialize", vec!["yaml".into(), data.clone()], with)?)
        }
        _ => Ok(s.salt_with(
            "slsutil.serialize",
            vec![serializer.into(), data.clone()],
            with,
        )?),
    }
}

/// JSON on one line, with white space after colons only.
fn on_one_line(s: &mut State<'_, '_>, data: &Value, sort: bool) -> Step<String> {
    Ok(match data {
        Value::Map(map) => {
            let mut entries: Vec<(String, &Value)> = map
                .iter()
                .map(|(key, value)| (python::str(key), value))
                .collect();
            if sort {
                entries.sort_by(|a, b| a.0.cmp(&b.0));
            }
            let mut parts = Vec::new();
            for (key, value) in entries {
                let key = on_one_line(s, &key.into(), sort)?;
                parts.push(format!("{key}: {}", on_one_line(s, value, sort)?));
            }
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(list) => {
            let mut parts = Vec::new();
            for value in list {
                parts.push(on_one_line(s, value, sort)?);
            }
            format!("[{}]", parts.join(","))
        }
        one => python::str(&s.salt("slsutil.serialize", vec!["json".into(), one.clone()])?),
    })
}

/// What a format writes without options.
fn defaults(serializer: &str) -> Map {
    match serializer {
        "json" => map! {"indent" => 2, "sort_keys" => true},
        "yaml" => map! {"default_flow_style" => false},
        _ => Map::new(),
    }
}

fn dataset(s: &State<'_, '_>) -> Step<Value> {
    let (own, pillar) = (s.arg("dataset"), s.arg("dataset_pillar"));
    match (own.is_nil(), pillar.truthy()) {
        (false, true) => fail("Only one of 'dataset' and 'dataset_pillar' is permitted"),
        (true, false) => fail("Neither 'dataset' nor 'dataset_pillar' was defined"),
        (_, false) => Ok(own.clone()),
        (true, true) => {
            let found = traverse(&s.ctx().pillar, pillar, ":");
            Ok(found.cloned().unwrap_or_else(|| "".into()))
        }
    }
}

/// Data merged into other data: maps are merged, all else is replaced.
fn merge(old: &mut Map, new: &Map) {
    for (key, value) in new.iter() {
        let key = python::str(key);
        match (old.get_mut(&key), value) {
            (Some(Value::Map(inner)), Value::Map(more)) => merge(inner, more),
            _ => old.set(key, value.clone()),
        }
    }
}

/// What changes between data, key by key.
fn differences(old: &Map, new: &Map) -> Map {
    let mut found = Map::new();
    for (key, value) in new.iter() {
        let before = old.iter().find(|(k, _)| k == key).map(|(_, v)| v);
        if before == Some(value) {
            continue;
        }
        let entry: Map = match (before, value) {
            (Some(Value::Map(before)), Value::Map(after)) => differences(before, after),
            (before, after) => map! {
                "new" => after.clone(), "old" => before.cloned().unwrap_or_else(|| NOTHING.into()),
            },
        };
        found.set(python::str(key), entry);
    }
    found
}

pub(super) fn serialize(s: &mut State<'_, '_>) -> Step {
    let name = named(s, "serialize")?;
    if !s.flag("create") && !paths::is_file(&name) {
        return Ok(StateOutcome::good(format!(
            "File {name} is not present and is not set for creation"
        )));
    }
    let formatter = s.kwargs.get("formatter").filter(|v| v.truthy()).cloned();
    let serializer = s.arg("serializer").clone();
    let serializer = match (serializer.truthy(), formatter) {
        (true, Some(_)) => return fail("Only one of serializer and formatter are allowed"),
        (true, None) => python::str(&serializer),
        (false, Some(formatter)) => python::str(&formatter).to_lowercase(),
        (false, None) => "yaml".to_owned(),
    };
    let mut data = dataset(s)?;
    if !SERIALIZERS.contains(&serializer.as_str()) {
        return fail(format!(
            "The {serializer} serializer could not be found. It either does not exist or its prerequisites are not \
             installed."
        ));
    }
    // It writes the same as `yaml` for plain data.
    let format = if serializer == "yamlex" {
        "yaml"
    } else {
        serializer.as_str()
    };
    let mut diff = None;
    if s.flag("merge_if_exists") && paths::is_file(&name) {
        let text = os::read_text(&name)?;
        let with = options(s.arg("deserializer_opts"));
        let read = s.salt_with(
            "slsutil.deserialize",
            vec![format.into(), text.into()],
            with,
        );
        let old = match read {
            Ok(old) => old,
            Err(why) => {
                // The parser of INI files knows the text alone.
                let shown = python::repr(&name.as_str().into());
                return fail(format!(
                    "Failed to deserialize existing data: {}",
                    why.message().replace("'<???>'", &shown)
                ));
            }
        };
        let (Value::Map(old), Value::Map(new)) = (&old, &data) else {
            return Err(CallError::Type(
                "Cannot update using non-dict types in dictupdate.update()".to_owned(),
            )
            .into());
        };
        let mut merged = old.clone();
        merge(&mut merged, new);
        if merged == *old {
            return Ok(StateOutcome::good(format!(
                "The file {name} is in the correct state"
            )));
        }
        diff = Some(differences(old, &merged));
        data = merged.into();
    }
    let contents = match text(s, &serializer, &data)? {
        Value::Str(text) => Value::from(text + "\n"),
        other => other,
    };
    if paths::is_dir(&name) {
        return fail(format!("Specified target {name} is a directory"));
    }
    let mut request = Managed::with_contents(s, &name, contents);
    request.perms.user = s.arg("user").clone();
    request.perms.group = s.arg("group").clone();
    request.perms.mode = mode_of(s.arg("mode"));
    request.backup = s.arg("backup").clone();
    request.makedirs = s.flag("makedirs");
    request.show_changes = s.flag("show_changes");
    request.encoding = s.arg("encoding").clone();
    request.encoding_errors = s.text("encoding_errors").unwrap_or_default();
    request.check = Check::of(s);
    request.check.keeps_changes = true;
    let mut outcome = request.write(s)?;
    if let Some(diff) = diff
        && outcome
            .changes
            .as_map()
            .is_some_and(|changes| changes.contains("diff"))
        && s.flag("show_changes")
    {
        change(&mut outcome, "diff", diff);
    }
    if s.test && outcome.result.is_none() {
        outcome.comment = format!("Dataset will be serialized and stored into {name}");
    }
    if s.arg("deserializer_opts").truthy() && !s.flag("merge_if_exists") {
        let text =
            "The 'deserializer_opts' option is ignored unless merge_if_exists is set to True.";
        outcome.more.set("warnings", vec![Value::from(text)]);
    }
    Ok(outcome)
}
