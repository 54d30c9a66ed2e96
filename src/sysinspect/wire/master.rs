//! Messages from masters (reference 3.1).

use super::{
    Code, DecodeError, Dialect, EncodeError, MAX_FRAME, MessageKind, Target, dialect, frame, json,
};
use halite_wire::Value;
use halite_wire::map;
use serde::Deserialize;

/// A message from a master.
#[derive(Clone, Debug, PartialEq)]
pub struct MasterMessage {
    /// Cycle id, a UUID, which identifies a job. Empty if none was sent; an empty one is not written.
    pub cycle: String,
    /// Whom it is for: any of these (reference 3.4).
    pub targets: Vec<Target>,
    /// The type.
    pub kind: MessageKind,
    /// The payload.
    pub data: Value,
    /// The return code.
    pub code: Code,
}

/// The keys; others are ignored, a repeated one is an error.
#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    cl: Option<String>,
    t: Value,
    r: String,
    d: Value,
    c: u64,
}

impl MasterMessage {
    /// A message to one target, without a cycle.
    pub fn new(
        target: Target,
        kind: MessageKind,
        data: impl Into<Value>,
        code: Code,
    ) -> MasterMessage {
        MasterMessage {
            cycle: String::new(),
            targets: vec![target],
            kind,
            data: data.into(),
            code,
        }
    }

    /// Parses a body. Targets are accepted in every form in every dialect.
    ///
    /// # Errors
    /// The body is not such a message in this dialect. `t`, `r`, `d` and `c` are required.
    pub fn decode(body: &[u8], dialect: Dialect) -> Result<MasterMessage, DecodeError> {
        let raw: Raw = json::parse(body)?;
        let kind = MessageKind::parse(&raw.r).ok_or(DecodeError::UnknownType(raw.r))?;
        Ok(MasterMessage {
            cycle: raw.cl.unwrap_or_default(),
            targets: Target::list(raw.t)?,
            kind,
            data: dialect::payload(raw.d, dialect)?,
            code: raw.c.into(),
        })
    }

    /// Encodes the body.
    ///
    /// # Errors
    /// [`EncodeError::Target`] if the dialect cannot express these targets.
    pub fn encode(&self, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
        let mut out = map! {};
        if !self.cycle.is_empty() {
            out.set("cl", self.cycle.as_str());
        }
        out.set("t", Target::written(&self.targets, dialect)?);
        out.set("r", self.kind.name());
        out.set("d", dialect::wrapped(&self.data, dialect));
        out.set("c", self.code.number());
        Ok(json::body(&out))
    }

    /// Encodes the frame.
    ///
    /// # Errors
    /// As [`MasterMessage::encode`], or the frame is longer than [`MAX_FRAME`].
    pub fn to_frame(&self, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
        frame::wrap(&self.encode(dialect)?, MAX_FRAME).map_err(EncodeError::Frame)
    }
}
