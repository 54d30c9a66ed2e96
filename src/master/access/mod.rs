//! Access control: authentication, authorisation, tokens, the audit log.
//!
//! Decisions are pure functions ([`rules`], [`roles`], [`throttle`], [`scope`]); code that reads files or asks
//! PAM or LDAP is separate (`local`, [`eauth`]). A [`Caller`] can only be created here, after authentication,
//! and what is not granted is denied (`salt/auth/__init__.py LoadAuth`, `salt/master.py ClearFuncs`).

pub mod additions;
pub mod eauth;
pub(crate) mod local;
pub mod names;
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
use halite_sys::time::unix_now;
use halite_wire::{Map, Value};
use roles::Blacklist;
use rules::{AuthList, Call, Reach};
use std::io;
use std::path::Path;
use std::sync::Arc;
use throttle::{LoginSource, Throttle};

/// Functions that every authenticated user may call: clients use them to check whether a job is still running.
const FREE: [&str; 1] = ["saltutil.find_job"];

/// The authentication method, determined by the fields of the request.
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

    /// Salt's name of the method.
    pub fn word(self) -> &'static str {
        match self {
            Method::Key => "user",
            Method::Token => "token",
            Method::Eauth => "eauth",
        }
    }

    /// Name of Salt's exception for a failure.
    pub fn error_name(self) -> &'static str {
        match self {
            Method::Key => "UserAuthenticationError",
            Method::Token => "TokenAuthenticationError",
            Method::Eauth => "EauthAuthenticationError",
        }
    }
}

/// Permissions of a caller.
#[derive(Clone, Debug)]
enum Rights {
    All,
    Listed(AuthList),
}

/// An authenticated user.
#[derive(Clone, Debug)]
pub struct Caller {
    user: String,
    method: Method,
    /// How the user was authenticated: `key`, `token`, `eauth:pam`.
    proof: String,
    rights: Rights,
}

impl Caller {
    /// The user's name.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// How the user was authenticated, for the audit log.
    pub fn proof(&self) -> &str {
        &self.proof
    }

    /// The permissions as passed to lower masters; empty for a user who may do everything.
    pub fn auth_list(&self) -> Value {
        match &self.rights {
            Rights::All => Value::Array(Vec::new()),
            Rights::Listed(list) => list.to_value(),
        }
    }

    /// Whether the caller is limited to a list of permissions.
    pub fn is_limited(&self) -> bool {
        matches!(self.rights, Rights::Listed(_))
    }

    /// Whether the caller may publish these calls, with these additions to the job. `covers` tells whether all minions
    /// of the job belong to a compound target.
    pub fn may_publish(
        &self,
        fun: &Value,
        arg: &Value,
        additions: &[&str],
        covers: &mut dyn FnMut(&str) -> bool,
    ) -> Reach {
        match &self.rights {
            Rights::All => Reach::Everybody,
            Rights::Listed(list) => match Call::of_publication(fun, arg) {
                Some(calls) => list.publication(&calls, additions, &FREE, covers),
                None => Reach::Nobody,
            },
        }
    }
}

/// Failed authentication.
#[derive(Clone, Debug)]
pub struct Unproven {
    /// The claimed name, see [`names::claimed`].
    pub user: String,
    /// The method that failed.
    pub method: Method,
    /// The reason, for the log.
    pub why: String,
}

/// Everything needed for decisions.
pub struct Access {
    config: MasterConfig,
    blacklist: Blacklist,
    tokens: Arc<dyn TokenStore>,
    throttle: Throttle,
    audit: AuditLog,
}

impl Access {
    /// Reads the configuration.
    pub fn new(config: &MasterConfig, stores: &Stores) -> Access {
        Access {
            blacklist: Blacklist::parse(&config.publisher_acl_blacklist),
            tokens: stores.tokens.clone(),
            throttle: Throttle::new(&config.failed_logins()),
            audit: AuditLog::new(Path::new(&config.audit_log)),
            config: config.clone(),
        }
    }

    /// Writes a decision to the audit log.
    pub fn audit_decision(&self, decision: &Decision) {
        self.audit.write(decision);
    }

    /// Whether the user, or one of these functions, is blacklisted.
    pub fn blacklisted(&self, user: &str, fun: &Value) -> bool {
        self.blacklist.user(user) || self.blacklist.function(fun)
    }

    /// Whether the blacklist names a user who is proven, in this spelling or the folded one.
    fn names_user(&self, name: &str) -> bool {
        self.blacklist.user(name) || self.blacklist.user(&names::folded(name))
    }

    /// Authenticates the sender of a request. `fields` holds `token` or `eauth` with its parameters, `load` the
    /// key and the user if there is neither.
    ///
    /// # Errors
    /// Authentication failed, or the user is blacklisted.
    pub fn authenticate(
        &mut self,
        load: &Map,
        fields: &Map,
        peer: &str,
    ) -> Result<Caller, Unproven> {
        let method = Method::of(fields);
        let proven = match method {
            Method::Key => names::check(load).and_then(|()| self.by_key(load)),
            Method::Token => self.by_token(fields),
            Method::Eauth => self.by_eauth(fields, peer),
        };
        let given = match (method, names::claimed(fields, "username")) {
            (Method::Key, _) => names::claimed(load, "user"),
            (_, "") => "UNKNOWN",
            (_, name) => name,
        };
        let unproven = |user: &str, why: String| Unproven {
            user: user.to_owned(),
            method,
            why,
        };
        let mut caller = proven.map_err(|why| unproven(given, why))?;
        if self.names_user(&caller.user) {
            let why = "publisher_acl_blacklist names the user".to_owned();
            return Err(unproven(&caller.user, why));
        }
        // A higher master passes the permissions of its user (`salt/master.py publish`).
        let handed = fields.get("auth_list").filter(|list| list.truthy());
        if let (Rights::All, Some(list)) = (&caller.rights, handed) {
            caller.rights = Rights::Listed(AuthList::parse(list));
        }
        Ok(caller)
    }

    fn by_key(&self, load: &Map) -> Result<Caller, String> {
        let key = load.str("key").ok_or("the key is missing")?;
        let user = match load.get("user") {
            None => None,
            Some(user) => Some(user.as_str().ok_or("the user is not a string")?),
        };
        let (user, method, rights) = local::authenticate(&self.config, user, key)?;
        Ok(Caller {
            user,
            method,
            proof: "key".into(),
            rights,
        })
    }

    /// The settings of an enabled system of external authentication.
    fn system(&self, name: &str) -> Result<&Map, String> {
        if !self.config.eauth_acl_module.is_empty() {
            return Err("eauth_acl_module is set, which is not supported".into());
        }
        let system = self.config.external_auth.get(name);
        system
            .and_then(Value::as_map)
            .ok_or_else(|| format!("external_auth has no system {name:?}"))
    }

    /// The permissions of a user of a system, by the name that [`Access::log_in`] returns.
    fn permissions(&self, system: &str, user: &str, groups: &[String]) -> Result<AuthList, String> {
        let mut users = self.system(system)?.clone();
        for (key, _) in users.0.iter_mut().filter(|_| eauth::folds_names(system)) {
            if let Value::Str(name) = key
                && !name.ends_with('%')
            {
                *name = names::folded(name);
            }
        }
        let permissive = self.config.permissive_acl;
        Ok(roles::external(&users, user, groups, permissive))
    }

    fn by_eauth(&mut self, fields: &Map, peer: &str) -> Result<Caller, String> {
        let (name, user, groups) = self.log_in(fields, peer)?;
        Ok(Caller {
            rights: Rights::Listed(self.permissions(&name, &user, &groups)?),
            user,
            method: Method::Eauth,
            proof: format!("eauth:{name}"),
        })
    }

    /// Checks a password; returns the system, the user and the user's groups. Where spellings of a name are one user, it is
    /// returned folded.
    fn log_in(
        &mut self,
        fields: &Map,
        peer: &str,
    ) -> Result<(String, String, Vec<String>), String> {
        names::check(fields)?;
        let text = |key: &str| fields.str(key).ok_or(format!("{key} is missing"));
        let (name, user, password) = (text("eauth")?, text("username")?, text("password")?);
        let system = self.system(name)?.clone();
        let who = LoginSource::new(name, &names::folded(user), peer);
        let broken = |e: io::Error| format!("failed logins cannot be counted: {e}");
        let left = self.throttle.wait(&who, unix_now()).map_err(broken)?;
        if left > 0 {
            return Err(format!(
                "too many failures; refused for {left} more seconds"
            ));
        }
        match eauth::authenticate(&self.config, name, &system, user, password) {
            Ok(groups) => {
                self.throttle.succeeded(&who).map_err(broken)?;
                let known = match eauth::folds_names(name) {
                    true => names::folded(user),
                    false => user.to_owned(),
                };
                Ok((name.to_owned(), known, groups))
            }
            Err(why) => {
                if eauth::has_passwords(name) {
                    self.throttle.failed(&who, unix_now()).map_err(broken)?;
                }
                Err(why)
            }
        }
    }
}

/// Settings for access control that cannot be honoured, one sentence each. They all deny access.
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
