//! Messages between the gateway and a minion, independent of the dialect.

use crate::wire::{
    Code, Dialect, EncodeError, MachineId, MasterMessage, MessageKind, MinionMessage, Target,
    payload_value,
};
use halite_wire::{Map, Value, shlex};

/// A message from a minion.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Inbound {
    /// `ehlo`.
    Hello {
        /// Its session id; empty in the seed's dialect.
        session: String,
        /// Its id, encrypted with the master's key, from a seed minion that has just registered.
        cipher: Option<Vec<u8>>,
        /// All traits; recent E3 minions send them.
        traits: Option<Map>,
    },
    /// `add`, with the minion's key if it sent one, else empty.
    Add(String),
    /// `po`, with the cycles that it has finished.
    Pong(Vec<String>),
    /// `tr`.
    Traits(Map),
    /// `rsp`: the result of a command.
    Response {
        /// The cycle that it answers, if it names one.
        cycle: Option<String>,
        /// The return code.
        code: Code,
        /// The result.
        value: Value,
    },
    /// `evt`: the result of one action.
    Action {
        /// The cycle it belongs to.
        cycle: Option<String>,
        /// The whole event.
        value: Value,
    },
    /// `mvt`: a model has finished.
    Model {
        /// The cycle it belongs to.
        cycle: Option<String>,
        /// The whole event.
        value: Value,
    },
    /// `ssr`: it requests its sensors.
    Sensors,
    /// `b`: it disconnects.
    Bye,
    /// A type that minions do not send.
    Stray(MessageKind),
}

impl Inbound {
    /// Reads a message.
    pub fn of(message: &MinionMessage, dialect: Dialect) -> Inbound {
        let cycle = || Some(message.cycle.clone()).filter(|c| !c.is_empty());
        match message.kind {
            MessageKind::Ehlo => hello(message, dialect),
            MessageKind::Add => Inbound::Add(text(&message.data)),
            MessageKind::Po => Inbound::Pong(finished(&message.data)),
            MessageKind::Tr => Inbound::Traits(traits(&message.data).unwrap_or_default()),
            MessageKind::Rsp => {
                let value = payload_value(&message.data);
                let told = value.as_map().and_then(|map| map.str("cycle_id"));
                Inbound::Response {
                    cycle: cycle().or_else(|| told.map(str::to_owned)),
                    code: message.code,
                    value,
                }
            }
            MessageKind::Evt | MessageKind::Mvt => {
                let value = payload_value(&message.data);
                let told = value.as_map().and_then(|map| map.str("cid"));
                let cycle = told.map(str::to_owned).or_else(cycle);
                match message.kind {
                    MessageKind::Evt => Inbound::Action { cycle, value },
                    _ => Inbound::Model { cycle, value },
                }
            }
            MessageKind::Ssr => Inbound::Sensors,
            MessageKind::Bye => Inbound::Bye,
            other => Inbound::Stray(other),
        }
    }
}

fn hello(message: &MinionMessage, dialect: Dialect) -> Inbound {
    if dialect == Dialect::Seed {
        let cipher = message.data.as_bytes().unwrap_or_default().to_vec();
        return Inbound::Hello {
            session: String::new(),
            cipher: Some(cipher).filter(|c| !c.is_empty()),
            traits: None,
        };
    }
    let told = match message.session.as_str() {
        "" => text(&message.data),
        session => session.to_owned(),
    };
    Inbound::Hello {
        session: told,
        cipher: None,
        traits: message.data.as_map().cloned(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Traits: a map, or JSON text of one (E2 and the seed's dialect).
fn traits(data: &Value) -> Option<Map> {
    payload_value(data).into_map()
}

/// The cycles that a `po` of E3 lists as finished (`d.pl.cd`).
fn finished(data: &Value) -> Vec<String> {
    let load = data.as_map().and_then(|d| d.get("pl")?.as_map());
    let cycles = load.and_then(|load| load.get("cd"));
    cycles.map(Value::str_list).unwrap_or_default()
}

/// A message to one minion.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outbound {
    /// Rejected: the minion is not registered, not accepted or its proof is wrong. Carries the master's key.
    Undefined(Code),
    /// The master's key, for a minion of the seed's dialect that registers.
    MasterKey,
    /// Result of a registration.
    Retry(Code, &'static str),
    /// The session starts.
    Welcome(String),
    /// Another session with this id exists.
    Duplicate(String),
    /// Asks for a pong.
    Ping,
    /// Asks for all traits.
    AskTraits,
    /// Sets traits.
    PushTraits(Map),
    /// Runs a command as part of a cycle.
    Command {
        /// `model/entity/state`, `cmd://...` or a command's first word.
        scheme: String,
        /// Further words of the command.
        words: Vec<String>,
        /// Context: keys and their values.
        context: Vec<(String, String)>,
    },
    /// The registration is over.
    Remove,
    /// The list of sensors: empty.
    NoSensors,
    /// Confirms a `b`.
    ByeAck,
}

/// The recipient of a message.
pub(super) struct To<'a> {
    /// The minion.
    pub id: &'a MachineId,
    /// Its session id.
    pub session: &'a str,
    /// Its dialect.
    pub dialect: Dialect,
    /// The master's public key in sysinspect's format.
    pub master_key: &'a str,
}

/// The cycle of messages that belong to no job. Programs since 2025-03 insist on one.
pub(super) const NO_CYCLE: &str = "00000000-0000-4000-8000-000000000000";

impl Outbound {
    /// Encodes the message as a frame.
    ///
    /// # Errors
    /// The frame is too long.
    pub fn frame(&self, to: &To, cycle: &str) -> Result<Vec<u8>, EncodeError> {
        self.message(to, cycle).to_frame(to.dialect)
    }

    fn message(&self, to: &To, cycle: &str) -> MasterMessage {
        let modern = to.dialect == Dialect::Modern;
        let mut target = Target::id(to.id);
        let session = to.session;
        let (kind, data, code): (MessageKind, Value, Code) = match self {
            Outbound::Undefined(code) => (MessageKind::Undef, to.master_key.into(), *code),
            Outbound::MasterKey => (MessageKind::Add, to.master_key.into(), Code::Success),
            Outbound::Retry(code, text) => (MessageKind::Retry, (*text).into(), *code),
            Outbound::Welcome(session) => {
                target.session = session.clone();
                (MessageKind::Tr, session.as_str().into(), Code::Success)
            }
            Outbound::Duplicate(session) => {
                target.session = session.clone();
                (
                    MessageKind::Cmd,
                    session.as_str().into(),
                    Code::AlreadyConnected,
                )
            }
            // E3 insists on this payload; the others ignore it.
            Outbound::Ping => (
                MessageKind::Pi,
                if modern { "pt:g" } else { "" }.into(),
                Code::Undef,
            ),
            Outbound::AskTraits if modern => (MessageKind::Tr, session.into(), Code::Success),
            Outbound::AskTraits => (MessageKind::Tr, "".into(), Code::Undef),
            Outbound::PushTraits(traits) => (MessageKind::Tr, traits.clone().into(), Code::Undef),
            Outbound::Command {
                scheme,
                words,
                context,
            } if modern => {
                let pairs = context.iter().map(|(key, value)| format!("{key}:{value}"));
                let all: Vec<String> = words.iter().cloned().chain(pairs).collect();
                target.scheme = scheme.clone();
                target.context = all.join(",");
                let data = halite_wire::map! {
                    "files" => Map::new(), "models_root" => "models", "sensors_root" => "",
                    "sid" => "", "uri" => scheme.as_str(),
                };
                (MessageKind::Cmd, data.into(), Code::Success)
            }
            Outbound::Command {
                scheme,
                words,
                context,
            } => {
                let mut line = scheme.clone();
                let pairs = context.iter().map(|(key, value)| format!("{key}={value}"));
                for word in words.iter().cloned().chain(pairs) {
                    line.push(' ');
                    line.push_str(&shlex::quote(&word));
                }
                (MessageKind::Cmd, line.into(), Code::Undef)
            }
            Outbound::Remove => (MessageKind::Rm, "".into(), Code::Undef),
            Outbound::NoSensors => {
                let data = halite_wire::map! {
                    "files" => Map::new(), "models_root" => "", "sensors_root" => "sensors",
                    "sid" => "", "uri" => "",
                };
                (MessageKind::Ssp, data.into(), Code::Undef)
            }
            Outbound::ByeAck => (MessageKind::ByeAck, session.into(), Code::Success),
        };
        let mut message = MasterMessage::new(target, kind, data, code);
        message.cycle = cycle.to_owned();
        message
    }
}

#[cfg(test)]
mod tests;
