//! Who has which permissions: users and groups of `external_auth`, the patterns of
//! `publisher_acl`, and the blacklist. Pure.

use super::rules::AuthList;
use halite_target::{PyRegex, fnmatch};
use halite_wire::{Map, Value};

/// The permissions of a user under one `external_auth` system, his groups' included
/// (`salt/utils/minions.py CkMinions.fill_auth_list`).
///
/// Names are compared as they are. Stock Salt takes the name of the user as a pattern, so that
/// `a.b` gets the permissions of `axb`. With `permissive`, `*` grants nothing, as with stock Salt.
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

/// The permissions of a local user under `publisher_acl`; `None` if no pattern there means him
/// (`salt/utils/master.py get_values_of_matching_keys`).
pub fn publisher(acl: &Map, user: &str) -> Option<AuthList> {
    let mut list: Option<AuthList> = None;
    for (pattern, permissions) in acl.iter() {
        let Some(pattern) = pattern.as_str() else {
            continue;
        };
        // Without the group, as with stock Salt, `fred|mary` would mean `freddy` as well.
        let grouped = format!("(?:{pattern})");
        if fnmatch(user, pattern) || expr_match(user, &grouped) {
            list.get_or_insert_default()
                .extend(AuthList::parse(permissions));
        }
    }
    list.filter(|list| !list.is_empty())
}

/// A glob or a regular expression on a whole text (`salt/utils/stringutils.py expr_match`).
pub fn expr_match(text: &str, expr: &str) -> bool {
    if fnmatch(text, expr) {
        return true;
    }
    PyRegex::new(&format!(r"\A{expr}\Z")).is_ok_and(|regex| regex.matches(text))
}

/// `publisher_acl_blacklist`: users and functions that are refused, whoever proves what
/// (`salt/acl/__init__.py PublisherACL`).
#[derive(Clone, Debug, Default)]
pub struct Blacklist {
    users: Vec<String>,
    modules: Vec<String>,
    /// It cannot be read: everybody is refused.
    broken: bool,
}

impl Blacklist {
    /// Reads the option; a shape that is not known refuses everything.
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
                users,
                modules,
                broken: false,
            },
            _ => Blacklist {
                broken: true,
                ..Blacklist::default()
            },
        }
    }

    /// Whether the option could not be read.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether this user may do nothing.
    pub fn user(&self, name: &str) -> bool {
        self.broken || self.users.iter().any(|expr| expr_match(name, expr))
    }

    /// Whether nobody may call this function, or one of this list. What is neither is refused
    /// as soon as any function is.
    pub fn function(&self, fun: &Value) -> bool {
        let listed = |fun: &Value| match fun.as_str() {
            Some(name) => self.modules.iter().any(|expr| expr_match(name, expr)),
            None => !self.modules.is_empty(),
        };
        self.broken
            || match fun {
                Value::Array(funs) => funs.iter().any(listed),
                single => listed(single),
            }
    }
}
