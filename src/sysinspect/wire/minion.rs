//! Messages from minions (reference 3.2).

use super::{
    Code, DecodeError, Dialect, EncodeError, MAX_FRAME, MachineId, MessageKind, dialect, frame,
    json,
};
use halite_wire::Value;
use halite_wire::map;
use serde::Deserialize;

/// A message from a minion.
#[derive(Clone, Debug, PartialEq)]
pub struct MinionMessage {
    /// The sender.
    pub id: MachineId,
    /// Its session id, empty in dialects without one and in some messages of the others.
    pub session: String,
    /// The type.
    pub kind: MessageKind,
    /// The payload: see [`super::payload_value`] for JSON inside text.
    pub data: Value,
    /// The return code.
    pub code: Code,
    /// Cycle of the command that this answers; empty if unknown. An extension (key `cl`), which other programs ignore:
    /// without it the seed's `rsp` does not say what it answers.
    pub cycle: String,
}

/// The keys; others are ignored, a repeated one is an error.
#[derive(Deserialize)]
struct Raw {
    id: String,
    #[serde(default)]
    sid: Option<String>,
    r: String,
    d: Value,
    c: u64,
    #[serde(default)]
    cl: Option<Value>,
}

impl MinionMessage {
    /// A message with code 0, without session and cycle.
    pub fn new(id: &MachineId, kind: MessageKind, data: impl Into<Value>) -> MinionMessage {
        MinionMessage {
            id: id.clone(),
            session: String::new(),
            kind,
            data: data.into(),
            code: Code::Undef,
            cycle: String::new(),
        }
    }

    /// Parses a body.
    ///
    /// # Errors
    /// The body is not such a message in this dialect. `id`, `r`, `d` and `c` are required, and `sid` if the dialect
    /// has it.
    pub fn decode(body: &[u8], dialect: Dialect) -> Result<MinionMessage, DecodeError> {
        let raw: Raw = json::parse(body)?;
        let id = raw.id.parse()?;
        let kind = MessageKind::parse(&raw.r).ok_or(DecodeError::UnknownType(raw.r))?;
        if dialect == Dialect::Modern && raw.sid.is_none() {
            return Err(DecodeError::Malformed("missing field `sid`".to_owned()));
        }
        Ok(MinionMessage {
            id,
            session: raw.sid.unwrap_or_default(),
            kind,
            data: dialect::payload(raw.d, dialect)?,
            code: raw.c.into(),
            cycle: match raw.cl {
                Some(Value::Str(text)) => text,
                _ => String::new(),
            },
        })
    }

    /// Encodes the body.
    pub fn encode(&self, dialect: Dialect) -> Vec<u8> {
        let mut out = map! {"id" => &self.id};
        if dialect == Dialect::Modern {
            out.set("sid", self.session.as_str());
        }
        out.set("r", self.kind.name());
        out.set("d", dialect::wrapped(&self.data, dialect));
        out.set("c", self.code.number());
        if !self.cycle.is_empty() {
            out.set("cl", self.cycle.as_str());
        }
        json::body(&out)
    }

    /// Encodes the frame.
    ///
    /// # Errors
    /// The frame is longer than [`MAX_FRAME`].
    pub fn to_frame(&self, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
        frame::wrap(&self.encode(dialect), MAX_FRAME).map_err(EncodeError::Frame)
    }
}
