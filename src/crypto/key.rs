//! RSA keys, independent of the library that does the arithmetic.

use super::error::{MAX_BITS, MIN_BITS};
use super::{CryptoError, Encryption, Signing, constant_time_eq, padding, pem};
use rsa::pkcs1::{DecodeRsaPrivateKey, EncodeRsaPrivateKey, der::Decode};
use rsa::pkcs8::{EncodePublicKey, ObjectIdentifier, PrivateKeyInfo, SubjectPublicKeyInfoRef};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{BigUint, RsaPrivateKey, RsaPublicKey};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Longer public exponents are refused.
const MAX_EXPONENT_BITS: usize = 32;
/// Maximum difference in length of the two primes of a key, in bits.
const MAX_UNBALANCE: usize = 8;

/// A library that implements RSA. Only the two back ends implement this.
pub trait Backend: 'static {
    /// The library's private key.
    type Private: PrivateOps;
    /// The library's public key.
    type Public: PublicOps;
}

/// Operations of a library with a private key. Blocks are as long as the modulus.
pub trait PrivateOps: Sized + Send + Sync {
    /// Generates a key with exponent 65537 and returns its PKCS#1 DER document.
    fn generate(bits: usize) -> Result<Zeroizing<Vec<u8>>, CryptoError>;
    /// Loads a key that has been checked.
    fn load(key: &RsaPrivateKey) -> Result<Self, CryptoError>;
    /// The raw private operation, blinded, its result checked.
    fn private_op(&self, block: &[u8]) -> Result<Vec<u8>, CryptoError>;
    /// RSAES-OAEP; every failure is [`CryptoError::Decrypt`].
    fn oaep_decrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError>;
}

/// Operations of a library with a public key. Blocks are as long as the modulus.
pub trait PublicOps: Sized + Send + Sync {
    /// Loads a key that has been checked.
    fn load(key: &RsaPublicKey) -> Result<Self, CryptoError>;
    /// The raw public operation on a block smaller than the modulus.
    fn public_op(&self, block: &[u8]) -> Result<Vec<u8>, CryptoError>;
    /// RSAES-OAEP of data that is known to fit.
    fn oaep_encrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError>;
}

/// An RSA key pair. Cheap to clone, shared between threads.
pub struct RsaPrivate<B: Backend>(Arc<Private<B>>);

struct Private<B: Backend> {
    key: B::Private,
    der: Zeroizing<Vec<u8>>,
    public: RsaPublic<B>,
}

/// An RSA public key. Cheap to clone, shared between threads.
pub struct RsaPublic<B: Backend>(Arc<Public<B>>);

struct Public<B: Backend> {
    key: B::Public,
    parts: RsaPublicKey,
}

impl<B: Backend> RsaPrivate<B> {
    /// Generates a key with public exponent 65537 (`salt/crypt.py gen_keys`).
    ///
    /// # Errors
    /// If `bits` (Salt's `keysize`) is out of bounds, or the library fails.
    pub fn generate(bits: usize) -> Result<Self, CryptoError> {
        check_size(bits)?;
        Self::from_pkcs1(&B::Private::generate(bits)?)
    }

    /// Reads a private key: `BEGIN RSA PRIVATE KEY` (PKCS#1, what Salt writes) or
    /// `BEGIN PRIVATE KEY` (PKCS#8). Parse once, keep the key.
    ///
    /// # Errors
    /// If it is not such a PEM, has a passphrase, is inconsistent or out of bounds.
    pub fn from_pem(text: &str) -> Result<Self, CryptoError> {
        Self::from_document(&pem::decode(text)?)
    }

    pub(super) fn from_document(pem: &pem::Pem) -> Result<Self, CryptoError> {
        match pem.label.as_str() {
            "RSA PRIVATE KEY" => Self::from_pkcs1(&pem.der),
            "PRIVATE KEY" => Self::from_pkcs1(pkcs8_key(&pem.der)?),
            "ENCRYPTED PRIVATE KEY" => Err(CryptoError::Encrypted),
            "PUBLIC KEY" | "RSA PUBLIC KEY" => Err(CryptoError::BadPem(
                "this is a public key, but a private key is needed",
            )),
            _ => Err(CryptoError::BadPem("this is not an RSA private key")),
        }
    }

    fn from_pkcs1(der: &[u8]) -> Result<Self, CryptoError> {
        let key = RsaPrivateKey::from_pkcs1_der(der)
            .map_err(|_| CryptoError::BadKey("its numbers are inconsistent"))?;
        let public = RsaPublic::from_rsa(key.to_public_key())?;
        check_primes(&key)?;
        let der = key
            .to_pkcs1_der()
            .map_err(|_| CryptoError::BadKey("it cannot be written out again"))?;
        let key = B::Private::load(&key)?;
        Ok(Self(Arc::new(Private {
            key,
            der: der.to_bytes(),
            public,
        })))
    }

    /// The key in Salt's format: `BEGIN RSA PRIVATE KEY`, PKCS#1. Wiped when dropped.
    pub fn to_pem(&self) -> Zeroizing<String> {
        pem::encode("RSA PRIVATE KEY", &self.0.der)
    }

    /// The public half.
    pub fn public(&self) -> RsaPublic<B> {
        self.0.public.clone()
    }

    /// Signs a message. The same input gives the same signature.
    ///
    /// If the crypto library itself fails (out of memory, broken hardware), the failure is logged and the result is
    /// empty, which no peer accepts.
    pub fn sign(&self, algorithm: Signing, message: &[u8]) -> Vec<u8> {
        let block = padding::pkcs1v15(algorithm, message, self.0.public.size());
        self.private_op(&block)
    }

    /// The raw X9.31 operation that Salt uses for `tok` and for the digest in the auth reply (`salt/utils/rsax931.py`;
    /// reference 2.4).
    ///
    /// Empty if the message has more than `bits / 8 - 2` bytes, or if the library fails as in [`Self::sign`].
    pub fn x931_sign(&self, message: &[u8]) -> Vec<u8> {
        let public = &self.0.public;
        let Some(block) = padding::x931(message, public.size()) else {
            log::error!("{} bytes do not fit an X9.31 block", message.len());
            return Vec::new();
        };
        let x = self.private_op(&block);
        if x.is_empty() {
            return x;
        }
        let other = public.minus(&x);
        x.min(other)
    }

    /// Decrypts the result of [`RsaPublic::encrypt`].
    ///
    /// # Errors
    /// [`CryptoError::Decrypt`], whatever the reason.
    pub fn decrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        if data.len() != self.0.public.size() {
            return Err(CryptoError::Decrypt);
        }
        self.0.key.oaep_decrypt(algorithm, data)
    }

    /// The raw private operation on a block smaller than the modulus.
    pub fn private_block(&self, block: &[u8]) -> Result<Vec<u8>, CryptoError> {
        self.0.key.private_op(block)
    }

    fn private_op(&self, block: &[u8]) -> Vec<u8> {
        self.private_block(block).unwrap_or_else(|error| {
            log::error!("cannot sign: {error}");
            Vec::new()
        })
    }
}

impl<B: Backend> RsaPublic<B> {
    /// Reads a public key: `BEGIN PUBLIC KEY` (what Salt writes) or
    /// `BEGIN RSA PUBLIC KEY` (PKCS#1). Parse once, keep the key.
    ///
    /// # Errors
    /// If it is not such a PEM, or the key is out of bounds.
    pub fn from_pem(text: &str) -> Result<Self, CryptoError> {
        Self::from_document(&pem::decode(text)?)
    }

    pub(super) fn from_document(pem: &pem::Pem) -> Result<Self, CryptoError> {
        match pem.label.as_str() {
            "PUBLIC KEY" => Self::from_pkcs1(spki_key(&pem.der)?),
            "RSA PUBLIC KEY" => Self::from_pkcs1(&pem.der),
            "RSA PRIVATE KEY" | "PRIVATE KEY" | "ENCRYPTED PRIVATE KEY" => Err(
                CryptoError::BadPem("this is a private key, but a public key is needed"),
            ),
            _ => Err(CryptoError::BadPem("this is not an RSA public key")),
        }
    }

    fn from_pkcs1(der: &[u8]) -> Result<Self, CryptoError> {
        let key = rsa::pkcs1::RsaPublicKey::from_der(der)
            .map_err(|_| CryptoError::BadPem("the document inside is not an RSA public key"))?;
        Self::from_rsa(RsaPublicKey::new_unchecked(
            BigUint::from_bytes_be(key.modulus.as_bytes()),
            BigUint::from_bytes_be(key.public_exponent.as_bytes()),
        ))
    }

    fn from_rsa(parts: RsaPublicKey) -> Result<Self, CryptoError> {
        check_size(parts.n().bits())?;
        check_exponent(parts.e())?;
        if !is_odd(parts.n()) {
            return Err(CryptoError::BadKey("its modulus is even"));
        }
        let key = B::Public::load(&parts)?;
        Ok(Self(Arc::new(Public { key, parts })))
    }

    /// The key in Salt's format: `BEGIN PUBLIC KEY`, with a newline at the end. What peers send is its
    /// [`super::clean_key`].
    pub fn to_pem(&self) -> String {
        let der = self.0.parts.to_public_key_der();
        let der = der.as_ref().map_or(&[][..], |d| d.as_bytes());
        pem::encode("PUBLIC KEY", der).to_string()
    }

    /// Length of the modulus in bits.
    pub fn bits(&self) -> usize {
        self.0.parts.n().bits()
    }

    /// Length in bytes of the modulus, and of every signature and cipher text.
    pub fn size(&self) -> usize {
        self.0.parts.size()
    }

    /// Whether this is a signature of the message by the private key.
    pub fn verify(&self, algorithm: Signing, message: &[u8], signature: &[u8]) -> bool {
        let expected = padding::pkcs1v15(algorithm, message, self.size());
        self.public_op(signature)
            .is_some_and(|block| constant_time_eq(&block, &expected))
    }

    /// Encrypts a short text, such as a key string, for the private key.
    ///
    /// # Errors
    /// If it is too long for the key, or if the library fails.
    pub fn encrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let max = self.size() - 2 * algorithm.hash_len() - 2;
        if data.len() > max {
            let len = data.len();
            return Err(CryptoError::TooLong { len, max });
        }
        self.0.key.oaep_encrypt(algorithm, data)
    }

    /// Whether this key made the `tok` of a request (reference 6.2).
    pub fn made_tok(&self, tok: &[u8]) -> bool {
        self.x931_recover(tok).as_deref() == Some(b"salt")
    }

    /// The message in a result of [`RsaPrivate::x931_sign`]; `None` if another key made it. The caller must compare the
    /// message in constant time.
    pub fn x931_recover(&self, signature: &[u8]) -> Option<Vec<u8>> {
        let y = self.public_op(signature)?;
        let block = match y.last()? & 15 {
            12 => y,
            _ => self.minus(&y),
        };
        padding::x931_message(&block).map(<[u8]>::to_vec)
    }

    /// The raw public operation; `None` unless the input [is a block](Self::is_block).
    pub fn public_op(&self, block: &[u8]) -> Option<Vec<u8>> {
        self.is_block(block)
            .then(|| self.0.key.public_op(block).ok())?
    }

    /// Whether a block is as long as the modulus and smaller than it.
    pub fn is_block(&self, block: &[u8]) -> bool {
        block.len() == self.size() && BigUint::from_bytes_be(block) < *self.0.parts.n()
    }

    /// Modulus and exponent.
    pub(super) fn parts(&self) -> &RsaPublicKey {
        &self.0.parts
    }

    /// Modulus minus `x`, for an `x` below it.
    fn minus(&self, x: &[u8]) -> Vec<u8> {
        to_block(&(self.0.parts.n() - BigUint::from_bytes_be(x)), self.size())
    }
}

/// A number as a big-endian block of `k` bytes.
pub(super) fn to_block(x: &BigUint, k: usize) -> Vec<u8> {
    let bytes = x.to_bytes_be();
    let mut block = vec![0; k.saturating_sub(bytes.len())];
    block.extend_from_slice(&bytes);
    block
}

/// The PKCS#1 document inside a PKCS#8 one.
fn pkcs8_key(der: &[u8]) -> Result<&[u8], CryptoError> {
    let info = PrivateKeyInfo::try_from(der)
        .map_err(|_| CryptoError::BadPem("the document inside is not a private key"))?;
    check_kind(info.algorithm.oid)?;
    Ok(info.private_key)
}

/// The PKCS#1 document inside a SubjectPublicKeyInfo.
fn spki_key(der: &[u8]) -> Result<&[u8], CryptoError> {
    let wrong = CryptoError::BadPem("the document inside is not an RSA public key");
    let Ok(spki) = SubjectPublicKeyInfoRef::try_from(der) else {
        return Err(wrong);
    };
    check_kind(spki.algorithm.oid)?;
    spki.subject_public_key.as_bytes().ok_or(wrong)
}

fn check_kind(oid: ObjectIdentifier) -> Result<(), CryptoError> {
    if oid != rsa::pkcs1::ALGORITHM_OID {
        return Err(CryptoError::BadPem(
            "this is neither an RSA nor an Ed25519 key",
        ));
    }
    Ok(())
}

/// Whole bytes only: X9.31 blocks of other keys may exceed the modulus.
fn check_size(bits: usize) -> Result<(), CryptoError> {
    if !(MIN_BITS..=MAX_BITS).contains(&bits) || !bits.is_multiple_of(8) {
        return Err(CryptoError::KeySize(bits));
    }
    Ok(())
}

fn check_exponent(e: &BigUint) -> Result<(), CryptoError> {
    if e.bits() < 2 || e.bits() > MAX_EXPONENT_BITS || !is_odd(e) {
        return Err(CryptoError::Exponent);
    }
    Ok(())
}

/// Primes of very different size make the portable back end arbitrarily slow.
fn check_primes(key: &RsaPrivateKey) -> Result<(), CryptoError> {
    let [p, q] = key.primes() else {
        return Err(CryptoError::BadKey("it does not have exactly two primes"));
    };
    if p.bits().abs_diff(q.bits()) > MAX_UNBALANCE || key.qinv().is_none() {
        return Err(CryptoError::BadKey("its primes are not usable for RSA"));
    }
    Ok(())
}

fn is_odd(x: &BigUint) -> bool {
    x.to_bytes_le().first().is_some_and(|b| b & 1 == 1)
}

impl<B: Backend> Clone for RsaPrivate<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> Clone for RsaPublic<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> PartialEq for RsaPublic<B> {
    fn eq(&self, other: &Self) -> bool {
        self.0.parts == other.0.parts
    }
}

impl<B: Backend> Eq for RsaPublic<B> {}

impl<B: Backend> fmt::Debug for RsaPrivate<B> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("RsaPrivate(***)")
    }
}

impl<B: Backend> fmt::Debug for RsaPublic<B> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "RsaPublic({} bits)", self.bits())
    }
}
