//! `cron`: users' crontabs.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};

pub(super) const MODULE: StateModule = StateModule {
    name: "cron",
    functions: &[
        StateFunction::new("absent", absent, "Ensures that a crontab lacks a job.")
            .args(args![user = "root", identifier = False, special = None])
            .keywords(),
        StateFunction::new(
            "env_absent",
            env_absent,
            "Ensures that a crontab lacks a variable.",
        )
        .args(args![user = "root"]),
        StateFunction::new(
            "env_present",
            env_present,
            "Ensures that a crontab has a variable.",
        )
        .args(args![value = None, user = "root"]),
        StateFunction::new("file", file, "Makes a file a user's crontab.")
            .args(args![
                source_hash = "",
                source_hash_name = None,
                user = "root",
                template = None,
                context = None,
                replace = True,
                defaults = None,
                backup = ""
            ])
            .keywords(),
        StateFunction::new("present", present, "Ensures that a crontab has a job.").args(args![
            user = "root",
            minute = "*",
            hour = "*",
            daymonth = "*",
            month = "*",
            dayweek = "*",
            comment = None,
            commented = False,
            identifier = False,
            special = None
        ]),
    ],
};

const TIMES: [&str; 5] = ["minute", "hour", "daymonth", "month", "dayweek"];
/// Stands for a job without identifier.
const NO_ID: &str = "NO ID SET";

#[derive(Clone, Copy, PartialEq)]
enum Found {
    Absent,
    Different,
    Same,
}

fn user(s: &State<'_, '_>) -> String {
    s.text("user").unwrap_or_default()
}

/// The identifier of the declaration; its command is the default.
fn identifier(s: &State<'_, '_>, cmd: &str) -> Value {
    match s.arg("identifier") {
        Value::Bool(false) => cmd.into(),
        other => other.clone(),
    }
}

fn entries(s: &mut State<'_, '_>, list: &str) -> Result<Vec<Map>> {
    let tab = s.salt("cron.list_tab", [Value::from(user(s))])?;
    let tab = tab.into_map().unwrap_or_default();
    let list = tab.get(list).and_then(Value::as_array).unwrap_or_default();
    Ok(list.iter().filter_map(|e| e.as_map().cloned()).collect())
}

/// Whether an entry is the declared one: by its identifier or, if it has none, its command.
fn is_entry(entry: &Map, cmd: &str, identifier: &Value) -> bool {
    match entry.get("identifier").filter(|id| id.truthy()) {
        Some(id) => {
            python::str(id)
                == if identifier.truthy() {
                    python::str(identifier)
                } else {
                    NO_ID.to_owned()
                }
        }
        None => entry.get("cmd").is_some_and(|c| c.is_str(cmd)),
    }
}

/// What is in the crontab of a declared job.
fn check(s: &mut State<'_, '_>, cmd: &str, identifier: &Value) -> Result<Found> {
    let special = s.arg("special").clone();
    let list = if special.is_nil() { "crons" } else { "special" };
    let Some(entry) = entries(s, list)?
        .into_iter()
        .find(|e| is_entry(e, cmd, identifier))
    else {
        return Ok(Found::Absent);
    };
    let differs = |key: &str, value: &Value| entry.get(key).unwrap_or(&Value::Nil) != value;
    let mut different = differs("cmd", &cmd.into())
        || (!s.arg("comment").is_nil() && differs("comment", s.arg("comment")))
        || differs("commented", s.arg("commented"))
        || differs("identifier", identifier);
    if special.is_nil() {
        let times = TIMES.iter().any(|t| {
            let wanted = python::str(s.arg(t)).to_lowercase();
            entry.get(t).map(python::str) != Some(wanted)
        });
        different |= times;
    } else {
        different |= differs("spec", &special);
    }
    Ok(if different {
        Found::Different
    } else {
        Found::Same
    })
}

/// What a change of a crontab says.
fn changed(s: &State<'_, '_>, what: &str, name: &str, answer: &Value, gap: &str) -> StateOutcome {
    let user = user(s);
    let changes = || halite_wire::map! {user.as_str() => name};
    match answer.as_str().unwrap_or_default() {
        "present" => StateOutcome::good(format!("{what} {name} already present")),
        "absent" => StateOutcome::good(format!("{what} {name} already absent")),
        "new" => StateOutcome::good(format!("{what} {name} added to {user}'s crontab"))
            .changes(changes()),
        "updated" => StateOutcome::good(format!("{what} {name} updated")).changes(changes()),
        "removed" => StateOutcome::good(format!("{what} {name} removed from {user}'s crontab"))
            .changes(changes()),
        error => StateOutcome::bad(format!(
            "{what} {name} for user {user} failed to commit with error {gap}{error}"
        )),
    }
}

fn present(s: &mut State<'_, '_>) -> Result {
    let cmd = s.name().trim().to_owned();
    let identifier = identifier(s, &cmd);
    if s.test {
        return Ok(match check(s, &cmd, &identifier)? {
            Found::Absent => StateOutcome::would(format!("Cron {cmd} is set to be added")),
            Found::Different => StateOutcome::would(format!("Cron {cmd} is set to be updated")),
            Found::Same => StateOutcome::good(format!("Cron {cmd} already present")),
        }
        .with("name", cmd));
    }
    if let comment @ (Value::Int(_) | Value::Bool(true) | Value::Float(_)) = s.arg("comment") {
        let kind = python::type_name(comment);
        return Err(CallError::raised(
            "AttributeError",
            format!("'{kind}' object has no attribute 'replace'"),
        ));
    }
    let mut given = s.pick(&["user", "commented", "comment"]);
    given.set("cmd", cmd.as_str());
    given.set("identifier", identifier);
    let fun = if s.arg("special").is_nil() {
        for time in TIMES {
            given.set(time, s.arg(time).clone());
        }
        "cron.set_job"
    } else {
        given.set("special", s.arg("special").clone());
        "cron.set_special"
    };
    let answer = s.salt_with(fun, Vec::new(), given)?;
    Ok(changed(s, "Cron", &cmd, &answer, "\n").with("name", cmd.as_str()))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let cmd = s.name().trim().to_owned();
    let identifier = identifier(s, &cmd);
    if s.test {
        // Stock looks at jobs with times only.
        let all = entries(s, "crons")?;
        let found = all.iter().any(|e| is_entry(e, &cmd, &identifier));
        return Ok(if found {
            StateOutcome::would(format!("Cron {cmd} is set to be removed"))
        } else {
            StateOutcome::good(format!("Cron {cmd} is absent"))
        }
        .with("name", cmd));
    }
    let mut given = s.pick(&["user"]);
    given.set("cmd", cmd.as_str());
    given.set("identifier", identifier);
    let fun = if s.flag("special") {
        given.set("special", s.arg("special").clone());
        "cron.rm_special"
    } else {
        "cron.rm_job"
    };
    let answer = s.salt_with(fun, Vec::new(), given)?;
    Ok(changed(s, "Cron", &cmd, &answer, "").with("name", cmd.as_str()))
}

fn env_present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if s.test {
        let all = entries(s, "env")?;
        let old = all
            .iter()
            .find(|e| e.get("name").is_some_and(|n| n.is_str(&name)));
        return Ok(match old {
            None => StateOutcome::would(format!("Cron env {name} is set to be added")),
            Some(old) if old.get("value") == Some(s.arg("value")) => {
                StateOutcome::good(format!("Cron env {name} already present"))
            }
            Some(_) => StateOutcome::would(format!("Cron env {name} is set to be updated")),
        });
    }
    let args = [
        user(s).into(),
        Value::from(name.as_str()),
        s.arg("value").clone(),
    ];
    let answer = s.salt("cron.set_env", args)?;
    Ok(changed(s, "Cron env", &name, &answer, "\n"))
}

fn env_absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name().trim().to_owned();
    if s.test {
        let all = entries(s, "env")?;
        let found = all
            .iter()
            .any(|e| e.get("name").is_some_and(|n| n.is_str(&name)));
        return Ok(if found {
            StateOutcome::would(format!("Cron env {name} is set to be removed"))
        } else {
            StateOutcome::good(format!("Cron env {name} is absent"))
        });
    }
    let answer = s.salt("cron.rm_env", [user(s), name.clone()].map(Value::from))?;
    Ok(changed(s, "Cron env", &name, &answer, ""))
}

fn file(s: &mut State<'_, '_>) -> Result {
    let (name, user) = (s.name(), user(s));
    let source = name.as_str();
    let account = s.salt("user.info", [Value::from(user.as_str())])?;
    if !account.truthy() {
        return Ok(StateOutcome::bad(format!(
            "Could not identify group for user {user}"
        )));
    }
    let group = s.salt("user.primary_group", [Value::from(user.as_str())])?;
    let tab = s.salt("cron.raw_cron", [Value::from(user.as_str())])?;
    let mut tab = python::str(&tab);
    if !s.flag("replace") && !tab.is_empty() {
        return Ok(StateOutcome::good(format!(
            "User {user} already has a crontab. No changes made"
        )));
    }
    if !tab.ends_with('\n') {
        tab.push('\n');
    }
    let temp = s.salt("temp.file", Vec::new())?;
    let path = python::str(&temp);
    let _removed = Removed(path.clone());
    std::fs::write(&path, tab).map_err(|e| python::os_error(&e, &path))?;
    let managed = halite_wire::map! {
        "name" => path.as_str(), "user" => user.as_str(), "group" => group, "mode" => "0600", "attrs" => Value::Nil,
        "source_hash_name" => s.arg("source_hash_name").clone(), "template" => s.arg("template").clone(),
        "context" => s.arg("context").clone(), "defaults" => s.arg("defaults").clone(), "saltenv" => s.saltenv(),
    };
    if s.test {
        let mut given = managed;
        given.set("source", source);
        given.set("source_hash", s.arg("source_hash").clone());
        add_others(s, &mut given);
        let answer = s.salt_with("file.check_managed", Vec::new(), given)?;
        let (result, comment) = match answer.as_array() {
            Some([result, comment, ..]) => (result.as_bool(), python::str(comment)),
            _ => (Some(false), python::str(&answer)),
        };
        return Ok(StateOutcome::new(result, comment));
    }
    let listed = s.salt(
        "file.source_list",
        [
            source.into(),
            s.arg("source_hash").clone(),
            s.saltenv().into(),
        ],
    );
    let (source, hash) = match listed {
        Ok(Value::Array(pair)) if pair.len() == 2 => (pair[0].clone(), pair[1].clone()),
        Ok(other) => (other, Value::Nil),
        Err(e) => return Ok(StateOutcome::bad(e.message())),
    };
    let mut given = managed.clone();
    given.set("source", source.clone());
    given.set("source_hash", hash);
    add_others(s, &mut given);
    let got = match s.salt_with("file.get_managed", Vec::new(), given) {
        Ok(got) => got,
        Err(e) => {
            return Ok(StateOutcome::bad(format!(
                "Unable to manage file: {}",
                e.message()
            )));
        }
    };
    let (sfn, sum) = match got.as_array() {
        Some([sfn, sum, comment]) if !comment.truthy() => (sfn.clone(), sum.clone()),
        Some([_, _, comment]) => return Ok(StateOutcome::bad(python::str(comment))),
        _ => (Value::Nil, Value::Nil),
    };
    let ret = halite_wire::map! {"changes" => Map::new(), "comment" => "", "name" => name.as_str(), "result" => true};
    let mut given = Map::new();
    for key in ["name", "user", "group", "mode", "attrs", "saltenv"] {
        given.set(key, managed.get(key).cloned());
    }
    given.set("sfn", sfn);
    given.set("ret", ret);
    given.set("source", source);
    given.set("source_sum", sum);
    given.set("backup", s.arg("backup").clone());
    let ret = match s.salt_with("file.manage_file", Vec::new(), given) {
        Ok(ret) => ret.into_map().unwrap_or_default(),
        Err(e) => {
            return Ok(StateOutcome::bad(format!(
                "Unable to manage file: {}",
                e.message()
            )));
        }
    };
    finish(s, &user, &path, ret)
}

/// Adds what was declared besides the arguments.
fn add_others(s: &State<'_, '_>, given: &mut Map) {
    for (key, value) in s.kwargs.iter() {
        let key = python::str(key);
        if !given.contains(&key) {
            given.set(key, value.clone());
        }
    }
}

/// Installs the managed file if it differs from the crontab.
fn finish(s: &mut State<'_, '_>, user: &str, path: &str, ret: Map) -> Result {
    let changes = ret.get("changes").cloned().unwrap_or_default();
    let result = ret.get("result").and_then(Value::as_bool);
    // The owner of the temporary file is no change.
    if !changes.as_map().is_some_and(|c| c.contains("diff")) {
        return Ok(if result == Some(true) {
            StateOutcome::good(format!("Crontab for user {user} is in the correct state"))
        } else {
            let comment = ret.get("comment").map(python::str).unwrap_or_default();
            StateOutcome::new(result, comment)
        });
    }
    let done = s.salt(
        "cron.write_cron_file_verbose",
        [user, path].map(Value::from),
    )?;
    let done = done.into_map().unwrap_or_default();
    if done.int("retcode") == Some(0) {
        let comment = format!("Crontab for user {user} was updated");
        return Ok(StateOutcome::good(comment).changes(changes));
    }
    let error = done.get("stderr").map(python::str).unwrap_or_default();
    Ok(StateOutcome::bad(format!(
        "Unable to update user {user} crontab {path}. Error: {error}"
    )))
}

/// A file that is removed with this.
struct Removed(String);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
