//! Systems of users: Python files (`_auth`, `auth_dirs`) with `auth(username, password)` and, if they like, `groups(username)`; and
//! those of an installed Salt. Each login has a process of its own.

use super::super::names;
use halite_config::MasterConfig;
use halite_python::questions::{find_args, reason, use_args};
use halite_python::{HostError, JobHost, Nothing, Scene, files};
use halite_wire::{Map, Value};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

const KIND: &str = "auth";
/// How long a system may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Logins of one system at a time, and how long another one waits for its turn: workers that wait serve nobody.
const AT_ONCE: usize = 2;
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether a system may be in Python: told from the files' names and texts.
pub fn is_possible(opts: &Arc<Map>, name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_letter) && files::is_possible(opts, KIND, name, false)
}

/// Checks a password; returns the user's groups.
///
/// # Errors
/// Why the user is not authenticated, for the log.
pub fn authenticate(
    config: &MasterConfig,
    name: &str,
    system: &Map,
    user: &str,
    password: &str,
) -> Result<Vec<String>, String> {
    let opts = Arc::new(config.as_map());
    if !is_possible(&opts, name) {
        return Err(format!("the system {name:?} is not supported"));
    }
    refuse_other_spellings(system, user)?;
    let _place = place(config, name)
        .ok_or_else(|| format!("{AT_ONCE} logins of {name} are under way already"))?;
    let host = JobHost::with_limit(LIMIT);
    let scene = Scene::new(&opts).map_err(|e| e.to_string())?;
    let ask = |what: &str, args: Vec<Value>| {
        let done = host.request(&scene, what, args, &mut Nothing);
        done.map_err(|e| match e {
            // Its text, and its last words, may have the password, which is in no log.
            HostError::Raised(e) => format!("{name} has raised {}\n{}", e.class, e.trace),
            HostError::Broken(_) => format!("the process of {name} has failed, or took too long"),
        })
    };
    let call = |function: &str, args: Vec<Value>| {
        let function = format!("{name}.{function}");
        ask(
            "use",
            use_args(KIND, &function, args, Map::new(), Map::new()),
        )
    };
    let has = |function: &str| {
        let found = ask(
            "find",
            find_args(KIND, &format!("{name}.{function}"), false),
        );
        found.map(|found| found.truthy())
    };
    for rights in ["acl", "process_acl"] {
        // Not passed over: it may take rights away.
        if has(rights)? {
            return Err(format!(
                "{name} has {rights}(), which halite does not call; give rights in external_auth and leave the function out"
            ));
        }
    }
    if !has("auth")? {
        let why = reason(KIND, name, ask)?;
        return Err(why.unwrap_or_else(|| format!("{name} has no auth()")));
    }
    let given = vec![user.into(), password.into()];
    match call("auth", given)? {
        Value::Bool(true) => {}
        no if !no.truthy() => return Err("unknown user or wrong password".to_owned()),
        // A text such as "denied" is no yes.
        _ => return Err(format!("{name}.auth() returned neither True nor False")),
    }
    if !has("groups")? {
        return Ok(Vec::new());
    }
    let found = call("groups", vec![user.into()])?;
    Ok(found.str_list())
}

/// Nobody knows which spellings of a name are one user to a system: those that would not get the rights written down for the name
/// are refused.
fn refuse_other_spellings(system: &Map, user: &str) -> Result<(), String> {
    let folded = names::folded(user);
    let mut known = system.iter().filter_map(|(name, _)| name.as_str());
    let is_other = known.any(|name| name != user && names::folded(name) == folded);
    match is_other || !names::is_plain(user) {
        true => Err(format!(
            "{user:?} is spelled otherwise in external_auth, or not plainly"
        )),
        false => Ok(()),
    }
}

/// A place for a login, of all workers.
fn place(config: &MasterConfig, name: &str) -> Option<Flock<File>> {
    let end = Instant::now() + PATIENCE;
    loop {
        for n in 0..AT_ONCE {
            let path = config.sock_dir.join(format!("login-{name}-{n}.lock"));
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .custom_flags(nix::libc::O_NOFOLLOW)
                .mode(0o600)
                .open(path)
                .ok()?;
            if let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                return Some(lock);
            }
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_spellings_of_known_names_are_refused() {
        let system = halite_wire::map! {"*" => Value::Nil, "fred" => Value::Nil};
        assert!(refuse_other_spellings(&system, "fred").is_ok());
        assert!(refuse_other_spellings(&system, "ann").is_ok());
        for other in ["Fred", "fred ", " fred", "FRED", "ann ", "a\u{ad}nn"] {
            assert!(refuse_other_spellings(&system, other).is_err(), "{other:?}");
        }
    }
}
