//! Who is connected to the publish port through load balancers (`proxy_protocol`). The kernel knows the balancers'
//! addresses only, and the publisher alone has read the headers: it writes them to a file, for the processes that ask
//! who is there.
//!
//! A line for each connection: the port, the balancer's end, and the peer's address. It counts only while the kernel
//! has the connection, so what a publisher has left that ended does no harm.

use halite_config::{MasterConfig, Networks};
use halite_sys::daemon::write_atomic;
use halite_sys::net::{self, Connection};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// A connection of a balancer: port of the master, and the balancer's end.
type Place = (u16, SocketAddr);

/// Replaces what the file says: for connections of balancers the port of the master, the balancer's end, and the peer.
///
/// # Errors
/// The file cannot be written.
pub fn write(
    path: &Path,
    relayed: impl Iterator<Item = (u16, SocketAddr, IpAddr)>,
) -> io::Result<()> {
    let mut text = String::new();
    for (port, balancer, client) in relayed {
        let balancer = canonical(balancer);
        // A string takes any number of them.
        let _ = writeln!(text, "{port} {balancer} {client}");
    }
    write_atomic(path, text.as_bytes(), 0o600)
}

/// How many connections to the publish ports each address has, those of balancers under the address of the peer that
/// they have named. Others of balancers are nobody's: health checks, and such without a header as yet.
pub fn peer_counts(config: &MasterConfig) -> BTreeMap<IpAddr, usize> {
    let ports = config.publish_ports();
    if config.proxy_protocol.0.is_empty() {
        return net::peer_counts(&ports);
    }
    let all = net::all_established().into_iter();
    let here = all.filter(|connection| ports.contains(&connection.local_port));
    let relayed = read(&config.relayed());
    count(here, &config.proxy_protocol, &relayed)
}

fn count(
    connections: impl Iterator<Item = Connection>,
    balancers: &Networks,
    relayed: &HashMap<Place, IpAddr>,
) -> BTreeMap<IpAddr, usize> {
    let mut counts = BTreeMap::new();
    for connection in connections {
        let end = canonical(SocketAddr::new(connection.remote, connection.remote_port));
        let peer = match balancers.contain(end.ip()) {
            true => relayed.get(&(connection.local_port, end)).copied(),
            false => Some(end.ip()),
        };
        if let Some(peer) = peer {
            *counts.entry(peer).or_default() += 1;
        }
    }
    counts
}

fn read(path: &Path) -> HashMap<Place, IpAddr> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| {
        if e.kind() != io::ErrorKind::NotFound {
            log::warn!(
                "minions behind load balancers are not seen: {}: {e}",
                path.display()
            );
        }
        String::new()
    });
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(Place, IpAddr)> {
    let mut words = line.split(' ');
    let port = words.next()?.parse().ok()?;
    let balancer = words.next()?.parse().ok()?;
    let peer = words.next()?.parse().ok()?;
    Some(((port, balancer), peer))
}

/// With an address of IPv4 where it is one.
fn canonical(end: SocketAddr) -> SocketAddr {
    SocketAddr::new(end.ip().to_canonical(), end.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relayed");
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let all = [
            (4505, address("10.0.0.5:41000"), [192, 0, 2, 1].into()),
            (
                4605,
                address("[::ffff:10.0.0.5]:41000"),
                [192, 0, 2, 2].into(),
            ),
            (4505, address("[fd00::5]:1"), "2001:db8::1".parse().unwrap()),
        ];
        write(&path, all.into_iter()).unwrap();
        let found = read(&path);
        assert_eq!(found.len(), 3);
        assert_eq!(found[&(4605, address("10.0.0.5:41000"))], all[1].2);
        assert_eq!(found[&(4505, all[2].1)], all[2].2);
        std::fs::write(&path, "x\n4505 10.0.0.5\n4505 10.0.0.5:1 192.0.2.9\n").unwrap();
        assert_eq!(read(&path).len(), 1);
    }

    #[test]
    fn only_connections_that_are_there_count() {
        let options = halite_wire::map! {"proxy_protocol" => vec!["10.0.0.5".to_owned()]};
        let config = MasterConfig::from_map(options, Path::new("/")).unwrap();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let connection = |remote: &str, remote_port| Connection {
            local: address("10.0.0.1"),
            local_port: 4505,
            remote: address(remote),
            remote_port,
        };
        let connections = [
            connection("10.0.0.5", 1),
            connection("::ffff:10.0.0.5", 2),
            connection("10.0.0.5", 3),
            connection("10.0.0.6", 4),
        ];
        let balancer = |port| SocketAddr::new(address("10.0.0.5"), port);
        let client = address("192.0.2.1");
        let relayed = HashMap::from([
            ((4505, balancer(1)), client),
            ((4505, balancer(2)), client),
            ((4605, balancer(3)), client),
            ((4505, balancer(9)), address("192.0.2.9")),
            ((4505, SocketAddr::new(address("10.0.0.6"), 4)), client),
        ]);
        let counts = count(connections.into_iter(), &config.proxy_protocol, &relayed);
        let expected = BTreeMap::from([(client, 2), (address("10.0.0.6"), 1)]);
        assert_eq!(counts, expected, "the third is a check, the ninth has gone");
    }
}
