//! RSA operations of the plugins: RSASSA-PKCS1-v1_5 signatures, and session keys in PKCS#1 blocks of both types.
//!
//! Blocks are built here and compared as a whole. Received blocks are never parsed, so that a
//! block with room for arbitrary bytes is never accepted as a signature.

use halite_crypto::{CryptoError, PrivateKey, PublicKey, Signing, constant_time_eq, fill_random};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

/// Bytes of a session key of the AES plugin: `random_key` of AES-256.
pub(super) const SESSION_KEY: usize = 32;

/// A session key of the AES plugin, wiped when dropped.
pub(super) type SessionKey = Zeroizing<[u8; SESSION_KEY]>;

/// DER of `DigestInfo` for SHA-256 up to the digest (RFC 8017, 9.2, note 1).
const SHA256_INFO: [u8; 19] = [
    0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05,
    0x00, 0x04, 0x20,
];

/// The hash of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// Of the SSL plugin (reference, section 5).
    Sha1,
    /// Of Choria (reference, section 14).
    Sha256,
}

/// Signs a message.
///
/// # Errors
/// The crypto library failed.
pub(super) fn sign(key: &PrivateKey, hash: Hash, message: &[u8]) -> Result<Vec<u8>, CryptoError> {
    match hash {
        Hash::Sha1 => match key.sign(Signing::Pkcs1v15Sha1, message) {
            signature if signature.is_empty() => {
                Err(CryptoError::Library("it did not sign".to_owned()))
            }
            signature => Ok(signature),
        },
        Hash::Sha256 => key.private_block(&type1(&sha256_info(message), key.public().size())),
    }
}

/// Whether this is a signature of the message by the private key.
pub(super) fn verify(key: &PublicKey, hash: Hash, message: &[u8], signature: &[u8]) -> bool {
    match hash {
        Hash::Sha1 => key.verify(Signing::Pkcs1v15Sha1, message, signature),
        Hash::Sha256 => {
            let expected = type1(&sha256_info(message), key.size());
            let block = key.public_op(signature);
            block.is_some_and(|block| constant_time_eq(&block, &expected))
        }
    }
}

/// Ruby's `private_encrypt`: anyone with the public key can decrypt it, and knows who encrypted it.
///
/// # Errors
/// The crypto library failed.
pub(super) fn private_encrypt(
    key: &PrivateKey,
    session: &SessionKey,
) -> Result<Vec<u8>, CryptoError> {
    key.private_block(&type1(session.as_slice(), key.public().size()))
}

/// Ruby's `public_decrypt` of a session key; `None` if it was not encrypted with the private key.
pub(super) fn public_decrypt(key: &PublicKey, data: &[u8]) -> Option<SessionKey> {
    let block = Zeroizing::new(key.public_op(data)?);
    let mut session = SessionKey::default();
    let start = block.len().checked_sub(SESSION_KEY)?;
    session.copy_from_slice(block.get(start..)?);
    let expected = Zeroizing::new(type1(session.as_slice(), key.size()));
    constant_time_eq(&block, &expected).then_some(session)
}

/// Ruby's `private_decrypt` of a session key. An invalid block gives random bytes in the same time, so that
/// this is not a padding oracle: the body then cannot be decrypted, as with a wrong key.
pub(super) fn private_decrypt(key: &PrivateKey, data: &[u8]) -> SessionKey {
    let public = key.public();
    let size = public.size();
    let fits = public.is_block(data);
    let mut session = SessionKey::default();
    fill_random(session.as_mut_slice());
    // One is a valid input of the operation.
    let mut one = vec![0; size];
    one[size - 1] = 1;
    let block = key.private_block(if fits { data } else { &one });
    let block = Zeroizing::new(block.unwrap_or(one));
    let (head, text) = block.split_at(size - SESSION_KEY);
    let (start, padding) = head.split_at(2);
    let Some((zero, padding)) = padding.split_last() else {
        return session;
    };
    let mut right = start.ct_eq(&[0, 2]) & zero.ct_eq(&0) & Choice::from(u8::from(fits));
    for octet in padding {
        right &= !octet.ct_eq(&0);
    }
    for (octet, found) in session.iter_mut().zip(text) {
        octet.conditional_assign(found, right);
    }
    session
}

/// A block of type 1, `k` bytes: `00 01 ff.. 00` and the text, which is far shorter than the shortest key.
fn type1(text: &[u8], k: usize) -> Vec<u8> {
    let mut block = vec![0xff; k];
    let at = k.saturating_sub(text.len());
    block[..2].copy_from_slice(&[0, 1]);
    block[at - 1] = 0;
    block[at..].copy_from_slice(text);
    block
}

fn sha256_info(message: &[u8]) -> Vec<u8> {
    [&SHA256_INFO[..], &Sha256::digest(message)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::rsa::{Padding, Rsa};
    use openssl::sign::{Signer, Verifier};

    fn pair() -> (PrivateKey, Rsa<openssl::pkey::Private>) {
        let rsa = Rsa::generate(1024).unwrap();
        let pem = String::from_utf8(rsa.private_key_to_pem().unwrap()).unwrap();
        (PrivateKey::from_pem(&pem).unwrap(), rsa)
    }

    #[test]
    fn signatures_are_those_of_openssl() {
        let (key, rsa) = pair();
        let pkey = PKey::from_rsa(rsa).unwrap();
        for (hash, digest) in [
            (Hash::Sha1, MessageDigest::sha1()),
            (Hash::Sha256, MessageDigest::sha256()),
        ] {
            let ours = sign(&key, hash, b"text").unwrap();
            let mut verifier = Verifier::new(digest, &pkey).unwrap();
            assert!(verifier.verify_oneshot(&ours, b"text").unwrap());
            let mut signer = Signer::new(digest, &pkey).unwrap();
            let theirs = signer.sign_oneshot_to_vec(b"text").unwrap();
            assert_eq!(ours, theirs);
            assert!(verify(&key.public(), hash, b"text", &theirs));
            assert!(!verify(&key.public(), hash, b"texT", &theirs));
            for at in 0..theirs.len() {
                let mut other = theirs.clone();
                other[at] ^= 1;
                assert!(!verify(&key.public(), hash, b"text", &other), "{at}");
            }
            for other in [&theirs[1..], &[], &[&theirs[..], &[0]].concat()] {
                assert!(!verify(&key.public(), hash, b"text", other));
            }
        }
    }

    #[test]
    fn session_keys_are_read_and_written_as_openssl_does() {
        let (key, rsa) = pair();
        let size = key.public().size();
        let mut session = SessionKey::default();
        fill_random(session.as_mut_slice());
        let mut out = vec![0; size];
        // Type 1, both ways.
        let ours = private_encrypt(&key, &session).unwrap();
        let len = rsa.public_decrypt(&ours, &mut out, Padding::PKCS1).unwrap();
        assert_eq!(&out[..len], session.as_slice());
        rsa.private_encrypt(session.as_slice(), &mut out, Padding::PKCS1)
            .unwrap();
        assert_eq!(public_decrypt(&key.public(), &out).unwrap(), session);
        // Type 2, both ways.
        let ours = key.public().encrypt_pkcs1v15(session.as_slice()).unwrap();
        let len = rsa
            .private_decrypt(&ours, &mut out, Padding::PKCS1)
            .unwrap();
        assert_eq!(&out[..len], session.as_slice());
        rsa.public_encrypt(session.as_slice(), &mut out, Padding::PKCS1)
            .unwrap();
        assert_eq!(private_decrypt(&key, &out), session);
    }

    #[test]
    fn other_blocks_give_no_session_key() {
        let (key, rsa) = pair();
        let size = key.public().size();
        let mut out = vec![0; size];
        // One byte too few or too many, and a block whose padding is short.
        for text in [vec![7; 31], vec![7; 33]] {
            rsa.private_encrypt(&text, &mut out, Padding::PKCS1)
                .unwrap();
            assert!(public_decrypt(&key.public(), &out).is_none());
            rsa.public_encrypt(&text, &mut out, Padding::PKCS1).unwrap();
            assert_ne!(private_decrypt(&key, &out).as_slice(), &text[..][..31]);
        }
        let mut block = vec![0; size];
        block[1] = 1;
        block[2..10].fill(0xff);
        block[size - 32..].fill(7);
        rsa.private_encrypt(&block, &mut out, Padding::NONE)
            .unwrap();
        assert!(public_decrypt(&key.public(), &out).is_none());
        for data in [&[][..], &[1], &vec![0xff; size], &vec![0; size]] {
            assert!(public_decrypt(&key.public(), data).is_none());
            assert_ne!(private_decrypt(&key, data), private_decrypt(&key, data));
        }
    }
}
