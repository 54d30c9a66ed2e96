//! Network interfaces and routes from the kernel, in the form of `salt/utils/network.py interfaces`, without running
//! `ip`.

use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One address of an interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// The IP address.
    pub ip: IpAddr,
    /// Prefix length.
    pub prefix: u32,
    /// Broadcast address, IPv4 only.
    pub broadcast: Option<Ipv4Addr>,
    /// Label, IPv4 only: the interface's name or an alias.
    pub label: String,
    /// Scope, IPv6 only.
    pub scope: &'static str,
    /// Whether an earlier address of the interface is in the same network, IPv4 only.
    pub secondary: bool,
}

/// One interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it is up.
    pub up: bool,
    /// The parent or peer interface; `if7` if it is in another namespace.
    pub parent: Option<String>,
    /// Hardware address, except for tunnels.
    pub hwaddr: Option<String>,
    /// In the kernel's order.
    pub addresses: Vec<Address>,
}

impl Interface {
    /// Addresses of one family, as text.
    pub fn ips(&self, v4: bool) -> Vec<String> {
        self.addresses
            .iter()
            .filter(|a| a.ip.is_ipv4() == v4)
            .map(|a| a.ip.to_string())
            .collect()
    }

    /// The form of `network.interfaces`.
    pub fn map(&self) -> Map {
        let mut out = map! {"up" => self.up};
        if let Some(parent) = &self.parent {
            out.set("parent", parent);
        }
        if let Some(hwaddr) = &self.hwaddr {
            out.set("hwaddr", hwaddr);
        }
        let (v4, v6): (Vec<&Address>, Vec<&Address>) =
            self.addresses.iter().partition(|a| a.ip.is_ipv4());
        let (second, v4): (Vec<&Address>, Vec<&Address>) =
            v4.into_iter().partition(|a| a.secondary);
        let list = |all: Vec<&Address>, map: fn(&Address) -> Map| -> Vec<Value> {
            all.into_iter().map(|a| map(a).into()).collect()
        };
        for (key, values) in [
            ("inet", list(v4, v4_map)),
            ("secondary", list(second, secondary_map)),
            ("inet6", list(v6, v6_map)),
        ] {
            if !values.is_empty() {
                out.set(key, values);
            }
        }
        out
    }
}

fn secondary_map(a: &Address) -> Map {
    let mut out = map! {"type" => "inet"};
    out.0.extend(v4_map(a).0);
    out
}

fn v4_map(a: &Address) -> Map {
    let mask = u32::MAX.checked_shl(32 - a.prefix.min(32)).unwrap_or(0);
    map! {
        "address" => a.ip.to_string(),
        "netmask" => Ipv4Addr::from(mask).to_string(),
        "broadcast" => a.broadcast.map(|b| b.to_string()),
        "label" => &a.label,
    }
}

fn v6_map(a: &Address) -> Map {
    map! {
        "address" => a.ip.to_string(),
        "prefixlen" => a.prefix.to_string(),
        "scope" => a.scope,
    }
}

/// All interfaces, in the kernel's order, without unreadable ones.
pub fn interfaces() -> Vec<Interface> {
    let Ok(entries) = nix::ifaddrs::getifaddrs() else {
        return Vec::new();
    };
    let scopes = scopes();
    let mut all: Vec<Interface> = Vec::new();
    for entry in entries {
        let flags = entry.flags;
        // An address's label is `name:alias`; link entries come first and have the bare name.
        let name = entry.interface_name.split(':').next().unwrap_or_default();
        let at = match all.iter().position(|i| i.name == name) {
            Some(at) => at,
            None => {
                all.push(Interface {
                    name: name.to_owned(),
                    up: flags.contains(nix::net::if_::InterfaceFlags::IFF_UP),
                    parent: None,
                    hwaddr: hwaddr(name),
                    addresses: Vec::new(),
                });
                all.len() - 1
            }
        };
        let Some(address) = entry.address else {
            continue;
        };
        let mask = entry.netmask;
        if let Some(ip) = address.as_sockaddr_in() {
            let mask = mask.and_then(|m| m.as_sockaddr_in().map(|m| u32::from(m.ip())));
            let broadcast = entry
                .broadcast
                .filter(|_| flags.contains(nix::net::if_::InterfaceFlags::IFF_BROADCAST))
                .and_then(|b| b.as_sockaddr_in().map(|b| b.ip()))
                // Without a broadcast address, the C library returns the address itself.
                .filter(|b| *b != ip.ip());
            let prefix = mask.map_or(32, u32::count_ones);
            let secondary = all[at].addresses.iter().any(|a| {
                let same = |old: Ipv4Addr| shares_network(old, ip.ip(), prefix);
                !a.secondary && a.prefix == prefix && matches!(a.ip, IpAddr::V4(old) if same(old))
            });
            all[at].addresses.push(Address {
                ip: ip.ip().into(),
                prefix,
                broadcast,
                label: entry.interface_name.clone(),
                scope: "",
                secondary,
            });
        } else if let Some(ip) = address.as_sockaddr_in6() {
            let mask = mask.and_then(|m| m.as_sockaddr_in6().map(|m| u128::from(m.ip())));
            all[at].addresses.push(Address {
                ip: ip.ip().into(),
                prefix: mask.map_or(128, u128::count_ones),
                broadcast: None,
                label: String::new(),
                scope: scopes.get(&ip.ip()).copied().unwrap_or("global"),
                secondary: false,
            });
        }
    }
    add_parents(&mut all);
    all
}

/// The kernel's rule for secondary addresses.
fn shares_network(a: Ipv4Addr, b: Ipv4Addr, prefix: u32) -> bool {
    let shift = 32 - prefix.min(32);
    let network = |ip| u32::from(ip).checked_shr(shift).unwrap_or(0);
    network(a) == network(b)
}

/// Sets what `ip` prints after the `@` of a name.
fn add_parents(all: &mut [Interface]) {
    let number = |name: &str, file: &str| -> Option<u32> {
        let text = std::fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok()?;
        text.trim().parse().ok()
    };
    let links: Vec<(String, Option<u32>, Option<u32>)> = all
        .iter()
        .map(|i| {
            let name = i.name.clone();
            let (own, link) = (number(&name, "ifindex"), number(&name, "iflink"));
            (name, own, link)
        })
        .collect();
    for interface in all {
        let own = links.iter().find(|(name, ..)| *name == interface.name);
        let Some((name, Some(index), Some(link))) = own else {
            continue;
        };
        if link == index {
            continue;
        }
        if *link == 0 {
            interface.parent = Some("NONE".to_owned());
            continue;
        }
        // The index may be of another namespace, unless an interface here refers back to it.
        let other = links.iter().find(|(_, other, _)| *other == Some(*link));
        let tied = other.filter(|(other, _, back)| {
            let lower = format!("/sys/class/net/{name}/lower_{other}");
            *back == Some(*index) || std::path::Path::new(&lower).exists()
        });
        interface.parent = Some(match tied {
            Some((other, ..)) => other.clone(),
            None => format!("if{link}"),
        });
    }
}

fn hwaddr(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{name}/address")).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

fn scopes() -> HashMap<Ipv6Addr, &'static str> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    table
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let ip = Ipv6Addr::from(u128::from_str_radix(words.next()?, 16).ok()?);
            let scope = match words.nth(2)? {
                "10" => "host",
                "20" => "link",
                "40" => "site",
                _ => "global",
            };
            Some((ip, scope))
        })
        .collect()
}

/// All addresses of one family, sorted numerically, without duplicates.
pub fn addresses(all: &[Interface], v4: bool, loopback: bool) -> Vec<String> {
    let mut ips: Vec<IpAddr> = all
        .iter()
        .flat_map(|i| i.addresses.iter().map(|a| a.ip))
        .filter(|ip| ip.is_ipv4() == v4 && (loopback || !ip.is_loopback()))
        .collect();
    ips.sort();
    ips.dedup();
    ips.iter().map(IpAddr::to_string).collect()
}

/// The default route of a family: `Some(None)` without a gateway address.
pub fn default_gateway(v4: bool) -> Option<Option<String>> {
    let path = if v4 {
        "/proc/net/route"
    } else {
        "/proc/net/ipv6_route"
    };
    let table = std::fs::read_to_string(path).ok()?;
    table
        .lines()
        .find_map(if v4 { default_v4 } else { default_v6 })
}

/// Whether this host has a TCP connection to a `tcp://` address (`salt/modules/status.py master`,
/// `salt/utils/network.py remote_port_tcp`).
pub fn is_connected(url: &str) -> bool {
    use std::net::ToSocketAddrs;
    let Some(Ok(wanted)) = url
        .strip_prefix("tcp://")
        .map(ToSocketAddrs::to_socket_addrs)
    else {
        return false;
    };
    let wanted: Vec<std::net::SocketAddr> = wanted.collect();
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        let mut peers = table.lines().filter_map(established);
        peers.any(|peer| wanted.contains(&peer))
    })
}

/// The remote address of an established connection, from a line of the kernel's table.
fn established(line: &str) -> Option<std::net::SocketAddr> {
    let mut words = line.split_whitespace().skip(2);
    let (peer, state) = (words.next()?, words.next()?);
    if state != "01" {
        return None;
    }
    let (ip, port) = peer.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // 32-bit words, each printed as a number in host byte order.
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?.to_ne_bytes()).into(),
        32 => {
            let mut bytes = [0; 16];
            for at in 0..4 {
                bytes[at * 4..at * 4 + 4].copy_from_slice(&word(at)?.to_ne_bytes());
            }
            let v6 = Ipv6Addr::from(bytes);
            v6.to_ipv4_mapped().map_or(v6.into(), IpAddr::from)
        }
        _ => return None,
    };
    Some((ip, port).into())
}

const UP: u32 = 0x1;
const GATEWAY: u32 = 0x2;
const REJECT: u32 = 0x200;

fn default_v4(line: &str) -> Option<Option<String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[_, destination, gateway, flags, _, _, _, mask, ..] = words.as_slice() else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let is_default = destination == "00000000" && mask == "00000000";
    if !is_default || flags & UP == 0 || flags & REJECT != 0 {
        return None;
    }
    // The table prints the address as a number in host byte order.
    let gateway = u32::from_str_radix(gateway, 16).ok()?.to_ne_bytes();
    Some((flags & GATEWAY != 0).then(|| Ipv4Addr::from(gateway).to_string()))
}

fn default_v6(line: &str) -> Option<Option<String>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let &[destination, prefix, _, _, gateway, _, _, _, flags, _] = words.as_slice() else {
        return None;
    };
    let flags = u32::from_str_radix(flags, 16).ok()?;
    let is_default = prefix == "00" && destination.bytes().all(|b| b == b'0');
    if !is_default || flags & UP == 0 || flags & REJECT != 0 {
        return None;
    }
    let gateway = Ipv6Addr::from(u128::from_str_radix(gateway, 16).ok()?);
    Some((flags & GATEWAY != 0).then(|| gateway.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_routes() {
        let v4 = "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0";
        let want = if cfg!(target_endian = "little") {
            "192.0.2.1"
        } else {
            "1.2.0.192"
        };
        assert_eq!(default_v4(v4), Some(Some(want.to_owned())));
        assert_eq!(
            default_v4("tun0 00000000 00000000 0001 0 0 0 00000000 0 0 0"),
            Some(None)
        );
        assert_eq!(
            default_v4("eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0"),
            None
        );
        assert_eq!(
            default_v4("Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"),
            None
        );
        let zero = "0".repeat(32);
        let gate = "fd000000000000000000000000000001";
        let v6 = format!("{zero} 00 {zero} 00 {gate} 00000400 00000001 00000000 00000003     eth0");
        assert_eq!(default_v6(&v6), Some(Some("fd00::1".to_owned())));
        let reject =
            format!("{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo");
        assert_eq!(default_v6(&reject), None);
    }

    #[test]
    fn connections_are_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("tcp://{}", listener.local_addr().unwrap());
        assert!(!is_connected(&url));
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(is_connected(&url));
        drop((stream, listener));
        assert!(!is_connected(&url));
        assert!(!is_connected("tcp://no.such.host.invalid:1") && !is_connected("x"));
        let v6 = "0: 0:1 0000000000000000FFFF00000100007F:1194 01 0:0";
        if cfg!(target_endian = "little") {
            assert_eq!(established(v6), Some("127.0.0.1:4500".parse().unwrap()));
        }
    }

    #[test]
    fn the_loopback_is_there() {
        let all = interfaces();
        let lo = all.iter().find(|i| i.name == "lo").unwrap();
        assert!(lo.up);
        assert!(
            addresses(&all, true, false)
                .iter()
                .all(|a| !a.starts_with("127."))
        );
    }
}
