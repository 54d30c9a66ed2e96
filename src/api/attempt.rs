//! One login at an OpenID provider, between the browser's departure and its return: what this service knows of it without keeping
//! anything.

use crate::answer::ApiError;
use crate::request::{Call, named_cookie};
use halite_crypto::{HashType, fill_random, random_hex};
use halite_master::access::eauth::oidc::Metadata;
use halite_sys::time::unix_now;
use halite_wire::base64;
use hyper::StatusCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most seconds for a login at the provider.
pub(super) const PATIENCE: u64 = 600;
/// For how long what the provider tells about itself is kept.
const KNOWN: Duration = Duration::from_secs(300);

/// How long it is not asked again after it did not answer.
const PAUSE: Duration = Duration::from_secs(5);

/// What attempts are made from.
pub(super) struct Attempts {
    key: [u8; 32],
    is_secure: bool,
    /// What the provider has told about itself, and when.
    told: Mutex<Option<(Instant, Metadata)>>,
    /// Held by the one who asks; when that failed last.
    asks: Mutex<Option<Instant>>,
}

/// One login.
pub(super) struct Attempt<'a> {
    of: &'a Attempts,
    /// When it began, and a number that nobody can guess.
    pub id: String,
}

impl Attempts {
    /// With a new key. Browsers keep cookies of services with TLS for themselves alone.
    pub fn new(is_secure: bool) -> Attempts {
        let mut key = [0; 32];
        fill_random(&mut key);
        Attempts {
            key,
            is_secure,
            told: Mutex::default(),
            asks: Mutex::default(),
        }
    }

    /// What the provider tells about itself. It is not asked for each browser that comes.
    pub fn metadata(&self, issuer: &str) -> Result<Metadata, ApiError> {
        let told = || {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = told.as_ref().filter(|(when, _)| when.elapsed() < KNOWN);
            fresh.map(|(_, metadata)| metadata.clone())
        };
        if let Some(metadata) = told() {
            return Ok(metadata);
        }
        let mut failed = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody else has asked meanwhile.
        if let Some(metadata) = told() {
            return Ok(metadata);
        }
        if failed.is_some_and(|when| when.elapsed() < PAUSE) {
            return Err(no_provider());
        }
        let asked = Metadata::fetch(issuer);
        *failed = asked.is_err().then(Instant::now);
        let metadata = asked.map_err(unavailable)?;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = Some((Instant::now(), metadata.clone()));
        Ok(metadata)
    }

    pub fn begin(&self) -> Attempt<'_> {
        let id = format!("{}.{}", unix_now(), random_hex(16));
        Attempt { of: self, id }
    }

    /// The attempt that a browser goes on with, unless it took too long.
    pub fn find(&self, call: &Call) -> Option<Attempt<'_>> {
        let id = named_cookie(&call.headers, self.cookie_name())?;
        let (began, _) = id.split_once('.')?;
        let age = unix_now().checked_sub(began.parse().ok()?)?;
        (age <= PATIENCE).then_some(Attempt { of: self, id })
    }

    /// Other hosts of the domain cannot set one with this prefix.
    fn cookie_name(&self) -> &'static str {
        match self.is_secure {
            true => "__Host-oidc",
            false => "oidc",
        }
    }

    /// The browser brings it when the provider sends it back, so it is not strict.
    pub fn cookie(&self, id: &str, seconds: u64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.cookie_name();
        format!("{name}={id}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Lax{secure}")
    }
}

impl Attempt<'_> {
    /// What only this service could have made for it.
    fn derived(&self, purpose: &str) -> String {
        let message = format!("{purpose} {}", self.id);
        let mac = HashType::Sha256.hmac(&self.of.key, message.as_bytes());
        url_safe(&mac)
    }

    pub fn state(&self) -> String {
        self.derived("state")
    }

    pub fn nonce(&self) -> String {
        self.derived("nonce")
    }

    pub fn verifier(&self) -> String {
        self.derived("verifier")
    }

    pub fn challenge(&self) -> String {
        url_safe(&HashType::Sha256.digest(self.verifier().as_bytes()))
    }
}

fn url_safe(bytes: &[u8]) -> String {
    let text = base64::encode(bytes).replace('+', "-").replace('/', "_");
    text.trim_end_matches('=').to_owned()
}

pub(super) fn unavailable(why: String) -> ApiError {
    log::warn!("api: oidc: {why}");
    no_provider()
}

fn no_provider() -> ApiError {
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "The OpenID provider cannot be used now; the log of the master says why",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_attempt_has_cannot_be_guessed_from_its_cookie() {
        let (ours, others) = (Attempts::new(true), Attempts::new(true));
        let attempt = ours.begin();
        assert!(attempt.state() != attempt.nonce() && attempt.nonce() != attempt.verifier());
        let copied = Attempt {
            of: &others,
            id: attempt.id.clone(),
        };
        assert_ne!(copied.state(), attempt.state());
        // RFC 7636, 4.1: 43 to 128 characters.
        assert_eq!(attempt.verifier().len(), 43);
        let cookie = ours.cookie(&attempt.id, 1);
        assert!(cookie.starts_with("__Host-oidc=") && cookie.ends_with("SameSite=Lax; Secure"));
    }

    #[test]
    fn a_challenge_is_that_of_rfc_7636() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let challenge = url_safe(&HashType::Sha256.digest(verifier.as_bytes()));
        assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
