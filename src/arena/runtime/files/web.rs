//! Files from the web: only from hosts that the operator allows, and only with the digest given in the request.

use super::limit::too_large;
use halite_crypto::HashType;
use std::io::Read;
use std::time::Duration;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

/// Bytes per read.
const PIECE: usize = 64 << 10;

/// Fetches a file of at most `most` bytes whose SHA-256 is `digest`, in hexadecimal digits, within `patience`.
/// Redirects are not followed: they could lead to hosts that are not allowed.
///
/// # Errors
/// The reason why it cannot be fetched, as readable text.
pub(super) fn fetch(
    url: &str,
    digest: &str,
    most: usize,
    patience: Duration,
    wanted: &dyn Fn() -> bool,
) -> Result<Vec<u8>, String> {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::NativeTls)
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(patience))
        .user_agent("halite-runtime")
        .build()
        .into();
    // The query may contain a secret of the requester; errors are published and logged.
    let shown = url.split('?').next().unwrap_or(url);
    let failed = |e: &dyn std::fmt::Display| format!("{shown}: {e}");
    let answer = agent.get(url).call().map_err(|e| failed(&e))?;
    if answer.status().as_u16() != 200 {
        return Err(failed(&format!("HTTP {}", answer.status())));
    }
    let mut reader = answer.into_body().into_reader();
    let mut hasher = HashType::Sha256.hasher();
    let (mut content, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        if !wanted() {
            return Err("it is no longer wanted".to_owned());
        }
        let count = reader.read(&mut piece).map_err(|e| failed(&e))?;
        let Some(part) = piece.get(..count).filter(|part| !part.is_empty()) else {
            break;
        };
        if content.len() + part.len() > most {
            return Err(failed(&too_large(most)));
        }
        hasher.update(part);
        content.extend_from_slice(part);
    }
    let found = hasher.hex();
    if found == digest {
        Ok(content)
    } else {
        Err(failed(&format!(
            "its sha256 is {found}, not the one requested"
        )))
    }
}
