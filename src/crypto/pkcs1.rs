//! RSA as used by sysinspect: PKCS#1 documents, their fingerprints, and a machine id encrypted with RSAES-PKCS1-v1_5
//! (reference 5).
//!
//! The keys of its programs have 1048 bits, which [`crate::MIN_BITS`] allows.

use crate::key::{Backend, RsaPrivate, RsaPublic};
use crate::{CryptoError, fill_random, pem};
use rsa::pkcs1::EncodeRsaPublicKey;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

/// `00 02`, at least eight bytes of padding, and `00`.
const OVERHEAD: usize = 11;

impl<B: Backend> RsaPublic<B> {
    /// The key in sysinspect's format: `BEGIN RSA PUBLIC KEY`, lines ending in CRLF. [`RsaPublic::from_pem`] reads it,
    /// also with LF or as SubjectPublicKeyInfo.
    pub fn to_pkcs1_pem(&self) -> String {
        pem::encode("RSA PUBLIC KEY", &self.pkcs1_der()).replace('\n', "\r\n")
    }

    /// The fingerprint shown to users of sysinspect: SHA-256 of the PKCS#1 document in lower-case hexadecimal.
    pub fn pkcs1_fingerprint(&self) -> String {
        let digest = Sha256::digest(self.pkcs1_der());
        digest.iter().map(|b| format!("{b:02x}")).collect()
    }

    fn pkcs1_der(&self) -> Vec<u8> {
        let der = self.parts().to_pkcs1_der();
        der.map_or_else(|_| Vec::new(), |d| d.as_bytes().to_vec())
    }

    /// Encrypts a short text with RSAES-PKCS1-v1_5.
    ///
    /// # Errors
    /// If it is too long for the key, or if the library fails.
    pub fn encrypt_pkcs1v15(&self, text: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let (len, max) = (text.len(), self.size() - OVERHEAD);
        if len > max {
            return Err(CryptoError::TooLong { len, max });
        }
        let mut block = Zeroizing::new(vec![0; self.size()]);
        let end = block.len() - len - 1;
        block[1] = 2;
        fill_random(&mut block[2..end]);
        for octet in &mut block[2..end] {
            // The padding must not contain zeros.
            while *octet == 0 {
                fill_random(std::slice::from_mut(octet));
            }
        }
        block[end + 1..].copy_from_slice(text);
        self.public_op(&block)
            .ok_or_else(|| CryptoError::Library("the public operation failed".to_owned()))
    }
}

impl<B: Backend> RsaPrivate<B> {
    /// Whether a cipher text made with RSAES-PKCS1-v1_5 contains exactly this text.
    ///
    /// All failures look the same and take the same work: the private operation is always done, and the block is
    /// compared as a whole in constant time. The plain text never leaves this function, so it cannot be used as a
    /// padding oracle.
    pub fn holds_pkcs1v15(&self, cipher: &[u8], text: &[u8]) -> bool {
        let public = self.public();
        let size = public.size();
        let fits = public.is_block(cipher) && text.len() + OVERHEAD <= size;
        // 1 is a valid input of the operation but encrypts no text.
        let mut one = vec![0; size];
        one[size - 1] = 1;
        let block = Zeroizing::new(
            self.private_block(if fits { cipher } else { &one })
                .unwrap_or(one),
        );
        let (head, tail) = block.split_at(size - text.len().min(size - OVERHEAD));
        let (start, padding) = head.split_at(2);
        let Some((zero, padding)) = padding.split_last() else {
            return false;
        };
        let mut right = start.ct_eq(&[0, 2]) & zero.ct_eq(&0) & Choice::from(u8::from(fits));
        for octet in padding {
            right &= !octet.ct_eq(&0);
        }
        (right & tail.ct_eq(text)).into()
    }
}
