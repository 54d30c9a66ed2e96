//! Algorithm names as sent in `enc_algo` and `sig_algo`.

use std::fmt;
use std::str::FromStr;

/// RSA encryption of a key string (`salt/crypt.py VALID_ENCRYPTION_ALGORITHMS`). The hash is used for both the label
/// and MGF1; the label is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encryption {
    /// RSAES-OAEP with SHA-1.
    #[default]
    OaepSha1,
    /// RSAES-OAEP with SHA-224.
    OaepSha224,
}

/// RSA signature schemes (`salt/crypt.py VALID_SIGNING_ALGORITHMS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Signing {
    /// RSASSA-PKCS1-v1_5 with SHA-1.
    #[default]
    Pkcs1v15Sha1,
    /// RSASSA-PKCS1-v1_5 with SHA-224.
    Pkcs1v15Sha224,
}

/// A name that is not one of Salt's four algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedAlgorithm(pub String);

impl Encryption {
    /// Salt's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Encryption::OaepSha1 => "OAEP-SHA1",
            Encryption::OaepSha224 => "OAEP-SHA224",
        }
    }

    /// Length of the hash in bytes.
    pub(super) fn hash_len(self) -> usize {
        match self {
            Encryption::OaepSha1 => 20,
            Encryption::OaepSha224 => 28,
        }
    }
}

impl Signing {
    /// Salt's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Signing::Pkcs1v15Sha1 => "PKCS1v15-SHA1",
            Signing::Pkcs1v15Sha224 => "PKCS1v15-SHA224",
        }
    }
}

impl FromStr for Encryption {
    type Err = UnsupportedAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnsupportedAlgorithm> {
        match name {
            "OAEP-SHA1" => Ok(Encryption::OaepSha1),
            "OAEP-SHA224" => Ok(Encryption::OaepSha224),
            _ => Err(UnsupportedAlgorithm(name.to_owned())),
        }
    }
}

impl FromStr for Signing {
    type Err = UnsupportedAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnsupportedAlgorithm> {
        match name {
            "PKCS1v15-SHA1" => Ok(Signing::Pkcs1v15Sha1),
            "PKCS1v15-SHA224" => Ok(Signing::Pkcs1v15Sha224),
            _ => Err(UnsupportedAlgorithm(name.to_owned())),
        }
    }
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Signing {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for UnsupportedAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "unsupported algorithm {:?}: encryption_algorithm is one of OAEP-SHA1, OAEP-SHA224; \
             signing_algorithm one of PKCS1v15-SHA1, PKCS1v15-SHA224",
            self.0
        )
    }
}

impl std::error::Error for UnsupportedAlgorithm {}
