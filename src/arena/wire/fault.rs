//! What is wrong with a message.

use super::{Answer, Dialect, ErrorReport, Json, Object, Verdict};
use std::fmt;

/// Kinds of trouble; their words are those of the real orchestrator, as far as it has any (reference, section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trouble {
    /// `Invalid JSON`.
    NotJson,
    /// `missing field`; the data is its path, such as `data/uuid`.
    MissingField,
    /// `invalid field`: it is there and is not what it must be; the data is its path.
    BadField,
    /// `invalid action/type`; the data is the pair.
    BadAction,
    /// `invalid Runtime Name/UUID`.
    UnknownRuntime,
    /// `invalid Module Name/UUID`.
    UnknownModule,
    /// `duplicate module UUID; request ignored`.
    DuplicateModule,
    /// `ambiguous name`: several have it.
    Ambiguous,
    /// `runtime is not connected`.
    DeadRuntime,
    /// `no runtime fits`: the data says why none does.
    NoRuntime,
    /// `runtime is not accepted`: the operator has not let it in yet.
    NotAccepted,
    /// `too many`: a limit of the orchestrator; the data says which.
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

/// A message that cannot be followed, as the error about it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What is wrong.
    pub trouble: Trouble,
    /// With what.
    pub data: Json,
    /// `object_id` of the message, where it has one.
    pub request: Option<String>,
    /// Its words.
    pub dialect: Dialect,
}

impl Fault {
    /// A fault that belongs to no message yet.
    pub fn new(trouble: Trouble, data: impl Into<Json>) -> Fault {
        Fault {
            trouble,
            data: data.into(),
            request: None,
            dialect: Dialect::default(),
        }
    }

    /// What is told about it on the topic for errors (reference, section 4.6).
    pub fn report(&self) -> ErrorReport {
        ErrorReport {
            desc: self.trouble.desc().into(),
            data: self.data.clone(),
            request: self.request.clone(),
        }
    }

    /// What whoever asked is told: `result` is `error`, `details` say what is wrong with what.
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
