//! The security plugin AES: bodies encrypted with a session key, which is bound to a caller by RSA (reference, section 6).
//!
//! The session key of a request is encrypted with the caller's private key: anyone with the public key can decrypt it, and
//! could encrypt another body with it. So each session key is accepted for one body only, as long as it is remembered.
//! That of a reply is encrypted with the caller's public key, which proves nothing about the sender.

use super::names::Names;
use super::plain::PlainSettings;
use super::rsa::{self, SessionKey};
use super::x509::{Authority, Chain};
use super::{Clock, MAX_PEM, SealError, Security, cipher};
use crate::ruby::Datum;
use crate::wire::core::{CoreReply, CoreRequest, Proof, Sealed, dump, load};
use crate::wire::{CallerId, Form, Refused, Reply, Request};
use halite_crypto::{MAX_BITS, PublicKey, fill_random};
use halite_wire::base64;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// Prefix of the keys in encrypted documents.
const PLUGIN: &str = "aes";
/// Number of session keys remembered; about 200 bytes each.
const SESSIONS: usize = 16_384;
/// Number of callers whose certificates are remembered from requests.
const LEARNED: usize = 1024;

/// The security plugin AES with its keys. It reads and writes `aes-256-cbc`, the default of `ssl_cipher`.
pub struct Aes {
    settings: PlainSettings,
    authority: Option<(Authority, Names)>,
    clock: Clock,
    sessions: Mutex<Memory<[u8; 32], [u8; 32]>>,
    learned: Mutex<Memory<CallerId, PublicKey>>,
}

impl Aes {
    /// The plugin with these keys. With an authority, all callers need certificates issued by it, and those whose names are
    /// in the list may send them in a request. Without one, keys in requests are never accepted.
    pub fn new(
        settings: PlainSettings,
        authority: Option<(Authority, Names)>,
        clock: Clock,
    ) -> Aes {
        Aes {
            settings,
            authority,
            clock,
            sessions: Mutex::new(Memory::new(SESSIONS)),
            learned: Mutex::new(Memory::new(LEARNED)),
        }
    }

    /// The key of a caller, known or from the request, and whether it was from the request.
    fn caller_key(
        &self,
        caller: &CallerId,
        sent: Option<&str>,
    ) -> Result<(PublicKey, bool), Refused> {
        let known = self.settings.known(caller)?;
        let Some((authority, callers)) = &self.authority else {
            let why = match sent {
                Some(_) => "the key in the request cannot be checked without a CA",
                None => "its key is not known",
            };
            let text = known.ok_or_else(|| Refused::Caller(format!("{caller}: {why}")))?;
            let key = super::x509::key_or_certificate(&text);
            let key = key.map_err(|why| Refused::Caller(format!("the key of {caller}: {why}")));
            return Ok((key?, false));
        };
        let learned = known.is_none();
        let text = known.as_deref().or(sent);
        let text =
            text.ok_or_else(|| Refused::Caller(format!("{caller}: its key is not known")))?;
        let verified = Chain::from_pem(text)?.verify(authority, (self.clock)())?;
        if !verified.names.iter().any(|name| name == caller.name()) {
            let names = verified.names.join(", ");
            let why = format!("{caller}, but the certificate is of {names}");
            return Err(Refused::Caller(why));
        }
        if learned && !callers.has(caller.name()) {
            return Err(Refused::Caller(format!("{caller} is not in `callers`")));
        }
        Ok((verified.key, learned))
    }

    /// Encrypts a body with a new session key, which `wrap` encrypts.
    fn seal<E>(
        &self,
        body: &[u8],
        wrap: impl FnOnce(&SessionKey) -> Result<Vec<u8>, E>,
    ) -> Result<(Vec<u8>, Proof), E> {
        let mut session = SessionKey::default();
        fill_random(session.as_mut_slice());
        let data = base64::encode_ruby(&cipher::encrypt(&session, body));
        let proof = Proof {
            key: Some(base64::encode_ruby(&wrap(&session)?)),
            ..Proof::default()
        };
        Ok((data.into_bytes(), proof))
    }

    /// Refuses a session key that was used with another body.
    fn one_body(&self, session: &SessionKey, data: &[u8]) -> Result<(), Refused> {
        let key: [u8; 32] = Sha256::digest(session.as_slice()).into();
        let body: [u8; 32] = Sha256::digest(data).into();
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match sessions.get(&key) {
            Some(before) if *before != body => return Err(Refused::Tampered("body")),
            Some(_) => {}
            None => sessions.put(key, body),
        }
        Ok(())
    }
}

impl fmt::Debug for Aes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Aes({}, ***)", self.settings.caller)
    }
}

impl Security for Aes {
    fn form(&self) -> Form {
        Form::Aes(self.settings.serializer)
    }

    fn caller(&self) -> &CallerId {
        &self.settings.caller
    }

    fn seal_request(&self, request: &Request) -> Result<Vec<u8>, SealError> {
        let sealed = Sealed {
            body: request.body.clone(),
            ttl: request.ttl,
            time: request.time,
        };
        let serializer = self.settings.serializer;
        let body = sealed.write(serializer, PLUGIN);
        let key = &self.settings.client;
        let (body, proof) = self.seal(&body, |session| rsa::private_encrypt(key, session))?;
        Ok(CoreRequest::new(request, serializer, body, proof).write())
    }

    fn open_request(&self, data: &[u8]) -> Result<(Request, Form), Refused> {
        let core = CoreRequest::read(data)?;
        let nobody = || Refused::Caller("it has none".to_owned());
        let caller = core.caller.clone().ok_or_else(nobody)?;
        let (session, body) = parts(&core.body, &core.proof)?;
        let sent = core.proof.public_key.as_deref();
        if sent.is_some_and(|sent| sent.len() > MAX_PEM) {
            return Err(Refused::TooLarge("bytes of certificates"));
        }
        let (key, learned) = self.caller_key(&caller, sent)?;
        let session = rsa::public_decrypt(&key, &session).ok_or(Refused::Signature)?;
        let text = cipher::decrypt(&session, &body).ok_or(Refused::Signature)?;
        let (signed, form) = (load(&text, core.serializer)?, Form::Aes(core.serializer));
        let mut request = core.into_request(Datum::Nil, &self.settings.home)?;
        self.settings.adopt(&mut request, signed, PLUGIN)?;
        self.one_body(&session, &body)?;
        if learned {
            let learned = self.learned.lock();
            let mut learned = learned.unwrap_or_else(PoisonError::into_inner);
            learned.put(caller, key);
        }
        Ok((request, form))
    }

    fn seal_reply(
        &self,
        reply: &Reply,
        form: Form,
        caller: &CallerId,
    ) -> Result<Vec<u8>, SealError> {
        let Form::Aes(serializer) = form else {
            return Err(SealError::form(form, PLUGIN));
        };
        let key = match self.caller_key(caller, None) {
            Ok((key, _)) => key,
            Err(why) => {
                let learned = self.learned.lock();
                let learned = learned.unwrap_or_else(PoisonError::into_inner);
                let key = learned.get(caller).cloned();
                key.ok_or_else(|| SealError(format!("no answer: {why}")))?
            }
        };
        let body = dump(&reply.body, serializer);
        let (body, proof) = self.seal(&body, |session| key.encrypt_pkcs1v15(session.as_slice()))?;
        Ok(CoreReply::new(reply, serializer, body, proof).write())
    }

    fn open_reply(&self, data: &[u8]) -> Result<Reply, Refused> {
        let core = CoreReply::read(data)?;
        let (session, body) = parts(&core.body, &core.proof)?;
        // From here on there is only one error, so that it does not reveal at which step a forged block failed.
        let session = rsa::private_decrypt(&self.settings.client, &session);
        let text = cipher::decrypt(&session, &body).ok_or(Refused::NotForUs)?;
        let body = load(&text, core.serializer).map_err(|_| Refused::NotForUs)?;
        Ok(core.into_reply(body))
    }
}

/// The encrypted session key and the encrypted body.
fn parts(body: &[u8], proof: &Proof) -> Result<(Vec<u8>, Vec<u8>), Refused> {
    let key = proof.key.as_ref().ok_or(Refused::Unsigned)?;
    if key.len() > MAX_BITS / 4 {
        return Err(Refused::TooLarge("bytes of a session key"));
    }
    let key = base64::decode_lines(key);
    let body = std::str::from_utf8(body)
        .ok()
        .and_then(base64::decode_lines);
    key.zip(body)
        .ok_or_else(|| Refused::Malformed("a body or session key that is not base64".to_owned()))
}

/// A bounded map that keeps the newest entries.
struct Memory<K, V> {
    most: usize,
    values: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V> Memory<K, V> {
    fn new(most: usize) -> Self {
        Memory {
            most,
            values: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    fn put(&mut self, key: K, value: V) {
        if self.values.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
    }
}
