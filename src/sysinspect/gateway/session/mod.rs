//! Connections and sessions: who may stay, and what is answered. Decides without IO; time comes from outside.
//!
//! The dialect of a connection is told by its first frame, and nothing is sent before it. A session begins with a good
//! `ehlo` and with nothing else (real masters begin one with any `po`, so that a minion that has just registered
//! is refused as its own duplicate), and ends with its connection or after silence.

mod sign_in;

use super::dialect::{Heard, Outbound};
use super::limits::Limit;
use crate::wire::{Code, Dialect, MachineId};
use halite_gateway::agent_keys::Standing;
use halite_wire::Map;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A connection's number.
pub(super) type ConnId = u64;

/// A wrong cipher is answered after this time, so that the time tells nothing about what was wrong, and
/// guessing is slow.
const VERDICT_DELAY: Duration = Duration::from_secs(1);
/// Frames that make no sense, after which a connection is closed.
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

/// How a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registered {
    /// Its key is accepted.
    Accepted,
    /// The operator decides.
    Waiting,
    /// A list refuses it.
    Rejected,
    /// There is no room for more that wait.
    Full,
    /// What it sent is no RSA public key.
    BadKey,
    /// The id is taken: by itself, or by another key, which is kept as denied.
    Taken,
}

/// The key store as sessions see it.
pub(super) trait Registry {
    /// What is known of `id`.
    fn standing(&mut self, id: &MachineId) -> Standing;
    /// Registers `id` with its key; an empty one is that of a minion that has none.
    fn register(&mut self, id: &MachineId, key: &str, from: IpAddr) -> Registered;
    /// Whether `cipher` is `id` under the master's key.
    fn proves(&mut self, id: &MachineId, cipher: &[u8]) -> bool;
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Outbound something to whoever is behind a connection.
    Outbound(ConnId, MachineId, Outbound),
    /// Tell a peer of the secure transport that it is not spoken here.
    Refuse(ConnId),
    /// Close, once everything is out.
    Close(ConnId),
    /// A session has begun.
    Came(MachineId, IpAddr),
    /// It has ended.
    Left(MachineId),
    /// A minion said something that concerns its traits or its jobs.
    Heard(MachineId, Heard),
    /// New traits.
    Traits(MachineId, Map),
}

/// What a frame is.
pub(super) enum Frame {
    /// A message.
    Message(MachineId, Heard),
    /// A frame of the secure transport.
    Secure,
    /// Nothing that can be read.
    Garbage,
}

#[derive(Debug)]
enum Stage {
    /// Nothing that counts has been said.
    Silent,
    /// A seed minion got the master's key and is to send its id under it.
    Registering { id: MachineId, key: String },
    /// A wrong cipher; the answer is due.
    Failing { id: MachineId, due: Instant },
    /// A session.
    Session(Session),
    /// Whatever it says is not heard any more.
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

/// What has happened so far.
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

    /// Connections there are.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    /// Minions with a session.
    pub fn sessions(&self) -> usize {
        self.by_id.len()
    }

    /// Minions with a session, and where they connect from.
    pub fn connected(&self) -> impl Iterator<Item = (&MachineId, IpAddr)> {
        self.by_id
            .iter()
            .filter_map(|(id, conn)| Some((id, self.conns.get(conn)?.address)))
    }

    /// Connection, dialect and session of a minion, if it is here.
    pub fn find(&self, id: &str) -> Option<(ConnId, &MachineId, Dialect, &str)> {
        let id = id.parse::<MachineId>().ok()?;
        let (id, conn) = self.by_id.get_key_value(&id)?;
        let Conn { dialect, stage, .. } = self.conns.get(conn)?;
        match stage {
            Stage::Session(session) => Some((*conn, id, (*dialect)?, &session.name)),
            _ => None,
        }
    }

    /// The dialect of a connection, and the session of whoever is behind it.
    pub fn dialect(&self, conn: ConnId) -> Option<(Dialect, &str)> {
        let conn = self.conns.get(&conn)?;
        let name = match &conn.stage {
            Stage::Session(session) => session.name.as_str(),
            _ => "",
        };
        Some((conn.dialect?, name))
    }

    /// Fixes the dialect of a connection.
    pub fn set_dialect(&mut self, conn: ConnId, dialect: Dialect) {
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.dialect = Some(dialect);
        }
    }

    /// Somebody connects; `false`: there is no room.
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
                self.less_strange(gone.address);
                Vec::new()
            }
        }
    }

    fn less_strange(&mut self, address: IpAddr) {
        if let Some(count) = self.strangers.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.strangers.remove(&address);
            }
        }
    }

    /// A frame has come.
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
            // A session speaks for one id.
            Stage::Session(_) => self.garbage(conn),
            Stage::Silent | Stage::Registering { .. } => match heard {
                Heard::Add(key) => self.add(conn, id, key, now, registry),
                Heard::Hello {
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
                // Nothing else counts before a hello; a `po` in particular begins no session.
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
        // As real masters do: such a frame is dropped, and the next one may be better.
        if own.garbage < PATIENCE {
            return Vec::new();
        }
        self.end(conn)
    }

    fn in_session(
        &mut self,
        conn: ConnId,
        id: MachineId,
        heard: Heard,
        registry: &mut dyn Registry,
    ) -> Vec<Action> {
        match heard {
            Heard::Hello {
                session, traits, ..
            } => {
                if registry.standing(&id) != Standing::Accepted {
                    return self.bounce(conn, &id, Code::NotRegistered);
                }
                if let Some(Stage::Session(own)) = self.conns.get_mut(&conn).map(|c| &mut c.stage) {
                    own.name = session.clone();
                }
                let mut out = vec![Action::Outbound(
                    conn,
                    id.clone(),
                    Outbound::Welcome(session),
                )];
                out.extend(traits.map(|traits| Action::Traits(id, traits)));
                out
            }
            Heard::Add(_) => {
                let say = Outbound::Retry(Code::AlreadyRegistered, "already registered");
                vec![Action::Outbound(conn, id, say)]
            }
            Heard::Traits(traits) if !traits.is_empty() => vec![
                Action::Traits(id.clone(), traits.clone()),
                Action::Heard(id, Heard::Traits(traits)),
            ],
            Heard::Sensors => vec![Action::Outbound(conn, id, Outbound::NoSensors)],
            Heard::Bye => {
                let mut out = vec![Action::Outbound(conn, id, Outbound::ByeAck)];
                out.extend(self.end(conn));
                out
            }
            Heard::Stray(_) => Vec::new(),
            other => vec![Action::Heard(id, other)],
        }
    }

    fn bounce(&mut self, conn: ConnId, id: &MachineId, code: Code) -> Vec<Action> {
        self.last(conn, id, Outbound::Undefined(code))
    }

    /// Says one more thing, and closes.
    fn last(&mut self, conn: ConnId, id: &MachineId, say: Outbound) -> Vec<Action> {
        let mut out = vec![Action::Outbound(conn, id.clone(), say)];
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

    /// What is due by the clock.
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
            out.extend(self.bounce(conn, &id, Code::GeneralFailure));
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
                Standing::Accepted => out.push(Action::Outbound(conn, id, Outbound::Ping)),
                // Its key was deleted or rejected, and no event told.
                _ => out.extend(self.bounce(conn, &id, Code::NotRegistered)),
            }
        }
        out
    }

    /// Looks at once whether a minion may still be here.
    pub fn review(&mut self, id: &MachineId, registry: &mut dyn Registry) -> Vec<Action> {
        match self.by_id.get(id).copied() {
            Some(conn) if registry.standing(id) != Standing::Accepted => {
                self.bounce(conn, id, Code::NotRegistered)
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
