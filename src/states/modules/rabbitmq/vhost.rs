//! `rabbitmq_vhost`.

use super::said;
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome, old_new};

pub const VHOST: StateModule = StateModule {
    name: "rabbitmq_vhost",
    functions: &[
        StateFunction::new("present", present, "Ensures that there is a virtual host."),
        StateFunction::new(
            "absent",
            absent,
            "Ensures that there is no such virtual host.",
        ),
    ],
};

fn exists(s: &mut State<'_, '_>) -> Result<bool> {
    let name = s.name();
    Ok(s.salt("rabbitmq.vhost_exists", [name.into()])?.truthy())
}

fn present(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if exists(s)? {
        let text = format!("Virtual Host '{name}' already exists.");
        return Ok(StateOutcome::good(text));
    }
    let changes = old_new("", name.as_str());
    if s.test {
        let text = format!("Virtual Host '{name}' will be created.");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let done = s.salt("rabbitmq.add_vhost", [name.into()])?;
    Ok(StateOutcome::good(said(&done, "Added")).changes(changes))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let name = s.name();
    if !exists(s)? {
        let text = format!("Virtual Host '{name}' is not present.");
        return Ok(StateOutcome::good(text));
    }
    let changes = old_new(name.as_str(), "");
    if s.test {
        let text = format!("Virtual Host '{name}' will be removed.");
        return Ok(StateOutcome::would(text).changes(changes));
    }
    let done = s.salt("rabbitmq.delete_vhost", [name.into()])?;
    Ok(StateOutcome::good(said(&done, "Deleted")).changes(changes))
}
