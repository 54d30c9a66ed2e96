//! Tokens of external authentication (`salt/tokens/localfs.py`; reference `salt-protocol.md` 7.4).

use halite_crypto::HashType;
use halite_wire::{Map, Value};
use std::{fmt, io, str};

/// The SHA-256 of a token in hexadecimal digits. Tokens are stored under it, and masters of a cluster tell each other this alone,
/// so that none of what is stored or told is a usable token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenDigest(String);

impl TokenDigest {
    /// Of a token.
    pub fn of(token: &str) -> TokenDigest {
        TokenDigest(HashType::Sha256.hex(token.as_bytes()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl str::FromStr for TokenDigest {
    type Err = fmt::Error;

    fn from_str(text: &str) -> Result<TokenDigest, fmt::Error> {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        match text.len() == 64 && text.bytes().all(is_hex) {
            true => Ok(TokenDigest(text.to_owned())),
            false => Err(fmt::Error),
        }
    }
}

/// The content of a token.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Seconds since the epoch at which it was created.
    pub start: f64,
    /// Seconds since the epoch at which it expires.
    pub expire: f64,
    /// The user.
    pub name: String,
    /// The system that authenticated them.
    pub eauth: String,
    /// Their groups at that time.
    pub groups: Vec<String>,
    /// Their permissions at that time, with `keep_acl_in_token`.
    pub auth_list: Option<Value>,
    /// Whether its owner has given it up. It is stored until it expires, so that no other master brings it back.
    pub is_revoked: bool,
}

impl Token {
    /// As it is stored.
    pub fn to_map(&self) -> Map {
        let mut map = halite_wire::map! {
            "start" => self.start, "expire" => self.expire,
            "name" => self.name.as_str(), "eauth" => self.eauth.as_str(),
        };
        if let Some(list) = &self.auth_list {
            map.set("auth_list", list.clone());
        }
        if !self.groups.is_empty() {
            map.set("groups", self.groups.clone());
        }
        if self.is_revoked {
            map.set("revoked", true);
        }
        map
    }

    /// The reply to `mk_token` and `get_token`.
    pub fn to_answer(&self, token: &str) -> Map {
        let mut map = self.to_map();
        map.set("token", token);
        map
    }

    /// `None` if something is missing or wrong.
    pub fn from_map(map: &Map) -> Option<Token> {
        let number = |key| match map.get(key) {
            Some(Value::Float(f)) if f.is_finite() => Some(*f),
            Some(other) => other.as_int().map(|n| n as f64),
            None => None,
        };
        Some(Token {
            start: number("start")?,
            expire: number("expire")?,
            name: map.str("name").filter(|n| !n.is_empty())?.to_owned(),
            eauth: map.str("eauth").filter(|n| !n.is_empty())?.to_owned(),
            groups: map.get("groups").map(Value::str_list).unwrap_or_default(),
            auth_list: map.get("auth_list").cloned(),
            is_revoked: map.get("revoked").is_some_and(Value::truthy),
        })
    }

    /// Whether the token has expired at `now`. Nothing else decides this.
    pub(crate) fn expired(&self, now: f64) -> bool {
        // NaN counts as expired.
        let valid = self.expire > now;
        !valid
    }
}

/// Where tokens are stored.
pub trait TokenStore: Send + Sync {
    /// Stores the content of a new token and returns the token, which is random.
    fn create(&self, token: &Token) -> io::Result<String>;

    /// The content of a token; `None` if it is unknown, damaged, revoked, or has expired at `now` (seconds since the
    /// epoch). Expired and damaged ones are removed.
    ///
    /// # Errors
    /// It cannot be read now, but may be valid.
    fn get(&self, token: &str, now: f64) -> io::Result<Option<Token>> {
        match is_token(token) {
            true => {
                let found = self.by_digest(&TokenDigest::of(token), now)?;
                Ok(found.filter(|token| !token.is_revoked))
            }
            false => Ok(None),
        }
    }

    /// Revokes a token; whether it was valid.
    ///
    /// # Errors
    /// It cannot be read, or not be changed: it may still be valid.
    fn revoke(&self, token: &str, now: f64) -> io::Result<bool> {
        let Some(mut found) = self.get(token, now)? else {
            return Ok(false);
        };
        found.is_revoked = true;
        self.put(&TokenDigest::of(token), &found)?;
        Ok(true)
    }

    /// The same as [`TokenStore::get`], for a token of which only the digest is known. It may be revoked.
    ///
    /// # Errors
    /// It cannot be read now, but may be valid.
    fn by_digest(&self, digest: &TokenDigest, now: f64) -> io::Result<Option<Token>>;

    /// Stores a token that another master of the cluster has created. One that is there already stays as it is, unless this
    /// says that it is revoked.
    fn put(&self, digest: &TokenDigest, token: &Token) -> io::Result<()>;

    /// The digests of all tokens, perhaps of some that have expired.
    fn digests(&self) -> io::Result<Vec<TokenDigest>>;

    /// Removes expired tokens; returns how many.
    fn expire(&self, now: f64) -> io::Result<usize>;
}

/// Whether `token` has the form of one: 16 to 128 hexadecimal digits.
pub(crate) fn is_token(token: &str) -> bool {
    (16..=128).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_hexdigit())
}
