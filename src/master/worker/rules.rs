//! Rules that name functions: who may run what on whom
//! (`salt/utils/minions.py CkMinions.auth_check`, as `peer` and `peer_run` use it).
//!
//! All rules allow; a rule that cannot be read allows nothing.

use crate::target::{PyRegex, python_str};
use crate::wire::{Map, Value};

/// One function with the arguments it would get: positional ones, and keywords in a last map
/// that has `__kwarg__`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub fun: &'a str,
    pub args: &'a [Value],
}

/// Rules of the id: what stands, as a list, under each pattern that matches it.
pub(super) fn of_id<'a>(rules: &'a Map, id: &str) -> Vec<&'a Value> {
    rules
        .iter()
        .filter(|(ids, _)| ids.as_str().is_some_and(|ids| matches(ids, id)))
        .filter_map(|(_, list)| list.as_array())
        .flatten()
        .collect()
}

/// Whether a rule allows the function on everyone who is meant. `within` says whether all who are meant
/// match a compound target.
pub(super) fn allow(
    rules: &[&Value],
    wanted: Wanted,
    within: &mut dyn FnMut(&str) -> bool,
) -> bool {
    rules.iter().any(|rule| match rule {
        Value::Str(pattern) => matches(pattern, wanted.fun),
        Value::Map(map) => match map.0.as_slice() {
            [(Value::Str(whom), functions)] => {
                of_functions(functions, wanted) && holds(whom, within)
            }
            _ => false,
        },
        _ => false,
    })
}

/// `CkMinions.validate_tgt`.
fn holds(whom: &str, within: &mut dyn FnMut(&str) -> bool) -> bool {
    whom == "*" || (!whom.starts_with('@') && within(whom))
}

/// `CkMinions.__fun_check`: patterns of functions, or maps of one to rules for its arguments.
fn of_functions(functions: &Value, wanted: Wanted) -> bool {
    each(functions).iter().any(|rule| match rule {
        Value::Str(pattern) => matches(pattern, wanted.fun),
        Value::Map(map) => match map.0.as_slice() {
            [(Value::Str(pattern), args)] => {
                matches(pattern, wanted.fun) && each(args).iter().any(|a| of_args(a, wanted.args))
            }
            _ => false,
        },
        _ => false,
    })
}

/// `CkMinions.__args_check`: `args`, patterns by position, and `kwargs`, patterns by name; no value
/// stands for any. Arguments that are not named here may be anything.
fn of_args(rule: &Value, given: &[Value]) -> bool {
    let Some(rule) = rule.as_map() else {
        return false;
    };
    let keywords = given
        .last()
        .and_then(Value::as_map)
        .filter(|m| m.contains("__kwarg__"));
    let positional = match keywords {
        Some(_) => &given[..given.len() - 1],
        None => given,
    };
    let fits = |pattern: &Value, value: Option<&Value>| match (pattern, value) {
        (_, None) => false,
        (Value::Nil, Some(_)) => true,
        (Value::Str(pattern), Some(value)) => matches(pattern, &python_str(value)),
        _ => false,
    };
    let by_place = match rule.get("args") {
        None => true,
        Some(Value::Array(patterns)) => patterns
            .iter()
            .enumerate()
            .all(|(at, pattern)| fits(pattern, positional.get(at))),
        Some(_) => false,
    };
    let by_name = match rule.get("kwargs") {
        None => true,
        Some(Value::Map(patterns)) => patterns.iter().all(|(name, pattern)| {
            let value = keywords.and_then(|k| k.get(name.as_str()?));
            fits(pattern, value)
        }),
        Some(_) => false,
    };
    by_place && by_name
}

fn each(value: &Value) -> &[Value] {
    match value {
        Value::Array(list) => list,
        other => std::slice::from_ref(other),
    }
}

/// `re.match`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    match PyRegex::new(pattern) {
        Ok(regex) => regex.matches(text),
        Err(e) => {
            log::error!("the pattern {pattern:?} in a rule is useless: {e}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::yaml;

    fn check(rules: &str, fun: &str, args: &[Value]) -> bool {
        let rules = yaml::parse(rules).unwrap().into_map().unwrap();
        let rules = of_id(&rules, "web1.example");
        allow(&rules, Wanted { fun, args }, &mut |whom| whom == "db*")
    }

    #[test]
    fn functions_by_pattern() {
        let rules = "{'web.*': [test.ping, 'disk\\.'], 'db.*': ['.*'], '(': ['.*'], 'w': cmd.run}";
        assert!(check(rules, "test.ping", &[]));
        assert!(check(rules, "disk.usage", &[]));
        assert!(!check(rules, "cmd.run", &[]));
        assert!(!check("{'web1': [{a: b, c: d}, 5, '(']}", "cmd.run", &[]));
        assert!(!check("{}", "test.ping", &[]));
    }

    #[test]
    fn functions_by_target() {
        for (rule, good) in [
            ("'db*': test.*", true),
            ("'db*': [test.*]", true),
            ("'*': [test.*]", true),
            ("'web*': [test.*]", false),
            ("'@runner': [test.*]", false),
            ("'db*': [cmd.*]", false),
            ("'db*': 5", false),
        ] {
            let rules = format!("{{'.*': [{{{rule}}}]}}");
            assert_eq!(check(&rules, "test.ping", &[]), good, "{rule}");
        }
    }

    #[test]
    fn functions_by_arguments() {
        let keywords = |m: Map| {
            let mut map = crate::map! {"__kwarg__" => true};
            map.0.extend(m.0);
            Value::from(map)
        };
        let ls: Value = "ls -l".into();
        for (rule, args, good) in [
            ("args: [ls]", vec![ls.clone()], true),
            ("args: ['ls$']", vec![ls.clone()], false),
            ("args: [ls]", vec![], false),
            ("args: [ls]", vec![keywords(crate::map! {"cmd" => "ls"})], false),
            ("args: [null]", vec![ls.clone()], true),
            ("args: [ls, null]", vec![ls.clone()], false),
            ("args: ['5']", vec![5.into()], true),
            ("args: ls", vec![ls.clone()], false),
            ("kwargs: {runas: www}", vec![ls.clone()], false),
            (
                "kwargs: {runas: www}",
                vec![ls.clone(), keywords(crate::map! {"runas" => "www"})],
                true,
            ),
            (
                "args: [ls], kwargs: {runas: 'www$', x: null}",
                vec![ls.clone(), keywords(crate::map! {"runas" => "www-data", "x" => 1})],
                false,
            ),
        ] {
            let rules = format!("{{'.*': [{{'*': [{{cmd.run: {{{rule}}}}}]}}]}}");
            assert_eq!(check(&rules, "cmd.run", &args), good, "{rule} {args:?}");
        }
    }
}
