//! Kernel, hostnames, machine id.

use super::{put, read};
use crate::net;
use halite_wire::shlex;
use halite_wire::{Map, Value};
use std::net::IpAddr;

pub(super) fn add(grains: &mut Map) {
    let kernel = |name: &str| read(&format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let name = kernel("hostname");
    grains.set("kernel", kernel("ostype"));
    grains.set("nodename", name.as_str());
    grains.set("kernelrelease", kernel("osrelease"));
    grains.set("kernelversion", kernel("version"));
    grains.set("cpuarch", machine());
    put(
        grains,
        "kernelparams",
        read("/proc/cmdline").map(|c| parameters(&c)),
    );
    let hosts = read("/etc/hosts").unwrap_or_default();
    names(grains, &name, &hosts);
    let id = read("/etc/machine-id").or_else(|| read("/var/lib/dbus/machine-id"));
    put(grains, "machine_id", id);
}

/// The output of `uname -m`. Kernels before 6.1 have no file for it; then the program's target architecture, with
/// variants of 32-bit ARM.
fn machine() -> String {
    if let Some(machine) = read("/proc/sys/kernel/arch") {
        return machine;
    }
    let built = std::env::consts::ARCH;
    if built != "arm" {
        return match built {
            "x86" => "i686",
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le",
            other => other,
        }
        .to_owned();
    }
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    if cpu.contains("ARMv6") {
        "armv6l"
    } else {
        "armv7l"
    }
    .to_owned()
}

/// Pairs of name and value; the value is nil unless there is exactly one `=`.
fn parameters(line: &str) -> Value {
    let words = shlex::split(line).unwrap_or_default();
    let pairs: Vec<Value> = words
        .iter()
        .map(|word| {
            let parts: Vec<&str> = word.split('=').collect();
            let value = match parts.as_slice() {
                [_, value] => Value::from(value.trim_matches('"')),
                _ => Value::Nil,
            };
            vec![parts[0].into(), value].into()
        })
        .collect();
    pairs.into()
}

/// Lines of `/etc/hosts`: an address and its names.
fn entries(hosts: &str) -> Vec<(IpAddr, Vec<&str>)> {
    hosts
        .lines()
        .filter_map(|line| {
            let mut words = line.split('#').next()?.split_whitespace();
            Some((words.next()?.parse().ok()?, words.collect()))
        })
        .collect()
}

fn names(grains: &mut Map, name: &str, hosts: &str) {
    let entries = entries(hosts);
    let canonical = entries
        .iter()
        .find(|(_, names)| names.contains(&name))
        .and_then(|(_, names)| names.first().copied());
    // An entry like `127.0.1.1 localhost box` is not a name.
    let fqdn = match canonical {
        Some(found) if !found.starts_with("localhost") => found,
        _ if name.is_empty() => "localhost.localdomain",
        _ => name,
    };
    let (host, domain) = fqdn.split_once('.').unwrap_or((fqdn, ""));
    grains.set("localhost", name);
    grains.set("fqdn", fqdn);
    grains.set("host", host);
    grains.set("domain", domain);
    let of = |v4: bool| -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for (ip, names) in &entries {
            let text = ip.to_string();
            if ip.is_ipv4() == v4 && names.contains(&fqdn) && !found.contains(&text) {
                found.push(text);
            }
        }
        found
    };
    grains.set("fqdn_ip4", of(true));
    grains.set("fqdn_ip6", of(false));
    grains.set("fqdns", own_names(&entries));
}

/// The first names of this host's non-loopback addresses in the hosts file.
fn own_names(entries: &[(IpAddr, Vec<&str>)]) -> Vec<String> {
    let all = net::interfaces();
    let own = |ip: &IpAddr| {
        !ip.is_loopback() && all.iter().flat_map(|i| &i.addresses).any(|a| a.ip == *ip)
    };
    let mut found: Vec<String> = entries
        .iter()
        .filter(|(ip, _)| own(ip))
        .filter_map(|(_, names)| names.first().map(|n| (*n).to_owned()))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_parameters() {
        let got = parameters("a=1 quiet b=\"x y\" c=1=2");
        let pair = |k: &str, v: Value| Value::Array(vec![k.into(), v]);
        let want = vec![
            pair("a", "1".into()),
            pair("quiet", Value::Nil),
            pair("b", "x y".into()),
            pair("c", Value::Nil),
        ];
        assert_eq!(got, want.into());
    }

    #[test]
    fn names_from_the_hosts_file() {
        let get = |name: &str, hosts: &str| {
            let mut grains = Map::new();
            names(&mut grains, name, hosts);
            let text = |k: &str| grains.str(k).unwrap().to_owned();
            (
                text("fqdn"),
                text("host"),
                text("domain"),
                grains.get("fqdn_ip4").unwrap().str_list(),
            )
        };
        let want = |f: &str, h: &str, d: &str, ips: &[&str]| {
            (
                f.to_owned(),
                h.to_owned(),
                d.to_owned(),
                ips.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>(),
            )
        };
        let hosts = "127.0.0.1 localhost\n127.0.1.1 box.example.org box # c\n::1 box.example.org\n";
        assert_eq!(
            get("box", hosts),
            want("box.example.org", "box", "example.org", &["127.0.1.1"])
        );
        assert_eq!(
            get("vm", "127.0.0.1 vm\n"),
            want("vm", "vm", "", &["127.0.0.1"])
        );
        assert_eq!(get("a.b.c", ""), want("a.b.c", "a", "b.c", &[]));
    }
}
