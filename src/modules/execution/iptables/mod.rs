//! `iptables`: the packet filter, by its own programs.

mod rule;
mod saved;

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, shell, which};
use crate::execution::command_helpers;
use halite_wire::{Map, Value, shlex};
use std::path::Path;

/// Words that are no options.
const NAMES: &[&str] = &["table", "chain", "policy", "position"];

pub(super) const MODULE: Module = Module {
    name: "iptables",
    functions: &[
        Function::new("version", version, "The version of the program.").args(args![family = "ipv4"]),
        Function::new("build_rule", rule::build, "A rule as words of the program, with full the whole command.")
            .args(args![table = "filter", chain = None, command = None, position = "", full = None, family = "ipv4"])
            .keywords(),
        Function::new("get_saved_rules", |c| Ok(saved::of_file(c)?.into()), "The rules of a file, by default that of the system.")
            .args(args![conf_file = None, family = "ipv4"]),
        Function::new("get_rules", |c| Ok(saved::of_kernel(c)?.into()), "The rules in use.").args(args![family = "ipv4"]),
        Function::new("get_saved_policy", |c| policy(c, saved::of_file), "The policy of a chain in a file of rules.")
            .args(args![table = "filter", chain = None, conf_file = None, family = "ipv4"]),
        Function::new("get_policy", |c| policy(c, saved::of_kernel), "The policy of a chain.")
            .args(args![table = "filter", chain = None, family = "ipv4"]),
        Function::new("set_policy", set_policy, "Sets the policy of a chain; returns what the program says.")
            .args(args![table = "filter", chain = None, policy = None, family = "ipv4"])
            .names(NAMES),
        Function::new("save", save, "Writes the rules in use to a file, by default that of the system.")
            .args(args![filename = None, family = "ipv4"]),
        Function::new("check", check, "Whether a chain has a rule.")
            .args(args![table = "filter", chain = None, rule = None, family = "ipv4"])
            .names(NAMES),
        Function::new("check_chain", check_chain, "Whether there is a chain.")
            .args(args![table = "filter", chain = None, family = "ipv4"])
            .names(NAMES),
        Function::new("new_chain", |c| of_chain(c, "-N"), "Makes a chain; true or what the program says.")
            .args(args![table = "filter", chain = None, family = "ipv4"])
            .names(NAMES),
        Function::new("delete_chain", |c| of_chain(c, "-X"), "Removes a chain; true or what the program says.")
            .args(args![table = "filter", chain = None, family = "ipv4"])
            .names(NAMES),
        Function::new("append", append, "Adds a rule to the end of a chain that does not have it.")
            .args(args![table = "filter", chain = None, rule = None, family = "ipv4"])
            .names(NAMES),
        Function::new("insert", insert, "Inserts a rule into a chain that does not have it; returns what the program says.")
            .args(args![table = "filter", chain = None, position = None, rule = None, family = "ipv4"])
            .names(&["table", "chain"]),
        Function::new("delete", delete, "Removes a rule, or that at a position; returns what the program says.")
            .args(args![table, chain = None, position = None, rule = None, family = "ipv4"])
            .names(NAMES),
        Function::new("flush", flush, "Removes the rules of a chain, or of all chains of a table; returns what the program says.")
            .args(args![table = "filter", chain = "", family = "ipv4"])
            .names(NAMES),
    ],
};

/// The program of a family.
fn program(call: &Call<'_>) -> Result<String> {
    let name = if call.arg("family").is_str("ipv6") {
        "ip6tables"
    } else {
        "iptables"
    };
    which(name).ok_or_else(|| CallError::Command(format!("Command '{name}' cannot be found")))
}

/// Whether the program knows an option.
fn has(call: &mut Call<'_>, program: &str, option: &str) -> Result<bool> {
    Ok(shell::stdout(call, &[program, "--help"])?.contains(option))
}

fn version(call: &mut Call<'_>) -> Result {
    let program = program(call)?;
    let text = shell::stdout(call, &[&program, "--version"])?;
    let word = text.split_whitespace().nth(1);
    word.map(Value::from)
        .ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
}

/// The words of a rule. Rules consist of options, but the one that makes the program start another as root is none of a
/// rule.
fn words(rule: &str) -> Result<Vec<String>> {
    let words = shlex::split(rule).map_err(|e| CallError::raised("ValueError", e))?;
    let starts_program = |word: &String| {
        let letters = word.trim_start_matches([
            '-', 'n', 'v', 'x', 'h', 'w', 'f', 'b', 'V', 'W', '4', '6', '0',
        ]);
        // Long options may be shortened.
        let long = word.split('=').next().unwrap_or_default();
        word.starts_with("--modp")
            || (long.starts_with("--m") && "--modprobe".starts_with(long))
            || (word.starts_with('-') && !word.starts_with("--") && letters.starts_with('M'))
    };
    match words.iter().find(|w| starts_program(w)) {
        Some(word) => Err(CallError::Invocation(format!(
            "{word} is not part of a rule"
        ))),
        None => Ok(words),
    }
}

/// Runs the program, which waits for others if it can; its error output.
fn run(call: &mut Call<'_>, words: Vec<String>) -> Result<String> {
    let program = program(call)?;
    let mut argv = vec![program.clone()];
    if has(call, &program, "--wait")? {
        argv.push("--wait".to_owned());
    }
    argv.extend(["-t".to_owned(), python::str(call.arg("table"))]);
    argv.extend(words);
    errors(call, &argv)
}

/// `cmd.run_stderr`.
fn errors(call: &mut Call<'_>, argv: &[String]) -> Result<String> {
    Ok(shell::run_all(call, argv)?.stderr)
}

/// What is missing of these arguments, as stock says it.
fn missing(call: &Call<'_>, names: &[(&str, &str)]) -> Option<Value> {
    let found = names.iter().find(|(name, _)| !call.flag(name));
    found.map(|(_, text)| format!("Error: {text}").into())
}

const CHAIN: (&str, &str) = ("chain", "Chain needs to be specified");
const RULE: (&str, &str) = ("rule", "Rule needs to be specified");

fn policy(call: &mut Call<'_>, rules: fn(&mut Call<'_>) -> Result<Map>) -> Result {
    if let Some(text) = missing(call, &[CHAIN]) {
        return Ok(text);
    }
    let rules = rules(call)?;
    let chain = saved::chain(&rules, &text(call, "table"), &text(call, "chain"));
    Ok(chain
        .and_then(|c| c.get("policy"))
        .cloned()
        .unwrap_or_default())
}

fn text(call: &Call<'_>, name: &str) -> String {
    python::str(call.arg(name))
}

fn set_policy(call: &mut Call<'_>) -> Result {
    let policy = ("policy", "Policy needs to be specified");
    if let Some(text) = missing(call, &[CHAIN, policy]) {
        return Ok(text);
    }
    let words = vec!["-P".to_owned(), text(call, "chain"), text(call, "policy")];
    Ok(run(call, words)?.into())
}

fn save(call: &mut Call<'_>) -> Result {
    let own = saved::file(call)?;
    let name = call.text("filename").filter(|name| !name.is_empty());
    let name = name.unwrap_or(own);
    let parent = Path::new(&name).parent().unwrap_or(Path::new(""));
    if !parent.is_dir() {
        std::fs::create_dir_all(parent)
            .map_err(|e| python::os_error(&e, &parent.to_string_lossy()))?;
    }
    let program = format!("{}-save", program(call)?);
    let rules = shell::stdout(call, &[program])?;
    let rules = saved::filtered(call, rules)?;
    call.salt("file.write", vec![name.into(), rules.into()], Map::new())
}

fn check(call: &mut Call<'_>) -> Result {
    if let Some(text) = missing(call, &[CHAIN, RULE]) {
        return Ok(text);
    }
    Ok(has_rule(call)?.into())
}

fn has_rule(call: &mut Call<'_>) -> Result<bool> {
    let program = program(call)?;
    let (table, chain) = (text(call, "table"), text(call, "chain"));
    let rule = words(&text(call, "rule"))?;
    let of = |option: &str, chain: &str| {
        [&program, "-t", &table, option, chain]
            .map(str::to_owned)
            .to_vec()
    };
    if has(call, &program, "--check")? {
        let mut argv = of("-C", &chain);
        argv.extend(rule);
        return Ok(shell::run_all(call, &argv)?.retcode == 0);
    }
    // Old programs: how the rule looks like in a chain of its own.
    let own = format!("{:#014x}", rand::random::<u64>() >> 16);
    command_helpers::run(call, of("-N", &own))?;
    let mut argv = of("-A", &own);
    argv.extend(rule);
    command_helpers::run(call, argv)?;
    let shown = shell::stdout(call, &[format!("{program}-save")])?;
    command_helpers::run(call, of("-F", &own))?;
    command_helpers::run(call, of("-X", &own))?;
    let mine = shown
        .lines()
        .filter(|l| l.starts_with(&format!("-A {own}")));
    let mut wanted = mine.map(|line| line.replace(&own, &chain));
    Ok(wanted.any(|line| shown.lines().any(|other| other == line)))
}

fn check_chain(call: &mut Call<'_>) -> Result {
    if let Some(text) = missing(call, &[CHAIN]) {
        return Ok(text);
    }
    let argv = [
        format!("{}-save", program(call)?),
        "-t".to_owned(),
        text(call, "table"),
    ];
    let rules = shell::stdout(call, &argv)?;
    Ok(rules.contains(&format!(":{} ", text(call, "chain"))).into())
}

fn of_chain(call: &mut Call<'_>, option: &str) -> Result {
    if let Some(text) = missing(call, &[CHAIN]) {
        return Ok(text);
    }
    let words = vec![option.to_owned(), text(call, "chain")];
    let said = run(call, words)?;
    Ok(if said.is_empty() {
        true.into()
    } else {
        said.into()
    })
}

fn append(call: &mut Call<'_>) -> Result {
    if let Some(text) = missing(call, &[CHAIN, RULE]) {
        return Ok(text);
    }
    if has_rule(call)? {
        return Ok(false.into());
    }
    let mut argv = vec!["-A".to_owned(), text(call, "chain")];
    argv.extend(words(&text(call, "rule"))?);
    Ok(run(call, argv)?.is_empty().into())
}

fn insert(call: &mut Call<'_>) -> Result {
    let position = (
        "position",
        "Position needs to be specified or use append (-A)",
    );
    if let Some(text) = missing(call, &[CHAIN, position, RULE]) {
        return Ok(text);
    }
    let Value::Int(mut position) = *call.arg("position") else {
        let kind = python::type_name(call.arg("position"));
        let text = format!("'<' not supported between instances of '{kind}' and 'int'");
        return Err(CallError::raised("TypeError", text));
    };
    if position < 0 {
        let rules = saved::of_kernel(call)?;
        let (table, name) = (text(call, "table"), text(call, "chain"));
        let absent = if rules.contains(&table) {
            &name
        } else {
            &table
        };
        let absent = || CallError::raised("KeyError", format!("'{absent}'"));
        let list = saved::chain(&rules, &table, &name).and_then(|c| c.get("rules"));
        let list = list.and_then(Value::as_array).ok_or_else(absent)?;
        let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
        // Counted from the end.
        position = size.saturating_add(position).saturating_add(1);
        if position == 0 {
            position = 1;
        }
    }
    if has_rule(call)? {
        return Ok(false.into());
    }
    let mut argv = vec!["-I".to_owned(), text(call, "chain"), position.to_string()];
    argv.extend(words(&text(call, "rule"))?);
    Ok(run(call, argv)?.into())
}

fn delete(call: &mut Call<'_>) -> Result {
    if call.flag("position") && call.flag("rule") {
        return Ok("Error: Only specify a position or a rule, not both".into());
    }
    let mut argv = vec!["-D".to_owned(), text(call, "chain")];
    if call.flag("position") {
        argv.push(text(call, "position"));
    } else {
        argv.extend(words(&text(call, "rule"))?);
    }
    Ok(run(call, argv)?.into())
}

fn flush(call: &mut Call<'_>) -> Result {
    let mut argv = vec!["-F".to_owned()];
    argv.extend(call.text("chain").filter(|chain| !chain.is_empty()));
    Ok(run(call, argv)?.into())
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn rules_start_no_programs() {
        assert!(words("-p tcp -m comment --comment \"-x M\" -j MARK --mode random").is_ok());
        for rule in [
            "--modprobe=/tmp/x",
            "-M /tmp/x",
            "-nM/tmp/x",
            "--mo /tmp/x",
            "--mod=/tmp/x",
            "-p tcp --modpro /tmp/x",
        ] {
            assert!(words(rule).is_err(), "{rule}");
        }
    }
}
