//! Publisher, named `PubServerChannel._publish_daemon` in the process list.
//!
//! Owns the serial, the encryption and the signature of publications, and a bounded queue per subscriber. Binds
//! `publish_port` of each transport and `publish_pull.ipc` (PULL, fed by the workers). Holds the master's RSA key for
//! the signatures, reads the shared AES key before each message, and the keys of minions that say who they are (tcp).
//!
//! On failure: publications that workers had queued are delivered to its successor; one that it was handling is
//! lost, which its client finds out from `find_job`. The serial is in shared memory, so minions accept the
//! successor's messages. If it cannot bind it exits with status 4, which stops the master.
//!
//! Frames on `publish_pull.ipc`: the job load without `serial`, then any number of topics (without any, the
//! message goes to everybody). ZeroMQ's subscribers get topics only with `zmq_filtering`, which they must have set. If the
//! first topic is `private`, ids follow: each of these minions gets the job under its own session key (`publish_private`).

use super::registration::Registrar;
use super::rekey_notice::{Announcer, announcement};
use super::reqserver::EXIT_BIND;
use super::roles::{Roles, exit_if_oversized};
use super::score::{DrainSignal, Score};
use halite_config::MasterConfig;
use halite_crypto::{CipherKind, Crypticle, Gcm, IdentityKey, KeyString, PUBLICATION, Signing};
use halite_store::Stores;
use halite_store::keys::Version;
use halite_store::relayed;
use halite_store::sessions::SessionStore;
use halite_sys::exit::ExitError;
use halite_sys::log_limiter::LogLimiter;
use halite_sys::shared::SharedSecret;
use halite_sys::signals::StopFlag;
use halite_transport::poll::{Poller, Source};
use halite_transport::publish::{
    PublishCounters, PublishOptions, PublishPort, PublishServer, SubscriberCodec, Tcp, Ws, Zmtp,
};
use halite_transport::sockets::{Context, KeepAlive, Pull};
use halite_transport::tls::ServerTls;
use halite_wire::envelope::envelope_id;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Item, Profile, Reader};
use halite_wire::tls::TlsOptions;
use halite_wire::topics::{self, BROADCAST, PRIVATE};
use halite_wire::{Map, Transport};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Longest wait of a turn.
const TURN: Duration = Duration::from_millis(100);
/// Most publications read before they are sent, so that several go out in one system call.
const BURST: usize = 64;
/// Most subscribers with losses that are listed one by one; the size of a scoreboard slot is limited.
const TOLD_APART: usize = 50;
/// Most cached keys for private jobs.
const PRIVATE_HELD: usize = 10_000;
/// How long a stopping publisher keeps sending queued data.
const LINGER: Duration = Duration::from_millis(500);

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let context = Context::new();
    let mut ports = Ports::bind(config)?;
    // Publications too large for minions are refused by the worker, which can report it.
    let feed = Pull::new(&context)?;
    feed.bind_ipc(&config.publish_pull())
        .map_err(|e| ExitError::new(EXIT_BIND, e.to_string()))?;
    let mut sealer = Sealer::new(config)?;
    ports.mark();
    roles.ready();
    let mut checked = Instant::now();
    let mut score = Score::inherited("publish");
    let mut drains = DrainSignal::new(config);
    let (mut sent, mut unsealed) = (0u64, 0u64);
    while !stop.is_set() {
        score.tick(|| counters(&ports, sent, unsealed));
        if checked.elapsed() > Duration::from_millis(250) {
            checked = Instant::now();
            exit_if_oversized()?;
            announce(&mut sealer, &mut ports)?;
            ports.tell_relayed();
            if drains.begins() {
                ports.drain(drains.within)?;
            }
        }
        let mut poller = Poller::new();
        let fed = poller.add(feed.source());
        for (_, port) in &ports.all {
            poller.add(Source::fd(port.descriptor()));
        }
        poller.wait(Some(TURN))?;
        let fed = poller.is_readable(fed);
        // Peers that subscribed before a publication arrived must get it.
        ports.turn(&mut sealer)?;
        if !fed {
            continue;
        }
        for _ in 0..BURST {
            let Some(parts) = feed.receive()? else {
                break;
            };
            let Some((load, topics)) = parts.split_first() else {
                continue;
            };
            // A key change is announced under the old key, hence before the first use of the new one.
            announce(&mut sealer, &mut ports)?;
            if let Some((first, ids)) = topics.split_first()
                && first == PRIVATE.as_bytes()
            {
                sent += 1;
                unsealed += ports.publish_private(ids, load, &mut sealer);
                continue;
            }
            match sealer.seal(load) {
                Ok(message) => {
                    sent += 1;
                    ports.publish(topics, &message);
                }
                Err(e) => {
                    unsealed += 1;
                    log::error!("a publication was dropped: {e}");
                }
            }
        }
        ports.turn(&mut sealer)?;
    }
    ports.finish()?;
    Ok(())
}

/// The publish ports of all transports.
struct Ports {
    all: Vec<(halite_config::Ports, Box<dyn PublishPort>)>,
    registrar: Registrar,
    sessions: Arc<dyn SessionStore>,
    /// Keys for private jobs; when there are too many, all are dropped.
    private: HashMap<MinionId, (Version, Gcm)>,
    filtering: bool,
    relayed: RelayedFile,
}

/// Where other processes read who is connected through load balancers.
struct RelayedFile {
    path: PathBuf,
    is_due: bool,
    failures: LogLimiter,
}

impl Ports {
    /// Sends all subscribers away.
    fn drain(&mut self, within: Duration) -> Result<(), ExitError> {
        let now = Instant::now();
        for (_, port) in &mut self.all {
            port.drain(within, now)?;
        }
        Ok(())
    }

    /// Tells the other processes who is connected through load balancers, if that has changed.
    fn tell_relayed(&mut self) {
        // All of them are asked, so that none tells the same again.
        let changed = self.all.iter_mut().map(|(_, port)| port.changed_relayed());
        if changed.fold(false, |any, one| any | one) {
            self.relayed.is_due = true;
        }
        if !self.relayed.is_due {
            return;
        }
        let all = self.all.iter().flat_map(|(at, port)| {
            let relayed = port.relayed().into_iter();
            relayed.map(|one| (at.publish_port, one.balancer, one.client))
        });
        match relayed::write(&self.relayed.path, all) {
            Ok(()) => self.relayed.is_due = false,
            Err(e) => {
                if self.relayed.failures.tick(Instant::now()).is_some() {
                    let path = self.relayed.path.display();
                    log::error!("minions behind load balancers are not shown: {path}: {e}");
                }
            }
        }
    }

    fn bind(config: &MasterConfig) -> Result<Ports, ExitError> {
        let mut all = Vec::new();
        for port in config.ports() {
            let mut options = options(config);
            options.ipv6 |= port.interface.contains(':');
            let (interface, number) = (&port.interface, port.publish_port);
            let bound: std::io::Result<Box<dyn PublishPort>> = match port.transport {
                Transport::ZeroMq => bind::<Zmtp>(interface, number, options, config, None),
                Transport::Tcp => bind::<Tcp>(interface, number, options, config, config.tls()),
                Transport::Ws => bind::<Ws>(interface, number, options, config, config.tls()),
            };
            let bound = bound.map_err(|e| ExitError::new(EXIT_BIND, e.to_string()))?;
            all.push((port, bound));
        }
        Ok(Ports {
            all,
            registrar: Registrar::new(config),
            sessions: Stores::open(config).sessions,
            private: HashMap::new(),
            filtering: config.zmq_filtering,
            relayed: RelayedFile {
                path: config.relayed(),
                is_due: !config.proxy_protocol.0.is_empty(),
                failures: LogLimiter::default(),
            },
        })
    }

    fn turn(&mut self, sealer: &mut Sealer) -> Result<(), ExitError> {
        for (_, port) in &mut self.all {
            port.turn(Instant::now())?;
            for claim in port.take_claims() {
                let topics = self
                    .registrar
                    .topics(&claim.envelope, sealer.recent_keys()?);
                match topics {
                    Ok(Some(topics)) => port.register(claim.token, &topics),
                    Ok(None) => {
                        let peer = claim.peer;
                        log::debug!("publisher: {peer} has another key; it gets all publications");
                    }
                    Err(why) => port.refuse(claim.token, why),
                }
            }
        }
        Ok(())
    }

    fn publish(&mut self, topics: &[Vec<u8>], message: &[u8]) {
        let filtering = self.filtering;
        for (at, port) in &mut self.all {
            port.publish(topics_for(at.transport, filtering, topics), message);
        }
    }

    /// The key for jobs that are for `id` alone; `None` without a session.
    fn session(&mut self, id: &MinionId) -> Option<Gcm> {
        let version = self.sessions.version(CipherKind::Gcm, id)?;
        if let Some((_, key)) = self.private.get(id).filter(|(of, _)| *of == version) {
            return Some(key.clone());
        }
        let session = self.sessions.get(CipherKind::Gcm, id).ok()??;
        if self.private.len() >= PRIVATE_HELD {
            self.private.clear();
        }
        let key = Gcm::derive(&session, PUBLICATION);
        self.private.insert(id.clone(), (version, key.clone()));
        Some(key)
    }

    /// Sends a job to each of these minions under its session key; returns to how many it could not be sent.
    fn publish_private(&mut self, ids: &[Vec<u8>], load: &[u8], sealer: &mut Sealer) -> u64 {
        let mut failed = 0;
        for id in ids {
            let id = envelope_id(std::str::from_utf8(id).ok());
            let Some((id, key)) = id.and_then(|id| Some((id.clone(), self.session(&id)?))) else {
                failed += 1;
                log::warn!("a private job was not sent to a minion whose session has just ended");
                continue;
            };
            let Some(message) = sealer.seal_private(id.as_str(), &key, load) else {
                failed += 1;
                log::error!("a publication was dropped: it is not a msgpack map");
                continue;
            };
            let topic = topics::private(id.as_str());
            for (_, port) in &mut self.all {
                port.publish_exact(topic.as_bytes(), &message);
            }
        }
        failed
    }

    fn mark(&mut self) {
        self.all.iter_mut().for_each(|(_, port)| port.mark());
    }

    fn publish_to_marked(&mut self, message: &[u8]) {
        let all = [BROADCAST.into()];
        for (at, port) in &mut self.all {
            port.publish_to_marked(topics_for(at.transport, self.filtering, &all), message);
        }
    }

    fn finish(&mut self) -> std::io::Result<()> {
        for (at, port) in &mut self.all {
            port.finish(LINGER)?;
            log::debug!("publisher, {}: {:?}", at.transport, port.counters());
        }
        Ok(())
    }
}

/// Binds a port, with load balancers in front of it if there are any.
fn bind<C: SubscriberCodec + 'static>(
    interface: &str,
    port: u16,
    options: PublishOptions,
    config: &MasterConfig,
    tls: Option<&TlsOptions>,
) -> std::io::Result<Box<dyn PublishPort>> {
    let mut server = PublishServer::<C>::bind(interface, port, options)?;
    let balancers = &config.proxy_protocol.0;
    if !balancers.is_empty() {
        server = server.with_balancers(balancers.as_slice().into())?;
    }
    if let Some(tls) = tls {
        server = server.with_tls(ServerTls::new(tls)?)?;
    }
    Ok(Box::new(server))
}

fn topics_for(transport: Transport, filtering: bool, topics: &[Vec<u8>]) -> &[Vec<u8>] {
    match transport {
        Transport::ZeroMq if !filtering => &[],
        _ => topics,
    }
}

/// Announces a key change, if there is one, to the minions that were connected at the last check.
/// Later ones may have signed in to the new key, and could not decrypt a message under the old one.
fn announce(sealer: &mut Sealer, ports: &mut Ports) -> Result<(), ExitError> {
    if let Some(message) = sealer.announcement()? {
        ports.publish_to_marked(&message);
    }
    ports.mark();
    Ok(())
}

fn options(config: &MasterConfig) -> PublishOptions {
    let millis = |n: i32| Duration::from_millis(u64::try_from(n).unwrap_or(0));
    let every = millis(config.zmq_heartbeat_ivl);
    // As in libzmq: without an own timeout, an answer may take as long as the heartbeat interval.
    let patience = match config.zmq_heartbeat_timeout {
        ..=0 => every,
        n => millis(n),
    };
    PublishOptions {
        // 0 means no limit, as in ZeroMQ; the limit of bytes applies all the same.
        queue: match usize::try_from(config.pub_hwm) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(n) => n,
        },
        backlog: config.zmq_backlog,
        ipv6: config.ipv6 == Some(true),
        heartbeat: (!every.is_zero()).then_some((every, patience)),
        keepalive: KeepAlive {
            on: config.tcp_keepalive,
            idle: config.tcp_keepalive_idle,
            count: config.tcp_keepalive_cnt,
            interval: config.tcp_keepalive_intvl,
        },
        ..PublishOptions::default()
    }
}

fn counters(ports: &Ports, sent: u64, unsealed: u64) -> Map {
    let mut c = PublishCounters::default();
    let (mut subscribers, mut waiting, mut lossy) = (0, 0, Vec::new());
    for (_, port) in &ports.all {
        c += port.counters();
        let (connections, queued) = port.waiting();
        subscribers += connections;
        waiting += queued;
        lossy.extend(port.lossy());
    }
    lossy.sort_unstable_by_key(|(peer, lost)| (std::cmp::Reverse(*lost), *peer));
    let lossy = lossy.into_iter().take(TOLD_APART);
    let lossy: Map = lossy.map(|(peer, n)| (peer.to_string(), n)).collect();
    halite_wire::map! {
        "publications" => sent, "dropped" => unsealed, "subscribers" => subscribers,
        "waiting" => waiting, "copies" => c.copies, "slow" => c.slow, "gone" => c.gone,
        "ended" => c.ended, "refused" => c.refused, "starved" => c.starved, "lossy" => lossy,
    }
}

/// Turns job loads into signed, encrypted publications (`salt/channel/server.py
/// PubServerChannel.wrap_payload`).
struct Sealer {
    shared: SharedSecret,
    generation: u64,
    crypticle: Option<Crypticle>,
    /// The key before it.
    previous: Option<Crypticle>,
    serial: u64,
    private_serial: u64,
    /// Whether other masters publish under the same key.
    in_cluster: bool,
    signer: Option<(IdentityKey, Signing)>,
    announcer: Announcer,
    /// Seconds within which minions should fetch a new key; 0 to announce nothing.
    within: u64,
}

impl Sealer {
    fn new(config: &MasterConfig) -> Result<Sealer, ExitError> {
        let signer = if config.sign_pub_messages {
            let algorithm = config
                .publish_signing_algorithm
                .parse()
                .map_err(|e| ExitError::new(1, format!("publish_signing_algorithm: {e}")))?;
            Some((super::master_key(config)?, algorithm))
        } else {
            None
        };
        Ok(Sealer {
            shared: SharedSecret::inherited()?,
            generation: 0,
            crypticle: None,
            previous: None,
            serial: 0,
            private_serial: 0,
            in_cluster: config.cluster().is_some(),
            signer,
            announcer: Announcer::default(),
            // A stock syndic takes every publication for a job.
            within: if config.order_masters {
                0
            } else {
                config.rotation_grace
            },
        })
    }

    /// The announcement of a new key, encrypted under the previous one, if it is due.
    fn announcement(&mut self) -> Result<Option<Vec<u8>>, ExitError> {
        let in_force = self.shared.generation()?;
        let offered = self.shared.offered()?.map(|(generation, _)| generation);
        let used = self.crypticle.is_some() && self.serial > 0;
        if !self.announcer.observe(in_force, offered, used) || self.within == 0 {
            return Ok(None);
        }
        let load = msgpack::encode_map(&announcement(self.within), Profile::Wire);
        self.seal_present(&load).map(Some)
    }

    fn refresh(&mut self) -> Result<&Crypticle, ExitError> {
        if self.crypticle.is_none() || self.shared.generation()? != self.generation {
            let (generation, text) = self.shared.load_key()?;
            let key = KeyString::from_text(&text).map_err(|e| ExitError::new(1, e.to_string()))?;
            self.serial = self.shared.load_serial(generation)?;
            self.generation = generation;
            self.previous = self.crypticle.replace(Crypticle::new(&key));
        }
        self.crypticle
            .as_ref()
            .ok_or_else(|| ExitError::new(1, "there is no AES key"))
    }

    /// The key in force and the one before it.
    fn recent_keys(&mut self) -> Result<impl Iterator<Item = &Crypticle>, ExitError> {
        self.refresh()?;
        Ok(self.crypticle.iter().chain(&self.previous))
    }

    fn seal(&mut self, load: &[u8]) -> Result<Vec<u8>, ExitError> {
        self.refresh()?;
        self.seal_present(load)
    }

    /// Encrypts and signs under the key that was read last.
    fn seal_present(&mut self, load: &[u8]) -> Result<Vec<u8>, ExitError> {
        self.serial = match self.in_cluster {
            // A minion may come from another master, whose last serial is not known here.
            true => nanoseconds().max(self.serial + 1),
            false => self.serial + 1,
        };
        self.shared.store_serial(self.generation, self.serial)?;
        let plain = with_serial(load, self.serial)
            .ok_or_else(|| ExitError::new(1, "it is not a msgpack map"))?;
        let sealed = match &self.crypticle {
            Some(crypticle) => crypticle.dumps_raw(&plain, None),
            None => return Err(ExitError::new(1, "there is no AES key")),
        };
        let mut message = halite_wire::map! {"enc" => "aes"};
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

    /// A job for one minion, under its session key. Its serial is a time, so that it increases over all publishers.
    fn seal_private(&mut self, id: &str, key: &Gcm, load: &[u8]) -> Option<Vec<u8>> {
        self.private_serial = nanoseconds().max(self.private_serial + 1);
        let plain = with_serial(load, self.private_serial)?;
        let sealed = key.seal(id.as_bytes(), &plain);
        // Nobody but this master and the minion has the key: a signature would add nothing but its cost.
        let message = halite_wire::map! {"enc" => CipherKind::Gcm.enc(), "load" => sealed};
        Some(msgpack::encode_map(&message, Profile::Wire))
    }
}

/// Since 1970.
fn nanoseconds() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or_default()
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
        let load = halite_wire::map! {"fun" => "test.ping", "jid" => "1"};
        let bytes = with_serial(&msgpack::encode_map(&load, Profile::Wire), 300).unwrap();
        let got = msgpack::decode(&bytes).unwrap().into_map().unwrap();
        assert_eq!(
            got,
            halite_wire::map! {"fun" => "test.ping", "jid" => "1", "serial" => 300}
        );
        assert!(with_serial(b"\x93", 1).is_none());
    }
}
