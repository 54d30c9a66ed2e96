//! What rabbitmqctl lists, as lists and maps.

use super::control::{check, ctl};
use super::text::{lines, words};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, json, map};

/// Lines of a key and values. A key alone has an empty text.
fn rows(text: &str, values: fn(&str) -> Vec<String>) -> Map {
    let mut found = Map::new();
    for line in lines(text) {
        match line.split_once('\t') {
            Some((key, rest)) => found.set(key, values(rest)),
            None => found.set(line, ""),
        }
    }
    found
}

/// `[administrator, monitoring]` as a list.
fn tags(text: &str) -> Vec<String> {
    let mut inner = text.chars();
    inner.next();
    inner.next_back();
    let inner = inner.as_str();
    if text.contains(',') {
        inner.split(',').map(|tag| tag.trim().to_owned()).collect()
    } else {
        inner.split(' ').map(str::to_owned).collect()
    }
}

/// `rabbitmq.list_users`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn list_users(call: &mut Call<'_>) -> Result {
    let ran = ctl(call, ["list_users", "-q"])?;
    check(&ran)?;
    Ok(rows(&ran.stdout, tags).into())
}

/// `rabbitmq.list_vhosts`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn list_vhosts(call: &mut Call<'_>) -> Result {
    let ran = ctl(call, ["list_vhosts", "-q"])?;
    check(&ran)?;
    Ok(words(&ran.stdout).into())
}

/// `rabbitmq.list_upstreams`.
///
/// # Errors
/// rabbitmqctl is not there.
pub fn list_upstreams(call: &mut Call<'_>) -> Result {
    let ran = ctl(call, ["list_parameters", "-q"])?;
    let mut found = Map::new();
    for line in lines(&ran.stdout) {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.as_slice() {
            [_, name, definition] => found.set(*name, *definition),
            other => {
                let wrong = if other.len() > 3 {
                    "too many values to unpack (expected 3)".to_owned()
                } else {
                    format!(
                        "not enough values to unpack (expected 3, got {})",
                        other.len()
                    )
                };
                return Err(CallError::raised("ValueError", wrong));
            }
        }
    }
    Ok(found.into())
}

/// Whether the name is in what another function lists.
///
/// # Errors
/// As that function.
pub fn exists(call: &mut Call<'_>, fun: &str) -> Result {
    let name = python::str(call.arg("name"));
    let kwargs = map! {"runas" => call.arg("runas").clone()};
    Ok(match call.salt(fun, Vec::new(), kwargs)? {
        Value::Map(all) => all.contains(&name).into(),
        Value::Array(all) => all.iter().any(|one| one.is_str(&name)).into(),
        _ => false.into(),
    })
}

/// Permissions by the field `key`.
///
/// # Errors
/// rabbitmqctl says something else.
pub fn permissions(call: &mut Call<'_>, command: &[&str], arg: &str, key: &str) -> Result {
    let mut all: Vec<String> = command.iter().map(|w| (*w).to_owned()).collect();
    // rabbitmqctl takes words before and after its options.
    all.push(python::str(call.arg(arg)));
    let ran = ctl(call, all)?;
    let text = ran.stdout.trim();
    if text.is_empty() {
        let text = "Expecting value: line 1 column 1 (char 0)";
        return Err(CallError::raised("json.decoder.JSONDecodeError", text));
    }
    let found: Vec<Value> = json::parse(text.as_bytes())
        .map_err(|e| CallError::raised("json.decoder.JSONDecodeError", e.to_string()))?;
    let mut by_key = Map::new();
    for mut one in found.into_iter().filter_map(Value::into_map) {
        let name = one.remove(key);
        by_key.set(name.as_ref().map(python::str).unwrap_or_default(), one);
    }
    Ok(by_key.into())
}

/// `rabbitmq.list_queues`.
///
/// # Errors
/// rabbitmqctl fails.
pub fn list_queues(call: &mut Call<'_>, of_vhost: bool) -> Result {
    let mut all = vec!["list_queues".to_owned(), "-q".to_owned()];
    if of_vhost {
        all.extend(["-p".to_owned(), python::str(call.arg("vhost"))]);
    }
    all.extend(call.bound.varargs.iter().map(python::str));
    let ran = ctl(call, all)?;
    check(&ran)?;
    let fields = |rest: &str| rest.split('\t').map(str::to_owned).collect();
    Ok(rows(&ran.stdout, fields).into())
}

#[cfg(test)]
mod tests {
    use super::{tags, words};

    #[test]
    fn lists() {
        let text = "Listing vhosts ...\nname\n/\n\n/v w\n...done.\nWARNING: x";
        assert_eq!(words(text), ["name", "/", "/v", "w"]);
        assert_eq!(tags("[a, b]"), ["a", "b"]);
        assert_eq!(tags("[]"), [""]);
        assert_eq!(tags(""), [""]);
    }
}
