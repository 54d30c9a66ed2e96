//! The permissions of users: users and groups of `external_auth`, the patterns of `publisher_acl`, and the
//! blacklist. Pure.

use super::rules::AuthList;
use halite_target::{PyRegex, RegexLimit, fnmatch};
use halite_wire::{Map, Value};

/// The permissions of a user under one `external_auth` system, including those of the user's groups
/// (`salt/utils/minions.py CkMinions.fill_auth_list`).
///
/// Names are compared literally. Stock Salt uses the user's name as a pattern, so that `a.b` gets the
/// permissions of `axb`. With `permissive`, `*` grants nothing, as in stock Salt.
pub fn external(system: &Map, name: &str, groups: &[String], permissive: bool) -> AuthList {
    let mut list = AuthList::default();
    let mut matched = false;
    for (key, permissions) in system.iter() {
        let Some(key) = key.as_str().filter(|k| !k.starts_with('^') && *k != "*") else {
            continue;
        };
        let mine = match key.strip_suffix('%') {
            Some(group) => groups.iter().any(|g| g == group.trim_end_matches('%')),
            None => {
                matched |= key == name;
                key == name
            }
        };
        if mine {
            list.extend(AuthList::parse(permissions));
        }
    }
    let everybody = system.get("*").filter(|_| !matched && !permissive);
    if let Some(permissions) = everybody {
        list.extend(AuthList::parse(permissions));
    }
    list
}

/// The permissions of a local user under `publisher_acl`; `None` if no pattern matches the user
/// (`salt/utils/master.py get_values_of_matching_keys`).
pub fn publisher(acl: &Map, user: &str) -> Option<AuthList> {
    let mut list: Option<AuthList> = None;
    for (pattern, permissions) in acl.iter() {
        let Some(pattern) = pattern.as_str() else {
            continue;
        };
        // Without the group, `fred|mary` would match `freddy` as well, as it does in stock Salt.
        let grouped = format!("(?:{pattern})");
        if fnmatch(user, pattern) || expr_match(user, &grouped) == Ok(true) {
            list.get_or_insert_default()
                .extend(AuthList::parse(permissions));
        }
    }
    list.filter(|list| !list.is_empty())
}

/// Matches a whole text against a glob or a regular expression (`salt/utils/stringutils.py expr_match`).
///
/// # Errors
/// It cannot be told.
pub fn expr_match(text: &str, expr: &str) -> Result<bool, RegexLimit> {
    if fnmatch(text, expr) {
        return Ok(true);
    }
    PyRegex::new(&format!(r"\A{expr}\Z")).map_or(Ok(false), |regex| regex.matches(text))
}

/// Whether a name is on a blacklist, or may be.
fn listed(blacklist: &[String], name: &str) -> bool {
    let mut expressions = blacklist.iter();
    expressions.any(|expr| expr_match(name, expr) != Ok(false))
}

/// `publisher_acl_blacklist`: users and functions that are always refused (`salt/acl/__init__.py
/// PublisherACL`).
#[derive(Clone, Debug, Default)]
pub struct Blacklist {
    users: Vec<String>,
    modules: Vec<String>,
    /// The option is malformed: everybody is refused.
    broken: bool,
}

impl Blacklist {
    /// Parses the option; if it is malformed, everything is refused.
    pub fn parse(option: &Map) -> Blacklist {
        let texts = |key: &str| match option.get(key) {
            None | Some(Value::Nil) => Some(Vec::new()),
            Some(Value::Str(one)) => Some(vec![one.clone()]),
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| item.as_str().map(str::to_owned))
                .collect(),
            Some(_) => None,
        };
        let known = |(key, _): &(Value, Value)| key.is_str("users") || key.is_str("modules");
        match (texts("users"), texts("modules"), option.iter().all(known)) {
            (Some(users), Some(modules), true) => Blacklist {
                // Users of directories are known in lower case, however the option writes them.
                users: users
                    .into_iter()
                    .flat_map(|user| [user.to_lowercase(), user])
                    .collect(),
                modules,
                broken: false,
            },
            _ => Blacklist {
                broken: true,
                ..Blacklist::default()
            },
        }
    }

    /// Whether the option is malformed.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether this user is refused everything.
    pub fn user(&self, name: &str) -> bool {
        self.broken || listed(&self.users, name)
    }

    /// Whether this function, or one of this list, is refused. A value of another type is refused if any
    /// function is.
    pub fn function(&self, fun: &Value) -> bool {
        let refused = |fun: &Value| match fun.as_str() {
            Some(name) => listed(&self.modules, name),
            None => !self.modules.is_empty(),
        };
        self.broken
            || match fun {
                Value::Array(funs) => funs.iter().any(refused),
                single => refused(single),
            }
    }
}
