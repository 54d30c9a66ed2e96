//! Admission: registration, hello, and the proof of a minion of the seed's dialect.

use super::super::dialect::Outbound;
use super::{
    Action, Conn, ConnId, Registered, Registry, Session, Sessions, Stage, Standing, VERDICT_DELAY,
};
use crate::wire::{Code, Dialect, MachineId};
use std::time::Instant;

/// The answer to a registration. Minions of 2026 log it; by default they fetch modules when they start, from a port
/// that we do not serve, and are of no use when that fails.
const RECEIVED: &str = "registration received; this master serves no modules, so minions of 2026 need \
                        modules.autosync.startup: false";

impl Sessions {
    pub(super) fn add(
        &mut self,
        conn: ConnId,
        id: MachineId,
        key: String,
        now: Instant,
        registry: &mut dyn Registry,
    ) -> Vec<Action> {
        let Some(own) = self.conns.get_mut(&conn) else {
            return Vec::new();
        };
        if !self.registrations.take(own.address, now) {
            self.stats.refused += 1;
            let message = Outbound::Retry(
                Code::GeneralFailure,
                "too many registrations; try again later",
            );
            return self.send_and_close(conn, &id, message);
        }
        let taken = registry.standing(&id) != Standing::Unknown;
        // Another key for a known id is stored as denied, as with Salt minions; both get the same answer.
        if taken && key.is_empty() {
            return self.send_and_close(conn, &id, taken_answer());
        }
        let seed = own.dialect == Some(Dialect::Seed);
        if key.is_empty() && !seed {
            return self.send_and_close(conn, &id, bad_key());
        }
        if seed && !taken {
            own.stage = Stage::Registering {
                id: id.clone(),
                key,
            };
            return vec![Action::Send(conn, id, Outbound::MasterKey)];
        }
        let address = own.address;
        self.stats.registrations += 1;
        let message = match registry.register(&id, &key, address) {
            Registered::Accepted | Registered::Waiting => Outbound::Retry(Code::Success, RECEIVED),
            Registered::Taken => taken_answer(),
            Registered::Rejected => Outbound::Retry(Code::GeneralFailure, "registration refused"),
            Registered::Full => {
                Outbound::Retry(Code::GeneralFailure, "too many pending registrations")
            }
            Registered::BadKey => bad_key(),
        };
        self.send_and_close(conn, &id, message)
    }

    pub(super) fn hello(
        &mut self,
        conn: ConnId,
        id: &MachineId,
        (session, cipher): (String, Option<Vec<u8>>),
        now: Instant,
        registry: &mut dyn Registry,
    ) -> Vec<Action> {
        let Some(own) = self.conns.get_mut(&conn) else {
            return Vec::new();
        };
        let address = own.address;
        let registering = match &own.stage {
            Stage::Registering { id: asked, key } => Some((asked == id, key.clone())),
            _ => None,
        };
        if cipher.is_some() || registering.is_some() {
            let same = registering.as_ref().is_none_or(|(same, _)| *same);
            let allowed = self.failures.take(address, now);
            let proven = allowed && registry.proves(id, &cipher.unwrap_or_default());
            if !proven || !same {
                self.stats.failures += 1;
                return self.fail_later(conn, id, now);
            }
        }
        if let Some((_, key)) = registering {
            self.stats.registrations += 1;
            match registry.register(id, &key, address) {
                Registered::Accepted | Registered::Waiting => {}
                Registered::Taken => return self.send_and_close(conn, id, taken_answer()),
                Registered::Rejected | Registered::Full | Registered::BadKey => {
                    return self.reject(conn, id, Code::GeneralFailure);
                }
            }
        }
        let why = match registry.standing(id) {
            Standing::Accepted => None,
            Standing::Unknown => Some("it has not registered"),
            Standing::Waiting => Some("its key waits for the operator"),
            Standing::Rejected => Some("its key is rejected"),
            Standing::Foreign => Some("the id belongs to a minion that did not register here"),
        };
        if let Some(why) = why {
            log::debug!("{id} from {address} is rejected: {why}");
            return self.reject(conn, id, Code::NotRegistered);
        }
        let Some(old) = self.by_id.get(id).copied() else {
            return self.admit(conn, id, session, now);
        };
        self.stats.duplicates += 1;
        // A program that connects again, with the session id that it made up at its start, has given up its old
        // connection, though it may still answer pings there. Another id is that of another program.
        let same = |old: &Conn| match &old.stage {
            Stage::Session(own) => !session.is_empty() && own.name == session,
            _ => true,
        };
        if !self.conns.get(&old).is_none_or(same) {
            return self.send_and_close(conn, id, Outbound::Duplicate(session));
        }
        let mut out = self.end(old);
        out.extend(self.admit(conn, id, session, now));
        out
    }

    fn admit(&mut self, conn: ConnId, id: &MachineId, name: String, now: Instant) -> Vec<Action> {
        let Some(own) = self.conns.get_mut(&conn) else {
            return Vec::new();
        };
        let address = own.address;
        own.garbage = 0;
        own.stage = Stage::Session(Session {
            id: id.clone(),
            name: name.clone(),
            heard: now,
        });
        self.release_stranger(address);
        self.by_id.insert(id.clone(), conn);
        vec![
            Action::Send(conn, id.clone(), Outbound::Welcome(name)),
            Action::Came(id.clone(), address),
        ]
    }

    fn fail_later(&mut self, conn: ConnId, id: &MachineId, now: Instant) -> Vec<Action> {
        if let Some(own) = self.conns.get_mut(&conn) {
            own.stage = Stage::Failing {
                id: id.clone(),
                due: now + VERDICT_DELAY,
            };
        }
        Vec::new()
    }
}

fn taken_answer() -> Outbound {
    Outbound::Retry(Code::AlreadyRegistered, "already registered")
}

fn bad_key() -> Outbound {
    Outbound::Retry(Code::GeneralFailure, "not an RSA public key")
}
