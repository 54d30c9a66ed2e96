//! Joins the packages of several states, so that one run of the package manager installs them all.

use halite_wire::{Map, Value};

/// Arguments that make a state one of its own: the others would get them, too.
const SHARED: [&str; 6] = [
    "fromrepo",
    "skip_verify",
    "reinstall",
    "hold",
    "normalize",
    "install_recommends",
];

/// The packages that a call names, and whether they are files.
fn named(low: &Map) -> Option<(Vec<Value>, bool)> {
    let list = |key: &str| match low.get(key) {
        Some(Value::Array(list)) if !list.is_empty() => Some(list.clone()),
        _ => None,
    };
    if let Some(files) = list("sources") {
        return Some((files, true));
    }
    if let Some(pkgs) = list("pkgs") {
        return Some((pkgs, false));
    }
    if low.contains("pkgs") || low.contains("sources") {
        return None;
    }
    let name = low.get("name").filter(|n| n.truthy())?.clone();
    let item = match low.get("version").filter(|v| v.truthy()) {
        Some(version) => {
            let mut map = Map::new();
            map.0.push((name, version.clone()));
            map.into()
        }
        None => name,
    };
    Some((vec![item], false))
}

/// The name in an item of `pkgs` or `sources`.
fn name(item: &Value) -> &Value {
    match item {
        Value::Map(map) => map.0.first().map_or(item, |(name, _)| name),
        other => other,
    }
}

/// A call with the packages of others; `None` if none of them can be joined.
pub fn joined(low: &Map, others: &[&Map]) -> Option<Map> {
    if !matches!(
        low.str("fun"),
        Some("installed" | "latest" | "removed" | "purged")
    ) {
        return None;
    }
    let (mut all, files) = named(low)?;
    let count = all.len();
    for other in others {
        let same = SHARED.iter().all(|key| low.get(key) == other.get(key));
        let Some((more, _)) = named(other).filter(|(_, f)| same && *f == files) else {
            continue;
        };
        for item in more {
            if !all.iter().any(|known| name(known) == name(&item)) {
                all.push(item);
            }
        }
    }
    if all.len() == count {
        return None;
    }
    let mut joined = low.clone();
    joined.remove("version");
    joined.set(if files { "sources" } else { "pkgs" }, all);
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn packages_are_joined() {
        let call = |name: &str| map! {"fun" => "installed", "name" => name};
        let mut own = call("a");
        own.set("version", "1");
        let (b, a) = (call("b"), call("a"));
        let mut from = call("c");
        from.set("fromrepo", "x");
        let all = joined(&own, &[&b, &a, &from]).unwrap();
        let pkgs: Vec<Value> = vec![map! {"a" => "1"}.into(), "b".into()];
        assert_eq!(all.get("pkgs"), Some(&pkgs.into()));
        assert!(!all.contains("version"));
        assert!(joined(&own, &[&from]).is_none());
    }
}
