//! What is said between the gateway and a minion, whatever its dialect.

use crate::wire::{
    Code, Dialect, EncodeError, Kind, MachineId, MasterMessage, MinionMessage, Target,
    payload_value,
};
use halite_wire::{Map, Value, shlex};

/// What a minion said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Heard {
    /// `ehlo`.
    Hello {
        /// Its session, as it names it; empty in the seed's dialect.
        session: String,
        /// The id under the master's key, of a seed minion that has just registered.
        cipher: Option<Vec<u8>>,
        /// All traits, of late E3 minions.
        traits: Option<Map>,
    },
    /// `add`, with the minion's key if it sent one.
    Add(String),
    /// `po`, with cycles that it has finished.
    Pong(Vec<String>),
    /// `tr`.
    Traits(Map),
    /// `rsp`, and the end of a command.
    Response {
        /// The cycle it answers, if it says so.
        cycle: Option<String>,
        /// The return code.
        code: Code,
        /// What it is.
        value: Value,
    },
    /// `evt`: what one action came to.
    Action {
        /// The cycle it belongs to.
        cycle: Option<String>,
        /// Everything about it.
        value: Value,
    },
    /// `mvt`: the end of a model.
    Model {
        /// The cycle it belongs to.
        cycle: Option<String>,
        /// Everything about it.
        value: Value,
    },
    /// `ssr`: it asks for its sensors.
    Sensors,
    /// `b`: it leaves.
    Bye,
    /// What is not a minion's to say.
    Stray(Kind),
}

impl Heard {
    /// What a message says.
    pub fn of(message: &MinionMessage, dialect: Dialect) -> Heard {
        let cycle = || Some(message.cycle.clone()).filter(|c| !c.is_empty());
        match message.kind {
            Kind::Ehlo => hello(message, dialect),
            Kind::Add => Heard::Add(text(&message.data)),
            Kind::Po => Heard::Pong(finished(&message.data)),
            Kind::Tr => Heard::Traits(traits(&message.data).unwrap_or_default()),
            Kind::Rsp => {
                let value = payload_value(&message.data);
                let told = value.as_map().and_then(|map| map.str("cycle_id"));
                Heard::Response {
                    cycle: cycle().or_else(|| told.map(str::to_owned)),
                    code: message.code,
                    value,
                }
            }
            Kind::Evt | Kind::Mvt => {
                let value = payload_value(&message.data);
                let told = value.as_map().and_then(|map| map.str("cid"));
                let cycle = told.map(str::to_owned).or_else(cycle);
                match message.kind {
                    Kind::Evt => Heard::Action { cycle, value },
                    _ => Heard::Model { cycle, value },
                }
            }
            Kind::Ssr => Heard::Sensors,
            Kind::Bye => Heard::Bye,
            other => Heard::Stray(other),
        }
    }
}

fn hello(message: &MinionMessage, dialect: Dialect) -> Heard {
    if dialect == Dialect::Seed {
        let cipher = message.data.as_bytes().unwrap_or_default().to_vec();
        return Heard::Hello {
            session: String::new(),
            cipher: Some(cipher).filter(|c| !c.is_empty()),
            traits: None,
        };
    }
    let told = match message.session.as_str() {
        "" => text(&message.data),
        session => session.to_owned(),
    };
    Heard::Hello {
        session: told,
        cipher: None,
        traits: message.data.as_map().cloned(),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Traits are a map, or the JSON of one (E2 and the seed's dialect).
fn traits(data: &Value) -> Option<Map> {
    payload_value(data).into_map()
}

/// Cycles that a `po` of E3 calls finished (`d.pl.cd`).
fn finished(data: &Value) -> Vec<String> {
    let load = data.as_map().and_then(|d| d.get("pl")?.as_map());
    let cycles = load.and_then(|load| load.get("cd"));
    cycles.map(Value::str_list).unwrap_or_default()
}

/// What the gateway says to one minion.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outbound {
    /// Who it is is not known, or not accepted; with the master's key.
    Undefined(Code),
    /// The master's key, to a minion of the seed's dialect that registers.
    MasterKey,
    /// How a registration ended.
    Retry(Code, &'static str),
    /// The session has begun.
    Welcome(String),
    /// There is another session under that id.
    Duplicate(String),
    /// Is it alive?
    Ping,
    /// All traits, please.
    AskTraits,
    /// New traits.
    PushTraits(Map),
    /// A command of a cycle.
    Command {
        /// `model/entity/state`, `cmd://...` or words.
        scheme: String,
        /// Further words.
        words: Vec<String>,
        /// Context: keys with their values.
        context: Vec<(String, String)>,
    },
    /// Its registration has ended.
    Remove,
    /// Its sensors: none.
    NoSensors,
    /// It may leave.
    ByeAck,
}

/// To whom something is said.
pub(super) struct To<'a> {
    /// The minion.
    pub id: &'a MachineId,
    /// Its session.
    pub session: &'a str,
    /// How it speaks.
    pub dialect: Dialect,
    /// The master's public key as sysinspect writes it.
    pub master_key: &'a str,
}

/// The cycle of what belongs to no job. Programs from 2025-03 on insist on one.
pub(super) const NO_CYCLE: &str = "00000000-0000-4000-8000-000000000000";

impl Outbound {
    /// The frame of it.
    ///
    /// # Errors
    /// It is too long.
    pub fn frame(&self, to: &To, cycle: &str) -> Result<Vec<u8>, EncodeError> {
        self.message(to, cycle).to_frame(to.dialect)
    }

    fn message(&self, to: &To, cycle: &str) -> MasterMessage {
        let modern = to.dialect == Dialect::Modern;
        let mut target = Target::id(to.id);
        let session = to.session;
        let (kind, data, code): (Kind, Value, Code) = match self {
            Outbound::Undefined(code) => (Kind::Undef, to.master_key.into(), *code),
            Outbound::MasterKey => (Kind::Add, to.master_key.into(), Code::Success),
            Outbound::Retry(code, text) => (Kind::Retry, (*text).into(), *code),
            Outbound::Welcome(session) => {
                target.session = session.clone();
                (Kind::Tr, session.as_str().into(), Code::Success)
            }
            Outbound::Duplicate(session) => {
                target.session = session.clone();
                (Kind::Cmd, session.as_str().into(), Code::AlreadyConnected)
            }
            // E3 insists on this payload, the others ignore it.
            Outbound::Ping => (
                Kind::Pi,
                if modern { "pt:g" } else { "" }.into(),
                Code::Undef,
            ),
            Outbound::AskTraits if modern => (Kind::Tr, session.into(), Code::Success),
            Outbound::AskTraits => (Kind::Tr, "".into(), Code::Undef),
            Outbound::PushTraits(traits) => (Kind::Tr, traits.clone().into(), Code::Undef),
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
                (Kind::Cmd, data.into(), Code::Success)
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
                (Kind::Cmd, line.into(), Code::Undef)
            }
            Outbound::Remove => (Kind::Rm, "".into(), Code::Undef),
            Outbound::NoSensors => {
                let data = halite_wire::map! {
                    "files" => Map::new(), "models_root" => "", "sensors_root" => "sensors",
                    "sid" => "", "uri" => "",
                };
                (Kind::Ssp, data.into(), Code::Undef)
            }
            Outbound::ByeAck => (Kind::ByeAck, session.into(), Code::Success),
        };
        let mut message = MasterMessage::new(target, kind, data, code);
        message.cycle = cycle.to_owned();
        message
    }
}

#[cfg(test)]
mod tests;
