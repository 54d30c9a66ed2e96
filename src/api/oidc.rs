//! Logging in at an OpenID provider: the authorization code flow with PKCE (OpenID Connect Core 1.0, 3.1; RFC 7636). The browser
//! gets there by [`begin`](Service::begin_oidc) and comes back to [`end`](Service::end_oidc); the ID token that the provider gives
//! for it is the password of a login at the master, which checks it (`halite_master::access::eauth::oidc`).
//!
//! Between both, this service keeps nothing: a cookie has the number of the attempt, and `state`, `nonce` and the verifier are made
//! from it with a key of this role.

use crate::answer::ApiError;
use crate::attempt::{PATIENCE, unavailable};
use crate::request::{Call, cookie};
use crate::service::{Handled, Refused, Reply, Service};
use crate::session::LIFE;
use halite_crypto::constant_time_eq;
use halite_master::access::eauth::oidc::{self, Metadata, OidcSettings};
use halite_master::access::names;
use halite_wire::base64;
use http_body_util::{BodyExt, Empty};
use hyper::header::{CACHE_CONTROL, HeaderValue, LOCATION, SET_COOKIE};
use hyper::{Response, StatusCode};
use serde_json::Value as Json;
use std::sync::Arc;

/// Most logins of one network at a time.
const AT_A_TIME: usize = 4;
/// Longest code of a provider.
const CODE: usize = 4096;

impl Service {
    fn oidc(&self) -> Result<(OidcSettings, String), ApiError> {
        let found = oidc::settings(&self.config.external_auth);
        let found = found.and_then(|one| one.redirect_uri.clone().map(|uri| (one, uri)));
        found.ok_or_else(|| {
            ApiError::new(
                StatusCode::NOT_FOUND,
                "external_auth has no system oidc with ^redirect_uri",
            )
        })
    }

    /// `GET /oidc/login`: sends a browser to the provider.
    pub(super) async fn begin_oidc(self: Arc<Self>, call: Call) -> Handled {
        let (settings, redirect_uri) = self.oidc()?;
        let _share = self.share_of("oidc", call.peer.ip(), AT_A_TIME)?;
        let issuer = settings.issuer.clone();
        let metadata = self
            .clone()
            .at_provider(move |s| s.attempts.metadata(&issuer))
            .await?;
        let page = metadata
            .address("authorization_endpoint")
            .map_err(unavailable)?;
        let attempt = self.attempts.begin();
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs([
            ("response_type", "code"),
            ("client_id", &settings.client_id),
            ("redirect_uri", &redirect_uri),
            ("scope", &settings.scope),
            ("state", &attempt.state()),
            ("nonce", &attempt.nonce()),
            ("code_challenge", &attempt.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        let separator = if page.contains('?') { '&' } else { '?' };
        let location = format!("{page}{separator}{}", query.finish());
        let cookie = self.attempts.cookie(&attempt.id, PATIENCE);
        redirection(&location, &[cookie])
    }

    /// `GET /oidc/callback`: the browser comes back, with a code or an error.
    pub(super) async fn end_oidc(self: Arc<Self>, call: Call) -> Handled {
        let is_secure = self.is_secure;
        let over = self.attempts.cookie("", 0);
        match self.clone().log_in_by_oidc(call).await {
            Ok(id) => redirection("/", &[cookie(&id, LIFE.as_secs(), is_secure), over]),
            Err(e) if e.status == StatusCode::UNAUTHORIZED => {
                // The words of the provider are for the log: whoever has made this address could have chosen them.
                log::warn!("api: no login by oidc: {}", e.message);
                let mut answer = redirection("/#/login/refused", &[over])?;
                if let Reply::Whole(response) = &mut answer {
                    response.extensions_mut().insert(Refused);
                }
                Ok(answer)
            }
            Err(e) => Err(e),
        }
    }

    /// The id of a new session.
    async fn log_in_by_oidc(self: Arc<Self>, call: Call) -> Result<String, ApiError> {
        let (settings, redirect_uri) = self.oidc()?;
        let refused = |why: &str| ApiError::unauthorized(why);
        let attempt = self.attempts.find(&call);
        let attempt = attempt.ok_or_else(|| refused("it was not begun here, or took too long"))?;
        let state = call.parameter("state").unwrap_or_default();
        if !constant_time_eq(state.as_bytes(), attempt.state().as_bytes()) {
            return Err(refused("it was begun by somebody else"));
        }
        if call
            .parameter("iss")
            .is_some_and(|iss| iss != settings.issuer)
        {
            return Err(refused("another provider sends the answer"));
        }
        if let Some(word) = call.parameter("error") {
            return Err(refused(&format!(
                "the provider says {:?}",
                names::shown(word)
            )));
        }
        let code = call.parameter("code").filter(|code| code.len() <= CODE);
        let code = code
            .ok_or_else(|| refused("the provider sends no code"))?
            .to_owned();
        let _share = self.share_of("oidc", call.peer.ip(), AT_A_TIME)?;
        let (verifier, nonce) = (attempt.verifier(), attempt.nonce());
        let of = settings.clone();
        let token = self
            .clone()
            .at_provider(move |service| {
                let metadata = service.attempts.metadata(&of.issuer)?;
                exchange(&of, &redirect_uri, &metadata, &code, &verifier).map_err(|why| {
                    ApiError::unauthorized(format!("the provider gives no token: {why}"))
                })
            })
            .await?;
        let claims = oidc::claims_unproven(&token).map_err(|why| refused(&why))?;
        let said = claims
            .get("nonce")
            .and_then(Json::as_str)
            .unwrap_or_default();
        if !constant_time_eq(said.as_bytes(), nonce.as_bytes()) {
            return Err(refused("the token is for another login"));
        }
        let user = settings.user_of(&claims).map_err(|why| refused(&why))?;
        if !self.may_log_in(&user, call.peer.ip()) {
            return Err(refused("api_acl does not let this user log in from there"));
        }
        let low = halite_wire::map! {"eauth" => "oidc", "username" => user, "password" => token};
        let answer = self
            .clone()
            .apart(move |service| service.token(&low))
            .await?;
        Ok(self.begin_session(&answer, &call.headers).0)
    }
}

/// The ID token for a code (OpenID Connect Core 1.0, 3.1.3).
fn exchange(
    settings: &OidcSettings,
    redirect_uri: &str,
    metadata: &Metadata,
    code: &str,
    verifier: &str,
) -> Result<String, String> {
    let url = metadata.address("token_endpoint")?;
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect_uri),
        ("client_id", &settings.client_id),
        ("code_verifier", verifier),
    ];
    let mut request = oidc::agent().post(url).header("Accept", "application/json");
    if let Some(secret) = &settings.client_secret {
        if metadata.wants_secret_in_body() {
            form.push(("client_secret", secret));
        } else {
            // RFC 6749, 2.3.1.
            let encoded = |text: &str| -> String {
                form_urlencoded::byte_serialize(text.as_bytes()).collect()
            };
            let both = format!("{}:{}", encoded(&settings.client_id), encoded(secret));
            let both = base64::encode(both.as_bytes());
            request = request.header("Authorization", format!("Basic {both}"));
        }
    }
    let answer = oidc::answer_of(url, request.send_form(form))?;
    let token = answer.get("id_token").and_then(Json::as_str);
    let token = token.filter(|token| token.len() <= oidc::LONGEST);
    token
        .map(str::to_owned)
        .ok_or_else(|| "there is no id_token".into())
}

fn redirection(location: &str, cookies: &[String]) -> Handled {
    let value =
        |text: &str| HeaderValue::from_str(text).map_err(|e| ApiError::unforeseen(&e.to_string()));
    let mut response = Response::new(Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, value(location)?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for cookie in cookies {
        headers.append(SET_COOKIE, value(cookie)?);
    }
    Ok(Reply::Whole(response))
}
