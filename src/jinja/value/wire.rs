//! Conversion between wire values and template values.

use super::compare::Budget;
use super::{Dict, Key, Obj};
use crate::error::Error;
use halite_wire::{Map, Value};
use std::rc::Rc;

impl From<&Value> for Obj {
    fn from(value: &Value) -> Obj {
        match value {
            Value::Nil => Obj::None,
            Value::Bool(b) => Obj::Bool(*b),
            Value::Int(i) => Obj::Int(*i),
            Value::UInt(u) => Obj::from(*u),
            Value::Float(f) => Obj::Float(*f),
            Value::Str(text) => Obj::from(text),
            Value::Bytes(bytes) => Obj::Bytes(Rc::from(bytes.as_slice())),
            Value::Array(items) => Obj::list(items.iter().map(Obj::from).collect()),
            Value::Map(map) => Obj::from(map),
        }
    }
}

impl From<&Map> for Obj {
    fn from(map: &Map) -> Obj {
        let mut dict = Dict::with_capacity(map.len());
        for (key, value) in map.iter() {
            dict.insert_key(key_from(key), Obj::from(value));
        }
        Obj::dict(dict)
    }
}

/// A map key: lists become tuples, which they are in Python.
fn key_from(key: &Value) -> Key {
    let obj = match key {
        Value::Array(items) => Obj::tuple(
            items
                .iter()
                .map(|item| key_from(item).obj().clone())
                .collect(),
        ),
        other => Obj::from(other),
    };
    // Python does not allow maps as keys; use the text instead.
    Key::new(&obj).unwrap_or_else(|_| Key::text(obj.repr().unwrap_or_default()))
}

impl From<Value> for Obj {
    fn from(value: Value) -> Obj {
        Obj::from(&value)
    }
}

impl From<Map> for Obj {
    fn from(map: Map) -> Obj {
        Obj::from(&map)
    }
}

impl Obj {
    /// The value as a wire value; tuples, sets and iterators become lists.
    ///
    /// # Errors
    /// Undefined values, objects that are not data, and endless containers.
    pub fn to_value(&self) -> Result<Value, Error> {
        self.to_value_within(&mut Budget::default())
    }

    fn to_value_within(&self, budget: &mut Budget) -> Result<Value, Error> {
        budget.step()?;
        Ok(match self {
            Obj::Undefined(missing) => return Err(missing.error()),
            Obj::None => Value::Nil,
            Obj::Bool(b) => Value::Bool(*b),
            Obj::Int(i) => Value::Int(*i),
            // Like Salt, send integers that msgpack cannot represent as text (salt/payload.py dumps).
            Obj::Big(big) => match u64::try_from(big.as_ref()) {
                Ok(u) => Value::UInt(u),
                Err(_) => Value::Str(big.to_string()),
            },
            Obj::Float(f) => Value::Float(*f),
            Obj::Str(text) | Obj::Markup(text) => Value::from(text.as_ref()),
            Obj::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Obj::List(list) => values(list.borrow().iter(), budget)?,
            Obj::Tuple(items) => values(items.iter(), budget)?,
            Obj::Set(set) => values(set.borrow().iter(), budget)?,
            Obj::Range(range) => Value::Array(
                range
                    .iter()
                    .filter_map(|n| n.as_int())
                    .map(Value::Int)
                    .collect(),
            ),
            Obj::View(view) => values(view.items().iter(), budget)?,
            Obj::Iter(iter) => values(iter.take().iter(), budget)?,
            Obj::Dict(dict) => {
                budget.enter()?;
                let mut map = Map::new();
                for (key, value) in dict.borrow().iter() {
                    map.0
                        .push((key.to_value_within(budget)?, value.to_value_within(budget)?));
                }
                budget.leave();
                Value::Map(map)
            }
            Obj::Native(object) => match object.as_data() {
                Some(data) if !matches!(data, Obj::Native(_)) => data.to_value_within(budget)?,
                _ => {
                    return Err(Error::type_error(format!(
                        "an object of type {} cannot be serialised",
                        self.type_name()
                    )));
                }
            },
        })
    }
}

fn values<'a>(items: impl Iterator<Item = &'a Obj>, budget: &mut Budget) -> Result<Value, Error> {
    budget.enter()?;
    let items = items.map(|item| item.to_value_within(budget));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    budget.leave();
    Ok(Value::Array(items))
}
