//! Arguments of runner and wheel functions. They are parsed once, where a request comes in: what the permissions of
//! a user are checked against is what the function gets.

use halite_wire::yaml::keyword_map;
use halite_wire::{Map, Value};
use std::fmt;

/// Keywords that clients add; a function only sees those it declares (`salt/client/mixins.py
/// CLIENT_INTERNAL_KEYWORDS`).
const INTERNAL: &[&str] = &[
    "client",
    "cmd",
    "eauth",
    "fun",
    "kwarg",
    "match",
    "token",
    "username",
    "password",
    "full_return",
    "print_event",
];

/// Positional and keyword arguments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args {
    /// By position.
    pub positional: Vec<Value>,
    /// By name.
    pub keyword: Map,
}

/// Arguments that do not match the function's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgsError {
    class: &'static str,
    text: String,
}

impl ArgsError {
    /// The exception that stock Salt raises.
    pub fn class(&self) -> &'static str {
        self.class
    }
}

impl fmt::Display for ArgsError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ArgsError {}

impl Args {
    /// The arguments of a call over the network: `arg` and `kwarg` or, if these are missing, all keys as
    /// keyword arguments (`salt/client/mixins.py SyncClientMixin.low`). `declared` are the arguments of the function: one
    /// that declares `arg` or `kwarg` itself takes these as keywords.
    ///
    /// # Errors
    /// `arg` is not a list or `kwarg` not a map, or a keyword is not text or given twice.
    pub fn from_low(mut low: Map, declared: &[&str]) -> Result<Args, ArgsError> {
        let takes = |name: &str| declared.iter().any(|d| bare(d) == name);
        let bad = |what: &str| ArgsError {
            class: "SaltInvocationError",
            text: format!(
                "{what} of the request has the wrong type: arg must be a list, kwarg a map"
            ),
        };
        let positional = match low.get("arg") {
            Some(Value::Array(items)) if !takes("arg") => items.clone(),
            Some(Value::Nil) if !takes("arg") => Vec::new(),
            Some(_) if !takes("arg") => return Err(bad("arg")),
            _ => Vec::new(),
        };
        let mut args = Args {
            positional: Vec::with_capacity(positional.len()),
            keyword: Map::new(),
        };
        for value in positional {
            args.add(value)?;
        }
        if !takes("arg") {
            low.remove("arg");
        }
        match low.get("kwarg") {
            Some(Value::Map(keyword)) if !takes("kwarg") => {
                args.add_keywords(keyword.iter())?;
                return Ok(args);
            }
            Some(Value::Nil) | None => {}
            Some(_) if takes("kwarg") => {}
            Some(_) => return Err(bad("kwarg")),
        }
        args.add_keywords(low.iter().filter(|(key, _)| {
            let name = key.as_str().unwrap_or_default();
            takes(name) || !(INTERNAL.contains(&name) || name.starts_with("__"))
        }))?;
        Ok(args)
    }

    fn add(&mut self, value: Value) -> Result<(), ArgsError> {
        if let Some(pairs) = keyword_map(&value) {
            return self.add_keywords(pairs);
        }
        self.positional.push(value);
        Ok(())
    }

    fn add_keywords<'v>(
        &mut self,
        pairs: impl Iterator<Item = &'v (Value, Value)>,
    ) -> Result<(), ArgsError> {
        for (name, value) in pairs {
            let fail = |text: String| {
                let class = "TypeError";
                Err(ArgsError { class, text })
            };
            match name.as_str() {
                None => return fail("keywords must be strings".to_owned()),
                Some(name) if self.keyword.contains(name) => {
                    return fail(format!("got multiple values for keyword argument {name:?}"));
                }
                Some(name) => self.keyword.set(name, value.clone()),
            }
        }
        Ok(())
    }

    /// The name of each positional argument that has one, and of each keyword argument, with the value.
    pub fn named<'a>(
        &'a self,
        declared: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let names = declared.iter().filter(|d| !d.starts_with('*'));
        let by_place = names.map(|d| bare(d)).zip(&self.positional);
        let keyword = self.keyword.iter();
        by_place.chain(keyword.filter_map(|(k, v)| Some((k.as_str()?, v))))
    }

    /// Checks number and names of the arguments against a function's declaration.
    ///
    /// # Errors
    /// They do not match, or an argument is given by position and by name.
    pub fn check(&self, function: &str, declared: &[&str]) -> Result<(), ArgsError> {
        let usage = || format!("usage: {function} {}", usage(declared));
        let bad = |class: &'static str, text: String| {
            let text = format!("{text}; {}", usage());
            Err(ArgsError { class, text })
        };
        let named: Vec<&str> = declared
            .iter()
            .copied()
            .filter(|d| !d.starts_with('*'))
            .collect();
        let further = declared
            .iter()
            .any(|d| d.starts_with('*') && !d.starts_with("**"));
        if self.positional.len() > named.len() && !further {
            let text = format!("{function} takes at most {} arguments", named.len());
            return bad("TypeError", text);
        }
        let open = declared.iter().any(|d| d.starts_with("**"));
        for (key, _) in self.keyword.iter().filter(|_| !open) {
            let name = key.as_str().unwrap_or_default();
            if !named.iter().any(|d| bare(d) == name) {
                let text = format!("{function} has no argument {name:?}");
                return bad("SaltInvocationError", text);
            }
        }
        for (at, declared) in named.iter().enumerate() {
            let (by_place, by_name) = (
                at < self.positional.len(),
                self.keyword.contains(bare(declared)),
            );
            if by_place && by_name {
                let name = bare(declared);
                let text = format!("{function} got multiple values for argument {name:?}");
                return bad("TypeError", text);
            }
            let given = by_place || by_name;
            if !declared.starts_with('?') && !given {
                return bad("TypeError", format!("{function} needs {declared}"));
            }
        }
        Ok(())
    }

    /// An argument by position or name.
    pub fn get(&self, at: usize, name: &str) -> Option<&Value> {
        self.positional
            .get(at)
            .or_else(|| self.keyword.get(name))
            .filter(|v| !v.is_nil())
    }

    /// An argument as a string; numbers (a jid looks like one) are converted.
    pub fn text(&self, at: usize, name: &str) -> Option<String> {
        self.get(at, name).and_then(as_text)
    }

    /// An argument as an integer.
    pub fn int(&self, at: usize, name: &str) -> Option<i64> {
        self.get(at, name).and_then(Value::as_int)
    }

    /// An argument as a boolean, by default false.
    pub fn flag(&self, at: usize, name: &str) -> bool {
        self.get(at, name).is_some_and(Value::truthy)
    }

    /// An argument as a boolean, by default true.
    pub fn flag_or_true(&self, at: usize, name: &str) -> bool {
        self.get(at, name).is_none_or(Value::truthy)
    }

    /// An argument as a list of strings; a string is split at commas (`salt/utils/args.py split_input`). `None`
    /// if not given.
    pub fn list(&self, at: usize, name: &str) -> Option<Vec<String>> {
        match self.get(at, name)? {
            Value::Array(items) => Some(items.iter().filter_map(as_text).collect()),
            other => {
                let text = as_text(other)?;
                Some(text.split(',').map(|t| t.trim().to_owned()).collect())
            }
        }
    }

    /// In the form of `fun_args`: positional arguments, then a map if there are keyword arguments.
    pub fn to_value(&self) -> Value {
        let mut all = self.positional.clone();
        if !self.keyword.is_empty() {
            all.push(self.keyword.clone().into());
        }
        all.into()
    }
}

/// Strings unchanged, numbers converted.
pub fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Str(s) => Some(s.clone()),
        Value::Int(n) => Some(n.to_string()),
        Value::UInt(n) => Some(n.to_string()),
        _ => None,
    }
}

fn bare(declared: &str) -> &str {
    declared.trim_start_matches(['?', '*'])
}

/// Declared arguments as displayed to users.
pub fn usage(declared: &[&str]) -> String {
    let all: Vec<String> = declared.iter().map(|a| shown(a)).collect();
    all.join(" ")
}

fn shown(declared: &str) -> String {
    if declared.starts_with("**") {
        return "[name=value ...]".to_owned();
    }
    match (declared.strip_prefix('?'), declared.strip_prefix('*')) {
        (Some(name), _) => format!("[{name}]"),
        (_, Some(name)) => format!("[{name} ...]"),
        _ => format!("<{declared}>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_network_have_two_forms() {
        let new = halite_wire::map! {"arg" => vec![Value::Int(1)], "kwarg" => halite_wire::map! {"x" => 2}};
        let args = Args::from_low(new, &["?a", "?x"]).unwrap();
        assert_eq!((args.int(0, "a"), args.int(1, "x")), (Some(1), Some(2)));
        let old = halite_wire::map! {"match" => "web*", "print_event" => true, "__jid__" => "1"};
        let args = Args::from_low(old, &["match"]).unwrap();
        assert_eq!(args.keyword.len(), 1);
        assert_eq!(args.text(0, "match").as_deref(), Some("web*"));
        let marked = halite_wire::map! {"__kwarg__" => true, "x" => 3};
        let low = halite_wire::map! {"arg" => vec![Value::Map(marked)]};
        assert_eq!(Args::from_low(low, &["?x"]).unwrap().int(0, "x"), Some(3));
        assert!(Args::from_low(halite_wire::map! {"arg" => 3}, &[]).is_err());
    }

    #[test]
    fn declarations_are_checked() {
        let args = |n: usize| Args {
            positional: vec![Value::Int(1); n],
            keyword: Map::new(),
        };
        assert!(args(2).check("f", &["a"]).is_err());
        assert!(args(2).check("f", &["a", "*args"]).is_ok());
        assert!(args(0).check("f", &["a", "**kwargs"]).is_err());
        let mut open = args(1);
        open.keyword.set("z", 1);
        assert!(open.check("f", &["a", "**kwargs"]).is_ok());
        let refused = open.check("f", &["a"]).unwrap_err();
        assert_eq!(refused.class(), "SaltInvocationError");
    }
}
