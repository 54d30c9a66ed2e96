//! Privileges.

use super::super::declare::Result;
use super::super::pkg::loose_version;
use super::super::{Call, CallError, python};
use super::client::{self, name as quoted, text};
use super::database::connection;
use super::tokens::{Tokens, tokens};
use super::user::{grants_of, is_mariadb, is_true};
use super::{names, server};
use halite_wire::{Map, Value};

/// A grant as its arguments tell it.
struct Grant {
    what: String,
    database: String,
    user: String,
    host: String,
    with_option: bool,
    escape: bool,
    with: Map,
}

impl Grant {
    fn of(call: &Call<'_>) -> Grant {
        let arg = |name: &str| python::str(call.arg(name));
        Grant {
            what: arg("grant"),
            database: arg("database"),
            user: arg("user"),
            host: arg("host"),
            with_option: is_true(call.arg("grant_option")),
            escape: call.flag("escape"),
            with: connection(call),
        }
    }

    fn account(&self) -> String {
        format!("{}@{}", text(&self.user), text(&self.host))
    }

    /// Database and table.
    fn parts(&self) -> (&str, &str) {
        self.database
            .rsplit_once('.')
            .unwrap_or(("", &self.database))
    }

    /// The object of the statement, `db.table`.
    fn place(&self, escape: bool) -> Result<String> {
        let (database, table) = self.parts();
        if !escape {
            if is_place(database) && is_name(table) {
                return Ok(format!("{database}.{table}"));
            }
            return Err(CallError::Invocation(format!(
                "Invalid database or table: {}",
                self.database
            )));
        }
        let database = match database {
            "*" => "*".to_owned(),
            other if table == "*" => quoted(other).replace('_', "\\_"),
            other => quoted(other),
        };
        let table = match table {
            "*" => "*".to_owned(),
            other => quoted(other),
        };
        Ok(format!("{database}.{table}"))
    }

    /// The statement without the end that asks for a kind of connection.
    fn statement(&self) -> Result<String> {
        Ok(format!(
            "GRANT {} ON {} TO ",
            normal(&self.what.to_uppercase())?,
            self.place(self.escape)?
        ))
    }

    /// Whether the user has it.
    fn is_set(&self, call: &mut Call<'_>) -> Result<bool> {
        let version = server::version(call, &self.with)?;
        if version.is_empty() {
            return Ok(false);
        }
        let everything = self.what.to_uppercase().contains("ALL");
        let mariadb = is_mariadb(&version);
        let counted = everything
            && !mariadb
            && self.database == "*.*"
            && loose_version::compare(&version, "8.0").is_ge();
        let mut wanted = if counted {
            Tokens {
                grants: server_privileges(call, &self.with)?,
                database: self.database.clone(),
                ..Tokens::default()
            }
        } else {
            let what = if everything {
                "ALL PRIVILEGES".to_owned()
            } else {
                self.what.clone()
            };
            let plain = Grant {
                what,
                with: Map::new(),
                database: self.database.clone(),
                user: self.user.clone(),
                host: self.host.clone(),
                ..*self
            };
            match plain.statement() {
                Ok(statement) => tokens(&statement)?,
                Err(fault) => {
                    log::error!("Error during grant generation: {fault}");
                    return Ok(false);
                }
            }
        };
        (wanted.user, wanted.host) = (self.user.clone(), self.host.clone());
        let Some(grants) = grants_of(call, &self.user, &self.host, &self.with)? else {
            return Ok(false);
        };
        let resolved = |grants: Vec<String>| -> Vec<String> {
            grants
                .into_iter()
                .map(|one| resolve(one, &version, mariadb))
                .collect()
        };
        // Several grants may be on one database.
        let mut all: Vec<Tokens> = Vec::new();
        for grant in &grants {
            let mut one = tokens(grant)?;
            one.grants = resolved(one.grants);
            match all.iter_mut().find(|known| known.database == one.database) {
                Some(known) => known.grants.extend(one.grants),
                None => all.push(one),
            }
        }
        wanted.grants = resolved(wanted.grants);
        let plain = |text: &str| text.replace(['"', '\\', '`'], "");
        Ok(all.iter().any(|has| {
            plain(&has.user) == plain(&wanted.user)
                && plain(&has.host) == plain(&wanted.host)
                && plain(&has.database) == plain(&wanted.database)
                && wanted.grants.iter().all(|one| has.grants.contains(one))
        }))
    }
}

/// Names that MariaDB has given to older privileges.
fn resolve(grant: String, version: &str, mariadb: bool) -> String {
    let since = |first: &str| mariadb && loose_version::compare(version, first).is_ge();
    match grant.as_str() {
        "REPLICATION REPLICA" if since("10.5.1") => "REPLICATION SLAVE".to_owned(),
        "REPLICATION CLIENT" if since("10.5.2") => "BINLOG MONITOR".to_owned(),
        "REPLICA MONITOR" if since("10.5.9") => "SLAVE MONITOR".to_owned(),
        _ => grant,
    }
}

/// All privileges that the server knows.
fn server_privileges(call: &mut Call<'_>, with: &Map) -> Result<Vec<String>> {
    let rows = client::rows(call, with, "SHOW PRIVILEGES")?;
    let firsts = rows.unwrap_or_default().into_iter().filter_map(|row| {
        let (_, name) = row.into_iter().next()?;
        Some(name?.trim().to_uppercase())
    });
    let all: Vec<String> = firsts
        .filter(|name| !matches!(name.as_str(), "USAGE" | "GRANT OPTION" | "PROXY"))
        .collect();
    if all.is_empty() {
        return Ok(names::ALL.iter().map(|name| (*name).to_owned()).collect());
    }
    Ok(all)
}

/// A name without or within backquotes, or an asterisk.
fn is_name(text: &str) -> bool {
    let inner = text.strip_prefix('`').and_then(|t| t.strip_suffix('`'));
    let inside = inner.is_some_and(|t| !t.is_empty() && !t.replace("``", "").contains('`'));
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '%' | '\\');
    text == "*" || inside || (!text.is_empty() && text.chars().all(plain))
}

/// The same after a kind of object.
fn is_place(text: &str) -> bool {
    let kinds = ["TABLE ", "FUNCTION ", "PROCEDURE "];
    let bare = kinds.iter().find_map(|kind| {
        let start = text.get(..kind.len())?;
        start
            .eq_ignore_ascii_case(kind)
            .then(|| &text[kind.len()..])
    });
    is_name(bare.unwrap_or(text))
}

/// Privileges with columns, checked.
fn normal(grant: &str) -> Result<String> {
    if grant.trim().eq_ignore_ascii_case("ALL") {
        return Ok("ALL PRIVILEGES".to_owned());
    }
    let invalid = |part: &str| CallError::raised("Exception", format!("Invalid grant : '{part}'"));
    let mut out = Vec::new();
    let mut rest = grant;
    while !rest.trim().is_empty() {
        let end = rest.find([',', '(']).unwrap_or(rest.len());
        let name = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        if !names::KNOWN.contains(&name.to_uppercase().as_str()) {
            return Err(invalid(rest[..end].trim()));
        }
        rest = &rest[end..];
        let mut one = name;
        if let Some(inner) = rest.strip_prefix('(') {
            let (columns, after) = inner.split_once(')').ok_or_else(|| invalid(inner))?;
            let columns = columns.split(',').map(str::trim);
            let checked = columns.map(|c| {
                if c != "*" && is_name(c) {
                    c.to_owned()
                } else {
                    quoted(c)
                }
            });
            let checked: Vec<String> = checked.collect();
            one.push_str(&format!(" ({})", checked.join(", ")));
            rest = after.trim_start();
        }
        out.push(one);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.trim().is_empty() => break,
            None => return Err(invalid(rest)),
        }
    }
    Ok(out.join(", "))
}

/// `grant_exists`.
pub fn exists(call: &mut Call<'_>) -> Result {
    Ok(Grant::of(call).is_set(call)?.into())
}

/// What a user's connections must have.
fn required(options: &Value) -> Result<String> {
    let Value::Array(list) = options else {
        return Ok(String::new());
    };
    let mut all = Vec::new();
    for (key, value) in list.iter().filter_map(|o| o.as_map()?.iter().next()) {
        let key = python::str(key);
        let normal = key.trim().to_uppercase();
        match normal.as_str() {
            "CIPHER" | "ISSUER" | "SUBJECT" => {
                let value = python::str(value).replace('\'', "");
                all.push(format!("{normal} {}", text(&value)));
            }
            "SSL" | "X509" if value.truthy() => all.push(normal),
            "SSL" | "X509" => {}
            _ => {
                return Err(CallError::raised(
                    "Exception",
                    format!("Invalid SSL option : '{key}'"),
                ));
            }
        }
    }
    if all.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(" REQUIRE {}", all.join(" AND ")))
}

/// `grant_add`.
pub fn add(call: &mut Call<'_>) -> Result {
    let mut grant = Grant::of(call);
    grant.what = grant.what.trim().to_owned();
    let parts = grant
        .statement()
        .and_then(|start| Ok((start, required(call.arg("ssl_option"))?)));
    let (start, require) = match parts {
        Ok(parts) => parts,
        Err(fault) => {
            log::error!("Error during grant generation: {fault}");
            return Ok(false.into());
        }
    };
    let option = if grant.with_option {
        " WITH GRANT OPTION"
    } else {
        ""
    };
    let statement = format!("{start}{}{require}{option}", grant.account());
    if let Err(fault) = client::attempt(call, &grant.with, &statement)? {
        if fault.class() == "ProgrammingError" {
            client::keep_error(format!("MySQL Error {}: {}", fault.code, fault.message));
        } else {
            client::tolerate(&fault)?;
        }
        return Ok(false.into());
    }
    Ok(grant.is_set(call)?.into())
}

/// `grant_revoke`.
pub fn revoke(call: &mut Call<'_>) -> Result {
    let grant = Grant::of(call);
    let (what, place) = (normal(&grant.what)?, grant.place(true)?);
    let end = format!("ON {place} FROM {}", grant.account());
    let statement = match (grant.with_option, what.as_str()) {
        (false, _) => format!("REVOKE {what} {end}"),
        // These do not go together.
        (true, "ALL PRIVILEGES") => {
            format!("REVOKE {what} {end};\nREVOKE GRANT OPTION {end}")
        }
        (true, _) => format!("REVOKE {what}, GRANT OPTION {end}"),
    };
    if client::ask(call, &grant.with, &statement)?.is_none() {
        return Ok(false.into());
    }
    Ok((!grant.is_set(call)?).into())
}

/// `quote_identifier`.
pub fn quote_identifier(call: &mut Call<'_>) -> Result {
    let name = quoted(&python::str(call.arg("identifier"))).replace('%', "%%");
    Ok(if call.flag("for_grants") {
        name.replace('_', "\\_")
    } else {
        name
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_checked() {
        let good = |text: &str| normal(text).unwrap();
        assert_eq!(good("all"), "ALL PRIVILEGES");
        assert_eq!(
            good("SELECT,INSERT , create  view"),
            "SELECT, INSERT, create view"
        );
        assert_eq!(good("SELECT (a, b), UPDATE"), "SELECT (a, b), UPDATE");
        assert_eq!(good("SELECT (a b)"), "SELECT (`a b`)");
        for text in [
            "SELECT; DROP",
            "DANCE",
            "SELECT (a",
            "SELECT (a) x",
            "SELECT ` INSERT",
        ] {
            assert!(normal(text).is_err(), "{text}");
        }
    }

    #[test]
    fn places_are_checked() {
        for text in [
            "*",
            "a_b",
            "`a``b`",
            "FUNCTION db",
            "procedure `x y`",
            "d\\_b%",
        ] {
            assert!(is_place(text), "{text}");
        }
        for text in ["", "a b", "`a`b`", "a;b", "x TO y"] {
            assert!(!is_place(text), "{text}");
        }
    }
}
