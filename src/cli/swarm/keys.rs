//! Addresses of the masters, and key pairs of simulated minions.

use super::options::SwarmArgs;
use halite_client::swarm::MasterAddress;
use halite_client::swarm::session::MinionKeys;
use halite_crypto::{IdentityKey, KeyType};
use halite_sys::daemon::{make_dir, write_atomic};
use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::Path;

/// Where the masters listen.
///
/// # Errors
/// A name has no address, or a port is no number.
pub(super) fn masters(options: &SwarmArgs) -> io::Result<Vec<MasterAddress>> {
    let words = options.master.iter();
    words.map(|word| master(word, options)).collect()
}

/// `HOST`, `HOST:RET_PORT` or `HOST:RET_PORT:PUBLISH_PORT`, where an IPv6 address with a port is in brackets.
fn master(word: &str, options: &SwarmArgs) -> io::Result<MasterAddress> {
    let bad = |why: &dyn fmt::Display| {
        let kind = io::ErrorKind::InvalidInput;
        io::Error::new(kind, format!("--master {word}: {why}"))
    };
    let (host, ports) = match word.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, ports)) => (host, ports.strip_prefix(':').unwrap_or(ports)),
        None if word.parse::<Ipv6Addr>().is_ok() => (word, ""),
        None => word.split_once(':').unwrap_or((word, "")),
    };
    let (requests, publish) = ports.split_once(':').unwrap_or((ports, ""));
    let port = |text: &str| match text {
        "" => Ok(None),
        _ => text
            .parse::<u16>()
            .map(Some)
            .map_err(|_| bad(&format!("{text} is no port"))),
    };
    let found = (host, port(requests)?.unwrap_or(options.ret_port));
    let found = found.to_socket_addrs().map_err(|e| bad(&e))?;
    Ok(MasterAddress {
        // A master listens on IPv4 by default.
        requests: found
            .min_by_key(SocketAddr::is_ipv6)
            .ok_or_else(|| bad(&"the name has no address"))?,
        publish_port: port(publish)?.or(options.publish_port),
    })
}

/// The pool of keys, read from the directory if they exist.
pub(super) fn keys(options: &SwarmArgs) -> io::Result<Vec<MinionKeys>> {
    let count = options.key_pool.clamp(1, options.minions.max(1));
    if let Some(dir) = &options.keys {
        make_dir(dir, 0o700)?;
    }
    (0..count)
        .map(|n| {
            let kind = options.key_type;
            let keys = one_key(options.keys.as_deref(), kind, n)?;
            Ok(if options.noise || kind == KeyType::Ed25519 {
                keys.with_noise()
            } else {
                keys
            })
        })
        .collect()
}

fn one_key(dir: Option<&Path>, kind: KeyType, n: usize) -> io::Result<MinionKeys> {
    let generate = || {
        let key = IdentityKey::generate(kind, 2048);
        key.map_err(|e| io::Error::other(e.to_string()))
    };
    let Some(dir) = dir else {
        return Ok(MinionKeys::new(generate()?));
    };
    let path = dir.join(format!("pool-{n}.pem"));
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let key = IdentityKey::from_pem(&text)
                .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?;
            Ok(MinionKeys::new(key))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let key = generate()?;
            write_atomic(&path, key.to_pem().as_bytes(), 0o400)?;
            Ok(MinionKeys::new(key))
        }
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn read(words: &str) -> io::Result<Vec<(String, Option<u16>)>> {
        let line = ["halite-swarm", "--ret-port", "1", "--master", words];
        let masters = masters(&SwarmArgs::parse_from(line))?;
        let text = |m: MasterAddress| (m.requests.to_string(), m.publish_port);
        Ok(masters.into_iter().map(text).collect())
    }

    #[test]
    fn masters_are_hosts_with_ports() {
        let found = read("127.0.0.1,127.0.0.2:5,127.0.0.3:6:7,::1,[::1]:8:9").unwrap();
        let wanted = [
            ("127.0.0.1:1", None),
            ("127.0.0.2:5", None),
            ("127.0.0.3:6", Some(7)),
            ("[::1]:1", None),
            ("[::1]:8", Some(9)),
        ];
        assert_eq!(found, wanted.map(|(text, port)| (text.to_owned(), port)));
        for wrong in ["127.0.0.1:x", "127.0.0.1:1:x", "127.0.0.1:70000"] {
            let said = read(wrong).unwrap_err().to_string();
            assert!(
                said.contains(wrong) && said.contains("is no port"),
                "{said}"
            );
        }
    }
}
