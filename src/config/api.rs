//! The option `api`, or `rest_cherrypy` as in Salt: the REST service of a master.

use super::gateways::{SettingKind, check};
use super::{ConfigError, MasterConfig, finish};
use halite_wire::{Map, Value};
use std::net::IpAddr;
use std::path::PathBuf;

/// The REST service.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiConfig {
    /// `host`: the address on which it listens.
    pub host: String,
    /// `port`.
    pub port: u16,
    /// `ssl_crt` with `ssl_chain`, and `ssl_key`; `None` with `disable_ssl`.
    pub tls: Option<ApiTls>,
    /// `max_request_body_size`: bytes of a request's body.
    pub max_body: usize,
    /// `cors_origins`: pages of these origins may use it.
    pub origins: Vec<String>,
    /// `authorized_ips`: only these addresses may use it; all if empty.
    pub addresses: Vec<IpAddr>,
    /// `api_acl:users`: where users may log in from.
    acl: Option<Map>,
    /// `webhook_url`, without slashes.
    pub webhook_url: String,
    /// `webhook_disable_auth`.
    pub webhook_disable_auth: bool,
    /// `rate_limit`: requests per second of a user, or of an address without a session; 0: any number.
    pub rate_limit: u32,
    /// `console`: whether browsers get the console.
    pub console: bool,
    /// `arena`: whether ARENA's own tools may ask for its runtimes and modules, without a login.
    pub arena: bool,
    /// `app`: a page that browsers get in its place.
    pub app: Option<PathBuf>,
    /// `app_path`, without slashes: where it is as well.
    pub app_path: String,
    /// `user`: the account that runs it, as a daemon of its own (`halite-api`); without one it is a role of the master.
    pub user: Option<String>,
    /// `audit_log`: the audit log of that daemon, which cannot write to the master's.
    pub audit_log: Option<PathBuf>,
    /// `static`: a directory with files for it.
    pub static_dir: Option<PathBuf>,
    /// `static_path`, without slashes: where these are.
    pub static_path: String,
}

/// Files of its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTls {
    /// The certificate, with those that have signed it.
    pub certificate: PathBuf,
    /// Further certificates that have signed it.
    pub chain: Option<PathBuf>,
    /// Its key.
    pub key: PathBuf,
}

/// Requests per second, if the configuration says nothing.
const RATE_LIMIT: u32 = 100;
/// Most bytes of a body, if the configuration says nothing.
const MAX_BODY: u64 = 1 << 20;

const SETTINGS: &[(&str, SettingKind)] = &[
    // A map, which is looked at apart.
    ("api_acl", SettingKind::Text),
    ("port", SettingKind::Number(1, 65_535)),
    ("host", SettingKind::Text),
    ("disable_ssl", SettingKind::Flag),
    ("ssl_crt", SettingKind::Text),
    ("ssl_key", SettingKind::Text),
    ("ssl_chain", SettingKind::Text),
    (
        "max_request_body_size",
        SettingKind::Number(1024, 128 << 20),
    ),
    ("cors_origins", SettingKind::List),
    ("authorized_ips", SettingKind::List),
    ("webhook_url", SettingKind::Text),
    ("webhook_disable_auth", SettingKind::Flag),
    ("rate_limit", SettingKind::Number(0, 1_000_000)),
    ("console", SettingKind::Flag),
    ("arena", SettingKind::Flag),
    ("app", SettingKind::Text),
    ("app_path", SettingKind::Text),
    ("static", SettingKind::Text),
    ("static_path", SettingKind::Text),
    ("user", SettingKind::Text),
    ("audit_log", SettingKind::Text),
];

/// Settings of stock that have no effect here.
const WITHOUT_EFFECT: &[&str] = &[
    "thread_pool",
    "queue_size",
    "socket_queue_size",
    "collect_stats",
    "stats_disable_auth",
    "debug",
    "log_access_file",
    "log_error_file",
    "expire_responses",
    "enable_sessions",
    "favicon",
    "root_prefix",
];

impl ApiConfig {
    /// Whether `api_acl` lets this user log in from this address. The user's own entry counts before that of all.
    pub fn may_log_in(&self, user: &str, from: IpAddr) -> bool {
        let Some(users) = &self.acl else {
            return true;
        };
        let entry = users.get(user).or_else(|| users.get("*"));
        let Some(entry) = entry else { return false };
        let all = match entry {
            Value::Str(one) => vec![one.clone()],
            other => other.str_list(),
        };
        all.iter()
            .any(|one| one == "*" || one.parse() == Ok(from.to_canonical()))
    }
}

impl MasterConfig {
    fn api_map(&self) -> (&'static str, &Map) {
        match self.api.is_empty() {
            true => ("rest_cherrypy", &self.rest_cherrypy),
            false => ("api", &self.api),
        }
    }

    /// The REST service, if there is a `port`.
    pub fn api(&self) -> Option<ApiConfig> {
        let (_, map) = self.api_map();
        let port = u16::try_from(map.int("port")?).ok()?;
        let text = |name: &str| map.str(name).filter(|text| !text.is_empty());
        let flag = |name: &str| map.get(name).is_some_and(Value::truthy);
        let list = |name: &str| match map.get(name) {
            Some(Value::Str(one)) => vec![one.clone()],
            other => other.map(Value::str_list).unwrap_or_default(),
        };
        let files = || {
            Some(ApiTls {
                certificate: text("ssl_crt")?.into(),
                chain: text("ssl_chain").map(PathBuf::from),
                key: text("ssl_key")?.into(),
            })
        };
        let addresses = list("authorized_ips").into_iter();
        let max_body = map
            .int("max_request_body_size")
            .and_then(|n| usize::try_from(n).ok());
        let acl = map.get("api_acl").and_then(Value::as_map);
        let name = |setting: &str, default: &str| {
            let given = text(setting).unwrap_or(default);
            given.trim_matches('/').to_owned()
        };
        let rate_limit = map.int("rate_limit").and_then(|n| u32::try_from(n).ok());
        Some(ApiConfig {
            host: text("host").unwrap_or("0.0.0.0").to_owned(),
            port,
            tls: files().filter(|_| !flag("disable_ssl")),
            max_body: max_body.unwrap_or(MAX_BODY as usize),
            origins: list("cors_origins"),
            addresses: addresses
                .filter_map(|one| one.parse::<IpAddr>().ok())
                .map(|one| one.to_canonical())
                .collect(),
            acl: acl.map(|acl| {
                let users = acl.get("users").and_then(Value::as_map);
                users.cloned().unwrap_or_default()
            }),
            webhook_url: name("webhook_url", "hook"),
            webhook_disable_auth: flag("webhook_disable_auth"),
            rate_limit: rate_limit.unwrap_or(RATE_LIMIT),
            console: map.get("console").is_none_or(Value::truthy),
            arena: flag("arena"),
            app: text("app").map(PathBuf::from),
            app_path: name("app_path", "app"),
            static_dir: text("static").map(PathBuf::from),
            static_path: name("static_path", "static"),
            user: text("user").map(str::to_owned),
            audit_log: text("audit_log").map(PathBuf::from),
        })
    }

    /// Its port.
    pub fn api_ports(&self) -> Vec<u16> {
        self.api().map(|api| api.port).into_iter().collect()
    }

    /// Checks the settings; returns a warning for each that is unknown or has no effect.
    pub(super) fn check_api(&self, checks: &finish::Checks) -> Result<Vec<String>, ConfigError> {
        let (path, map) = self.api_map();
        let mut known = Map::new();
        let mut warnings = Vec::new();
        for (name, value) in map.iter() {
            match name.as_str() {
                Some(one) if WITHOUT_EFFECT.contains(&one) => {
                    warnings.push(format!("{path}:{one} has no effect"));
                }
                Some("api_acl") if value.as_map().is_some_and(|acl| acl.contains("users")) => {}
                Some("api_acl") => {
                    let what = "a map of 'users' to maps of users to addresses";
                    return Err(checks.bad(&format!("{path}:api_acl"), value, what));
                }
                Some(one) => known.set(one, value.clone()),
                None => {}
            }
        }
        warnings.extend(check(path, &known, SETTINGS, checks)?);
        let Some(api) = self.api() else {
            return Ok(warnings);
        };
        let bad = |name: &str, expected: &str| {
            let found = map.get(name).cloned().unwrap_or_default();
            Err(checks.bad(&format!("{path}:{name}"), &found, expected))
        };
        let has_tls = api.tls.is_some() || map.get("disable_ssl").is_some_and(Value::truthy);
        if !has_tls {
            return bad(
                "ssl_crt",
                "the path of a certificate, with that of its key in ssl_key; `disable_ssl: true` goes without, for tests and behind a proxy",
            );
        }
        let given = map.get("authorized_ips").map(|list| match list {
            Value::Str(_) => 1,
            other => other.str_list().len(),
        });
        if given.unwrap_or(0) != api.addresses.len() {
            return bad("authorized_ips", "IP addresses");
        }
        for (name, given) in [
            ("webhook_url", &api.webhook_url),
            ("app_path", &api.app_path),
            ("static_path", &api.static_path),
        ] {
            if given.is_empty() || given.contains('/') {
                return bad(name, "one name, such as /hook");
            }
        }
        if let Some(user) = &api.user {
            if user == "root" || *user == self.user {
                return bad("user", "an account that is neither root nor the master's");
            }
            if self.publisher_acl.contains(user.as_str()) {
                return bad("user", "an account without permissions in publisher_acl");
            }
            if self.order_masters {
                return bad(
                    "user",
                    "nothing with `order_masters`: on a master of masters it is a role of the master",
                );
            }
            if api.audit_log.is_none() && !self.audit_log.is_empty() {
                warnings.push(format!(
                    "{path}:audit_log is not set: with `user`, calls of the service are in no audit log"
                ));
            }
        }
        if let Some(tls) = &api.tls {
            for (name, file) in [("ssl_crt", &tls.certificate), ("ssl_key", &tls.key)] {
                if !file.is_file() {
                    let file = file.display();
                    warnings.push(format!("{path}:{name}: there is no file {file}"));
                }
            }
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_log_in_where_they_may() {
        let text = "rest_cherrypy: {port: 8000, disable_ssl: true, api_acl: {users: {'*': [10.0.0.1], bob: ['*'], eve: []}}}";
        let map = halite_wire::yaml::parse(text).unwrap().into_map().unwrap();
        let api = MasterConfig::from_map(map, std::path::Path::new("/etc/halite"))
            .unwrap()
            .api()
            .unwrap();
        for (user, from, may) in [
            ("alice", "10.0.0.1", true),
            ("alice", "10.0.0.2", false),
            ("bob", "10.0.0.2", true),
            ("eve", "10.0.0.1", false),
            ("alice", "::ffff:10.0.0.1", true),
        ] {
            assert_eq!(
                api.may_log_in(user, from.parse().unwrap()),
                may,
                "{user} {from}"
            );
        }
    }
}
