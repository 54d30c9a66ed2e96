//! Entries of `fact` as Ruby evaluates them (`Util.has_fact?`).

use super::{Pattern, Unusable, Verdict, fact, numbers, text, unusable};
use crate::wire::FactFilter;
use halite_wire::Map;
use halite_wire::Value;
use std::cmp::Ordering;

/// A comparison with a fact.
#[derive(Debug)]
pub(super) struct FactTest {
    name: String,
    value: String,
    test: Test,
}

#[derive(Debug)]
enum Test {
    Equal,
    Regex(Pattern),
    /// `<`, `<=`, `>`, `>=`, `!=`.
    Order(fn(Ordering) -> bool),
    /// `!=`, which is also true between a text and a list or map.
    Unequal,
    Never,
}

/// The test of a comparison operator.
fn order(operator: &str) -> Option<fn(Ordering) -> bool> {
    Some(match operator {
        "<" => Ordering::is_lt,
        "<=" => Ordering::is_le,
        ">" => Ordering::is_gt,
        ">=" => Ordering::is_ge,
        _ => return None,
    })
}

/// The text between slashes on the first line that has them, or all of it: `/^\/(.+)\/$/`.
fn unslashed(value: &str) -> &str {
    value
        .split('\n')
        .find_map(|line| {
            let inside = line.strip_prefix('/')?.strip_suffix('/')?;
            (!inside.is_empty()).then_some(inside)
        })
        .unwrap_or(value)
}

impl FactTest {
    /// The test of an entry; one that Ruby's servers do not see is never satisfied.
    pub(super) fn new(entry: &FactFilter, symbols_only: bool) -> FactTest {
        let operator = match entry.operator.as_deref() {
            _ if symbols_only && !entry.symbols => "",
            Some("=>") => ">=",
            Some("=<") => "<=",
            Some(operator) => operator,
            None if unslashed(&entry.value) != entry.value => "=~",
            None => "==",
        };
        FactTest::of(&entry.fact, operator, &entry.value)
    }

    pub(super) fn of(name: &str, operator: &str, value: &str) -> FactTest {
        let test = match operator {
            "==" => Test::Equal,
            "=~" => Test::Regex(Pattern::new(unslashed(value), 0)),
            "!=" => Test::Unequal,
            operator => order(operator).map_or(Test::Never, Test::Order),
        };
        FactTest {
            name: name.to_owned(),
            value: value.to_owned(),
            test,
        }
    }

    /// Whether the facts satisfy it. An unknown fact never does; of a list any element may, of a map any key.
    pub(super) fn holds(&self, facts: &Map) -> Verdict {
        let any = |values: &mut dyn Iterator<Item = &Value>| {
            for value in values {
                if self.one(value)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        match fact(facts, &self.name) {
            None => Ok(false),
            Some(Value::Array(items)) => any(&mut items.iter()),
            Some(Value::Map(map)) => any(&mut map.iter().map(|(key, _)| key)),
            Some(value) => self.one(value),
        }
    }

    fn one(&self, value: &Value) -> Verdict {
        let Some(found) = text(value) else {
            return match self.test {
                Test::Equal | Test::Never => Ok(false),
                Test::Unequal => Ok(true),
                _ => unusable("a list or map within a list cannot be compared"),
            };
        };
        match &self.test {
            Test::Equal => Ok(found == self.value),
            Test::Regex(pattern) => pattern.found(&found),
            Test::Order(holds) => Ok(compare(&found, &self.value)?.is_some_and(holds)),
            Test::Unequal => Ok(compare(&found, &self.value)? != Some(Ordering::Equal)),
            Test::Never => Ok(false),
        }
    }
}

/// As integers, floats or text, by the shape of both.
fn compare(fact: &str, value: &str) -> Result<Option<Ordering>, Unusable> {
    let bad = || {
        Unusable(format!(
            "{fact:?} or {value:?} is not a valid number in Ruby"
        ))
    };
    if numbers::digits(value) && numbers::digits(fact) {
        let fact = numbers::integer(fact).ok_or_else(bad)?;
        let value = numbers::integer(value).ok_or_else(bad)?;
        return Ok(Some(fact.cmp(&value)));
    }
    if numbers::float_like(value) && numbers::float_like(fact) {
        let fact = numbers::float(fact).ok_or_else(bad)?;
        let value = numbers::float(value).ok_or_else(bad)?;
        return Ok(fact.partial_cmp(&value));
    }
    Ok(Some(fact.as_bytes().cmp(value.as_bytes())))
}
