//! What masters send (reference 3.1).

use super::{Code, DecodeError, Dialect, EncodeError, Kind, MAX_FRAME, Target, frame, json};
use halite_wire::Value;
use halite_wire::map;
use serde::Deserialize;

/// A message of a master.
#[derive(Clone, Debug, PartialEq)]
pub struct MasterMessage {
    /// Cycle id, a UUID; what names a job. Empty where none was sent: then it is not written.
    pub cycle: String,
    /// Whom it is for: any of these (reference 3.4).
    pub targets: Vec<Target>,
    /// The type.
    pub kind: Kind,
    /// The payload.
    pub data: Value,
    /// The return code.
    pub code: Code,
}

/// The keys; others are ignored, one of these twice is an error.
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
    pub fn new(target: Target, kind: Kind, data: impl Into<Value>, code: Code) -> MasterMessage {
        MasterMessage {
            cycle: String::new(),
            targets: vec![target],
            kind,
            data: data.into(),
            code,
        }
    }

    /// Reads a body. Targets are accepted in every form in every dialect.
    ///
    /// # Errors
    /// If it is no such message in this dialect. `t`, `r`, `d` and `c` are required.
    pub fn decode(body: &[u8], dialect: Dialect) -> Result<MasterMessage, DecodeError> {
        let raw: Raw = json::parse(body)?;
        let kind = Kind::parse(&raw.r).ok_or(DecodeError::UnknownType(raw.r))?;
        Ok(MasterMessage {
            cycle: raw.cl.unwrap_or_default(),
            targets: Target::list(raw.t)?,
            kind,
            data: json::payload(raw.d, dialect)?,
            code: raw.c.into(),
        })
    }

    /// Writes the body.
    ///
    /// # Errors
    /// [`EncodeError::Target`] if the dialect has no room for these targets.
    pub fn encode(&self, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
        let mut out = map! {};
        if !self.cycle.is_empty() {
            out.set("cl", self.cycle.as_str());
        }
        out.set("t", Target::written(&self.targets, dialect)?);
        out.set("r", self.kind.name());
        out.set("d", json::wrapped(&self.data, dialect));
        out.set("c", self.code.number());
        Ok(json::body(&out))
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// As [`MasterMessage::encode`], or if it is longer than [`MAX_FRAME`].
    pub fn to_frame(&self, dialect: Dialect) -> Result<Vec<u8>, EncodeError> {
        frame::wrap(&self.encode(dialect)?, MAX_FRAME).map_err(EncodeError::Frame)
    }
}
