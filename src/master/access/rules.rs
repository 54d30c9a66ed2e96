//! Evaluates a list of permissions. Pure: values in, a verdict out.
//!
//! The syntax is that of `external_auth` and `publisher_acl` (`salt/utils/minions.py` `CkMinions.auth_check`,
//! `spec_check`). An unknown construct grants nothing.

use halite_target::{PyRegex, python_str};
use halite_wire::yaml::parse_kwarg;
use halite_wire::{Map, Value};

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
struct Pattern(Option<PyRegex>);

impl Pattern {
    fn new(text: &str) -> Pattern {
        if text.is_empty() {
            return Pattern(None);
        }
        let regex = PyRegex::new(text);
        Pattern(
            regex
                .inspect_err(|e| log::error!("the permission {text:?} is not a valid pattern: {e}"))
                .ok(),
        )
    }

    fn matches(&self, text: &str) -> bool {
        self.0.as_ref().is_some_and(|regex| regex.matches(text))
    }
}

/// A call as it will be executed.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The function.
    pub fun: String,
    positional: Vec<String>,
    keyword: Vec<(String, String)>,
    /// A keyword argument is given twice. Implementations differ in which one counts, so no condition on
    /// arguments holds.
    ambiguous: bool,
}

/// Fields of a request that are not arguments.
const NO_ARGUMENTS: [&str; 10] = [
    "cmd", "fun", "user", "key", "token", "eauth", "username", "password", "arg", "kwarg",
];

impl Call {
    /// A call with the arguments of a job. Keyword arguments are recognised like on a minion (`salt/minion.py
    /// load_args_and_kwargs`): every marked map and every string of the form `name=value`, at any position.
    pub fn of_job(fun: &str, args: &[Value]) -> Call {
        let mut call = Call {
            fun: fun.to_owned(),
            ..Call::default()
        };
        for arg in args {
            match arg {
                Value::Map(map) if map.get("__kwarg__").is_some_and(Value::truthy) => {
                    let named = map.iter().filter(|(k, _)| !k.is_str("__kwarg__"));
                    named.for_each(|(k, v)| call.name(&python_str(k), &python_str(v)));
                }
                Value::Str(text) => match parse_kwarg(text) {
                    Some((name, value)) => call.name(name, value),
                    None => call.positional.push(text.clone()),
                },
                other => call.positional.push(python_str(other).into_owned()),
            }
        }
        call
    }

    /// A runner or wheel call: the list `arg` and the map `kwarg` or, without the latter, all other keys
    /// (`salt/client/mixins.py SyncClientMixin.low`).
    pub fn of_low(fun: &str, low: &Map) -> Call {
        let args = low.get("arg").and_then(Value::as_array).unwrap_or(&[]);
        let mut call = Call::of_job(fun, args);
        match low.get("kwarg").and_then(Value::as_map) {
            Some(named) => named
                .iter()
                .for_each(|(k, v)| call.name(&python_str(k), &python_str(v))),
            None => low
                .iter()
                .filter(|(k, _)| !NO_ARGUMENTS.iter().any(|no| k.is_str(no)))
                .for_each(|(k, v)| call.name(&python_str(k), &python_str(v))),
        }
        call
    }

    fn name(&mut self, name: &str, value: &str) {
        self.ambiguous |= self.keyword.iter().any(|(known, _)| known == name);
        self.keyword.push((name.to_owned(), value.to_owned()));
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

    /// How far all of the calls are allowed (`CkMinions.auth_check`). `covers` tells whether all minions of the
    /// job belong to a compound target. Functions in `free` need no permission.
    pub fn publication(
        &self,
        calls: &[Call],
        free: &[&str],
        covers: &mut dyn FnMut(&str) -> bool,
    ) -> Reach {
        let mut reach = Reach::Everybody;
        if calls.is_empty() {
            return Reach::Nobody;
        }
        for call in calls.iter().filter(|c| !free.contains(&c.fun.as_str())) {
            match self.call(call, covers) {
                Reach::Nobody => return Reach::Nobody,
                Reach::TheseMinions => reach = Reach::TheseMinions,
                Reach::Everybody => {}
            }
        }
        reach
    }

    fn call(&self, call: &Call, covers: &mut dyn FnMut(&str) -> bool) -> Reach {
        let anywhere =
            |entry: &Entry| matches!(entry, Entry::Function(name) if name.matches(&call.fun));
        if self.entries.iter().any(anywhere) {
            return Reach::Everybody;
        }
        let mut reach = Reach::Nobody;
        for entry in &self.entries {
            let Entry::Scoped(scope, rules) = entry else {
                continue;
            };
            if scope.starts_with('@') || !any_allows(rules, &call.fun, call) {
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
        (unconditional || !call.ambiguous)
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
        _ => Some(Pattern(None)),
    }
}
