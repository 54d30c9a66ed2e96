//! Publications: from the frames of the SUB socket to a job for this minion. No IO
//! (`salt/channel/client.py AsyncPubChannel._decode_payload`, `salt/transport/zeromq.py
//! PublishClient._decode_messages`, `salt/minion.py Minion._handle_payload`; reference
//! `salt-protocol.md` 1.4, 4.5, 5).

use super::credentials::Credentials;
use halite_crypto::{
    CipherKind, Crypticle, CrypticleError, Gcm, IdentityPublic, KeyString, PUBLICATION, Signing,
};
use halite_target::{Subject, Target};
use halite_wire::budget::Budget;
use halite_wire::ids::Jid;
use halite_wire::topics::{BROADCAST, SYNDIC, of_minion};
use halite_wire::{Map, msgpack};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How often new keys are to be fetched for a publication. Those that come first may be older than it: another thread may have asked
/// for them before.
pub const MAX_RENEWALS: u8 = 2;

/// What to do about a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Received {
    /// Run this job.
    Job(Job),
    /// Do nothing, and why.
    Ignored(&'static str),
    /// It was encrypted with a key that we do not have: get new keys and try again.
    Unknown,
    /// The publication key changes: fetch the new one at a random time within so many seconds (halite's
    /// masters only).
    Rekey(u64),
}

/// A job for this minion.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its id.
    pub jid: Jid,
    /// The publish load.
    pub load: Map,
}

/// Recent jids, which the receivers of several masters can share so that a job that comes from more than
/// one of them runs once.
#[derive(Clone, Debug, Default)]
pub struct RecentJids {
    seen: Arc<Mutex<VecDeque<Jid>>>,
    remember: usize,
}

impl RecentJids {
    /// Remembers the last `remember` ones.
    pub fn new(remember: usize) -> RecentJids {
        RecentJids {
            seen: Arc::default(),
            remember,
        }
    }

    /// Adds a jid; `false` if it is already known.
    fn insert(&self, jid: &Jid) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(jid) {
            return false;
        }
        seen.push_back(jid.clone());
        while seen.len() > self.remember {
            seen.pop_front();
        }
        true
    }
}

/// What decrypts jobs that are for one minion.
struct Private {
    session: KeyString,
    key: Gcm,
    serial: i64,
}

/// Decrypts and checks publications. Keeps the last serial of the current key and recent jids.
pub struct Receiver {
    /// The key of the last publication, then keys that may replace it.
    keys: VecDeque<(KeyString, Crypticle)>,
    serial: i64,
    /// The session key, for jobs that are for us alone.
    private: Option<Private>,
    id: String,
    /// Topics of messages for us, with `zmq_filtering`.
    topics: Vec<String>,
    /// The master's key if publications must be signed (`sign_pub_messages`).
    verifier: Option<IdentityPublic>,
    jids: RecentJids,
}

impl Receiver {
    /// A receiver for the minion `id` that remembers `remember` jids.
    pub fn new(
        id: &str,
        aes: &KeyString,
        verifier: Option<IdentityPublic>,
        remember: usize,
    ) -> Receiver {
        Receiver::sharing(id, aes, verifier, &RecentJids::new(remember))
    }

    /// A receiver that shares its recent jids with others.
    pub fn sharing(
        id: &str,
        aes: &KeyString,
        verifier: Option<IdentityPublic>,
        jids: &RecentJids,
    ) -> Receiver {
        Receiver {
            keys: VecDeque::from([with_cipher(aes)]),
            serial: 0,
            private: None,
            id: id.to_owned(),
            topics: vec![BROADCAST.to_owned(), of_minion(id)],
            verifier,
            jids: jids.clone(),
        }
    }

    /// Sets the keys of a new sign-in; returns whether the publication key changed.
    /// Serials start over only with a new key.
    pub fn rekey(&mut self, aes: &KeyString, verifier: Option<IdentityPublic>) -> bool {
        self.verifier = verifier;
        self.keys.truncate(1);
        if self.has_key(aes) {
            return false;
        }
        self.keys = VecDeque::from([with_cipher(aes)]);
        self.serial = 0;
        true
    }

    /// Sets the session key of a sign-in. Serials start over only with a new key.
    pub fn set_session(&mut self, credentials: &Credentials) {
        let session = &credentials.session;
        let known = self.private.as_ref().is_some_and(|p| p.session == *session);
        if credentials.cipher.kind() != CipherKind::Gcm {
            self.private = None;
        } else if !known {
            self.private = Some(Private {
                session: session.clone(),
                key: Gcm::derive(session, PUBLICATION),
                serial: 0,
            });
        }
    }

    /// Sets the keys that may follow the current one, in order; returns whether one of them is new. The current key stays in
    /// use until one of them decrypts a publication.
    pub fn set_next_keys<'a>(&mut self, keys: impl IntoIterator<Item = &'a KeyString>) -> bool {
        let before: Vec<KeyString> = self.keys.iter().map(|(key, _)| key.clone()).collect();
        self.keys.truncate(1);
        for key in keys {
            if !self.has_key(key) {
                self.keys.push_back(with_cipher(key));
            }
        }
        self.keys.iter().any(|(key, _)| !before.contains(key))
    }

    fn has_key(&self, key: &KeyString) -> bool {
        self.keys.iter().any(|(known, _)| known == key)
    }

    /// Accepts messages with the topic of syndics, too.
    pub fn as_syndic(mut self) -> Receiver {
        self.topics.push(SYNDIC.to_owned());
        self
    }

    /// Processes one message.
    pub fn receive(&mut self, frames: &[Vec<u8>], me: &dyn Subject) -> Received {
        self.take(frames, Some(me))
    }

    /// Processes one message regardless of its target: a syndic forwards jobs for the minions below it.
    pub fn receive_any(&mut self, frames: &[Vec<u8>]) -> Received {
        self.take(frames, None)
    }

    fn take(&mut self, frames: &[Vec<u8>], me: Option<&dyn Subject>) -> Received {
        let payload = match frames {
            [payload] => payload,
            [topic, payload] if self.topics.iter().any(|own| own.as_bytes() == topic) => payload,
            [_, _] => return Received::Ignored("it is for another minion"),
            _ => return Received::Ignored("it does not have one or two frames"),
        };
        match self.open(payload) {
            Ok(load) => match load.int("rekey").and_then(|n| u64::try_from(n).ok()) {
                Some(within) => Received::Rekey(within),
                None => self.accept(load, me),
            },
            Err(received) => received,
        }
    }

    fn open(&mut self, payload: &[u8]) -> Result<Map, Received> {
        let ignored = |why| Err(Received::Ignored(why));
        let Ok(message) = msgpack::decode_load(payload, Budget::fixed()) else {
            return ignored("it is not a msgpack map");
        };
        let is_private = match message.str("enc") {
            Some("aes") => false,
            Some("gcm") => true,
            _ => return ignored("it is not encrypted"),
        };
        let Some(sealed) = message.bytes("load") else {
            return ignored("it has no load");
        };
        if is_private {
            return self.open_private(sealed);
        }
        if let Some(key) = &self.verifier {
            let algorithm: Option<Signing> = message.str("sig_algo").and_then(|a| a.parse().ok());
            let (Some(algorithm), Some(sig)) = (algorithm, message.bytes("sig")) else {
                return ignored("it is not signed, but sign_pub_messages is set");
            };
            if !key.verify(algorithm, sealed, sig) {
                return ignored("its signature does not match the master's key");
            }
        }
        let Some((at, load)) = self.decrypt(sealed) else {
            return Err(Received::Unknown);
        };
        if at > 0 {
            // The master has switched to a later key.
            self.keys.drain(..at);
            self.serial = 0;
        }
        let Some(mut load) = load else {
            return ignored("its load cannot be decoded");
        };
        if let Some(serial) = load.remove("serial") {
            let serial = serial.as_int().unwrap_or_default();
            if serial <= self.serial {
                return ignored("it is a repeat");
            }
            self.serial = serial;
        }
        Ok(load)
    }

    /// Only the master and we have the key, so there is no signature.
    fn open_private(&mut self, sealed: &[u8]) -> Result<Map, Received> {
        let Some(private) = &mut self.private else {
            return Err(Received::Unknown);
        };
        let Ok(plain) = private.key.open(self.id.as_bytes(), sealed) else {
            return Err(Received::Unknown);
        };
        let load = msgpack::decode_load(&plain, Budget::of(plain.len()));
        let mut load = load.map_err(|_| Received::Ignored("its load cannot be decoded"))?;
        let serial = load.remove("serial").and_then(|serial| serial.as_int());
        match serial {
            Some(serial) if serial > private.serial => private.serial = serial,
            _ => return Err(Received::Ignored("it is a repeat")),
        }
        Ok(load)
    }

    /// The index of the key that a load was encrypted with, and the load if it can be decoded.
    fn decrypt(&self, sealed: &[u8]) -> Option<(usize, Option<Map>)> {
        for (at, (_, crypticle)) in self.keys.iter().enumerate() {
            match crypticle.loads(sealed, None) {
                Ok(load) => return Some((at, load.into_map())),
                Err(CrypticleError::Authentication) => {}
                Err(_) => return Some((at, None)),
            }
        }
        None
    }

    fn accept(&mut self, load: Map, me: Option<&dyn Subject>) -> Received {
        let ignored = Received::Ignored;
        let (Some(tgt), Some(fun)) = (load.get("tgt"), load.get("fun")) else {
            return ignored("it lacks tgt or fun");
        };
        if load.get("arg").and_then(|a| a.as_array()).is_none() {
            return ignored("it lacks arg");
        }
        let several = fun
            .as_array()
            .is_some_and(|f| !f.is_empty() && f.iter().all(|f| f.as_str().is_some()));
        if fun.as_str().is_none() && !several {
            return ignored("fun is not a name");
        }
        let Some(jid) = load.str("jid").and_then(|j| j.parse::<Jid>().ok()) else {
            return ignored("it has no valid jid");
        };
        let matches = me.is_none_or(|me| {
            let kind = load.str("tgt_type").unwrap_or_default();
            let target = Target::parse(tgt, kind, load.str("delimiter"));
            target.is_ok_and(|target| {
                target.try_matches(me).unwrap_or_else(|e| {
                    log::warn!("the target of a job selects nobody: {e}");
                    false
                })
            })
        });
        if !matches {
            return ignored("its target does not match");
        }
        if !self.jids.insert(&jid) {
            return ignored("its jid is already known");
        }
        Received::Job(Job { jid, load })
    }
}

fn with_cipher(key: &KeyString) -> (KeyString, Crypticle) {
    (key.clone(), Crypticle::new(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use crate::testing::{credentials, json, list, unhex};
    use halite_wire::Value;
    use halite_wire::msgpack::Profile;
    use std::sync::Arc;

    fn me(id: &str) -> Identity {
        Identity {
            id: id.into(),
            grains: Arc::new(halite_wire::map! {"os" => "Debian"}),
            pillar: Arc::new(halite_wire::map! {"role" => "web"}),
        }
    }

    fn receiver(verifier: Option<IdentityPublic>) -> Receiver {
        Receiver::new("vector-minion", &credentials().aes, verifier, 3)
    }

    fn frame(key: &KeyString, load: Map) -> Vec<u8> {
        let sealed = Crypticle::new(key).dumps(&Value::Map(load), None);
        msgpack::encode_map(
            &halite_wire::map! {"enc" => "aes", "load" => sealed},
            Profile::Wire,
        )
    }

    fn load(n: i64) -> Map {
        halite_wire::map! {
            "fun" => "test.ping", "arg" => Vec::<Value>::new(), "tgt" => "*", "tgt_type" => "glob",
            "jid" => format!("202611211200000{n:05}"), "ret" => "", "user" => "root", "serial" => n,
        }
    }

    fn got(receiver: &mut Receiver, load: Map) -> Received {
        let frame = frame(&credentials().aes, load);
        receiver.receive(&[frame], &me("vector-minion"))
    }

    #[test]
    fn private_jobs_are_for_one_minion() {
        use halite_crypto::SessionCipher;
        let mut gcm = credentials();
        gcm.cipher = SessionCipher::new(CipherKind::Gcm, &gcm.session);
        let key = Gcm::derive(&gcm.session, PUBLICATION);
        let frame = |id: &str, n: i64| {
            let load = msgpack::encode_map(&load(n), Profile::Wire);
            let message =
                halite_wire::map! {"enc" => "gcm", "load" => key.seal(id.as_bytes(), &load)};
            vec![msgpack::encode_map(&message, Profile::Wire)]
        };
        let own = frame("vector-minion", 5);
        // Also where others must be signed: nobody else has the key.
        let mut receiver = receiver(Some(credentials().master.key));
        let mut got = |frames: &[Vec<u8>]| receiver.receive(frames, &me("vector-minion"));
        assert_eq!(got(&own), Received::Unknown, "it has no session yet");
        let mut receiver = Receiver::new("vector-minion", &gcm.aes, None, 3);
        receiver.set_session(&gcm);
        let mut got = |frames: &[Vec<u8>]| receiver.receive(frames, &me("vector-minion"));
        assert_eq!(got(&frame("other", 5)), Received::Unknown);
        assert!(matches!(got(&own), Received::Job(_)));
        let repeat = Received::Ignored("it is a repeat");
        assert_eq!(got(&own), repeat);
        assert_eq!(got(&frame("vector-minion", 4)), repeat);
        receiver.set_session(&gcm);
        let mut got = |frames: &[Vec<u8>]| receiver.receive(frames, &me("vector-minion"));
        assert_eq!(got(&own), repeat, "the same session");
        assert!(matches!(got(&frame("vector-minion", 6)), Received::Job(_)));
        receiver.set_session(&credentials());
        let mut got = |frames: &[Vec<u8>]| receiver.receive(frames, &me("vector-minion"));
        assert_eq!(got(&frame("vector-minion", 7)), Received::Unknown);
    }

    #[test]
    fn publications_of_stock() {
        let file = json("publication");
        let master = credentials().master.key;
        for v in list(&file) {
            let bytes = unhex(&v["frame_hex"]);
            let signed = v["frame"]["sig"].is_object();
            let Received::Job(job) =
                receiver(None).receive(std::slice::from_ref(&bytes), &me("vector-minion"))
            else {
                panic!("{}", v["name"]);
            };
            assert!(!job.load.contains("serial"));
            assert_eq!(job.load.str("jid"), Some(job.jid.as_str()));
            let strict = receiver(Some(master.clone()))
                .receive(std::slice::from_ref(&bytes), &me("vector-minion"));
            assert_eq!(matches!(strict, Received::Job(_)), signed, "{}", v["name"]);
            if signed {
                let own = crate::testing::terms().key.public();
                let wrong = receiver(Some(own)).receive(&[bytes], &me("vector-minion"));
                assert!(matches!(wrong, Received::Ignored(why) if why.contains("signature")));
            }
        }
        assert_eq!(
            of_minion("vector-minion"),
            file["topic_sha1_of_minion_id"].as_str().unwrap()
        );
    }

    #[test]
    fn serials_and_jids_count_once() {
        let mut r = receiver(None);
        assert!(matches!(got(&mut r, load(5)), Received::Job(_)));
        assert_eq!(got(&mut r, load(5)), Received::Ignored("it is a repeat"));
        assert_eq!(got(&mut r, load(4)), Received::Ignored("it is a repeat"));
        let mut again = load(5);
        again.set("serial", 6);
        assert_eq!(
            got(&mut r, again.clone()),
            Received::Ignored("its jid is already known")
        );
        for n in 7..10 {
            assert!(matches!(got(&mut r, load(n)), Received::Job(_)));
        }
        again.set("serial", 11);
        assert!(
            matches!(got(&mut r, again), Received::Job(_)),
            "three jids are remembered"
        );
    }

    #[test]
    fn a_new_key_starts_its_own_serials() {
        let mut r = receiver(None);
        assert!(matches!(got(&mut r, load(50)), Received::Job(_)));
        let other = KeyString::generate();
        let message = [frame(&other, load(1))];
        let me = me("vector-minion");
        assert_eq!(r.receive(&message, &me), Received::Unknown);
        assert!(r.rekey(&other, None));
        assert!(matches!(r.receive(&message, &me), Received::Job(_)));
        // A sign-in without a new key keeps the serial.
        assert!(!r.rekey(&other, None));
        assert_eq!(
            r.receive(&message, &me),
            Received::Ignored("it is a repeat")
        );
    }

    #[test]
    fn fetched_keys_follow_the_present_one() {
        let mut r = receiver(None);
        let (old, new, newest) = (
            credentials().aes,
            KeyString::generate(),
            KeyString::generate(),
        );
        let me = me("vector-minion");
        assert!(!r.set_next_keys([&old]), "nothing new");
        assert!(r.set_next_keys([&old, &new]), "the next one is on offer");
        assert!(!r.set_next_keys([&old, &new]));
        assert!(matches!(got(&mut r, load(7)), Received::Job(_)));
        // The new key has its own serials; the old key is no longer accepted.
        let first = [frame(&new, load(1))];
        assert!(matches!(r.receive(&first, &me), Received::Job(_)));
        assert_eq!(r.receive(&first, &me), Received::Ignored("it is a repeat"));
        assert_eq!(got(&mut r, load(8)), Received::Unknown);
        // A replacement takes the place of the offered key, and the current key stays in use until the new one is seen.
        assert!(r.set_next_keys([&newest]));
        assert!(matches!(
            r.receive(&[frame(&new, load(2))], &me),
            Received::Job(_)
        ));
        assert!(matches!(
            r.receive(&[frame(&newest, load(3))], &me),
            Received::Job(_)
        ));
        // A sign-in drops all other keys.
        assert!(r.set_next_keys([&new]));
        assert!(r.rekey(&old, None));
        assert_eq!(r.receive(&[frame(&new, load(9))], &me), Received::Unknown);
    }

    #[test]
    fn a_change_of_keys_is_announced_under_the_old_one() {
        let mut r = receiver(None);
        let told = |n| halite_wire::map! {"rekey" => 10, "serial" => n};
        assert_eq!(got(&mut r, told(1)), Received::Rekey(10));
        assert_eq!(got(&mut r, told(1)), Received::Ignored("it is a repeat"));
        let bad = halite_wire::map! {"rekey" => -1, "serial" => 2};
        assert!(matches!(got(&mut r, bad), Received::Ignored(_)));
    }

    #[test]
    fn frames_and_topics() {
        let aes = credentials().aes;
        let me = me("vector-minion");
        let mut n = 0;
        let mut try_topic = |t: &[u8]| {
            n += 1;
            receiver(None).receive(&[t.to_vec(), frame(&aes, load(n))], &me)
        };
        assert!(matches!(try_topic(b"broadcast"), Received::Job(_)));
        assert!(matches!(
            try_topic(of_minion("vector-minion").as_bytes()),
            Received::Job(_)
        ));
        assert_eq!(
            try_topic(of_minion("other").as_bytes()),
            Received::Ignored("it is for another minion")
        );
        assert!(matches!(
            receiver(None).receive(&[], &me),
            Received::Ignored(_)
        ));
        assert!(matches!(
            receiver(None).receive(&vec![vec![]; 3], &me),
            Received::Ignored(_)
        ));
    }

    #[test]
    fn targets() {
        let case = |tgt: Value, kind: &str| {
            let mut l = load(1);
            l.set("tgt", tgt);
            l.set("tgt_type", kind);
            matches!(got(&mut receiver(None), l), Received::Job(_))
        };
        assert!(case("vector-*".into(), "glob"));
        assert!(!case("other*".into(), "glob"));
        assert!(case(
            vec!["a".to_owned(), "vector-minion".to_owned()].into(),
            "list"
        ));
        assert!(case("os:Debian".into(), "grain"));
        assert!(!case("os:Plan9".into(), "grain"));
        assert!(case("role:web".into(), "pillar"));
        assert!(case("G@os:Debian and I@role:web".into(), "compound"));
        assert!(!case("*".into(), "nonsense"));
    }

    #[test]
    fn what_is_no_job_is_ignored() {
        for (key, bad) in [
            ("fun", Value::Int(1)),
            ("fun", Value::Array(vec![])),
            ("arg", Value::Nil),
            ("jid", "../x".into()),
            ("tgt", Value::Int(3)),
        ] {
            let mut l = load(1);
            l.set(key, bad);
            assert!(
                matches!(got(&mut receiver(None), l), Received::Ignored(_)),
                "{key}"
            );
        }
        let me = me("vector-minion");
        for junk in [
            &b""[..],
            b"\xc1",
            b"\x80",
            b"\x82\xa3enc\xa5clear\xa4load\x80",
        ] {
            assert!(matches!(
                receiver(None).receive(&[junk.to_vec()], &me),
                Received::Ignored(_)
            ));
        }
    }
}
