//! `docker_container.run`, `stopped` and `absent`.

use super::{texts, words};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::CallError;
use halite_modules::execution::docker::{self, ContainerState, Engine, Running};
use halite_wire::{Map, Value, map};

use super::declared::{declared, networks, seconds};

pub fn run(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    if !s.flag("image") {
        return Ok(StateOutcome::bad("The 'image' argument is required"));
    }
    let background = s.flag("bg");
    if s.test {
        let how = if background { " in the background" } else { "" };
        return Ok(StateOutcome::would(format!("Container would be run{how}")));
    }
    let (mut given, rules) = declared(s);
    let wanted = match given.remove("networks") {
        None => None,
        Some(value) => Some(networks(&value).map_err(CallError::Command)?),
    };
    let (image, name) = (s.text("image").unwrap_or_default(), s.name());
    let silence = docker::timeout(Some(s.arg("client_timeout")))?;
    if docker::find_image(engine, &image)?.is_none()
        && let Err(fault) = docker::pull_image(s.call, engine, &image, silence)
    {
        let text = format!("Failed to pull {image}: {}", words(fault)?);
        return Ok(StateOutcome::bad(text));
    }
    let what = Running {
        image: &image,
        name: Some(&name),
        background,
        replace: s.flag("replace"),
        force: s.flag("force"),
        networks: wanted.as_deref(),
        given,
        rules: &rules,
        timeout: silence,
    };
    let ret = match docker::run_once(s.call, engine, what) {
        Ok(ret) => ret,
        Err(fault) => {
            let text = format!("Encountered error running container: {}", words(fault)?);
            return Ok(StateOutcome::bad(text));
        }
    };
    if background {
        return Ok(StateOutcome::good("Container was run in the background").changes(ret));
    }
    let code = ret.int("ExitCode").unwrap_or(-1);
    let good = code == 0 || !s.flag("failhard");
    let text = format!("Container ran and exited with a return code of {code}");
    Ok(StateOutcome::new(Some(good), text).changes(ret))
}

pub fn stopped(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let names = match s.arg("containers") {
        Value::Nil => vec![s.name()],
        Value::Array(list) => texts(list),
        _ => return Ok(StateOutcome::bad("containers must be a list")),
    };
    let (mut running, mut paused, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for name in &names {
        match docker::find_container(engine, name)?
            .as_ref()
            .map(ContainerState::of)
        {
            Some(ContainerState::Running) => running.push(name.clone()),
            Some(ContainerState::Paused) => paused.push(name.clone()),
            Some(ContainerState::Stopped) => {}
            None => missing.push(name.clone()),
        }
    }
    let strict = s.flag("error_on_absent");
    let mut faults = Vec::new();
    if strict && !missing.is_empty() {
        faults.push(format!(
            "The following container(s) are absent: {}",
            missing.join(", ")
        ));
    }
    if s.flag("unpause") {
        running.append(&mut paused);
    } else if !paused.is_empty() {
        faults.push(format!(
            "The following container(s) are paused: {}",
            paused.join(", ")
        ));
    }
    if !faults.is_empty() {
        return Ok(StateOutcome::bad(faults.join(". ")));
    }
    if running.is_empty() {
        let absent = if strict { "" } else { "absent or " };
        return Ok(StateOutcome::good(match &names[..] {
            [name] => format!("Container '{name}' is {absent}not running"),
            _ => format!(
                "All specified containers are {}not running",
                if missing.is_empty() { "" } else { "absent or " }
            ),
        }));
    }
    if s.test {
        let text = format!(
            "The following container(s) will be stopped: {}",
            running.join(", ")
        );
        return Ok(StateOutcome::would(text));
    }
    let timeout = seconds(s.arg("shutdown_timeout"))?;
    let unpause = s.flag("unpause");
    let mut changes = Map::new();
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for name in &running {
        match docker::stop_container(engine, name, timeout, unpause) {
            Ok(ret) => {
                if ret.get("result").is_some_and(Value::truthy) {
                    done.push(name.clone());
                } else {
                    failed.push(format!("Failed to stop container {name}"));
                }
                changes.set(name, ret);
            }
            Err(fault) => {
                let text = words(fault)?;
                failed.push(format!("Failed to stop container {name}: {text}"));
                changes.set(name, map! {"result" => false, "comment" => text});
            }
        }
    }
    if !failed.is_empty() {
        return Ok(StateOutcome::bad(failed.join(". ")).changes(changes));
    }
    let text = format!(
        "The following container(s) were stopped: {}",
        done.join(", ")
    );
    Ok(StateOutcome::good(text).changes(changes))
}

pub fn absent(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    let name = s.name();
    let Some(info) = docker::find_container(engine, &name)? else {
        return Ok(StateOutcome::good(format!(
            "Container '{name}' does not exist"
        )));
    };
    let is_up = ContainerState::of(&info) != ContainerState::Stopped;
    if is_up && !s.flag("force") {
        return Ok(StateOutcome::bad(
            "Container is running, set force to True to forcibly remove it",
        ));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Container '{name}' will be removed"
        )));
    }
    let gone = match docker::remove_container(engine, &name, s.flag("force"), false) {
        Ok(gone) => gone,
        Err(fault) => {
            let text = format!("Failed to remove container '{name}': {}", words(fault)?);
            return Ok(StateOutcome::bad(text));
        }
    };
    let changes = map! {"removed" => gone};
    if docker::find_container(engine, &name)?.is_some() {
        return Ok(
            StateOutcome::bad(format!("Failed to remove container '{name}'")).changes(changes),
        );
    }
    let how = if is_up { "Forcibly" } else { "Successfully" };
    Ok(StateOutcome::good(format!("{how} removed container '{name}'")).changes(changes))
}
