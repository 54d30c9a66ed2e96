//! Rules from keywords.

use super::{family, text};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value, map};

/// Numbers between commas, the highest first.
fn ports(value: &Value) -> Result<String> {
    let text = value.as_str().ok_or_else(|| {
        let text = format!(
            "'{}' object has no attribute 'split'",
            python::type_name(value)
        );
        CallError::raised("AttributeError", text)
    })?;
    let mut all = Vec::new();
    for word in text.split(',') {
        all.push(word.trim().parse::<i64>().map_err(|_| {
            let text = format!("invalid literal for int() with base 10: '{word}'");
            CallError::raised("ValueError", text)
        })?);
    }
    all.sort_unstable_by(|a, b| b.cmp(a));
    let all: Vec<String> = all.iter().map(i64::to_string).collect();
    Ok(all.join(", "))
}

/// The words of a rule.
fn words(kwargs: &Map, family: &str) -> Result<String> {
    let get = |key: &str| kwargs.get(key);
    let shown = |key: &str| get(key).map(python::str);
    let either = |a: &str, b: &str| -> Option<String> {
        let first = get(a).filter(|value| value.truthy());
        (get(a).is_some() || get(b).is_some())
            .then(|| python::str(first.or(get(b)).unwrap_or(&Value::Nil)))
    };
    let mut rule = String::new();
    for (key, words) in [("if", "meta iifname"), ("of", "meta oifname")] {
        if let Some(value) = shown(key) {
            rule += &format!("{words} {value} ");
        }
    }
    for (key, words) in [
        ("connstate", "ct state"),
        ("icmp-type", "icmp type"),
        ("icmpv6-type", "icmpv6 type"),
        ("pkttype", "meta pkttype"),
    ] {
        if let Some(value) = shown(key) {
            rule += &format!("{words} {{ {value} }} ");
        }
    }
    if get("counter").is_some() {
        rule += "counter ";
    }
    for (key, other) in [("saddr", "source"), ("daddr", "destination")] {
        if let Some(value) = either(key, other) {
            rule += &format!("{family} {key} {value} ");
        }
    }
    for key in ["dport", "sport"] {
        if let Some(value) = shown(key) {
            rule += &format!("{key} {{ {} }} ", value.replace(':', "-"));
        }
    }
    for (key, word) in [("dports", "dport"), ("sports", "sport")] {
        if let Some(value) = get(key) {
            rule += &format!("{word} {{ {} }} ", ports(value)?);
        }
    }
    let jump = get("target").map(python::str).or(shown("jump"));
    for value in [jump, shown("j")].into_iter().flatten() {
        rule += &format!("{value} ");
    }
    if let Some(port) = either("redirect-to", "to-port") {
        rule += &format!("redirect to {port} ");
    }
    for (key, words) in [
        ("to-ports", "--to-ports "),
        ("to-source", ""),
        ("to-destination", ""),
        ("reject-with", "reject with "),
    ] {
        if let Some(value) = shown(key) {
            rule += &format!("{words}{value} ");
        }
    }
    // As stock: wherever these words are.
    let protocol = shown("proto").unwrap_or_default();
    let rule = rule.trim().replace("dport", &format!("{protocol} dport"));
    Ok(rule.replace("sport", &format!("{protocol} sport")))
}

/// `nftables.build_rule`.
pub fn build(call: &mut Call<'_>) -> Result {
    let family = family(call)?;
    let rule = words(&call.bound.kwargs, &family)?;
    let answer = |rule: String, comment: &str, result: bool| {
        Ok(map! {"comment" => comment, "rule" => rule, "result" => result}.into())
    };
    let mut whole = rule.clone();
    // As stock: the word, not the boolean.
    if matches!(call.arg("full").as_str(), Some("True" | "true")) {
        for (name, comment) in [
            ("table", "Table needs to be specified"),
            ("chain", "Chain needs to be specified"),
            ("command", "Command needs to be specified"),
        ] {
            if !call.flag(name) {
                return answer(rule, comment, false);
            }
        }
        let (table, chain, command) = (
            text(call, "table"),
            text(call, "chain"),
            text(call, "command"),
        );
        whole = match command.as_str() {
            "Insert" | "insert" | "INSERT" if call.flag("position") => {
                format!(
                    "nft insert rule {family} {table} {chain} position {} {rule}",
                    text(call, "position")
                )
            }
            "Insert" | "insert" | "INSERT" => {
                format!("nft insert rule {family} {table} {chain} {rule}")
            }
            command => format!("nft {command} rule {family} {table} {chain} {rule}"),
        };
    }
    let comment = if whole.is_empty() {
        ""
    } else {
        "Successfully built rule"
    };
    answer(whole, comment, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        let rule = map! {"if" => "eth0", "connstate" => "new", "proto" => "tcp", "dports" => "80,443", "sport" => "1025:65535", "jump" => "accept"};
        let wanted = "meta iifname eth0 ct state { new } tcp sport { 1025-65535 } tcp dport { 443, 80 } accept";
        assert_eq!(words(&rule, "ip").unwrap(), wanted);
    }
}
