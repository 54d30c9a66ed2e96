//! The signature of the master's public key in sign-in replies.

use halite_config::MasterConfig;
use halite_crypto::{IdentityKey, KeyType, Signing};
use halite_sys::exit::ExitError;

/// How to sign the master's public key for minions that verify it (`master_sign_pubkey`).
pub(crate) enum PubkeySignature {
    /// A prepared signature file, sent as it is.
    Ready(String),
    /// The signing key itself.
    Key(IdentityKey),
}

impl PubkeySignature {
    /// Loads the files named in the options; `None` if the option is off.
    /// A missing key is made, of the type of the master's.
    pub fn load(
        config: &MasterConfig,
        kind: KeyType,
    ) -> Result<Option<PubkeySignature>, ExitError> {
        if !config.master_sign_pubkey {
            return Ok(None);
        }
        if config.master_use_pubkey_signature {
            let path = config.pubkey_signature();
            let text = std::fs::read_to_string(&path).map_err(|e| {
                ExitError::new(
                    1,
                    format!(
                        "{}: {e}; make it with `halite-key --gen-signature`",
                        path.display()
                    ),
                )
            })?;
            return Ok(Some(PubkeySignature::Ready(text)));
        }
        let path = config.sign_key();
        let key = crate::load_or_create_key(&path, kind, config)?;
        Ok(Some(PubkeySignature::Key(key)))
    }

    /// The signature of the public key `master_pub` as a minion expects it.
    pub fn for_algorithm(&self, algorithm: Signing, master_pub: &str) -> String {
        match self {
            PubkeySignature::Ready(text) => text.clone(),
            PubkeySignature::Key(key) => base64_line(&key.sign(algorithm, master_pub.as_bytes())),
        }
    }
}

/// Base64 in one line with a newline, as Python's `binascii.b2a_base64` returns it.
fn base64_line(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes) + "\n"
}
