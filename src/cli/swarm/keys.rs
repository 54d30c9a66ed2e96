//! Address of the master, and key pairs of simulated minions.

use super::options::SwarmArgs;
use halite_client::swarm::session::MinionKeys;
use halite_crypto::PrivateKey;
use halite_sys::daemon::{make_dir, write_atomic};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

/// Address of the request server; IPv4 is preferred if a name has both.
pub(super) fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|e| io::Error::new(e.kind(), format!("--master {host}: {e}")))?;
    let mut all: Vec<SocketAddr> = found.collect();
    // A master listens on IPv4 by default.
    all.sort_by_key(SocketAddr::is_ipv6);
    all.into_iter().next().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("--master {host}: the name has no address"),
        )
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
            let keys = one_key(options.keys.as_deref(), n)?;
            Ok(if options.noise {
                keys.with_noise()
            } else {
                keys
            })
        })
        .collect()
}

fn one_key(dir: Option<&Path>, n: usize) -> io::Result<MinionKeys> {
    let bad = |e: halite_crypto::CryptoError| io::Error::other(e.to_string());
    let Some(dir) = dir else {
        return Ok(MinionKeys::new(PrivateKey::generate(2048).map_err(bad)?));
    };
    let path = dir.join(format!("pool-{n}.pem"));
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let key = PrivateKey::from_pem(&text)
                .map_err(|e| io::Error::other(format!("{}: {e}", path.display())))?;
            Ok(MinionKeys::new(key))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let key = PrivateKey::generate(2048).map_err(bad)?;
            write_atomic(&path, key.to_pem().as_bytes(), 0o400)?;
            Ok(MinionKeys::new(key))
        }
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}
