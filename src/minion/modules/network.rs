//! `network`: what interfaces and addresses there are.

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::{Call, Fault, python};
use crate::minion::net::{self, Interface};
use crate::wire::{Map, Value};
use ipnet::IpNet;
use std::net::IpAddr;

const ADDRS: &[Arg] = &[
    opt("interface", Lit::Nil),
    opt("include_loopback", Lit::Bool(false)),
    opt("cidr", Lit::Nil),
    opt("type", Lit::Nil),
];
const ADDRS6: &[Arg] = &[
    opt("interface", Lit::Nil),
    opt("include_loopback", Lit::Bool(false)),
    opt("cidr", Lit::Nil),
];
const IFACE: &[Arg] = &[req("iface")];

pub(super) const MODULE: Module = Module {
    name: "network",
    functions: &[
        Function::new("interfaces", |_| Ok(interfaces().into()), "All interfaces with their addresses."),
        Function::new("interface", interface, "The IPv4 addresses of one interface with their masks.").args(IFACE),
        Function::new("interface_ip", interface_ip, "The first IPv4 address of one interface.").args(IFACE),
        Function::new("hw_addr", hw_addr, "The hardware address of one interface.").args(IFACE),
        Function::new("hwaddr", hw_addr, "Another name for network.hw_addr.").inner("hw_addr").args(IFACE),
        Function::new("ip_addrs", |c| addrs(c, true), "The IPv4 addresses of the host or of one interface, perhaps only those of a network or of type public or private.")
            .args(ADDRS),
        Function::new("ipaddrs", |c| addrs(c, true), "Another name for network.ip_addrs.").inner("ip_addrs").args(ADDRS),
        Function::new("ip_addrs6", |c| addrs(c, false), "The IPv6 addresses of the host or of one interface, perhaps only those of a network.")
            .args(ADDRS6),
        Function::new("ipaddrs6", |c| addrs(c, false), "Another name for network.ip_addrs6.").inner("ip_addrs6").args(ADDRS6),
        Function::new("get_hostname", |_| Ok(hostname().into()), "The host's name."),
        Function::new("get_fqdn", |c| Ok(c.ctx.grains.get("fqdn").cloned().unwrap_or_default()), "The host's full name, from the grains."),
        Function::new("is_loopback", is_loopback, "Whether an address is a loopback address.").args(&[req("ip_addr")]),
    ],
};

fn interfaces() -> Map {
    net::interfaces()
        .iter()
        .map(|i| (i.name.clone(), i.map()))
        .collect()
}

/// The interface, or the sentence that stock answers with.
fn one(call: &Call<'_>) -> std::result::Result<Interface, Value> {
    let wanted = python::str(call.arg("iface"));
    let mut all = net::interfaces();
    if let Some(at) = all.iter().position(|i| i.name == wanted) {
        return Ok(all.swap_remove(at));
    }
    let names: Vec<String> = all.iter().map(|i| format!("\"{}\"", i.name)).collect();
    Err(format!(
        "Interface \"{wanted}\" not in available interfaces: {}",
        names.join(", ")
    )
    .into())
}

fn interface(call: &mut Call<'_>) -> Result {
    Ok(one(call).map_or_else(
        |text| text,
        |i| i.map().get("inet").cloned().unwrap_or_default(),
    ))
}

fn interface_ip(call: &mut Call<'_>) -> Result {
    Ok(one(call).map_or_else(
        |text| text,
        |i| i.ips(true).into_iter().next().unwrap_or_default().into(),
    ))
}

fn hw_addr(call: &mut Call<'_>) -> Result {
    Ok(one(call).map_or_else(|text| text, |i| i.hwaddr.unwrap_or_default().into()))
}

fn addrs(call: &mut Call<'_>, v4: bool) -> Result {
    let mut all = net::interfaces();
    if let Some(only) = call.text("interface").filter(|i| !i.is_empty()) {
        all.retain(|i| i.name == only);
    }
    let mut ips = net::addresses(&all, v4, call.flag("include_loopback"));
    if let Some(cidr) = call.text("cidr").filter(|c| !c.is_empty()) {
        let net: IpNet = cidr.parse().map_err(|_| {
            Fault::raised(
                "ValueError",
                format!("'{cidr}' does not appear to be a network"),
            )
        })?;
        ips.retain(|ip| ip.parse::<IpAddr>().is_ok_and(|ip| net.contains(&ip)));
        return Ok(ips.into());
    }
    match call.arg("type").as_str() {
        Some("public") => ips.retain(|ip| !private(ip)),
        Some("private") => ips.retain(|ip| private(ip)),
        _ => {}
    }
    Ok(ips.into())
}

fn private(ip: &str) -> bool {
    match ip.parse() {
        Ok(IpAddr::V4(ip)) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip.is_unique_local() || ip.is_loopback(),
        Err(_) => false,
    }
}

fn hostname() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |n| n.to_string_lossy().into_owned())
}

fn is_loopback(call: &mut Call<'_>) -> Result {
    let text = python::str(call.arg("ip_addr"));
    let ip: IpAddr = text.parse().map_err(|_| {
        let shown = python::repr(&text.as_str().into());
        Fault::raised(
            "ValueError",
            format!("{shown} does not appear to be an IPv4 or IPv6 address"),
        )
    })?;
    Ok(ip.is_loopback().into())
}
