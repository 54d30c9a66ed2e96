//! Signatures of tokens are checked by `ring`, which is in these programs for TLS already.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::signature as with;
use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};

/// Lets the library use it; it refuses to make signatures.
pub(super) fn install() {
    static RING: CryptoProvider = CryptoProvider {
        signer_factory: |_, _| Err(Error::from(ErrorKind::InvalidAlgorithm)),
        verifier_factory: |algorithm, key| {
            Ok(Box::new(KeyOfProvider {
                algorithm: *algorithm,
                key: key.clone(),
            }))
        },
        key_utils: KeyUtils::new_unimplemented(),
    };
    // It was installed before.
    let _ = RING.install_default();
}

struct KeyOfProvider {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for KeyOfProvider {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for KeyOfProvider {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        if self.key.family() != self.algorithm.family() {
            return Err(signature::Error::new());
        }
        let done = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let parameters = match self.algorithm {
                    Algorithm::RS256 => &with::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::RS384 => &with::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::RS512 => &with::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::PS256 => &with::RSA_PSS_2048_8192_SHA256,
                    Algorithm::PS384 => &with::RSA_PSS_2048_8192_SHA384,
                    Algorithm::PS512 => &with::RSA_PSS_2048_8192_SHA512,
                    _ => return Err(signature::Error::new()),
                };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signed)
            }
            DecodingKeyKind::SecretOrDer(point) => {
                let parameters: &dyn with::VerificationAlgorithm = match self.algorithm {
                    Algorithm::ES256 => &with::ECDSA_P256_SHA256_FIXED,
                    Algorithm::ES384 => &with::ECDSA_P384_SHA384_FIXED,
                    Algorithm::EdDSA => &with::ED25519,
                    _ => return Err(signature::Error::new()),
                };
                UnparsedPublicKey::new(parameters, point).verify(message, signed)
            }
        };
        done.map_err(|_| signature::Error::new())
    }
}
