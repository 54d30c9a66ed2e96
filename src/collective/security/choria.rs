//! Choria's security plugin, of both generations (reference, section 14): requests signed with certificates of one CA,
//! replies with a hash.
//!
//! A request is signed as a whole, including the envelope. A reply is not signed: its hash only detects accidental changes;
//! that it comes from a node must be ensured by the broker's TLS.

use super::names::Names;
use super::rsa::{self, Hash};
use super::trust::Trust;
use super::x509::{Authority, Chain};
use super::{Clock, SealError, Security};
use crate::wire::choria::{
    Generation, SecureReply, SecureRequest, read_reply, read_request, write_reply, write_request,
};
use crate::wire::{CallerId, Form, Refused, Reply, Request};
use halite_crypto::PrivateKey;
use halite_wire::base64;
use sha2::{Digest, Sha256};
use std::fmt;

/// Settings of Choria's plugin.
pub struct ChoriaSettings {
    /// Form of our requests: [`Form::CHORIA`] or [`Form::CHORIA_YAML`].
    pub form: Form,
    /// The CA of all callers.
    pub authority: Authority,
    /// Our certificate in PEM form, with the intermediates, if any.
    pub certificate: String,
    /// Its key.
    pub key: PrivateKey,
    /// Names of allowed callers.
    pub callers: Names,
    /// Names that may call on behalf of others.
    pub privileged: Names,
    /// The clock to check certificates against.
    pub clock: Clock,
}

/// Choria's security plugin with its keys. Whatever form it writes, it accepts requests of both generations and replies in
/// the form of the request.
pub struct Choria {
    form: Form,
    caller: CallerId,
    certificate: String,
    key: PrivateKey,
    trust: Trust,
    clock: Clock,
}

impl Choria {
    /// The plugin with these settings. Its caller id is the common name of the certificate.
    ///
    /// # Errors
    /// The certificate cannot be read, its name is not valid in a caller id, or it does not match the key.
    pub fn new(settings: ChoriaSettings) -> Result<Choria, String> {
        let chain = Chain::from_pem(&settings.certificate).map_err(|why| why.to_string())?;
        if chain.key()? != settings.key.public() {
            return Err("the key is not the one of the certificate".to_owned());
        }
        let name = chain.common_name().unwrap_or_default();
        let caller = format!("choria={name}").parse::<CallerId>();
        let caller = caller.map_err(|_| {
            format!("its common name {name:?} is not valid in a caller id: letters, digits, '_', '-' and '.' only")
        })?;
        Ok(Choria {
            form: settings.form,
            caller,
            certificate: settings.certificate.trim_end().to_owned(),
            key: settings.key,
            trust: Trust::new(settings.authority, settings.callers, settings.privileged),
            clock: settings.clock,
        })
    }
}

impl fmt::Debug for Choria {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Choria({}, ***)", self.caller)
    }
}

impl Security for Choria {
    fn form(&self) -> Form {
        self.form
    }

    fn caller(&self) -> &CallerId {
        &self.caller
    }

    fn seal_request(&self, request: &Request) -> Result<Vec<u8>, SealError> {
        let generation = generation(self.form)?;
        let message = write_request(request, self.form);
        let signature = rsa::sign(&self.key, Hash::Sha256, message.as_bytes())?;
        let secure = SecureRequest {
            generation,
            message,
            signature,
            lines: generation == Generation::G1,
            certificate: self.certificate.clone(),
        };
        Ok(secure.write())
    }

    fn open_request(&self, data: &[u8]) -> Result<(Request, Form), Refused> {
        let secure = SecureRequest::read(data)?;
        let SecureRequest {
            generation,
            message,
            signature,
            certificate,
            ..
        } = &secure;
        let now = (self.clock)();
        let signer = self
            .trust
            .signer(message.as_bytes(), signature, certificate, now)?;
        // The content is parsed only once the signature is verified.
        let (request, form) = read_request(message, *generation)?;
        self.trust.may_call(&signer, &request.caller)?;
        Ok((request, form))
    }

    fn seal_reply(
        &self,
        reply: &Reply,
        form: Form,
        _caller: &CallerId,
    ) -> Result<Vec<u8>, SealError> {
        let generation = generation(form)?;
        let message = write_reply(reply, form);
        let secure = SecureReply {
            hash: hash(generation, &message),
            generation,
            message,
        };
        Ok(secure.write())
    }

    fn open_reply(&self, data: &[u8]) -> Result<Reply, Refused> {
        let secure = SecureReply::read(data)?;
        // Not secret: anybody can compute this hash.
        if secure.hash != hash(secure.generation, &secure.message) {
            return Err(Refused::Signature);
        }
        Ok(read_reply(&secure.message, secure.generation)?.0)
    }
}

/// SHA-256 in the format of each generation.
fn hash(generation: Generation, message: &str) -> String {
    let digest = Sha256::digest(message);
    match generation {
        Generation::G1 => halite_crypto::hash::hex(&digest),
        Generation::G2 => base64::encode(&digest),
    }
}

fn generation(form: Form) -> Result<Generation, SealError> {
    match form {
        Form::Choria1 { .. } => Ok(Generation::G1),
        Form::Choria2 { .. } => Ok(Generation::G2),
        other => Err(SealError::form(other, "choria")),
    }
}
