//! RSA with the `rsa` crate: works everywhere, several times slower than OpenSSL.
//!
//! The timing of its arithmetic depends on secrets (RUSTSEC-2023-0071), so every private operation is blinded with
//! fresh randomness and its result is checked.

use super::key::{Backend, PrivateOps, PublicOps, to_block};
use super::rng::rng;
use super::{CryptoError, Encryption};
use rsa::hazmat::{rsa_decrypt_and_check, rsa_encrypt};
use rsa::pkcs1::EncodeRsaPrivateKey;
use rsa::traits::PublicKeyParts;
use rsa::{BigUint, Oaep, RsaPrivateKey, RsaPublicKey};
use zeroize::Zeroizing;

/// The back end with the `rsa` crate.
#[derive(Debug)]
pub enum Portable {}

impl Backend for Portable {
    type Private = RsaPrivateKey;
    type Public = RsaPublicKey;
}

impl PrivateOps for RsaPrivateKey {
    fn generate(bits: usize) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        let key = RsaPrivateKey::new(&mut rng(), bits).map_err(library)?;
        Ok(key.to_pkcs1_der().map_err(library)?.to_bytes())
    }

    fn load(key: &RsaPrivateKey) -> Result<Self, CryptoError> {
        Ok(key.clone())
    }

    fn private_op(&self, block: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let x = BigUint::from_bytes_be(block);
        let y = rsa_decrypt_and_check(self, Some(&mut rng()), &x).map_err(library)?;
        Ok(to_block(&y, self.size()))
    }

    fn oaep_decrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        self.decrypt_blinded(&mut rng(), oaep(algorithm), data)
            .map_err(|_| CryptoError::Decrypt)
    }
}

impl PublicOps for RsaPublicKey {
    fn load(key: &RsaPublicKey) -> Result<Self, CryptoError> {
        Ok(key.clone())
    }

    fn public_op(&self, block: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let y = rsa_encrypt(self, &BigUint::from_bytes_be(block)).map_err(library)?;
        Ok(to_block(&y, self.size()))
    }

    fn oaep_encrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        self.encrypt(&mut rng(), oaep(algorithm), data)
            .map_err(library)
    }
}

fn oaep(algorithm: Encryption) -> Oaep {
    match algorithm {
        Encryption::OaepSha1 => Oaep::new::<sha1::Sha1>(),
        Encryption::OaepSha224 => Oaep::new::<sha2::Sha224>(),
    }
}

fn library(error: impl std::fmt::Display) -> CryptoError {
    CryptoError::Library(error.to_string())
}
