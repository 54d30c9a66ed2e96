//! From the graph of nodes to values: merge keys, duplicate keys, tags, and the limit on alias expansion.

use super::YamlError;
use super::compose::{Graph, Id, Node, NodeKind};
use super::scalar::{self, Tag};
use crate::budget::{Budget, MAX_DEPTH};
use crate::{Map, Value};
use std::collections::HashSet;

/// Maps with more keys than this have their keys compared in a table.
const FEW_KEYS: usize = 16;

struct Constructor<'a> {
    nodes: Vec<Node>,
    /// Whether a node may be used more than once.
    has_aliases: bool,
    /// Maps whose merge keys are already resolved.
    flat: HashSet<Id>,
    budget: &'a mut Budget,
}

/// Builds the value of the root; nil if there is none.
pub(super) fn construct(graph: Graph, budget: &mut Budget) -> Result<Value, YamlError> {
    let Some(root) = graph.root else {
        return Ok(Value::Nil);
    };
    let mut c = Constructor {
        nodes: graph.nodes,
        has_aliases: graph.has_aliases,
        flat: HashSet::new(),
        budget,
    };
    c.value(root, 0)
}

impl Constructor<'_> {
    fn error(&self, id: Id, message: impl Into<String>) -> YamlError {
        self.nodes[id].error(message)
    }

    fn spend(&mut self, id: Id, values: usize, text: usize) -> Result<(), YamlError> {
        let spent = self.budget.take(values);
        let spent = spent.and_then(|()| self.budget.take_text(text));
        // The text itself is within the limits, so it is the aliases that are not.
        spent.map_err(|_| self.error(id, "the aliases of this document expand to too much data"))
    }

    fn value(&mut self, id: Id, depth: usize) -> Result<Value, YamlError> {
        if depth > MAX_DEPTH {
            let message =
                format!("aliases put more than {MAX_DEPTH} lists or maps inside one another");
            return Err(self.error(id, message));
        }
        let tag = self.nodes[id].tag.clone();
        match tag {
            Tag::Null | Tag::Bool | Tag::Int | Tag::Float | Tag::Str | Tag::Binary => {
                self.scalar(id, tag)
            }
            Tag::Seq => self.list(id, depth),
            Tag::Map => self.map(id, depth).map(Value::Map),
            Tag::Set => {
                let map = self.map(id, depth)?;
                Ok(Value::Array(map.0.into_iter().map(|(k, _)| k).collect()))
            }
            Tag::Pairs => self.pairs(id, depth),
            Tag::Merge => Err(self.error(id, "'<<' may only stand as the key of a map; quote it")),
            Tag::Default => Err(self.error(id, "'=' may only stand as the key of a map; quote it")),
            Tag::Other(name) => Err(self.error(id, format!("the tag {name} is not allowed"))),
        }
    }

    fn scalar(&mut self, id: Id, tag: Tag) -> Result<Value, YamlError> {
        let NodeKind::Scalar(text) = &mut self.nodes[id].kind else {
            return Err(self.error(
                id,
                "the tag asks for a plain value, but a list or map follows",
            ));
        };
        let text = used(text, self.has_aliases);
        self.spend(id, 1, text.len())?;
        let (value, wanted) = match tag {
            Tag::Null => (Some(Value::Nil), "null"),
            Tag::Bool => (scalar::boolean(&text).map(Value::Bool), "a boolean"),
            Tag::Int => (scalar::integer(&text), "an integer"),
            Tag::Float => (scalar::float(&text).map(Value::Float), "a float"),
            Tag::Binary => (scalar::base64(&text).map(Value::Bytes), "base64"),
            _ => return Ok(Value::Str(text)),
        };
        value.ok_or_else(|| self.error(id, format!("'{text}' is not {wanted}")))
    }

    fn items(&mut self, id: Id) -> Result<Vec<Id>, YamlError> {
        match &mut self.nodes[id].kind {
            NodeKind::Seq(items) => Ok(used(items, self.has_aliases)),
            _ => Err(self.error(id, "the tag asks for a list, but something else follows")),
        }
    }

    fn list(&mut self, id: Id, depth: usize) -> Result<Value, YamlError> {
        let items = self.items(id)?;
        self.spend(id, 1, 0)?;
        let values: Result<_, _> = items
            .into_iter()
            .map(|i| self.value(i, depth + 1))
            .collect();
        values.map(Value::Array)
    }

    /// `!!omap` and `!!pairs`: a list of pairs.
    fn pairs(&mut self, id: Id, depth: usize) -> Result<Value, YamlError> {
        let mut out = Vec::new();
        for item in self.items(id)? {
            let NodeKind::Map(pairs) = &self.nodes[item].kind else {
                return Err(self.error(item, "a map with one key is expected here"));
            };
            let &[(key, value)] = pairs.as_slice() else {
                return Err(self.error(item, "a map with exactly one key is expected here"));
            };
            self.spend(item, 2, 0)?;
            let pair = vec![self.value(key, depth + 2)?, self.value(value, depth + 2)?];
            out.push(Value::Array(pair));
        }
        Ok(Value::Array(out))
    }

    fn map(&mut self, id: Id, depth: usize) -> Result<Map, YamlError> {
        self.flatten(id, depth)?;
        let NodeKind::Map(pairs) = &mut self.nodes[id].kind else {
            return Err(self.error(id, "the tag asks for a map, but something else follows"));
        };
        let pairs = used(pairs, self.has_aliases);
        self.spend(id, 1, 0)?;
        let mut out: Vec<(Value, Value)> = Vec::with_capacity(pairs.len());
        for &(key_id, value_id) in &pairs {
            let key = self.value(key_id, depth + 1)?;
            let Some(hash) = hash_key(&key) else {
                return Err(self.error(key_id, "a list or a map cannot be the key of a map"));
            };
            let is_known = |(k, _): &(Value, Value)| hash_key(k).as_ref() == Some(&hash);
            if pairs.len() <= FEW_KEYS && out.iter().any(is_known) {
                return Err(self.conflict(key_id, &key));
            }
            let value = self.value(value_id, depth + 1)?;
            out.push((key, value));
        }
        if out.len() > FEW_KEYS {
            let mut seen = HashSet::with_capacity(out.len());
            let keys = out.iter().zip(&pairs);
            for ((key, _), (key_id, _)) in keys {
                if hash_key(key).is_some_and(|hash| !seen.insert(hash)) {
                    return Err(self.conflict(*key_id, key));
                }
            }
        }
        Ok(Map(out))
    }

    fn conflict(&self, id: Id, key: &Value) -> YamlError {
        let text = super::emit_scalar(key);
        let message = format!("found conflicting ID '{text}': the map has this key already");
        self.error(id, message)
    }

    /// Merges `<<` into the pairs of a map: merged pairs come first, explicit keys win
    /// (`salt/utils/yamlloader.py flatten_mapping`).
    fn flatten(&mut self, id: Id, depth: usize) -> Result<(), YamlError> {
        if depth > MAX_DEPTH {
            return Err(self.error(id, "too many merge keys inside one another"));
        }
        let NodeKind::Map(pairs) = &self.nodes[id].kind else {
            return Ok(());
        };
        let is_special =
            |(key, _): &(Id, Id)| matches!(self.nodes[*key].tag, Tag::Merge | Tag::Default);
        if !pairs.iter().any(is_special) || !self.flat.insert(id) {
            return Ok(());
        }
        let mut own = Vec::new();
        let mut merged = Vec::new();
        for (key, value) in pairs.clone() {
            if self.nodes[key].tag == Tag::Merge {
                merged.extend(self.merge(value, depth)?);
                continue;
            }
            if self.nodes[key].tag == Tag::Default {
                self.nodes[key].tag = Tag::Str;
            }
            own.push((key, value));
        }
        if merged.is_empty() {
            self.nodes[id].kind = NodeKind::Map(own);
            return Ok(());
        }
        let texts: HashSet<&str> = own.iter().filter_map(|(k, _)| self.text(*k)).collect();
        merged.retain(|(k, _)| self.text(*k).is_none_or(|t| !texts.contains(t)));
        merged.extend(own);
        self.nodes[id].kind = NodeKind::Map(merged);
        Ok(())
    }

    fn text(&self, id: Id) -> Option<&str> {
        match &self.nodes[id].kind {
            NodeKind::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The pairs that a `<<` with this value merges.
    fn merge(&mut self, id: Id, depth: usize) -> Result<Vec<(Id, Id)>, YamlError> {
        let sources = match &self.nodes[id].kind {
            NodeKind::Map(_) => vec![id],
            // Later maps of the list come first.
            NodeKind::Seq(items) => items.iter().rev().copied().collect(),
            NodeKind::Scalar(_) => {
                return Err(
                    self.error(id, "'<<' merges a map or a list of maps, not a plain value")
                );
            }
        };
        let mut out = Vec::new();
        for source in sources {
            self.flatten(source, depth + 1)?;
            let NodeKind::Map(pairs) = &self.nodes[source].kind else {
                return Err(self.error(source, "'<<' merges only maps"));
            };
            let pairs = pairs.clone();
            self.spend(id, pairs.len(), 0)?;
            out.extend(pairs);
        }
        Ok(out)
    }
}

/// What a node holds, which is not needed there any more unless the node may be used `again`.
fn used<T: Clone + Default>(held: &mut T, again: bool) -> T {
    if again {
        held.clone()
    } else {
        std::mem::take(held)
    }
}

/// Keys that are equal in a Python dict are the same: `1`, `1.0` and `true` clash.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Nil,
    Int(i128),
    Float(u64),
    Str(&'a str),
    Bytes(&'a [u8]),
}

fn hash_key(key: &Value) -> Option<Key<'_>> {
    Some(match key {
        Value::Nil => Key::Nil,
        Value::Bool(b) => Key::Int(i128::from(*b)),
        Value::Int(i) => Key::Int(i128::from(*i)),
        Value::UInt(u) => Key::Int(i128::from(*u)),
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e38 => Key::Int(*f as i128),
        Value::Float(f) => Key::Float(f.to_bits()),
        Value::Str(s) => Key::Str(s),
        Value::Bytes(b) => Key::Bytes(b),
        Value::Array(_) | Value::Map(_) => return None,
    })
}
