//! `sdb`: values by URI, `sdb://PROFILE/KEY` (`salt/modules/sdb.py`, `salt/utils/sdb.py`). A profile is a map in the configuration
//! or the pillar; its `driver` is `env`, a Python file of users (`_sdb`), or a module of an installed Salt.

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, Context, python, python_modules};
use halite_python::files as python_files;
use halite_wire::{Map, Value};
use rand::seq::SliceRandom;

pub(super) const MODULE: Module = Module {
    name: "sdb",
    functions: &[
        Function::new(
            "get",
            get,
            "The value of an sdb:// URI; any other value as it is.",
        )
        .args(args![uri, strict = False]),
        Function::new("set", set, "Sets the value of an sdb:// URI.")
            .inner("set_")
            .args(args![uri, value]),
        Function::new("delete", delete, "Deletes the value of an sdb:// URI.").args(args![uri]),
        Function::new(
            "get_or_set_hash",
            get_or_set_hash,
            "The value of an sdb:// URI; a new random text, which is set, if there is none.",
        )
        .args(args![
            uri,
            length = { 8 },
            chars = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)"
        ]),
    ],
};

const SCHEME: &str = "sdb://";

/// The profile and the key of a URI; `None` if it is no such URI.
fn parts(uri: &str) -> Option<(&str, &str)> {
    let (profile, key) = uri.strip_prefix(SCHEME)?.split_once('/')?;
    (!key.is_empty()).then_some((profile, key))
}

/// The map of a profile, which has a driver.
fn profile<'a>(ctx: &'a Context, name: &str) -> Option<(&'a Map, &'a str)> {
    let of = |data: &'a Map| {
        let profile = data.get(name).filter(|profile| profile.truthy())?;
        let profile = profile.as_map()?;
        Some((profile, profile.str("driver")?))
    };
    of(&ctx.opts).or_else(|| of(&ctx.pillar))
}

fn invalid(text: impl Into<String>) -> CallError {
    CallError::Invocation(text.into())
}

/// Calls a function of a driver; `None` if the URI or its profile is not there.
fn ask(ctx: &Context, uri: &str, function: &str, mut args: Vec<Value>) -> Result<Option<Value>> {
    let Some((profile, driver, key)) = parts(uri).and_then(|(name, key)| {
        let (profile, driver) = profile(ctx, name)?;
        Some((profile, driver, key))
    }) else {
        return Ok(None);
    };
    let name = format!("{driver}.{function}");
    let ours = (driver, function) == ("env", "get");
    args.insert(0, key.into());
    if python_modules::has(ctx, "sdb", &name, ours) {
        let profile = halite_wire::map! {"profile" => profile.clone()};
        return python_modules::use_function(ctx, "sdb", &name, args, profile).map(Some);
    }
    if ours {
        return Ok(Some(std::env::var(key).ok().into()));
    }
    if let Some(why) = python_modules::fault(ctx, "sdb", &name) {
        return Err(CallError::raised("KeyError", format!("'{name}': {why}")));
    }
    // Only files that are there, or an installed Salt, have other drivers.
    let remedy = if python_files::installed_salt(&ctx.opts).is_none() {
        "; halite has the driver env, others are Python files in salt://_sdb or those of an installed Salt (legacy_salt)"
    } else {
        ""
    };
    Err(CallError::raised("KeyError", format!("'{name}'{remedy}")))
}

/// `sdb_get`: the value of a URI, anything else as it is.
///
/// # Errors
/// The driver fails; with `strict`, also if it is no URI of a profile that is there.
pub fn value_of(ctx: &Context, value: &Value, strict: bool) -> Result {
    let Some(uri) = value.as_str().filter(|text| text.starts_with(SCHEME)) else {
        return match strict {
            true => Err(invalid("SDB uri must start with \"sdb://\"")),
            false => Ok(value.clone()),
        };
    };
    if let Some(found) = ask(ctx, uri, "get", Vec::new())? {
        return Ok(found);
    }
    match (strict, parts(uri)) {
        (false, None) => Ok(value.clone()),
        (false, Some((name, _))) => {
            log::warn!(
                "{uri} is taken as it is: neither configuration nor pillar has a map {name:?} with a driver"
            );
            Ok(value.clone())
        }
        (true, None) => Err(invalid(
            "SDB uri must have a profile name as a first part of the uri before the /",
        )),
        (true, Some((name, _))) => Err(invalid(format!(
            "SDB profile \"{name}\" wasnt found in the minion configuration"
        ))),
    }
}

fn get(call: &mut Call<'_>) -> Result {
    value_of(call.ctx, call.arg("uri"), call.flag("strict"))
}

/// What another function of the driver returns; false if there is no such profile.
fn change(ctx: &Context, uri: &Value, function: &str, args: Vec<Value>) -> Result {
    let done = match uri.as_str() {
        Some(uri) => ask(ctx, uri, function, args)?,
        None => None,
    };
    Ok(done.unwrap_or_else(|| false.into()))
}

fn set(call: &mut Call<'_>) -> Result {
    let value = call.arg("value").clone();
    change(call.ctx, call.arg("uri"), "set", vec![value])
}

fn delete(call: &mut Call<'_>) -> Result {
    change(call.ctx, call.arg("uri"), "delete", Vec::new())
}

fn get_or_set_hash(call: &mut Call<'_>) -> Result {
    let uri = call.arg("uri").clone();
    if !uri.as_str().is_some_and(|uri| uri.starts_with(SCHEME)) {
        return Ok(false.into());
    }
    let there = value_of(call.ctx, &uri, false)?;
    if !there.is_nil() {
        return Ok(there);
    }
    let chars: Vec<char> = python::str(call.arg("chars")).chars().collect();
    let length = call.arg("length").as_int().unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(0).min(MAX_HASH);
    let text: Option<String> = (0..length)
        .map(|_| chars.choose(&mut rand::thread_rng()))
        .collect();
    let text = text
        .ok_or_else(|| CallError::raised("IndexError", "Cannot choose from an empty sequence"))?;
    let text = Value::from(text);
    change(call.ctx, &uri, "set", vec![text.clone()])?;
    Ok(text)
}

/// Most characters of a new random text.
const MAX_HASH: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn ctx() -> Context {
        let profile = |driver: &str| halite_wire::map! {"driver" => driver};
        Context {
            opts: Arc::new(
                halite_wire::map! {"surroundings" => profile("env"), "bare" => Map::new()},
            ),
            pillar: Arc::new(halite_wire::map! {"theirs" => profile("nosuch")}),
            ..Context::default()
        }
    }

    #[test]
    fn uris_without_a_profile_are_values() {
        for text in [
            "x",
            "sdb://",
            "sdb://surroundings",
            "sdb://surroundings/",
            "sdb://bare/x",
            "sdb://none/x",
        ] {
            let value = Value::from(text);
            assert_eq!(
                value_of(&ctx(), &value, false).ok(),
                Some(value.clone()),
                "{text}"
            );
            assert!(
                matches!(
                    value_of(&ctx(), &value, true),
                    Err(CallError::Invocation(_))
                ),
                "{text}"
            );
            assert_eq!(
                change(&ctx(), &value, "set", vec![1.into()]).ok(),
                Some(false.into())
            );
        }
    }

    #[test]
    fn drivers_are_ours_or_missing() {
        let path = value_of(&ctx(), &"sdb://surroundings/PATH".into(), true);
        assert_eq!(path.ok(), std::env::var("PATH").ok().map(Value::from));
        let missing = value_of(&ctx(), &"sdb://theirs/a/b".into(), false).unwrap_err();
        assert!(
            missing.message().starts_with("'nosuch.get'; "),
            "{missing:?}"
        );
    }
}
