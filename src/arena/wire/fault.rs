//! Errors about messages.

use super::{Answer, Dialect, ErrorReport, Json, Message, Object, Verdict};
use std::fmt;

/// Kinds of errors; the texts are those of the real orchestrator, as far as it has any (reference, section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// `Invalid JSON`.
    NotJson,
    /// `missing field`; the data is its path, such as `data/uuid`.
    MissingField,
    /// `invalid field`: it is present but not valid; the data is its path.
    BadField,
    /// `invalid action/type`; the data is the pair.
    BadAction,
    /// `invalid Runtime Name/UUID`.
    UnknownRuntime,
    /// `invalid Module Name/UUID`.
    UnknownModule,
    /// `duplicate module UUID; request ignored`.
    DuplicateModule,
    /// `ambiguous name`: several have this name.
    Ambiguous,
    /// `runtime is not connected`.
    DeadRuntime,
    /// `no runtime fits`: the data says why each does not.
    NoRuntime,
    /// `runtime is not accepted`: by the operator, so far.
    NotAccepted,
    /// `too many`: over a limit of the orchestrator; the data says which.
    TooMany,
    /// `file not found`.
    NoFile,
    /// `refused by runtime`.
    Refused,
}

impl Trouble {
    /// The text of `desc`.
    pub const fn desc(self) -> &'static str {
        match self {
            Trouble::NotJson => "Invalid JSON",
            Trouble::MissingField => "missing field",
            Trouble::BadField => "invalid field",
            Trouble::BadAction => "invalid action/type",
            Trouble::UnknownRuntime => "invalid Runtime Name/UUID",
            Trouble::UnknownModule => "invalid Module Name/UUID",
            Trouble::DuplicateModule => "duplicate module UUID; request ignored",
            Trouble::Ambiguous => "ambiguous name",
            Trouble::DeadRuntime => "runtime is not connected",
            Trouble::NoRuntime => "no runtime fits",
            Trouble::NotAccepted => "runtime is not accepted",
            Trouble::TooMany => "too many",
            Trouble::NoFile => "file not found",
            Trouble::Refused => "refused by runtime",
        }
    }
}

/// A message that cannot be processed, as described in the error about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The kind of error.
    pub trouble: Trouble,
    /// What it is about.
    pub data: Json,
    /// `object_id` of the message, if it has one.
    pub request: Option<String>,
    /// Its dialect.
    pub dialect: Dialect,
}

impl Fault {
    /// A fault that is not tied to a message yet.
    pub fn new(trouble: Trouble, data: impl Into<Json>) -> Fault {
        Fault {
            trouble,
            data: data.into(),
            request: None,
            dialect: Dialect::default(),
        }
    }

    /// The report on the topic for errors (reference, section 4.6).
    pub fn report(&self) -> ErrorReport {
        ErrorReport {
            desc: self.trouble.desc().into(),
            data: self.data.clone(),
            request: self.request.clone(),
        }
    }

    /// The answer to the request: `result` is `error`, `details` say what is wrong.
    pub fn answer(&self) -> Answer {
        let mut details = Object::new();
        details.insert("desc".into(), self.trouble.desc().into());
        details.insert("data".into(), self.data.clone());
        let mut data = Object::new();
        data.insert("result".into(), "error".into());
        data.insert("details".into(), details.into());
        Answer {
            action: None,
            verdict: Verdict::Error,
            data,
        }
    }
}

impl Message {
    /// A fault of this message.
    pub fn fault(&self, trouble: Trouble, data: impl Into<Json>) -> Fault {
        Fault {
            request: Some(self.object_id.clone()),
            dialect: self.dialect,
            ..Fault::new(trouble, data)
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.data {
            Json::Null => f.write_str(self.trouble.desc()),
            Json::String(text) => write!(f, "{}: {}", self.trouble.desc(), text.escape_debug()),
            other => write!(f, "{}: {other}", self.trouble.desc()),
        }
    }
}

impl std::error::Error for Fault {}
