//! What the plugins SSL and AES share: plain RSA keys, callers by name, and times below the signature.

use super::check_envelope;
use crate::ruby::Datum;
use crate::wire::{CallerId, Collective, Refused, Request, Serializer};
use halite_crypto::{PrivateKey, PublicKey};
use std::fmt;

/// Kind of all caller ids of these plugins.
const KIND: &str = "cert";

/// Finds the public key, or certificate, of a caller by name, in PEM form. It is asked for names of letters, digits, `_`, `-`
/// and dots only, none of which stands first.
pub type Callers = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Keys and rules of the plugins SSL and AES.
pub struct PlainSettings {
    /// Own key as a client.
    pub client: PrivateKey,
    /// Own caller id: `cert=<name of the key>`.
    pub caller: CallerId,
    /// The key that all servers share, its public half.
    pub server_public: PublicKey,
    /// Its private half; without it nothing can be answered.
    pub server_private: Option<PrivateKey>,
    /// Who may call.
    pub callers: Callers,
    /// Refuse where times are not signed, or are other ones than those outside the signature (`enforce_ttl`).
    pub enforce_ttl: bool,
    /// What own requests are written in.
    pub serializer: Serializer,
    /// The collective of requests that name none.
    pub home: Collective,
}

impl fmt::Debug for PlainSettings {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PlainSettings({}, ***)", self.caller)
    }
}

impl PlainSettings {
    /// What is known of a caller, in PEM form.
    ///
    /// # Errors
    /// [`Refused::Caller`] where the id is none of these plugins.
    pub(super) fn known(&self, caller: &CallerId) -> Result<Option<String>, Refused> {
        let name = caller.name();
        if caller.kind() != KIND || name.starts_with('.') {
            let why = format!("{caller} is not of the kind {KIND}=<name>");
            return Err(Refused::Caller(why));
        }
        Ok((self.callers)(name))
    }

    /// Takes body and times out of what was signed and puts them into the request in place of those that were not.
    /// `plugin` is `ssl` or `aes`, with which the keys begin (reference, sections 5 and 6).
    ///
    /// # Errors
    /// With `enforce_ttl`: times are missing or are others. Agent or caller are others than those of SimpleRPC's body.
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
