//! Checks that messages of a collective are genuine: the security plugins PSK, SSL and AES of MCollective, and Choria's.
//!
//! Keys and certificates are passed in as text; nothing is read from disk here.

mod aes;
mod choria;
mod cipher;
mod names;
mod plain;
mod psk;
mod replay;
mod rsa;
mod ssl;
mod trust;
mod x509;

#[cfg(test)]
pub(crate) mod testing;

pub use aes::Aes;
pub use choria::{Choria, ChoriaSettings};
pub use names::Names;
pub use plain::{Callers, PlainSettings};
pub use psk::Psk;
pub use replay::{Replay, check_age};
pub use ssl::Ssl;
pub use x509::{Authority, Chain, Verified};

use crate::ruby::Datum;
use crate::wire::{CallerId, Form, Refused, Reply, Request};
use halite_crypto::CryptoError;
use std::fmt;
use std::sync::Arc;

/// Longest text with certificates, in bytes.
pub const MAX_PEM: usize = 32 * 1024;
/// Most certificates in a chain, without the CA's.
pub const MAX_CERTIFICATES: usize = 4;
/// Longest time to live of a request, in seconds; longer ones are cut to it, since requests are remembered for that long to
/// detect replays.
pub const MAX_TTL: u32 = 86_400;

/// Why a message cannot be encoded or signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealError(pub String);

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SealError {}

impl SealError {
    fn form(form: Form, plugin: &str) -> SealError {
        SealError(format!("the security plugin {plugin} has no form {form:?}"))
    }

    fn no_server_key() -> SealError {
        SealError("there is no key for replies; set `server_private`".to_owned())
    }
}

impl From<CryptoError> for SealError {
    fn from(error: CryptoError) -> SealError {
        SealError(error.to_string())
    }
}

/// Returns the time to check certificates against, in seconds since 1970.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A security plugin with its keys. It does not check age and replays of messages, which is done by [`check_age`] and
/// [`Replay`]; it checks only certificates against a [`Clock`].
pub trait Security: Send + Sync {
    /// The form of our requests.
    fn form(&self) -> Form;

    /// The caller id of our requests.
    fn caller(&self) -> &CallerId;

    /// Encodes and signs a request of ours, in [`Security::form`].
    ///
    /// # Errors
    /// There is no key to sign with, or something cannot be encoded in that form.
    fn seal_request(&self, request: &Request) -> Result<Vec<u8>, SealError>;

    /// Decodes and verifies a request; also returns the form for the reply.
    ///
    /// # Errors
    /// Why it is refused.
    fn open_request(&self, data: &[u8]) -> Result<(Request, Form), Refused>;

    /// Encodes the reply to a request of `caller` in `form`.
    ///
    /// # Errors
    /// There is no key to sign with, or something cannot be encoded in that form.
    fn seal_reply(
        &self,
        reply: &Reply,
        form: Form,
        caller: &CallerId,
    ) -> Result<Vec<u8>, SealError>;

    /// Decodes and verifies a reply to a request of ours.
    ///
    /// # Errors
    /// Why it is refused.
    fn open_reply(&self, data: &[u8]) -> Result<Reply, Refused>;
}

/// Compares the envelope of G0, which is not protected, with a SimpleRPC body, which is: it repeats agent and caller
/// (reference, section 11; `RPC::Client#new_request` takes both from the same place as the envelope). Other bodies have
/// neither.
fn check_envelope(request: &Request) -> Result<(), Refused> {
    if request.body.get("action").is_none() {
        return Ok(());
    }
    let differs = |key: &str, outside: &str| {
        let inside = request.body.get(key).and_then(Datum::as_str);
        inside.is_some_and(|inside| inside != outside)
    };
    if differs("agent", request.agent.as_str()) {
        return Err(Refused::Tampered("agent"));
    }
    if differs("caller", request.caller.as_str()) {
        return Err(Refused::Tampered("caller"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
