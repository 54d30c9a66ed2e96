//! Connections and addresses, as the kernel reports them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An established TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Address of this end.
    pub local: IpAddr,
    /// Port of this end.
    pub local_port: u16,
    /// Address of the other end.
    pub remote: IpAddr,
    /// Port of the other end.
    pub remote_port: u16,
}

/// All established TCP connections, in the order of `/proc/net/tcp` and `tcp6`.
pub fn all_established() -> Vec<Connection> {
    let tables = tables();
    tables.iter().flat_map(|table| connections(table)).collect()
}

/// Established TCP connections to one of these local ports, counted from `/proc/net/tcp` and `tcp6`.
pub fn established(ports: &[u16]) -> usize {
    tables()
        .iter()
        .flat_map(|table| connections(table))
        .filter(|c| ports.contains(&c.local_port))
        .count()
}

/// How many established connections to these local ports each address has (`salt/utils/network.py local_port_tcp`). An
/// IPv4 peer of an IPv6 socket has its IPv4 address.
pub fn peer_counts(ports: &[u16]) -> BTreeMap<IpAddr, usize> {
    let tables = tables();
    let all = tables.iter().flat_map(|table| connections(table));
    let mut counts = BTreeMap::new();
    for connection in all.filter(|c| ports.contains(&c.local_port)) {
        *counts.entry(connection.remote.to_canonical()).or_default() += 1;
    }
    counts
}

/// Addresses to which this host is connected on a given remote port (`salt/utils/network.py remote_port_tcp`).
pub fn servers(port: u16) -> BTreeSet<IpAddr> {
    tables()
        .iter()
        .flat_map(|table| connections(table))
        .filter(|c| c.remote_port == port)
        .map(|c| c.remote.to_canonical())
        .collect()
}

/// Addresses of this host's interfaces, without loopback (`salt/utils/network.py ip_addrs`,
/// `ip_addrs6`).
pub fn own_addresses() -> BTreeSet<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else {
        return BTreeSet::new();
    };
    interfaces
        .filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
        })
        .filter(|address| !address.is_loopback())
        .collect()
}

fn tables() -> Vec<String> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect()
}

fn connections(table: &str) -> impl Iterator<Item = Connection> {
    table.lines().skip(1).filter_map(connection)
}

fn connection(line: &str) -> Option<Connection> {
    let mut words = line.split_whitespace().skip(1);
    let (local, local_port) = end(words.next()?)?;
    let (remote, remote_port) = end(words.next()?)?;
    // 01 is ESTABLISHED.
    (words.next()? == "01").then_some(Connection {
        local,
        local_port,
        remote,
        remote_port,
    })
}

/// Parses `0100007F:1199`: 32-bit words in host byte order, and the port.
fn end(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let address = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => return None,
    };
    Some((address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st\n\
        0: 0100007F:1199 00000000:0000 0A 00000000\n\
        1: 0100007F:1199 0200000A:C350 01 00000000\n\
        2: 0100007F:C350 0100007F:1199 01 00000000\n\
        3: 0000000000000000FFFF00000100007F:1199 0000000000000000FFFF00000300000A:C351 01 0\n\
        4: broken\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn only_established_connections_are_read() {
        let all: Vec<_> = connections(TABLE).collect();
        assert_eq!(all.iter().filter(|c| c.local_port == 4505).count(), 2);
        assert_eq!(all[0].remote, IpAddr::from([10, 0, 0, 2]));
        assert_eq!(all[1].remote_port, 4505);
        assert_eq!(all[2].remote.to_canonical(), IpAddr::from([10, 0, 0, 3]));
    }
}
