//! Extensions about policies.

use super::der;
use super::general::checked_oid;
use super::values::{attribute_error, configuration, critical_of, has, invocation, pairs_map};
use crate::context::CallError;
use crate::execution::declare::Result;
use crate::execution::python;
use halite_wire::{Map, Value};

/// `certificatePolicies`.
///
/// # Errors
/// The description is wrong.
pub fn policies(given: &Value) -> Result<(bool, Vec<u8>)> {
    let map = match given {
        Value::Str(text) => {
            let items = text.split(',').map(str::trim).filter(|i| *i != "critical");
            let mut all = Vec::new();
            for item in items {
                let oid = checked_oid(&item.into()).map_err(|e| match e {
                    CallError::Command(_) => invocation(
                        "certificatePolicies defined as string must be a comma-separated list of OID.",
                    ),
                    other => other,
                })?;
                all.push(der::seq([der::oid(&oid)]));
            }
            return Ok((text.starts_with("critical"), der::seq(all)));
        }
        Value::Map(map) => map,
        other => return Err(attribute_error(other, "get")),
    };
    let mut all = Vec::new();
    for (key, qualifiers) in map.iter().filter(|(k, _)| !k.is_str("critical")) {
        let mut parts = vec![der::oid(&checked_oid(key)?)];
        let mut shown = Vec::new();
        for one in qualifiers.as_array().unwrap_or_default() {
            shown.extend(qualifier(one)?);
        }
        if !shown.is_empty() {
            parts.push(der::seq(shown));
        }
        all.push(der::seq(parts));
    }
    Ok((critical_of(map)?, der::seq(all)))
}

fn qualifier(given: &Value) -> Result<Option<Vec<u8>>> {
    const STATEMENT: &str = "1.3.6.1.5.5.7.2.1";
    const NOTICE: &str = "1.3.6.1.5.5.7.2.2";
    let map = match given {
        Value::Str(text) => {
            let statement = der::tlv(der::IA5, text.as_bytes());
            return Ok(Some(der::seq([der::oid(STATEMENT), statement])));
        }
        Value::Map(map) => map,
        other => return Err(attribute_error(other, "get")),
    };
    // As in stock: a text without numbers is left out.
    let Some(numbers) = map.get("noticeNumbers").filter(|n| n.truthy()) else {
        return Ok(None);
    };
    let number = |n: &Value| n.as_int().and_then(|n| u64::try_from(n).ok()).map(der::int);
    let numbers: Option<Vec<_>> = numbers
        .as_array()
        .unwrap_or_default()
        .iter()
        .map(number)
        .collect();
    let numbers = numbers.ok_or_else(|| {
        CallError::Command("notice_numbers must be a list of integers".to_owned())
    })?;
    let text = |key: &str| match map.get(key) {
        None | Some(Value::Nil) => Vec::new(),
        Some(value) => der::tlv(der::UTF8, python::str(value).as_bytes()),
    };
    let reference = der::seq([text("organization"), der::seq(numbers)]);
    let notice = der::seq([reference, text("text")]);
    Ok(Some(der::seq([der::oid(NOTICE), notice])))
}

/// `policyConstraints`.
///
/// # Errors
/// The description is wrong.
pub fn policy_constraints(given: &Value) -> Result<(bool, Vec<u8>)> {
    let (map, critical) = match given {
        Value::Str(text) => {
            let (pairs, critical) = configuration(text);
            (pairs_map(pairs), critical)
        }
        Value::Map(map) => (map.clone(), map.contains("critical")),
        other => (Map::new(), has(other, "critical")?),
    };
    let mut parts = Vec::new();
    let keys = [
        ("requireExplicitPolicy", "require_explicit_policy"),
        ("inhibitPolicyMapping", "inhibit_policy_mapping"),
    ];
    for (tag, (key, shown)) in (der::FIELD..).zip(keys) {
        let Some(value) = map.get(key) else { continue };
        let number = u64::try_from(python::int(value)?)
            .map_err(|_| invocation(format!("{shown} must be a non-negative integer or None")))?;
        parts.push(der::tlv(tag, &der::magnitude(&number.to_be_bytes())));
    }
    if parts.is_empty() {
        return Err(invocation(
            "At least one of require_explicit_policy and inhibit_policy_mapping must not be None",
        ));
    }
    Ok((critical, der::seq(parts)))
}

/// `inhibitAnyPolicy`.
///
/// # Errors
/// The description is wrong.
pub fn inhibit_any_policy(given: &Value) -> Result<(bool, Vec<u8>)> {
    let (number, critical) = match given {
        Value::Int(number) => (Value::Int(*number), false),
        Value::Str(text) => {
            let (pairs, critical) = configuration(text);
            let word = pairs
                .into_iter()
                .next()
                .map(|(word, _)| word)
                .unwrap_or_default();
            (python::int(&word.into())?.into(), critical)
        }
        Value::Map(map) => {
            let value = map.get("value").ok_or_else(|| {
                invocation("Undefined required key for inhibitAnyPolicy: 'value'")
            })?;
            (value.clone(), map.contains("critical"))
        }
        other => {
            has(other, "critical")?;
            return Err(invocation(
                "list indices must be integers or slices, not str",
            ));
        }
    };
    let number = number
        .as_int()
        .ok_or_else(|| invocation("skip_certs must be an integer"))?;
    let number = u64::try_from(number)
        .map_err(|_| invocation("skip_certs must be a non-negative integer"))?;
    Ok((critical, der::int(number)))
}
