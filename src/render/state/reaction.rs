//! Reactions: like states, but each declaration is a call of a client (`salt/state.py Compiler`,
//! `salt/utils/reactor.py`).

use super::compile::{CompileOptions, compile};
use super::verify;
use halite_wire::{Map, Value};

/// The calls of rendered reaction files, in order. Each has `state` (`local`, `runner`, `wheel`, `caller`),
/// `fun`, `__id__`, `name`, `__sls__`, and its arguments.
///
/// # Errors
/// Errors in the form of the files.
pub fn compile_reactions(mut high: Map) -> Result<Vec<Map>, Vec<String>> {
    let errors = verify::verify(&high);
    if !errors.is_empty() {
        return Err(errors);
    }
    high.0.retain(|(_, body)| body.as_map().is_some());
    let compiled = compile(high, &CompileOptions::default())?;
    Ok(compiled.low())
}

/// Expands `client.module.function` keys of one rendered file, and records the file (`Compiler.pad_funcs`).
pub fn pad_reactions(high: &mut Map, file: &str) {
    for (_, body) in &mut high.0 {
        if let Value::Str(short) = body
            && let Some((client, function)) = short.split_once('.')
        {
            *body = Value::Map(halite_wire::map! {client => vec![Value::from(function)]});
        }
        let Value::Map(body) = body else { continue };
        let mut keys: Vec<String> = body
            .iter()
            .filter(|(_, v)| v.as_array().is_some())
            .filter_map(|(k, _)| k.as_str())
            .filter(|k| !k.starts_with('_'))
            .map(str::to_owned)
            .collect();
        keys.sort_unstable();
        for key in keys {
            let Some((client, function)) = key.split_once('.') else {
                continue;
            };
            if body.contains(client) {
                continue;
            }
            if let Some(Value::Array(mut list)) = body.remove(&key) {
                list.push(function.into());
                body.set(client, list);
            }
        }
        body.set("__sls__", file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::yaml;

    fn calls(text: &str) -> Result<Vec<Map>, Vec<String>> {
        let mut high = yaml::parse(text).unwrap().into_map().unwrap();
        pad_reactions(&mut high, "/srv/reactor/a.sls");
        compile_reactions(high)
    }

    #[test]
    fn reactions_are_calls_in_salts_order() {
        let low = calls(
            "b:\n  local.state.apply:\n    - tgt: web*\n    - args:\n      - mods: apache\n\
             a:\n  runner.jobs.list_jobs: []\nz:\n  cmd.test.ping:\n    - tgt: '*'\n    - order: first\n",
        )
        .unwrap();
        let shown: Vec<String> = low
            .iter()
            .map(|c| format!("{} {}", c.str("state").unwrap(), c.str("fun").unwrap()))
            .collect();
        // As in Salt, calls without an order are sorted by client, then id.
        assert_eq!(
            shown,
            [
                "cmd test.ping",
                "local state.apply",
                "runner jobs.list_jobs"
            ]
        );
        assert_eq!(low[1].str("tgt"), Some("web*"));
        assert_eq!(low[1].str("__sls__"), Some("/srv/reactor/a.sls"));
    }

    #[test]
    fn malformed_reactions_are_errors() {
        assert!(calls("a:\n  local.test.ping:\n    tgt: x\n").is_err());
        assert!(calls("a:\n  local: []\n").is_err());
    }
}
