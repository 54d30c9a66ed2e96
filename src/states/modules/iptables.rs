//! `iptables`: rules, chains and policies of the packet filter.
//!
//! Stock's `mod_aggregate` is not there: on 3008 a call that joins others runs them without itself.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::declare::Arg;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value, map};

const OF_TABLE: &[Arg] = args![table = "filter", family = "ipv4"];

pub(super) const MODULE: StateModule = StateModule {
    name: "iptables",
    functions: &[
        StateFunction::new(
            "append",
            append,
            "Ensures that a chain has a rule, at its end if it is new.",
        )
        .args(OF_TABLE)
        .keywords(),
        StateFunction::new(
            "chain_absent",
            chain_absent,
            "Ensures that a chain does not exist.",
        )
        .args(OF_TABLE),
        StateFunction::new(
            "chain_present",
            chain_present,
            "Ensures that a chain exists.",
        )
        .args(OF_TABLE),
        StateFunction::new(
            "delete",
            delete,
            "Ensures that a chain does not have a rule.",
        )
        .args(OF_TABLE)
        .keywords(),
        StateFunction::new("flush", flush, "Removes the rules of a chain or a table.")
            .args(OF_TABLE)
            .keywords(),
        StateFunction::new(
            "insert",
            insert,
            "Ensures that a chain has a rule, at a position if it is new.",
        )
        .args(OF_TABLE)
        .keywords(),
        StateFunction::new(
            "set_policy",
            set_policy,
            "Ensures that a chain has a policy.",
        )
        .args(OF_TABLE)
        .keywords(),
    ],
};

/// Table, family and name.
fn words(s: &State<'_, '_>) -> [String; 3] {
    let text = |name| python::str(s.arg(name));
    [text("table"), text("family"), s.name()]
}

/// What the program said, or nothing.
fn said(value: &Value) -> String {
    python::str(value).trim().to_owned()
}

fn locale(name: &str) -> Map {
    map! {"locale" => name}
}

fn on_chain(s: &mut State<'_, '_>, fun: &str) -> Result<Value> {
    let [table, family, name] = words(s);
    s.salt(fun, [table.into(), name.into(), family.into()])
}

fn chain_present(s: &mut State<'_, '_>) -> Result {
    let [table, family, name] = words(s);
    if on_chain(s, "iptables.check_chain")? == Value::Bool(true) {
        return Ok(StateOutcome::good(format!(
            "iptables {name} chain is already exist in {table} table for {family}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "iptables {name} chain in {table} table needs to be set for {family}"
        )));
    }
    let made = on_chain(s, "iptables.new_chain")?;
    if made == Value::Bool(true) {
        let text = format!("iptables {name} chain in {table} table create success for {family}");
        return Ok(StateOutcome::good(text).changes(locale(&name)));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create {name} chain in {table} table: {} for {family}",
        said(&made)
    )))
}

fn chain_absent(s: &mut State<'_, '_>) -> Result {
    let [table, family, name] = words(s);
    if !on_chain(s, "iptables.check_chain")?.truthy() {
        return Ok(StateOutcome::good(format!(
            "iptables {name} chain is already absent in {table} table for {family}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "iptables {name} chain in {table} table needs to be removed {family}"
        )));
    }
    let flushed = on_chain(s, "iptables.flush")?;
    if flushed.truthy() {
        return Ok(StateOutcome::bad(format!(
            "Failed to flush {name} chain in {table} table: {} for {family}",
            said(&flushed)
        )));
    }
    let gone = on_chain(s, "iptables.delete_chain")?;
    if gone == Value::Bool(true) {
        let text = format!("iptables {name} chain in {table} table delete success for {family}");
        return Ok(StateOutcome::good(text).changes(locale(&name)));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to delete {name} chain in {table} table: {} for {family}",
        said(&gone)
    )))
}

/// A keyword that must be there.
fn needed(s: &State<'_, '_>, name: &str) -> Result<Value> {
    let given = s.kwargs.get(name).cloned();
    given.ok_or_else(|| CallError::raised("KeyError", format!("'{name}'")))
}

/// Where to save the rules: `None` if they are not saved, `Some(Nil)` for the file of the system.
fn save_file(s: &State<'_, '_>) -> Option<Value> {
    match s.kwargs.get("save") {
        Some(Value::Bool(true)) => Some(Value::Nil),
        Some(name) if name.truthy() => Some(name.clone()),
        _ => None,
    }
}

fn save(s: &mut State<'_, '_>, file: Value) -> Result<String> {
    let kwargs = map! {"filename" => file, "family" => s.arg("family").clone()};
    let out = s.salt_with("iptables.save", Vec::new(), kwargs)?;
    Ok(python::str(&out))
}

/// A declared rule.
struct Rule {
    chain: Value,
    /// Its words.
    rule: Value,
    /// The whole command, for people.
    command: String,
}

impl Rule {
    fn new(s: &mut State<'_, '_>, command: &str) -> Result<Rule> {
        let mut kwargs = s.kwargs.clone();
        kwargs.set("family", s.arg("family").clone());
        kwargs.set("table", s.arg("table").clone());
        let rule = s.salt_with("iptables.build_rule", Vec::new(), kwargs.clone())?;
        kwargs.set("full", true);
        kwargs.set("command", command);
        let shown = s.salt_with("iptables.build_rule", Vec::new(), kwargs)?;
        Ok(Rule {
            chain: needed(s, "chain")?,
            rule,
            command: said(&shown),
        })
    }

    fn is_set(&self, s: &mut State<'_, '_>) -> Result<bool> {
        let (table, family) = (s.arg("table").clone(), s.arg("family").clone());
        let args = [table, self.chain.clone(), self.rule.clone(), family];
        Ok(s.salt("iptables.check", args)? == Value::Bool(true))
    }

    /// Saves rules that are not as they were saved; what to add to the comment.
    fn save_changed(&self, s: &mut State<'_, '_>) -> Result<String> {
        let Some(file) = save_file(s) else {
            return Ok(String::new());
        };
        let family = s.arg("family").clone();
        let kwargs = map! {"conf_file" => file.clone(), "family" => family.clone()};
        let saved = s.salt_with("iptables.get_saved_rules", Vec::new(), kwargs)?;
        let used = s.salt_with("iptables.get_rules", Vec::new(), map! {"family" => family})?;
        if rules_of(&saved) == rules_of(&used) {
            return Ok(String::new());
        }
        let out = save(s, file)?;
        let [_, family, name] = words(s);
        Ok(format!(
            "\nSaved iptables rule {name} for {family}\n{}\n{out}",
            self.command
        ))
    }

    /// The outcome of a new or removed rule, with `verb` if the rules were saved.
    fn done(&self, s: &mut State<'_, '_>, verb: &str, plain: String) -> Result {
        let [_, family, name] = words(s);
        let comment = match save_file(s) {
            Some(file) => {
                let out = save(s, file)?;
                format!(
                    "{verb} and saved iptables rule {name} for {family}\n{}\n{out}",
                    self.command
                )
            }
            None => plain,
        };
        Ok(StateOutcome::good(comment).changes(locale(&name)))
    }
}

/// The lists of rules of all chains.
fn rules_of(all: &Value) -> Vec<Value> {
    let maps = |value: &Value| value.as_map().cloned().unwrap_or_default().0;
    let chains = maps(all).into_iter().flat_map(|(_, table)| maps(&table));
    let rules = |chain: &Value| chain.as_map().and_then(|c| c.get("rules")).cloned();
    chains
        .map(|(_, chain)| rules(&chain).unwrap_or_default())
        .collect()
}

/// Several rules in one declaration (`rules`).
fn each(s: &mut State<'_, '_>, fun: &'static str, saves: bool, rules: &[Value]) -> Result {
    let Some(function) = MODULE.function(fun) else {
        return Ok(StateOutcome::bad(""));
    };
    let mut file = None;
    let mut result = None;
    let (mut comments, mut names) = (Vec::new(), Vec::new());
    for rule in rules.iter().filter_map(Value::as_map) {
        let mut rule = rule.clone();
        rule.remove("rules");
        rule.remove("__agg__");
        match rule.get("save").filter(|save| save.truthy()).cloned() {
            Some(Value::Bool(true)) => file = Some(Value::Nil),
            Some(name) => file = Some(name),
            None => {}
        }
        rule.set("save", false);
        let outcome = s.run_declared(function, &rule)?;
        let name = outcome.changes.as_map().and_then(|c| c.get("locale"));
        names.extend(name.cloned());
        comments.push(outcome.comment);
        result = outcome.result;
    }
    if let Some(file) = file.filter(|_| saves) {
        save(s, file)?;
    }
    let mut changes = Map::new();
    if !names.is_empty() {
        changes.set("locale", names);
    }
    Ok(StateOutcome::new(result, comments.join("\n")).changes(changes))
}

fn declared_rules(s: &State<'_, '_>) -> Option<Vec<Value>> {
    let rules = s.kwargs.get("rules")?;
    Some(rules.as_array().unwrap_or_default().to_vec())
}

fn append(s: &mut State<'_, '_>) -> Result {
    if let Some(rules) = declared_rules(s) {
        return each(s, "append", true, &rules);
    }
    let [table, family, name] = words(s);
    let rule = Rule::new(s, "A")?;
    let command = &rule.command;
    if rule.is_set(s)? {
        let text = format!("iptables rule for {name} already set ({command}) for {family}");
        return Ok(StateOutcome::good(text + &rule.save_changed(s)?));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "iptables rule for {name} needs to be set ({command}) for {family}"
        )));
    }
    let args = [
        table.into(),
        rule.chain.clone(),
        rule.rule.clone(),
        family.as_str().into(),
    ];
    // Stock takes an error for success.
    if s.salt("iptables.append", args)? != Value::Bool(true) {
        return Ok(StateOutcome::bad(format!(
            "Failed to set iptables rule for {name}.\nAttempted rule was {command} for {family}"
        )));
    }
    let text = format!("Set iptables rule for {name} to: {command} for {family}");
    rule.done(s, "Set", text)
}

fn insert(s: &mut State<'_, '_>) -> Result {
    if let Some(rules) = declared_rules(s) {
        return each(s, "insert", true, &rules);
    }
    let [table, family, name] = words(s);
    let rule = Rule::new(s, "I")?;
    let command = &rule.command;
    if rule.is_set(s)? {
        let text = format!("iptables rule for {name} already set for {family} ({command})");
        return Ok(StateOutcome::good(text + &rule.save_changed(s)?));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "iptables rule for {name} needs to be set for {family} ({command})"
        )));
    }
    let args = [
        table.into(),
        rule.chain.clone(),
        needed(s, "position")?,
        rule.rule.clone(),
        family.as_str().into(),
    ];
    if s.salt("iptables.insert", args)?.truthy() {
        return Ok(StateOutcome::bad(format!(
            "Failed to set iptables rule for {name}.\nAttempted rule was {command}"
        )));
    }
    let text = format!("Set iptables rule for {name} to: {command} for {family}");
    rule.done(s, "Set", text)
}

fn delete(s: &mut State<'_, '_>) -> Result {
    if let Some(rules) = declared_rules(s) {
        // Stock does not save these.
        return each(s, "delete", false, &rules);
    }
    let [table, family, name] = words(s);
    let rule = Rule::new(s, "D")?;
    let command = &rule.command;
    let position = s.kwargs.get("position").cloned();
    if !rule.is_set(s)? && position.is_none() {
        return Ok(StateOutcome::good(format!(
            "iptables rule for {name} already absent for {family} ({command})"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "iptables rule for {name} needs to be deleted for {family} ({command})"
        )));
    }
    let mut kwargs = map! {"family" => family.as_str()};
    match position {
        Some(position) => kwargs.set("position", position),
        None => kwargs.set("rule", rule.rule.clone()),
    }
    let args = [table.into(), rule.chain.clone()];
    if s.salt_with("iptables.delete", args, kwargs)?.truthy() {
        return Ok(StateOutcome::bad(format!(
            "Failed to delete iptables rule for {name}.\nAttempted rule was {command}"
        )));
    }
    let text = format!("Delete iptables rule for {name} {command}");
    rule.done(s, "Deleted", text)
}

fn set_policy(s: &mut State<'_, '_>) -> Result {
    let [table, family, name] = words(s);
    let chain = needed(s, "chain")?;
    let now = s.salt(
        "iptables.get_policy",
        [table.as_str().into(), chain.clone(), family.as_str().into()],
    )?;
    let policy = needed(s, "policy")?;
    let (of, to) = (python::str(&chain), python::str(&policy));
    if now == policy {
        return Ok(StateOutcome::good(format!(
            "iptables default policy for chain {of} on table {table} for {family} already set to {to}"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "iptables default policy for chain {of} on table {table} for {family} needs to be set to {to}"
        )));
    }
    let args = [table.into(), chain, policy, family.as_str().into()];
    if s.salt("iptables.set_policy", args)?.truthy() {
        return Ok(StateOutcome::bad("Failed to set iptables default policy"));
    }
    let mut comment = format!("Set default policy for {of} to {to} family {family}");
    if let Some(file) = save_file(s) {
        save(s, file)?;
        comment = format!("Set and saved default policy for {of} to {to} family {family}");
    }
    Ok(StateOutcome::good(comment).changes(locale(&name)))
}

fn flush(s: &mut State<'_, '_>) -> Result {
    let [table, family, name] = words(s);
    let chain = s.kwargs.get("chain").cloned().unwrap_or("".into());
    if s.test {
        return Ok(StateOutcome::would(format!(
            "iptables rules in {name} table {table} chain {family} family needs to be flushed"
        )));
    }
    let args = [table.as_str().into(), chain.clone(), family.as_str().into()];
    if s.salt("iptables.flush", args)?.truthy() {
        return Ok(StateOutcome::bad("Failed to flush iptables rules"));
    }
    let text = format!(
        "Flush iptables rules in {table} table {} chain {family} family",
        python::str(&chain)
    );
    Ok(StateOutcome::good(text).changes(locale(&name)))
}
