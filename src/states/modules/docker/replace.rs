//! `docker_container.running`: a second container is created from the declaration and compared with the one that there
//! is; it takes its place if they differ.

use super::declared::{Networks, declared, networks, seconds, states};
use super::{told, words};
use crate::declare::{Result, State, StateOutcome};
use halite_modules::execution::docker::{self, ContainerState, Engine};
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};
use std::time::Duration;

/// What is to be told, and of what.
struct Report {
    changes: Map,
    comments: Vec<String>,
}

impl Report {
    fn say(&mut self, text: impl Into<String>) {
        self.comments.push(text.into());
    }

    /// A part of `changes["container"]`.
    fn container(&mut self, parts: Map) {
        let mut all = self
            .changes
            .remove("container")
            .and_then(Value::into_map)
            .unwrap_or_default();
        all.0.extend(parts.0);
        if !all.is_empty() {
            self.changes.set("container", all);
        }
    }

    fn networks(&mut self, differences: Map) {
        if !differences.is_empty() {
            self.container(map! {"Networks" => differences});
        }
    }

    fn outcome(self, result: Option<bool>) -> StateOutcome {
        let mut comment = self.comments.join(". ");
        if self.comments.len() > 1 {
            comment.push('.');
        }
        StateOutcome::new(result, comment).changes(self.changes)
    }
}

/// What is declared.
struct Wanted {
    name: String,
    image: String,
    /// The id of the image; there is none only in a test.
    image_id: Option<String>,
    networks: Option<Networks>,
    start: bool,
    force: bool,
    /// The signal that is to be sent instead of making a new container.
    signal: Option<Value>,
}

pub fn running(s: &mut State<'_, '_>, engine: &Engine) -> Result {
    if !s.flag("image") {
        return Ok(StateOutcome::bad("The 'image' argument is required"));
    }
    let image = s.text("image").unwrap_or_default();
    let networks = match s.arg("networks") {
        Value::Nil => None,
        value => match networks(value) {
            Ok(networks) => Some(networks),
            Err(why) => return Ok(StateOutcome::bad(why)),
        },
    };
    let missing = docker::missing_networks(engine, networks.as_deref().unwrap_or_default())?;
    if !missing.is_empty() {
        return Ok(StateOutcome::bad(format!(
            "The following networks are not present: {}",
            missing.join(", ")
        )));
    }
    let mut image_id = match docker::image_id(engine, &image) {
        Ok(id) => id,
        Err(CallError::Command(_)) => None,
        Err(fault) => return Err(fault),
    };
    let mut pulled = None;
    if image_id.is_none() && !s.test {
        let silence = docker::timeout(Some(s.arg("client_timeout")))?;
        match docker::pull_image(s.call, engine, &image, silence) {
            Ok(ret) => pulled = Some(ret),
            Err(fault) => {
                let text = format!("Failed to pull {image}: {}", words(fault)?);
                return Ok(StateOutcome::bad(text));
            }
        }
        image_id = docker::image_id(engine, &image)?;
    }
    let action = s.arg("watch_action").clone();
    let signalled = s.low.contains("sfun") && !action.is_str("force");
    let wanted = Wanted {
        name: s.name(),
        image,
        image_id,
        networks,
        start: s.flag("start"),
        force: s.flag("force"),
        signal: signalled.then_some(action),
    };
    let now = docker::find_container(engine, &wanted.name)?;
    let image_now = now
        .as_ref()
        .and_then(|info| info.str("Image"))
        .map(str::to_owned);
    let new_image = image_now != wanted.image_id;
    let mut report = Report {
        changes: Map::new(),
        comments: Vec::new(),
    };
    let shown = if s.test {
        !wanted.force && (new_image || now.is_none())
    } else {
        new_image && now.is_some()
    };
    if shown {
        let new = wanted
            .image_id
            .clone()
            .map_or(Value::Bool(false), Value::from);
        report.changes.set(
            "image",
            map! {"old" => image_now.map_or(Value::Nil, Value::from), "new" => new},
        );
    }
    if let Some(pulled) = pulled.filter(|_| now.is_none()) {
        report.changes.set("image", pulled);
    }
    if s.test && (now.is_none() || new_image || wanted.force) {
        if wanted.force {
            report.changes.set("forced_update", true);
        }
        let verb = if now.is_some() { "replaced" } else { "created" };
        report.say(format!("Container '{}' would be {verb}", wanted.name));
        return Ok(report.outcome(None));
    }
    let name = now.is_none().then_some(wanted.name.as_str());
    let (given, rules) = declared(s);
    let made = match docker::create_container(engine, &wanted.image, name, given, &rules) {
        Ok(made) => made,
        Err(fault) => return told(docker::with_hint(fault)),
    };
    let id = made.str("Id").unwrap_or_default().to_owned();
    let mut used = false;
    let outcome = with_new(s, engine, &wanted, now, &id, new_image, report, &mut used);
    if !used {
        // It was for the comparison only, or cannot be used.
        docker::remove_container(engine, &id, true, true)?;
    }
    outcome
}

/// Goes on with a container that was created from the declaration.
#[expect(
    clippy::too_many_arguments,
    reason = "it is the second half of one function"
)]
fn with_new(
    s: &State<'_, '_>,
    engine: &Engine,
    wanted: &Wanted,
    now: Option<Map>,
    id: &str,
    new_image: bool,
    mut report: Report,
    used: &mut bool,
) -> Result {
    let made = docker::inspect_container(engine, id)?;
    if let Some(networks) = &wanted.networks
        && let Err(fault) = place(engine, id, &made, networks)
    {
        return told(fault);
    }
    let Some(now) = now else {
        *used = true;
        report.say(format!("Created container '{}'", wanted.name));
        report.changes.set("container_id", map! {"added" => id});
        let before = wanted.networks.is_some().then_some(&made);
        return finish(engine, wanted, None, before, true, report);
    };
    let before = ContainerState::of(&now);
    let new = docker::inspect_container(engine, id)?;
    let mut differ = new_image || wanted.force;
    if !differ {
        let ignored = ["Hostname".to_owned()];
        let differences = docker::container_changes(engine, &now, &new, &ignored)?;
        differ = !differences.is_empty();
        report.container(differences);
    }
    let networks = docker::container_networks(&now, &new);
    if s.test {
        return Ok(would(wanted, before, differ, networks, report));
    }
    if differ {
        docker::stop_container(
            engine,
            &wanted.name,
            seconds(s.arg("shutdown_timeout"))?,
            false,
        )?;
        let removed = removed(engine, &wanted.name, &now)?;
        *used = true;
        docker::rename_container(engine, id, &wanted.name)?;
        report
            .changes
            .set("container_id", map! {"removed" => removed, "added" => id});
        report.say(format!("Replaced container '{}'", wanted.name));
        return finish(
            engine,
            wanted,
            Some(before),
            Some(&now),
            wanted.start,
            report,
        );
    }
    if let Some(signal) = &wanted.signal {
        let word = python::str(signal);
        if let Err(fault) = docker::signal_container(engine, &wanted.name, &word) {
            report.say(format!("Failed to signal container: {}", words(fault)?));
            return Ok(report.outcome(Some(false)));
        }
        report.changes.set("signal", signal.clone());
        report.say(format!("Sent signal {word} to container"));
    } else {
        report.say(format!(
            "Container '{}' is already configured as specified",
            wanted.name
        ));
    }
    let applied = apply(engine, wanted, &now, &networks, &new, &mut report)?;
    let before_networks = (!networks.is_empty()).then_some(&now);
    if !applied {
        if let Some(now) = before_networks {
            tell_networks(engine, wanted, now, &mut report)?;
        }
        return Ok(report.outcome(Some(false)));
    }
    finish(
        engine,
        wanted,
        Some(before),
        before_networks,
        wanted.start,
        report,
    )
}

/// Removes the old container, unless the engine does that by itself (`auto_remove`).
fn removed(engine: &Engine, name: &str, now: &Map) -> Result<Vec<Value>> {
    let host = now.get("HostConfig").and_then(Value::as_map);
    if host.is_some_and(|host| host.get("AutoRemove").is_some_and(Value::truthy)) {
        for _ in 0..100 {
            if docker::find_container(engine, name)?.is_none() {
                return Ok(now.get("Id").cloned().into_iter().collect());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    docker::remove_container(engine, name, false, false)
}

/// What a test tells.
fn would(
    wanted: &Wanted,
    before: ContainerState,
    differ: bool,
    networks: Map,
    mut report: Report,
) -> StateOutcome {
    let mut result = Some(true);
    if differ {
        result = None;
        report.say(format!("Container '{}' would be replaced", wanted.name));
    } else if let Some(signal) = &wanted.signal {
        report.say(format!(
            "Signal {} would be sent to container",
            python::str(signal)
        ));
    } else {
        report.say(format!(
            "Container '{}' is already configured as specified",
            wanted.name
        ));
    }
    if !networks.is_empty() {
        result = None;
        report.networks(networks);
        report.say("Network configuration would be updated");
    }
    if wanted.start && before != ContainerState::Running {
        result = None;
        report.say("Container would be started");
    }
    report.outcome(result)
}

/// Gives a new container its networks.
fn place(engine: &Engine, id: &str, made: &Map, wanted: &Networks) -> Result<()> {
    let now = docker::networks_of(made);
    for (name, given) in wanted {
        if now.contains(name) && !given.is_empty() {
            docker::disconnect(engine, id, name)?;
        }
        if !now.contains(name) || !given.is_empty() {
            docker::connect(engine, id, name, given)?;
        }
    }
    for (name, _) in now.iter() {
        let name = python::str(name);
        if !wanted.iter().any(|(n, _)| *n == name) {
            docker::disconnect(engine, id, &name)?;
        }
    }
    Ok(())
}

/// Gives the old container the networks of the new one; says whether that went well.
fn apply(
    engine: &Engine,
    wanted: &Wanted,
    now: &Map,
    differences: &Map,
    new: &Map,
    report: &mut Report,
) -> Result<bool> {
    let (own, target) = (docker::networks_of(now), docker::networks_of(new));
    for (network, _) in differences.iter() {
        let network = python::str(network);
        let given = wanted
            .networks
            .iter()
            .flatten()
            .find(|(name, _)| *name == network);
        let given = given.map(|(_, given)| given.clone()).unwrap_or_default();
        let (was, shall) = (own.contains(&network), target.contains(&network));
        let done = match was {
            true => docker::disconnect(engine, &wanted.name, &network),
            false => Ok(()),
        };
        let done = done.and_then(|()| match shall {
            true => docker::connect(engine, &wanted.name, &network, &given),
            false => Ok(()),
        });
        if let Err(fault) = done {
            report.say(words(fault)?);
            return Ok(false);
        }
        report.say(match (was, shall) {
            (true, true) => {
                format!("Reconnected to network '{network}' with updated configuration")
            }
            (true, false) => format!("Disconnected from network '{network}'"),
            _ => format!("Connected to network '{network}'"),
        });
    }
    Ok(true)
}

fn tell_networks(
    engine: &Engine,
    wanted: &Wanted,
    before: &Map,
    report: &mut Report,
) -> Result<()> {
    let now = docker::inspect_container(engine, &wanted.name)?;
    report.networks(docker::container_networks(before, &now));
    Ok(())
}

/// Starts the container and tells how it is then.
fn finish(
    engine: &Engine,
    wanted: &Wanted,
    before: Option<ContainerState>,
    networks_before: Option<&Map>,
    start: bool,
    mut report: Report,
) -> Result {
    let mut failed = false;
    if start && let Err(fault) = docker::start_container(engine, &wanted.name) {
        let text = words(fault)?;
        report.say(format!(
            "Failed to start container '{}': '{text}'",
            wanted.name
        ));
        failed = true;
    }
    if let Some(before) = networks_before {
        tell_networks(engine, wanted, before, &mut report)?;
    }
    if failed {
        return Ok(report.outcome(Some(false)));
    }
    let info = docker::find_container(engine, &wanted.name)?;
    let after = info
        .as_ref()
        .map_or(ContainerState::Stopped, ContainerState::of);
    if before != Some(after) {
        report.changes.set("state", states(before, after));
        if let Some(before) = before {
            report.say(format!(
                "State changed from '{}' to '{}'",
                before.word(),
                after.word()
            ));
        }
    }
    if before.is_some() && report.changes.contains("image") {
        report.say("Container has a new image");
    }
    let good = !start || after == ContainerState::Running;
    if !good {
        report.say("Container is not running");
    }
    Ok(report.outcome(Some(good)))
}
