//! Grains as the traits that sysinspect's minions send (reference 8, T12 and T16).

use crate::wire::payload_value;
use halite_wire::{Map, Value};

/// The traits of this host, under the programs' names. Unknown values are left out.
pub fn of_grains(grains: &Map, id: &str) -> Map {
    let text = |name: &str| grains.str(name).unwrap_or_default().to_owned();
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_nil() && !value.is_str("") {
            out.set(name, value);
        }
    };
    put("system.hostname", text("host").into());
    put("system.hostname.fqdn", text("fqdn").into());
    put("system.hostname.ip", own_address(grains).into());
    put("system.kernel", text("kernelrelease").into());
    put("system.os.version", text("osrelease").into());
    put("system.os.name", text("osfullname").into());
    put("system.os.distribution", text("os").to_lowercase().into());
    put("system.id", id.into());
    // Grains are in MiB, traits in bytes.
    let bytes = |name: &str| grains.int(name).and_then(|mib| mib.checked_mul(1 << 20));
    put("hardware.memory", bytes("mem_total").into());
    put("hardware.swap", bytes("swap_total").into());
    put("hardware.cpu.total", grains.int("num_cpus").into());
    put("hardware.cpu.brand", text("cpu_model").into());
    put("hardware.cpu.cores", grains.int("num_cpus").into());
    for (interface, mac) in entries(grains, "hwaddr_interfaces") {
        put(&format!("system.net.{interface}.mac"), mac.clone());
    }
    for (kind, grain) in [("ipv4", "ip4_interfaces"), ("ipv6", "ip6_interfaces")] {
        for (interface, addresses) in entries(grains, grain) {
            // The programs send one address of each kind.
            let first = addresses.as_array().and_then(<[Value]>::first);
            put(
                &format!("system.net.{interface}.{kind}"),
                first.cloned().unwrap_or_default(),
            );
        }
    }
    out
}

/// The names that host globs are matched against: FQDN, host name, address.
pub fn names(traits: &Map) -> Vec<String> {
    [
        "system.hostname.fqdn",
        "system.hostname",
        "system.hostname.ip",
    ]
    .iter()
    .filter_map(|name| traits.str(name).map(str::to_owned))
    .collect()
}

fn entries<'a>(grains: &'a Map, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
    let map = grains.get(name).and_then(Value::as_map);
    map.into_iter()
        .flat_map(Map::iter)
        .filter_map(|(key, value)| Some((key.as_str()?, value)))
}

/// The first address that is not the loopback's.
fn own_address(grains: &Map) -> Option<String> {
    let all = grains.get("ipv4").map(Value::str_list).unwrap_or_default();
    all.into_iter().find(|a| !a.starts_with("127."))
}

/// The changes that a request of E3's masters asks for: `{"op": "set", "traits": {...}}`, or `unset`, or `reset`. A trait
/// without a value is removed.
///
/// # Errors
/// It is no such request.
pub(super) fn update(request: &str, pushed: &Map) -> Result<Map, String> {
    let Value::Map(request) = payload_value(&request.into()) else {
        return Err("the master's text is not a JSON object".to_owned());
    };
    let given = request.get("traits").and_then(Value::as_map);
    let given = given.cloned().unwrap_or_default();
    let removed = |traits: &Map| -> Map {
        let all = traits.iter();
        all.map(|(key, _)| (key.clone(), Value::Nil)).collect()
    };
    match request.str("op") {
        Some("set") => Ok(given),
        Some("unset") => Ok(removed(&given)),
        Some("reset") => Ok(removed(pushed)),
        other => {
            let op: String = other.unwrap_or_default().chars().take(40).collect();
            Err(format!("{op:?} is none of set, unset and reset"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn names_and_units_are_those_of_the_programs() {
        let list = |text: &str| Value::Array(vec![text.into()]);
        let grains = map! {
            "host" => "web-w1", "fqdn" => "web-w1.example.org", "kernelrelease" => "6.1.0-133-amd64",
            "osrelease" => "12", "osfullname" => "Debian GNU/Linux", "os" => "Debian",
            "mem_total" => 24105, "swap_total" => 0, "num_cpus" => 2, "cpu_model" => "SomeCPU1",
            "ipv4" => vec![Value::from("127.0.0.1"), "10.0.0.5".into()],
            "hwaddr_interfaces" => map! {"lo" => "00:00:00:00:00:00"},
            "ip4_interfaces" => map! {"lo" => list("127.0.0.1"), "eth0.7" => list("10.0.0.5"), "x" => vec![Value::Nil]},
            "ip6_interfaces" => map! {"lo" => list("::1"), "eth0.7" => Vec::<Value>::new()},
        };
        let traits = of_grains(&grains, "30006546535e428aba0a0caa6712e225");
        assert_eq!(
            serde_json::to_string(&traits).unwrap(),
            concat!(
                r#"{"system.hostname":"web-w1","system.hostname.fqdn":"web-w1.example.org","#,
                r#""system.hostname.ip":"10.0.0.5","system.kernel":"6.1.0-133-amd64","system.os.version":"12","#,
                r#""system.os.name":"Debian GNU/Linux","system.os.distribution":"debian","#,
                r#""system.id":"30006546535e428aba0a0caa6712e225","hardware.memory":25275924480,"hardware.swap":0,"#,
                r#""hardware.cpu.total":2,"hardware.cpu.brand":"SomeCPU1","hardware.cpu.cores":2,"#,
                r#""system.net.lo.mac":"00:00:00:00:00:00","system.net.lo.ipv4":"127.0.0.1","#,
                r#""system.net.eth0.7.ipv4":"10.0.0.5","system.net.lo.ipv6":"::1"}"#
            )
        );
        assert_eq!(names(&traits), ["web-w1.example.org", "web-w1", "10.0.0.5"]);
        assert_eq!(of_grains(&Map::new(), "a"), map! {"system.id" => "a"});
    }
}
