//! Common parts of the plugins SSL and AES: plain RSA keys, callers by name, and signed times.

use super::check_envelope;
use crate::ruby::Datum;
use crate::wire::{CallerId, Collective, Refused, Request, Serializer};
use halite_crypto::{PrivateKey, PublicKey};
use std::fmt;

/// The kind in all caller ids of these plugins.
const KIND: &str = "cert";

/// Returns the public key, or certificate, of a caller by name, in PEM form. Names passed to it consist of letters, digits,
/// `_`, `-` and dots, and do not start with a dot.
pub type Callers = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Settings of the plugins SSL and AES.
pub struct PlainSettings {
    /// Our key as a client.
    pub client: PrivateKey,
    /// Our caller id: `cert=<name of the key>`.
    pub caller: CallerId,
    /// The public key of all servers.
    pub server_public: PublicKey,
    /// Its private half, needed for replies.
    pub server_private: Option<PrivateKey>,
    /// Looks up allowed callers.
    pub callers: Callers,
    /// Refuse messages whose times are not signed or differ from those outside the signature (`enforce_ttl`).
    pub enforce_ttl: bool,
    /// Serializer of our requests.
    pub serializer: Serializer,
    /// The collective of requests without one.
    pub home: Collective,
}

impl fmt::Debug for PlainSettings {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PlainSettings({}, ***)", self.caller)
    }
}

impl PlainSettings {
    /// The key or certificate of a caller, in PEM form.
    ///
    /// # Errors
    /// [`Refused::Caller`] if the id is not of these plugins.
    pub(super) fn known(&self, caller: &CallerId) -> Result<Option<String>, Refused> {
        let name = caller.name();
        if caller.kind() != KIND || name.starts_with('.') {
            let why = format!("{caller} is not of the kind {KIND}=<name>");
            return Err(Refused::Caller(why));
        }
        Ok((self.callers)(name))
    }

    /// Replaces body and times of the request, which are not protected, by those in the signed document.
    /// `plugin` is `ssl` or `aes`, the prefix of the keys (reference, sections 5 and 6).
    ///
    /// # Errors
    /// With `enforce_ttl`: times are missing or differ. Agent or caller differ from those in a SimpleRPC body.
    pub(super) fn adopt(
        &self,
        request: &mut Request,
        signed: Datum,
        plugin: &str,
    ) -> Result<(), Refused> {
        let number = |name: &str| signed.get(&format!("{plugin}_{name}")).map(Datum::as_int);
        let (ttl, time) = (number("ttl"), number("msgtime"));
        if self.enforce_ttl && ttl != Some(Some(request.ttl.into())) {
            return Err(Refused::Tampered("ttl"));
        }
        if self.enforce_ttl && time != Some(Some(request.time)) {
            return Err(Refused::Tampered("time"));
        }
        if let Some(ttl) = ttl {
            let ttl = ttl.and_then(|ttl| u32::try_from(ttl).ok());
            request.ttl = ttl.ok_or(Refused::Tampered("ttl"))?;
        }
        if let Some(time) = time {
            request.time = time.ok_or(Refused::Tampered("time"))?;
        }
        request.body = match signed.get(&format!("{plugin}_msg")) {
            Some(body) => body.clone(),
            None => signed,
        };
        check_envelope(request)
    }
}
