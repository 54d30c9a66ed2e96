//! Evaluates a list of permissions. Pure: values in, a verdict out.
//!
//! The syntax is that of `external_auth` and `publisher_acl` (`salt/utils/minions.py` `CkMinions.auth_check`,
//! `spec_check`). An unknown construct grants nothing.

use super::additions::{Additions, permission};
use crate::args::Args;
use halite_target::{PyRegex, python_str};
use halite_wire::yaml::job_input;
use halite_wire::{Map, Value};
use std::collections::HashSet;

/// The permissions of one user, in the order of the configuration.
#[derive(Clone, Debug, Default)]
pub struct AuthList {
    entries: Vec<Entry>,
    raw: Vec<Value>,
}

#[derive(Clone, Debug)]
enum Entry {
    /// A function on every minion.
    Function(Pattern),
    /// `@runner`, `@jobs`, ...: the word after the `@`.
    Special(String),
    /// Functions on the minions of a compound target, or of `@runner`, `@jobs`, ...
    Scoped(String, Vec<FunctionRule>),
}

/// A function, optionally with conditions on its arguments.
#[derive(Clone, Debug)]
struct FunctionRule {
    name: Pattern,
    /// At least one of these must hold; `None` if there is no condition.
    arguments: Option<Vec<ArgumentRule>>,
}

#[derive(Clone, Debug)]
struct ArgumentRule {
    args: Vec<Option<Pattern>>,
    kwargs: Vec<(String, Option<Pattern>)>,
}

/// A regular expression anchored at the start of a text. An empty or invalid one matches nothing.
#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    regex: Option<PyRegex>,
}

impl Pattern {
    fn new(text: &str) -> Pattern {
        let compiled = || {
            PyRegex::new(text)
                .inspect_err(|e| log::error!("the permission {text:?} is not a valid pattern: {e}"))
                .ok()
        };
        Pattern {
            text: text.to_owned(),
            regex: if text.is_empty() { None } else { compiled() },
        }
    }

    fn nothing() -> Pattern {
        Pattern::new("")
    }

    fn matches(&self, text: &str) -> bool {
        let regex = self.regex.as_ref();
        regex.is_some_and(|regex| regex.matches(text) == Ok(true))
    }

    /// Whether it permits an addition to jobs. Patterns are for functions: only `.*`, which means everything, and the
    /// addition's own name count.
    fn permits(&self, addition: &str) -> bool {
        self.text == ".*" || self.text == permission(addition)
    }
}

/// A call as it will be executed.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The function.
    pub fun: String,
    positional: Vec<String>,
    keyword: Vec<(String, String)>,
    /// The arguments cannot be told for certain: a keyword is given twice, and implementations differ in which one
    /// counts. So no condition on arguments holds.
    ambiguous: bool,
    /// What the call, if it publishes a job itself, adds to that.
    added: Vec<&'static str>,
}

impl Call {
    /// A call with the arguments of a job, as minions and gateways read them.
    pub fn of_job(fun: &str, args: &[Value]) -> Call {
        let (positional, keyword) = job_input(args);
        Call::new(fun, &positional, &keyword)
    }

    /// A runner or wheel call with the arguments that the function will get. `declared` are the names of its arguments.
    pub fn of_function(fun: &str, args: &Args, declared: &[&str]) -> Call {
        let mut names = HashSet::new();
        Call {
            added: Additions::named(args.named(declared)),
            ambiguous: !args.named(declared).all(|(name, _)| names.insert(name)),
            ..Call::new(fun, &args.positional, &args.keyword)
        }
    }

    /// A call whose arguments are unusable; it is allowed only where arguments do not count.
    pub fn of_unknown_arguments(fun: &str) -> Call {
        Call {
            ambiguous: true,
            ..Call::new(fun, &[], &Map::new())
        }
    }

    fn new(fun: &str, positional: &[Value], keyword: &Map) -> Call {
        let text = |value: &Value| python_str(value).into_owned();
        let keyword: Vec<(String, String)> =
            keyword.iter().map(|(k, v)| (text(k), text(v))).collect();
        let names: HashSet<&str> = keyword.iter().map(|(name, _)| name.as_str()).collect();
        Call {
            fun: fun.to_owned(),
            positional: positional.iter().map(text).collect(),
            ambiguous: names.len() < keyword.len(),
            added: Vec::new(),
            keyword,
        }
    }

    /// Number of positional arguments and names of keyword arguments, for the audit log.
    pub fn shape(&self) -> String {
        let names = self.keyword.iter().map(|(name, _)| name.as_str());
        let all: Vec<&str> = names.collect();
        if all.is_empty() {
            self.positional.len().to_string()
        } else {
            format!("{} and {}", self.positional.len(), all.join(", "))
        }
    }

    /// The calls of a publication: one function with its arguments, or a list of functions with a list of
    /// arguments each. `None` if it has another shape.
    pub fn of_publication(fun: &Value, arg: &Value) -> Option<Vec<Call>> {
        let list = |v: &Value| match v {
            Value::Nil => Some(Vec::new()),
            other => other.as_array().map(<[Value]>::to_vec),
        };
        match fun {
            Value::Str(fun) => Some(vec![Call::of_job(fun, &list(arg)?)]),
            Value::Array(funs) if !funs.is_empty() => {
                let args = list(arg)?;
                if !args.is_empty() && args.len() != funs.len() {
                    return None;
                }
                let call = |(n, fun): (usize, &Value)| {
                    let own = args.get(n).map_or(Some(Vec::new()), list)?;
                    Some(Call::of_job(fun.as_str()?, &own))
                };
                funs.iter().enumerate().map(call).collect()
            }
            _ => None,
        }
    }
}

/// On which minions a call is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// On none.
    Nobody,
    /// Only on the given minions.
    TheseMinions,
    /// On any minion.
    Everybody,
}

/// The API of a call that is not a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallApi {
    /// Runners: `@runner`, `@runners`.
    Runner,
    /// Wheel: `@wheel`, `@wheels`.
    Wheel,
}

impl CallApi {
    /// The word after `@`.
    pub fn name(self) -> &'static str {
        match self {
            CallApi::Runner => "runner",
            CallApi::Wheel => "wheel",
        }
    }

    fn named_by(self, word: &str) -> bool {
        word == self.name() || word.strip_suffix('s') == Some(self.name())
    }
}

/// Verdict on a runner or wheel call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Allowed.
    Allowed,
    /// Not allowed.
    Denied,
    /// The name is not `module.function`.
    Malformed,
}

impl AuthList {
    /// Parses a list of permissions. A single string counts as a list of one.
    pub fn parse(value: &Value) -> AuthList {
        let raw = match value {
            Value::Array(items) => items.clone(),
            Value::Str(_) => vec![value.clone()],
            _ => Vec::new(),
        };
        let entries = raw.iter().filter_map(entry).collect();
        AuthList { entries, raw }
    }

    /// Appends the permissions of another list.
    pub fn extend(&mut self, other: AuthList) {
        self.entries.extend(other.entries);
        self.raw.extend(other.raw);
    }

    /// Whether nothing at all is allowed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The list as written in the configuration.
    pub fn to_value(&self) -> Value {
        Value::Array(self.raw.clone())
    }

    /// How far all of the calls, with these additions, are allowed (`CkMinions.auth_check`). `covers` tells whether
    /// all minions of the job belong to a compound target. Functions in `free` need no permission; additions always
    /// do, see [`Additions::restricted`].
    pub fn publication(
        &self,
        calls: &[Call],
        additions: &[&str],
        free: &[&str],
        covers: &mut dyn FnMut(&str) -> bool,
    ) -> Reach {
        let mut reach = Reach::Everybody;
        if calls.is_empty() {
            return Reach::Nobody;
        }
        for call in calls.iter().filter(|c| !free.contains(&c.fun.as_str())) {
            let anywhere = |name: &Pattern| name.matches(&call.fun);
            let here = |rules: &[FunctionRule]| any_allows(rules, &call.fun, call);
            reach = reach.min(self.reach(&anywhere, &here, covers));
        }
        for addition in additions {
            let anywhere = |name: &Pattern| name.permits(addition);
            let here = |rules: &[FunctionRule]| rules.iter().any(|rule| rule.permits(addition));
            let own = |entry: &Entry| matches!(entry, Entry::Special(word) if word == addition);
            if !self.entries.iter().any(own) {
                reach = reach.min(self.reach(&anywhere, &here, covers));
            }
        }
        reach
    }

    /// Where something is allowed: `anywhere` tells whether a function without a target allows it, `here` whether
    /// rules below a target do.
    fn reach(
        &self,
        anywhere: &dyn Fn(&Pattern) -> bool,
        here: &dyn Fn(&[FunctionRule]) -> bool,
        covers: &mut dyn FnMut(&str) -> bool,
    ) -> Reach {
        let anywhere = |entry: &Entry| matches!(entry, Entry::Function(name) if anywhere(name));
        if self.entries.iter().any(anywhere) {
            return Reach::Everybody;
        }
        let mut reach = Reach::Nobody;
        for entry in &self.entries {
            let Entry::Scoped(scope, rules) = entry else {
                continue;
            };
            if scope.starts_with('@') || !here(rules) {
                continue;
            }
            if scope == "*" {
                return Reach::Everybody;
            }
            if reach == Reach::Nobody && covers(scope) {
                reach = Reach::TheseMinions;
            }
        }
        reach
    }

    /// Whether a runner or wheel call is allowed (`CkMinions.spec_check`).
    pub fn special(&self, form: CallApi, call: &Call) -> Special {
        if self.raw.is_empty() {
            return Special::Denied;
        }
        let mut parts = call.fun.split('.');
        let (Some(module), Some(function), None) = (parts.next(), parts.next(), parts.next())
        else {
            return Special::Malformed;
        };
        let allows = |entry: &Entry| match entry {
            Entry::Function(_) => false,
            Entry::Special(word) => word == module || form.named_by(word),
            Entry::Scoped(scope, rules) => match scope.strip_prefix('@') {
                None => false,
                Some(word) => {
                    (word == module && any_allows(rules, function, call))
                        || (form.named_by(word) && any_allows(rules, &call.fun, call))
                }
            },
        };
        if self.entries.iter().any(allows) {
            Special::Allowed
        } else {
            Special::Denied
        }
    }
}

fn any_allows(rules: &[FunctionRule], name: &str, call: &Call) -> bool {
    rules.iter().any(|rule| rule.allows(name, call))
}

fn entry(value: &Value) -> Option<Entry> {
    match value {
        Value::Str(text) => Some(match text.strip_prefix('@') {
            Some(word) => Entry::Special(word.to_owned()),
            None => Entry::Function(Pattern::new(text)),
        }),
        Value::Map(map) => {
            let (scope, rules) = single(map)?;
            let rules = listed(rules).iter().filter_map(FunctionRule::parse);
            (!scope.is_empty()).then(|| Entry::Scoped(scope.to_owned(), rules.collect()))
        }
        _ => None,
    }
}

/// The only pair of a one-key map.
fn single(map: &Map) -> Option<(&str, &Value)> {
    match map.0.as_slice() {
        [(Value::Str(key), value)] => Some((key, value)),
        _ => None,
    }
}

fn listed(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        single => std::slice::from_ref(single),
    }
}

impl FunctionRule {
    fn parse(value: &Value) -> Option<FunctionRule> {
        match value {
            Value::Str(name) => Some(FunctionRule {
                name: Pattern::new(name),
                arguments: None,
            }),
            Value::Map(map) => {
                let (name, rules) = single(map)?;
                let rules = listed(rules).iter().filter_map(ArgumentRule::parse);
                Some(FunctionRule {
                    name: Pattern::new(name),
                    arguments: Some(rules.collect()),
                })
            }
            _ => None,
        }
    }

    fn allows(&self, name: &str, call: &Call) -> bool {
        if !self.name.matches(name) {
            return false;
        }
        match &self.arguments {
            None => true,
            Some(rules) => rules.iter().any(|rule| rule.holds(call)),
        }
    }

    /// Whether it permits an addition to jobs.
    fn permits(&self, addition: &str) -> bool {
        self.arguments.is_none() && self.name.permits(addition)
    }
}

impl ArgumentRule {
    /// `None` if invalid: an unknown construct must not lift a condition.
    fn parse(value: &Value) -> Option<ArgumentRule> {
        let map = value.as_map()?;
        let known = |key: &Value| key.is_str("args") || key.is_str("kwargs");
        if !map.iter().all(|(key, _)| known(key)) {
            return None;
        }
        let args = match map.get("args") {
            None => Vec::new(),
            Some(list) => list.as_array()?.iter().map(condition).collect(),
        };
        let kwargs = match map.get("kwargs") {
            None => Vec::new(),
            Some(named) => named
                .as_map()?
                .iter()
                .map(|(k, v)| Some((k.as_str()?.to_owned(), condition(v))))
                .collect::<Option<_>>()?,
        };
        Some(ArgumentRule { args, kwargs })
    }

    fn holds(&self, call: &Call) -> bool {
        let good = |rule: &Option<Pattern>, text: &str| match rule {
            None => true,
            Some(pattern) => pattern.matches(text),
        };
        let unconditional = self.args.is_empty() && self.kwargs.is_empty();
        let named = |added: &&str| self.kwargs.iter().any(|(name, _)| name == added);
        (unconditional || (!call.ambiguous && call.added.iter().all(named)))
            && self.args.len() <= call.positional.len()
            && self
                .args
                .iter()
                .zip(&call.positional)
                .all(|(rule, arg)| good(rule, arg))
            && self.kwargs.iter().all(|(name, rule)| {
                let given = call.keyword.iter().find(|(known, _)| known == name);
                given.is_some_and(|(_, value)| good(rule, value))
            })
    }
}

/// A pattern, or `None` for "any value".
fn condition(value: &Value) -> Option<Pattern> {
    match value {
        Value::Nil => None,
        Value::Str(text) => Some(Pattern::new(text)),
        _ => Some(Pattern::nothing()),
    }
}
