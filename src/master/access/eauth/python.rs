//! Systems of users: Python files (`_auth`, `auth_dirs`) with `auth(username, password)` and, if they like, `groups(username)`; and
//! those of an installed Salt. Each login has a process of its own.

use halite_config::MasterConfig;
use halite_python::{HostError, JobHost, Nothing, Scene, files};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

const KIND: &str = "auth";
/// How long a system may take.
const LIMIT: Duration = Duration::from_secs(20);

/// Whether a system may be in Python: told from the files' names and texts.
pub fn is_possible(config: &MasterConfig, name: &str) -> bool {
    let opts = Arc::new(config.as_map());
    files::files(&opts).is_possible(&opts, KIND, name, false)
}

/// Checks a password; returns the user's groups.
///
/// # Errors
/// Why the user is not authenticated, for the log.
pub fn authenticate(
    config: &MasterConfig,
    name: &str,
    user: &str,
    password: &str,
) -> Result<Vec<String>, String> {
    let opts = Arc::new(config.as_map());
    if !files::files(&opts).is_possible(&opts, KIND, name, false) {
        return Err(format!("the system {name:?} is not supported"));
    }
    let host = JobHost::with_limit(LIMIT);
    let scene = Scene::new(&opts).map_err(|e| e.to_string())?;
    let ask = |what: &str, args: Vec<Value>| {
        let done = host.request(&scene, what, args, &mut Nothing);
        done.map_err(|e| match e {
            // Its text may have the password, which is in no log.
            HostError::Raised(e) => format!("{name} has raised {}\n{}", e.class, e.trace),
            HostError::Broken(why) => why,
        })
    };
    let call = |function: &str, args: Vec<Value>, keywords: Map| {
        let args = vec![
            KIND.into(),
            function.into(),
            args.into(),
            Map::new().into(),
            keywords.into(),
        ];
        ask("use", args)
    };
    let has = |function: &str| {
        let find = vec![
            KIND.into(),
            format!("{name}.{function}").into(),
            true.into(),
        ];
        ask("find", find).map(|found| found.truthy())
    };
    for rights in ["acl", "process_acl"] {
        // Not passed over: it may take rights away.
        if has(rights)? {
            return Err(format!(
                "{name} has {rights}(), which halite does not call; give rights in external_auth and leave the function out"
            ));
        }
    }
    let given = vec![user.into(), password.into()];
    let proven = call(&format!("{name}.auth"), given, Map::new())?;
    // A text, such as "denied", is no yes.
    if !proven.truthy() || proven.as_str().is_some() {
        return Err("unknown user or wrong password".to_owned());
    }
    if !has("groups")? {
        return Ok(Vec::new());
    }
    let found = call(&format!("{name}.groups"), vec![user.into()], Map::new())?;
    Ok(found.str_list())
}
