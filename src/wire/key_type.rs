//! The types of identity keys.

use std::fmt;

/// The type of an identity key, as the option `key_type` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyType {
    /// For peers of stock Salt and of halite.
    #[default]
    Rsa,
    /// For peers of halite alone.
    Ed25519,
}

impl KeyType {
    /// All of them.
    pub const ALL: [KeyType; 2] = [KeyType::Rsa, KeyType::Ed25519];

    /// The name in options.
    pub const fn name(self) -> &'static str {
        match self {
            KeyType::Rsa => "rsa",
            KeyType::Ed25519 => "ed25519",
        }
    }

    /// The type of that name.
    pub fn of_name(name: &str) -> Option<KeyType> {
        KeyType::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            KeyType::Rsa => "RSA",
            KeyType::Ed25519 => "Ed25519",
        })
    }
}
