//! Configuration files from maps and lists.

use crate::execution::command_helpers::write_file;
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value};

/// What opens a section.
fn this(map: &Map) -> Option<String> {
    map.get("this").map(python::str)
}

/// The lines of a directive or a section. Numbers and booleans alone are none, as on stock.
fn lines(value: &Value, slot: &str) -> Result<String> {
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    match value {
        Value::Str(text) => return Ok(format!("{slot} {text}")),
        Value::Array(list) => {
            let mut section = list.iter().filter_map(Value::as_map).filter_map(this);
            let Some(this) = section.next_back() else {
                for item in list {
                    line(&lines(item, slot)?);
                }
                return Ok(out);
            };
            line(&format!("<{slot} {this}>"));
            for (key, value) in list.iter().filter_map(Value::as_map).flat_map(Map::iter) {
                if !key.is_str("this") {
                    line(&lines(value, &python::str(key))?);
                }
            }
            line(&format!("</{slot}>"));
        }
        Value::Map(map) => {
            let Some(this) = this(map) else {
                let text = format!(
                    "Apache section container \"<{slot}>\" expects attribute. Specify it using key \"this\"."
                );
                return Err(CallError::raised("salt.exceptions.SaltException", text));
            };
            line(&format!("<{slot} {this}>"));
            for (key, value) in map.iter().filter(|(key, _)| !key.is_str("this")) {
                if matches!(value, Value::Str(_) | Value::Array(_) | Value::Map(_)) {
                    line(&lines(value, &python::str(key))?);
                }
            }
            line(&format!("</{slot}>"));
        }
        _ => {}
    }
    Ok(out)
}

/// `apache.config`.
///
/// # Errors
/// A section has no attribute, or the file cannot be written.
pub fn config(call: &mut Call<'_>) -> Result {
    let mut all = Vec::new();
    for entry in call.arg("config").as_array().unwrap_or_default() {
        let first = entry.as_map().and_then(|map| map.iter().next());
        let Some((key, value)) = first else {
            let text = format!(
                "'{}' object has no attribute 'keys'",
                python::type_name(entry)
            );
            return Err(CallError::raised("AttributeError", text));
        };
        all.push(lines(value, &python::str(key))?);
    }
    let text = all.join("\n");
    if call.flag("edit") {
        let name = python::str(call.arg("name"));
        let whole = format!("# This file is managed by Salt.\n{text}");
        write_file(&name, &whole).map_err(|e| python::os_error(&e, &name))?;
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::lines;
    use halite_wire::{Value, map};

    #[test]
    fn sections() {
        let inner = map! {"this" => "all", "Require" => "x"};
        let list: Vec<Value> = vec![
            map! {"this" => "*:80"}.into(),
            map! {"ServerAlias" => vec![Value::from("a"), "b".into()]}.into(),
            map! {"Limit" => inner}.into(),
        ];
        let text = lines(&list.into(), "VirtualHost");
        let wanted = "<VirtualHost *:80>\nServerAlias a\nServerAlias b\n\n<Limit all>\nRequire x\n</Limit>\n\n</VirtualHost>\n";
        assert_eq!(text, Ok(wanted.to_owned()));
    }
}
