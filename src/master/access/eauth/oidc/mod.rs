//! The system `oidc`: users of an OpenID provider. In the place of a password, they have an ID token, which the provider has
//! signed for this master (OpenID Connect Core 1.0, 3.1.3.7). How people get one, halite-api knows. Checked in a child process,
//! since the provider is asked for its keys; see [`super::child`].

mod provider;
mod signature;

pub use provider::{Metadata, agent, answer_of};

use crate::access::names;
use halite_sys::time::unix_now;
use halite_target::python_str;
use halite_wire::{Map, Value};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::Value as Json;

/// Longest ID token.
pub const LONGEST: usize = 32 << 10;
/// For how long a token is a password, in seconds from when it was made: it is meant for the login that has asked for it.
const FRESH: u64 = 600;
/// How far clocks may differ, in seconds.
const LEEWAY: u64 = 60;
/// Algorithms of signatures. Those with a shared secret are not among them.
const ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// All settings, without `^`.
const KNOWN: &[&str] = &[
    "issuer",
    "client_id",
    "client_secret",
    "redirect_uri",
    "scope",
    "username_claim",
    "groups_claim",
    "title",
];

/// The settings of `external_auth: oidc`: its keys that start with `^`.
#[derive(Clone, PartialEq)]
pub struct OidcSettings {
    /// The provider.
    pub issuer: String,
    /// What the provider calls this master.
    pub client_id: String,
    /// Its secret there, if it has one.
    pub client_secret: Option<String>,
    /// Where the provider sends browsers back to: `/oidc/callback` of halite-api.
    pub redirect_uri: Option<String>,
    /// What the provider is asked for.
    pub scope: String,
    /// The claim with the name of the user.
    pub username_claim: String,
    /// The claim with the names of their groups.
    pub groups_claim: String,
    /// What the button of the console says, if not the default.
    pub title: Option<String>,
}

impl OidcSettings {
    /// Those of a system of `external_auth`.
    ///
    /// # Errors
    /// One is missing or invalid.
    pub fn parse(system: &Map) -> Result<OidcSettings, String> {
        let names = system.iter().filter_map(|(key, _)| key.as_str());
        let mut settings = names.filter_map(|key| key.strip_prefix('^'));
        if let Some(unknown) = settings.find(|name| !KNOWN.contains(name)) {
            return Err(format!("unknown setting ^{unknown}"));
        }
        let text = |key: &str| {
            let given = system.get(key).filter(|value| !value.is_nil());
            let text = given.map(|v| python_str(v).into_owned());
            text.filter(|text| !text.is_empty())
        };
        let needed = |key: &str| text(key).ok_or_else(|| format!("{key} is missing"));
        let issuer = needed("^issuer")?;
        provider::check_url(&issuer).map_err(|why| format!("^issuer: {why}"))?;
        let redirect_uri = text("^redirect_uri");
        if let Some(uri) = &redirect_uri {
            provider::check_url(uri).map_err(|why| format!("^redirect_uri: {why}"))?;
            if !uri.ends_with("/oidc/callback") {
                return Err(format!(
                    "^redirect_uri: {uri:.200} must end with /oidc/callback"
                ));
            }
        }
        let or = |key: &str, default: &str| text(key).unwrap_or_else(|| default.to_owned());
        Ok(OidcSettings {
            issuer,
            client_id: needed("^client_id")?,
            client_secret: text("^client_secret"),
            redirect_uri,
            scope: or("^scope", "openid profile email"),
            username_claim: or("^username_claim", "sub"),
            groups_claim: or("^groups_claim", "groups"),
            title: text("^title"),
        })
    }

    /// The name of the user whom an ID token is about.
    ///
    /// # Errors
    /// It has none that can be used.
    pub fn user_of(&self, claims: &Json) -> Result<String, String> {
        let claim = &self.username_claim;
        let name = claims.get(claim).and_then(Json::as_str).unwrap_or_default();
        // `admins%` stands for a group, `^issuer` for a setting, and `*` for everybody.
        // One that only looks like another would not be what deny lists name.
        if !names::is_plain(name)
            || name.is_empty()
            || name.starts_with('^')
            || name.ends_with('%')
            || name == "*"
        {
            let shown = names::shown(name);
            return Err(format!("the claim {claim} is no name of a user: {shown:?}"));
        }
        if claim == "email" && claims.get("email_verified") != Some(&Json::Bool(true)) {
            return Err("the provider has not verified the address of the claim email".into());
        }
        Ok(name.to_owned())
    }

    fn groups_of(&self, claims: &Json) -> Vec<String> {
        let groups = match claims.get(&self.groups_claim) {
            Some(Json::String(one)) => vec![one.clone()],
            Some(Json::Array(all)) => all
                .iter()
                .filter_map(|one| one.as_str().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        };
        groups.into_iter().filter(|one| !one.is_empty()).collect()
    }
}

/// Checks an ID token; returns the user's groups if it is about this user. The settings are those of the system.
///
/// # Errors
/// It is not valid, or the provider has not told its keys; the text never contains the token.
pub fn check(system: &Map, user: &str, token: &str) -> Result<Vec<String>, String> {
    let settings = OidcSettings::parse(system)?;
    // What cannot be valid is not worth asking the provider about.
    check_claims(&settings, user, &claims_unproven(token)?)?;
    let metadata = Metadata::fetch(&settings.issuer)?;
    let claims = proven(&settings, token, &metadata.keys()?)?;
    check_claims(&settings, user, &claims)?;
    Ok(settings.groups_of(&claims))
}

/// What a token says. Whoever has made it could have written anything.
///
/// # Errors
/// It is none.
pub fn claims_unproven(token: &str) -> Result<Json, String> {
    jsonwebtoken::dangerous::insecure_decode_claims(token)
        .map_err(|_| "it is not an ID token".to_owned())
}

/// The claims of a token that one of these keys has signed for this master, and that has not expired.
fn proven(settings: &OidcSettings, token: &str, keys: &[Jwk]) -> Result<Json, String> {
    signature::install();
    let header = jsonwebtoken::decode_header(token).map_err(|e| e.to_string())?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(format!("the algorithm {:?} is not allowed", header.alg));
    }
    // Access tokens and notices of logouts are signed by the same keys.
    let is_id_token = header
        .typ
        .as_deref()
        .is_none_or(|typ| typ.eq_ignore_ascii_case("JWT"));
    if !is_id_token || header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
        return Err("it is not an ID token".into());
    }
    let mut validation = Validation::new(header.alg);
    validation.leeway = LEEWAY;
    validation.validate_nbf = true;
    validation.set_audience(&[&settings.client_id]);
    validation.set_issuer(&[&settings.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let fits = |key: &&Jwk| match (&header.kid, &key.common.key_id) {
        (Some(wanted), Some(id)) => wanted == id,
        _ => true,
    };
    let mut why = "the provider has no key with the id of the token's".to_owned();
    for key in keys.iter().filter(fits) {
        let decoded = DecodingKey::from_jwk(key)
            .and_then(|key| jsonwebtoken::decode::<Json>(token, &key, &validation));
        match decoded {
            Ok(decoded) => return Ok(decoded.claims),
            Err(e) => why = e.to_string(),
        }
    }
    Err(why)
}

/// What the library does not check.
fn check_claims(settings: &OidcSettings, user: &str, claims: &Json) -> Result<(), String> {
    if claims.get("iss").and_then(Json::as_str) != Some(settings.issuer.as_str()) {
        return Err("another provider has made the token".into());
    }
    if claims.get("events").is_some() {
        return Err("it is not an ID token".into());
    }
    let is_ours = |one: &Json| one.as_str() == Some(settings.client_id.as_str());
    let (audience, party) = (claims.get("aud"), claims.get("azp"));
    let is_for_us = match audience {
        Some(Json::Array(all)) => all.iter().any(is_ours) && (all.len() == 1 || party.is_some()),
        Some(one) => is_ours(one),
        None => false,
    };
    if !is_for_us || party.is_some_and(|one| !is_ours(one)) {
        return Err("the token was made for another program".into());
    }
    let made = claims.get("iat").and_then(Json::as_f64).unwrap_or(0.0) as u64;
    let now = unix_now();
    if made.saturating_add(FRESH + LEEWAY) < now || made > now + LEEWAY {
        return Err(format!(
            "the token was not made within the last {FRESH} seconds"
        ));
    }
    match settings.user_of(claims)? {
        name if name == user => Ok(()),
        _ => Err("the token is about another user".into()),
    }
}

/// What the child needs.
pub(super) fn settings_for_child(system: &Map) -> Map {
    let own = system.iter().filter(|(key, _)| {
        let key = key.as_str().unwrap_or_default();
        key.starts_with('^') && key != "^client_secret"
    });
    own.map(|(key, value)| (python_str(key).into_owned(), value.clone()))
        .collect::<Map>()
}

/// The settings, if this system is one of `external_auth`.
pub fn settings(external_auth: &Map) -> Option<OidcSettings> {
    let system = external_auth.get("oidc").and_then(Value::as_map)?;
    OidcSettings::parse(system).ok()
}

#[cfg(test)]
mod tests;
