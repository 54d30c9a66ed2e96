//! Users.

use super::super::declare::Result;
use super::super::pkg::loose_version;
use super::super::{Call, python};
use super::client::{self, keep_error, text};
use super::database::{connection, maps};
use super::server;
use halite_crypto::HashType;
use halite_wire::{Map, Value};
use sha1::Digest;

/// A user and what shall be its secret.
struct Account {
    user: String,
    host: String,
    password: Option<String>,
    hash: Option<String>,
    unix_socket: bool,
    column: Option<String>,
    with: Map,
}

impl Account {
    fn of(call: &Call<'_>) -> Account {
        Account {
            user: python::str(call.arg("user")),
            host: python::str(call.arg("host")),
            password: call.text("password"),
            hash: call.text("password_hash"),
            unix_socket: is_true(call.arg("unix_socket")),
            column: call.text("password_column").filter(|c| !c.is_empty()),
            with: connection(call),
        }
    }

    /// `'user'@'host'`, quoted.
    fn quoted(&self) -> String {
        format!("{}@{}", text(&self.user), text(&self.host))
    }

    /// The version of the server; with the password of the account if nothing else opens a connection. `None` without one.
    fn version(&mut self, call: &mut Call<'_>) -> Result<Option<String>> {
        let version = server::version(call, &self.with)?;
        let password = self.password.clone().filter(|p| !p.is_empty());
        if !version.is_empty() || password.is_none() {
            return Ok(Some(version));
        }
        client::take_error();
        self.with.set("connection_pass", password);
        let version = server::version(call, &self.with)?;
        Ok(Some(version).filter(|v| !v.is_empty()))
    }

    /// The column that holds what the server keeps of passwords.
    fn column(&self, call: &mut Call<'_>) -> Result<String> {
        if let Some(column) = &self.column {
            return Ok(client::name(column));
        }
        const QUERY: &str = "SELECT column_name from information_schema.COLUMNS \
            WHERE table_schema='mysql' and table_name='user' and column_name='Password'";
        let rows = client::rows(call, &self.with, QUERY)?;
        let has = rows.is_none_or(|rows| !rows.is_empty());
        Ok(if has {
            "Password"
        } else {
            "authentication_string"
        }
        .to_owned())
    }

    /// How the account proves who it is.
    fn plugin(&self, call: &mut Call<'_>) -> Result<String> {
        let statement = format!(
            "SELECT plugin FROM mysql.user WHERE User={} and Host={}",
            text(&self.user),
            text(&self.host)
        );
        let rows = client::rows(call, &self.with, &statement)?;
        let first = rows.and_then(|rows| rows.into_iter().flatten().next());
        let plugin = first.and_then(|(_, value)| value);
        Ok(plugin.unwrap_or_else(|| "mysql_native_password".to_owned()))
    }

    /// Whether the plugin for local users is there; keeps an error if it is not, or if the host is another.
    fn may_use_socket(&self, call: &mut Call<'_>, plugin: &str) -> Result<bool> {
        if server::plugin_status(call, &self.with, plugin)?.is_empty() {
            keep_error(format!("The {plugin} plugin is not enabled."));
            return Ok(false);
        }
        if self.host != "localhost" {
            keep_error("Auth via unix_socket can be set only for host=localhost");
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether there is such a user, with its secret if one is given.
    fn exists(&mut self, call: &mut Call<'_>, passwordless: bool) -> Result<bool> {
        let Some(version) = self.version(call)? else {
            return Ok(false);
        };
        let mariadb = is_mariadb(&version);
        let mut statement = format!(
            "SELECT User,Host FROM mysql.user WHERE User = {} AND Host = {}",
            text(&self.user),
            text(&self.host)
        );
        let has = |secret: &Option<String>| secret.as_ref().is_some_and(|s| !s.is_empty());
        if passwordless && self.unix_socket {
            let plugin = if mariadb {
                "unix_socket"
            } else {
                "auth_socket"
            };
            statement.push_str(&format!(" AND plugin='{plugin}'"));
        } else if passwordless {
            statement.push_str(&format!(" AND {} = ''", self.column(call)?));
        } else if has(&self.password) {
            let password = self.password.as_deref().unwrap_or_default();
            let column = self.column(call)?;
            if mariadb || !is_modern(&version) {
                statement.push_str(&format!(" AND {column} = PASSWORD({})", text(password)));
            } else if self.plugin(call)? == "mysql_native_password" {
                statement.push_str(&format!(" AND {column} = '{}'", native_hash(password)));
            } else {
                keep_error("Unable to verify password.");
            }
        } else if has(&self.hash) {
            let hash = text(self.hash.as_deref().unwrap_or_default());
            statement.push_str(&format!(" AND {} = {hash}", self.column(call)?));
        }
        let rows = client::rows(call, &self.with, &statement)?;
        Ok(rows.is_some_and(|rows| rows.len() == 1))
    }

    /// Whether there is such a user, whatever its secret.
    fn is_known(&self, call: &mut Call<'_>) -> Result<bool> {
        let mut plain = Account {
            user: self.user.clone(),
            host: self.host.clone(),
            password: None,
            hash: None,
            unix_socket: false,
            column: None,
            with: self.with.clone(),
        };
        plain.exists(call, false)
    }
}

/// `salt.utils.data.is_true`.
pub fn is_true(value: &Value) -> bool {
    match value {
        Value::Int(i) => *i > 0,
        Value::Float(f) => *f > 0.0,
        Value::Str(text) => text.to_lowercase() == "true",
        other => other.truthy(),
    }
}

/// Whether a server is MariaDB.
pub fn is_mariadb(version: &str) -> bool {
    version.contains("MariaDB")
}

/// Whether a server of MySQL has no `PASSWORD()` any more.
fn is_modern(version: &str) -> bool {
    loose_version::compare(version, "8.0.11").is_ge()
}

/// What `mysql_native_password` keeps.
fn native_hash(password: &str) -> String {
    let inner = sha1::Sha1::digest(password.as_bytes());
    format!("*{}", HashType::Sha1.hex(&inner).to_uppercase())
}

/// `user_exists`.
pub fn exists(call: &mut Call<'_>) -> Result {
    let mut account = Account::of(call);
    let passwordless = is_true(call.arg("passwordless"));
    Ok(account.exists(call, passwordless)?.into())
}

/// `user_list`.
pub fn list(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let rows = client::rows(call, &with, "SELECT User,Host FROM mysql.user")?;
    Ok(maps(rows.unwrap_or_default()).into())
}

/// `user_info`.
pub fn info(call: &mut Call<'_>) -> Result {
    let account = Account::of(call);
    let statement = format!(
        "SELECT * FROM mysql.user WHERE User = {} AND Host = {}",
        text(&account.user),
        text(&account.host)
    );
    let rows = client::rows(call, &account.with, &statement)?;
    let Some(rows) = rows else {
        return Ok(false.into());
    };
    let mut first = maps(rows).into_iter().next().unwrap_or_default();
    if let Value::Map(all) = &mut first {
        let limits = all.0.iter_mut();
        limits
            .filter(|(key, _)| key.as_str().is_some_and(|key| key.starts_with("max_")))
            .for_each(|(_, value)| server::numbers(value));
    }
    Ok(first)
}

/// `user_create`.
pub fn create(call: &mut Call<'_>) -> Result {
    let mut account = Account::of(call);
    let plugin = python::str(call.arg("auth_plugin"));
    let passwordless = is_true(call.arg("allow_passwordless"));
    let Some(version) = account.version(call)? else {
        return Ok(false.into());
    };
    if account.is_known(call)? {
        log::info!("User '{}'@'{}' already exists", account.user, account.host);
        return Ok(false.into());
    }
    let (mariadb, modern) = (is_mariadb(&version), is_modern(&version));
    let how = if call.flag("unix_socket") {
        let plugin = if mariadb {
            "unix_socket"
        } else {
            "auth_socket"
        };
        if !account.may_use_socket(call, plugin)? {
            return Ok(false.into());
        }
        let word = if mariadb { "VIA" } else { "WITH" };
        format!(" IDENTIFIED {word} {plugin}")
    } else {
        let with_plugin = if modern && !mariadb {
            format!(" WITH {}", text(&plugin))
        } else {
            String::new()
        };
        match (&account.password, &account.hash) {
            (Some(password), _) => format!(" IDENTIFIED{with_plugin} BY {}", text(password)),
            (None, Some(hash)) if with_plugin.is_empty() => {
                format!(" IDENTIFIED BY PASSWORD {}", text(hash))
            }
            (None, Some(hash)) => format!(" IDENTIFIED{with_plugin} AS {}", text(hash)),
            (None, None) if passwordless => String::new(),
            (None, None) => {
                log::error!(
                    "password or password_hash must be specified, unless allow_passwordless=True"
                );
                return Ok(false.into());
            }
        }
    };
    let statement = format!("CREATE USER {}{how}", account.quoted());
    if client::ask(call, &account.with, &statement)?.is_none() {
        return Ok(false.into());
    }
    account.unix_socket = false;
    Ok(account.exists(call, false)?.into())
}

/// `user_chpass`.
pub fn change_password(call: &mut Call<'_>) -> Result {
    let mut account = Account::of(call);
    let passwordless = is_true(call.arg("allow_passwordless"));
    let Some(version) = account.version(call)? else {
        return Ok(false.into());
    };
    if !account.is_known(call)? {
        log::info!("User '{}'@'{}' does not exists", account.user, account.host);
        return Ok(false.into());
    }
    if account.password.is_none() && account.hash.is_none() && !passwordless {
        log::error!("password or password_hash must be specified, unless allow_passwordless=True");
        return Ok(false.into());
    }
    let mariadb = is_mariadb(&version);
    let modern = if mariadb {
        loose_version::compare(&version, "10.4").is_ge()
    } else {
        is_modern(&version)
    };
    let socket = if mariadb {
        "unix_socket"
    } else {
        "auth_socket"
    };
    let by_socket = passwordless && account.unix_socket && account.host == "localhost";
    if by_socket && !account.may_use_socket(call, socket)? {
        return Ok(false.into());
    }
    let user = account.quoted();
    let secret = match (&account.password, &account.hash) {
        (Some(password), _) if mariadb || !modern => format!("PASSWORD({})", text(password)),
        (Some(secret), _) | (None, Some(secret)) => text(secret),
        (None, None) => "''".to_owned(),
    };
    let statement = if modern && by_socket {
        let word = if mariadb { "VIA" } else { "WITH" };
        format!("ALTER USER {user} IDENTIFIED {word} {socket}")
    } else if modern {
        let plugin = text(&account.plugin(call)?);
        if mariadb {
            format!("ALTER USER {user} IDENTIFIED VIA {plugin} USING {secret}")
        } else {
            let how = match (&account.password, &account.hash) {
                (Some(_), _) => format!(" BY {secret}"),
                (None, Some(_)) => format!(" AS {secret}"),
                (None, None) => String::new(),
            };
            format!("ALTER USER {user} IDENTIFIED WITH {plugin}{how}")
        }
    } else {
        let plugin = if by_socket {
            format!(", plugin='{socket}'")
        } else {
            String::new()
        };
        format!(
            "UPDATE mysql.user SET {}={secret}{plugin} WHERE User={} AND Host = {};\nSELECT ROW_COUNT()",
            account.column(call)?,
            text(&account.user),
            text(&account.host)
        )
    };
    let Some(answer) = client::ask(call, &account.with, &statement)? else {
        return Ok(false.into());
    };
    let changed = || {
        let count = answer.into_iter().flatten().flatten().next();
        count.and_then(|(_, value)| value).as_deref() != Some("0")
    };
    if !modern && !changed() {
        return Ok(false.into());
    }
    client::ask(call, &account.with, "FLUSH PRIVILEGES")?;
    Ok(true.into())
}

/// `user_remove`.
pub fn remove(call: &mut Call<'_>) -> Result {
    let account = Account::of(call);
    if !account.is_known(call)? {
        keep_error(format!(
            "User '{}'@'{}' does not exists",
            account.user, account.host
        ));
        return Ok(false.into());
    }
    let statement = format!("DROP USER {}", account.quoted());
    if client::ask(call, &account.with, &statement)?.is_none() {
        return Ok(false.into());
    }
    Ok((!account.is_known(call)?).into())
}

/// The grants of a user as the server writes them; `None` if there is no such user.
pub fn grants_of(
    call: &mut Call<'_>,
    user: &str,
    host: &str,
    with: &Map,
) -> Result<Option<Vec<String>>> {
    let account = Account {
        user: user.to_owned(),
        host: host.to_owned(),
        password: None,
        hash: None,
        unix_socket: false,
        column: None,
        with: with.clone(),
    };
    if !account.is_known(call)? {
        log::info!("User '{user}'@'{host}' does not exist");
        return Ok(None);
    }
    let statement = format!("SHOW GRANTS FOR {}", account.quoted());
    let Some(rows) = client::rows(call, with, &statement)? else {
        return Ok(None);
    };
    const OPTION: &str = "WITH GRANT OPTION";
    let firsts = rows.into_iter().filter_map(|row| row.into_iter().next());
    let one = |(_, grant): (String, Option<String>)| {
        let grant = grant.unwrap_or_default();
        let shown = grant.split(" IDENTIFIED BY").next().unwrap_or_default();
        if grant.contains(OPTION) && !shown.contains(OPTION) {
            return format!("{shown} {OPTION}");
        }
        shown.to_owned()
    };
    Ok(Some(firsts.map(one).collect()))
}

/// `user_grants`.
pub fn grants(call: &mut Call<'_>) -> Result {
    let account = Account::of(call);
    let all = grants_of(call, &account.user, &account.host, &account.with)?;
    Ok(all.map_or(false.into(), Value::from))
}

/// `verify_login`.
pub fn verify_login(call: &mut Call<'_>) -> Result {
    let mut with = connection(call);
    with.set("connection_user", call.arg("user").clone());
    with.set("connection_pass", call.arg("password").clone());
    let answer = client::attempt(call, &with, "DO 0")?;
    Ok(answer.is_ok().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_servers() {
        let expected = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
        assert_eq!(native_hash("secret"), expected);
    }

    #[test]
    fn truth_is_salts() {
        assert!(is_true(&"True".into()) && is_true(&1.into()) && is_true(&true.into()));
        assert!(!is_true(&"yes".into()) && !is_true(&Value::Nil) && !is_true(&0.into()));
    }
}
