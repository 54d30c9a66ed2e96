//! TOML, laid out as the Python package `toml` 0.10.2 does, which Salt uses: a file that Salt has written stays as it is.

use super::super::python;
use halite_wire::{Map, Value};

/// The text of a map. Keys without a value are left out.
pub fn emit(map: &Map) -> String {
    let mut out = String::new();
    tables(&mut out, vec![(String::new(), map)]);
    out
}

/// Writes tables, those of a level before those below.
fn tables(out: &mut String, level: Vec<(String, &Map)>) {
    let mut below = Vec::new();
    for (path, table) in level {
        let (body, inner) = parts(&path, table);
        if !path.is_empty() && (!body.is_empty() || inner.is_empty()) {
            if !out.is_empty() && !out.ends_with("\n\n") {
                out.push('\n');
            }
            out.push_str(&format!("[{path}]\n"));
        }
        out.push_str(&body);
        below.extend(inner);
    }
    if !below.is_empty() {
        tables(out, below);
    }
}

/// What stands in a table: its values and its arrays of tables; and the tables in it.
fn parts<'a>(path: &str, table: &'a Map) -> (String, Vec<(String, &'a Map)>) {
    let (mut body, mut arrays, mut inner) = (String::new(), String::new(), Vec::new());
    for (key, value) in table.iter() {
        let name = key_of(&python::str(key));
        let full = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match value {
            Value::Nil => {}
            Value::Map(map) => inner.push((full, map)),
            Value::Array(list) if !list.is_empty() && list.iter().all(|v| v.as_map().is_some()) => {
                for one in list.iter().filter_map(Value::as_map) {
                    let (body, inner) = parts(&full, one);
                    // Without values of its own an array follows.
                    let gap = match body.starts_with('[') {
                        true => format!("\n{body}"),
                        false => format!("{body}\n"),
                    };
                    arrays.push_str(&format!("[[{full}]]\n{gap}"));
                    tables(&mut arrays, inner);
                }
            }
            other => body.push_str(&format!("{name} = {}\n", inline(other))),
        }
    }
    (body + &arrays, inner)
}

fn key_of(key: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    match !key.is_empty() && key.bytes().all(is_plain) {
        true => key.to_owned(),
        false => quoted(key),
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Bool(true) => "true".to_owned(),
        Value::Bool(false) => "false".to_owned(),
        Value::Int(_) | Value::Float(_) => python::str(value),
        Value::Array(list) if list.is_empty() => "[]".to_owned(),
        Value::Array(list) => {
            let all: Vec<String> = list
                .iter()
                .map(|one| format!(" {},", inline(one)))
                .collect();
            format!("[{}]", all.concat())
        }
        Value::Map(map) => {
            let pair = |(key, value): &(Value, Value)| {
                format!("{} = {}", key_of(&python::str(key)), inline(value))
            };
            let all: Vec<String> = map.iter().map(pair).collect();
            format!("{{ {} }}", all.join(", "))
        }
        other => quoted(&python::str(other)),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Reads a text; dates and times stay texts.
///
/// # Errors
/// Where it is not TOML.
pub fn parse(text: &str) -> Result<Value, String> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e
            .span()
            .and_then(|at| text.get(..at.start))
            .map_or(1, |before| before.matches('\n').count() + 1);
        let why = match e.message() {
            "" => "a value is missing or not complete",
            why => why,
        };
        format!("{why:.300} (line {line})")
    })?;
    Ok(value_of(table.into()))
}

fn value_of(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => Value::Int(number),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(at) => at.to_string().into(),
        toml::Value::Array(list) => Value::Array(list.into_iter().map(value_of).collect()),
        toml::Value::Table(table) => {
            let pair = |(key, value): (String, toml::Value)| (Value::from(key), value_of(value));
            Value::Map(table.into_iter().map(pair).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::json;

    /// Written by the Python package.
    #[test]
    fn the_layout_is_that_of_the_package_of_python() {
        for (data, text) in [
            ("{}", ""),
            (
                r#"{"a": 1, "b": 1.5, "c": true, "d": null, "f": [1, 2], "g": [], "h": ["a", "b"], "i": 1e22, "k": 1.0, "l": [[1], ["a"]]}"#,
                "a = 1\nb = 1.5\nc = true\nf = [ 1, 2,]\ng = []\nh = [ \"a\", \"b\",]\ni = 1e+22\nk = 1.0\nl = [ [ 1,], [ \"a\",],]\n",
            ),
            (
                r#"{"t": {"x": 1, "u": {"y": 2}}, "top": 1}"#,
                "top = 1\n\n[t]\nx = 1\n\n[t.u]\ny = 2\n",
            ),
            (r#"{"t": {"u": {"y": 2}}}"#, "[t.u]\ny = 2\n"),
            (r#"{"t": {}}"#, "[t]\n"),
            (r#"{"t": {"u": {}}}"#, "[t.u]\n"),
            (
                r#"{"arr": [{"a": 1}, {"b": {"c": 2}}], "z": 1}"#,
                "z = 1\n[[arr]]\na = 1\n\n[[arr]]\n\n[arr.b]\nc = 2\n",
            ),
            (
                r#"{"x": {"arr": [{"a": 1}, {"b": {"c": {"d": 3}}, "e": [{"f": 1}]}], "z": 1}}"#,
                "[x]\nz = 1\n[[x.arr]]\na = 1\n\n[[x.arr]]\n\n[[x.arr.e]]\nf = 1\n\n[x.arr.b.c]\nd = 3\n",
            ),
            (
                r#"{"a b": {"c.d": 1, "": 2, "1": 4}, "k-_9": 2}"#,
                "k-_9 = 2\n\n[\"a b\"]\n\"c.d\" = 1\n\"\" = 2\n1 = 4\n",
            ),
            (
                r#"{"a": {"b": {"c": {"d": 1}}, "x": 1}, "e": {"f": 1}}"#,
                "[a]\nx = 1\n\n[e]\nf = 1\n\n[a.b.c]\nd = 1\n",
            ),
            (r#"{"s": "it's", "e": ""}"#, "s = \"it's\"\ne = \"\"\n"),
        ] {
            let data: Value = json::parse(data.as_bytes()).unwrap();
            assert_eq!(emit(data.as_map().unwrap()), text);
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let data = r#"{"s": "x\"y\\z\n\t\u0001ü\u007f", "m": [1, {"a": [{"b": "c"}]}], "t": {"a b": {"": [{"x": {"y": 1.5}}]}}}"#;
        let data: Value = json::parse(data.as_bytes()).unwrap();
        assert_eq!(parse(&emit(data.as_map().unwrap())), Ok(data));
        let times = parse("a = 2020-01-02T03:04:05Z\nb = 2020-01-02\n").unwrap();
        assert_eq!(times.as_map().unwrap().str("b"), Some("2020-01-02"));
        for wrong in ["a=", "a=1\na=2", "[a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
