//! The security plugin PSK: MD5 over the body and a shared secret (reference, section 4).
//!
//! Only the body is protected. Anybody on the network can change sender, filter, time, time to live and id of a request,
//! and also agent and caller, unless the body is SimpleRPC, which repeats them.

use super::{SealError, Security, check_envelope};
use crate::wire::core::{CoreReply, CoreRequest, Proof, dump, load};
use crate::wire::{CallerId, Collective, Form, Refused, Reply, Request, Serializer};
use halite_crypto::constant_time_eq;
use md5::{Digest, Md5};
use std::fmt;
use zeroize::Zeroizing;

/// The security plugin PSK with its secret.
pub struct Psk {
    secret: Zeroizing<Vec<u8>>,
    caller: CallerId,
    home: Collective,
}

impl Psk {
    /// The plugin with the value of the servers' `plugin.psk`. `home` is the collective of requests without one.
    pub fn new(secret: &[u8], caller: CallerId, home: Collective) -> Psk {
        Psk {
            secret: Zeroizing::new(secret.to_vec()),
            caller,
            home,
        }
    }

    /// MD5 of body and secret, in hexadecimal.
    fn hash(&self, body: &[u8]) -> String {
        let mut hash = Md5::new();
        hash.update(body);
        hash.update(self.secret.as_slice());
        halite_crypto::hash::hex(&hash.finalize())
    }

    fn prove(&self, body: &[u8]) -> Proof {
        Proof {
            hash: Some(self.hash(body)),
            ..Proof::default()
        }
    }

    /// Checks that the sender of the body knows the secret.
    fn check(&self, body: &[u8], proof: &Proof, serializer: Serializer) -> Result<(), Refused> {
        if serializer != Serializer::Marshal {
            return Err(Refused::Protocol("YAML, which PSK never is".to_owned()));
        }
        let Some(given) = &proof.hash else {
            return Err(Refused::Unsigned);
        };
        if constant_time_eq(given.as_bytes(), self.hash(body).as_bytes()) {
            Ok(())
        } else {
            Err(Refused::Signature)
        }
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Psk({}, ***)", self.caller)
    }
}

impl Security for Psk {
    fn form(&self) -> Form {
        Form::Psk
    }

    fn caller(&self) -> &CallerId {
        &self.caller
    }

    fn seal_request(&self, request: &Request) -> Result<Vec<u8>, SealError> {
        let body = dump(&request.body, Serializer::Marshal);
        let proof = self.prove(&body);
        Ok(CoreRequest::new(request, Serializer::Marshal, body, proof).write())
    }

    fn open_request(&self, data: &[u8]) -> Result<(Request, Form), Refused> {
        let core = CoreRequest::read(data)?;
        self.check(&core.body, &core.proof, core.serializer)?;
        let body = load(&core.body, core.serializer)?;
        let request = core.into_request(body, &self.home)?;
        check_envelope(&request)?;
        Ok((request, Form::Psk))
    }

    fn seal_reply(
        &self,
        reply: &Reply,
        form: Form,
        _caller: &CallerId,
    ) -> Result<Vec<u8>, SealError> {
        if form != Form::Psk {
            return Err(SealError::form(form, "psk"));
        }
        let body = dump(&reply.body, Serializer::Marshal);
        let proof = self.prove(&body);
        Ok(CoreReply::new(reply, Serializer::Marshal, body, proof).write())
    }

    fn open_reply(&self, data: &[u8]) -> Result<Reply, Refused> {
        let core = CoreReply::read(data)?;
        self.check(&core.body, &core.proof, core.serializer)?;
        let body = load(&core.body, core.serializer)?;
        Ok(core.into_reply(body))
    }
}
