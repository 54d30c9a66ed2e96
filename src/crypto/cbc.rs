//! AES-192-CBC over whole blocks.
//!
//! Encryption chains from block to block, and there the portable crate reaches a third of OpenSSL's speed: long texts
//! (chunks of files) go to OpenSSL if the build has it. Decryption does not chain and is fast in both.

#[cfg(feature = "openssl")]
use super::key_string::AES_LEN;
use aes::cipher::generic_array::GenericArray;
use aes::cipher::inout::InOutBuf;
use aes::cipher::{BlockDecryptMut, BlockEncryptMut, InnerIvInit, KeyInit};
use aes::{Aes192Dec, Aes192Enc};

/// Block size in bytes.
pub(super) const BLOCK: usize = 16;
/// From this many bytes on, setting up OpenSSL pays off.
#[cfg(feature = "openssl")]
const OPENSSL_MIN: usize = 2048;

/// A key prepared for both directions.
#[derive(Clone)]
pub(super) struct Cbc {
    enc: Aes192Enc,
    dec: Aes192Dec,
    #[cfg(feature = "openssl")]
    key: zeroize::Zeroizing<[u8; AES_LEN]>,
}

impl Cbc {
    /// Prepares a key of [`AES_LEN`] bytes.
    pub fn new(key: &[u8]) -> Cbc {
        let array = GenericArray::from_slice(key);
        #[cfg(feature = "openssl")]
        let key = {
            let mut copy = zeroize::Zeroizing::new([0; AES_LEN]);
            copy.copy_from_slice(key);
            copy
        };
        Cbc {
            enc: Aes192Enc::new(array),
            dec: Aes192Dec::new(array),
            #[cfg(feature = "openssl")]
            key,
        }
    }

    /// Encrypts everything in `out` after the IV, which is the block at `iv`. The text must be whole blocks.
    #[cfg_attr(
        not(feature = "openssl"),
        expect(
            clippy::ptr_arg,
            reason = "OpenSSL grows the vector by a block while it encrypts"
        )
    )]
    pub fn encrypt(&self, out: &mut Vec<u8>, iv: usize) {
        #[cfg(feature = "openssl")]
        if out.len() - iv >= OPENSSL_MIN && self.encrypt_openssl(out, iv).is_ok() {
            return;
        }
        self.encrypt_portable(&mut out[iv..]);
    }

    /// Encrypts everything after the first block.
    pub(super) fn encrypt_portable(&self, out: &mut [u8]) {
        let (iv, text) = out.split_at_mut(BLOCK);
        let mut cbc = cbc::Encryptor::inner_iv_init(self.enc.clone(), GenericArray::from_slice(iv));
        cbc.encrypt_blocks_inout_mut(InOutBuf::from(text).into_chunks().0);
    }

    /// If it fails, nothing has been encrypted.
    #[cfg(feature = "openssl")]
    pub(super) fn encrypt_openssl(
        &self,
        out: &mut Vec<u8>,
        iv: usize,
    ) -> Result<(), openssl::error::ErrorStack> {
        use openssl::cipher::Cipher;
        use openssl::cipher_ctx::CipherCtx;
        let mut context = CipherCtx::new()?;
        let text = iv + BLOCK;
        context.encrypt_init(
            Some(Cipher::aes_192_cbc()),
            Some(self.key.as_slice()),
            Some(&out[iv..text]),
        )?;
        context.set_padding(false);
        let len = out.len();
        // The interface needs room for one block more than it writes.
        out.resize(len + BLOCK, 0);
        let done = context.cipher_update_inplace(&mut out[text..], len - text);
        out.truncate(len);
        done.map(|_| ())
    }

    /// Decrypts whole blocks.
    pub fn decrypt(&self, iv: &[u8], text: &[u8]) -> Vec<u8> {
        let mut plain = text.to_vec();
        let mut cbc = cbc::Decryptor::inner_iv_init(self.dec.clone(), GenericArray::from_slice(iv));
        cbc.decrypt_blocks_inout_mut(InOutBuf::from(&mut plain[..]).into_chunks().0);
        plain
    }
}
