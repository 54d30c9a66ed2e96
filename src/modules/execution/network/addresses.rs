//! Functions on this host's addresses and on networks.

use super::super::declare::Result;
use super::super::{Call, CallError, python};
use super::ipaddress::{self, Network, show};
use crate::net::{self, Interface};
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::net::IpAddr;

pub(super) fn interfaces(_: &mut Call<'_>) -> Result {
    let all = net::interfaces();
    let map: Map = all.iter().map(|i| (i.name.clone(), i.map())).collect();
    Ok(map.into())
}

/// The interface, or stock's error message.
fn interface_arg(call: &Call<'_>) -> Result<Interface, Value> {
    let wanted = python::str(call.arg("iface"));
    let mut all = net::interfaces();
    if let Some(at) = all.iter().position(|i| i.name == wanted) {
        return Ok(all.swap_remove(at));
    }
    let names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
    Err(format!(
        "Interface \"{wanted}\" not in available interfaces: \"{}\"",
        names.join("\", \"")
    )
    .into())
}

pub(super) fn interface(call: &mut Call<'_>) -> Result {
    Ok(interface_arg(call).map_or_else(
        |text| text,
        |i| i.map().get("inet").cloned().unwrap_or_else(|| "".into()),
    ))
}

pub(super) fn interface_ip(call: &mut Call<'_>) -> Result {
    Ok(interface_arg(call).map_or_else(
        |text| text,
        |i| i.ips(true).into_iter().next().unwrap_or_default().into(),
    ))
}

pub(super) fn hw_addr(call: &mut Call<'_>) -> Result {
    Ok(interface_arg(call).map_or_else(|text| text, |i| i.hwaddr.unwrap_or_default().into()))
}

/// Filters by interface names: a list or comma-separated text of patterns.
fn filter_interfaces(call: &Call<'_>, all: Vec<Interface>) -> Vec<Interface> {
    let patterns: Vec<String> = match call.arg("interface") {
        Value::Nil => return all,
        Value::Array(list) => list.iter().map(python::str).collect(),
        other => python::str(other)
            .split(',')
            .map(|p| p.trim().to_owned())
            .collect(),
    };
    all.into_iter()
        .filter(|i| patterns.iter().any(|p| fnmatch(&i.name, p)))
        .collect()
}

fn local_addresses(call: &Call<'_>, v4: bool) -> Vec<IpAddr> {
    let all = filter_interfaces(call, net::interfaces());
    let loopback = call.flag("include_loopback");
    sorted(all.iter(), v4, loopback)
}

fn sorted<'a>(all: impl Iterator<Item = &'a Interface>, v4: bool, loopback: bool) -> Vec<IpAddr> {
    let mut ips: Vec<IpAddr> = all
        .flat_map(|i| i.addresses.iter().map(|a| a.ip))
        .filter(|ip| ip.is_ipv4() == v4 && (loopback || !ip.is_loopback()))
        .collect();
    ips.sort();
    ips.dedup();
    ips
}

fn to_list(ips: impl IntoIterator<Item = IpAddr>) -> Value {
    Value::Array(ips.into_iter().map(|ip| show(ip).into()).collect())
}

pub(super) fn addrs(call: &mut Call<'_>, v4: bool) -> Result {
    let mut ips = local_addresses(call, v4);
    let cidr = call.arg("cidr");
    if cidr.truthy() {
        match Network::parse(cidr, true) {
            Ok(net) => ips.retain(|ip| net.contains(*ip)),
            Err(_) => ips.clear(),
        }
        return Ok(to_list(ips));
    }
    match call.arg("type").as_str() {
        Some("public") => ips.retain(|ip| !ipaddress::is_private(*ip)),
        Some("private") => ips.retain(|ip| ipaddress::is_private(*ip)),
        _ => {}
    }
    Ok(to_list(ips))
}

/// The networks of addresses, sorted and unique.
fn networks<'a>(
    all: impl Iterator<Item = &'a Interface>,
    v4: bool,
    keep: impl Fn(IpAddr, &Network) -> bool,
) -> Vec<Network> {
    let addresses = all.flat_map(|i| i.addresses.iter());
    let mut nets: Vec<Network> = addresses
        .filter(|a| a.ip.is_ipv4() == v4)
        .map(|a| (a.ip, Network::new(a.ip, a.prefix)))
        .filter(|(ip, net)| keep(*ip, net))
        .map(|(_, net)| net)
        .collect();
    nets.sort();
    nets.dedup();
    nets
}

fn names(nets: &[Network]) -> Value {
    Value::Array(nets.iter().map(|n| n.to_string().into()).collect())
}

pub(super) fn ip_networks(call: &mut Call<'_>, v4: bool) -> Result {
    let all = filter_interfaces(call, net::interfaces());
    let loopback = call.flag("include_loopback");
    let nets = networks(all.iter(), v4, |_, net| loopback || !net.is_loopback());
    if !call.flag("verbose") {
        return Ok(names(&nets));
    }
    let verbose: Map = nets
        .iter()
        .map(|net| {
            let about = map! {
                "address" => show(net.first),
                "netmask" => show(net.netmask()),
                "num_addresses" => net.size(),
                "prefixlen" => net.prefix,
            };
            (net.to_string(), about)
        })
        .collect();
    Ok(verbose.into())
}

pub(super) fn subnets(call: &mut Call<'_>, v4: bool) -> Result {
    let wanted: Option<Vec<String>> = match call.arg("interfaces") {
        Value::Nil => None,
        Value::Array(list) => Some(list.iter().map(python::str).collect()),
        other => Some(vec![python::str(other)]),
    };
    let all = net::interfaces();
    let all = all
        .iter()
        .filter(|i| wanted.as_ref().is_none_or(|w| w.contains(&i.name)));
    let nets = networks(all, v4, |ip, net| !(ip.is_loopback() && net.is_loopback()));
    Ok(names(&nets))
}

/// Invalid networks contain no address.
fn any_in(cidr: &Value, ips: &[IpAddr]) -> bool {
    Network::parse(cidr, true).is_ok_and(|net| ips.iter().any(|ip| net.contains(*ip)))
}

pub(super) fn in_subnet(call: &mut Call<'_>) -> Result {
    let all = net::interfaces();
    let mut ips = sorted(all.iter(), true, false);
    ips.extend(sorted(all.iter(), false, false));
    Ok(any_in(call.arg("cidr"), &ips).into())
}

pub(super) fn ip_in_subnet(call: &mut Call<'_>) -> Result {
    let cidr = call.arg("cidr");
    if Network::parse(cidr, true).is_err() {
        return Ok(false.into());
    }
    if call.arg("ip_addr").is_nil() {
        return in_subnet(call);
    }
    let given = match call.arg("ip_addr") {
        Value::Array(list) => list.clone(),
        other => vec![other.clone()],
    };
    for ip in &given {
        let ip = ipaddress::address(ip)?;
        if any_in(cidr, &[ip]) {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

/// `calc_net`: the network of an address, with the mask after a slash or as its own argument.
fn network_of(ip: &Value, mask: &Value) -> Result<Network> {
    match mask {
        Value::Nil => Network::parse(ip, false),
        mask => {
            let text = format!("{}/{}", python::str(ip), python::str(mask));
            Network::parse(&text.into(), false)
        }
    }
}

pub(super) fn calc_net(call: &mut Call<'_>) -> Result {
    let net = network_of(call.arg("ip_addr"), call.arg("netmask"))?;
    Ok(net.to_string().into())
}

pub(super) fn convert_cidr(call: &mut Call<'_>) -> Result {
    converted(call.arg("cidr")).map(Into::into)
}

/// First address, mask and last address of a network.
pub(super) fn converted(cidr: &Value) -> Result<Map> {
    let net = network_of(cidr, &Value::Nil)?;
    Ok(map! {
        "network" => show(net.first),
        "netmask" => show(net.netmask()),
        "broadcast" => show(net.broadcast()),
    })
}

pub(super) fn ifacestartswith(call: &mut Call<'_>) -> Result {
    let head = python::str(call.arg("cidr"));
    let all = net::interfaces();
    let labels = all
        .iter()
        .flat_map(|i| i.addresses.iter())
        .filter(|a| a.ip.is_ipv4() && !a.secondary && a.ip.to_string().starts_with(&head));
    Ok(Value::Array(
        labels.map(|a| a.label.as_str().into()).collect(),
    ))
}

pub(super) fn iphexval(call: &mut Call<'_>) -> Result {
    let Some(text) = call.arg("ip").as_str() else {
        let class = python::type_name(call.arg("ip"));
        let text = format!("'{class}' object has no attribute 'split'");
        return Err(CallError::raised("AttributeError", text));
    };
    let mut out = String::new();
    for part in text.split('.') {
        let number = python::int(&part.into())?;
        out.push_str(&if number < 0 {
            format!("-{:X}", number.unsigned_abs())
        } else {
            format!("{number:02X}")
        });
    }
    Ok(out.into())
}
