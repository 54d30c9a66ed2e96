//! Extensions that say where revocation lists are.

use super::der;
use super::general::{self, GeneralName};
use super::names;
use super::tables::REASON_BITS;
use super::values::{configuration, critical_of, has, invocation};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};

/// `crlDistributionPoints` and `freshestCRL`.
///
/// # Errors
/// The description is wrong.
pub fn distribution(given: &Value) -> Result<(bool, Vec<u8>)> {
    let mut points = Vec::new();
    let critical = match given {
        Value::Str(text) => {
            let (pairs, critical) = configuration(text);
            for pair in pairs {
                points.push(by_name(&[pair])?);
            }
            critical
        }
        Value::Array(list) => {
            for item in list {
                match item {
                    Value::Map(map) => points.push(point(map)?),
                    Value::Str(text) => match text.split_once(':') {
                        Some((kind, value)) => {
                            let pair = (kind.trim().to_owned(), value.trim().into());
                            points.push(by_name(&[pair])?);
                        }
                        None if text == "critical" => {}
                        None => return Err(unpack()),
                    },
                    _ => return Err(unpack()),
                }
            }
            has(given, "critical")?
        }
        other => {
            has(other, "critical")?;
            return Err(unpack());
        }
    };
    Ok((critical, der::seq(points)))
}

fn unpack() -> CallError {
    CallError::raised("ValueError", "too many values to unpack (expected 2)")
}

fn by_name(pairs: &[(String, Value)]) -> Result<Vec<u8>> {
    let names = general::parse(pairs)?;
    Ok(der::seq([der::tlv(der::PARTS, &full_name(&names))]))
}

fn full_name(names: &[GeneralName]) -> Vec<u8> {
    general::encode(der::PARTS, names)
}

/// The names under a key, which may be one or a list.
fn names_under(map: &Map, key: &str) -> Result<Option<Vec<GeneralName>>> {
    let texts = match map.get(key).filter(|v| v.truthy()) {
        None => return Ok(None),
        Some(Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
    };
    let names: Result<Vec<_>> = texts
        .iter()
        .map(|t| general::parse_one(&python::str(t)))
        .collect();
    names.map(Some)
}

/// The field `distributionPoint`, if there is one.
fn where_it_is(map: &Map, both: &str) -> Result<Option<Vec<u8>>> {
    let full = names_under(map, "fullname")?;
    let relative = map.get("relativename").filter(|v| v.truthy());
    match (full, relative) {
        (Some(_), Some(_)) => Err(invocation(both)),
        (Some(names), None) => Ok(Some(der::tlv(der::PARTS, &full_name(&names)))),
        (None, Some(given)) => Ok(Some(der::tlv(der::PARTS, &relative_name(given)?))),
        (None, None) => Ok(None),
    }
}

/// The reasons under a key as bits of a field.
fn reasons(map: &Map, key: &str, tag: u8, whose: &str) -> Result<Option<Vec<u8>>> {
    let Some(given) = map.get(key).filter(|v| v.truthy()) else {
        return Ok(None);
    };
    let mut bits = [false; 9];
    for word in given.as_array().unwrap_or_default() {
        let word = python::str(word);
        match REASON_BITS.iter().position(|r| *r == word) {
            Some(at) => bits[at + 1] = true,
            None if ["unspecified", "removeFromCRL"].contains(&word.as_str()) => {
                return Err(invocation(format!(
                    "unspecified and remove_from_crl are not valid reasons in {whose}"
                )));
            }
            None => return Err(invocation(format!("'{word}' is not a valid ReasonFlags"))),
        }
    }
    Ok(Some(der::named_bits(tag, &bits)))
}

fn point(map: &Map) -> Result<Vec<u8>> {
    let place = where_it_is(
        map,
        "You cannot provide both full_name and relative_name, at least one must be None.",
    )?;
    let issuer = names_under(map, "crlissuer")?;
    if place.is_none() && issuer.is_none() {
        return Err(invocation(
            "Either full_name, relative_name or crl_issuer must be provided.",
        ));
    }
    let why = reasons(map, "reasons", der::FIELD | 1, "a DistributionPoint")?;
    let issuer = issuer.map(|names| general::encode(der::PARTS | 2, &names));
    Ok(der::seq([place, why, issuer].into_iter().flatten()))
}

/// `issuingDistributionPoint`.
///
/// # Errors
/// The description is wrong.
pub fn issuing(given: &Value) -> Result<(bool, Vec<u8>)> {
    let Value::Map(map) = given else {
        return Err(invocation("issuingDistributionPoint must be a dictionary"));
    };
    let place = where_it_is(map, "only one of full_name, relative_name may be provided")?;
    let why = reasons(
        map,
        "onlysomereasons",
        der::FIELD | 3,
        "an IssuingDistributionPoint",
    )?;
    let mut flags = [false; 4];
    for (flag, key) in flags
        .iter_mut()
        .zip(["onlyuser", "onlyCA", "onlyAA", "indirectCRL"])
    {
        *flag = match map.get(key) {
            None => false,
            Some(Value::Bool(set)) => *set,
            Some(_) => {
                return Err(invocation(
                    "only_contains_user_certs, only_contains_ca_certs, indirect_crl and only_contains_attribute_certs \
                     must all be boolean.",
                ));
            }
        };
    }
    let [user, ca, attribute, indirect] = flags;
    if [user, ca, attribute].iter().filter(|f| **f).count() > 1 {
        return Err(invocation(
            "Only one of the following can be set to True: only_contains_user_certs, only_contains_ca_certs, \
             only_contains_attribute_certs",
        ));
    }
    if place.is_none() && why.is_none() && flags == [false; 4] {
        return Err(invocation(
            "Cannot create empty extension: if only_contains_user_certs, only_contains_ca_certs, indirect_crl, and \
             only_contains_attribute_certs are all False, then either full_name, relative_name, or only_some_reasons \
             must have a value.",
        ));
    }
    let parts = [
        place.unwrap_or_default(),
        der::boolean(der::FIELD | 1, user),
        der::boolean(der::FIELD | 2, ca),
        why.unwrap_or_default(),
        der::boolean(der::FIELD | 4, indirect),
        der::boolean(der::FIELD | 5, attribute),
    ];
    Ok((critical_of(map)?, der::seq(parts)))
}

/// One part of a name for a distribution point.
fn relative_name(given: &Value) -> Result<Vec<u8>> {
    Ok(names::rdn_der(der::PARTS | 1, &names::parse_rdn(given)?))
}
