//! The system `ldap`: binds with the user's password and looks up the user's groups (`salt/auth/ldap.py`). Runs
//! in a child process; see [`super::child`].

use halite_config::MasterConfig;
use halite_wire::{Map, Value};
use ldap3::{LdapConn, LdapConnSettings, Scope, SearchEntry, ldap_escape};
use std::time::Duration;

/// Limit of each step: connecting, binding, searching.
const STEP: Duration = Duration::from_secs(8);
/// Characters with a special meaning in names, filters or templates; they are refused in user names.
const REFUSED: &[char] = &[
    ',', '+', '"', '\\', '<', '>', ';', '=', '*', '(', ')', '#', '\0', '{', '}', '\n', '\r',
];

/// The options `auth.ldap.*` under their short names, as passed to the child.
pub fn settings(config: &MasterConfig) -> Map {
    let all = config.as_map();
    let own = all.iter().filter_map(|(key, value)| {
        let name = key.as_str()?.strip_prefix("auth.ldap.")?;
        Some((name.to_owned(), value.clone()))
    });
    own.collect()
}

/// Why the settings are unusable, if they are.
pub fn fault(settings: &Map) -> Option<&'static str> {
    let on = |key| settings.get(key).is_some_and(Value::truthy);
    let text = |key| !settings.str(key).unwrap_or_default().is_empty();
    if on("starttls") && on("tls") {
        return Some("auth.ldap.starttls and auth.ldap.tls exclude each other");
    }
    if on("anonymous") || on("auth_by_group_membership_only") {
        return Some(
            "auth.ldap.anonymous and auth.ldap.auth_by_group_membership_only would let users in without proof; they are not allowed",
        );
    }
    if !text("binddn") {
        return Some(
            "auth.ldap.binddn is missing: the name of the user to bind as, with {{ username }}, or of an account for searching",
        );
    }
    if text("bindpw") && !text("filter") {
        return Some(
            "auth.ldap.filter is missing; auth.ldap.binddn uses it to search for the user",
        );
    }
    None
}

/// Checks the password; returns the user's groups if it is correct.
///
/// # Errors
/// The password is wrong or could not be checked; the text never contains it.
pub fn check(settings: &Map, user: &str, password: &str) -> Result<Vec<String>, String> {
    if let Some(fault) = fault(settings) {
        return Err(fault.into());
    }
    // An empty password makes an anonymous bind, which succeeds for everybody.
    if user.is_empty() || password.is_empty() || user.contains(REFUSED) {
        return Err(
            "the name or the password is empty, or the name has characters that are refused".into(),
        );
    }
    let directory = Directory { settings, user };
    let bound = directory.bind_as_user(password)?;
    directory.groups(bound)
}

struct Directory<'a> {
    settings: &'a Map,
    user: &'a str,
}

impl Directory<'_> {
    fn text(&self, key: &str) -> &str {
        self.settings.str(key).unwrap_or_default()
    }

    fn on(&self, key: &str) -> bool {
        self.settings.get(key).is_some_and(Value::truthy)
    }

    fn connect(&self) -> Result<LdapConn, String> {
        let scheme = if self.on("tls") { "ldaps" } else { "ldap" };
        let port = self.settings.get("port").and_then(Value::as_int);
        let single = format!("{scheme}://{}:{}", self.text("server"), port.unwrap_or(389));
        let urls = match self.text("uri") {
            "" => single.as_str(),
            listed => listed,
        };
        let mut last = "auth.ldap.uri is empty".to_owned();
        for url in urls.split_whitespace() {
            let settings = LdapConnSettings::new()
                .set_conn_timeout(STEP)
                .set_starttls(self.on("starttls"))
                .set_no_tls_verify(self.on("no_verify"));
            match LdapConn::with_settings(settings, url) {
                Ok(connection) => return Ok(connection),
                Err(e) => last = format!("{url}: {e}"),
            }
        }
        Err(last)
    }

    fn bind(&self, dn: &str, password: &str) -> Result<LdapConn, String> {
        let mut connection = self.connect()?;
        connection
            .with_timeout(STEP)
            .simple_bind(dn, password)
            .and_then(|answer| answer.success())
            .map_err(|e| format!("bind as {dn}: {e}"))?;
        Ok(connection)
    }

    /// A connection bound with the user's password or, with `bindpw`, one for searching after the user's bind
    /// has succeeded.
    fn bind_as_user(&self, password: &str) -> Result<LdapConn, String> {
        let binddn = render(self.text("binddn"), self.user)?;
        let bindpw = self.text("bindpw");
        if bindpw.is_empty() {
            return self.bind(&binddn, password);
        }
        let mut searching = self.bind(&binddn, bindpw)?;
        let filter = render(self.text("filter"), &ldap_escape(self.user))?;
        let scope = match self.settings.get("scope").and_then(Value::as_int) {
            Some(0) => Scope::Base,
            Some(1) => Scope::OneLevel,
            _ => Scope::Subtree,
        };
        let found = search(
            &mut searching,
            self.text("basedn"),
            scope,
            &filter,
            &["1.1"],
        )?;
        let [entry] = found.as_slice() else {
            return Err(format!(
                "{} entries instead of one match {filter}",
                found.len()
            ));
        };
        if entry.dn.is_empty() {
            return Err("the user's entry has no name".into());
        }
        self.bind(&entry.dn, password)?;
        Ok(searching)
    }

    /// The groups of the user, in one of Salt's three ways.
    fn groups(&self, mut connection: LdapConn) -> Result<Vec<String>, String> {
        if self.on("activedirectory") {
            return self.groups_of_active_directory(&mut connection);
        }
        let (account, group) = (
            self.text("accountattributename"),
            self.text("groupattribute"),
        );
        if self.on("freeipa") {
            let filter = render(self.text("group_filter"), &ldap_escape(self.user))?;
            let base = self.text("group_basedn");
            let attributes = [account, group, "cn"];
            let found = search(&mut connection, base, Scope::Subtree, &filter, &attributes)?;
            let member = |entry: &&SearchEntry| {
                let values = values(entry, account).chain(values(entry, group));
                values
                    .into_iter()
                    .any(|value| first_value(value) == self.user)
            };
            let mine = found.iter().filter(member);
            return Ok(mine.map(|e| first_value(&e.dn).to_owned()).collect());
        }
        let basedn = self.text("basedn");
        let base = match self.text("groupou") {
            "" => basedn.to_owned(),
            ou => format!("ou={ou},{basedn}"),
        };
        let name = ldap_escape(self.user);
        let filter = format!(
            "(&({account}={name})(objectClass={}))",
            self.text("groupclass")
        );
        let attributes = [account, "cn", group];
        let found = search(&mut connection, &base, Scope::Subtree, &filter, &attributes)?;
        let mut groups = Vec::new();
        for entry in &found {
            if values(entry, account).any(|value| value == self.user) {
                groups.extend(values(entry, "cn").take(1).map(str::to_owned));
            }
        }
        for entry in found.iter().filter(|e| first_value(&e.dn) == self.user) {
            groups.extend(values(entry, group).map(|g| first_value(g).to_owned()));
        }
        Ok(groups)
    }

    fn groups_of_active_directory(&self, connection: &mut LdapConn) -> Result<Vec<String>, String> {
        let basedn = self.text("basedn");
        let filter = format!(
            "(&({}={})(objectClass={}))",
            self.text("accountattributename"),
            ldap_escape(self.user),
            self.text("persontype")
        );
        let users = search(
            connection,
            basedn,
            Scope::Subtree,
            &filter,
            &["distinguishedName"],
        )?;
        let [user] = users.as_slice() else {
            return Ok(Vec::new());
        };
        let filter = format!(
            "(&(member={})(objectClass={}))",
            ldap_escape(user.dn.as_str()),
            self.text("groupclass")
        );
        let found = search(connection, basedn, Scope::Subtree, &filter, &["cn"])?;
        let names = found.iter().flat_map(|entry| values(entry, "cn").take(1));
        Ok(names.map(str::to_owned).collect())
    }
}

/// Values of an attribute; the case of its name is ignored.
fn values<'a>(entry: &'a SearchEntry, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    entry
        .attrs
        .iter()
        .filter(move |(name, _)| name.eq_ignore_ascii_case(attribute))
        .flat_map(|(_, values)| values.iter().map(String::as_str))
}

/// `web` of `cn=web,ou=groups,dc=example`.
fn first_value(dn: &str) -> &str {
    let first = dn.split(',').next().unwrap_or_default();
    first.rsplit('=').next().unwrap_or_default()
}

/// Matching entries; referrals to other servers are not followed.
fn search(
    connection: &mut LdapConn,
    base: &str,
    scope: Scope,
    filter: &str,
    attributes: &[&str],
) -> Result<Vec<SearchEntry>, String> {
    let attributes: Vec<&str> = attributes
        .iter()
        .copied()
        .filter(|a| !a.is_empty())
        .collect();
    let (found, _) = connection
        .with_timeout(STEP)
        .search(base, scope, filter, attributes)
        .and_then(|answer| answer.success())
        .map_err(|e| format!("search of {filter} below {base:?}: {e}"))?;
    let entries = found
        .into_iter()
        .filter(|e| !e.is_ref() && !e.is_intermediate());
    Ok(entries.map(SearchEntry::construct).collect())
}

/// Replaces `{{ username }}` by the user name; no other Jinja is supported.
fn render(template: &str, user: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once("{{") {
        let (word, after) = behind
            .split_once("}}")
            .ok_or_else(|| format!("{template:?} lacks a '}}}}'"))?;
        if word.trim() != "username" {
            return Err(format!(
                "{template:?}: only {{{{ username }}}} is supported"
            ));
        }
        out.push_str(before);
        out.push_str(user);
        rest = after;
    }
    if rest.contains("{%") {
        return Err(format!(
            "{template:?}: only {{{{ username }}}} is supported"
        ));
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn templates() {
        assert_eq!(
            render("uid={{ username }},dc=x", "fred").unwrap(),
            "uid=fred,dc=x"
        );
        assert_eq!(render("{{username}}@x", "fred").unwrap(), "fred@x");
        assert_eq!(render("cn=admin", "fred").unwrap(), "cn=admin");
        for wrong in [
            "{{ user }}",
            "{{ username",
            "{% if x %}",
            "{{ username|upper }}",
        ] {
            assert!(render(wrong, "fred").is_err(), "{wrong}");
        }
    }

    #[test]
    fn settings_that_let_everybody_in_are_refused() {
        let good = map! {"binddn" => "uid={{ username }},dc=x"};
        assert_eq!(fault(&good), None);
        for (key, value) in [
            ("anonymous", Value::from(true)),
            ("auth_by_group_membership_only", true.into()),
            ("binddn", "".into()),
            ("bindpw", "secret".into()),
        ] {
            let mut bad = good.clone();
            bad.set(key, value);
            assert!(fault(&bad).is_some(), "{key}");
        }
        let both = map! {"binddn" => "x", "tls" => true, "starttls" => true};
        assert!(fault(&both).is_some());
    }

    #[test]
    fn names_that_would_change_the_question_are_refused() {
        let settings = map! {"binddn" => "uid={{ username }},dc=x", "uri" => "ldap://127.0.0.1:1"};
        for user in [
            "",
            "*",
            "a,ou=b",
            "a)(uid=*",
            "a\\2a",
            "{{ username }}",
            "a\0",
        ] {
            let why = check(&settings, user, "x").unwrap_err();
            assert!(why.contains("refused"), "{user}: {why}");
        }
        assert!(check(&settings, "fred", "").unwrap_err().contains("empty"));
        assert_eq!(first_value("cn=web,ou=x"), "web");
        assert_eq!(first_value("fred"), "fred");
    }
}
