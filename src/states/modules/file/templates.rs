//! Texts that states take from files of the file server.

use super::{Step, fail};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::{GetManaged, get_managed, os, source_list};
use halite_modules::execution::{CallError, python};
use halite_wire::Value;

/// The rendered texts of `source` or `sources`; `None` if there are none.
pub(super) fn texts(s: &mut State<'_, '_>) -> Step<Option<Vec<String>>> {
    let (one, many) = (s.arg("source").clone(), s.arg("sources").clone());
    if one.truthy() && many.truthy() {
        return fail("source and sources are mutually exclusive");
    }
    let (hash, hashes) = (s.arg("source_hash").clone(), s.arg("source_hashes").clone());
    if hash.truthy() && hashes.truthy() {
        return fail("source_hash and source_hashes are mutually exclusive");
    }
    let sources = match (many, one) {
        (Value::Array(list), _) if !list.is_empty() => list,
        (many, _) if many.truthy() => return fail("sources is not formed as a list"),
        (_, one) if one.truthy() => vec![one],
        _ => return Ok(None),
    };
    let hashes = match (hashes, hash) {
        (Value::Array(list), _) if !list.is_empty() => list,
        (_, hash) if hash.truthy() => vec![hash],
        _ => Vec::new(),
    };
    let mut texts = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let hash = hashes.get(at).cloned().unwrap_or_else(|| "".into());
        texts.push(text(s, source, &hash)?);
    }
    Ok(Some(texts))
}

fn text(s: &mut State<'_, '_>, source: &Value, hash: &Value) -> Step<String> {
    let saltenv = s.saltenv();
    let list = Value::Array(vec![source.clone()]);
    let shown = source.clone();
    let not_loaded = || -> Step<String> {
        let wrong = StateOutcome::bad(format!(
            "Failed to load template file {}",
            python::str(&shown)
        ));
        Err(wrong
            .with("name", shown.clone())
            .with("data", Vec::<Value>::new())
            .into())
    };
    let (source, hash) = match source_list(s.call, &list, hash, &saltenv) {
        Ok(found) => found,
        Err(CallError::Command(_)) => return not_loaded(),
        Err(other) => return Err(other.into()),
    };
    let request = GetManaged {
        name: s.name(),
        template: s.arg("template").clone(),
        source,
        source_hash: hash,
        saltenv,
        context: s.arg("context").clone(),
        defaults: s.arg("defaults").clone(),
        verify_ssl: true.into(),
        ..GetManaged::default()
    };
    let found = get_managed(s.call, &request)?;
    if !found.comment.is_empty() || found.sfn.is_empty() {
        log::error!("{}: {}", s.name(), found.comment);
        return not_loaded();
    }
    let text = os::read_text(&found.sfn);
    halite_modules::execution::file::clean_tmp(s.call, &found.sfn);
    Ok(text?)
}
