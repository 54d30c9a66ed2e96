//! Queries of data plugins within compounds: `fstatement` (`Matcher.eval_compound_fstatement`, `MCollective::Data`).

use super::{Node, Pattern, Unusable, Verdict, numbers, text, unusable};
use crate::ruby::Datum;
use halite_wire::{Map, Value};
use num_bigint::BigInt;
use std::cmp::Ordering;

/// `name(params).value operator r_compare`.
#[derive(Debug)]
pub(super) struct Query {
    plugin: String,
    params: Option<String>,
    output: Option<String>,
    operator: String,
    right: Datum,
    /// `right` as a regular expression, if the operator needs one.
    pattern: Option<Pattern>,
}

/// The result of a data plugin.
enum Output {
    /// No such output, or no value for this node.
    Nil,
    Text(String),
    Bool(bool),
    Number(Value),
    /// The whole result, which equals nothing.
    Whole,
}

fn get<'a>(hash: &'a [(Datum, Datum)], key: &str) -> &'a Datum {
    let found = hash
        .iter()
        .find(|(name, _)| matches!(name, Datum::Str(text) if text == key));
    found.map_or(&Datum::Nil, |(_, value)| value)
}

impl Query {
    pub(super) fn new(value: &Datum) -> Result<Query, Unusable> {
        let Datum::Hash(hash) = value else {
            return unusable("an fstatement that is not a hash");
        };
        let optional = |key: &str| match get(hash, key) {
            Datum::Nil => Ok(None),
            Datum::Str(text) | Datum::Symbol(text) => Ok(Some(text.clone())),
            _ => unusable(format!("an fstatement whose {key} is not text")),
        };
        let (Some(name), Some(operator)) = (optional("name")?, optional("operator")?) else {
            return unusable("an fstatement without name or operator");
        };
        let name = name.to_ascii_lowercase();
        let right = get(hash, "r_compare").clone();
        let pattern = operator.contains("=~").then(|| match &right {
            Datum::Str(source) => Pattern::new(source, 0),
            Datum::Regexp { source, options } => Pattern::new(source, *options),
            _ => Pattern(unusable("an fstatement whose r_compare is not a pattern")),
        });
        Ok(Query {
            plugin: name.strip_suffix("_data").unwrap_or(&name).to_owned(),
            params: optional("params")?,
            output: optional("value")?,
            operator,
            right,
            pattern,
        })
    }

    pub(super) fn holds(&self, node: &Node) -> Verdict {
        let left = self.query(node)?;
        let ordered = self.operator.contains(['<', '>']);
        match left {
            Output::Nil => return Ok(false),
            Output::Text(_) | Output::Bool(_) if ordered => return Ok(false),
            _ => {}
        }
        if self.params.as_deref().is_some_and(|p| p.contains('`')) {
            return Ok(false);
        }
        if let Some(pattern) = &self.pattern {
            let Output::Text(text) = left else {
                return Ok(false);
            };
            return Ok(pattern.found(&text)? != (self.operator == "!=~"));
        }
        let operator = operator(self.operator.trim())?;
        let equal = |same: bool| match operator {
            "==" => Ok(same),
            "!=" => Ok(!same),
            _ => unusable("an fstatement that compares values without an order"),
        };
        match left {
            Output::Text(left) => equal(left == plain(&self.right)?),
            Output::Bool(left) => equal(match &self.right {
                Datum::Bool(right) => left == *right,
                Datum::Str(right) => match right.trim() {
                    "true" => left,
                    "false" => !left,
                    other => return unusable(format!("invalid boolean value: {other}")),
                },
                _ => false,
            }),
            Output::Number(left) => match order(&left, &self.right)? {
                None => equal(false),
                Some(order) => Ok(match operator {
                    "==" => order.is_eq(),
                    "!=" => order.is_ne(),
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    _ => order.is_ge(),
                }),
            },
            Output::Whole => equal(false),
            Output::Nil => Ok(false),
        }
    }

    /// Queries the plugin. A missing plugin makes the whole compound false, not only the statement.
    fn query(&self, node: &Node) -> Result<Output, Unusable> {
        let param = |longest: usize, good: fn(&str) -> bool| match self.params.as_deref() {
            Some(text) if text.chars().count() <= longest && good(text) => Ok(text),
            _ => unusable(format!("bad parameter of data plugin {}", self.plugin)),
        };
        let any = |text: &str| text.chars().any(|c| c != '\n');
        let answer = match self.plugin.as_str() {
            "agent" => {
                let name = param(20, |text| {
                    text.split('\n').any(|line| {
                        let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
                        !line.is_empty() && line.bytes().all(word)
                    })
                })?;
                agent(node, name)?
            }
            "collective" => {
                let name = param(256, any)?;
                let member = node.collectives.iter().any(|own| own == name);
                Map(vec![("member".into(), member.into())])
            }
            "fact" => fact(node.facts, param(256, any)?)?,
            other => return unusable(format!("data plugin {other} not found")),
        };
        let Some(output) = &self.output else {
            return Ok(Output::Whole);
        };
        Ok(match answer.get(output) {
            None | Some(Value::Nil) => Output::Nil,
            Some(Value::Bool(flag)) => Output::Bool(*flag),
            Some(number @ (Value::Int(_) | Value::UInt(_) | Value::Float(_))) => {
                Output::Number(number.clone())
            }
            Some(other) => text(other).map_or(Output::Nil, |text| Output::Text(text.into_owned())),
        })
    }
}

/// The operator that Ruby's servers find in the text: a known one, or `==` for an equals sign.
fn operator(text: &str) -> Result<&'static str, Unusable> {
    let known = ["!=", "<=", ">=", "<", ">", "="];
    let first = known
        .into_iter()
        .filter_map(|known| Some((text.find(known)?, known)))
        // Of two that start at the same position the longer is first in the list, and chosen.
        .min_by_key(|(at, _)| *at);
    match first {
        Some((_, "=")) => Ok("=="),
        Some((_, known)) => Ok(known),
        None => unusable(format!("invalid operator: {text}")),
    }
}

fn agent(node: &Node, name: &str) -> Result<Map, Unusable> {
    let Some(mut meta) = (node.agent)(name) else {
        return unusable(format!("no agent called {name} found"));
    };
    meta.set("agent", name);
    Ok(meta)
}

/// A fact by its path; here dots go into maps and lists, unlike in entries of `fact`.
fn fact(facts: &Map, path: &str) -> Result<Map, Unusable> {
    let answer = |exists: bool, value: Value, encoding: Value| {
        Map(vec![
            ("exists".into(), exists.into()),
            ("value".into(), value),
            ("value_encoding".into(), encoding),
        ])
    };
    let absent = || Ok(answer(false, false.into(), false.into()));
    let whole = Value::Map(facts.clone());
    let mut found = &whole;
    // Ruby's `split` drops empty parts at the end.
    let parts = path.trim_end_matches('.').split('.');
    for part in parts.filter(|_| !path.trim_end_matches('.').is_empty()) {
        found = match found {
            Value::Map(map) => match super::fact(map, part) {
                Some(value) => value,
                None => return absent(),
            },
            Value::Array(items) => {
                let index = numbers::integer(part)
                    .ok_or_else(|| Unusable(format!("{part:?} is not a list index")))?;
                if index >= BigInt::from(items.len()) {
                    return absent();
                }
                let index = match index.sign() {
                    num_bigint::Sign::Minus => index + BigInt::from(items.len()),
                    _ => index,
                };
                // An index before the start gives `nil`, which a plugin may not return.
                let item = usize::try_from(index).ok().and_then(|at| items.get(at));
                item.ok_or_else(|| Unusable(format!("{part:?} is before the start of a list")))?
            }
            _ => return absent(),
        };
    }
    Ok(match text(found) {
        Some(text) => answer(true, text.into_owned().into(), "text/plain".into()),
        None => {
            let json = serde_json::to_string(&flat(found)).unwrap_or_default();
            answer(true, json.into(), "application/json".into())
        }
    })
}

/// Facts as in Ruby's servers: only text in lists and maps.
fn flat(value: &Value) -> serde_json::Value {
    match value {
        Value::Array(items) => items.iter().map(flat).collect(),
        Value::Map(map) => {
            let pairs = map.iter().map(|(key, value)| {
                let key = text(key).unwrap_or_default().into_owned();
                (key, flat(value))
            });
            serde_json::Value::Object(pairs.collect())
        }
        other => text(other).unwrap_or_default().into_owned().into(),
    }
}

/// `to_s` of the value that an output is compared with.
fn plain(right: &Datum) -> Result<String, Unusable> {
    match right {
        Datum::Str(text) | Datum::Symbol(text) => Ok(text.clone()),
        Datum::Nil | Datum::Bool(_) | Datum::Int(_) | Datum::Float(_) | Datum::Bytes(_) => {
            Ok(text(&right.to_value()).unwrap_or_default().into_owned())
        }
        _ => unusable("an fstatement that compares text with a list or a pattern"),
    }
}

/// Compares a number with the other side; `None` if that is not a number.
fn order(left: &Value, right: &Datum) -> Result<Option<Ordering>, Unusable> {
    let bad = |text: &str| Unusable(format!("invalid numeric value: {text}"));
    let as_float = |value: &Value| text(value).and_then(|text| text.parse::<f64>().ok());
    let left_whole = text(left).and_then(|text| numbers::integer(&text));
    let (whole, float) = match right {
        Datum::Int(number) => (Some(BigInt::from(*number)), *number as f64),
        Datum::Float(number) => (None, *number),
        Datum::Str(text) => match numbers::integer(text) {
            Some(whole) => {
                let float = whole.to_string().parse().unwrap_or(f64::INFINITY);
                (Some(whole), float)
            }
            None => (None, numbers::float(text).ok_or_else(|| bad(text))?),
        },
        _ => return Ok(None),
    };
    if let (Some(left), Some(right)) = (left_whole, whole) {
        return Ok(Some(left.cmp(&right)));
    }
    Ok(as_float(left).and_then(|left| left.partial_cmp(&float)))
}
