//! The minion's side of the sign-in: the request, the verification of the reply, and retries.
//!
//! No IO. [`Request::new`] builds the request, [`verify`] verifies the reply
//! (`salt/crypt.py AsyncAuth.minion_sign_in_payload`, `handle_signin_response`; reference
//! `salt-protocol.md` 3), [`RetryPolicy`] decides whether and when to try again.
//!
//! Unlike in stock, a master's key is pinned only after everything else in the reply has
//! been verified: a refused reply changes nothing.

use halite_config::MinionConfig;
use halite_crypto::{
    Encryption, HashType, KeyString, PrivateKey, PublicKey, Signing, clean_key, constant_time_eq,
    finger,
};
use halite_sys::exit::ExitError;
use halite_wire::budget::Budget;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::OnceLock;
use std::time::Duration;

/// Exit status when the master rejected the key (`EX_NOPERM`).
pub const EXIT_REJECTED: i32 = 77;
/// Exit status when the fingerprint of the master's key differs from `master_finger`.
pub const EXIT_FINGER: i32 = 42;

/// The configuration of a minion's sign-in.
pub struct SignInConfig {
    /// The minion id.
    pub id: String,
    /// Its key pair.
    pub key: PrivateKey,
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
    pub signer: Option<PublicKey>,
    /// `master_finger`; empty if not checked.
    pub master_finger: String,
    /// `hash_type`, for the fingerprint.
    pub hash: HashType,
    /// The random text that proves to us that the master holds its private key.
    pub token: KeyString,
    /// `tok` of every request, computed once.
    pub tok: OnceLock<Vec<u8>>,
}

impl SignInConfig {
    /// Proves in each request that we hold our private key (reference 6.2).
    pub fn tok(&self) -> &[u8] {
        self.tok.get_or_init(|| self.key.x931_sign(b"salt"))
    }
}

/// A master's key that we trust.
#[derive(Clone, Debug, PartialEq)]
pub struct MasterKey {
    /// The PEM text as received.
    pub pem: String,
    /// Parsed.
    pub key: PublicKey,
}

impl MasterKey {
    /// Parses a key.
    pub fn parse(pem: &str) -> Option<MasterKey> {
        let pem = clean_key(pem);
        let key = PublicKey::from_pem(&pem).ok()?;
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
        if let Some(grains) = &terms.autosign_grains {
            load.set("autosign_grains", grains.clone());
        }
        let token =
            pinned.and_then(|m| m.key.encrypt(terms.encryption, terms.token.as_bytes()).ok());
        let has_token = token.is_some();
        if let Some(token) = token {
            load.set("token", token);
        }
        load.set("pub", terms.public.as_str());
        let envelope = halite_wire::map! {"enc" => "clear", "load" => load, "version" => 3};
        Request {
            body: msgpack::encode_map(&envelope, Profile::Wire),
            nonce: nonce.to_owned(),
            has_token,
        }
    }
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
        Err(why) => Verdict::Untrusted(why.to_owned()),
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
    fn verify_answer(&self) -> Result<Verdict, &'static str> {
        if !self.inner.contains("pub_key") {
            if let Some(master) = self.pinned {
                self.check_wrapper(master)?;
            }
            self.check_nonce()?;
            return Ok(self.refusal());
        }
        let (master, pin) = self.master()?;
        self.check_wrapper(&master)?;
        self.check_nonce()?;
        let accepted = self.keys(master, pin)?;
        let finger = finger(&accepted.master.pem, self.terms.hash);
        if !self.terms.master_finger.is_empty() && finger != self.terms.master_finger {
            return Ok(Verdict::WrongFinger(finger));
        }
        Ok(Verdict::Accepted(Box::new(accepted)))
    }

    fn refusal(&self) -> Verdict {
        match self.inner.get("ret") {
            None => Verdict::Unreadable,
            Some(v) if v.is_str("full") => Verdict::Full,
            Some(v) if v.truthy() => Verdict::Pending,
            Some(_) => Verdict::Rejected,
        }
    }

    /// The master's key, and whether it must be pinned (`AsyncAuth.verify_master`).
    fn master(&self) -> Result<(MasterKey, bool), &'static str> {
        let terms = self.terms;
        let text = self.inner.str("pub_key").unwrap_or_default();
        let master = MasterKey::parse(text).ok_or("the master's public key cannot be read")?;
        match (self.inner.contains("pub_sig"), terms.verify_master_sign) {
            (true, false) => {
                return Err(
                    "the master sent a signature of its public key; set verify_master_pubkey_sign here, \
                            or turn master_sign_pubkey off there",
                );
            }
            (false, true) => {
                return Err(
                    "the master sent no signature of its public key; turn verify_master_pubkey_sign off \
                            here, or set master_sign_pubkey there",
                );
            }
            _ => {}
        }
        let known = self.pinned.is_some_and(|p| p.pem == master.pem);
        if terms.verify_master_sign && (!known || terms.always_verify) {
            self.check_master_signature(text)?;
            return Ok((master, !known));
        }
        if self.pinned.is_some() && !known {
            return Err(
                "the master's key has changed; if that is right, remove minion_master.pub from pki_dir",
            );
        }
        Ok((master, !known))
    }

    fn check_master_signature(&self, text: &str) -> Result<(), &'static str> {
        use base64::Engine;
        let signer = self.terms.signer.as_ref().ok_or(
            "the key that verifies masters (master_sign_key_name) is not in pki_dir; copy it there",
        )?;
        let packed: String = self
            .inner
            .str("pub_sig")
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let signature = base64::engine::general_purpose::STANDARD
            .decode(packed)
            .unwrap_or_default();
        if signer.verify(self.terms.signing, text.as_bytes(), &signature) {
            return Ok(());
        }
        Err("the signature of the master's public key does not match")
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
        })
    }

    fn decrypt(&self, field: &str) -> Result<Vec<u8>, &'static str> {
        self.inner
            .bytes(field)
            .and_then(|data| self.terms.key.decrypt(self.terms.encryption, data).ok())
            .ok_or("a key in the answer was not encrypted for us")
    }
}

/// A publication key, if `sig` is the master's signature of its digest (reference 3.4).
pub(super) fn signed_key(
    master: &MasterKey,
    key: &[u8],
    sig: Option<&[u8]>,
) -> Result<KeyString, &'static str> {
    let digest = sig.and_then(|sig| master.key.x931_recover(sig));
    if digest.as_deref() != Some(HashType::Sha256.hex(key).as_bytes()) {
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

/// The options that control further attempts.
#[derive(Clone, Debug)]
pub struct RetryOptions {
    /// `auth_timeout`.
    pub timeout: Duration,
    /// `auth_tries`: attempts without a reply that make a failed round.
    pub tries: u32,
    /// `auth_retries`: failed rounds allowed; 0 is no limit.
    pub retries: u32,
    /// `acceptance_wait_time`.
    pub wait: Duration,
    /// `acceptance_wait_time_max`.
    pub wait_max: Duration,
    /// `rejected_retry`.
    pub rejected_retry: bool,
    /// `random_reauth_delay`.
    pub delay: Duration,
    /// For commands, which have a user waiting: try again only if there was no reply.
    pub once: bool,
    /// `auth_safemode`: if there is no reply, wait as for a key that is not accepted yet.
    pub safemode: bool,
    /// `retry_dns`; zero is a single attempt to resolve a name.
    pub retry_dns: Duration,
    /// `retry_dns_count`: attempts after the first; `None` is no limit.
    pub retry_dns_count: Option<u32>,
    /// `master_tries`: passes through a list of masters before an error is logged; below 1 is no limit.
    pub master_tries: i32,
}

impl RetryOptions {
    /// As configured, for the daemon.
    pub fn of(config: &MinionConfig) -> RetryOptions {
        let secs = Duration::from_secs;
        RetryOptions {
            timeout: secs(config.auth_timeout.max(1)),
            tries: config.auth_tries.max(1),
            retries: config.auth_retries,
            wait: secs(config.acceptance_wait_time),
            wait_max: secs(config.acceptance_wait_time_max),
            rejected_retry: config.rejected_retry,
            delay: secs(config.random_reauth_delay),
            once: false,
            safemode: config.auth_safemode,
            retry_dns: secs(config.retry_dns),
            retry_dns_count: config.retry_dns_count,
            master_tries: config.master_tries,
        }
    }
}

/// What to do after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Use the keys.
    Done(Box<Accepted>),
    /// Try again after this wait, which the caller lengthens by a random part.
    Again(Duration),
    /// Try again after a random fraction of this.
    Scattered(Duration),
    /// Give up; the exit status is that of stock.
    Fail(ExitError),
}

/// Attempts at one sign-in. Without `auth_retries`, there is no limit on the wait for acceptance, for a slot
/// or for a master that is down.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    policy: RetryOptions,
    id: String,
    wait: Duration,
    silent: u32,
    rounds: u32,
}

impl RetryPolicy {
    /// Before the first attempt.
    pub fn new(policy: RetryOptions, id: &str) -> RetryPolicy {
        RetryPolicy {
            wait: policy.wait,
            policy,
            id: id.to_owned(),
            silent: 0,
            rounds: 0,
        }
    }

    /// The minion id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How long to wait for a reply.
    pub fn timeout(&self) -> Duration {
        self.policy.timeout
    }

    /// The next step.
    pub fn after(&mut self, verdict: Verdict) -> Step {
        let id = &self.id;
        match verdict {
            Verdict::Accepted(accepted) => Step::Done(accepted),
            Verdict::Silence => self.silence(),
            Verdict::Pending if self.policy.once => fail(
                2,
                "Minion failed to authenticate with the master, has the minion key been accepted?"
                    .into(),
            ),
            Verdict::Pending => {
                log::warn!(
                    "the master keeps the key of {id} until somebody accepts it (`halite-key -a {id}` or `salt-key -a {id}` there)"
                );
                self.grown()
            }
            Verdict::Rejected if self.policy.rejected_retry && !self.policy.once => {
                log::error!(
                    "the master has rejected the key of {id}; `halite-key -d {id}` or `salt-key -d {id}` there lets it in again"
                );
                self.grown()
            }
            Verdict::Rejected => fail(
                EXIT_REJECTED,
                format!(
                    "the master has rejected the key of {id}, or has another key under that name; delete that key on \
                     the master (`halite-key -d {id}` or `salt-key -d {id}`) and start this minion again"
                ),
            ),
            Verdict::Full if self.policy.once => fail(
                1,
                "the master has as many minions as max_minions allows".into(),
            ),
            Verdict::Full => {
                log::error!("the master has as many minions as its option max_minions allows");
                self.again(self.policy.delay.max(self.policy.wait))
            }
            Verdict::BadAlgorithm(option) => fail(
                1,
                format!(
                    "the master does not support the algorithm in the option {option}; choose one that it supports"
                ),
            ),
            Verdict::WrongFinger(finger) => fail(
                EXIT_FINGER,
                format!(
                    "the master's key has the fingerprint {finger} and not the one in the option master_finger: either \
                     the option is out of date or this is not your master"
                ),
            ),
            Verdict::Untrusted(why) => self.untrusted(&why),
            Verdict::Unreadable => self.untrusted("the reply is not a reply to a sign-in"),
        }
    }

    /// Stock gives up the attempt and restarts the whole minion after `random_reauth_delay`.
    fn untrusted(&mut self, why: &str) -> Step {
        let message = format!(
            "the reply to the sign-in of {} is not acceptable: {why}",
            self.id
        );
        if self.policy.once {
            return fail(1, message);
        }
        log::error!("{message}");
        self.again(self.policy.delay.max(Duration::from_secs(1)))
    }

    fn silence(&mut self) -> Step {
        self.silent += 1;
        if self.silent < self.policy.tries {
            if self.policy.once {
                return Step::Again(Duration::ZERO);
            }
            // A short delay at first, in case the master was only slow; then spread out more and more, in case many
            // minions ask at once.
            let bound = Duration::from_secs(1 << (self.silent - 1).min(16));
            return Step::Scattered(self.policy.delay.min(bound));
        }
        self.silent = 0;
        let message = "Attempt to authenticate with the salt master failed with timeout error";
        if self.policy.once {
            return fail(1, message.into());
        }
        log::error!("{message}; the minion will keep trying");
        if self.policy.safemode {
            return self.grown();
        }
        self.again(self.policy.delay)
    }

    /// A wait for the operator; it grows with each call up to `acceptance_wait_time_max`.
    fn grown(&mut self) -> Step {
        let wait = self.wait;
        let step = self.again(wait);
        if self.wait < self.policy.wait_max {
            self.wait = (self.wait + self.wait).min(self.policy.wait_max);
        }
        step
    }

    fn again(&mut self, wait: Duration) -> Step {
        self.silent = 0;
        self.rounds += 1;
        if self.policy.retries > 0 && self.rounds >= self.policy.retries {
            return fail(
                1,
                format!(
                    "Failed to authenticate with the master after {} attempts",
                    self.rounds
                ),
            );
        }
        Step::Again(wait)
    }
}

fn fail(status: i32, message: String) -> Step {
    Step::Fail(ExitError::new(status, message))
}

#[cfg(test)]
mod tests;
