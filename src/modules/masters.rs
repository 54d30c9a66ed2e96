//! `master_type: func`: a minion function that returns its masters (`salt/minion.py eval_master_func`).

use super::guard::{FunctionFilter, guarded};
use crate::execution::{Context, python};
use halite_config::MinionConfig;
use halite_sys::exit::ExitError;
use halite_wire::{Map, Value};
use std::sync::Arc;

/// Calls the function named by `master`, once per process, and replaces its name by the result in configuration and
/// grains. Other master types are left alone.
///
/// # Errors
/// The function does not exist, fails, or returns anything but text or a list of text.
pub fn resolve_master_func(config: &mut MinionConfig, grains: &mut Map) -> Result<(), ExitError> {
    if config.master_type != "func" {
        return Ok(());
    }
    let wrong = |why: String| {
        let what =
            "`master_type: func` requires `master: module.function`, a function of this minion";
        Err(ExitError::new(1, format!("{what}: {why}")))
    };
    let [fun] = config.master.as_slice() else {
        return wrong("the option `master` is a list".to_owned());
    };
    let fun = fun.clone();
    let ctx = Context {
        id: config.id.clone(),
        grains: Arc::new(grains.clone()),
        opts: Arc::new(config.as_map()),
        cachedir: config.cachedir.clone(),
        ..Context::default()
    };
    let allowed = FunctionFilter::from_opts(&ctx.opts).despite_blackout();
    let outcome = guarded(&ctx, &fun, &[], &allowed);
    if !outcome.returned_value() {
        return wrong(python::str(&outcome.ret));
    }
    let masters = match &outcome.ret {
        Value::Str(one) => vec![one.clone()],
        Value::Array(list) if list.iter().all(|m| m.as_str().is_some()) => outcome.ret.str_list(),
        _ => Vec::new(),
    };
    if masters.is_empty() || masters.iter().any(|m| m.trim().is_empty()) {
        let shown = python::repr(&outcome.ret);
        return wrong(format!(
            "{fun} returned {shown:.200}, which is not a master"
        ));
    }
    log::info!("{fun} returned the master {}", masters.join(", "));
    if grains.str("master") == Some(&fun) {
        grains.set("master", masters[0].as_str());
    }
    config.master = masters;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(master: Value, kind: &str) -> Result<(Vec<String>, Map), String> {
        let dir = tempfile::tempdir().unwrap();
        let options = halite_wire::map! {"id" => "m1", "master" => master, "master_type" => kind};
        let mut config = MinionConfig::from_map(options, dir.path()).unwrap();
        let mut grains = halite_wire::map! {"master" => config.master[0].as_str()};
        resolve_master_func(&mut config, &mut grains).map_err(|e| e.message)?;
        Ok((config.master, grains))
    }

    #[test]
    fn a_function_may_name_the_master() {
        let (masters, _) = resolve("salt.example".into(), "str").unwrap();
        assert_eq!(masters, ["salt.example"]);
        let (masters, grains) = resolve("test.version".into(), "func").unwrap();
        assert_eq!(masters[0], grains.str("master").unwrap());
        assert_ne!(masters[0], "test.version");
        for (fun, why) in [
            ("test.ping", "test.ping returned True"),
            ("no.such", "'no.such' is not available."),
            ("test.echo", "Passed invalid arguments"),
        ] {
            let error = resolve(fun.into(), "func").unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let list = vec!["a.b".to_owned(), "c.d".to_owned()];
        assert!(resolve(list.into(), "func").unwrap_err().contains("a list"));
    }
}
