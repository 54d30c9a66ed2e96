//! The minion's side of the sign-in: the request, the verification of the reply, and retries.
//!
//! No IO. [`Request::new`] builds the request, [`verify`] verifies the reply
//! (`salt/crypt.py AsyncAuth.minion_sign_in_payload`, `handle_signin_response`; reference
//! `salt-protocol.md` 3), [`RetryPolicy`] decides whether and when to try again. [`Exchange`] does this or, with a halite
//! master, the handshake between halite peers.
//!
//! Unlike in stock, a master's key is pinned only after everything else in the reply has
//! been verified: a refused reply changes nothing.

use super::load::Load;
use super::reply;
use halite_crypto::noise::{Signer, StaticKey, StaticPublic, fingerprint, statement};
use halite_crypto::{
    CipherKind, Encryption, HashType, IdentityKey, IdentityPublic, KeyString, SessionCipher,
    Signing, clean_key, constant_time_eq, finger,
};
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

mod exchange;
mod retry;
mod seen;

pub use exchange::{Exchange, Known, NextStep};
pub use retry::{RetryOptions, RetryPolicy, Step};
pub use seen::{KeptSessions, PerMaster, SeenMasters};

/// Exit status when the master rejected the key (`EX_NOPERM`).
pub const EXIT_REJECTED: i32 = 77;
/// Exit status when the fingerprint of the master's key differs from `master_finger`.
pub const EXIT_FINGER: i32 = 42;

/// The configuration of a minion's sign-in.
pub struct SignInConfig {
    /// The minion id.
    pub id: String,
    /// Its key pair.
    pub key: IdentityKey,
    /// Its public key as sent.
    pub public: String,
    /// `encryption_algorithm`.
    pub encryption: Encryption,
    /// `signing_algorithm`.
    pub signing: Signing,
    /// Grains by which the master may accept the key; `None` if the option is not set.
    pub autosign_grains: Option<Map>,
    /// `verify_master_pubkey_sign`.
    pub verify_master_sign: bool,
    /// `always_verify_signature`.
    pub always_verify: bool,
    /// The key that signs masters' keys, if there is one.
    pub signer: Option<IdentityPublic>,
    /// `master_finger`; empty if not checked.
    pub master_finger: String,
    /// `hash_type`, for the fingerprint.
    pub hash: HashType,
    /// The random text that proves to us that the master holds its private key.
    pub token: KeyString,
    /// `tok` of every request, computed once.
    pub tok: OnceLock<Vec<u8>>,
    /// For the handshake with a halite master; `None` to sign in as Salt does (`handshake: salt`).
    pub noise: Option<NoiseIdentity>,
    /// Whether that handshake is the only one to be used (`handshake: noise`).
    pub noise_only: bool,
}

impl SignInConfig {
    /// The signature by which our key certifies our static key, for use with this master.
    fn certificate(&self, noise: &NoiseIdentity, master: &MasterKey) -> Vec<u8> {
        let of = fingerprint(&master.pem);
        let mut made = noise.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, signature)) = made.iter().find(|(for_master, _)| *for_master == of) {
            return signature.clone();
        }
        let statement = statement(Signer::Minion, noise.key.public(), &of);
        let signature = self.key.sign(NOISE_SIGNING, &statement);
        made.push((of, signature.clone()));
        signature
    }

    /// Encrypts one request (`AsyncReqChannel._package_load`, reference 6.1). `sign` is `minion_sign_messages`; `ts` in Unix
    /// seconds.
    pub fn seal(
        &self,
        cipher: &SessionCipher,
        load: &Load<'_>,
        nonce: &str,
        ts: i64,
        sign: bool,
    ) -> Vec<u8> {
        let proof = [
            ("nonce", Value::from(nonce)),
            ("ts", ts.into()),
            ("tok", self.tok().to_vec().into()),
            ("id", self.id.as_str().into()),
        ];
        let mut load = load.clone();
        for (name, value) in &proof {
            load.set(name, value);
        }
        let signature = sign.then(|| {
            let signed = load.encode(Profile::Local, &["nonce", "tok"]);
            Value::from(self.key.sign(self.signing, &signed))
        });
        if let Some(signature) = &signature {
            load.set("sig", signature);
        }
        let document = load.encode(Profile::Wire, &[]);
        reply::envelope(cipher, &self.id, self.encryption, self.signing, &document)
    }

    /// Proves in each request that we hold our private key (reference 6.2).
    pub fn tok(&self) -> &[u8] {
        self.tok.get_or_init(|| self.key.tok())
    }
}

/// Why a master with another key than the pinned one is not trusted.
pub(super) fn other_master(terms: &SignInConfig, known: &MasterKey, found: &MasterKey) -> String {
    let [known, found] = [known, found].map(|master| finger(&master.pem, terms.hash));
    let option = match terms.master_finger.is_empty() || terms.master_finger == found {
        true => "",
        false => ", and correct master_finger",
    };
    format!(
        "the master's key has changed from {known} to {found}; if `halite-key -f master.pub` there shows the second one, remove \
         minion_master.pub from pki_dir{option}"
    )
}

/// The algorithm of the signatures of static keys.
const NOISE_SIGNING: Signing = Signing::Pkcs1v15Sha224;

/// The fingerprint of a master, and a signature for use with it.
type Certificate = (String, Vec<u8>);

/// What a minion needs for the handshake with a halite master.
#[derive(Clone, Debug)]
pub struct NoiseIdentity {
    /// Its static key.
    pub key: StaticKey,
    /// Signatures, each made once, with the fingerprint of the master that it is for.
    made: Arc<Mutex<Vec<Certificate>>>,
}

impl NoiseIdentity {
    /// An identity with this static key.
    pub fn new(key: StaticKey) -> NoiseIdentity {
        NoiseIdentity {
            key,
            made: Arc::default(),
        }
    }
}

/// A master's key that we trust.
#[derive(Clone, Debug, PartialEq)]
pub struct MasterKey {
    /// The PEM text as received.
    pub pem: String,
    /// Parsed.
    pub key: IdentityPublic,
}

impl MasterKey {
    /// Parses a key.
    pub fn parse(pem: &str) -> Option<MasterKey> {
        let pem = clean_key(pem);
        let key = IdentityPublic::from_pem(&pem).ok()?;
        Some(MasterKey { pem, key })
    }
}

/// A pending sign-in request.
pub struct Request {
    /// The message.
    pub body: Vec<u8>,
    nonce: String,
    has_token: bool,
}

impl Request {
    /// Builds the request, with a token if a master's key is pinned.
    pub fn new(terms: &SignInConfig, pinned: Option<&MasterKey>, nonce: &str) -> Request {
        let mut load = halite_wire::map! {
            "cmd" => "_auth",
            "id" => terms.id.as_str(),
            "nonce" => nonce,
            "enc_algo" => terms.encryption.to_string(),
            "sig_algo" => terms.signing.to_string(),
        };
        // What only the handshake may follow needs no more than to ask for it: they can be secrets.
        let is_salts = terms.key.rsa().is_some() && !terms.noise_only;
        if let Some(grains) = terms.autosign_grains.as_ref().filter(|_| is_salts) {
            load.set("autosign_grains", grains.clone());
        }
        let token = pinned
            .and_then(|master| master.key.rsa())
            .and_then(|key| key.encrypt(terms.encryption, terms.token.as_bytes()).ok());
        let has_token = token.is_some();
        if let Some(token) = token {
            load.set("token", token);
        }
        // A stock master would store what it cannot read.
        if terms.key.rsa().is_some() {
            load.set("pub", terms.public.as_str());
        }
        if terms.noise.is_some() {
            load.set("noise", "");
        }
        Request {
            body: clear(load),
            nonce: nonce.to_owned(),
            has_token,
        }
    }
}

fn clear(load: Map) -> Vec<u8> {
    let envelope = halite_wire::map! {"enc" => "clear", "load" => load, "version" => 3};
    msgpack::encode_map(&envelope, Profile::Wire)
}

/// The result of a successful sign-in.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// Publication key.
    pub aes: KeyString,
    /// Session key, for our requests.
    pub session: KeyString,
    /// Port of publications.
    pub publish_port: u16,
    /// The master's key.
    pub master: MasterKey,
    /// Whether that key must be stored, because it is new or replaces another one.
    pub pin: bool,
    /// Whether the master provides new publication keys under the session key (`_aes_keys`, halite's only).
    pub rekeys: bool,
    /// What the session key is for.
    pub cipher: CipherKind,
    /// The static key by which the master proved itself.
    pub noise: Option<StaticPublic>,
}

/// The result of a sign-in request.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Signed in.
    Accepted(Box<Accepted>),
    /// The key waits to be accepted by the operator.
    Pending,
    /// The key is rejected, denied, or the id is not valid.
    Rejected,
    /// The master has as many minions as it may have.
    Full,
    /// The master does not support one of our algorithms; the option that set it.
    BadAlgorithm(&'static str),
    /// The fingerprint of the master's key differs from `master_finger`; the one presented.
    WrongFinger(String),
    /// The reply is not from the master that we trust: why.
    Untrusted(String),
    /// Not a reply to a sign-in.
    Unreadable,
    /// No reply in time.
    Silence,
}

/// Verifies a reply, in the order of reference 3.5.
pub fn verify(
    terms: &SignInConfig,
    pinned: Option<&MasterKey>,
    request: &Request,
    answer: &[u8],
) -> Verdict {
    let Ok(outer) = msgpack::decode_load(answer, Budget::fixed()) else {
        return Verdict::Unreadable;
    };
    if let Some(refused) = outer.get("load").and_then(Value::as_map) {
        return match refused.str("ret") {
            Some("bad enc algo") => Verdict::BadAlgorithm("encryption_algorithm"),
            Some("bad sig algo") => Verdict::BadAlgorithm("signing_algorithm"),
            _ => Verdict::Unreadable,
        };
    }
    let (Some(load), Some(sig)) = (outer.bytes("load"), outer.bytes("sig")) else {
        return Verdict::Unreadable;
    };
    let Ok(inner) = msgpack::decode_load(load, Budget::fixed()) else {
        return Verdict::Unreadable;
    };
    let answer = SignInReply {
        terms,
        pinned,
        request,
        load,
        sig,
        inner: &inner,
    };
    match answer.verify_answer() {
        Ok(verdict) => verdict,
        Err(why) => Verdict::Untrusted(why),
    }
}

struct SignInReply<'a> {
    terms: &'a SignInConfig,
    pinned: Option<&'a MasterKey>,
    request: &'a Request,
    load: &'a [u8],
    sig: &'a [u8],
    inner: &'a Map,
}

impl SignInReply<'_> {
    fn verify_answer(&self) -> Result<Verdict, String> {
        if !self.inner.contains("pub_key") {
            if let Some(master) = self.pinned {
                self.check_wrapper(master)?;
            }
            self.check_nonce()?;
            return Ok(refusal(self.inner));
        }
        let (master, pin) = trusted_master(self.terms, self.pinned, self.inner)?;
        self.check_wrapper(&master)?;
        self.check_nonce()?;
        let accepted = self.keys(master, pin)?;
        if let Some(wrong) = wrong_finger(self.terms, &accepted.master) {
            return Ok(wrong);
        }
        Ok(Verdict::Accepted(Box::new(accepted)))
    }

    fn check_wrapper(&self, master: &MasterKey) -> Result<(), &'static str> {
        if master.key.verify(self.terms.signing, self.load, self.sig) {
            return Ok(());
        }
        Err(
            "the signature of the answer does not match the master's key; if the master was reinstalled, remove \
             minion_master.pub from pki_dir",
        )
    }

    fn check_nonce(&self) -> Result<(), &'static str> {
        let nonce = self.inner.bytes("nonce").unwrap_or_default();
        if constant_time_eq(nonce, self.request.nonce.as_bytes()) {
            return Ok(());
        }
        Err("the answer belongs to another request")
    }

    fn keys(&self, master: MasterKey, pin: bool) -> Result<Accepted, &'static str> {
        let aes = self.decrypt("aes")?;
        let aes = signed_key(&master, &aes, self.inner.bytes("sig"))?;
        // A master whose key we did not have when we sent the request cannot have decrypted our token.
        let expect_token = self.request.has_token && !pin;
        if expect_token || self.inner.contains("token") {
            let token = self.decrypt("token")?;
            if !constant_time_eq(&token, self.terms.token.as_bytes()) {
                return Err("the master could not read our token");
            }
        }
        let port = self
            .inner
            .int("publish_port")
            .and_then(|p| u16::try_from(p).ok());
        Ok(Accepted {
            aes,
            rekeys: self.inner.get("rekey").is_some_and(Value::truthy),
            session: key_string(&self.decrypt("session")?)?,
            publish_port: port.ok_or("the answer has no publish port")?,
            master,
            pin,
            cipher: CipherKind::Salt,
            noise: None,
        })
    }

    fn decrypt(&self, field: &str) -> Result<Vec<u8>, &'static str> {
        self.inner
            .bytes(field)
            .zip(self.terms.key.rsa())
            .and_then(|(data, key)| key.decrypt(self.terms.encryption, data).ok())
            .ok_or("a key in the answer was not encrypted for us")
    }
}

fn refusal(reply: &Map) -> Verdict {
    match reply.get("ret") {
        None => Verdict::Unreadable,
        Some(v) if v.is_str("full") => Verdict::Full,
        Some(v) if v.truthy() => Verdict::Pending,
        Some(_) => Verdict::Rejected,
    }
}

/// The verdict if `master_finger` is set and the master has another fingerprint.
fn wrong_finger(terms: &SignInConfig, master: &MasterKey) -> Option<Verdict> {
    let finger = finger(&master.pem, terms.hash);
    let wrong = !terms.master_finger.is_empty() && finger != terms.master_finger;
    wrong.then_some(Verdict::WrongFinger(finger))
}

/// The master's key in a reply, and whether it must be pinned (`AsyncAuth.verify_master`).
fn trusted_master(
    terms: &SignInConfig,
    pinned: Option<&MasterKey>,
    reply: &Map,
) -> Result<(MasterKey, bool), String> {
    let text = reply.str("pub_key").unwrap_or_default();
    let master = MasterKey::parse(text).ok_or("the master's public key cannot be read")?;
    match (reply.contains("pub_sig"), terms.verify_master_sign) {
        (true, false) => {
            return Err(
                "the master sent a signature of its public key; set verify_master_pubkey_sign here, \
                 or turn master_sign_pubkey off there"
                    .to_owned(),
            );
        }
        (false, true) => {
            return Err(
                "the master sent no signature of its public key; turn verify_master_pubkey_sign off \
                 here, or set master_sign_pubkey there"
                    .to_owned(),
            );
        }
        _ => {}
    }
    let known = pinned.is_some_and(|p| p.pem == master.pem);
    if terms.verify_master_sign && (!known || terms.always_verify) {
        check_master_signature(terms, reply, text)?;
        return Ok((master, !known));
    }
    if let Some(pinned) = pinned.filter(|_| !known) {
        return Err(other_master(terms, pinned, &master));
    }
    Ok((master, !known))
}

fn check_master_signature(
    terms: &SignInConfig,
    reply: &Map,
    text: &str,
) -> Result<(), &'static str> {
    use base64::Engine;
    let signer = terms.signer.as_ref().ok_or(
        "the key that verifies masters (master_sign_key_name) is not in pki_dir; copy it there",
    )?;
    let packed: String = reply
        .str("pub_sig")
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let signature = base64::engine::general_purpose::STANDARD
        .decode(packed)
        .unwrap_or_default();
    if signer.verify(terms.signing, text.as_bytes(), &signature) {
        return Ok(());
    }
    Err("the signature of the master's public key does not match")
}

/// A publication key, if `sig` is the master's signature of its digest (reference 3.4).
pub(super) fn signed_key(
    master: &MasterKey,
    key: &[u8],
    sig: Option<&[u8]>,
) -> Result<KeyString, &'static str> {
    let digest = HashType::Sha256.hex(key);
    if !sig.is_some_and(|sig| master.key.signed_digest(&digest, sig)) {
        return Err("the master's signature of its AES key does not match");
    }
    key_string(key)
}

fn key_string(bytes: &[u8]) -> Result<KeyString, &'static str> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| KeyString::from_text(text).ok())
        .ok_or("a key in the answer is not a valid key")
}

#[cfg(test)]
mod tests;
