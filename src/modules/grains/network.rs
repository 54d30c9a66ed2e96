//! Interfaces, addresses, gateways and resolvers.

use super::read;
use crate::net::{self, Interface};
use halite_wire::map;
use halite_wire::{Map, Value};
use std::net::IpAddr;

pub(super) fn add(grains: &mut Map) {
    gateways(grains);
    dns(grains);
    let all = net::interfaces();
    let hardware: Map = all
        .iter()
        .filter_map(|i| Some((i.name.clone(), i.hwaddr.clone()?)))
        .collect();
    grains.set("hwaddr_interfaces", hardware);
    grains.set("ip4_interfaces", by_name(&all, |i| i.ips(true)));
    grains.set("ip6_interfaces", by_name(&all, |i| i.ips(false)));
    grains.set(
        "ip_interfaces",
        by_name(&all, |i| [i.ips(true), i.ips(false)].concat()),
    );
    grains.set("ipv4", net::addresses(&all, true, true));
    grains.set("ipv6", net::addresses(&all, false, true));
}

fn by_name(all: &[Interface], ips: impl Fn(&Interface) -> Vec<String>) -> Map {
    all.iter().map(|i| (i.name.clone(), ips(i))).collect()
}

/// `ip4_gw` and `ip6_gw` are the gateway's address, true for a default route without gateway, or false.
fn gateways(grains: &mut Map) {
    let value = |v4: bool| match net::default_gateway(v4) {
        None => Value::Bool(false),
        Some(None) => Value::Bool(true),
        Some(Some(address)) => address.into(),
    };
    let (v4, v6) = (value(true), value(false));
    grains.set("ip_gw", v4.truthy() || v6.truthy());
    grains.set("ip4_gw", v4);
    grains.set("ip6_gw", v6);
}

fn dns(grains: &mut Map) {
    // systemd-resolved puts itself into resolv.conf; this file has the servers behind it.
    let text = read("/run/systemd/resolve/resolv.conf").or_else(|| read("/etc/resolv.conf"));
    if let Some(text) = text {
        grains.set("dns", resolv(&text));
    }
}

/// `salt/utils/dns.py parse_resolv`.
fn resolv(text: &str) -> Map {
    let mut servers: Vec<IpAddr> = Vec::new();
    let mut domain = String::new();
    let (mut search, mut sortlist, mut options) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let directive = words.next().unwrap_or_default().to_lowercase();
        let args: Vec<&str> = words.take_while(|w| !w.starts_with(['#', ';'])).collect();
        let Some(first) = args.first() else {
            continue;
        };
        match directive.as_str() {
            "nameserver" => servers.extend(
                first
                    .parse::<IpAddr>()
                    .ok()
                    .filter(|ip| !servers.contains(ip)),
            ),
            "domain" => domain = (*first).to_owned(),
            "search" => search = args.iter().map(|a| (*a).to_owned()).collect(),
            "sortlist" => sortlist.extend(args.iter().map(|a| (*a).to_owned())),
            "options" if !options.iter().any(|o| o == first) => options.push((*first).to_owned()),
            _ => {}
        }
    }
    let text = |keep: fn(&IpAddr) -> bool| -> Vec<String> {
        servers
            .iter()
            .filter(|ip| keep(ip))
            .map(IpAddr::to_string)
            .collect()
    };
    map! {
        "nameservers" => text(|_| true),
        "ip4_nameservers" => text(IpAddr::is_ipv4),
        "ip6_nameservers" => text(IpAddr::is_ipv6),
        "sortlist" => sortlist,
        "domain" => domain,
        "search" => search,
        "options" => options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers() {
        let got = resolv(
            "# c\nnameserver 10.0.0.1\nnameserver ::1 # c\nnameserver x\nnameserver 10.0.0.1\nsearch a b\noptions ndots:1 x\n",
        );
        assert_eq!(
            got.get("nameservers").unwrap().str_list(),
            ["10.0.0.1", "::1"]
        );
        assert_eq!(got.get("ip6_nameservers").unwrap().str_list(), ["::1"]);
        assert_eq!(got.get("search").unwrap().str_list(), ["a", "b"]);
        assert_eq!(got.get("options").unwrap().str_list(), ["ndots:1"]);
        assert_eq!(got.str("domain"), Some(""));
    }
}
