//! Why a message is refused.

use super::BadName;
use crate::ruby::DatumError;
use std::fmt;

/// Why a message was refused. The sender gets no reply, as from Ruby's servers; each reason is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It cannot be parsed: what is wrong.
    Malformed(String),
    /// It exceeds a limit: which.
    TooLarge(&'static str),
    /// It contains something that carries code in Ruby, or a YAML tag or alias: what.
    Dangerous(String),
    /// It has another form than this network is configured for: what it is.
    Protocol(String),
    /// It is not signed.
    Unsigned,
    /// Signature, hash or cipher are wrong.
    Signature,
    /// A signed field differs from its unsigned copy: which.
    Tampered(&'static str),
    /// The certificate is not trusted: why.
    Certificate(String),
    /// The caller is not allowed, or is not named in the certificate: why.
    Caller(String),
    /// It is older than its time to live: by how many seconds.
    Expired(i64),
    /// It comes from the future: by how many seconds more than its time to live.
    Future(i64),
    /// It was seen before.
    Replayed,
    /// It is encrypted for another recipient, as AES replies on a shared queue are, or was changed: no reason for a warning.
    NotForUs,
}

impl Refused {
    /// All reasons, as named in counters.
    pub const REASONS: [&'static str; 13] = [
        "malformed",
        "too_large",
        "dangerous",
        "protocol",
        "unsigned",
        "signature",
        "tampered",
        "certificate",
        "caller",
        "expired",
        "future",
        "replayed",
        "not_for_us",
    ];

    /// The index of this reason in [`Refused::REASONS`].
    pub fn index(&self) -> usize {
        match self {
            Refused::Malformed(_) => 0,
            Refused::TooLarge(_) => 1,
            Refused::Dangerous(_) => 2,
            Refused::Protocol(_) => 3,
            Refused::Unsigned => 4,
            Refused::Signature => 5,
            Refused::Tampered(_) => 6,
            Refused::Certificate(_) => 7,
            Refused::Caller(_) => 8,
            Refused::Expired(_) => 9,
            Refused::Future(_) => 10,
            Refused::Replayed => 11,
            Refused::NotForUs => 12,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refused::Malformed(what) => write!(f, "it cannot be parsed: {what}"),
            Refused::TooLarge(limit) => write!(f, "it exceeds the limit of {limit}"),
            Refused::Dangerous(what) => write!(f, "it contains {what}, which is never accepted"),
            Refused::Protocol(what) => {
                write!(f, "it is {what}, which this network does not use")
            }
            Refused::Unsigned => write!(f, "it is not signed"),
            Refused::Signature => write!(f, "its signature, hash or cipher is wrong"),
            Refused::Tampered(field) => write!(f, "its {field} is not the one that was signed"),
            Refused::Certificate(why) => write!(f, "its certificate is not trusted: {why}"),
            Refused::Caller(why) => write!(f, "its caller is not allowed: {why}"),
            Refused::Expired(by) => write!(
                f,
                "it is {by} s beyond its time to live; see whether the clocks of both machines agree"
            ),
            Refused::Future(by) => write!(
                f,
                "it comes from {by} s ahead of its time to live; see whether the clocks of both machines agree"
            ),
            Refused::Replayed => write!(f, "it was seen before"),
            Refused::NotForUs => write!(f, "it is encrypted for another recipient, or was changed"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<BadName> for Refused {
    fn from(bad: BadName) -> Refused {
        Refused::Malformed(bad.to_string())
    }
}

impl From<DatumError> for Refused {
    fn from(error: DatumError) -> Refused {
        match error {
            DatumError::Malformed(what) => Refused::Malformed(what),
            DatumError::TooLarge(limit) => Refused::TooLarge(limit),
            DatumError::Dangerous(what) => Refused::Dangerous(what),
        }
    }
}
