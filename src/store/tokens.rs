//! Tokens of external authentication (`salt/tokens/localfs.py`; reference `salt-protocol.md` 7.4).
//!
//! One file per token below `cachedir/tokens`, mode 0600, made exclusively. Unlike with stock Salt
//! a file is named by the SHA-256 of its token and does not hold it, so that whoever sees the
//! directory cannot use what he sees.

use halite_crypto::{HashType, fill_random};
use halite_sys::safe_open::open_no_follow;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Random bytes behind a token.
const RANDOM: usize = 32;
/// Largest file that is read.
const LARGEST: u64 = 1 << 20;

/// What a token stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    /// Seconds since the epoch at which it was made.
    pub start: f64,
    /// Seconds since the epoch at which it ends.
    pub expire: f64,
    /// The user.
    pub name: String,
    /// The system that authenticated him.
    pub eauth: String,
    /// His groups at that time.
    pub groups: Vec<String>,
    /// His permissions at that time, with `keep_acl_in_token`.
    pub auth_list: Option<Value>,
}

impl Token {
    fn to_map(&self) -> Map {
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
        map
    }

    /// The map that `mk_token` and `get_token` answer with.
    pub fn to_answer(&self, token: &str) -> Map {
        let mut map = self.to_map();
        map.set("token", token);
        map
    }

    fn from_map(map: &Map) -> Option<Token> {
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
        })
    }

    /// The one place that decides whether a token has ended.
    fn expired(&self, now: f64) -> bool {
        // A time that is no number is over.
        let lives = self.expire > now;
        !lives
    }
}

/// The tokens below one directory.
#[derive(Clone, Debug)]
pub struct TokenStore {
    dir: PathBuf,
    hash: HashType,
}

impl TokenStore {
    /// The tokens of the master with this cache; `hash` shapes the names of new ones.
    pub fn new(cachedir: &Path, hash: HashType) -> TokenStore {
        TokenStore {
            dir: cachedir.join("tokens"),
            hash,
        }
    }

    fn path(&self, token: &str) -> PathBuf {
        self.dir.join(HashType::Sha256.hex(token.as_bytes()))
    }

    /// Keeps what a new token stands for and returns the token.
    ///
    /// # Errors
    /// The directory or the file cannot be written.
    pub fn create(&self, token: &Token) -> io::Result<String> {
        halite_sys::daemon::make_dir(&self.dir, 0o700)?;
        let mut random = [0; RANDOM];
        fill_random(&mut random);
        let text = self.hash.hex(&random);
        let path = self.path(&text);
        let written = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(&msgpack::encode_map(&token.to_map(), Profile::Wire))
            });
        if let Err(e) = written {
            if e.kind() != io::ErrorKind::AlreadyExists {
                let _ = std::fs::remove_file(&path);
            }
            return Err(e);
        }
        Ok(text)
    }

    /// What a token stands for; `None` if it is unknown, has ended at `now` (seconds since the
    /// epoch), or its file is damaged. Ended and damaged ones are removed.
    ///
    /// # Errors
    /// The file cannot be read; the token may be good all the same.
    pub fn get(&self, token: &str, now: f64) -> io::Result<Option<Token>> {
        let shaped =
            (16..=128).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_hexdigit());
        if !shaped {
            return Ok(None);
        }
        self.load(&self.path(token), now)
    }

    fn load(&self, path: &Path, now: f64) -> io::Result<Option<Token>> {
        let bytes = match read_regular(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let found = msgpack::decode(&bytes)
            .ok()
            .and_then(|value| Token::from_map(value.as_map()?));
        match found {
            Some(token) if !token.expired(now) => Ok(Some(token)),
            _ => {
                std::fs::remove_file(path)?;
                Ok(None)
            }
        }
    }

    /// Removes tokens that have ended; returns how many.
    ///
    /// # Errors
    /// The directory cannot be read. A file that cannot be read is left alone.
    pub fn expire(&self, now: f64) -> io::Result<usize> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other?,
        };
        let mut removed = 0;
        for entry in entries {
            if matches!(self.load(&entry?.path(), now), Ok(None)) {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_no_follow(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.size() > LARGEST {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(expire: f64) -> Token {
        Token {
            start: 50.0,
            expire,
            name: "fred".into(),
            eauth: "pam".into(),
            groups: vec!["wheel".into()],
            auth_list: None,
        }
    }

    #[test]
    fn a_token_lives_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let store = TokenStore::new(dir.path(), HashType::Sha256);
        let text = store.create(&token(100.0)).unwrap();
        assert_eq!(text.len(), 64);
        assert_eq!(store.get(&text, 99.9).unwrap(), Some(token(100.0)));
        let file = store.path(&text);
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        let kept = std::fs::read(&file).unwrap();
        let inside = kept.windows(64).any(|w| w == text.as_bytes());
        assert!(
            !inside && !file.ends_with(&text),
            "the token stands nowhere"
        );
        assert_eq!(store.get(&text, 100.0).unwrap(), None);
        assert!(!file.exists(), "an ended token is removed");
        assert_eq!(store.get(&text, 60.0).unwrap(), None, "and stays so");
    }

    #[test]
    fn only_tokens_are_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        let store = TokenStore::new(dir.path(), HashType::Md5);
        let text = store.create(&token(100.0)).unwrap();
        assert_eq!(text.len(), 32);
        let named = store
            .path(&text)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let up = format!("../tokens/{text}");
        for wrong in ["", "../../etc/passwd", &named, &text[1..], &up] {
            assert_eq!(store.get(wrong, 60.0).unwrap(), None, "{wrong}");
        }
        assert!(store.get(&text, 60.0).unwrap().is_some());
    }

    #[test]
    fn ended_and_damaged_ones_are_cleared_away() {
        let dir = tempfile::tempdir().unwrap();
        let store = TokenStore::new(dir.path(), HashType::Sha512);
        assert_eq!(store.expire(10.0).unwrap(), 0);
        let good = store.create(&token(100.0)).unwrap();
        store.create(&token(20.0)).unwrap();
        let bad = store.create(&token(100.0)).unwrap();
        std::fs::write(store.path(&bad), b"\x81\xa6expire").unwrap();
        let mut endless = token(100.0);
        endless.expire = f64::NAN;
        store.create(&endless).unwrap();
        assert_eq!(store.expire(60.0).unwrap(), 3);
        assert!(store.get(&good, 60.0).unwrap().is_some());
    }
}
