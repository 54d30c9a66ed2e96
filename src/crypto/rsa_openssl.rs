//! RSA with the system's OpenSSL, which does blinding and constant-time arithmetic itself.

use super::key::{Backend, PrivateOps, PublicOps};
use super::{CryptoError, Encryption};
use openssl::bn::BigNum;
use openssl::error::ErrorStack;
use openssl::md::{Md, MdRef};
use openssl::pkey::{HasPublic, PKey, Private, Public};
use openssl::pkey_ctx::PkeyCtx;
use openssl::rsa::{Padding, Rsa};
use rsa::traits::{PrivateKeyParts, PublicKeyParts};
use rsa::{BigUint, RsaPrivateKey, RsaPublicKey};
use zeroize::Zeroizing;

/// The OpenSSL back end.
#[derive(Debug)]
pub enum OpenSsl {}

/// A key for both interfaces of OpenSSL.
#[derive(Debug)]
pub struct Key<T> {
    /// For the old interface, which does the raw operations.
    rsa: Rsa<T>,
    /// For the new one, which converts the key at the first use and caches the result.
    pkey: PKey<T>,
}

impl<T> Key<T> {
    fn new(rsa: Rsa<T>) -> Result<Self, CryptoError> {
        let pkey = PKey::from_rsa(rsa.clone()).map_err(library)?;
        Ok(Self { rsa, pkey })
    }
}

impl Backend for OpenSsl {
    type Private = Key<Private>;
    type Public = Key<Public>;
}

impl PrivateOps for Key<Private> {
    fn generate(bits: usize) -> Result<Zeroizing<Vec<u8>>, CryptoError> {
        let bits = u32::try_from(bits).map_err(|_| CryptoError::KeySize(bits))?;
        let key = Rsa::generate(bits).map_err(library)?;
        key.private_key_to_der()
            .map(Zeroizing::new)
            .map_err(library)
    }

    fn load(key: &RsaPrivateKey) -> Result<Self, CryptoError> {
        let wrong = || CryptoError::BadKey("its primes are not usable for RSA");
        let [p, q] = key.primes() else {
            return Err(wrong());
        };
        let dp = key.dp().ok_or_else(wrong)?;
        let dq = key.dq().ok_or_else(wrong)?;
        let qinv = key.crt_coefficient().ok_or_else(wrong)?;
        let parts = [key.n(), key.e(), key.d(), p, q, dp, dq, &qinv];
        let [n, e, d, p, q, dp, dq, qinv] = parts.map(number);
        Rsa::from_private_components(n?, e?, d?, p?, q?, dp?, dq?, qinv?)
            .map_err(library)
            .and_then(Key::new)
    }

    fn private_op(&self, block: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let mut out = vec![0; block.len()];
        self.rsa
            .private_encrypt(block, &mut out, Padding::NONE)
            .map_err(library)?;
        Ok(out)
    }

    fn oaep_decrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let out = match algorithm {
            Encryption::OaepSha1 => oaep_sha1_decrypt(&self.rsa, data),
            Encryption::OaepSha224 => oaep_decrypt(&self.pkey, Md::sha224(), data),
        };
        out.map_err(|_| CryptoError::Decrypt)
    }
}

impl PublicOps for Key<Public> {
    fn load(key: &RsaPublicKey) -> Result<Self, CryptoError> {
        Rsa::from_public_components(number(key.n())?, number(key.e())?)
            .map_err(library)
            .and_then(Key::new)
    }

    fn public_op(&self, block: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let mut out = vec![0; block.len()];
        self.rsa
            .public_decrypt(block, &mut out, Padding::NONE)
            .map_err(library)?;
        Ok(out)
    }

    fn oaep_encrypt(&self, algorithm: Encryption, data: &[u8]) -> Result<Vec<u8>, CryptoError> {
        match algorithm {
            Encryption::OaepSha1 => oaep_sha1_encrypt(&self.rsa, data),
            Encryption::OaepSha224 => oaep_encrypt(&self.pkey, Md::sha224(), data),
        }
        .map_err(library)
    }
}

/// The old interface can only do OAEP with SHA-1, but is faster.
fn oaep_sha1_encrypt(key: &Rsa<Public>, data: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let mut out = vec![0; key.size() as usize];
    key.public_encrypt(data, &mut out, Padding::PKCS1_OAEP)?;
    Ok(out)
}

fn oaep_sha1_decrypt(key: &Rsa<Private>, data: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let mut out = vec![0; key.size() as usize];
    let len = key.private_decrypt(data, &mut out, Padding::PKCS1_OAEP)?;
    out.truncate(len);
    Ok(out)
}

fn oaep_encrypt(key: &PKey<Public>, md: &MdRef, data: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let mut ctx = PkeyCtx::new(key)?;
    ctx.encrypt_init()?;
    set_oaep(&mut ctx, md)?;
    let mut out = Vec::new();
    ctx.encrypt_to_vec(data, &mut out)?;
    Ok(out)
}

fn oaep_decrypt(key: &PKey<Private>, md: &MdRef, data: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let mut ctx = PkeyCtx::new(key)?;
    ctx.decrypt_init()?;
    set_oaep(&mut ctx, md)?;
    let mut out = Vec::new();
    ctx.decrypt_to_vec(data, &mut out)?;
    Ok(out)
}

fn set_oaep<T: HasPublic>(ctx: &mut PkeyCtx<T>, md: &MdRef) -> Result<(), ErrorStack> {
    ctx.set_rsa_padding(Padding::PKCS1_OAEP)?;
    ctx.set_rsa_oaep_md(md)?;
    ctx.set_rsa_mgf1_md(md)
}

/// A number in memory that OpenSSL wipes when it is freed.
fn number(x: &BigUint) -> Result<BigNum, CryptoError> {
    let bytes = Zeroizing::new(x.to_bytes_be());
    let mut number = BigNum::new_secure().map_err(library)?;
    number.copy_from_slice(&bytes).map_err(library)?;
    Ok(number)
}

fn library(error: ErrorStack) -> CryptoError {
    CryptoError::Library(error.to_string())
}
