//! `raid`: software RAID.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub(super) const MODULE: StateModule = StateModule {
    name: "raid",
    functions: &[
        StateFunction::new(
            "absent",
            absent,
            "Ensures that there is no such array; its members are cleared.",
        ),
        StateFunction::new(
            "present",
            present,
            "Ensures that an array exists, and has these devices.",
        )
        .args(args![level, devices])
        .keywords(),
    ],
};

fn all(s: &mut State<'_, '_>) -> Result<Map> {
    Ok(s.salt("raid.list", Vec::new())?
        .into_map()
        .unwrap_or_default())
}

/// The declared devices by what they are.
#[derive(Default)]
struct Devices {
    missing: Vec<Value>,
    new: Vec<Value>,
    /// Members by the array that they belong to.
    members: Vec<(String, Vec<Value>)>,
}

fn sort(s: &mut State<'_, '_>) -> Result<Devices> {
    let mut found = Devices::default();
    for device in s.list("devices") {
        let there = s.salt("file.access", [device.clone(), "f".into()]);
        if device.is_str("missing") || !there?.truthy() {
            found.missing.push(device);
            continue;
        }
        let block = s.salt_with("raid.examine", [device.clone()], map! {"quiet" => true})?;
        let uuid = block
            .as_map()
            .and_then(|b| b.get("MD_UUID"))
            .map(python::str);
        match uuid {
            None => found.new.push(device),
            Some(uuid) => match found.members.iter_mut().find(|(known, _)| *known == uuid) {
                Some((_, list)) => list.push(device),
                None => found.members.push((uuid, vec![device])),
            },
        }
    }
    Ok(found)
}

fn repr(list: &[Value]) -> String {
    python::str(&Value::Array(list.to_vec()))
}

/// What to do for an array that is not there.
enum Plan {
    Assemble(Vec<Value>),
    Create(Vec<Value>),
}

impl Plan {
    fn verb(&self) -> &'static str {
        match self {
            Plan::Assemble(_) => "assembled",
            Plan::Create(_) => "created",
        }
    }

    fn run(&self, s: &mut State<'_, '_>) -> Result<Value> {
        let mut kwargs = s.kwargs.clone();
        if s.test {
            kwargs.set("test_mode", true);
        }
        let name = Value::from(s.name());
        match self {
            Plan::Assemble(devices) => {
                s.salt_with("raid.assemble", [name, devices.clone().into()], kwargs)
            }
            Plan::Create(devices) => {
                let level = s.arg("level").clone();
                s.salt_with("raid.create", [name, level, devices.clone().into()], kwargs)
            }
        }
    }
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    let now = all(s)?.remove(&name).and_then(Value::into_map);
    let mut devices = sort(s)?;
    if devices.members.len() > 1 {
        let mut ids: Vec<String> = devices.members.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        let ids: Vec<Value> = ids.into_iter().map(Value::Str).collect();
        return Ok(StateOutcome::bad(format!(
            "Devices are a mix of RAID constituents with multiple MD_UUIDs: {}.",
            repr(&ids)
        )));
    }
    let member = devices.members.pop();
    let own = now.as_ref().map(|now| now.str("uuid").unwrap_or_default());
    if let (Some((uuid, _)), Some(own)) = (&member, own)
        && uuid != own
    {
        return Ok(StateOutcome::bad(format!(
            "Devices MD_UUIDs: {uuid} differs from present RAID uuid {own}."
        )));
    }
    let plan = match (&now, member) {
        (Some(_), _) => None,
        (None, Some((_, members))) => Some(Plan::Assemble(members)),
        (None, None) if devices.new.is_empty() => {
            return Ok(StateOutcome::bad(format!(
                "All devices are missing: {}.",
                repr(&devices.missing)
            )));
        }
        (None, None) => {
            let missing = devices.missing.iter().map(|_| Value::from("missing"));
            Some(Plan::Create(
                devices.new.iter().cloned().chain(missing).collect(),
            ))
        }
    };
    // A new array has them from the start.
    let adds = !devices.new.is_empty() && !matches!(plan, Some(Plan::Create(_)));
    if s.test {
        return preview(s, plan.as_ref(), &devices, adds);
    }
    let mut outcome = match &plan {
        None => StateOutcome::good(format!("Raid {name} already present.")),
        Some(plan) => {
            plan.run(s)?;
            let verb = plan.verb();
            match all(s)?.remove(&name) {
                Some(made) => {
                    s.salt("raid.save_config", Vec::new())?;
                    StateOutcome::good(format!("Raid {name} {verb}.")).changes(made)
                }
                None => StateOutcome::bad(format!("Raid {name} failed to be {verb}.")),
            }
        }
    };
    if adds && outcome.result == Some(true) {
        for device in &devices.new {
            let shown = python::str(device);
            let added = s.salt("raid.add", [name.as_str().into(), device.clone()])?;
            if added.truthy() {
                outcome.comment += &format!(" Added new device {shown} to {name}.\n");
            } else {
                outcome.comment += &format!(" Unable to add {shown} to {name}.\n");
                outcome.result = Some(false);
            }
        }
        if outcome.result == Some(true)
            && let Value::Map(changes) = &mut outcome.changes
        {
            changes.set("added", devices.new.clone());
        }
    }
    note_missing(&mut outcome, &devices);
    Ok(outcome)
}

fn note_missing(outcome: &mut StateOutcome, devices: &Devices) {
    if !devices.missing.is_empty() {
        outcome.comment += &format!(" Missing devices: {}", repr(&devices.missing));
    }
}

fn preview(s: &mut State<'_, '_>, plan: Option<&Plan>, devices: &Devices, adds: bool) -> Result {
    let mut outcome = match plan {
        None => StateOutcome::good(format!("Raid {} already present.", s.name())),
        Some(plan) => {
            let command = python::str(&plan.run(s)?);
            StateOutcome::would(format!("Raid will be {} with: {command}", plan.verb()))
        }
    };
    if adds {
        outcome.comment += &format!(" New devices will be added: {}", repr(&devices.new));
        outcome.result = None;
    }
    note_missing(&mut outcome, devices);
    Ok(outcome)
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if !all(s)?.contains(&name) {
        return Ok(StateOutcome::good(format!("Raid {name} already absent")));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Raid {name} is set to be destroyed"
        )));
    }
    Ok(
        if s.salt("raid.destroy", [name.as_str().into()])?.truthy() {
            StateOutcome::good(format!("Raid {name} has been destroyed"))
        } else {
            StateOutcome::bad(format!("Raid {name} failed to be destroyed"))
        },
    )
}
