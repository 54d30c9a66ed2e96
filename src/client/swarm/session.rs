//! Sign-in and encrypted messages of a simulated minion: bytes in, bytes out, no IO.
//!
//! The checks are those of real minions ([`halite_channel::signin`] and [`reply`]). Publications are decrypted here, since one
//! decryption serves all minions of a thread; signatures are verified if present (reference `salt-protocol.md`
//! 5.1).

use halite_channel::reply::{self, ReplyError};
use halite_channel::request;
use halite_channel::signin::{
    Exchange, KeptSessions, Known, MasterKey, NextStep, NoiseIdentity, SeenMasters, SignInConfig,
    Verdict,
};
use halite_crypto::noise::{StaticKey, StaticPublic};
use halite_crypto::{
    CipherKind, Crypticle, CrypticleError, Encryption, HashType, IdentityKey, KeyString,
    SessionCipher, Signing, clean_key, nonce,
};
use halite_sys::time::unix_now_i64;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fmt;
use std::sync::Arc;

const ENCRYPTION: Encryption = Encryption::OaepSha1;
const SIGNING: Signing = Signing::Pkcs1v15Sha1;

/// A key pair, prepared for many minions.
#[derive(Clone)]
pub struct MinionKeys {
    private: IdentityKey,
    public: String,
    token: Vec<u8>,
    noise: Option<NoiseIdentity>,
}

impl MinionKeys {
    /// Prepares a pair.
    pub fn new(private: impl Into<IdentityKey>) -> MinionKeys {
        let private = private.into();
        MinionKeys {
            public: clean_key(&private.public().to_pem()),
            token: private.tok(),
            private,
            noise: None,
        }
    }

    /// Signs in as halite's minions do, at a halite master.
    pub fn with_noise(self) -> MinionKeys {
        let noise = NoiseIdentity::new(StaticKey::generate());
        MinionKeys {
            noise: Some(noise),
            ..self
        }
    }

    /// The public key in its wire format.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// `tok` in every request (reference 6.2).
    pub fn token(&self) -> &[u8] {
        &self.token
    }

    /// The sign-in of a minion with default options.
    fn terms(&self, id: &str) -> SignInConfig {
        SignInConfig {
            id: id.to_owned(),
            key: self.private.clone(),
            public: self.public.clone(),
            encryption: ENCRYPTION,
            signing: SIGNING,
            autosign_grains: None,
            verify_master_sign: false,
            always_verify: false,
            signer: None,
            master_finger: String::new(),
            hash: HashType::Sha256,
            token: KeyString::generate(),
            tok: self.token.clone().into(),
            noise: self.noise.clone(),
            noise_only: self.noise.is_some(),
        }
    }
}

/// Why a message of the master is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// The key is waiting for acceptance.
    Pending,
    /// The master refuses this minion.
    Rejected,
    /// The master is full.
    Full,
    /// Encrypted for another session: sign in again.
    SignInAgain,
    /// Wrong in another way.
    Wrong(String),
}

impl SessionError {
    pub(super) fn wrong<T>(why: impl Into<String>) -> Result<T, SessionError> {
        Err(SessionError::Wrong(why.into()))
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            SessionError::Pending => f.write_str("key not accepted yet"),
            SessionError::Rejected => f.write_str("sign-in refused"),
            SessionError::Full => f.write_str("the master is full"),
            SessionError::SignInAgain => f.write_str("the master wants a new sign-in"),
            SessionError::Wrong(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<ReplyError> for SessionError {
    fn from(error: ReplyError) -> SessionError {
        if error.wants_sign_in() {
            SessionError::SignInAgain
        } else {
            SessionError::Wrong(error.to_string())
        }
    }
}

/// A sign-in in progress.
pub struct SignIn {
    terms: SignInConfig,
    exchange: Exchange,
    seen: SeenMasters,
    kept: KeptSessions,
}

/// What follows a reply to a sign-in.
pub enum SignInStep {
    /// Send this and wait for the reply.
    Send(Box<SignIn>, Vec<u8>),
    /// It is over.
    Done(Box<Session>),
}

impl SignIn {
    /// Starts a sign-in; also returns the request. `pinned` is the key of a master that the minion has met
    /// before, `seen` its static key.
    pub fn begin(
        id: &str,
        keys: &MinionKeys,
        pinned: Option<&MasterKey>,
        seen: Option<&StaticPublic>,
    ) -> (SignIn, Vec<u8>) {
        SignIn::start(keys.terms(id), pinned, seen, None)
    }

    /// Starts as a minion does after its restart, which still has its session if it was one of the handshake.
    pub fn again(id: &str, keys: &MinionKeys, before: &Session) -> (SignIn, Vec<u8>) {
        let seen = before.noise.as_ref();
        let kept = seen.map(|_| &before.session_text);
        SignIn::start(keys.terms(id), Some(&before.master), seen, kept)
    }

    fn start(
        terms: SignInConfig,
        pinned: Option<&MasterKey>,
        key: Option<&StaticPublic>,
        session: Option<&KeyString>,
    ) -> (SignIn, Vec<u8>) {
        let (mut seen, mut kept) = (SeenMasters::default(), KeptSessions::default());
        if let (Some(master), Some(key)) = (pinned, key) {
            seen.add(master, key);
        }
        if let (Some(master), Some(session)) = (pinned, session) {
            kept.add(master, session);
        }
        let known = Known {
            pinned,
            seen: &seen,
            sessions: &kept,
        };
        let (exchange, body) = Exchange::begin(&terms, known, &nonce(), unix_now_i64());
        let sign_in = SignIn {
            terms,
            exchange,
            seen,
            kept,
        };
        (sign_in, body)
    }

    /// Takes the reply to the only request of a sign-in as Salt's.
    ///
    /// # Errors
    /// As [`SignIn::step`].
    pub fn finish(
        self,
        pinned: Option<&Arc<MasterKey>>,
        reply: &[u8],
    ) -> Result<Session, SessionError> {
        match self.step(pinned, reply)? {
            SignInStep::Done(session) => Ok(*session),
            SignInStep::Send(..) => SessionError::wrong("the sign-in goes on"),
        }
    }

    /// Verifies the reply.
    ///
    /// # Errors
    /// The master refuses, or the reply fails the checks.
    pub fn step(
        self,
        pinned: Option<&Arc<MasterKey>>,
        reply: &[u8],
    ) -> Result<SignInStep, SessionError> {
        let SignIn {
            terms,
            exchange,
            seen,
            kept,
        } = self;
        let known = Known {
            pinned: pinned.map(Arc::as_ref),
            seen: &seen,
            sessions: &kept,
        };
        let verdict = match exchange.step(&terms, known, reply) {
            NextStep::Send(exchange, body) => {
                let next = SignIn {
                    terms,
                    exchange,
                    seen,
                    kept,
                };
                return Ok(SignInStep::Send(Box::new(next), body));
            }
            NextStep::Done(verdict) => verdict,
        };
        match verdict {
            Verdict::Accepted(accepted) => Ok(SignInStep::Done(Box::new(Session {
                publish_port: accepted.publish_port,
                aes: Crypticle::new(&accepted.aes),
                aes_text: accepted.aes,
                session: SessionCipher::new(accepted.cipher, &accepted.session),
                session_text: accepted.session,
                serial: 0,
                noise: accepted.noise,
                master: match pinned {
                    Some(pinned) => pinned.clone(),
                    None => Arc::new(accepted.master),
                },
            }))),
            Verdict::Pending => Err(SessionError::Pending),
            Verdict::Rejected => Err(SessionError::Rejected),
            Verdict::Full => Err(SessionError::Full),
            Verdict::Untrusted(why) => SessionError::wrong(format!("sign-in: {why}")),
            Verdict::BadAlgorithm(option) => SessionError::wrong(format!(
                "the master does not support the {option}, or its key is Ed25519 (--noise)"
            )),
            Verdict::Unreadable | Verdict::Silence | Verdict::WrongFinger(_) => {
                SessionError::wrong("the reply to a sign-in cannot be read")
            }
        }
    }
}

impl Session {
    /// Says who a minion is, on a publish port that wants to know.
    pub fn claim(&self, id: &str, keys: &MinionKeys) -> Vec<u8> {
        request::claim(id, keys.token(), &self.aes)
    }
}

/// The result of a sign-in.
pub struct Session {
    /// The master's key, to be pinned.
    pub master: Arc<MasterKey>,
    /// Port for publications.
    pub publish_port: u16,
    aes: Crypticle,
    aes_text: KeyString,
    session: SessionCipher,
    session_text: KeyString,
    /// The master's static key, if it was used.
    pub noise: Option<StaticPublic>,
    serial: i64,
}

/// Fields of a request in wire format, encoded once for any number of minions and attempts, without those added
/// by the channel (`nonce`, `ts`, `tok`, `id`).
#[derive(Debug)]
pub struct Load {
    fields: Vec<u8>,
    count: usize,
}

impl Load {
    /// Encodes a map.
    pub fn new(map: &Map) -> Load {
        let mut fields = Vec::new();
        for (key, value) in map.iter() {
            msgpack::encode_into(&mut fields, key, Profile::Wire);
            msgpack::encode_into(&mut fields, value, Profile::Wire);
        }
        Load {
            fields,
            count: map.len(),
        }
    }
}

/// A publication that was decrypted and checked.
pub struct Publication {
    /// The job.
    pub load: Map,
    serial: i64,
}

impl Session {
    /// Encrypts a request of `id` with the fields added by the channel; also returns the nonce of the reply.
    pub fn seal(&self, id: &str, keys: &MinionKeys, load: &Map) -> (Vec<u8>, String) {
        let mut load = load.clone();
        for added in ["nonce", "ts", "tok", "id"] {
            load.remove(added);
        }
        self.seal_load(id, keys, &Load::new(&load))
    }

    /// Like [`Self::seal`], for encoded fields.
    pub fn seal_load(&self, id: &str, keys: &MinionKeys, load: &Load) -> (Vec<u8>, String) {
        let nonce = nonce();
        let mut document = Vec::with_capacity(load.fields.len() + id.len() + 350);
        msgpack::put_map_header(&mut document, load.count + 4);
        document.extend_from_slice(&load.fields);
        let mut field = |name: &str, value: &[u8]| {
            msgpack::put_str(&mut document, name.as_bytes(), Profile::Wire);
            msgpack::put_str(&mut document, value, Profile::Wire);
        };
        field("nonce", nonce.as_bytes());
        field("tok", &keys.token);
        field("id", id.as_bytes());
        msgpack::put_str(&mut document, b"ts", Profile::Wire);
        msgpack::encode_into(&mut document, &Value::Int(unix_now_i64()), Profile::Wire);
        (self.seal_bytes(id, &document), nonce)
    }

    /// Encrypts a load as it is, for tests of what a master refuses.
    pub fn seal_raw(&self, id: &str, load: &Map) -> Vec<u8> {
        self.seal_bytes(id, &msgpack::encode_map(load, Profile::Wire))
    }

    /// Like [`Self::seal_raw`], for any bytes.
    pub fn seal_bytes(&self, id: &str, load: &[u8]) -> Vec<u8> {
        reply::envelope(&self.session, id, ENCRYPTION, SIGNING, load)
    }

    /// Decrypts the reply to the request with this nonce.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn open(&self, nonce: &str, reply: &[u8]) -> Result<Value, SessionError> {
        Ok(reply::open(&self.session, reply, nonce)?)
    }

    /// Decrypts the reply to the `_pillar` request with this nonce.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn open_pillar(
        &self,
        keys: &MinionKeys,
        nonce: &str,
        reply: &[u8],
    ) -> Result<Map, SessionError> {
        if self.session.kind() == CipherKind::Gcm {
            return Ok(reply::pillar_of(self.open(nonce, reply)?)?);
        }
        let master = &self.master.key;
        Ok(reply::open_pillar(
            &keys.private,
            ENCRYPTION,
            SIGNING,
            master,
            reply,
            nonce,
        )?)
    }

    /// Decrypts a publication and verifies its signature, if it has one.
    pub fn publication(&self, bytes: &[u8]) -> Result<Publication, SessionError> {
        let Some(wrapper) = map_of(bytes) else {
            return SessionError::wrong("a publication is not a map");
        };
        if wrapper.str("enc") != Some("aes") {
            return SessionError::wrong("a publication is not encrypted");
        }
        let Some(load) = wrapper.bytes("load") else {
            return SessionError::wrong("a publication has no load");
        };
        if let Some(sig) = wrapper.bytes("sig") {
            let algorithm = wrapper
                .str("sig_algo")
                .and_then(|a| a.parse::<Signing>().ok());
            if !algorithm.is_some_and(|a| self.master.key.verify(a, load, sig)) {
                return SessionError::wrong("the signature of a publication does not match");
            }
        }
        match self.aes.loads(load, None) {
            Ok(Value::Map(mut load)) => match load.remove("serial").and_then(|s| s.as_int()) {
                Some(serial) => Ok(Publication { load, serial }),
                None => SessionError::wrong("a publication has no serial"),
            },
            Ok(_) => SessionError::wrong("the load of a publication is not a map"),
            Err(CrypticleError::Authentication) => Err(SessionError::SignInAgain),
            Err(_) => SessionError::wrong("a publication cannot be read"),
        }
    }

    /// Whether a publication is newer than all before it under this key; if so, its serial is stored.
    pub fn take_serial(&mut self, publication: &Publication) -> bool {
        let newer = publication.serial > self.serial;
        if newer {
            self.serial = publication.serial;
        }
        newer
    }

    /// Whether both have the same key for publications.
    pub fn same_key(&self, other: &Session) -> bool {
        self.aes_text.as_str() == other.aes_text.as_str()
    }

    /// Continues with the serial of an earlier session under the same key.
    pub fn follow(&mut self, earlier: &Session) {
        if self.same_key(earlier) {
            self.serial = earlier.serial;
        }
    }

    /// The key of publications, for sharing decrypted publications between minions of one master.
    pub fn key_text(&self) -> &str {
        self.aes_text.as_str()
    }
}

fn map_of(bytes: &[u8]) -> Option<Map> {
    msgpack::decode(bytes).ok().and_then(Value::into_map)
}
