//! Who may do what: authentication, authorisation, tokens, the audit log.
//!
//! Decisions are pure functions ([`rules`], [`roles`], [`throttle`], [`scope`]); what asks files,
//! PAM or LDAP stands apart (`local`, [`eauth`]). A [`Caller`] can only be made here, by proof,
//! and what is not granted is denied (`salt/auth/__init__.py LoadAuth`, `salt/master.py ClearFuncs`).

pub mod eauth;
pub(crate) mod local;
pub mod roles;
pub mod rules;
mod runner_wheel;
pub mod scope;
pub mod throttle;
mod token;

use halite_config::MasterConfig;
use halite_store::Stores;
use halite_store::audit::{AuditLog, Decision};
use halite_store::tokens::TokenStore;
use halite_wire::{Map, Value};
use roles::Blacklist;
use rules::{AuthList, Call, Reach};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use throttle::Throttle;

/// Functions that every authenticated user may call: clients ask with them whether a job still runs.
const FREE: [&str; 1] = ["saltutil.find_job"];

/// How somebody wants to prove who he is, by the fields of his request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `key` and `user`.
    Key,
    /// `token`.
    Token,
    /// `eauth`, `username`, `password`.
    Eauth,
}

impl Method {
    fn of(fields: &Map) -> Method {
        if fields.contains("token") {
            Method::Token
        } else if fields.contains("eauth") {
            Method::Eauth
        } else {
            Method::Key
        }
    }

    /// Salt's word.
    pub fn word(self) -> &'static str {
        match self {
            Method::Key => "user",
            Method::Token => "token",
            Method::Eauth => "eauth",
        }
    }

    /// Name of Salt's exception.
    pub fn error_name(self) -> &'static str {
        match self {
            Method::Key => "UserAuthenticationError",
            Method::Token => "TokenAuthenticationError",
            Method::Eauth => "EauthAuthenticationError",
        }
    }
}

/// What somebody may do.
#[derive(Clone, Debug)]
enum Rights {
    All,
    Listed(AuthList),
}

/// Somebody who has proven who he is.
#[derive(Clone, Debug)]
pub struct Caller {
    user: String,
    method: Method,
    /// For the audit log: `key`, `token`, `eauth:pam`.
    proof: String,
    rights: Rights,
}

impl Caller {
    /// His name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// How he has proven it, for the audit log.
    pub fn proof(&self) -> &str {
        &self.proof
    }

    /// His permissions as lower masters get them; empty for somebody who may do everything.
    pub fn auth_list(&self) -> Value {
        match &self.rights {
            Rights::All => Value::Array(Vec::new()),
            Rights::Listed(list) => list.to_value(),
        }
    }

    /// Whether he may publish this. `covers` tells whether the minions of the job all belong to a
    /// compound target.
    pub fn may_publish(
        &self,
        fun: &Value,
        arg: &Value,
        covers: &mut dyn FnMut(&str) -> bool,
    ) -> Reach {
        match &self.rights {
            Rights::All => Reach::Everybody,
            Rights::Listed(list) => match Call::of_publication(fun, arg) {
                Some(calls) => list.publication(&calls, &FREE, covers),
                None => Reach::Nobody,
            },
        }
    }
}

/// Nobody was proven; the reason is for the log.
#[derive(Clone, Debug)]
pub struct Unproven {
    /// The name that was given.
    pub user: String,
    /// How it was to be proven.
    pub method: Method,
    /// Why it was not.
    pub why: String,
}

/// Everything that decides.
pub struct Access {
    config: MasterConfig,
    blacklist: Blacklist,
    tokens: Arc<dyn TokenStore>,
    throttle: Throttle,
    audit: AuditLog,
}

impl Access {
    /// As configured.
    pub fn new(config: &MasterConfig, stores: &Stores) -> Access {
        Access {
            blacklist: Blacklist::parse(&config.publisher_acl_blacklist),
            tokens: stores.tokens.clone(),
            throttle: Throttle::default(),
            audit: AuditLog::new(Path::new(&config.audit_log)),
            config: config.clone(),
        }
    }

    /// Writes a decision down.
    pub fn note(&self, decision: &Decision) {
        self.audit.write(decision);
    }

    /// Whether a user, or one of these functions, is refused whatever is proven.
    pub fn blacklisted(&self, user: &str, fun: &Value) -> bool {
        self.blacklist.user(user) || self.blacklist.function(fun)
    }

    /// Who sends a request. `fields` holds `token` or `eauth` with what belongs to it, `load` the
    /// key and the user where neither is there.
    ///
    /// # Errors
    /// He has not proven who he is, or his name is on the blacklist.
    pub fn authenticate(
        &mut self,
        load: &Map,
        fields: &Map,
        peer: &str,
    ) -> Result<Caller, Unproven> {
        let method = Method::of(fields);
        let proven = match method {
            Method::Key => self.by_key(load),
            Method::Token => self.by_token(fields),
            Method::Eauth => self.by_eauth(fields, peer),
        };
        let given = match method {
            Method::Key => load.str("user").unwrap_or_default(),
            _ => fields.str("username").unwrap_or("UNKNOWN"),
        };
        let unproven = |user: &str, why: String| Unproven {
            user: user.to_owned(),
            method,
            why,
        };
        let mut caller = proven.map_err(|why| unproven(given, why))?;
        if self.blacklist.user(&caller.user) {
            let why = "publisher_acl_blacklist names the user".to_owned();
            return Err(unproven(&caller.user, why));
        }
        // A higher master hands the permissions of its user down (`salt/master.py publish`).
        let handed = fields.get("auth_list").filter(|list| list.truthy());
        if let (Rights::All, Some(list)) = (&caller.rights, handed) {
            caller.rights = Rights::Listed(AuthList::parse(list));
        }
        Ok(caller)
    }

    fn by_key(&self, load: &Map) -> Result<Caller, String> {
        let key = load.str("key").ok_or("there is no key")?;
        let user = match load.get("user") {
            None => None,
            Some(user) => Some(user.as_str().ok_or("the user is no text")?),
        };
        let (user, method, rights) = local::authenticate(&self.config, user, key)?;
        Ok(Caller {
            user,
            method,
            proof: "key".into(),
            rights,
        })
    }

    /// The settings of a system of external authentication that is on.
    fn system(&self, name: &str) -> Result<&Map, String> {
        if !self.config.eauth_acl_module.is_empty() {
            return Err("eauth_acl_module is set, which is not supported".into());
        }
        let system = self.config.external_auth.get(name);
        system
            .and_then(Value::as_map)
            .ok_or_else(|| format!("external_auth has no system {name:?}"))
    }

    fn by_eauth(&mut self, fields: &Map, peer: &str) -> Result<Caller, String> {
        let (name, user, groups) = self.log_in(fields, peer)?;
        let system = self.system(&name)?;
        Ok(Caller {
            rights: Rights::Listed(roles::external(
                system,
                &user,
                &groups,
                self.config.permissive_acl,
            )),
            user,
            method: Method::Eauth,
            proof: format!("eauth:{name}"),
        })
    }

    /// Checks a password: system, user and his groups.
    fn log_in(
        &mut self,
        fields: &Map,
        peer: &str,
    ) -> Result<(String, String, Vec<String>), String> {
        let text = |key: &str| fields.str(key).ok_or(format!("there is no {key}"));
        let (name, user, password) = (text("eauth")?, text("username")?, text("password")?);
        let system = self.system(name)?.clone();
        let who = (name.to_owned(), user.to_owned(), peer.to_owned());
        self.throttle
            .admit(&who, Instant::now())
            .map_err(|left| format!("too many failures; not asked for {left} more seconds"))?;
        let groups = eauth::authenticate(&self.config, name, &system, user, password);
        match groups {
            Ok(groups) => {
                self.throttle.succeeded(&who);
                Ok((who.0, who.1, groups))
            }
            Err(why) => {
                self.throttle.failed(who, Instant::now());
                Err(why)
            }
        }
    }
}

/// What the configuration says of access that cannot be honoured, one sentence each. Whatever is
/// named here denies.
pub fn faults(config: &MasterConfig) -> Vec<String> {
    let mut out = Vec::new();
    for (name, system) in config.external_auth.iter() {
        let name = halite_target::python_str(name);
        let fault = match system.as_map() {
            Some(system) => eauth::fault(&name, system, config),
            None => Some("its users must be a map".into()),
        };
        out.extend(fault.map(|why| format!("external_auth: {name}: {why}")));
    }
    if !config.eauth_acl_module.is_empty() && !config.external_auth.is_empty() {
        let text = "eauth_acl_module is not supported; external authentication is refused";
        out.push(text.into());
    }
    if Blacklist::parse(&config.publisher_acl_blacklist).is_broken() {
        let text = "publisher_acl_blacklist must have `users` and `modules`, lists of text; everybody is refused";
        out.push(text.into());
    }
    out
}

#[cfg(test)]
mod tests;
