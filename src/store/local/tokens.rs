//! One file per token below `cachedir/tokens`, mode 0600, created exclusively. Unlike in stock Salt, the file
//! name is the SHA-256 of the token, and the file does not contain the token: read access to the directory does
//! not give anyone a usable token.

use super::found;
use crate::tokens::{Token, TokenDigest, TokenStore};
use halite_crypto::{HashType, fill_random};
use halite_sys::daemon::{make_dir, write_atomic, write_new};
use halite_sys::safe_open::open_no_follow;
use halite_wire::msgpack::{self, Profile};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Random bytes that a token is made from.
const RANDOM_BYTES: usize = 32;
/// Largest file that is read, in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// The tokens below one directory.
#[derive(Clone, Debug)]
pub struct LocalTokens {
    dir: PathBuf,
    hash: HashType,
}

impl LocalTokens {
    /// The tokens of the master with this cache. New tokens are digests of random bytes with `hash`.
    pub fn new(cachedir: &Path, hash: HashType) -> LocalTokens {
        LocalTokens {
            dir: cachedir.join("tokens"),
            hash,
        }
    }

    fn path(&self, digest: &TokenDigest) -> PathBuf {
        self.dir.join(digest.as_str())
    }

    fn write(&self, digest: &TokenDigest, token: &Token) -> io::Result<()> {
        make_dir(&self.dir, 0o700)?;
        let packed = msgpack::encode_map(&token.to_map(), Profile::Wire);
        let write = match token.is_revoked {
            true => write_atomic,
            false => write_new,
        };
        write(&self.path(digest), &packed, 0o600)
    }

    fn load(&self, path: &Path, now: f64) -> io::Result<Option<Token>> {
        let Some(bytes) = found(read_regular(path))? else {
            return Ok(None);
        };
        let read = msgpack::decode(&bytes)
            .ok()
            .and_then(|value| Token::from_map(value.as_map()?));
        match read {
            Some(token) if !token.expired(now) => Ok(Some(token)),
            _ => {
                std::fs::remove_file(path)?;
                Ok(None)
            }
        }
    }
}

impl TokenStore for LocalTokens {
    fn create(&self, token: &Token) -> io::Result<String> {
        let mut random = [0; RANDOM_BYTES];
        fill_random(&mut random);
        let text = self.hash.hex(&random);
        self.write(&TokenDigest::of(&text), token)?;
        Ok(text)
    }

    fn by_digest(&self, digest: &TokenDigest, now: f64) -> io::Result<Option<Token>> {
        self.load(&self.path(digest), now)
    }

    fn put(&self, digest: &TokenDigest, token: &Token) -> io::Result<()> {
        match self.write(digest, token) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn digests(&self) -> io::Result<Vec<TokenDigest>> {
        let entries = found(std::fs::read_dir(&self.dir))?.into_iter().flatten();
        let named = |entry: io::Result<std::fs::DirEntry>| match entry {
            Ok(entry) => entry.file_name().to_str()?.parse().ok().map(Ok),
            Err(e) => Some(Err(e)),
        };
        entries.filter_map(named).collect()
    }

    /// A file that cannot be read is left alone.
    fn expire(&self, now: f64) -> io::Result<usize> {
        let Some(entries) = found(std::fs::read_dir(&self.dir))? else {
            return Ok(0);
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry?;
            // It is being written.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if matches!(self.load(&entry.path(), now), Ok(None)) {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_no_follow(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.size() > MAX_SIZE {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut bytes)?;
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
            is_revoked: false,
        }
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalTokens::new(dir.path(), HashType::Sha256);
        let text = store.create(&token(100.0)).unwrap();
        assert_eq!(text.len(), 64);
        assert_eq!(store.get(&text, 99.9).unwrap(), Some(token(100.0)));
        let file = store.path(&TokenDigest::of(&text));
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        let kept = std::fs::read(&file).unwrap();
        let inside = kept.windows(64).any(|w| w == text.as_bytes());
        assert!(!inside && !file.ends_with(&text), "the token is not stored");
        assert_eq!(store.get(&text, 100.0).unwrap(), None);
        assert!(!file.exists(), "an ended token is removed");
        assert_eq!(store.get(&text, 60.0).unwrap(), None, "and stays so");
    }

    #[test]
    fn only_tokens_are_looked_up() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalTokens::new(dir.path(), HashType::Md5);
        let text = store.create(&token(100.0)).unwrap();
        assert_eq!(text.len(), 32);
        let named = store
            .path(&TokenDigest::of(&text))
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
    fn expired_and_damaged_tokens_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalTokens::new(dir.path(), HashType::Sha512);
        assert_eq!(store.expire(10.0).unwrap(), 0);
        let good = store.create(&token(100.0)).unwrap();
        store.create(&token(20.0)).unwrap();
        let bad = store.create(&token(100.0)).unwrap();
        std::fs::write(store.path(&TokenDigest::of(&bad)), b"\x81\xa6expire").unwrap();
        let mut endless = token(100.0);
        endless.expire = f64::NAN;
        store.create(&endless).unwrap();
        assert_eq!(store.digests().unwrap().len(), 4);
        assert_eq!(store.expire(60.0).unwrap(), 3);
        assert_eq!(store.digests().unwrap(), [TokenDigest::of(&good)]);
        assert!(store.get(&good, 60.0).unwrap().is_some());
    }
}
