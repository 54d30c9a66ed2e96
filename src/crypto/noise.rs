//! The handshake between halite peers: `Noise_IK_25519_AESGCM_SHA256` of the Noise Protocol Framework (revision 34), as the
//! crate `snow` has it.
//!
//! Both peers have a static X25519 key, which their RSA key has signed once ([`statement`]): whoever trusts the RSA key
//! trusts the static one. The minion is the initiator and knows the master's static key before. One message in each direction
//! gives mutual authentication and forward secrecy: who later gets all static keys still cannot read what the reply carried
//! (Noise specification, 7.7: payload security of IK; the first message is secret as long as the master's static key is).

use super::{CryptoError, HashType, clean_key, rng};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use snow::params::{DHChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState};
use std::fmt;
use zeroize::Zeroizing;

/// The protocol's name.
pub const PROTOCOL: &str = "Noise_IK_25519_AESGCM_SHA256";
/// Length of an X25519 key in bytes.
pub const KEY: usize = 32;
/// Longest message of a handshake in bytes (Noise specification, 3).
pub const MAX_MESSAGE: usize = 65_535;
/// Most bytes that a message has beside its payload: two public keys and two tags.
const OVERHEAD: usize = 2 * KEY + 2 * 16;

/// A public static key.
pub type StaticPublic = [u8; KEY];

/// Why a handshake fails: the other peer does not have the expected key, or the message was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseError(String);

impl fmt::Display for NoiseError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "handshake: {}", self.0)
    }
}

impl std::error::Error for NoiseError {}

impl From<snow::Error> for NoiseError {
    fn from(error: snow::Error) -> NoiseError {
        NoiseError(error.to_string())
    }
}

/// Whose static key an RSA key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The master.
    Master,
    /// A minion.
    Minion,
}

/// The fingerprint of an RSA key, SHA-256 of its PEM text in clean form, in hexadecimal.
pub fn fingerprint(pem: &str) -> String {
    HashType::Sha256.hex(clean_key(pem).as_bytes())
}

/// What an RSA key signs to certify a static key, for use with the master whose RSA key has the fingerprint `master`. It starts
/// like no message of Salt that an RSA key signs.
pub fn statement(signer: Signer, key: &StaticPublic, master: &str) -> Vec<u8> {
    let who = match signer {
        Signer::Master => "halite: X25519 key of the master\0",
        Signer::Minion => "halite: X25519 key of the minion\0",
    };
    [who.as_bytes(), master.as_bytes(), key].concat()
}

/// The prologue of a handshake: version, the fingerprint of the master's RSA key, and the minion's id. A message for one master
/// or id cannot be used for another, and a master that has got another RSA key introduces itself again.
pub fn prologue(master: &str, id: &str) -> Vec<u8> {
    [b"halite 1\0", master.as_bytes(), b"\0", id.as_bytes()].concat()
}

/// A static key pair. Wiped when dropped, prints as `***`.
#[derive(Clone)]
pub struct StaticKey {
    private: Zeroizing<[u8; KEY]>,
    public: StaticPublic,
}

impl StaticKey {
    /// Generates a pair.
    pub fn generate() -> StaticKey {
        let mut private = Zeroizing::new([0; KEY]);
        rng::fill_random(private.as_mut_slice());
        StaticKey::of(private)
    }

    /// Parses the text of [`StaticKey::to_text`], ignoring surrounding white space.
    ///
    /// # Errors
    /// [`CryptoError::BadStaticKey`] if it is not 32 bytes in base64.
    pub fn from_text(text: &str) -> Result<StaticKey, CryptoError> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).unwrap_or_default());
        let private = <[u8; KEY]>::try_from(bytes.as_slice()).map(Zeroizing::new);
        private
            .map(StaticKey::of)
            .map_err(|_| CryptoError::BadStaticKey)
    }

    /// The private key in base64.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.private.as_slice()))
    }

    /// The public key.
    pub fn public(&self) -> &StaticPublic {
        &self.public
    }

    fn of(private: Zeroizing<[u8; KEY]>) -> StaticKey {
        let mut public = [0; KEY];
        if let Some(mut dh) = DefaultResolver.resolve_dh(&DHChoice::Curve25519) {
            dh.set(private.as_slice());
            public.copy_from_slice(dh.pubkey());
        }
        StaticKey { private, public }
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("***")
    }
}

/// A public static key from its base64.
pub fn public_from_text(text: &str) -> Option<StaticPublic> {
    STANDARD.decode(text.trim()).ok()?.try_into().ok()
}

/// A public static key in base64.
pub fn public_to_text(key: &StaticPublic) -> String {
    STANDARD.encode(key)
}

fn builder<'a>(own: &'a StaticKey, prologue: &'a [u8]) -> Result<Builder<'a>, NoiseError> {
    let params: NoiseParams = PROTOCOL.parse()?;
    let builder = Builder::new(params);
    Ok(builder
        .prologue(prologue)?
        .local_private_key(own.private.as_slice())?)
}

fn write(state: &mut HandshakeState, payload: &[u8]) -> Result<Vec<u8>, NoiseError> {
    let mut out = vec![0; payload.len() + OVERHEAD];
    let length = state.write_message(payload, &mut out)?;
    out.truncate(length);
    Ok(out)
}

fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, NoiseError> {
    let mut out = vec![0; message.len().min(MAX_MESSAGE)];
    let length = state.read_message(message, &mut out)?;
    out.truncate(length);
    Ok(out)
}

/// The minion's side of a handshake, which waits for the reply.
pub struct Initiator(Box<HandshakeState>);

impl Initiator {
    /// Makes the first message, with a payload that only the owner of `master` can read. `prologue` is authenticated.
    ///
    /// # Errors
    /// The payload is too long.
    pub fn start(
        own: &StaticKey,
        master: &StaticPublic,
        prologue: &[u8],
        payload: &[u8],
    ) -> Result<(Initiator, Vec<u8>), NoiseError> {
        let builder = builder(own, prologue)?.remote_public_key(master)?;
        let mut state = builder.build_initiator()?;
        let message = write(&mut state, payload)?;
        Ok((Initiator(Box::new(state)), message))
    }

    /// The payload of the reply.
    ///
    /// # Errors
    /// It was not made by the owner of the master's key, for this handshake.
    pub fn finish(mut self, reply: &[u8]) -> Result<Vec<u8>, NoiseError> {
        read(&mut self.0, reply)
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Initiator(***)")
    }
}

/// The master's side of a handshake, which has read the first message.
pub struct Responder {
    state: Box<HandshakeState>,
    /// The minion's static key.
    pub minion: StaticPublic,
    /// The payload of its message.
    pub payload: Vec<u8>,
}

impl Responder {
    /// Reads the first message. Anybody can replay it, but not read the reply.
    ///
    /// # Errors
    /// It was made for another key of the master, or with another prologue.
    pub fn read(own: &StaticKey, prologue: &[u8], message: &[u8]) -> Result<Responder, NoiseError> {
        let mut state = builder(own, prologue)?.build_responder()?;
        let payload = read(&mut state, message)?;
        let minion = state
            .get_remote_static()
            .and_then(|key| key.try_into().ok());
        Ok(Responder {
            minion: minion.ok_or_else(|| NoiseError("no static key".to_owned()))?,
            state: Box::new(state),
            payload,
        })
    }

    /// Makes the reply.
    ///
    /// # Errors
    /// The payload is too long.
    pub fn reply(mut self, payload: &[u8]) -> Result<Vec<u8>, NoiseError> {
        write(&mut self.state, payload)
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Responder(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_learn_who_the_other_is() {
        let [master, minion] = [0, 1].map(|_| StaticKey::generate());
        let (waiting, first) =
            Initiator::start(&minion, master.public(), b"p", b"to the master").unwrap();
        assert!(!first.windows(6).any(|bytes| bytes == b"master"));
        let responder = Responder::read(&master, b"p", &first).unwrap();
        assert_eq!(&responder.minion, minion.public());
        assert_eq!(responder.payload, b"to the master");
        let reply = responder.reply(b"to the minion").unwrap();
        assert_eq!(waiting.finish(&reply).unwrap(), b"to the minion");
    }

    fn vectors() -> serde_json::Value {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/vectors/noise.json"
        );
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    /// Bytes that another implementation of the specification made.
    #[test]
    fn messages_are_those_of_the_specification() {
        let all = vectors();
        let get = |name: &str| unhex(all["handshake"][name].as_str().unwrap());
        let key = |name: &str| StaticKey::of(Zeroizing::new(get(name).try_into().unwrap()));
        let [master, minion] = [key("master_static_private"), key("minion_static_private")];
        let prologue_1 = get("prologue");
        assert_eq!(prologue_1, prologue(&fingerprint("PEM"), "m1"));
        let ephemeral = [
            get("minion_ephemeral_private"),
            get("master_ephemeral_private"),
        ];
        let builder = |own, n: usize| {
            let builder = builder(own, &prologue_1).unwrap();
            builder.fixed_ephemeral_key_for_testing_only(&ephemeral[n])
        };
        let initiator = builder(&minion, 0)
            .remote_public_key(master.public())
            .unwrap();
        let mut initiator = initiator.build_initiator().unwrap();
        let first = write(&mut initiator, &get("payload_1")).unwrap();
        assert_eq!(first, get("message_1"));
        let mut responder = builder(&master, 1).build_responder().unwrap();
        assert_eq!(read(&mut responder, &first).unwrap(), get("payload_1"));
        let second = write(&mut responder, &get("payload_2")).unwrap();
        assert_eq!(second, get("message_2"));
        assert_eq!(read(&mut initiator, &second).unwrap(), get("payload_2"));
    }

    fn unhex(text: &str) -> Vec<u8> {
        let pairs = text.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn sessions_are_those_of_the_specification() {
        use crate::{CipherKind, Gcm, KeyString, SessionCipher};
        let all = vectors();
        let text = |name: &str| all["session"][name].as_str().unwrap().to_owned();
        let get = |name: &str| unhex(&text(name));
        let session = KeyString::from_text(&text("session_key")).unwrap();
        let cipher = SessionCipher::new(CipherKind::Gcm, &session);
        let request = cipher.open_request(&text("id"), &get("sealed_request"));
        assert_eq!(request, Some(get("request")));
        let reply = cipher.open_reply(&get("sealed_reply"), &text("nonce"));
        assert_eq!(reply, Ok(true.into()));
        let replies = Gcm::derive(&session, "halite reply");
        let plain = replies.open(text("nonce").as_bytes(), &get("sealed_reply"));
        assert_eq!(plain, Ok(get("reply")));
    }

    #[test]
    fn nobody_else_takes_part() {
        let [master, minion, other] = [0, 1, 2].map(|_| StaticKey::generate());
        let start = || Initiator::start(&minion, master.public(), b"p", b"x").unwrap();
        let (waiting, first) = start();
        assert!(Responder::read(&other, b"p", &first).is_err());
        assert!(Responder::read(&master, b"q", &first).is_err());
        for at in [0, KEY, first.len() - 1] {
            let mut damaged = first.clone();
            damaged[at] ^= 1;
            assert!(Responder::read(&master, b"p", &damaged).is_err(), "{at}");
        }
        for length in 0..first.len() {
            assert!(Responder::read(&master, b"p", &first[..length]).is_err());
        }
        // The reply to another start with the same keys.
        let (_, second) = start();
        let reply = Responder::read(&master, b"p", &second)
            .unwrap()
            .reply(b"")
            .unwrap();
        assert!(waiting.finish(&reply).is_err());
        // A replayed message gets another reply each time, which its first sender does not accept twice.
        let replies = [0, 1].map(|_| {
            let responder = Responder::read(&master, b"p", &first).unwrap();
            responder.reply(b"").unwrap()
        });
        assert_ne!(replies[0], replies[1]);
    }

    #[test]
    fn keys_survive_as_text() {
        let key = StaticKey::generate();
        let again = StaticKey::from_text(&format!("{}\n", *key.to_text())).unwrap();
        assert_eq!(again.public(), key.public());
        let public = public_to_text(key.public());
        assert_eq!(public_from_text(&public).as_ref(), Some(key.public()));
        for bad in ["", "x", "AAAA", &public[..40]] {
            assert!(StaticKey::from_text(bad).is_err());
            assert_eq!(public_from_text(bad), None);
        }
        // RFC 7748, 6.1.
        let private = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        let alice = StaticKey::from_text(private).unwrap();
        let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        assert_eq!(public_to_text(alice.public()), public);
    }

    #[test]
    fn long_payloads_are_an_error() {
        let [master, minion] = [0, 1].map(|_| StaticKey::generate());
        let long = vec![0; MAX_MESSAGE];
        assert!(Initiator::start(&minion, master.public(), b"", &long).is_err());
        assert!(Responder::read(&master, b"", &long).is_err());
    }
}
