//! Arguments of containers and networks as people write them, in the form of the engine's API.

mod container;
mod forms;
mod network;
mod parts;
mod ports;

pub use container::container;
pub use forms::list;
pub use network::{endpoint, network};

use super::super::{CallError, python};
use crate::execution::declare::Result;
use halite_wire::{Map, Value};

/// How arguments are to be read (`skip_translate`, `ignore_collisions`, `validate_ip_addrs`).
#[derive(Clone, Debug, Default)]
pub struct Rules {
    skip: Skip,
    ignore_collisions: bool,
    /// Whether addresses are checked.
    pub validate: bool,
}

#[derive(Clone, Debug, Default)]
enum Skip {
    #[default]
    None,
    All,
    These(Vec<String>),
}

impl Rules {
    /// From the arguments that say so, which are taken out of the others.
    pub fn take(given: &mut Map) -> Rules {
        let skip = match given.remove("skip_translate").unwrap_or_default() {
            Value::Nil | Value::Bool(false) => Skip::None,
            Value::Bool(true) => Skip::All,
            names => Skip::These(forms::list(&names).iter().map(python::str).collect()),
        };
        let mut flag = |name: &str| given.remove(name).map(|v| v.truthy());
        Rules {
            skip,
            ignore_collisions: flag("ignore_collisions").unwrap_or(false),
            validate: flag("validate_ip_addrs").unwrap_or(true),
        }
    }

    fn skips(&self, name: &str) -> bool {
        match &self.skip {
            Skip::None => false,
            Skip::All => true,
            Skip::These(names) => names.iter().any(|n| n == name),
        }
    }
}

/// What is wrong with arguments.
#[derive(Debug, Default)]
struct Faults {
    collisions: Vec<String>,
    invalid: Vec<(String, String)>,
}

/// The start of an error about arguments that cannot be read.
const UNREADABLE: &str = "Failed to translate input. Additional info follows:\n\n";

/// What states say about arguments that cannot be read.
const HINT: &str = "\n\nIf you feel this information is incorrect, the skip_translate argument can be used to skip input \
                    translation for the argument(s) identified as invalid. See the documentation for details.";

/// An error with a hint, if it is about arguments that cannot be read.
pub fn with_hint(fault: CallError) -> CallError {
    match fault {
        CallError::Command(text) if text.starts_with(UNREADABLE) && text.contains("invalid:\n") => {
            CallError::Command(format!("{text}{HINT}"))
        }
        other => other,
    }
}

impl Faults {
    fn invalid(&mut self, name: &str, why: impl Into<String>) {
        self.invalid.push((name.to_owned(), why.into()));
    }

    /// An error that names all of them, if there are any.
    fn check(mut self) -> Result<()> {
        let mut parts = Vec::new();
        if !self.collisions.is_empty() {
            self.collisions.sort();
            let lines: Vec<String> = self
                .collisions
                .iter()
                .map(|line| format!("\n    - {line}"))
                .collect();
            parts.push(format!("collisions:{}", lines.concat()));
        }
        if !self.invalid.is_empty() {
            self.invalid.sort();
            let lines: Vec<String> = self
                .invalid
                .iter()
                .map(|(name, why)| format!("\n    {name}:\n        {why}"))
                .collect();
            parts.push(format!("invalid:\n    ----------{}", lines.concat()));
        }
        if parts.is_empty() {
            return Ok(());
        }
        Err(CallError::Command(format!(
            "{UNREADABLE}{}",
            parts.join(
                "
"
            )
        )))
    }
}

/// An argument as it was given.
#[derive(Clone, Debug)]
struct Given {
    /// Its name as it was given.
    spelled: String,
    /// Its full name.
    name: String,
    value: Value,
}

/// The arguments with their full names.
fn named(given: Map, aliases: &[(&str, &str)]) -> Vec<Given> {
    let one = |(key, value): (Value, Value)| {
        let spelled = python::str(&key);
        let name = aliases.iter().find(|(alias, _)| *alias == spelled);
        Given {
            name: name.map_or_else(|| spelled.clone(), |(_, name)| (*name).to_owned()),
            spelled,
            value,
        }
    };
    given.0.into_iter().map(one).collect()
}

/// One value by full name; an alias beside its full name is a fault.
fn unique(all: Vec<Given>, rules: &Rules, faults: &mut Faults) -> Map {
    let mut found = Map::new();
    let (full, aliases): (Vec<Given>, Vec<Given>) =
        all.into_iter().partition(|one| one.spelled == one.name);
    for one in full.into_iter().chain(aliases) {
        if !found.contains(&one.name) {
            found.set(one.name, one.value);
        } else if !rules.ignore_collisions {
            faults.collisions.push(format!(
                "'{}' is an alias for '{}', they cannot both be used",
                one.spelled, one.name
            ));
        }
    }
    found
}
