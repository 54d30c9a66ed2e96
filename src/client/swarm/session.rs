//! Sign-in and sealed messages as a minion does them: bytes in, bytes out, no IO.
//!
//! Every check that stock minions make stands here (`salt/crypt.py AsyncAuth`, reference
//! `salt-protocol.md` 3.5, 4.2, 5.1); what a stock minion leaves to options is always on.

use halite_crypto::{
    Crypticle, Encryption, HashType, KeyString, PrivateKey, PublicKey, Signing, clean_key, nonce,
};
use halite_sys::time::unix_now_i64;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// A key pair as minions hold it, prepared for many of them.
#[derive(Clone)]
pub struct MinionKeys {
    private: PrivateKey,
    public: String,
    token: Vec<u8>,
}

impl MinionKeys {
    /// Prepares a pair.
    pub fn new(private: PrivateKey) -> MinionKeys {
        MinionKeys {
            public: clean_key(&private.public().to_pem()),
            token: private.x931_sign(b"salt"),
            private,
        }
    }

    /// The public key in the form in which it travels.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// `tok` of every request (reference 6.2).
    pub fn token(&self) -> &[u8] {
        &self.token
    }
}

/// The master's public key.
#[derive(Clone)]
pub struct Master {
    /// Clean text; what a minion pins.
    pub text: Arc<str>,
    key: PublicKey,
}

impl Master {
    /// Reads a key in clean or file form.
    pub fn new(text: &str) -> Result<Master, Fault> {
        let key = PublicKey::from_pem(text)
            .map_err(|_| Fault::Wrong("the master's key cannot be read"))?;
        Ok(Master {
            text: clean_key(text).into(),
            key,
        })
    }
}

/// Why a reply is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The key waits for acceptance.
    Pending,
    /// The master refuses this minion: `ret: false`.
    Rejected,
    /// The master is full.
    Full,
    /// The reply was not made for this session: time to sign in again.
    SignInAgain,
    /// The reply is wrong.
    Wrong(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fault::Pending => f.write_str("key not accepted yet"),
            Fault::Rejected => f.write_str("sign-in refused"),
            Fault::Full => f.write_str("the master is full"),
            Fault::SignInAgain => f.write_str("the master wants a new sign-in"),
            Fault::Wrong(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Fault {}

/// A sign-in under way.
pub struct SignIn {
    nonce: String,
    token: Option<KeyString>,
}

impl SignIn {
    /// The request, and what is needed to judge the reply. With a pinned master the request
    /// carries a token, as that of a minion that has met its master before.
    pub fn begin(
        id: &str,
        keys: &MinionKeys,
        pinned: Option<&Master>,
    ) -> Result<(SignIn, Vec<u8>), Fault> {
        let sign_in = SignIn {
            nonce: nonce(),
            token: pinned.map(|_| KeyString::generate()),
        };
        let mut load = halite_wire::map! {
            "cmd" => "_auth", "id" => id, "nonce" => sign_in.nonce.as_str(),
            "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1",
        };
        if let (Some(master), Some(token)) = (pinned, &sign_in.token) {
            let sealed = master
                .key
                .encrypt(Encryption::OaepSha1, token.as_bytes())
                .map_err(|_| Fault::Wrong("the token cannot be encrypted"))?;
            load.set("token", sealed);
        }
        load.set("pub", keys.public.as_str());
        let envelope = halite_wire::map! {"enc" => "clear", "load" => load, "version" => 3};
        Ok((sign_in, msgpack::encode_map(&envelope, Profile::Wire)))
    }

    /// Judges the reply.
    pub fn finish(
        &self,
        keys: &MinionKeys,
        pinned: Option<&Master>,
        reply: &[u8],
    ) -> Result<Session, Fault> {
        let wrapper = map_of(reply).ok_or(Fault::Wrong("the sign-in reply is no map"))?;
        if let Some(Value::Map(clear)) = wrapper.get("load") {
            return Err(match clear.get("ret") {
                Some(Value::Bool(false)) => Fault::Rejected,
                _ => Fault::Wrong("the sign-in reply is not signed"),
            });
        }
        let raw = wrapper
            .bytes("load")
            .ok_or(Fault::Wrong("the sign-in reply has no load"))?;
        let inner = map_of(raw).ok_or(Fault::Wrong(
            "the signed part of the sign-in reply is no map",
        ))?;
        if inner.str("nonce") != Some(self.nonce.as_str()) {
            return Err(Fault::Wrong("the sign-in reply has another nonce"));
        }
        let sig = wrapper
            .bytes("sig")
            .ok_or(Fault::Wrong("the sign-in reply has no signature"))?;
        let Some(pub_key) = inner.str("pub_key") else {
            if pinned.is_some_and(|m| !m.key.verify(Signing::Pkcs1v15Sha1, raw, sig)) {
                return Err(Fault::Wrong(
                    "the signature of the sign-in reply does not fit",
                ));
            }
            return Err(match inner.get("ret") {
                Some(Value::Bool(true)) => Fault::Pending,
                Some(Value::Bool(false)) => Fault::Rejected,
                Some(Value::Str(s)) if s == "full" => Fault::Full,
                _ => Fault::Wrong("the sign-in reply says neither yes nor no"),
            });
        };
        let master = match pinned {
            Some(pinned) if *pinned.text == *pub_key => pinned.clone(),
            Some(_) => return Err(Fault::Wrong("the master's key has changed")),
            None => Master::new(pub_key)?,
        };
        if !master.key.verify(Signing::Pkcs1v15Sha1, raw, sig) {
            return Err(Fault::Wrong(
                "the signature of the sign-in reply does not fit",
            ));
        }
        self.unseal(keys, master, &inner)
    }

    fn unseal(&self, keys: &MinionKeys, master: Master, inner: &Map) -> Result<Session, Fault> {
        let open = |name: &str| {
            inner
                .bytes(name)
                .and_then(|b| keys.private.decrypt(Encryption::OaepSha1, b).ok())
        };
        let text = |name: &str| {
            let text = String::from_utf8(open(name)?).ok()?;
            KeyString::from_text(&text).ok()
        };
        if let Some(token) = &self.token
            && open("token").as_deref() != Some(token.as_bytes())
        {
            return Err(Fault::Wrong("the token of the sign-in reply does not fit"));
        }
        let aes = text("aes").ok_or(Fault::Wrong(
            "the AES key of the sign-in reply cannot be read",
        ))?;
        let session = text("session").ok_or(Fault::Wrong(
            "the session key of the sign-in reply cannot be read",
        ))?;
        let digest = HashType::Sha256.hex(aes.as_bytes());
        let signed = inner
            .bytes("sig")
            .and_then(|sig| master.key.x931_recover(sig));
        if signed.as_deref() != Some(digest.as_bytes()) {
            return Err(Fault::Wrong("the signature of the AES key does not fit"));
        }
        let port = inner
            .int("publish_port")
            .and_then(|p| u16::try_from(p).ok());
        Ok(Session {
            master,
            publish_port: port.ok_or(Fault::Wrong("the sign-in reply has no publish_port"))?,
            aes: Crypticle::new(&aes),
            aes_text: aes,
            session: Crypticle::new(&session),
            serial: 0,
        })
    }
}

/// What a sign-in has brought.
pub struct Session {
    /// The master, to be pinned.
    pub master: Master,
    /// Where publications come from.
    pub publish_port: u16,
    aes: Crypticle,
    aes_text: KeyString,
    session: Crypticle,
    serial: i64,
}

/// Fields of a request as they travel, encoded once for any number of minions and attempts.
/// What the channel adds (`nonce`, `ts`, `tok`, `id`) is not among them.
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

/// A publication that has been opened and checked.
pub struct Publication {
    /// The job.
    pub load: Map,
    serial: i64,
}

impl Session {
    /// Seals a request of `id`; adds what the channel adds. Gives the nonce to expect.
    pub fn seal(&self, id: &str, keys: &MinionKeys, load: &Map) -> (Vec<u8>, String) {
        let nonce = nonce();
        let mut load = load.clone();
        load.set("nonce", nonce.as_str());
        load.set("ts", unix_now_i64());
        load.set("tok", keys.token.clone());
        load.set("id", id);
        (self.seal_raw(id, &load), nonce)
    }

    /// As [`Self::seal`] for fields that are encoded already.
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

    /// Seals a load as it stands, for tests of what a master refuses.
    pub fn seal_raw(&self, id: &str, load: &Map) -> Vec<u8> {
        self.seal_bytes(id, &msgpack::encode_map(load, Profile::Wire))
    }

    /// As [`Self::seal_raw`] for any bytes.
    pub fn seal_bytes(&self, id: &str, load: &[u8]) -> Vec<u8> {
        let envelope = halite_wire::map! {
            "enc" => "aes", "load" => self.session.dumps_raw(load, None), "version" => 3, "id" => id,
            "enc_algo" => "OAEP-SHA1", "sig_algo" => "PKCS1v15-SHA1",
        };
        msgpack::encode_map(&envelope, Profile::Wire)
    }

    /// Opens the reply to a request with that nonce.
    pub fn open(&self, nonce: &str, reply: &[u8]) -> Result<Value, Fault> {
        let sealed = msgpack::decode(reply).map_err(|_| Fault::Wrong("the reply is no msgpack"))?;
        let sealed = sealed.as_bytes().ok_or(Fault::SignInAgain)?;
        match self.session.loads(sealed, Some(nonce)) {
            Ok(value) => Ok(value),
            Err(halite_crypto::CrypticleError::Nonce) => {
                Err(Fault::Wrong("the reply has another nonce"))
            }
            Err(halite_crypto::CrypticleError::Authentication) => Err(Fault::SignInAgain),
            Err(_) => Err(Fault::Wrong("the reply cannot be read")),
        }
    }

    /// Opens the reply to a request of `_pillar` with that nonce, which is sealed under a key of its own and signed
    /// (reference 6.4). Anything that does not carry such a key asks for a new sign-in.
    pub fn open_pillar(&self, keys: &MinionKeys, nonce: &str, reply: &[u8]) -> Result<Map, Fault> {
        let outer = msgpack::decode(reply).map_err(|_| Fault::Wrong("the reply is no msgpack"))?;
        let outer = outer.into_map().ok_or(Fault::SignInAgain)?;
        let (Some(wrapped), Some(sealed)) = (outer.bytes("key"), outer.bytes("pillar")) else {
            return Err(Fault::SignInAgain);
        };
        let key = keys.private.decrypt(Encryption::OaepSha1, wrapped);
        let key = key
            .ok()
            .and_then(|key| String::from_utf8(key).ok())
            .and_then(|text| KeyString::from_text(&text).ok())
            .ok_or(Fault::Wrong("the key of the pillar cannot be read"))?;
        let inner = match Crypticle::new(&key).loads(sealed, None) {
            Ok(Value::Map(inner)) => inner,
            _ => return Err(Fault::Wrong("the pillar cannot be opened")),
        };
        let (Some(data), Some(sig)) = (inner.bytes("data"), inner.bytes("sig")) else {
            return Err(Fault::Wrong("the pillar is not signed"));
        };
        if !self.master.key.verify(Signing::Pkcs1v15Sha1, data, sig) {
            return Err(Fault::Wrong("the signature of the pillar does not fit"));
        }
        let mut data = map_of(data).ok_or(Fault::Wrong("what was signed is no map"))?;
        if data.bytes("key") != Some(wrapped) {
            return Err(Fault::Wrong("the pillar was signed with another key"));
        }
        if data.str("nonce") != Some(nonce) {
            return Err(Fault::Wrong("the pillar answers another request"));
        }
        match data.remove("pillar") {
            Some(Value::Map(pillar)) => Ok(pillar),
            _ => Err(Fault::Wrong("the pillar is no map")),
        }
    }

    /// Opens a publication and checks its signature, if it has one.
    pub fn publication(&self, bytes: &[u8]) -> Result<Publication, Fault> {
        let wrapper = map_of(bytes).ok_or(Fault::Wrong("a publication is no map"))?;
        if wrapper.str("enc") != Some("aes") {
            return Err(Fault::Wrong("a publication is not encrypted"));
        }
        let load = wrapper
            .bytes("load")
            .ok_or(Fault::Wrong("a publication has no load"))?;
        if let Some(sig) = wrapper.bytes("sig") {
            let algorithm = wrapper
                .str("sig_algo")
                .and_then(|a| a.parse::<Signing>().ok());
            if !algorithm.is_some_and(|a| self.master.key.verify(a, load, sig)) {
                return Err(Fault::Wrong("the signature of a publication does not fit"));
            }
        }
        match self.aes.loads(load, None) {
            Ok(Value::Map(mut load)) => {
                let serial = load.remove("serial").and_then(|s| s.as_int());
                let serial = serial.ok_or(Fault::Wrong("a publication has no serial"))?;
                Ok(Publication { load, serial })
            }
            Ok(_) => Err(Fault::Wrong("a publication holds no map")),
            Err(halite_crypto::CrypticleError::Authentication) => Err(Fault::SignInAgain),
            Err(_) => Err(Fault::Wrong("a publication cannot be read")),
        }
    }

    /// Whether a publication is newer than all before it under this key; then it counts from now on.
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

    /// The serial goes on where an earlier session under the same key stood.
    pub fn follow(&mut self, earlier: &Session) {
        if self.same_key(earlier) {
            self.serial = earlier.serial;
        }
    }

    /// The key of publications, to share opened publications between minions of one master.
    pub fn key_text(&self) -> &str {
        self.aes_text.as_str()
    }
}

fn map_of(bytes: &[u8]) -> Option<Map> {
    msgpack::decode(bytes).ok().and_then(Value::into_map)
}
