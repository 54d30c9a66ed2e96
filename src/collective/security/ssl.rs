//! The security plugin SSL: bodies signed with plain RSA keys (reference, section 5).
//!
//! Body, time and time to live of a request are signed, and the body of a reply. Filter, sender and id of a request are
//! not; nor is the agent, unless the body is SimpleRPC, which repeats it. The caller is the owner of the key.

use super::plain::PlainSettings;
use super::rsa::{self, Hash};
use super::{SealError, Security};
use crate::ruby::Datum;
use crate::wire::core::{CoreReply, CoreRequest, Proof, Sealed, dump, load};
use crate::wire::{CallerId, Form, Refused, Reply, Request};
use halite_crypto::{MAX_BITS, PrivateKey, PublicKey};
use halite_wire::base64;

/// Prefix of the keys in signed documents.
const PLUGIN: &str = "ssl";

/// The security plugin SSL with its keys.
#[derive(Debug)]
pub struct Ssl(PlainSettings);

impl Ssl {
    /// The plugin with these keys.
    pub fn new(settings: PlainSettings) -> Ssl {
        Ssl(settings)
    }

    fn caller_key(&self, caller: &CallerId) -> Result<PublicKey, Refused> {
        let unknown = || Refused::Caller(format!("no key of {caller} is known"));
        let text = self.0.known(caller)?.ok_or_else(unknown)?;
        super::x509::key_or_certificate(&text)
            .map_err(|why| Refused::Caller(format!("the key of {caller}: {why}")))
    }
}

impl Security for Ssl {
    fn form(&self) -> Form {
        Form::Ssl(self.0.serializer)
    }

    fn caller(&self) -> &CallerId {
        &self.0.caller
    }

    fn seal_request(&self, request: &Request) -> Result<Vec<u8>, SealError> {
        let sealed = Sealed {
            body: request.body.clone(),
            ttl: request.ttl,
            time: request.time,
        };
        let body = sealed.write(self.0.serializer, PLUGIN);
        let proof = prove(&self.0.client, &body)?;
        Ok(CoreRequest::new(request, self.0.serializer, body, proof).write())
    }

    fn open_request(&self, data: &[u8]) -> Result<(Request, Form), Refused> {
        let core = CoreRequest::read(data)?;
        let nobody = || Refused::Caller("it has none".to_owned());
        let key = self.caller_key(core.caller.as_ref().ok_or_else(nobody)?)?;
        check(&key, &core.body, &core.proof)?;
        let (signed, form) = (
            load(&core.body, core.serializer)?,
            Form::Ssl(core.serializer),
        );
        let mut request = core.into_request(Datum::Nil, &self.0.home)?;
        self.0.adopt(&mut request, signed, PLUGIN)?;
        Ok((request, form))
    }

    fn seal_reply(
        &self,
        reply: &Reply,
        form: Form,
        _caller: &CallerId,
    ) -> Result<Vec<u8>, SealError> {
        let Form::Ssl(serializer) = form else {
            return Err(SealError::form(form, PLUGIN));
        };
        let key = self.0.server_private.as_ref();
        let body = dump(&reply.body, serializer);
        let proof = prove(key.ok_or_else(SealError::no_server_key)?, &body)?;
        Ok(CoreReply::new(reply, serializer, body, proof).write())
    }

    fn open_reply(&self, data: &[u8]) -> Result<Reply, Refused> {
        let core = CoreReply::read(data)?;
        check(&self.0.server_public, &core.body, &core.proof)?;
        let body = load(&core.body, core.serializer)?;
        Ok(core.into_reply(body))
    }
}

fn prove(key: &PrivateKey, body: &[u8]) -> Result<Proof, SealError> {
    let signature = rsa::sign(key, Hash::Sha1, body)?;
    Ok(Proof {
        hash: Some(base64::encode_ruby(&signature)),
        ..Proof::default()
    })
}

fn check(key: &PublicKey, body: &[u8], proof: &Proof) -> Result<(), Refused> {
    let text = proof.hash.as_ref().ok_or(Refused::Unsigned)?;
    if text.len() > MAX_BITS / 4 {
        return Err(Refused::TooLarge("bytes of a signature"));
    }
    let signature = base64::decode_lines(text)
        .ok_or_else(|| Refused::Malformed("a signature that is not base64".to_owned()))?;
    if rsa::verify(key, Hash::Sha1, body, &signature) {
        Ok(())
    } else {
        Err(Refused::Signature)
    }
}
