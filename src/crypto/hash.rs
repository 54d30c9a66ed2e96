//! Hashes by Salt's names, and key fingerprints.

use super::pem;
use sha2::digest::DynDigest;
use std::fmt;
use std::io;
use std::str::FromStr;

/// The values of `hash_type` that Salt's documentation lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HashType {
    /// MD5, only useful for old fingerprints.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256, Salt's default.
    #[default]
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// An unknown `hash_type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedHash(pub String);

/// A hash in progress, for data that arrives in chunks.
pub struct Hasher(Box<dyn DynDigest + Send>);

const ALL: [(HashType, &str); 6] = [
    (HashType::Md5, "md5"),
    (HashType::Sha1, "sha1"),
    (HashType::Sha224, "sha224"),
    (HashType::Sha256, "sha256"),
    (HashType::Sha384, "sha384"),
    (HashType::Sha512, "sha512"),
];

impl HashType {
    /// Salt's name for it.
    pub fn name(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Starts a hash.
    pub fn hasher(self) -> Hasher {
        Hasher(match self {
            HashType::Md5 => Box::new(md5::Md5::default()),
            HashType::Sha1 => Box::new(sha1::Sha1::default()),
            HashType::Sha224 => Box::new(sha2::Sha224::default()),
            HashType::Sha256 => Box::new(sha2::Sha256::default()),
            HashType::Sha384 => Box::new(sha2::Sha384::default()),
            HashType::Sha512 => Box::new(sha2::Sha512::default()),
        })
    }

    /// The hash of some bytes in lower-case hexadecimal.
    pub fn hex(self, data: &[u8]) -> String {
        let mut hasher = self.hasher();
        hasher.update(data);
        hasher.hex()
    }

    /// The hash of some bytes.
    pub fn digest(self, data: &[u8]) -> Vec<u8> {
        let mut hasher = self.hasher();
        hasher.update(data);
        hasher.0.finalize().into_vec()
    }

    /// The hash of everything a reader returns, read in chunks.
    ///
    /// # Errors
    /// Any error of the reader.
    pub fn hex_of(self, mut reader: impl io::Read) -> io::Result<String> {
        let mut hasher = self.hasher();
        io::copy(&mut reader, &mut hasher)?;
        Ok(hasher.hex())
    }

    /// The HMAC of `message` under `key`, which may have any length.
    pub fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        fn of<M: hmac::Mac + hmac::digest::KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
            let Ok(mut mac) = <M as hmac::Mac>::new_from_slice(key) else {
                return Vec::new();
            };
            mac.update(message);
            mac.finalize().into_bytes().to_vec()
        }
        match self {
            HashType::Md5 => of::<hmac::Hmac<md5::Md5>>(key, message),
            HashType::Sha1 => of::<hmac::Hmac<sha1::Sha1>>(key, message),
            HashType::Sha224 => of::<hmac::Hmac<sha2::Sha224>>(key, message),
            HashType::Sha256 => of::<hmac::Hmac<sha2::Sha256>>(key, message),
            HashType::Sha384 => of::<hmac::Hmac<sha2::Sha384>>(key, message),
            HashType::Sha512 => of::<hmac::Hmac<sha2::Sha512>>(key, message),
        }
    }
}

impl Hasher {
    /// Adds the next chunk.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// The hash of all chunks in lower-case hexadecimal.
    pub fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

impl io::Write for Hasher {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.update(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FromStr for HashType {
    type Err = UnsupportedHash;

    fn from_str(name: &str) -> Result<Self, UnsupportedHash> {
        ALL.iter()
            .find(|(_, n)| *n == name)
            .map(|(hash, _)| *hash)
            .ok_or_else(|| UnsupportedHash(name.to_owned()))
    }
}

impl fmt::Display for HashType {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Hasher")
    }
}

impl fmt::Display for UnsupportedHash {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "unknown hash_type {:?}: one of md5, sha1, sha224, sha256, sha384, sha512",
            self.0
        )
    }
}

impl std::error::Error for UnsupportedHash {}

/// The hexadecimal digest of `data` by a name of Python's `hashlib`; `None` for a name that this build does not
/// support. SHA-3 and BLAKE2 need the feature `openssl`.
pub fn hex_by_name(name: &str, data: &[u8]) -> Option<String> {
    if let Ok(hash) = name.parse::<HashType>() {
        return Some(hash.hex(data));
    }
    #[cfg(feature = "openssl")]
    {
        use openssl::hash::{MessageDigest, hash};
        let known = match name {
            "sha3_224" => MessageDigest::sha3_224(),
            "sha3_256" => MessageDigest::sha3_256(),
            "sha3_384" => MessageDigest::sha3_384(),
            "sha3_512" => MessageDigest::sha3_512(),
            "blake2b" => MessageDigest::from_name("blake2b512")?,
            "blake2s" => MessageDigest::from_name("blake2s256")?,
            _ => return None,
        };
        hash(known, data).ok().map(|digest| hex(&digest))
    }
    #[cfg(not(feature = "openssl"))]
    None
}

/// The fingerprint of a key, as `salt-call --local key.finger` prints it and `master_finger` expects it: the hash of
/// the lines between the PEM armour, each with its newline, as colon-separated pairs. Text that is not PEM is hashed as
/// a whole (`salt/utils/crypt.py pem_finger`).
pub fn finger(pem_text: &str, hash: HashType) -> String {
    in_pairs(&hash.hex(pem::fingerprint_text(pem_text).as_bytes()))
}

/// Joins pairs of hexadecimal digits with colons.
pub fn in_pairs(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() / 2 * 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && i % 2 == 0 {
            out.push(':');
        }
        out.push(digit);
    }
    out
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [b >> 4, b & 15])
        .map(|d| DIGITS[usize::from(d)] as char)
        .collect()
}

/// HMAC-SHA-256 of `message` under `key` in hexadecimal: proves possession of the key without revealing it.
pub fn hmac_hex(key: &[u8], message: &[u8]) -> String {
    hex(&HashType::Sha256.hmac(key, message))
}
