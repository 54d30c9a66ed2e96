//! Publisher, named `PubServerChannel._publish_daemon` in the process list.
//!
//! Owns the serial, the encryption and the signature of publications. Binds `tcp
//! <publish_port>` (PUB) and `publish_pull.ipc` (PULL, fed by the workers). Holds the
//! master's RSA key for the signatures and reads the shared AES key before each message.
//!
//! When it fails: publications that workers had queued are delivered to its successor,
//! one that it held is lost and its client hears so from `find_job`. The serial lives in
//! shared memory, so minions accept the successor's messages. A bind failure ends it with
//! status 4, which ends the master.
//!
//! Frames on `publish_pull.ipc`: the job load without `serial`, then any number of topics
//! (none: the message goes to everybody).

use super::reqserver::EXIT_BIND;
use super::roles::{RoleError, Roles, check_memory};
use super::score::Score;
use crate::config::MasterConfig;
use crate::crypto::{Crypticle, KeyString, PrivateKey, Signing};
use crate::sys::shared::SharedSecret;
use crate::sys::signals::StopFlag;
use crate::transport::sockets::{
    KeepAlive, again, bind, bind_ipc, recv_parts, send_parts, tcp_url,
};
use crate::wire::msgpack::{self, Item, Profile, Reader};
use std::time::{Duration, Instant};

/// Runs the role until it is told to stop.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), RoleError> {
    let context = zmq::Context::new();
    let publish = publish_socket(config, &context)?;
    let feed = context.socket(zmq::PULL)?;
    feed.set_maxmsgsize(config.max_request_size as i64)?;
    bind_ipc(&feed, &config.sock_dir.join("publish_pull.ipc"))
        .map_err(|e| RoleError::new(EXIT_BIND, e.to_string()))?;
    let mut sealer = Sealer::new(config)?;
    roles.ready();
    let mut checked = Instant::now();
    let mut score = Score::inherited("publish");
    let (mut sent, mut dropped) = (0u64, 0u64);
    while !stop.is_set() {
        score.tick(|| crate::map! {"publications" => sent, "dropped" => dropped});
        if checked.elapsed() > Duration::from_millis(250) {
            checked = Instant::now();
            check_memory()?;
        }
        match feed.poll(zmq::POLLIN, 100) {
            Ok(0) | Err(zmq::Error::EINTR) => continue,
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let parts = match recv_parts(&feed, zmq::DONTWAIT) {
            Ok(parts) => parts,
            Err(zmq::Error::EAGAIN) => continue,
            Err(e) => return Err(e.into()),
        };
        let Some((load, topics)) = parts.split_first() else {
            continue;
        };
        sent += 1;
        match sealer.seal(load) {
            Ok(message) if topics.is_empty() => again(|| publish.send(&message, 0))?,
            Ok(message) => {
                for topic in topics {
                    send_parts(&publish, &[topic.as_slice(), &message], 0)?;
                }
            }
            Err(e) => {
                sent -= 1;
                dropped += 1;
                log::error!("a publication was dropped: {e}");
            }
        }
    }
    Ok(())
}

fn publish_socket(config: &MasterConfig, context: &zmq::Context) -> Result<zmq::Socket, RoleError> {
    let socket = context.socket(zmq::PUB)?;
    socket.set_sndhwm(config.pub_hwm)?;
    socket.set_rcvhwm(config.pub_hwm)?;
    socket.set_backlog(config.zmq_backlog)?;
    // A subscriber only ever sends subscriptions.
    socket.set_maxmsgsize(4096)?;
    socket.set_linger(500)?;
    socket.set_ipv6(config.ipv6 == Some(true) || config.interface.contains(':'))?;
    if config.zmq_heartbeat_ivl > 0 {
        socket.set_heartbeat_ivl(config.zmq_heartbeat_ivl)?;
        socket.set_heartbeat_timeout(config.zmq_heartbeat_timeout)?;
    }
    KeepAlive {
        on: config.tcp_keepalive,
        idle: config.tcp_keepalive_idle,
        count: config.tcp_keepalive_cnt,
        interval: config.tcp_keepalive_intvl,
    }
    .apply(&socket)?;
    bind(&socket, &tcp_url(&config.interface, config.publish_port))
        .map_err(|e| RoleError::new(EXIT_BIND, e.to_string()))?;
    Ok(socket)
}

/// Turns job loads into signed, encrypted publications
/// (`salt/channel/server.py PubServerChannel.wrap_payload`).
struct Sealer {
    shared: SharedSecret,
    generation: u64,
    crypticle: Option<Crypticle>,
    serial: u64,
    signer: Option<(PrivateKey, Signing)>,
}

impl Sealer {
    fn new(config: &MasterConfig) -> Result<Sealer, RoleError> {
        let signer = if config.sign_pub_messages {
            let algorithm = config
                .publish_signing_algorithm
                .parse()
                .map_err(|e| RoleError::new(1, format!("publish_signing_algorithm: {e}")))?;
            Some((super::master_key(config)?, algorithm))
        } else {
            None
        };
        Ok(Sealer {
            shared: SharedSecret::inherited()?,
            generation: 0,
            crypticle: None,
            serial: 0,
            signer,
        })
    }

    fn refresh(&mut self) -> Result<&Crypticle, RoleError> {
        if self.crypticle.is_none() || self.shared.generation()? != self.generation {
            let (generation, text) = self.shared.load_key()?;
            let key = KeyString::from_text(&text).map_err(|e| RoleError::new(1, e.to_string()))?;
            self.serial = self.shared.load_serial(generation)?;
            self.generation = generation;
            self.crypticle = Some(Crypticle::new(&key));
        }
        self.crypticle
            .as_ref()
            .ok_or_else(|| RoleError::new(1, "there is no AES key"))
    }

    fn seal(&mut self, load: &[u8]) -> Result<Vec<u8>, RoleError> {
        self.refresh()?;
        self.serial += 1;
        self.shared.store_serial(self.generation, self.serial)?;
        let plain = with_serial(load, self.serial)
            .ok_or_else(|| RoleError::new(1, "it is not a msgpack map"))?;
        let sealed = match &self.crypticle {
            Some(crypticle) => crypticle.dumps_raw(&plain, None),
            None => return Err(RoleError::new(1, "there is no AES key")),
        };
        let mut message = crate::map! {"enc" => "aes"};
        if let Some((key, algorithm)) = &self.signer {
            let signature = key.sign(*algorithm, &sealed);
            message.set("load", sealed);
            message.set("sig_algo", algorithm.to_string());
            message.set("sig", signature);
        } else {
            message.set("load", sealed);
        }
        Ok(msgpack::encode_map(&message, Profile::Wire))
    }
}

/// Appends `serial` to an encoded map without decoding it.
fn with_serial(load: &[u8], serial: u64) -> Option<Vec<u8>> {
    let mut reader = Reader::new(load);
    let Item::Map(pairs) = reader.item().ok()? else {
        return None;
    };
    let mut out = Vec::with_capacity(load.len() + 24);
    msgpack::put_map_header(&mut out, pairs + 1);
    out.extend_from_slice(reader.rest());
    msgpack::put_str(&mut out, b"serial", Profile::Wire);
    msgpack::encode_into(&mut out, &serial.into(), Profile::Wire);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_comes_last() {
        let load = crate::map! {"fun" => "test.ping", "jid" => "1"};
        let bytes = with_serial(&msgpack::encode_map(&load, Profile::Wire), 300).unwrap();
        let got = msgpack::decode(&bytes).unwrap().into_map().unwrap();
        assert_eq!(
            got,
            crate::map! {"fun" => "test.ping", "jid" => "1", "serial" => 300}
        );
        assert!(with_serial(b"\x93", 1).is_none());
    }
}
