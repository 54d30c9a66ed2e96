//! Connections and sessions: which peers may stay, and what they are answered. Does no IO; the time is passed in.
//!
//! The first frame of a connection determines its dialect, and nothing is sent before it. A session starts with a
//! valid `ehlo` only and ends with its connection or after silence. (Real masters start one with any `po`, so that a
//! minion that has just registered is refused as its own duplicate.)

mod sign_in;

use super::dialect::{Inbound, Outbound};
use super::limits::Limit;
use crate::wire::{Code, Dialect, MachineId};
use halite_gateway::agent_keys::Standing;
use halite_wire::Map;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The number of a connection.
pub(super) type ConnId = u64;

/// Delay before a wrong cipher is answered, so that timing does not reveal what was wrong and guessing is slow.
const VERDICT_DELAY: Duration = Duration::from_secs(1);
/// Malformed frames after which a connection is closed.
const PATIENCE: u32 = 32;

/// Times and limits.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub ping_interval: Duration,
    pub session_timeout: Duration,
    pub hello_timeout: Duration,
    pub max_connections: usize,
    pub max_strangers: usize,
    pub registrations_per_minute: u32,
}

/// Result of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registered {
    /// Its key is accepted.
    Accepted,
    /// The key waits for the operator.
    Waiting,
    /// A list (such as `autoreject_file`) rejects it.
    Rejected,
    /// `max_pending` keys wait already.
    Full,
    /// The key sent is not an RSA public key.
    BadKey,
    /// The id is registered already. If the key differs it is stored as denied.
    Taken,
}

/// The key store as sessions see it.
pub(super) trait Registry {
    /// The standing of `id`.
    fn standing(&mut self, id: &MachineId) -> Standing;
    /// Registers `id` with its key, which is empty if the minion has none.
    fn register(&mut self, id: &MachineId, key: &str, from: IpAddr) -> Registered;
    /// Whether `cipher` is `id` encrypted with the master's key.
    fn proves(&mut self, id: &MachineId, cipher: &[u8]) -> bool;
}

/// An action to take.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Send a message to the peer of a connection.
    Send(ConnId, MachineId, Outbound),
    /// Tell a peer that the secure transport is not supported.
    Refuse(ConnId),
    /// Close the connection once everything is written.
    Close(ConnId),
    /// A session started.
    Came(MachineId, IpAddr),
    /// A session ended.
    Left(MachineId),
    /// A message about a minion's traits or jobs.
    Inbound(MachineId, Inbound),
    /// New traits.
    Traits(MachineId, Map),
}

/// A frame received.
pub(super) enum Frame {
    /// A message.
    Message(MachineId, Inbound),
    /// A frame of the secure transport.
    Secure,
    /// Malformed.
    Garbage,
}

#[derive(Debug)]
enum Stage {
    /// No `add` or `ehlo` yet.
    Silent,
    /// A seed minion got the master's key and must send its id encrypted with it.
    Registering { id: MachineId, key: String },
    /// It sent a wrong cipher; the answer is sent when it is due.
    Failing { id: MachineId, due: Instant },
    /// A session.
    Session(Session),
    /// Closing; further messages are ignored.
    Done,
}

#[derive(Debug)]
struct Session {
    id: MachineId,
    name: String,
    heard: Instant,
}

#[derive(Debug)]
struct Conn {
    address: IpAddr,
    dialect: Option<Dialect>,
    since: Instant,
    stage: Stage,
    garbage: u32,
}

/// All connections.
pub(super) struct Sessions {
    rules: Rules,
    conns: HashMap<ConnId, Conn>,
    by_id: HashMap<MachineId, ConnId>,
    strangers: HashMap<IpAddr, usize>,
    registrations: Limit,
    failures: Limit,
    ping_due: Instant,
    /// Counters for the scoreboard.
    pub stats: Stats,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stats {
    pub refused: u64,
    pub registrations: u64,
    pub duplicates: u64,
    pub expired: u64,
    pub garbage: u64,
    pub failures: u64,
}

impl Sessions {
    /// No connections yet.
    pub fn new(rules: Rules, now: Instant) -> Sessions {
        Sessions {
            registrations: Limit::new(rules.registrations_per_minute),
            failures: Limit::new(rules.registrations_per_minute),
            ping_due: now + rules.ping_interval,
            rules,
            conns: HashMap::new(),
            by_id: HashMap::new(),
            strangers: HashMap::new(),
            stats: Stats::default(),
        }
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// The number of minions with a session.
    pub fn sessions(&self) -> usize {
        self.by_id.len()
    }

    /// Minions with a session, and their addresses.
    pub fn connected(&self) -> impl Iterator<Item = (&MachineId, IpAddr)> {
        self.by_id
            .iter()
            .filter_map(|(id, conn)| Some((id, self.conns.get(conn)?.address)))
    }

    /// Connection, dialect and session id of a minion, if it is connected.
    pub fn find(&self, id: &str) -> Option<(ConnId, &MachineId, Dialect, &str)> {
        let id = id.parse::<MachineId>().ok()?;
        let (id, conn) = self.by_id.get_key_value(&id)?;
        let Conn { dialect, stage, .. } = self.conns.get(conn)?;
        match stage {
            Stage::Session(session) => Some((*conn, id, (*dialect)?, &session.name)),
            _ => None,
        }
    }

    /// The dialect of a connection, and its session id or "".
    pub fn dialect(&self, conn: ConnId) -> Option<(Dialect, &str)> {
        let conn = self.conns.get(&conn)?;
        let name = match &conn.stage {
            Stage::Session(session) => session.name.as_str(),
            _ => "",
        };
        Some((conn.dialect?, name))
    }

    /// Sets the dialect of a connection.
    pub fn set_dialect(&mut self, conn: ConnId, dialect: Dialect) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.dialect = Some(dialect);
        }
    }

    /// Adds a connection; `false` if there is no room.
    pub fn opened(&mut self, conn: ConnId, address: IpAddr, now: Instant) -> bool {
        let strangers = self.strangers.get(&address).copied().unwrap_or(0);
        if self.conns.len() >= self.rules.max_connections || strangers >= self.rules.max_strangers {
            self.stats.refused += 1;
            return false;
        }
        self.strangers.insert(address, strangers + 1);
        self.conns.insert(
            conn,
            Conn {
                address,
                dialect: None,
                since: now,
                stage: Stage::Silent,
                garbage: 0,
            },
        );
        true
    }

    /// A connection is gone.
    pub fn closed(&mut self, conn: ConnId) -> Vec<Action> {
        let Some(gone) = self.conns.remove(&conn) else {
            return Vec::new();
        };
        match gone.stage {
            Stage::Session(session) => {
                self.by_id.remove(&session.id);
                vec![Action::Left(session.id)]
            }
            _ => {
                self.release_stranger(gone.address);
                Vec::new()
            }
        }
    }

    fn release_stranger(&mut self, address: IpAddr) {
        if let Some(count) = self.strangers.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.strangers.remove(&address);
            }
        }
    }

    /// Handles a frame.
    pub fn frame(
        &mut self,
        conn: ConnId,
        frame: Frame,
        now: Instant,
        registry: &mut dyn Registry,
    ) -> Vec<Action> {
        let Some(own) = self.conns.get_mut(&conn) else {
            return Vec::new();
        };
        let (id, heard) = match frame {
            Frame::Message(id, heard) => (id, heard),
            Frame::Secure => {
                let mut out = vec![Action::Refuse(conn)];
                out.extend(self.end(conn));
                return out;
            }
            Frame::Garbage => return self.garbage(conn),
        };
        match &mut own.stage {
            Stage::Done | Stage::Failing { .. } => Vec::new(),
            Stage::Session(session) if session.id == id => {
                session.heard = now;
                self.in_session(conn, id, heard, registry)
            }
            // A session may only speak for its own id.
            Stage::Session(_) => self.garbage(conn),
            Stage::Silent | Stage::Registering { .. } => match heard {
                Inbound::Add(key) => self.add(conn, id, key, now, registry),
                Inbound::Hello {
                    session,
                    cipher,
                    traits,
                } => {
                    let mut out = self.hello(conn, &id, (session, cipher), now, registry);
                    let came = out.iter().any(|a| matches!(a, Action::Came(..)));
                    if let Some(traits) = traits.filter(|_| came) {
                        out.push(Action::Traits(id, traits));
                    }
                    out
                }
                // Nothing else counts before a hello; in particular, a `po` starts no session.
                _ => Vec::new(),
            },
        }
    }

    fn garbage(&mut self, conn: ConnId) -> Vec<Action> {
        self.stats.garbage += 1;
        let Some(own) = self.conns.get_mut(&conn) else {
            return Vec::new();
        };
        own.garbage += 1;
        // Like real masters: drop such a frame, the next one may be valid.
        if own.garbage < PATIENCE {
            return Vec::new();
        }
        self.end(conn)
    }

    fn in_session(
        &mut self,
        conn: ConnId,
        id: MachineId,
        heard: Inbound,
        registry: &mut dyn Registry,
    ) -> Vec<Action> {
        match heard {
            Inbound::Hello {
                session, traits, ..
            } => {
                if registry.standing(&id) != Standing::Accepted {
                    return self.reject(conn, &id, Code::NotRegistered);
                }
                if let Some(Stage::Session(own)) = self.conns.get_mut(&conn).map(|c| &mut c.stage) {
                    own.name = session.clone();
                }
                let mut out = vec![Action::Send(conn, id.clone(), Outbound::Welcome(session))];
                out.extend(traits.map(|traits| Action::Traits(id, traits)));
                out
            }
            Inbound::Add(_) => {
                let message = Outbound::Retry(Code::AlreadyRegistered, "already registered");
                vec![Action::Send(conn, id, message)]
            }
            Inbound::Traits(traits) if !traits.is_empty() => vec![
                Action::Traits(id.clone(), traits.clone()),
                Action::Inbound(id, Inbound::Traits(traits)),
            ],
            Inbound::Sensors => vec![Action::Send(conn, id, Outbound::NoSensors)],
            Inbound::Bye => {
                let mut out = vec![Action::Send(conn, id, Outbound::ByeAck)];
                out.extend(self.end(conn));
                out
            }
            Inbound::Stray(_) => Vec::new(),
            other => vec![Action::Inbound(id, other)],
        }
    }

    fn reject(&mut self, conn: ConnId, id: &MachineId, code: Code) -> Vec<Action> {
        self.send_and_close(conn, id, Outbound::Undefined(code))
    }

    /// Sends one more message and closes the connection.
    fn send_and_close(&mut self, conn: ConnId, id: &MachineId, message: Outbound) -> Vec<Action> {
        let mut out = vec![Action::Send(conn, id.clone(), message)];
        out.extend(self.end(conn));
        out
    }

    fn end(&mut self, conn: ConnId) -> Vec<Action> {
        let mut out = vec![Action::Close(conn)];
        if let Some(own) = self.conns.get_mut(&conn)
            && let Stage::Session(session) = std::mem::replace(&mut own.stage, Stage::Done)
        {
            self.by_id.remove(&session.id);
            *self.strangers.entry(own.address).or_default() += 1;
            out.push(Action::Left(session.id));
        }
        out
    }

    /// Ends the session of a minion.
    pub fn dismiss(&mut self, id: &MachineId) -> Vec<Action> {
        match self.by_id.get(id).copied() {
            Some(conn) => self.end(conn),
            None => Vec::new(),
        }
    }

    /// Handles timeouts.
    pub fn tick(&mut self, now: Instant, registry: &mut dyn Registry) -> Vec<Action> {
        let mut out = Vec::new();
        let mut failed = Vec::new();
        let mut late = Vec::new();
        for (number, conn) in &self.conns {
            match &conn.stage {
                Stage::Failing { id, due } if *due <= now => failed.push((*number, id.clone())),
                Stage::Session(session)
                    if now.duration_since(session.heard) >= self.rules.session_timeout =>
                {
                    self.stats.expired += 1;
                    late.push(*number);
                }
                Stage::Silent | Stage::Registering { .. }
                    if now.duration_since(conn.since) >= self.rules.hello_timeout =>
                {
                    late.push(*number);
                }
                _ => {}
            }
        }
        for (conn, id) in failed {
            out.extend(self.reject(conn, &id, Code::GeneralFailure));
        }
        for conn in late {
            out.extend(self.end(conn));
        }
        if self.ping_due <= now {
            self.ping_due = now + self.rules.ping_interval;
            out.extend(self.heartbeat(registry));
        }
        out
    }

    fn heartbeat(&mut self, registry: &mut dyn Registry) -> Vec<Action> {
        let mut out = Vec::new();
        let all: Vec<_> = self.by_id.iter().map(|(id, c)| (id.clone(), *c)).collect();
        for (id, conn) in all {
            match registry.standing(&id) {
                Standing::Accepted => out.push(Action::Send(conn, id, Outbound::Ping)),
                // Its key was deleted or rejected without an event.
                _ => out.extend(self.reject(conn, &id, Code::NotRegistered)),
            }
        }
        out
    }

    /// Ends the session of a minion that is no longer accepted.
    pub fn review(&mut self, id: &MachineId, registry: &mut dyn Registry) -> Vec<Action> {
        match self.by_id.get(id).copied() {
            Some(conn) if registry.standing(id) != Standing::Accepted => {
                self.reject(conn, id, Code::NotRegistered)
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
