//! What a minion remembers of each master: the static key (`minion_master.noise`) and the session (`minion_master.session`).

use super::MasterKey;
use halite_crypto::KeyString;
use halite_crypto::noise::{StaticPublic, fingerprint, public_from_text, public_to_text};
use zeroize::Zeroizing;

/// Most masters that are remembered.
const MOST: usize = 64;

/// A value that is stored as a text without spaces.
pub trait LineValue: Clone + PartialEq {
    /// Parses the text; `None` if it is another one.
    fn parse(text: &str) -> Option<Self>;
    /// The text.
    fn to_text(&self) -> Zeroizing<String>;
}

impl LineValue for StaticPublic {
    fn parse(text: &str) -> Option<StaticPublic> {
        public_from_text(text)
    }

    fn to_text(&self) -> Zeroizing<String> {
        public_to_text(self).into()
    }
}

impl LineValue for KeyString {
    fn parse(text: &str) -> Option<KeyString> {
        KeyString::from_text(text).ok()
    }

    fn to_text(&self) -> Zeroizing<String> {
        self.as_str().to_owned().into()
    }
}

/// Values of masters, each with the fingerprint of the master's RSA key; the newest is the last. All of them
/// are kept: a minion that goes from one master of a list to another must not forget what the first one has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerMaster<T> {
    values: Vec<(String, T)>,
    damaged: bool,
}

/// The static key of each master that has the handshake between halite peers.
pub type SeenMasters = PerMaster<StaticPublic>;

/// The session key that each of them gave last.
pub type KeptSessions = PerMaster<KeyString>;

impl<T> Default for PerMaster<T> {
    fn default() -> PerMaster<T> {
        PerMaster {
            values: Vec::new(),
            damaged: false,
        }
    }
}

impl<T: LineValue> PerMaster<T> {
    /// Parses the text of [`PerMaster::to_text`].
    pub fn parse(text: &str) -> PerMaster<T> {
        let value = |line: &str| {
            let (of, value) = line.split_once(' ')?;
            let is_hex = of.len() == 64 && of.bytes().all(|b| b.is_ascii_hexdigit());
            Some((of.to_ascii_lowercase(), T::parse(value)?)).filter(|_| is_hex)
        };
        let found: Vec<_> = text.lines().map(value).collect();
        PerMaster {
            damaged: found.is_empty() || found.contains(&None),
            values: found.into_iter().flatten().collect(),
        }
    }

    /// Whether the text was not what it should be. Then any master may have been in it.
    pub fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// The value of a master.
    pub fn of(&self, master: &MasterKey) -> Option<&T> {
        let of = fingerprint(&master.pem);
        let mut all = self.values.iter();
        all.find(|(known, _)| *known == of).map(|(_, value)| value)
    }

    /// Whether this master has a value, or may have had one.
    pub fn binds(&self, master: &MasterKey) -> bool {
        self.damaged || self.of(master).is_some()
    }

    /// Adds a master, or its new value.
    pub fn add(&mut self, master: &MasterKey, value: &T) -> &PerMaster<T> {
        let of = fingerprint(&master.pem);
        self.values.retain(|(known, _)| *known != of);
        self.values.push((of, value.clone()));
        let excess = self.values.len().saturating_sub(MOST);
        self.values.drain(..excess);
        self.damaged = false;
        self
    }

    /// One line for each.
    pub fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(150 * self.values.len()));
        for (of, value) in &self.values {
            for part in [of, " ", &value.to_text(), "\n"] {
                text.push_str(part);
            }
        }
        text
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
        assert_eq!(again.of(&one), Some(&[3; 32]));
        assert_eq!(again.of(&other), Some(&[2; 32]));
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
            &format!("{}\nx\n", *text),
        ] {
            let mut read = SeenMasters::parse(damaged);
            assert!(read.is_damaged() && read.binds(&master()), "{damaged}");
            read.add(&master(), &[1; 32]);
            assert!(!read.is_damaged());
        }
    }
}
