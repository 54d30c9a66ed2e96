//! `nftables`: rules, chains, tables and policies of the packet filter.
//!
//! On stock `chain_absent` raises an exception after it has removed the chain, `delete` fails always, and `set_policy` sets
//! a policy that is set; here they do what they say.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

const FAMILY: &[Arg] = args![family = "ipv4"];

pub(super) const MODULE: StateModule = StateModule {
    name: "nftables",
    functions: &[
        StateFunction::new(
            "append",
            append,
            "Ensures that a chain has a rule, at its end if it is new.",
        )
        .args(FAMILY)
        .keywords(),
        StateFunction::new(
            "chain_absent",
            chain_absent,
            "Ensures that a chain does not exist.",
        )
        .args(args![table = "filter", family = "ipv4"]),
        StateFunction::new(
            "chain_present",
            chain_present,
            "Ensures that a chain exists.",
        )
        .args(args![
            table = "filter",
            table_type = None,
            hook = None,
            priority = None,
            family = "ipv4"
        ]),
        StateFunction::new(
            "delete",
            delete,
            "Ensures that a chain does not have a rule.",
        )
        .args(FAMILY)
        .keywords(),
        StateFunction::new("flush", flush, "Removes the rules of a chain or a table.")
            .args(args![family = "ipv4", ignore_absence = False])
            .keywords(),
        StateFunction::new(
            "insert",
            insert,
            "Ensures that a chain has a rule, at a position if it is new.",
        )
        .args(FAMILY)
        .keywords(),
        StateFunction::new(
            "set_policy",
            set_policy,
            "Ensures that a chain has a policy.",
        )
        .args(args![table = "filter", family = "ipv4"])
        .keywords(),
        StateFunction::new(
            "table_absent",
            table_absent,
            "Ensures that a table does not exist.",
        )
        .args(FAMILY)
        .keywords(),
        StateFunction::new(
            "table_present",
            table_present,
            "Ensures that a table exists.",
        )
        .args(FAMILY)
        .keywords(),
    ],
};

fn locale(name: &str) -> Map {
    map! {"locale" => name}
}

fn family(s: &State<'_, '_>) -> String {
    python::str(s.arg("family"))
}

/// Calls a function whose last argument is the family; its map.
fn ask(s: &mut State<'_, '_>, fun: &str, args: &[&Value]) -> Result<Map> {
    let args: Vec<Value> = args.iter().map(|v| (*v).clone()).collect();
    let kwargs = map! {"family" => s.arg("family").clone()};
    let answer = s.salt_with(&format!("nftables.{fun}"), args, kwargs)?;
    Ok(answer.into_map().unwrap_or_default())
}

fn is_good(answer: &Map) -> bool {
    answer.get("result").is_some_and(Value::truthy)
}

fn comment(answer: &Map) -> String {
    answer.str("comment").unwrap_or_default().trim().to_owned()
}

fn chain_present(s: &mut State<'_, '_>) -> Result {
    let (name, family, table) = (s.name(), family(s), s.arg("table").clone());
    let shown = python::str(&table);
    if is_good(&ask(s, "check_chain", &[&table, &name.as_str().into()])?) {
        return Ok(StateOutcome::good(format!(
            "nftables {name} chain is already exist in {shown} table for {family}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables chain {name} would be created in table {shown} for family {family}"
        )));
    }
    let mut kwargs = s.pick(&["table_type", "hook", "priority", "family"]);
    kwargs.set("chain", name.as_str());
    kwargs.set("table", table);
    let made = s
        .salt_with("nftables.new_chain", Vec::new(), kwargs)?
        .into_map()
        .unwrap_or_default();
    if is_good(&made) {
        let text = format!("nftables {name} chain in {shown} table create success for {family}");
        return Ok(StateOutcome::good(text).changes(locale(&name)));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create {name} chain in {shown} table: {} for {family}",
        comment(&made)
    )))
}

fn chain_absent(s: &mut State<'_, '_>) -> Result {
    let (name, family, table) = (s.name(), family(s), s.arg("table").clone());
    let (shown, chain) = (python::str(&table), Value::from(name.as_str()));
    if !is_good(&ask(s, "check_chain", &[&table, &chain])?) {
        return Ok(StateOutcome::good(format!(
            "nftables {name} chain is already absent in {shown} table for {family}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables chain {name} would be deleted from table {shown} for family {family}"
        )));
    }
    let flushed = ask(s, "flush", &[&table, &chain])?;
    if !is_good(&flushed) {
        return Ok(StateOutcome::bad(format!(
            "Failed to flush {name} chain in {shown} table: {} for {family}",
            comment(&flushed)
        )));
    }
    let gone = ask(s, "delete_chain", &[&table, &chain])?;
    if !is_good(&gone) {
        return Ok(StateOutcome::bad(format!(
            "Failed to delete {name} chain in {shown} table: {} for {family}",
            comment(&gone)
        )));
    }
    let text = format!("nftables {name} chain in {shown} table delete success for {family}");
    Ok(StateOutcome::good(text).changes(locale(&name)))
}

/// A keyword that must be there.
fn needed(s: &State<'_, '_>, name: &str) -> Result<Value> {
    let given = s.kwargs.get(name).cloned();
    given.ok_or_else(|| CallError::raised("KeyError", format!("'{name}'")))
}

/// The words of the declared rule.
fn rule(s: &mut State<'_, '_>) -> Result<Value> {
    let mut kwargs = s.kwargs.clone();
    kwargs.remove("__agg__");
    kwargs.set("family", s.arg("family").clone());
    let built = s.salt_with("nftables.build_rule", Vec::new(), kwargs)?;
    Ok(built
        .as_map()
        .and_then(|b| b.get("rule"))
        .cloned()
        .unwrap_or_default())
}

fn is_set(s: &mut State<'_, '_>, rule: &Value) -> Result<bool> {
    let (table, chain) = (needed(s, "table")?, needed(s, "chain")?);
    Ok(is_good(&ask(s, "check", &[&table, &chain, rule])?))
}

/// Saves the rules if that is declared.
fn saved(s: &mut State<'_, '_>, file: Value) -> Result<bool> {
    if !s.kwargs.get("save").is_some_and(Value::truthy) {
        return Ok(false);
    }
    let kwargs = map! {"filename" => file, "family" => s.arg("family").clone()};
    s.salt_with("nftables.save", Vec::new(), kwargs)?;
    Ok(true)
}

fn added(s: &mut State<'_, '_>, command: &str) -> Result {
    let (name, family) = (s.name(), family(s));
    let verb = if saved(s, Value::Nil)? {
        "Set and Saved"
    } else {
        "Set"
    };
    let text = format!("{verb} nftables rule for {name} to: {command} for {family}");
    Ok(StateOutcome::good(text).changes(locale(&name)))
}

fn append(s: &mut State<'_, '_>) -> Result {
    let (name, family) = (s.name(), family(s));
    let rule = rule(s)?;
    let command = python::str(&rule);
    if is_set(s, &rule)? {
        return Ok(StateOutcome::good(format!(
            "nftables rule for {name} already set ({command}) for {family}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables rule for {name} needs to be set ({command}) for {family}"
        )));
    }
    let (table, chain) = (needed(s, "table")?, needed(s, "chain")?);
    let done = ask(s, "append", &[&table, &chain, &rule])?;
    if is_good(&done) {
        return added(s, &command);
    }
    Ok(StateOutcome::bad(format!(
        "Failed to set nftables rule for {name}.\nAttempted rule was {command} for {family}.\n{}",
        done.str("comment").unwrap_or_default()
    )))
}

fn insert(s: &mut State<'_, '_>) -> Result {
    let (name, family) = (s.name(), family(s));
    let rule = rule(s)?;
    let command = python::str(&rule);
    if is_set(s, &rule)? {
        return Ok(StateOutcome::good(format!(
            "nftables rule for {name} already set for {family} ({command})"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables rule for {name} needs to be set for {family} ({command})"
        )));
    }
    let (table, chain) = (needed(s, "table")?, needed(s, "chain")?);
    let position = needed(s, "position")?;
    if is_good(&ask(s, "insert", &[&table, &chain, &position, &rule])?) {
        return added(s, &command);
    }
    Ok(StateOutcome::bad(format!(
        "Failed to set nftables rule for {name}.\nAttempted rule was {command}"
    )))
}

fn delete(s: &mut State<'_, '_>) -> Result {
    let (name, family) = (s.name(), family(s));
    let rule = rule(s)?;
    let command = python::str(&rule);
    let position = s.kwargs.get("position").cloned();
    if position.is_none() && !is_set(s, &rule)? {
        return Ok(StateOutcome::good(format!(
            "nftables rule for {name} already absent for {family} ({command})"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables rule for {name} needs to be deleted for {family} ({command})"
        )));
    }
    let mut kwargs = map! {"family" => family.as_str()};
    match position {
        Some(position) => kwargs.set("position", position),
        None => kwargs.set("rule", rule),
    }
    let args = [needed(s, "table")?, needed(s, "chain")?];
    let done = s
        .salt_with("nftables.delete", args, kwargs)?
        .into_map()
        .unwrap_or_default();
    if !is_good(&done) {
        return Ok(StateOutcome::bad(format!(
            "Failed to delete nftables rule for {name}.\nAttempted rule was {command}"
        )));
    }
    let text = if saved(s, Value::Nil)? {
        format!("Deleted and Saved nftables rule for {name} for {command}{family}")
    } else {
        format!("Delete nftables rule for {name} {command}")
    };
    Ok(StateOutcome::good(text).changes(locale(&name)))
}

fn flush(s: &mut State<'_, '_>) -> Result {
    if s.test {
        return Ok(StateOutcome::would(
            "nftables flush not performed in test mode.",
        ));
    }
    let (name, family) = (s.name(), family(s));
    let table = s.kwargs.get("table").cloned().unwrap_or("filter".into());
    let shown = python::str(&table);
    let tolerant = s.flag("ignore_absence");
    let mut absent = !is_good(&ask(s, "check_table", &[&table])?);
    if absent && !tolerant {
        return Ok(StateOutcome::bad(format!(
            "Failed to flush table {shown} in family {family}, table does not exist."
        )));
    }
    let chain = s.kwargs.get("chain").cloned();
    if let Some(chain) = &chain {
        let missing = !is_good(&ask(s, "check_chain", &[&table, chain])?);
        if missing && !tolerant {
            let chain = python::str(chain);
            return Ok(StateOutcome::bad(format!(
                "Failed to flush chain {chain} in table {shown} in family {family}, chain does not exist."
            )));
        }
        absent |= missing;
    }
    let chain = chain.unwrap_or("".into());
    if is_good(&ask(s, "flush", &[&table, &chain])?) || tolerant && absent {
        let text = format!(
            "Flush nftables rules in {shown} table {} chain {family} family",
            python::str(&chain)
        );
        return Ok(StateOutcome::good(text).changes(locale(&name)));
    }
    Ok(StateOutcome::bad("Failed to flush nftables rules"))
}

fn set_policy(s: &mut State<'_, '_>) -> Result {
    let (name, family, table) = (s.name(), family(s), s.arg("table").clone());
    let chain = needed(s, "chain")?;
    let of_family = Value::from(family.as_str());
    let now = s.salt(
        "nftables.get_policy",
        [table.clone(), chain.clone(), of_family.clone()],
    )?;
    let policy = python::str(&needed(s, "policy")?);
    let (of, shown) = (python::str(&chain), python::str(&table));
    if now.as_str().unwrap_or_default().to_lowercase() == policy.to_lowercase() {
        return Ok(StateOutcome::good(format!(
            "nftables default policy for chain {of} on table {shown} for {family} already set to {policy}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables default policy for chain {of} on table {shown} for {family} needs to be set to {policy}"
        )));
    }
    let args = [table, chain, policy.to_lowercase().into(), of_family];
    if s.salt("nftables.set_policy", args)? != Value::Bool(true) {
        return Ok(StateOutcome::bad("Failed to set nftables default policy"));
    }
    let file = s.kwargs.get("save_filename").cloned().unwrap_or_default();
    let verb = if saved(s, file)? {
        "Set and saved"
    } else {
        "Set"
    };
    let text = format!("{verb} default policy for {of} to {policy} family {family}");
    Ok(StateOutcome::good(text).changes(locale(&name)))
}

fn table_present(s: &mut State<'_, '_>) -> Result {
    let (name, family) = (s.name(), family(s));
    let table = Value::from(name.as_str());
    if is_good(&ask(s, "check_table", &[&table])?) {
        return Ok(StateOutcome::good(format!(
            "nftables table {name} already exists in family {family}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables table {name} would be created in family {family}"
        )));
    }
    if is_good(&ask(s, "new_table", &[&table])?) {
        let text = format!("nftables table {name} successfully created in family {family}");
        return Ok(StateOutcome::good(text).changes(locale(&name)));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create table {name} for family {family}"
    )))
}

fn table_absent(s: &mut State<'_, '_>) -> Result {
    let (name, family) = (s.name(), family(s));
    let table = Value::from(name.as_str());
    if !is_good(&ask(s, "check_table", &[&table])?) {
        return Ok(StateOutcome::good(format!(
            "nftables table {name} is already absent from family {family}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "nftables table {name} would be deleted from family {family}"
        )));
    }
    if is_good(&ask(s, "delete_table", &[&table])?) {
        let text = format!("nftables table {name} successfully deleted from family {family}");
        return Ok(StateOutcome::good(text).changes(locale(&name)));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to delete table {name} from family {family}"
    )))
}
