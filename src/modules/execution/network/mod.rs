//! `network`: interfaces, addresses, routes, connections and other hosts.

mod addresses;
pub(super) mod ipaddress;
mod peers;
mod probe;
mod routes;
mod settings;

use super::Call;
use super::declare::{Arg, Function, Lit, Module, Result, opt, req};

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
const NETWORKS: &[Arg] = &[
    opt("interface", Lit::Nil),
    opt("include_loopback", Lit::Bool(false)),
    opt("verbose", Lit::Bool(false)),
];
const IFACE: &[Arg] = &[req("iface")];
const IP: &[Arg] = &[req("ip_addr")];
const HOST: &[Arg] = &[req("host")];
const FAMILY: &[Arg] = &[opt("family", Lit::Nil)];

pub(super) const MODULE: Module = Module {
    name: "network",
    functions: &[
        Function::new("active_tcp", peers::active_tcp, "The established TCP connections."),
        Function::new("arp", peers::arp, "The ARP table: addresses by hardware address."),
        Function::new("calc_net", addresses::calc_net, "The network of an address with its mask, given separately or after a slash.")
            .args(&[req("ip_addr"), opt("netmask", Lit::Nil)]),
        Function::new("connect", probe::connect, "Tries to connect to a port of a host; accepts proto, timeout and family.")
            .args(&[req("host"), opt("port", Lit::Nil)])
            .keywords(),
        Function::new("convert_cidr", addresses::convert_cidr, "First address, mask and last address of a network.").args(&[req("cidr")]),
        Function::new("default_route", routes::default_route, "The default routes, optionally of the family inet or inet6.").args(FAMILY),
        Function::new("dig", probe::dig, "The output of dig for a name.").args(HOST),
        Function::new("fqdns", probe::fqdns, "The fully qualified names of this host's addresses."),
        Function::new("get_bufsize", settings::get_bufsize, "The ring buffer sizes of a network interface, by ethtool.").args(IFACE),
        Function::new("get_fqdn", |c| Ok(probe::full_name(c, &settings::hostname()).into()), "The host's fully qualified name."),
        Function::new("get_hostname", |_| Ok(settings::hostname().into()), "The host's name."),
        Function::new("get_route", routes::get_route, "The route to an address.").args(&[req("ip")]),
        Function::new("hw_addr", addresses::hw_addr, "The hardware address of one interface.").args(IFACE),
        Function::new("hwaddr", addresses::hw_addr, "Alias of network.hw_addr.").inner("hw_addr").args(IFACE),
        Function::new("ifacestartswith", addresses::ifacestartswith, "The interfaces with an address that starts with a text.").args(&[req("cidr")]),
        Function::new("in_subnet", addresses::in_subnet, "Whether this host has an address in a network.").args(&[req("cidr")]),
        Function::new("interface", addresses::interface, "The IPv4 addresses of one interface with their masks.").args(IFACE),
        Function::new("interface_ip", addresses::interface_ip, "The first IPv4 address of one interface.").args(IFACE),
        Function::new("interfaces", addresses::interfaces, "All interfaces with their addresses."),
        Function::new("ip_addrs", |c| addresses::addrs(c, true), "The IPv4 addresses of the host or of some interfaces, optionally only those in a network or of type public or private.")
            .args(ADDRS),
        Function::new("ip_addrs6", |c| addresses::addrs(c, false), "The IPv6 addresses of the host or of some interfaces, optionally only those in a network.")
            .args(ADDRS6),
        Function::new("ip_in_subnet", addresses::ip_in_subnet, "Whether an address is in a network.").args(&[req("ip_addr"), req("cidr")]),
        Function::new("ip_neighs", |c| peers::neighbours(c, '.'), "The IPv4 neighbours: addresses by hardware address."),
        Function::new("ip_neighs6", |c| peers::neighbours(c, ':'), "The IPv6 neighbours: addresses by hardware address."),
        Function::new("ip_networks", |c| addresses::ip_networks(c, true), "The IPv4 networks of the host or of some interfaces.").args(NETWORKS),
        Function::new("ip_networks6", |c| addresses::ip_networks(c, false), "The IPv6 networks of the host or of some interfaces.").args(NETWORKS),
        Function::new("ipaddrs", |c| addresses::addrs(c, true), "Alias of network.ip_addrs.").inner("ip_addrs").args(ADDRS),
        Function::new("ipaddrs6", |c| addresses::addrs(c, false), "Alias of network.ip_addrs6.").inner("ip_addrs6").args(ADDRS6),
        Function::new("iphexval", addresses::iphexval, "An IPv4 address in hexadecimal.").args(&[req("ip")]),
        Function::new("ipneighs", |c| peers::neighbours(c, '.'), "Alias of network.ip_neighs.").inner("ip_neighs"),
        Function::new("ipneighs6", |c| peers::neighbours(c, ':'), "Alias of network.ip_neighs6.").inner("ip_neighs6"),
        Function::new("is_loopback", |c| address_is(c, |ip| ip.is_loopback()), "Whether an address is a loopback address.").args(IP),
        Function::new("is_private", |c| address_is(c, ipaddress::is_private), "Whether an address is private.").args(IP),
        Function::new("mod_bufsize", settings::mod_bufsize, "Sets the ring buffer sizes of a network interface: rx, tx, rx-mini, rx-jumbo.")
            .args(IFACE)
            .varargs()
            .keywords(),
        Function::new("mod_hostname", settings::mod_hostname, "Changes the hostname.").args(&[req("hostname")])
        .one_line(&[]),
        Function::new("netstat", peers::netstat, "The sockets of this host."),
        Function::new("ping", probe::ping, "Pings a host four times; returns the output, or whether it answers.")
            .args(&[req("host"), opt("timeout", Lit::Bool(false)), opt("return_boolean", Lit::Bool(false))]),
        Function::new("reverse_ip", |c| Ok(ipaddress::reverse_pointer(ipaddress::address(c.arg("ip_addr"))?).into()), "The reverse DNS name of an address.")
            .args(IP),
        Function::new("routes", routes::routes, "The routes, optionally of the family inet or inet6.").args(FAMILY),
        Function::new("subnets", |c| addresses::subnets(c, true), "The IPv4 networks of the host or of some interfaces.")
            .args(&[opt("interfaces", Lit::Nil)]),
        Function::new("subnets6", |c| addresses::subnets(c, false), "The IPv6 networks of the host."),
        Function::new("traceroute", probe::traceroute, "The hops to a host.").args(HOST),
        Function::new("wol", probe::wol, "Sends a wake-on-LAN packet to a hardware address.")
            .args(&[req("mac"), opt("bcast", Lit::Str("255.255.255.255")), opt("destport", Lit::Int(9))]),
    ],
};

fn address_is(call: &mut Call<'_>, what: fn(std::net::IpAddr) -> bool) -> Result {
    Ok(what(ipaddress::address(call.arg("ip_addr"))?).into())
}
