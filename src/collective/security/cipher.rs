//! AES-256-CBC with key and IV derived from a session key as in Ruby's `pkcs5_keyivgen` (reference, section 6).

use super::rsa::SessionKey;
use aes::Aes256;
use aes::cipher::block_padding::Pkcs7;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use md5::{Digest, Md5};
use zeroize::Zeroizing;

/// Rounds of MD5 for each block.
const ROUNDS: usize = 2048;
/// Bytes of the key.
const KEY: usize = 32;
/// Bytes of the IV.
const VECTOR: usize = 16;

/// Key and IV.
struct Derived {
    key: Zeroizing<[u8; KEY]>,
    vector: [u8; VECTOR],
}

/// `EVP_BytesToKey` with MD5 and without a salt: each block is the iterated hash of the previous block and the
/// session key.
fn derive(session: &SessionKey) -> Derived {
    let mut pieces = Zeroizing::new([0; KEY + VECTOR]);
    let mut before: Zeroizing<[u8; 16]> = Zeroizing::default();
    for (number, piece) in pieces.chunks_exact_mut(16).enumerate() {
        let mut hash = Md5::new();
        if number > 0 {
            hash.update(before.as_slice());
        }
        hash.update(session.as_slice());
        before.copy_from_slice(&hash.finalize());
        for _ in 1..ROUNDS {
            let next = Md5::digest(before.as_slice());
            before.copy_from_slice(&next);
        }
        piece.copy_from_slice(before.as_slice());
    }
    let mut derived = Derived {
        key: Zeroizing::default(),
        vector: [0; VECTOR],
    };
    derived.key.copy_from_slice(&pieces[..KEY]);
    derived.vector.copy_from_slice(&pieces[KEY..]);
    derived
}

/// Encrypts a text.
pub(super) fn encrypt(session: &SessionKey, text: &[u8]) -> Vec<u8> {
    let derived = derive(session);
    let cipher =
        cbc::Encryptor::<Aes256>::new(derived.key.as_slice().into(), &derived.vector.into());
    cipher.encrypt_padded_vec_mut::<Pkcs7>(text)
}

/// Decrypts a text; `None` if it was not encrypted with this key. Success does not prove that it is genuine.
pub(super) fn decrypt(session: &SessionKey, data: &[u8]) -> Option<Vec<u8>> {
    let derived = derive(session);
    let cipher =
        cbc::Decryptor::<Aes256>::new(derived.key.as_slice().into(), &derived.vector.into());
    cipher.decrypt_padded_vec_mut::<Pkcs7>(data).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::base64;

    fn session(text: &str) -> SessionKey {
        let mut session = SessionKey::default();
        session.copy_from_slice(&base64::decode(text.as_bytes()).unwrap());
        session
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn keys_are_derived_as_mcollective_does() {
        let first = session("w50+FmMeVYPze+bie91pmjLyNv68+aYNmLqQP32o+kQ=");
        let derived = derive(&first);
        assert_eq!(
            hex(derived.key.as_slice()),
            "acd84a41f771f5c0378ff789430685e54386fb7f02a105a06e814a2fc71fdf42"
        );
        assert_eq!(hex(&derived.vector), "151b82ce94b05ec0d4a5f3a4011d5007");
        let data = base64::decode(b"FrN4Ax6Y3enz6jICw22glw==").unwrap();
        assert_eq!(decrypt(&first, &data).unwrap(), b"--- pong\n");
        assert_eq!(encrypt(&first, b"--- pong\n"), data);
    }

    #[test]
    fn what_is_no_cipher_text_is_refused() {
        let key = session("w50+FmMeVYPze+bie91pmjLyNv68+aYNmLqQP32o+kQ=");
        assert_eq!(decrypt(&key, b""), None);
        assert_eq!(decrypt(&key, &[0; 15]), None);
        assert_eq!(decrypt(&key, &[0; 17]), None);
        for text in [&b""[..], &[1; 16], &[2; 100]] {
            let data = encrypt(&key, text);
            assert_eq!(data.len() % 16, 0);
            assert_eq!(decrypt(&key, &data).unwrap(), text);
        }
    }
}
