//! Sign-in, the minion's side: what to ask, what to believe of the answer, what to do next.
//!
//! No IO. [`Request::new`] makes the request, [`verify`] weighs the answer
//! (`salt/crypt.py AsyncAuth.minion_sign_in_payload`, `handle_signin_response`; reference
//! `salt-protocol.md` 3), [`RetryPolicy`] decides whether and when to ask again.
//!
//! Unlike stock, a master's key is pinned only after everything else in the answer has
//! been found right: a refused answer leaves no trace.

use halite_config::MinionConfig;
use halite_crypto::{
    Encryption, HashType, KeyString, PrivateKey, PublicKey, Signing, clean_key, constant_time_eq,
    finger,
};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

/// Exit status when the master rejected the key (`EX_NOPERM`).
pub const EXIT_REJECTED: i32 = 77;
/// Exit status when the master's key has another fingerprint than `master_finger`.
pub const EXIT_FINGER: i32 = 42;

/// What a minion knows and wants when it signs in.
pub struct SignInConfig {
    /// The minion id.
    pub id: String,
    /// Its key pair.
    pub key: PrivateKey,
    /// Its public key as it travels.
    pub public: String,
    /// `encryption_algorithm`.
    pub encryption: Encryption,
    /// `signing_algorithm`.
    pub signing: Signing,
    /// Grains by which the master may accept the key; none if the option is not set.
    pub autosign_grains: Option<Map>,
    /// `verify_master_pubkey_sign`.
    pub verify_master_sign: bool,
    /// `always_verify_signature`.
    pub always_verify: bool,
    /// The key that signs masters' keys, if there is one.
    pub signer: Option<PublicKey>,
    /// `master_finger`; empty asks for none.
    pub master_finger: String,
    /// `hash_type`, for the fingerprint.
    pub hash: HashType,
    /// The random text that proves to us that the master holds its private key.
    pub token: KeyString,
    /// `tok` of every request, made once.
    pub tok: OnceLock<Vec<u8>>,
}

impl SignInConfig {
    /// What proves in each request that we hold our private key (reference 6.2).
    pub fn tok(&self) -> &[u8] {
        self.tok.get_or_init(|| self.key.x931_sign(b"salt"))
    }
}

/// A master's key that we trust.
#[derive(Clone, Debug, PartialEq)]
pub struct MasterKey {
    /// As it travels.
    pub pem: String,
    /// Parsed.
    pub key: PublicKey,
}

impl MasterKey {
    /// Reads a key text.
    pub fn parse(pem: &str) -> Option<MasterKey> {
        let pem = clean_key(pem);
        let key = PublicKey::from_pem(&pem).ok()?;
        Some(MasterKey { pem, key })
    }
}

/// A sign-in request under way.
pub struct Request {
    /// The message.
    pub body: Vec<u8>,
    nonce: String,
    has_token: bool,
}

impl Request {
    /// Makes the request; a token goes along if a master's key is pinned.
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

/// What a successful sign-in gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// Key of publications.
    pub aes: KeyString,
    /// Key of our requests.
    pub session: KeyString,
    /// Where publications come from.
    pub publish_port: u16,
    /// The master's key.
    pub master: MasterKey,
    /// Whether that key has to be written down: it is new or replaces another one.
    pub pin: bool,
    /// Whether the master gives new keys of publications under the session key (`_aes_keys`, halite's only).
    pub rekeys: bool,
}

/// What an answer means.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Signed in.
    Accepted(Box<Accepted>),
    /// The key waits for the operator.
    Pending,
    /// The key is rejected, denied, or the id is not valid.
    Rejected,
    /// The master has as many minions as it may have.
    Full,
    /// The master knows our algorithms not; which option names the culprit.
    BadAlgorithm(&'static str),
    /// The master's key has not the fingerprint asked for; the one it has.
    WrongFinger(String),
    /// The answer cannot come from the master that we trust.
    Untrusted(String),
    /// Not an answer to a sign-in.
    Unreadable,
    /// No answer came in time.
    Silence,
}

/// Weighs an answer, in the order of reference 3.5.
pub fn verify(
    terms: &SignInConfig,
    pinned: Option<&MasterKey>,
    request: &Request,
    answer: &[u8],
) -> Verdict {
    let Ok(Value::Map(outer)) = msgpack::decode(answer) else {
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
    let Ok(Value::Map(inner)) = msgpack::decode(load) else {
        return Verdict::Unreadable;
    };
    let answer = Answer {
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

struct Answer<'a> {
    terms: &'a SignInConfig,
    pinned: Option<&'a MasterKey>,
    request: &'a Request,
    load: &'a [u8],
    sig: &'a [u8],
    inner: &'a Map,
}

impl Answer<'_> {
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

    /// The master's key, and whether it is news (`AsyncAuth.verify_master`).
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
        Err("the signature of the master's public key does not fit")
    }

    fn check_wrapper(&self, master: &MasterKey) -> Result<(), &'static str> {
        if master.key.verify(self.terms.signing, self.load, self.sig) {
            return Ok(());
        }
        Err(
            "the signature of the answer does not fit the master's key; if the master was set up anew, remove \
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
        // A master whose key we did not know when we asked cannot have read our token.
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

/// A key of publications, if `sig` is the master's signature of its digest (reference 3.4).
pub(super) fn signed_key(
    master: &MasterKey,
    key: &[u8],
    sig: Option<&[u8]>,
) -> Result<KeyString, &'static str> {
    let digest = sig.and_then(|sig| master.key.x931_recover(sig));
    if digest.as_deref() != Some(HashType::Sha256.hex(key).as_bytes()) {
        return Err("the master's signature of its AES key does not fit");
    }
    key_string(key)
}

fn key_string(bytes: &[u8]) -> Result<KeyString, &'static str> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| KeyString::from_text(text).ok())
        .ok_or("a key in the answer is no key")
}

/// The options that decide about further attempts.
#[derive(Clone, Debug)]
pub struct Policy {
    /// `auth_timeout`.
    pub timeout: Duration,
    /// `auth_tries`: attempts without an answer that make a failed round.
    pub tries: u32,
    /// `auth_retries`: rounds that may end without sign-in; 0 is no limit.
    pub retries: u32,
    /// `acceptance_wait_time`.
    pub wait: Duration,
    /// `acceptance_wait_time_max`.
    pub wait_max: Duration,
    /// `rejected_retry`.
    pub rejected_retry: bool,
    /// `random_reauth_delay`.
    pub delay: Duration,
    /// A command that somebody waits for: nothing but silence is asked again.
    pub once: bool,
    /// `auth_safemode`: silence is waited out like a key that is not accepted yet.
    pub safemode: bool,
    /// `retry_dns`; zero is a single attempt to resolve a name.
    pub retry_dns: Duration,
    /// `retry_dns_count`: attempts after the first; `None` is no limit.
    pub retry_dns_count: Option<u32>,
    /// `master_tries`: passes through a list of masters before an error is logged; below 1 is no limit.
    pub master_tries: i32,
}

impl Policy {
    /// As configured, for the daemon.
    pub fn of(config: &MinionConfig) -> Policy {
        let secs = Duration::from_secs;
        Policy {
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
    /// Ask again after this wait, which the caller stretches by chance.
    Again(Duration),
    /// Ask again after a random share of this.
    Scattered(Duration),
    /// Give up.
    Fail(Failure),
}

/// Why there is no sign-in.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Exit status that stock has for it.
    pub status: i32,
    /// What happened and what helps.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Attempts at one sign-in. Waiting for acceptance, for a slot or for a master that is
/// down never ends by itself unless `auth_retries` says so.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    policy: Policy,
    id: String,
    wait: Duration,
    silent: u32,
    rounds: u32,
}

impl RetryPolicy {
    /// Before the first attempt.
    pub fn new(policy: Policy, id: &str) -> RetryPolicy {
        RetryPolicy {
            wait: policy.wait,
            policy,
            id: id.to_owned(),
            silent: 0,
            rounds: 0,
        }
    }

    /// Whose sign-in it is.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How long to wait for an answer.
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
                    "the master does not know the algorithm in the option {option}; choose one that it knows"
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
            Verdict::Unreadable => self.untrusted("the answer is not one to a sign-in"),
        }
    }

    /// Stock ends the attempt and starts the whole minion again after `random_reauth_delay`.
    fn untrusted(&mut self, why: &str) -> Step {
        let message = format!(
            "the sign-in of {} was not answered as it should be: {why}",
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
            // Soon at first, for a master that was only slow; ever more spread, for one that many ask in step.
            let bound = Duration::from_secs(1 << (self.silent - 1).min(16));
            return Step::Scattered(self.policy.delay.min(bound));
        }
        self.silent = 0;
        let message = "Attempt to authenticate with the salt master failed with timeout error";
        if self.policy.once {
            return fail(1, message.into());
        }
        log::error!("{message}; the minion goes on trying");
        if self.policy.safemode {
            return self.grown();
        }
        self.again(self.policy.delay)
    }

    /// A wait for the operator; it grows by itself up to `acceptance_wait_time_max`.
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
    Step::Fail(Failure { status, message })
}

#[cfg(test)]
mod tests;
