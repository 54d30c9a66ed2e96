//! `mk_token`, `get_token` and our `rm_token` (`salt/master.py ClearFuncs`, `salt/auth/__init__.py`; reference
//! `salt-protocol.md` 7.4), and authentication by token.

use super::rules::AuthList;
use super::{Access, Caller, Method, Rights, names};
use halite_store::audit::Decision;
use halite_store::tokens::Token;
use halite_sys::time::unix_now_f64;
use halite_wire::{Map, Value};

/// Longest lifetime of a token that a user may choose.
const LONGEST: f64 = 10.0 * 366.0 * 86400.0;

impl Access {
    /// Creates a token for a user who authenticates; the reply is an empty string on failure.
    pub fn mk_token(&mut self, load: &Map, peer: &str) -> Value {
        let made = self.make(load, peer);
        let user = names::claimed(load, "username");
        let system = names::claimed(load, "eauth");
        if let Err(why) = &made {
            log::warn!("no token for {user:?} of {peer} by {system:?}: {why}");
        }
        self.audit_decision(&Decision {
            what: "token",
            user,
            method: &format!("eauth:{system}"),
            from: peer,
            allowed: made.is_ok(),
            reason: made.as_ref().err().map_or("", String::as_str),
            ..Decision::default()
        });
        made.map_or_else(|_| "".into(), Value::Map)
    }

    fn make(&mut self, load: &Map, peer: &str) -> Result<Map, String> {
        let (eauth, name, groups) = self.log_in(load, peer)?;
        if self.names_user(&name) {
            return Err("publisher_acl_blacklist names the user".into());
        }
        // A provider may have users whom nobody here knows.
        if eauth == "oidc" && self.permissions(&eauth, &name, &groups)?.is_empty() {
            return Err("external_auth grants nothing to this user or their groups".into());
        }
        let config = &self.config;
        let chosen = match load.get("token_expire") {
            Some(Value::Float(f)) => Some(*f),
            Some(other) => other.as_int().map(|n| n as f64),
            None => None,
        };
        let chosen = chosen
            .filter(|_| config.token_expire_user_override.allows(&eauth, &name))
            .filter(|life| life.is_finite() && (0.0..=LONGEST).contains(life));
        let start = unix_now_f64();
        let auth_list = config.keep_acl_in_token.then(|| {
            let permissions = self.permissions(&eauth, &name, &groups);
            permissions.unwrap_or_default().to_value()
        });
        let token = Token {
            start,
            expire: start + chosen.unwrap_or(config.token_expire as f64),
            name,
            eauth,
            groups,
            auth_list,
            is_revoked: false,
        };
        let text = self
            .tokens
            .create(&token)
            .map_err(|e| format!("it cannot be stored: {e}"))?;
        Ok(token.to_answer(&text))
    }

    /// The data of a token: a map, empty if it is unknown or expired, false if no token was given.
    pub fn get_token(&self, load: &Map) -> Value {
        match load.get("token") {
            None => false.into(),
            Some(token) => {
                let token = token.as_str().unwrap_or_default();
                let found = self.look_up(token).ok();
                Value::Map(found.map(|t| t.to_answer(token)).unwrap_or_default())
            }
        }
    }

    /// Whoever has a token may give it up; true if it was valid.
    pub fn rm_token(&self, load: &Map) -> Value {
        let token = load.str("token").unwrap_or_default();
        let done = self.tokens.revoke(token, unix_now_f64());
        done.inspect_err(|e| log::error!("a token cannot be revoked: {e}"))
            .unwrap_or(false)
            .into()
    }

    fn look_up(&self, token: &str) -> Result<Token, String> {
        match self.tokens.get(token, unix_now_f64()) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err("the token is unknown or has expired".into()),
            Err(e) => {
                log::error!("a token cannot be read: {e}");
                Err("the token cannot be read".into())
            }
        }
    }

    pub(super) fn by_token(&self, fields: &Map) -> Result<Caller, String> {
        let token = fields.str("token").ok_or("the token is not a string")?;
        let token = self.look_up(token)?;
        // The system may have been disabled since.
        self.system(&token.eauth)?;
        let kept = token.auth_list.filter(|_| self.config.keep_acl_in_token);
        let list = match kept {
            Some(list) => AuthList::parse(&list),
            None => self.permissions(&token.eauth, &token.name, &token.groups)?,
        };
        Ok(Caller {
            user: token.name,
            method: Method::Token,
            proof: format!("token:{}", token.eauth),
            rights: Rights::Listed(list),
        })
    }
}
