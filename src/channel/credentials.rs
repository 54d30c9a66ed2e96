//! What a sign-in gives, with the publication keys that were fetched since.

use super::signin::MasterKey;
use halite_crypto::{CipherKind, KeyString, SessionCipher};
use halite_wire::Map;

/// The result of a sign-in, with publication keys fetched since.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Counts sign-ins and new publication keys, from 1.
    pub generation: u64,
    /// The generation of the sign-in.
    pub signed_in: u64,
    /// Whether the key had to be accepted first; then the master has no grains of this minion yet.
    pub admitted: bool,
    /// Publication key.
    pub aes: KeyString,
    /// The next publication key, if the master already offers it.
    pub next: Option<KeyString>,
    /// Whether the master provides new publication keys without a sign-in.
    pub rekeys: bool,
    /// Session key, for requests.
    pub session: KeyString,
    /// The cipher for the session key.
    pub cipher: SessionCipher,
    /// The master's key.
    pub master: MasterKey,
    /// `tcp://` address of publications.
    pub publish_url: String,
    /// `tcp://` address of requests.
    pub request_url: String,
    /// The master's name in the option `master`.
    pub name: String,
}

/// Publication keys.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicationKeys {
    /// The current key.
    pub aes: KeyString,
    /// The next key.
    pub next: Option<KeyString>,
}

impl Credentials {
    /// The publication key and the next one.
    pub fn keys(&self) -> impl Iterator<Item = &KeyString> {
        std::iter::once(&self.aes).chain(&self.next)
    }

    /// A sign-in that began with `before` and ended with `held`, which may have keys that were fetched meanwhile. What is known
    /// of publication keys is kept if the master still named the key of `before`: its answer may be older than those.
    pub(super) fn following(
        mut self,
        before: Option<&Credentials>,
        held: Option<&Credentials>,
    ) -> Credentials {
        let Some(held) = held else {
            return self;
        };
        self.generation = held.generation + 1;
        self.signed_in = self.generation;
        let named = before.filter(|b| b.aes == self.aes && b.master.pem == self.master.pem);
        if named.is_some() {
            self.aes = held.aes.clone();
            self.next = held.next.clone();
        }
        self
    }

    /// Credentials of another process of this minion, as packed by [`export`](super::link::export).
    pub fn unpack(packed: &Map) -> Option<Credentials> {
        let key = |name| KeyString::from_text(packed.str(name)?).ok();
        let session = key("session")?;
        Some(Credentials {
            generation: 1,
            signed_in: 1,
            admitted: false,
            aes: key("aes")?,
            next: None,
            rekeys: false,
            cipher: SessionCipher::new(CipherKind::of(packed.str("cipher")?), &session),
            session,
            master: MasterKey::parse(packed.str("master")?)?,
            publish_url: packed.str("publish_url")?.to_owned(),
            request_url: packed.str("request_url")?.to_owned(),
            name: packed.str("name").unwrap_or_default().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_keeps_keys_that_were_fetched() {
        let session = KeyString::generate();
        let signed_in = |aes: &KeyString| Credentials {
            generation: 1,
            signed_in: 1,
            admitted: false,
            aes: aes.clone(),
            next: None,
            rekeys: true,
            cipher: SessionCipher::new(CipherKind::Gcm, &session),
            session: session.clone(),
            master: crate::testing::master(),
            publish_url: String::new(),
            request_url: String::new(),
            name: String::new(),
        };
        let [old, new, other] = [(); 3].map(|()| KeyString::generate());
        let before = signed_in(&old);
        let offered = Credentials {
            generation: 4,
            next: Some(new.clone()),
            ..before.clone()
        };
        let keys = |c: &Credentials| (c.generation, c.aes.clone(), c.next.clone());
        let first = signed_in(&old).following(None, None);
        assert_eq!(keys(&first), (1, old.clone(), None));
        let again = signed_in(&old).following(Some(&offered), Some(&offered));
        assert_eq!(keys(&again), (5, old.clone(), Some(new.clone())));
        assert_eq!(again.signed_in, 5);
        // The key came into force, and was fetched, while the master answered.
        let taken = Credentials {
            generation: 5,
            ..signed_in(&new)
        };
        let late = signed_in(&old).following(Some(&offered), Some(&taken));
        assert_eq!(keys(&late), (6, new.clone(), None));
        // What was offered is void.
        let replaced = signed_in(&other).following(Some(&offered), Some(&offered));
        assert_eq!(keys(&replaced), (5, other, None));
    }
}
