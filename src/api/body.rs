//! What clients send (reference `salt-api.md` 2.1).

use crate::answer::ApiError;
use halite_wire::budget::Budget;
use halite_wire::{Map, Value, json, yaml};
use hyper::StatusCode;
use std::collections::HashMap;

/// Reads a body by its media type, parameters excluded.
///
/// # Errors
/// 400 if it is not what it is said to be, 406 if its type is none of those.
pub fn read(media: Option<&str>, body: &[u8]) -> Result<Value, ApiError> {
    if body.is_empty() {
        return Ok(Value::Nil);
    }
    let media = media.map(|media| media.split(';').next().unwrap_or_default().trim());
    let text = || String::from_utf8_lossy(body).into_owned();
    match media.map(str::to_ascii_lowercase).as_deref() {
        Some("application/json") => {
            let parsed = json::parse(body);
            parsed
                .map(distinct)
                .map_err(|_| ApiError::bad("Invalid JSON document"))
        }
        Some("application/x-yaml" | "text/yaml") => {
            let text = text();
            let parsed = yaml::parse_within(&text, &mut Budget::of(text.len()));
            parsed.map_err(|_| ApiError::bad("Invalid YAML document"))
        }
        // Web browsers send a string like this.
        Some("text/plain") => Ok(json::parse(body).map_or_else(|_| text().into(), distinct)),
        Some("application/x-www-form-urlencoded") => form(body).map(Value::Map),
        _ => Err(ApiError::new(
            StatusCode::NOT_ACCEPTABLE,
            "Content type not supported",
        )),
    }
}

/// Of keys that are there more than once, the last one counts, wherever it is read.
fn distinct(value: Value) -> Value {
    match value {
        Value::Array(all) => Value::Array(all.into_iter().map(distinct).collect()),
        Value::Map(map) => {
            let mut out: Vec<(Value, Value)> = Vec::new();
            let mut places: HashMap<String, usize> = HashMap::new();
            for (name, value) in map.0 {
                // JSON has no other keys.
                let Value::Str(text) = &name else { continue };
                match places.get(text) {
                    Some(place) => out[*place].1 = distinct(value),
                    None => {
                        places.insert(text.clone(), out.len());
                        out.push((name, distinct(value)));
                    }
                }
            }
            Map(out).into()
        }
        other => other,
    }
}

/// Most fields of a form, and of a lowstate.
pub const MOST_FIELDS: usize = 1000;

/// A form: repeated names become lists, empty values are dropped. `kwarg` is YAML, each `arg` as on the command line.
fn form(body: &[u8]) -> Result<Map, ApiError> {
    // One budget for all: each could be small and mean much.
    let mut budget = Budget::of(body.len());
    let mut fields: Vec<(Value, Vec<Value>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for (n, (name, value)) in form_urlencoded::parse(body).enumerate() {
        if n >= MOST_FIELDS {
            return Err(ApiError::bad("The form has too many fields"));
        }
        if value.is_empty() {
            continue;
        }
        let value = match &*name {
            "arg" => argument(&value, &mut budget),
            "kwarg" => yaml_or_text(&value, &mut budget),
            _ => (&*value).into(),
        };
        match places.get(&*name) {
            Some(place) => fields[*place].1.push(value),
            None => {
                places.insert(name.to_string(), fields.len());
                fields.push(((&*name).into(), vec![value]));
            }
        }
    }
    let one = |(name, mut all): (Value, Vec<Value>)| {
        let is_list = all.len() > 1 || name.is_str("arg");
        let value = if is_list { None } else { all.pop() };
        (name, value.unwrap_or(Value::Array(all)))
    };
    Ok(Map(fields.into_iter().map(one).collect()))
}

fn yaml_or_text(text: &str, budget: &mut Budget) -> Value {
    yaml::parse_within(text, budget).unwrap_or_else(|_| text.into())
}

/// `a=1` stays text, and becomes a keyword at the minion.
fn argument(text: &str, budget: &mut Budget) -> Value {
    // What is not plain costs as much as it means.
    let is_plain = !text.contains(['[', '{', '&', '*']);
    match yaml::parse_kwarg(text) {
        Some(_) => text.into(),
        None if is_plain => yaml::yamlify_arg(text),
        None => match yaml::parse_within(text, budget) {
            Ok(value @ (Value::Array(_) | Value::Map(_))) => value,
            _ => text.into(),
        },
    }
}

/// The lowstates of a body: a map is a list of one.
///
/// # Errors
/// 400 if it is neither a list nor a map, or empty.
pub fn lowstates(body: Value) -> Result<Vec<Value>, ApiError> {
    match body {
        Value::Array(all) if all.len() > MOST_FIELDS => {
            Err(ApiError::bad("There are too many lowstates"))
        }
        Value::Array(all) => Ok(all),
        Value::Map(map) if !map.is_empty() => Ok(vec![map.into()]),
        _ => Err(ApiError::bad("Lowstates must be a list")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: &str = "application/x-www-form-urlencoded";

    #[test]
    fn bodies_are_read_by_their_type() {
        for (media, body) in [
            ("application/json", r#"{"a": 1}"#),
            ("application/json; charset=utf-8", r#"{"a": 0, "a": 1}"#),
            ("text/plain;charset=UTF-8", r#"{"a": 1}"#),
            ("application/x-yaml", "a: 1"),
            ("text/yaml", "a: 1"),
        ] {
            let read = read(Some(media), body.as_bytes()).unwrap();
            assert_eq!(read.as_map().and_then(|m| m.int("a")), Some(1), "{media}");
        }
        assert_eq!(read(Some("text/plain"), b"hello").unwrap(), "hello".into());
        assert_eq!(read(None, b"").unwrap(), Value::Nil);
        for (media, status) in [
            (Some("application/json"), 400),
            (Some("application/x-yaml"), 400),
            (Some("multipart/form-data"), 406),
            (None, 406),
        ] {
            let status_of = read(media, b"{a: [").unwrap_err().status;
            assert_eq!(status_of.as_u16(), status, "{media:?}");
        }
    }

    #[test]
    fn forms_are_lowstates() {
        let body = b"client=local&tgt=*&fun=test.arg&arg=one&arg=two%3D2&arg=3&kwarg={a: 1}&e=";
        let read = read(Some(FORM), body).unwrap().into_map().unwrap();
        let args = Value::Array(vec!["one".into(), "two=2".into(), 3.into()]);
        assert_eq!(read.get("arg"), Some(&args));
        assert_eq!(
            read.get("kwarg"),
            Some(&halite_wire::map! {"a" => 1}.into())
        );
        assert!(!read.contains("e"));
        let single = super::read(Some(FORM), b"arg=[1,2]&y=a+b&y=c").unwrap();
        let single = single.into_map().unwrap();
        let list = Value::Array(vec![1.into(), 2.into()]);
        assert_eq!(single.get("arg"), Some(&Value::Array(vec![list])));
        let words = Value::Array(vec!["a b".into(), "c".into()]);
        assert_eq!(single.get("y"), Some(&words));
    }

    #[test]
    fn forms_are_limited() {
        let many: String = (0..2000).map(|n| format!("a{n}=1&")).collect();
        assert!(read(Some(FORM), many.as_bytes()).is_err());
        // Each means 10 000 values, all together more than one body may.
        let bomb = "kwarg=%26a+[0,0,0,0,0,0,0,0,0,0]&".to_owned()
            + &"kwarg=[%26a+[0,0,0,0,0,0,0,0,0,0],%26b+[*a,*a,*a,*a,*a,*a,*a,*a,*a,*a],%26c+[*b,*b,*b,*b,*b,*b,*b,*b,*b,*b],*c,*c,*c]&"
                .repeat(900);
        let read = read(Some(FORM), bomb.as_bytes()).unwrap();
        let all = read.as_map().and_then(|map| map.get("kwarg")?.as_array());
        let texts = all.unwrap().iter().filter(|one| one.as_str().is_some());
        assert!(texts.count() > 700, "they stay text");
    }

    #[test]
    fn lowstates_are_lists() {
        assert_eq!(lowstates(Value::Array(vec![])).unwrap().len(), 0);
        assert_eq!(
            lowstates(halite_wire::map! {"a" => 1}.into())
                .unwrap()
                .len(),
            1
        );
        for wrong in [Value::Nil, "x".into(), 5.into(), Map::new().into()] {
            assert!(lowstates(wrong).is_err());
        }
    }
}
