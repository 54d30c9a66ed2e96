//! Traits of a sysinspect minion as grains.
//!
//! Each trait becomes one grain with its full dotted name. Nested maps would not work: `system.hostname` and
//! `system.hostname.fqdn` both exist, so a name would have to be a value and a map at once, and globs over names
//! (`system.net.*.ipv4`, where an interface's name may contain dots) need the whole name. The few grains that mixed
//! fleets are targeted by are added under Salt's names.

use halite_wire::{Map, Value};

/// Traits that are also set as grains under other names.
const ALIASES: &[(&str, &[&str])] = &[
    ("host", &["system.hostname"]),
    ("fqdn", &["system.hostname.fqdn", "system.hostname"]),
    ("nodename", &["system.hostname"]),
    ("kernelrelease", &["system.kernel"]),
    ("os", &["system.os.distribution", "system.os.name"]),
    ("osfullname", &["system.os.name"]),
    ("osrelease", &["system.os.version"]),
    ("num_cpus", &["hardware.cpu.total"]),
    ("cpu_model", &["hardware.cpu.brand"]),
];

/// Traits read from one minion at most; real ones have a few dozen.
const MOST: usize = 4096;

/// The grains of a minion with these traits: `id` and `gateway`, Salt's names, then the traits.
///
/// Keys of `traits` must be unique. Traits beyond [`MOST`] are left out.
pub(super) fn grains(id: &str, traits: &Map) -> Map {
    // A trait called `id` must not let a minion pose as another.
    let mut out = halite_wire::map! {"id" => id, "gateway" => "sysinspect"};
    for (name, sources) in ALIASES {
        let found = sources.iter().find_map(|source| traits.get(source));
        if let Some(value) = found {
            out.set(*name, value.clone());
        }
    }
    if let Some(Value::Str(host)) = out.get_mut("host")
        && let Some((short, _)) = host.split_once('.')
    {
        *host = short.to_owned();
    }
    if let Some(bytes) = traits.int("hardware.memory") {
        // Salt counts in MiB.
        out.set("mem_total", bytes >> 20);
    }
    for family in ["ipv4", "ipv6"] {
        let found = addresses(traits, family);
        if !found.is_empty() {
            out.set(family, found);
        }
    }
    let own = out.len();
    for (name, value) in traits.iter().take(MOST) {
        let Some(name) = name.as_str() else { continue };
        match out.0[..own].iter_mut().find(|(key, _)| key.is_str(name)) {
            Some(_) if name == "id" || name == "gateway" => {}
            Some((_, slot)) => *slot = value.clone(),
            None => out.0.push((name.into(), value.clone())),
        }
    }
    out
}

/// Addresses in `system.net.<interface>.<family>`, sorted.
fn addresses(traits: &Map, family: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for (name, value) in traits.iter().take(MOST) {
        let inner = name.as_str().and_then(|n| n.strip_prefix("system.net."));
        let Some((_, kind)) = inner.and_then(|n| n.rsplit_once('.')) else {
            continue;
        };
        if kind == family {
            out.extend(value.as_str().map(str::to_owned));
            out.extend(value.str_list());
        }
    }
    out.sort();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_gateway::answer::find;

    #[test]
    fn traits_keep_their_names() {
        let id = "30006546535e428aba0a0caa6712e225";
        let traits = halite_wire::map! {
            "system.hostname" => "web-w1.example.org", "system.os.name" => "Debian GNU/Linux",
            "system.os.distribution" => "debian", "hardware.memory" => 25276502016i64,
            "system.net.lo.ipv4" => "127.0.0.1", "system.net.eth0.100.ipv4" => "192.168.1.5",
            "id" => "somebody",
        };
        let grains = grains(id, &traits);
        assert_eq!(grains.str("id"), Some(id));
        assert_eq!(grains.str("host"), Some("web-w1"));
        assert_eq!(grains.str("fqdn"), Some("web-w1.example.org"));
        assert_eq!(grains.str("os"), Some("debian"));
        assert_eq!(grains.int("mem_total"), Some(24105));
        assert_eq!(grains.str("system.os.name"), Some("Debian GNU/Linux"));
        let ipv4 = grains.get("ipv4").unwrap().str_list();
        assert_eq!(ipv4, ["127.0.0.1", "192.168.1.5"]);
    }

    #[test]
    fn many_traits_and_paths() {
        let many: Map = (0..3 * MOST).map(|n| (format!("t{n}"), n as i64)).collect();
        assert_eq!(grains("a1", &many).len(), MOST + 2);
        let nested =
            halite_wire::map! {"a" => halite_wire::map! {"b.c" => halite_wire::map! {"d" => 1}}};
        assert_eq!(find(&nested, "a:b.c:d"), Some(&1.into()));
        assert_eq!(find(&nested, "a:x"), None);
    }
}
