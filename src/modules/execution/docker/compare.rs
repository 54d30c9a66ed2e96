//! How containers and networks differ.

use super::super::{Call, python};
use super::containers::{inspect, name_list};
use super::engine::Engine;
use super::{images, networks};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};

/// `{"old": ..., "new": ...}`.
fn differs(old: Value, new: Value) -> Value {
    map! {"old" => old, "new" => new}.into()
}

/// Whether two values mean the same: nothing and an empty value do.
fn same(a: &Value, b: &Value) -> bool {
    if a.is_nil() || b.is_nil() {
        return a.truthy() == b.truthy();
    }
    equal(a, b)
}

/// Equality that does not look at the order of maps.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(k, v)| b.get(&python::str(k)).is_some_and(|w| equal(v, w)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (a, b) => a == b,
    }
}

/// The keys of two maps, those of the first one first.
fn keys(a: &Map, b: &Map) -> Vec<String> {
    let mut all: Vec<String> = a.iter().map(|(k, _)| python::str(k)).collect();
    for (key, _) in b.iter() {
        let key = python::str(key);
        if !all.contains(&key) {
            all.push(key);
        }
    }
    all
}

/// A value as it is compared: what has no order is sorted, links tell nothing of their container's name.
fn comparable(key: &str, value: &Value) -> Value {
    let Value::Array(list) = value else {
        return value.clone();
    };
    let mut list = list.clone();
    match key {
        "Env" => list.sort_by_key(python::str),
        "Ulimits" => {
            list.sort_by_key(|one| one.as_map().and_then(|m| m.str("Name")).map(str::to_owned))
        }
        "Links" => {
            let short = |link: &Value| {
                let text = python::str(link);
                let (to, from) = text.split_once(':').unwrap_or((&text, ""));
                let alias = from.rsplit('/').next().unwrap_or_default();
                Value::from(format!("{to}:/{alias}"))
            };
            list = list.iter().map(short).collect();
            list.sort_by_key(python::str);
        }
        _ => {}
    }
    Value::Array(list)
}

/// How the configuration of two containers differs.
///
/// # Errors
/// The engine does not answer.
pub fn containers(engine: &Engine, a: &Map, b: &Map, ignore: &[String]) -> Result<Map> {
    let mut found = Map::new();
    for part in ["Config", "HostConfig"] {
        let of = |info: &Map| {
            info.get(part)
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default()
        };
        let (a, b) = (of(a), of(b));
        let mut changes = Map::new();
        for key in keys(&a, &b) {
            if ignore.contains(&key) {
                continue;
            }
            let of = |map: &Map| comparable(&key, map.get(&key).unwrap_or(&Value::Nil));
            let (mut old, mut new) = (of(&a), of(&b));
            if key == "Image" && part == "Config" && old != new {
                for image in [&mut old, &mut new] {
                    if let Some(id) = images::id(engine, &python::str(image))? {
                        *image = id.into();
                    }
                }
            }
            if !same(&old, &new) {
                changes.set(key, differs(old, new));
            }
        }
        if !changes.is_empty() {
            found.set(part, changes);
        }
    }
    Ok(found)
}

/// What the engine chose in a network.
const CHOSEN: [&str; 4] = ["IPAddress", "Gateway", "GlobalIPv6Address", "IPv6Gateway"];

/// A container's place in a network, as it is compared.
struct Place<'a> {
    info: &'a Map,
    own: [String; 2],
}

impl Place<'_> {
    fn is_static(&self) -> bool {
        self.info.get("IPAMConfig").is_some_and(Value::truthy)
    }

    /// A setting; nil if there is none.
    fn setting(&self, key: &str) -> Value {
        let value = self.info.get(key).cloned().unwrap_or_default();
        let Value::Array(mut list) = value else {
            return value;
        };
        // The engine adds the container's own id and host name.
        list.retain(|one| !self.own.contains(&python::str(one)));
        list.sort_by_key(python::str);
        if list.is_empty() {
            Value::Nil
        } else {
            Value::Array(list)
        }
    }

    fn chosen(&self, key: &str) -> Value {
        let value = self.info.get(key).cloned().unwrap_or_default();
        if self.is_static() || !value.truthy() {
            Value::Nil
        } else {
            value
        }
    }

    /// A word for its address, if the engine has not chosen one yet.
    fn word(place: Option<&Place<'_>>) -> &'static str {
        match place {
            None => "not connected",
            Some(place) if place.is_static() => "static",
            Some(_) => "automatic",
        }
    }
}

/// Names that a container has in each network without being told so: the start of its id, its host name.
fn own_names(info: &Map) -> [String; 2] {
    let id = info.str("Id").unwrap_or_default();
    let config = info.get("Config").and_then(Value::as_map);
    let host = config.and_then(|c| c.str("Hostname")).unwrap_or_default();
    [id.get(..12).unwrap_or(id).to_owned(), host.to_owned()]
}

/// How the networks of two containers differ.
pub fn container_networks(a: &Map, b: &Map) -> Map {
    let (of_a, of_b) = (networks::of(a), networks::of(b));
    let mut found = Map::new();
    for name in keys(&of_a, &of_b) {
        let place = |info, own| {
            Some(Place {
                info: Value::as_map(info)?,
                own,
            })
        };
        let one = of_a.get(&name).and_then(|info| place(info, own_names(a)));
        let two = of_b.get(&name).and_then(|info| place(info, own_names(b)));
        let changes = places(one.as_ref(), two.as_ref());
        if !changes.is_empty() {
            found.set(name, changes);
        }
    }
    found
}

fn places(a: Option<&Place<'_>>, b: Option<&Place<'_>>) -> Map {
    let mut changes = Map::new();
    for key in ["Aliases", "Links", "IPAMConfig"] {
        let of = |place: Option<&Place<'_>>| place.map(|p| p.setting(key)).unwrap_or_default();
        let (old, new) = (of(a), of(b));
        let equals = match (a, b) {
            (Some(_), Some(_)) => equal(&old, &new),
            _ => same(&old, &new),
        };
        if !equals {
            changes.set(key, differs(old, new));
        }
    }
    let is_static = |place: Option<&Place<'_>>| place.is_some_and(Place::is_static);
    let automatic = |place: Option<&Place<'_>>| place.is_some_and(|p| !p.is_static());
    let both = automatic(a) && automatic(b);
    let neither = !automatic(a) && !automatic(b);
    if both || neither || (is_static(a) && is_static(b)) {
        return changes;
    }
    let mut any = false;
    for key in CHOSEN {
        let of = |place: Option<&Place<'_>>| place.map(|p| p.chosen(key)).unwrap_or_default();
        let (old, new) = (of(a), of(b));
        if old != new {
            any = true;
            changes.set(key, differs(old, new));
        }
    }
    if !any {
        changes.set(
            "IPConfiguration",
            differs(Place::word(a).into(), Place::word(b).into()),
        );
    }
    changes
}

/// Keys of networks that say nothing about their configuration.
pub const NETWORK_IGNORED: &str = "Name,Id,Created,Containers";

/// How two networks differ.
pub fn networks_differ(a: &Map, b: &Map, ignore: &[String]) -> Map {
    let mut found = Map::new();
    for key in keys(a, b) {
        if ignore.contains(&key) {
            continue;
        }
        let of = |map: &Map| map.get(&key).cloned().unwrap_or_default();
        let (old, new) = (of(a), of(b));
        match (&old, &new) {
            (Value::Map(a), Value::Map(b)) if matches!(key.as_str(), "IPAM" | "Options") => {
                let inner = inside(&key, a, b);
                if !inner.is_empty() {
                    found.set(key, inner);
                }
            }
            _ if same(&old, &new) => {}
            _ => found.set(key, differs(old, new)),
        }
    }
    found
}

fn inside(part: &str, a: &Map, b: &Map) -> Map {
    let mut found = Map::new();
    for key in keys(a, b) {
        let of = |map: &Map| map.get(&key).cloned().unwrap_or_default();
        let (mut old, mut new) = (of(a), of(b));
        if part == "IPAM" && key == "Config" {
            old = pools(&old);
            new = pools(&new);
        }
        if !same(&old, &new) {
            found.set(key, differs(old, new));
        }
    }
    found
}

/// Pools of addresses in an order of their own.
fn pools(value: &Value) -> Value {
    let Value::Array(list) = value else {
        return value.clone();
    };
    let mut list = list.clone();
    list.sort_by_key(|pool| {
        pool.as_map()
            .and_then(|m| m.str("Subnet"))
            .map(str::to_owned)
    });
    Value::Array(list)
}

pub(super) fn compare_containers(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    let (a, b) = (
        inspect(&engine, &text("first"))?,
        inspect(&engine, &text("second"))?,
    );
    containers(&engine, &a, &b, &name_list(call.arg("ignore"))).map(Value::from)
}

pub(super) fn compare_container_networks(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    let (a, b) = (
        inspect(&engine, &text("first"))?,
        inspect(&engine, &text("second"))?,
    );
    Ok(container_networks(&a, &b).into())
}

pub(super) fn compare_networks(call: &mut Call<'_>) -> Result {
    let engine = Engine::open(call)?;
    let text = |name: &str| call.text(name).unwrap_or_default();
    let a = networks::inspect(&engine, &text("first"))?;
    let b = networks::inspect(&engine, &text("second"))?;
    Ok(networks_differ(&a, &b, &name_list(call.arg("ignore"))).into())
}
