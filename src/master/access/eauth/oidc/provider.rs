//! What an OpenID provider tells about itself (OpenID Connect Discovery 1.0, 4), and its keys.

use jsonwebtoken::jwk::Jwk;
use serde_json::Value as Json;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

/// Most time for an answer of a provider.
const PATIENCE: Duration = Duration::from_secs(8);
/// Largest answer of a provider, in bytes.
const LARGEST: u64 = 1 << 20;
/// Most keys of a provider.
const KEYS: usize = 100;

/// Whether a token or a code may go to this address: by TLS, or within this host.
///
/// # Errors
/// It may not.
pub(super) fn check_url(url: &str) -> Result<(), String> {
    let uri: Uri = url.parse().map_err(|e| format!("{url:.200}: {e}"))?;
    let (host, authority) = (uri.host().unwrap_or_default(), uri.authority());
    // The library takes `[::1]x` for `[::1]`, and passes over `user@`.
    let rest = authority.and_then(|one| one.as_str().strip_prefix(host));
    let is_port = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)) {
        return Err(format!(
            "{url:.200} has more than a host and a port before its path"
        ));
    }
    let is_local =
        uri.scheme_str() == Some("http") && ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    match uri.scheme_str() == Some("https") || is_local {
        true => Ok(()),
        false => Err(format!("{url:.200} must start with https://")),
    }
}

/// A client of HTTP for what providers are asked.
pub fn agent() -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::NativeTls)
        .root_certs(RootCerts::PlatformVerifier)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        // The child that checks tokens has no variables of the environment either.
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_global(Some(PATIENCE))
        .user_agent("halite")
        .build()
        .into()
}

/// The JSON of an answer.
///
/// # Errors
/// It has another status than 200, or is not JSON.
pub fn answer_of(
    url: &str,
    answer: Result<Response<ureq::Body>, ureq::Error>,
) -> Result<Json, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{url:.200}: {e}");
    let answer = answer.map_err(|e| failed(&e))?;
    let status = answer.status().as_u16();
    let body = answer.into_body().into_with_config().limit(LARGEST);
    let body = body.read_to_vec().map_err(|e| failed(&e))?;
    let json = halite_wire::json::parse::<Json>(&body);
    if status != 200 {
        // `error` is one of the words of RFC 6749, 5.2.
        let word = json
            .ok()
            .and_then(|json| Some(json.get("error")?.as_str()?.to_owned()));
        let word = word
            .map(|word| format!(", {word:.100}"))
            .unwrap_or_default();
        return Err(failed(&format!("HTTP {status}{word}")));
    }
    json.map_err(|e| failed(&e))
}

/// What a provider tells about itself.
#[derive(Clone, Debug)]
pub struct Metadata(Json);

impl Metadata {
    /// Asks the provider.
    ///
    /// # Errors
    /// It does not answer, or for another one.
    pub fn fetch(issuer: &str) -> Result<Metadata, String> {
        let url = format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        );
        let metadata = answer_of(&url, agent().get(&url).call())?;
        // Or one provider could speak for another.
        match metadata.get("issuer").and_then(Json::as_str) == Some(issuer) {
            true => Ok(Metadata(metadata)),
            false => Err(format!(
                "{url}: it is about another issuer, {}",
                shown(&metadata)
            )),
        }
    }

    /// One of its addresses, such as `token_endpoint`.
    ///
    /// # Errors
    /// There is none, or it is not safe.
    pub fn address(&self, name: &str) -> Result<&str, String> {
        let url = self.0.get(name).and_then(Json::as_str);
        let url = url.ok_or_else(|| format!("the provider has no {name}"))?;
        check_url(url).map_err(|why| format!("{name}: {why}"))?;
        let issuer = self.0.get("issuer").and_then(Json::as_str);
        // A provider elsewhere must not have this host asked.
        if url.starts_with("http:") && !issuer.is_some_and(|issuer| issuer.starts_with("http:")) {
            return Err(format!("{name}: {url:.200} must start with https://"));
        }
        Ok(url)
    }

    /// Whether a secret has to be in the body of a request for a token, not in its head.
    pub fn wants_secret_in_body(&self) -> bool {
        let methods = self
            .0
            .get("token_endpoint_auth_methods_supported")
            .and_then(Json::as_array);
        let has = |name: &str| methods.is_some_and(|all| all.iter().any(|one| one == name));
        has("client_secret_post") && !has("client_secret_basic")
    }

    /// Its keys for signatures. Those of kinds that are not known are left out.
    ///
    /// # Errors
    /// It does not tell them.
    pub(super) fn keys(&self) -> Result<Vec<Jwk>, String> {
        let url = self.address("jwks_uri")?;
        let found = answer_of(url, agent().get(url).call())?;
        let all = found
            .get("keys")
            .and_then(Json::as_array)
            .cloned()
            .unwrap_or_default();
        let signs = |one: &Json| one.get("use").is_none_or(|what| what == "sig");
        let keys = all.into_iter().filter(signs).take(KEYS);
        Ok(keys
            .filter_map(|one| serde_json::from_value(one).ok())
            .collect())
    }
}

fn shown(metadata: &Json) -> String {
    let text = metadata
        .get("issuer")
        .map(Json::to_string)
        .unwrap_or_default();
    format!("{text:.200}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_go_by_tls_or_stay_here() {
        for (url, is_safe) in [
            ("https://id.example.net/realms/x", true),
            ("http://127.0.0.1:8080/", true),
            ("http://localhost", true),
            ("http://[::1]:80/x", true),
            ("http://id.example.net", false),
            ("http://localhost.example.net/", false),
            ("http://127.0.0.1@example.net/", false),
            ("http://127.0.0.1:1@example.net/", false),
            ("http://[::1]x.example.net/", false),
            ("file:///etc/passwd", false),
            ("", false),
        ] {
            assert_eq!(check_url(url).is_ok(), is_safe, "{url}");
        }
    }
}
