//! What tables, chains and rules there are.

use super::{NO_CHAIN, NO_RULE, answer, family, is_good, place, run, text};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, command_helpers, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

/// The numbers of things instead of their names.
const NUMERIC: [&str; 3] = ["--numeric"; 3];

/// The file or directory of the system.
fn file(call: &Call<'_>) -> Option<&'static str> {
    let grain = |name| call.ctx.grains.str(name).unwrap_or_default();
    let known =
        matches!(grain("os_family"), "RedHat" | "Arch" | "Debian") || grain("os") == "Gentoo";
    known.then_some("/etc/nftables")
}

/// `nftables.version`.
pub fn version(call: &mut Call<'_>) -> Result {
    let text = super::shell::run(call, &["nft", "--version"])?;
    let word = text.split_whitespace().nth(1);
    word.map(Value::from)
        .ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
}

/// `nftables.get_saved_rules`.
pub fn saved(call: &mut Call<'_>) -> Result {
    let given = call.text("conf_file").filter(|file| !file.is_empty());
    let path = given.or(file(call).map(str::to_owned)).unwrap_or_default();
    let text = command_helpers::read(&path)?;
    let lines = text.split_inclusive('\n').filter(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    Ok(lines.map(Value::from).collect::<Vec<_>>().into())
}

/// What nft describes with `--json`.
fn described(call: &mut Call<'_>, words: &[&str]) -> Result<Vec<Value>> {
    let mut options = vec!["--json"];
    options.extend(NUMERIC);
    let text = run(call, &options, words)?;
    let parsed = halite_wire::json::parse::<Value>(text.as_bytes()).unwrap_or_default();
    let list = parsed.into_map().and_then(|mut map| map.remove("nftables"));
    Ok(match list {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    })
}

/// `nftables.list_tables`.
pub fn tables(call: &mut Call<'_>, family: &str) -> Result<Vec<Value>> {
    let all = described(call, &["list", "tables", family])?;
    let table = |item: &Value| item.as_map().and_then(|item| item.get("table")).cloned();
    Ok(all.iter().filter_map(table).collect())
}

/// `nftables.get_rules`.
pub fn rules(call: &mut Call<'_>, family: &str) -> Result<Vec<String>> {
    let mut out = Vec::new();
    for table in tables(call, family)? {
        let name = table
            .as_map()
            .and_then(|t| t.str("name"))
            .unwrap_or_default()
            .to_owned();
        out.push(run(call, &NUMERIC, &["list", "table", family, &name])?);
    }
    Ok(out)
}

/// `nftables.get_rules_json`.
pub fn objects(call: &mut Call<'_>, family: &str) -> Result<Vec<Value>> {
    described(call, &["list", "ruleset", family])
}

/// `nftables.save`.
pub fn save(call: &mut Call<'_>) -> Result {
    let given = call.text("filename").filter(|file| !file.is_empty());
    let path = given.or(file(call).map(str::to_owned));
    let mut path = path.ok_or_else(|| {
        CallError::Command("No file for the rules of this system is known".to_owned())
    })?;
    let mut out = "#! nft -f\n".to_owned();
    for family in ["ip", "ip6", "inet", "arp", "bridge", "netdev"] {
        let rules = rules(call, family)?;
        if !rules.is_empty() {
            out.push('\n');
        }
        out += &rules.join("\n");
    }
    out.push('\n');
    if Path::new(&path).is_dir() {
        path += "/salt-all-in-one.nft";
    }
    command_helpers::write_file(&path, &out).map_err(|e| {
        let text = python::os_text(&e, &path);
        CallError::Command(format!("Problem writing to configuration file: {text}"))
    })?;
    Ok(out.into())
}

/// `nftables.check_table`.
pub fn table_state(call: &mut Call<'_>) -> Result<Map> {
    if !call.flag("table") {
        return Ok(answer(false, "Table needs to be specified"));
    }
    let (table, shown, family) = (text(call, "table"), text(call, "family"), family(call)?);
    let listed = run(call, &[], &["list", "tables", &family])?;
    Ok(if listed.contains(&format!("table {family} {table}")) {
        answer(true, format!("Table {table} in family {shown} exists"))
    } else {
        answer(
            false,
            format!("Table {table} in family {shown} does not exist"),
        )
    })
}

/// `nftables.check_chain`.
pub fn chain_state(call: &mut Call<'_>) -> Result<Map> {
    if !call.flag("chain") {
        return Ok(answer(false, NO_CHAIN));
    }
    let (table, family) = (text(call, "table"), family(call)?);
    let listed = run(call, &[], &["list", "table", &family, &table])?;
    let place = place(call);
    Ok(
        if listed.contains(&format!("chain {} {{", text(call, "chain"))) {
            answer(true, format!("Chain {place} exists"))
        } else {
            answer(false, format!("Chain {place} does not exist"))
        },
    )
}

/// What is missing to look for a rule, if anything.
fn missing(call: &mut Call<'_>) -> Result<Option<Map>> {
    for (name, text) in [("chain", NO_CHAIN), ("rule", NO_RULE)] {
        if !call.flag(name) {
            return Ok(Some(answer(false, text)));
        }
    }
    super::missing(call)
}

/// A pattern for a rule in nft's listing. As stock, a rule is a pattern itself, but sets of one may lack their braces.
fn pattern(rule: &str, after: &str, sets: bool) -> Result<regex::Regex> {
    let (open, close) = if sets {
        (r"\{? ?", r" ?\}?")
    } else {
        (r"\{ ", r" \}")
    };
    let rule = rule.replace("{ ", open).replace(" }", close);
    regex::Regex::new(&format!("{rule} {after}"))
        .map_err(|e| CallError::raised("re.error", e.to_string()))
}

/// `nftables.check`.
pub fn rule_state(call: &mut Call<'_>) -> Result<Map> {
    if let Some(missing) = missing(call)? {
        return Ok(missing);
    }
    let (rule, family) = (text(call, "rule"), family(call)?);
    let (table, chain) = (text(call, "table"), text(call, "chain"));
    let listed = run(
        call,
        &["--handle"],
        &["list", "chain", &family, &table, &chain],
    )?;
    let found = pattern(&rule, "#", true)?.is_match(&listed);
    let shown = text(call, "family");
    let place = format!("in chain {chain} in table {table} in family {shown}");
    Ok(if found {
        answer(true, format!("Rule {rule} {place} exists"))
    } else {
        answer(false, format!("Rule {rule} {place} does not exist"))
    })
}

/// `nftables.get_rule_handle`.
pub fn handle(call: &mut Call<'_>) -> Result {
    if let Some(missing) = missing(call)? {
        return Ok(missing.into());
    }
    let now = rule_state(call)?;
    if !is_good(&now) {
        return Ok(now.into());
    }
    let (rule, family) = (text(call, "rule"), family(call)?);
    let (table, chain) = (text(call, "table"), text(call, "chain"));
    let mut options = NUMERIC.to_vec();
    options.push("--handle");
    let listed = run(call, &options, &["list", "chain", &family, &table, &chain])?;
    // The whole line: stock also finds rules that end so, and another rule must not be deleted.
    let whole = format!(r"^\s*{rule}");
    let pattern = pattern(&whole, r"# handle ([0-9]+)$", true)?;
    let number = listed
        .lines()
        .find_map(|line| pattern.captures(line)?.get(1));
    Ok(match number {
        Some(number) => map! {"result" => true, "handle" => number.as_str()},
        None => map! {"result" => false, "comment" => format!("Could not find rule {rule}")},
    }
    .into())
}

/// The description of a chain.
fn chain(call: &mut Call<'_>) -> Result<Option<Map>> {
    let (table, name, family) = (text(call, "table"), text(call, "chain"), family(call)?);
    let all = objects(call, &family)?;
    let chains = all
        .iter()
        .filter_map(|item| item.as_map()?.get("chain")?.as_map());
    let mut mine =
        chains.filter(|c| c.str("table") == Some(&table) && c.str("name") == Some(&name));
    Ok(mine.next().cloned())
}

/// `nftables.get_policy`. Stock's always returns nothing.
pub fn policy(call: &mut Call<'_>) -> Result {
    if !call.flag("chain") {
        return Ok("Error: Chain needs to be specified".into());
    }
    let chain = chain(call)?;
    Ok(chain
        .and_then(|c| c.get("policy").cloned())
        .unwrap_or_default())
}

/// `nftables.set_policy`.
pub fn set_policy(call: &mut Call<'_>) -> Result {
    for (name, text) in [
        ("chain", "Error: Chain needs to be specified"),
        ("policy", "Error: Policy needs to be specified"),
    ] {
        if !call.flag(name) {
            return Ok(text.into());
        }
    }
    let found = chain(call)?;
    let part = |key: &str| found.as_ref().and_then(|c| c.get(key)).map(python::str);
    let (Some(kind), Some(hook), Some(priority)) = (part("type"), part("hook"), part("prio"))
    else {
        return Ok(false.into());
    };
    let (family, table, chain, policy) = (
        family(call)?,
        text(call, "table"),
        text(call, "chain"),
        text(call, "policy"),
    );
    let body = format!("{{ type {kind} hook {hook} priority {priority}; policy {policy}; }}");
    let argv = ["nft", "--", "add", "chain", &family, &table, &chain, &body];
    Ok(super::shell::run_all(call, &argv)
        .map(|ran| ran.retcode == 0)?
        .into())
}
