//! Filters as go-choria's servers evaluate them (reference, section 20).

use super::{Node, Unusable, Verdict, text, unusable};
use crate::wire::{FactFilter, Filter};
use halite_wire::{Map, Value};
use regex::Regex;
use std::cmp::Ordering;

/// Largest compiled expression in bytes.
const SIZE_LIMIT: usize = 1024 * 1024;

type Pattern = Result<Regex, Unusable>;

/// RE2's syntax, which that of `regex` is derived from.
fn pattern(source: &str, ignore_case: bool) -> Pattern {
    regex::RegexBuilder::new(source)
        .case_insensitive(ignore_case)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(2 * SIZE_LIMIT)
        .build()
        .map_err(|_| {
            let source: String = source.chars().take(80).collect();
            Unusable(format!("bad or too large regular expression {source:?}"))
        })
}

#[derive(Debug)]
enum Name {
    Exact(String),
    /// An expression between slashes; an invalid one matches nothing.
    Regex(Pattern),
}

impl Name {
    fn new(text: &str, ignore_case: bool) -> Name {
        match text.strip_prefix('/') {
            Some(inner) if text.ends_with('/') => Name::Regex(pattern(
                inner.strip_suffix('/').unwrap_or(inner),
                ignore_case,
            )),
            _ => Name::Exact(text.to_owned()),
        }
    }

    fn is(&self, name: &str) -> bool {
        match self {
            Name::Exact(own) => own == name,
            Name::Regex(pattern) => pattern.as_ref().is_ok_and(|p| p.is_match(name)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Go {
    facts: Vec<FactTest>,
    classes: Vec<Name>,
    agents: Vec<Name>,
    identities: Vec<Name>,
    compound: bool,
}

impl Go {
    pub(super) fn new(filter: &Filter) -> Go {
        let names = |texts: &[String]| texts.iter().map(|text| Name::new(text, false)).collect();
        // Names of classes are lower-cased only in the request; patterns ignore case.
        let class = |text: &String| match Name::new(text, true) {
            Name::Exact(text) => Name::Exact(text.to_lowercase()),
            regex => regex,
        };
        Go {
            facts: filter.facts.iter().map(FactTest::new).collect(),
            classes: filter.classes.iter().map(class).collect(),
            agents: names(&filter.agents),
            identities: names(&filter.identities),
            compound: !filter.compound.is_empty(),
        }
    }

    pub(super) fn passes(&self, node: &Node) -> Verdict {
        let all = |names: &[Name], found: &[String]| {
            names.iter().all(|name| found.iter().any(|f| name.is(f)))
        };
        let identity = || self.identities.iter().any(|n| n.is(node.identity));
        if !self.identities.is_empty() && !identity()
            || !all(&self.agents, node.agents)
            || !all(&self.classes, node.classes)
        {
            return Ok(false);
        }
        for fact in &self.facts {
            if !fact.holds(node.facts)? {
                return Ok(false);
            }
        }
        if self.compound {
            unusable("compounds of go-choria (expr) are not supported")
        } else {
            Ok(true)
        }
    }
}

#[derive(Debug)]
struct FactTest {
    path: Vec<String>,
    operator: String,
    value: String,
    pattern: Option<Pattern>,
}

/// A path of gjson, without wildcards and queries: names separated by dots; a backslash escapes a dot.
fn path(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, parts.last_mut()) {
            ('.', _) => parts.push(String::new()),
            ('\\', Some(last)) => last.extend(chars.next()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    parts
}

impl FactTest {
    fn new(entry: &FactFilter) -> FactTest {
        let value = entry.value.clone();
        let operator = entry.operator.clone().unwrap_or_default();
        FactTest {
            path: path(&entry.fact),
            pattern: (operator == "=~").then(|| pattern(value.trim_matches('/'), true)),
            operator,
            value,
        }
    }

    fn find<'a>(&self, facts: &'a Map) -> Option<&'a Value> {
        let mut parts = self.path.iter();
        let mut found = facts.get(parts.next()?)?;
        for part in parts {
            found = match found {
                Value::Map(map) => map.get(part)?,
                Value::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(found)
    }

    fn holds(&self, facts: &Map) -> Verdict {
        let Some(found) = self.find(facts) else {
            return Ok(false);
        };
        match self.operator.as_str() {
            "=~" => return self.matches(found),
            "==" | "!=" | "<" | "<=" | ">" | ">=" => {}
            other => return unusable(format!("unknown fact matching operator {other:?}")),
        }
        let order = match found {
            Value::Nil | Value::Array(_) | Value::Map(_) => return Ok(false),
            Value::Bool(flag) => {
                return match self.operator.as_str() {
                    "==" => Ok(*flag == truthy(&self.value)),
                    "!=" => Ok(*flag != truthy(&self.value)),
                    _ => unusable("booleans have no order"),
                };
            }
            Value::Str(text) if matches!(self.operator.as_str(), "==" | "!=") => {
                if text.to_lowercase() == self.value.to_lowercase() {
                    Some(Ordering::Equal)
                } else {
                    None
                }
            }
            Value::Str(text) => Some(text.as_bytes().cmp(self.value.as_bytes())),
            Value::Bytes(bytes) => Some(bytes.as_slice().cmp(self.value.as_bytes())),
            number => self.order(number)?,
        };
        Ok(match self.operator.as_str() {
            "==" => order.is_some_and(Ordering::is_eq),
            "!=" => !order.is_some_and(Ordering::is_eq),
            "<" => order.is_some_and(Ordering::is_lt),
            "<=" => order.is_some_and(Ordering::is_le),
            ">" => order.is_some_and(Ordering::is_gt),
            _ => order.is_some_and(Ordering::is_ge),
        })
    }

    /// Compares as floats if the value has a dot, else as integers: a float fact is then truncated.
    fn order(&self, number: &Value) -> Result<Option<Ordering>, Unusable> {
        let bad = || Unusable(format!("{:?} is not a number", self.value));
        let float = || text(number).and_then(|text| text.parse::<f64>().ok());
        if self.value.contains('.') {
            let value: f64 = self.value.parse().map_err(|_| bad())?;
            return Ok(float().and_then(|float| float.partial_cmp(&value)));
        }
        match self.value.parse::<i128>() {
            Ok(value) => Ok(Some(whole(number).cmp(&value))),
            // Not equal, as text.
            Err(_) if matches!(self.operator.as_str(), "==" | "!=") => Ok(None),
            Err(_) => Err(bad()),
        }
    }

    fn matches(&self, found: &Value) -> Verdict {
        let Some(pattern) = &self.pattern else {
            return Ok(false);
        };
        let pattern = pattern.as_ref().map_err(Clone::clone)?;
        Ok(match found {
            Value::Nil | Value::Array(_) | Value::Map(_) => false,
            Value::Bool(flag) => *flag == truthy(&self.value),
            Value::Str(text) => pattern.is_match(text),
            Value::Float(number) if self.value.contains('.') => {
                pattern.is_match(&format!("{number:.4}"))
            }
            Value::Int(number) if self.value.contains('.') => {
                pattern.is_match(&format!("{number}.0000"))
            }
            number @ (Value::Int(_) | Value::UInt(_) | Value::Float(_)) => {
                pattern.is_match(&whole(number).to_string())
            }
            Value::Bytes(bytes) => pattern.is_match(&String::from_utf8_lossy(bytes)),
        })
    }
}

fn whole(number: &Value) -> i128 {
    match number {
        Value::Int(number) => (*number).into(),
        Value::UInt(number) => (*number).into(),
        // Truncates and saturates.
        Value::Float(number) => *number as i128,
        _ => 0,
    }
}

/// Texts that Go parses as true.
fn truthy(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}
