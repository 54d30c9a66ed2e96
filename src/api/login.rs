//! Logging in: a token of the master, and a session for it (reference `salt-api.md` 4).

use crate::answer::{Answer, ApiError};
use crate::lowstate::{login, no_map};
use crate::request::{Call, TOKEN, cookie, session_id};
use crate::service::{Handled, Service};
use crate::session::{LIFE, Session, may_listen, permissions};
use halite_client::local::{ClientError, LocalClient};
use halite_master::access::names;
use halite_master::access::roles::external;
use halite_wire::{Map, Value};
use hyper::StatusCode;
use hyper::header::{HeaderMap, SET_COOKIE};
use std::net::IpAddr;
use std::sync::Arc;

/// Most logins of one network at a time.
const LOGINS_AT_A_TIME: usize = 16;

impl Service {
    /// `POST /login`.
    pub(super) async fn log_in(self: Arc<Self>, call: Call) -> Handled {
        let (headers, from) = (call.headers.clone(), call.peer.ip());
        let _share = self.share_of("login", from, LOGINS_AT_A_TIME)?;
        let low = self.clone().apart(move |_| login_of(&call)).await?;
        let wrong = || ApiError::unauthorized("Could not authenticate using provided credentials");
        let user = low.str("username").unwrap_or_default();
        if !self.may_log_in(user, from) {
            return Err(wrong());
        }
        let answer = self.clone().apart(move |s| s.token(&low)).await;
        let answer = answer.map_err(|e| match e.status {
            StatusCode::UNAUTHORIZED => wrong(),
            _ => e,
        })?;
        let (id, told) = self.begin_session(&answer, &headers);
        let mut map = halite_wire::map! {"token" => id.as_str()};
        map.0.extend(told.0);
        let cookie = cookie(&id, LIFE.as_secs(), self.is_secure);
        let answer = Answer::returning(Value::Array(vec![map.into()]));
        Ok(answer.header(SET_COOKIE, &cookie).header(TOKEN, &id).into())
    }

    /// `api_acl`. Where a directory finds `fred` by `Fred` too, what is said of `fred` counts for both.
    pub(super) fn may_log_in(&self, user: &str, from: IpAddr) -> bool {
        self.api.may_log_in(user, from) && self.api.may_log_in(&names::folded(user), from)
    }

    /// Begins a session with a token of the master, in the place of that of before: its id, and what its owner is told.
    pub(super) fn begin_session(
        self: &Arc<Self>,
        answer: &Map,
        headers: &HeaderMap,
    ) -> (String, Map) {
        let text = |name: &str| answer.str(name).unwrap_or_default().to_owned();
        let (user, eauth) = (text("name"), text("eauth"));
        let groups = answer
            .get("groups")
            .map(Value::str_list)
            .unwrap_or_default();
        let perms = permissions(&self.config.external_auth, &eauth, &user, &groups);
        // What counts is what the master grants: `*` is for those that have no entry of their own.
        let system = self.config.external_auth.get(eauth.as_str());
        let system = system.and_then(Value::as_map).cloned().unwrap_or_default();
        let granted = external(&system, &user, &groups, self.config.permissive_acl);
        let number = |name: &str| match answer.get(name) {
            Some(Value::Float(seconds)) => *seconds,
            other => other.and_then(Value::as_int).unwrap_or(0) as f64,
        };
        let session = Session {
            token: text("token"),
            expire: number("expire"),
            start: number("start"),
            user,
            eauth,
            perms,
            may_listen: may_listen(&granted.to_value()),
        };
        if let Some(before) = session_id(headers) {
            self.sessions.end(&before);
        }
        let told = session.to_map();
        let (id, ended) = self.sessions.begin(session);
        if let Some(ended) = ended {
            log::warn!(
                "api: {} has too many sessions; the oldest one ends",
                ended.user
            );
            let service = self.clone();
            // Nobody waits for that.
            tokio::spawn(service.apart(move |service| service.revoke(&ended)));
        }
        (id, told)
    }

    pub(super) fn token(&self, low: &Map) -> Result<Map, ApiError> {
        let login = login(low).ok_or_else(|| ApiError::unauthorized("a field is missing"))?;
        let expire = low.get("token_expire").cloned();
        let mut client = LocalClient::new(self.config.clone());
        match client.mk_token(&login, expire) {
            Ok(answer) => Ok(answer),
            Err(ClientError::Refused(..)) => Err(ApiError::unauthorized("refused")),
            Err(e) => {
                log::warn!("api: {e}");
                Err(ApiError::no_master())
            }
        }
    }

    /// `api_acl`, for a map with credentials.
    ///
    /// # Errors
    /// This user may not log in from there.
    pub(super) fn check_acl(&self, low: &Map, from: IpAddr) -> Result<(), ApiError> {
        match low.str("username") {
            Some(user) if !self.may_log_in(user, from) => Err(ApiError::unauthorized(
                "Could not authenticate using provided credentials",
            )),
            _ => Ok(()),
        }
    }

    /// Gives up the token of a session that has ended.
    pub(super) fn revoke(&self, session: &Session) -> Result<(), ApiError> {
        let mut client = LocalClient::new(self.config.clone());
        client.rm_token(&session.token).map(drop).map_err(|e| {
            log::warn!("api: the token of {} was not revoked: {e}", session.user);
            ApiError::no_master()
        })
    }

    /// `POST /token`.
    pub(super) async fn make_token(self: Arc<Self>, call: Call) -> Handled {
        let from = call.peer.ip();
        let _share = self.share_of("login", from, LOGINS_AT_A_TIME)?;
        let low = self.clone().apart(move |_| login_of(&call)).await?;
        let user = low.str("username").unwrap_or_default().to_owned();
        self.check_acl(&low, from)?;
        if login(&low).is_none() {
            return Err(ApiError::bad(
                "Require \"username\", \"password\", and \"eauth\" params",
            ));
        }
        let token = self.apart(move |service| service.token(&low)).await;
        let token = token.map_err(|e| match e.status {
            StatusCode::UNAUTHORIZED => ApiError::unauthorized(format!(
                "Authentication failure of type \"eauth\" occurred for user {user}."
            )),
            _ => e,
        })?;
        Ok(Answer::new(Value::Array(vec![token.into()])).into())
    }
}

/// The first map of a body with a login.
fn login_of(call: &Call) -> Result<Map, ApiError> {
    let first = match call.content()? {
        Value::Array(all) => all.into_iter().next(),
        other => Some(other),
    };
    let map = first.and_then(Value::into_map);
    map.ok_or_else(no_map)
}
