//! Private keys in the form of OpenSSH, encrypted or not.

use super::keys::{Kind, PublicKey, point_bytes};
use super::source::{self, LoadError, Loaded};
use super::wire::{Reader, Writer, string};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::x509::keys::failed;
use crate::execution::x509::source::to_pem;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use halite_wire::Value;
use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::ec::{EcGroup, EcKey};
use openssl::error::ErrorStack;
use openssl::pkey::{Id, PKey, PKeyRef, Private};
use openssl::rsa::RsaPrivateKeyBuilder;
use openssl::symm::{self, Cipher};

const LABEL: &str = "OPENSSH PRIVATE KEY";
const MAGIC: &[u8] = b"openssh-key-v1\0";
const NO_CIPHER: &str = "none";
const DERIVATION: &str = "bcrypt";
/// Blocks of keys that are not encrypted.
const BLOCK: usize = 8;
const NEW_SALT: usize = 16;
const NEW_ROUNDS: u32 = 16;
/// More rounds than anybody waits for: a key could ask for hours of work.
const MOST_ROUNDS: u32 = 1 << 11;
/// Bits of a private RSA key: checking a larger one takes minutes.
const MOST_PRIVATE_BITS: i32 = 8192;
/// The length of a tag of GCM.
const TAG: usize = 16;

/// A way of encryption.
struct Encryption {
    name: &'static str,
    cipher: fn() -> Cipher,
    is_tagged: bool,
}

/// The first of them is for new keys.
static CIPHERS: [Encryption; 3] = [
    Encryption {
        name: "aes256-ctr",
        cipher: Cipher::aes_256_ctr,
        is_tagged: false,
    },
    Encryption {
        name: "aes256-cbc",
        cipher: Cipher::aes_256_cbc,
        is_tagged: false,
    },
    Encryption {
        name: "aes256-gcm@openssh.com",
        cipher: Cipher::aes_256_gcm,
        is_tagged: true,
    },
];

impl Encryption {
    /// The key and the initialization vector that a passphrase gives.
    fn derive(&self, passphrase: &str, salt: &[u8], rounds: u32) -> Option<(Vec<u8>, Vec<u8>)> {
        let cipher = (self.cipher)();
        let vector = cipher.iv_len().unwrap_or_default();
        let mut key = vec![0; cipher.key_len() + vector];
        bcrypt_pbkdf::bcrypt_pbkdf(passphrase, salt, rounds, &mut key).ok()?;
        let vector = key.split_off(cipher.key_len());
        Some((key, vector))
    }

    fn run(
        &self,
        mode: symm::Mode,
        (key, vector): &(Vec<u8>, Vec<u8>),
        data: &[u8],
    ) -> Result<Vec<u8>, ErrorStack> {
        let cipher = (self.cipher)();
        let mut crypter = symm::Crypter::new(cipher, mode, key, Some(vector))?;
        // The format has padding of its own.
        crypter.pad(false);
        let mut out = vec![0; data.len() + cipher.block_size()];
        let mut length = crypter.update(data, &mut out)?;
        length += crypter.finalize(out.get_mut(length..).unwrap_or_default())?;
        out.truncate(length);
        Ok(out)
    }

    fn decrypt(&self, keys: &(Vec<u8>, Vec<u8>), data: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
        if self.is_tagged {
            let (key, vector) = keys;
            return symm::decrypt_aead((self.cipher)(), key, Some(vector), &[], data, tag).ok();
        }
        self.run(symm::Mode::Decrypt, keys, data).ok()
    }
}

const NOT_PRIVATE: LoadError = LoadError::Format("Could not load OpenSSH private key");

/// Loads a private key.
///
/// # Errors
/// It is none, or the passphrase does not fit.
pub fn load(from: &Value, passphrase: Option<&str>) -> Loaded<PKey<Private>> {
    let bytes = source::bytes(from)?;
    let blob = unarmoured(&bytes).ok_or(NOT_PRIVATE)?;
    let outer = Outer::read(&blob).ok_or(NOT_PRIVATE)?;
    let private = match (outer.encryption()?, passphrase) {
        (None, Some(_)) => return Err(LoadError::NotEncrypted),
        (None, None) => outer.private.to_vec(),
        (Some(_), None) => return Err(LoadError::NoPassphrase),
        (Some(encryption), Some(passphrase)) => outer.decrypt(encryption, passphrase)?,
    };
    let mut reader = Reader(&private);
    let checks = reader.u32().zip(reader.u32());
    let (one, other) = checks.ok_or(NOT_PRIVATE)?;
    if one != other {
        return Err(match passphrase {
            Some(_) => LoadError::WrongPassphrase,
            None => NOT_PRIVATE,
        });
    }
    let key = read_private(&mut reader).ok_or(NOT_PRIVATE)?;
    let public = PublicKey::of(&key).map_err(|_| NOT_PRIVATE)?;
    let outside = PublicKey::from_blob(outer.public);
    if outside.is_some_and(|outside| outside.is(&public)) {
        Ok(key)
    } else {
        Err(NOT_PRIVATE)
    }
}

/// What is between the lines that say what it is.
fn unarmoured(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, rest) = text.split_once(&format!("-----BEGIN {LABEL}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {LABEL}-----"))?;
    let body: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(body).ok()
}

/// The part of a key that is never encrypted.
struct Outer<'a> {
    cipher: &'a [u8],
    derivation: &'a [u8],
    options: Reader<'a>,
    public: &'a [u8],
    private: &'a [u8],
    tag: &'a [u8],
}

impl Outer<'_> {
    fn read(blob: &[u8]) -> Option<Outer<'_>> {
        let mut reader = Reader(blob.strip_prefix(MAGIC)?);
        let (cipher, derivation) = (reader.string()?, reader.string()?);
        let options = reader.inside()?;
        // There has never been a file with several keys.
        if reader.u32()? != 1 {
            return None;
        }
        Some(Outer {
            cipher,
            derivation,
            options,
            public: reader.string()?,
            private: reader.string()?,
            tag: reader.0,
        })
    }

    /// How it is encrypted, if it is.
    fn encryption(&self) -> Loaded<Option<&'static Encryption>> {
        if self.cipher == NO_CIPHER.as_bytes() {
            return Ok(None);
        }
        let mut all = CIPHERS.iter();
        match all.find(|one| one.name.as_bytes() == self.cipher) {
            Some(encryption) => Ok(Some(encryption)),
            None => Err(LoadError::unsupported("cipher", self.cipher)),
        }
    }

    fn decrypt(&self, encryption: &Encryption, passphrase: &str) -> Loaded<Vec<u8>> {
        if self.derivation != DERIVATION.as_bytes() {
            return Err(LoadError::unsupported("KDF", self.derivation));
        }
        let mut options = self.options;
        let (salt, rounds) = options
            .string()
            .zip(options.u32())
            .filter(|(_, rounds)| *rounds <= MOST_ROUNDS)
            .ok_or(NOT_PRIVATE)?;
        if self.tag.len() != if encryption.is_tagged { TAG } else { 0 } {
            return Err(NOT_PRIVATE);
        }
        // An empty passphrase gives no key.
        let keys = encryption
            .derive(passphrase, salt, rounds)
            .ok_or(LoadError::WrongPassphrase)?;
        let decrypted = encryption.decrypt(&keys, self.private, self.tag);
        decrypted.ok_or(LoadError::WrongPassphrase)
    }
}

/// The key, its comment and the padding.
fn read_private(reader: &mut Reader<'_>) -> Option<PKey<Private>> {
    let key = match Kind::named(reader.string()?)? {
        Kind::Rsa => {
            let (n, e, d) = (reader.number()?, reader.number()?, reader.number()?);
            let (inverse, p, q) = (reader.number()?, reader.number()?, reader.number()?);
            rsa([n, e, d, inverse, p, q]).ok()??
        }
        Kind::Ec(curve) => {
            if reader.string()? != curve.name.as_bytes() {
                return None;
            }
            let (point, number) = (reader.string()?, reader.number()?);
            let public =
                Kind::Ec(curve).read(&mut Reader(&[string(curve.name), string(point)].concat()))?;
            let make = || -> Result<_, ErrorStack> {
                let group = EcGroup::from_curve_name(curve.nid)?;
                let public = public.key.ec_key()?;
                let key = EcKey::from_private_components(&group, &number, public.public_key())?;
                key.check_key()?;
                PKey::from_ec_key(key)
            };
            make().ok()?
        }
        Kind::Ed25519 => {
            let (public, both) = (reader.string()?, reader.string()?);
            let (seed, again) = both.split_at_checked(32)?;
            let key = PKey::private_key_from_raw_bytes(seed, Id::ED25519).ok()?;
            let is_its = key.raw_public_key().is_ok_and(|own| own == public);
            if !is_its || again != public {
                return None;
            }
            key
        }
    };
    // The comment.
    reader.string()?;
    let mut padding = reader.0.iter().zip(1u8..16);
    let is_padding = reader.0.len() < 16 && padding.all(|(byte, at)| *byte == at);
    is_padding.then_some(key)
}

type Numbers = [BigNum; 6];

fn rsa([n, e, d, inverse, p, q]: Numbers) -> Result<Option<PKey<Private>>, ErrorStack> {
    if [&n, &e, &d, &p, &q]
        .iter()
        .any(|b| b.num_bits() > MOST_PRIVATE_BITS)
    {
        return Ok(None);
    }
    let mut context = BigNumContext::new()?;
    // Before the search for divisors, which takes a minute for large numbers.
    let mut product = BigNum::new()?;
    product.checked_mul(&p, &q, &mut context)?;
    if product != n {
        return Ok(None);
    }
    let mut rest = |prime: &BigNumRef| -> Result<BigNum, ErrorStack> {
        let mut less = prime.to_owned()?;
        less.sub_word(1)?;
        let mut rest = BigNum::new()?;
        rest.nnmod(&d, &less, &mut context)?;
        Ok(rest)
    };
    let (of_p, of_q) = (rest(&p)?, rest(&q)?);
    let key = RsaPrivateKeyBuilder::new(n, e, d)?
        .set_factors(p, q)?
        .set_crt_params(of_p, of_q, inverse)?
        .build();
    if !key.check_key()? {
        return Ok(None);
    }
    PKey::from_rsa(key).map(Some)
}

/// A private key in the form of OpenSSH.
///
/// # Errors
/// The passphrase is empty.
pub fn encode(key: &PKeyRef<Private>, passphrase: Option<&str>) -> Result<String> {
    if passphrase == Some("") {
        let text = "Password must be 1 or more bytes.";
        return Err(CallError::raised("ValueError", text));
    }
    let mut private = inner(key)?;
    let block = passphrase.map_or(BLOCK, |_| NEW_SALT);
    let missing = private.len().next_multiple_of(block) - private.len();
    private.extend((1u8..).take(missing));
    let mut outer = Writer(MAGIC.to_vec());
    match passphrase {
        None => {
            outer.string(NO_CIPHER).string(NO_CIPHER).string("");
        }
        Some(passphrase) => {
            let salt: [u8; NEW_SALT] = rand::random();
            let mut options = Writer::default();
            options.string(salt).u32(NEW_ROUNDS);
            let [new, ..] = &CIPHERS;
            outer.string(new.name).string(DERIVATION).string(options.0);
            let keys = new
                .derive(passphrase, &salt, NEW_ROUNDS)
                .ok_or_else(|| CallError::raised("ValueError", "The passphrase cannot be used."))?;
            let encrypted = new.run(symm::Mode::Encrypt, &keys, &private);
            private = encrypted.map_err(failed)?;
        }
    }
    outer.u32(1).string(PublicKey::of(key)?.blob()?);
    outer.string(private);
    Ok(to_pem(LABEL, &outer.0))
}

/// The part that is encrypted, without padding.
fn inner(key: &PKeyRef<Private>) -> Result<Vec<u8>> {
    let kind = PublicKey::of(key)?.kind;
    let check: u32 = rand::random();
    let write = || -> Result<Vec<u8>, ErrorStack> {
        let mut writer = Writer::default();
        writer.u32(check).u32(check).string(kind.name());
        match kind {
            Kind::Rsa => {
                let rsa = key.rsa()?;
                writer.number(rsa.n()).number(rsa.e()).number(rsa.d());
                for part in [rsa.iqmp(), rsa.p(), rsa.q()] {
                    writer.number(part.ok_or_else(ErrorStack::get)?);
                }
            }
            Kind::Ec(curve) => {
                let ec = key.ec_key()?;
                writer.string(curve.name).string(point_bytes(&ec)?);
                writer.number(ec.private_key());
            }
            Kind::Ed25519 => {
                let public = key.raw_public_key()?;
                let both = [key.raw_private_key()?, public.clone()].concat();
                writer.string(public).string(both);
            }
        }
        // No comment.
        writer.string("");
        Ok(writer.0)
    };
    write().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::x509::keys::generate;

    #[test]
    fn keys_of_all_kinds() {
        for (kind, size) in [
            ("rsa", None),
            ("ec", None),
            ("ec", Some(384)),
            ("ec", Some(521)),
            ("ed25519", None),
        ] {
            let key = generate(kind, size).unwrap();
            let text = encode(&key, None).unwrap();
            let again = load(&text.clone().into(), None).unwrap();
            assert!(again.public_eq(&key), "{kind}");
            let locked = encode(&key, Some("secret")).unwrap();
            let again = load(&locked.clone().into(), Some("secret")).unwrap();
            assert!(again.public_eq(&key), "{kind}");
            let fault = |text: &str, pass| load(&text.into(), pass).unwrap_err();
            assert!(matches!(fault(&locked, None), LoadError::NoPassphrase));
            let wrong = fault(&locked, Some("wrong"));
            assert!(matches!(wrong, LoadError::WrongPassphrase));
            assert!(matches!(fault(&text, Some("x")), LoadError::NotEncrypted));
        }
    }

    #[test]
    fn damaged_keys_are_refused() {
        let key = generate("ed25519", None).unwrap();
        let blob = unarmoured(encode(&key, None).unwrap().as_bytes()).unwrap();
        for at in 0..blob.len() {
            let cut = to_pem(LABEL, blob.get(..at).unwrap());
            assert!(load(&cut.into(), None).is_err(), "{at}");
            let mut other = blob.clone();
            other[at] ^= 0x81;
            // Whatever it is, it does not panic.
            let _ = load(&to_pem(LABEL, &other).into(), None);
        }
    }
}
