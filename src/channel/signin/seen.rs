//! Which masters have the handshake between halite peers: the content of `minion_master.noise`.

use super::MasterKey;
use halite_crypto::noise::{StaticPublic, fingerprint, public_from_text, public_to_text};

/// Most masters that are remembered.
const MOST: usize = 64;

/// Static keys of masters, each with the fingerprint of the RSA key that certified it; the newest is the last. All of them
/// are kept: a minion that goes from one master of a list to another must not forget what the first one has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenMasters {
    keys: Vec<(String, StaticPublic)>,
    damaged: bool,
}

impl SeenMasters {
    /// Parses the text of [`SeenMasters::to_text`].
    pub fn parse(text: &str) -> SeenMasters {
        let key = |line: &str| {
            let (of, key) = line.split_once(' ')?;
            let is_hex = of.len() == 64 && of.bytes().all(|b| b.is_ascii_hexdigit());
            Some((of.to_ascii_lowercase(), public_from_text(key)?)).filter(|_| is_hex)
        };
        let found: Vec<_> = text.lines().map(key).collect();
        SeenMasters {
            damaged: found.is_empty() || found.contains(&None),
            keys: found.into_iter().flatten().collect(),
        }
    }

    /// Whether the text was not what it should be. Then any master may have been in it.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// The static key of a master.
    pub fn key_of(&self, master: &MasterKey) -> Option<&StaticPublic> {
        let of = fingerprint(&master.pem);
        let mut all = self.keys.iter();
        all.find(|(known, _)| *known == of).map(|(_, key)| key)
    }

    /// Whether this master must use the handshake.
    pub fn binds(&self, master: &MasterKey) -> bool {
        self.damaged || self.key_of(master).is_some()
    }

    /// Adds a master, or its new static key.
    pub fn add(&mut self, master: &MasterKey, key: &StaticPublic) {
        let of = fingerprint(&master.pem);
        self.keys.retain(|(known, _)| *known != of);
        self.keys.push((of, *key));
        let excess = self.keys.len().saturating_sub(MOST);
        self.keys.drain(..excess);
        self.damaged = false;
    }

    /// One line for each.
    pub fn to_text(&self) -> String {
        let line = |(of, key): &(String, StaticPublic)| format!("{of} {}\n", public_to_text(key));
        self.keys.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{master, private};

    #[test]
    fn all_masters_are_remembered() {
        let [one, other] = [
            master(),
            MasterKey::parse(&private("minion").public().to_pem()).unwrap(),
        ];
        let mut seen = SeenMasters::default();
        assert!(!seen.binds(&one) && !seen.is_damaged());
        seen.add(&one, &[1; 32]);
        seen.add(&other, &[2; 32]);
        seen.add(&one, &[3; 32]);
        let again = SeenMasters::parse(&seen.to_text());
        assert_eq!(again, seen);
        assert_eq!(again.key_of(&one), Some(&[3; 32]));
        assert_eq!(again.key_of(&other), Some(&[2; 32]));
    }

    #[test]
    fn damage_is_no_way_back() {
        let mut seen = SeenMasters::default();
        seen.add(&master(), &[1; 32]);
        let text = seen.to_text();
        for damaged in [
            "",
            "x",
            &text[..text.len() - 9],
            &text[1..],
            &format!("{text}\nx\n"),
        ] {
            let mut read = SeenMasters::parse(damaged);
            assert!(read.is_damaged() && read.binds(&master()), "{damaged}");
            read.add(&master(), &[1; 32]);
            assert!(!read.is_damaged());
        }
    }
}
