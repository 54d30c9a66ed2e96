//! Whether messages of a collective are genuine: the security plugins PSK, SSL and AES of MCollective, and Choria's.
//!
//! Keys and certificates come in as text; nothing is read from disks here.

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

/// Bytes of the longest text with certificates.
pub const MAX_PEM: usize = 32 * 1024;
/// Certificates of the longest chain, without the CA's.
pub const MAX_CERTIFICATES: usize = 4;
/// Seconds that a request may be good for; more count as this, since replayed ones are remembered for as long.
pub const MAX_TTL: u32 = 86_400;

/// Why a message cannot be written.
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
        SealError("there is no key to answer with; set `server_private`".to_owned())
    }
}

impl From<CryptoError> for SealError {
    fn from(error: CryptoError) -> SealError {
        SealError(error.to_string())
    }
}

/// Tells the time in seconds since 1970, which certificates are held against.
pub type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A security plugin with its keys. Whether a message is of now and whether it was seen before is for [`check_age`] and
/// [`Replay`] to say; only certificates are held against a [`Clock`] here.
pub trait Security: Send + Sync {
    /// How own requests are written.
    fn form(&self) -> Form;

    /// The caller id of own requests.
    fn caller(&self) -> &CallerId;

    /// Writes and signs a request of our own, in [`Security::form`].
    ///
    /// # Errors
    /// There is no key to sign with, or something has no form there.
    fn seal_request(&self, request: &Request) -> Result<Vec<u8>, SealError>;

    /// Reads a request and says whether it is genuine; with the form in which the answer goes out.
    ///
    /// # Errors
    /// Why it is not listened to.
    fn open_request(&self, data: &[u8]) -> Result<(Request, Form), Refused>;

    /// Writes the answer to a request of `caller` that came in `form`.
    ///
    /// # Errors
    /// There is no key to sign with, or something has no form there.
    fn seal_reply(
        &self,
        reply: &Reply,
        form: Form,
        caller: &CallerId,
    ) -> Result<Vec<u8>, SealError>;

    /// Reads a reply to an own request.
    ///
    /// # Errors
    /// Why it is not listened to.
    fn open_reply(&self, data: &[u8]) -> Result<Reply, Refused>;
}

/// Holds the envelope of G0, which nothing covers, against the body of SimpleRPC, which is covered: it names agent and caller
/// once more (reference, section 11; `RPC::Client#new_request` takes both from where the envelope has them). Other bodies say
/// nothing of either.
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
