//! `nftables`: the packet filter, through nft(8).
//!
//! Unlike stock's, `delete` works: stock passes a map for the number of the rule.

mod query;
mod rule;

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, shell};
use halite_wire::{Map, Value, map, shlex};
use query::{chain_state, rule_state, table_state};

/// Words that are no options.
const NAMES: &[&str] = &["table", "chain", "table_type", "hook", "policy"];

pub(super) const MODULE: Module = Module {
    name: "nftables",
    functions: &[
        Function::new("version", query::version, "The version of nft."),
        Function::new(
            "build_rule",
            rule::build,
            "A rule as words of nft, with full the whole command.",
        )
        .args(args![
            table = None,
            chain = None,
            command = None,
            position = "",
            full = None,
            family = "ipv4"
        ])
        .keywords(),
        Function::new(
            "get_saved_rules",
            query::saved,
            "The lines of a file of rules, by default that of the system.",
        )
        .args(args![conf_file = None]),
        Function::new(
            "list_tables",
            |c| Ok(query::tables(c, &family(c)?)?.into()),
            "The tables of a family.",
        )
        .args(args![family = "ipv4"]),
        Function::new(
            "get_rules",
            |c| {
                let family = family(c)?;
                Ok(query::rules(c, &family)?
                    .into_iter()
                    .map(Value::Str)
                    .collect::<Vec<_>>()
                    .into())
            },
            "The rules of a family, a text for each table.",
        )
        .args(args![family = "ipv4"]),
        Function::new(
            "get_rules_json",
            |c| {
                let family = family(c)?;
                Ok(query::objects(c, &family)?.into())
            },
            "The rules of a family as nft describes them.",
        )
        .args(args![family = "ipv4"]),
        Function::new(
            "save",
            query::save,
            "Writes all rules to a file, by default that of the system.",
        )
        .args(args![filename = None, family = "ipv4"]),
        Function::new("get_rule_handle", query::handle, "The number of a rule.")
            .args(args![
                table = "filter",
                chain = None,
                rule = None,
                family = "ipv4"
            ])
            .names(NAMES),
        Function::new(
            "check",
            |c| Ok(rule_state(c)?.into()),
            "Whether a chain has a rule.",
        )
        .args(args![
            table = "filter",
            chain = None,
            rule = None,
            family = "ipv4"
        ])
        .names(NAMES),
        Function::new(
            "check_chain",
            |c| Ok(chain_state(c)?.into()),
            "Whether there is a chain.",
        )
        .args(args![table = "filter", chain = None, family = "ipv4"])
        .names(NAMES),
        Function::new(
            "check_table",
            |c| Ok(table_state(c)?.into()),
            "Whether there is a table.",
        )
        .args(args![table = None, family = "ipv4"])
        .names(NAMES),
        Function::new(
            "new_table",
            |c| of_table(c, "add", "created", false),
            "Makes a table.",
        )
        .args(args![table, family = "ipv4"])
        .names(NAMES),
        Function::new(
            "delete_table",
            |c| of_table(c, "delete", "deleted", true),
            "Removes a table.",
        )
        .args(args![table, family = "ipv4"])
        .names(NAMES),
        Function::new(
            "new_chain",
            new_chain,
            "Makes a chain, with type, hook and priority one that sees packets.",
        )
        .args(args![
            table = "filter",
            chain = None,
            table_type = None,
            hook = None,
            priority = None,
            family = "ipv4"
        ])
        .names(NAMES),
        Function::new("delete_chain", delete_chain, "Removes a chain.")
            .args(args![table = "filter", chain = None, family = "ipv4"])
            .names(NAMES),
        Function::new(
            "append",
            append,
            "Adds a rule to the end of a chain that does not have it.",
        )
        .args(args![
            table = "filter",
            chain = None,
            rule = None,
            family = "ipv4"
        ])
        .names(NAMES),
        Function::new(
            "insert",
            insert,
            "Inserts a rule into a chain that does not have it.",
        )
        .args(args![
            table = "filter",
            chain = None,
            position = None,
            rule = None,
            family = "ipv4"
        ])
        .names(NAMES),
        Function::new("delete", delete, "Removes a rule, or that with a number.")
            .args(args![
                table,
                chain = None,
                position = None,
                rule = None,
                family = "ipv4"
            ])
            .names(NAMES),
        Function::new(
            "flush",
            flush,
            "Removes the rules of a chain or of a table.",
        )
        .args(args![table = "filter", chain = "", family = "ipv4"])
        .names(NAMES),
        Function::new("get_policy", query::policy, "The policy of a chain.")
            .args(args![table = "filter", chain = None, family = "ipv4"])
            .names(NAMES),
        Function::new(
            "set_policy",
            query::set_policy,
            "Sets the policy of a chain.",
        )
        .args(args![
            table = "filter",
            chain = None,
            policy = None,
            family = "ipv4"
        ])
        .names(NAMES),
    ],
};

/// nft's name of a family.
fn family(call: &Call<'_>) -> Result<String> {
    let given = text(call, "family");
    Ok(match given.as_str() {
        "ipv4" | "ip4" | "ip" => "ip",
        "ipv6" | "ip6" => "ip6",
        "inet" | "arp" | "bridge" | "netdev" => &given,
        _ => return Err(CallError::raised("KeyError", format!("'{given}'"))),
    }
    .to_owned())
}

fn text(call: &Call<'_>, name: &str) -> String {
    python::str(call.arg(name))
}

/// Runs nft; words of its language are never options.
fn run<T: AsRef<str>>(call: &mut Call<'_>, options: &[&str], words: &[T]) -> Result<String> {
    let mut argv = vec!["nft"];
    argv.extend(options);
    argv.push("--");
    argv.extend(words.iter().map(AsRef::as_ref));
    shell::run(call, &argv)
}

/// `comment` and `result`.
fn answer(result: bool, comment: impl Into<String>) -> Map {
    map! {"comment" => comment.into(), "result" => result}
}

fn is_good(answer: &Map) -> bool {
    answer.get("result").is_some_and(Value::truthy)
}

/// Words of a rule, as stock splits them.
fn words(rule: &str) -> Result<Vec<String>> {
    shlex::split(rule).map_err(|e| CallError::raised("ValueError", e))
}

fn of_table(call: &mut Call<'_>, verb: &str, done: &str, there: bool) -> Result {
    let now = table_state(call)?;
    // What is missing, or is as it should be.
    if !call.flag("table") || is_good(&now) != there {
        return Ok(now.into());
    }
    let (table, shown, family) = (text(call, "table"), text(call, "family"), family(call)?);
    let said = run(call, &[], &[verb, "table", &family, &table])?;
    Ok(if said.is_empty() {
        answer(true, format!("Table {table} in family {shown} {done}"))
    } else {
        answer(
            false,
            format!("Table {table} in family {shown} could not be {done}"),
        )
    }
    .into())
}

const NO_CHAIN: &str = "Chain needs to be specified";
const NO_RULE: &str = "Rule needs to be specified";

/// The place in comments: ` CHAIN in table TABLE in family FAMILY`.
fn place(call: &Call<'_>) -> String {
    format!(
        "{} in table {} in family {}",
        text(call, "chain"),
        text(call, "table"),
        text(call, "family")
    )
}

fn new_chain(call: &mut Call<'_>) -> Result {
    if !call.flag("chain") {
        return Ok(answer(false, NO_CHAIN).into());
    }
    let table = table_state(call)?;
    if !is_good(&table) {
        return Ok(table.into());
    }
    let place = place(call);
    if is_good(&chain_state(call)?) {
        return Ok(answer(false, format!("Chain {place} already exists")).into());
    }
    let mut argv = [
        "add",
        "chain",
        &family(call)?,
        &text(call, "table"),
        &text(call, "chain"),
    ]
    .map(str::to_owned)
    .to_vec();
    if ["table_type", "hook", "priority"]
        .iter()
        .any(|name| call.flag(name))
    {
        if !call.flag("table_type") || !call.flag("hook") {
            return Ok(answer(false, "Table_type, hook, and priority required.").into());
        }
        let (kind, hook, priority) = (
            text(call, "table_type"),
            text(call, "hook"),
            text(call, "priority"),
        );
        argv.extend(["{", "type", &kind, "hook", &hook, "priority"].map(str::to_owned));
        argv.extend([format!("{priority};"), "}".to_owned()]);
    }
    let said = run(call, &[], &argv)?;
    Ok(if said.is_empty() {
        answer(true, format!("Chain {place} created"))
    } else {
        answer(false, format!("Chain {place} could not be created"))
    }
    .into())
}

/// What is missing of table and chain, if anything.
fn missing(call: &mut Call<'_>) -> Result<Option<Map>> {
    let table = table_state(call)?;
    if !is_good(&table) {
        return Ok(Some(table));
    }
    let chain = chain_state(call)?;
    Ok((!is_good(&chain)).then_some(chain))
}

fn delete_chain(call: &mut Call<'_>) -> Result {
    if !call.flag("chain") {
        return Ok(answer(false, NO_CHAIN).into());
    }
    if let Some(missing) = missing(call)? {
        return Ok(missing.into());
    }
    let (place, family) = (place(call), family(call)?);
    let (table, chain) = (text(call, "table"), text(call, "chain"));
    let said = run(call, &[], &["delete", "chain", &family, &table, &chain])?;
    Ok(if said.is_empty() {
        answer(true, format!("Chain {place} deleted"))
    } else {
        answer(false, format!("Chain {place} could not be deleted"))
    }
    .into())
}

/// Adds a rule: `add rule` or `insert rule`, with more words before it.
fn add(call: &mut Call<'_>, verb: &str, before: &[String]) -> Result {
    for (name, text) in [("chain", NO_CHAIN), ("rule", NO_RULE)] {
        if !call.flag(name) {
            return Ok(answer(false, text).into());
        }
    }
    if let Some(missing) = missing(call)? {
        return Ok(missing.into());
    }
    let (rule, place) = (text(call, "rule"), place(call));
    if is_good(&rule_state(call)?) {
        return Ok(answer(false, format!("Rule {rule} chain {place} already exists")).into());
    }
    let mut argv = [
        verb,
        "rule",
        &family(call)?,
        &text(call, "table"),
        &text(call, "chain"),
    ]
    .map(str::to_owned)
    .to_vec();
    argv.extend_from_slice(before);
    argv.extend(words(&rule)?);
    let said = run(call, &[], &argv)?;
    Ok(if said.is_empty() {
        answer(true, format!("Added rule \"{rule}\" chain {place}."))
    } else {
        answer(
            false,
            format!("Failed to add rule \"{rule}\" chain {place}."),
        )
    }
    .into())
}

fn append(call: &mut Call<'_>) -> Result {
    add(call, "add", &[])
}

fn insert(call: &mut Call<'_>) -> Result {
    let position = call
        .flag("position")
        .then(|| ["position".to_owned(), text(call, "position")]);
    add(
        call,
        "insert",
        position.as_ref().map_or(&[], |p| p.as_slice()),
    )
}

fn delete(call: &mut Call<'_>) -> Result {
    if call.flag("position") && call.flag("rule") {
        return Ok(answer(false, "Only specify a position or a rule, not both").into());
    }
    if let Some(missing) = missing(call)? {
        return Ok(missing.into());
    }
    let rule = text(call, "rule");
    let number = if call.flag("position") {
        text(call, "position")
    } else {
        let found = query::handle(call)?.into_map().unwrap_or_default();
        match found.get("handle") {
            Some(number) => python::str(number),
            None => {
                return Ok(answer(
                    false,
                    format!("Rule {rule} chain {} does not exist", place(call)),
                )
                .into());
            }
        }
    };
    let (place, family) = (place(call), family(call)?);
    let (table, chain) = (text(call, "table"), text(call, "chain"));
    let said = run(
        call,
        &[],
        &["delete", "rule", &family, &table, &chain, "handle", &number],
    )?;
    Ok(if said.is_empty() {
        answer(true, format!("Deleted rule \"{rule}\" in chain {place}."))
    } else {
        let shown = text(call, "family");
        answer(
            false,
            format!(
                "Failed to delete rule \"{rule}\" in chain {chain}  table {table} in family {shown}"
            ),
        )
    }
    .into())
}

fn flush(call: &mut Call<'_>) -> Result {
    let now = table_state(call)?;
    if !is_good(&now) {
        return Ok(now.into());
    }
    let (table, chain, family) = (text(call, "table"), text(call, "chain"), family(call)?);
    let shown = text(call, "family");
    let (said, comment) = if call.flag("chain") {
        let now = chain_state(call)?;
        if !is_good(&now) {
            return Ok(now.into());
        }
        let said = run(call, &[], &["flush", "chain", &family, &table, &chain])?;
        (
            said,
            format!("from chain {chain} in table {table} in family {shown}."),
        )
    } else {
        let said = run(call, &[], &["flush", "table", &family, &table])?;
        (said, format!("from table {table} in family {shown}."))
    };
    Ok(if said.is_empty() {
        answer(true, format!("Flushed rules {comment}"))
    } else {
        answer(false, format!("Failed to flush rules {comment}"))
    }
    .into())
}
