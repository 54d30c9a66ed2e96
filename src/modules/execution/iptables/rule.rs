//! Rules from keywords.

use super::{has, program};
use crate::execution::declare::Result;
use crate::execution::{Call, python};
use halite_wire::{Map, Value};

/// What stock never takes for a part of a rule: for the engine of states, and what names the chain and the file.
const NOT_OPTIONS: &str = "require require_any onfail onfail_any onfail_all onchanges onchanges_any watch watch_any \
    prereq listen onfail_stop onchanges_in onfail_in prereq_in watch_in require_in listen_in fun state check_cmd \
    cmd_opts_exclude failhard onlyif unless creates retry order parallel reload_modules reload_grains reload_pillar \
    runas runas_password no_log fire_event saltenv umask use use_in chain save table name aggregate";

/// Options of targets, in the order in which they follow the target; those of iptables(8), iptables-extensions(8) and
/// xtables-addons(8).
const OF_TARGETS: &str = "j jump add-set and-mark and-tos checksum-fill clamp-mss-to-pmtu clustermac ctevents ctmask del-set \
    ecn-tcp-remove exist expevents gateway hash-init hashmode helper label local-node log-ip-options \
    log-level log-prefix log-tcp-options log-tcp-sequence log-uid map-set mask mss new nfmask \
    nflog-group nflog-prefix nflog-range nflog-threshold nodst notrack on-ip on-port or-mark or-tos \
    persistent queue-balance queue-bypass queue-num random random-fully rateest-ewmalog rateest-interval \
    rateest-name reject-with restore restore-mark sack-perm save-mark selctx set-class set-dscp \
    set-dscp-class set-mark set-mss set-tos set-xmark strip-options timeout timestamp to to-destination \
    to-ports to-source total-nodes tproxy-mark ttl-dec ttl-inc ttl-set type ulog-cprange ulog-nlgroup \
    ulog-prefix ulog-qthreshold wscale xor-mark xor-tos zone zone-orig zone-reply dst-pfx hl-dec hl-inc \
    hl-set hmark-dport-mask hmark-dst-prefix hmark-mod hmark-offset hmark-proto-mask hmark-rnd \
    hmark-spi-mask hmark-sport-mask hmark-src-prefix hmark-tuple led-always-blink led-delay \
    led-trigger-id queue-cpu-fanout src-pfx to-port addr and-mask delude honeypot or-mask prefix reset \
    reuse set-mac shift static tarpit tname ttl";

/// The value of an option without the mark of negation, and that mark.
fn negation(kwargs: &mut Map, key: &str) -> &'static str {
    let value = python::str(kwargs.get(key).unwrap_or(&Value::Nil));
    let Some(plain) = without_mark(&value) else {
        return "";
    };
    kwargs.set(key, plain);
    "! "
}

/// As stock: where a text begins with `!` or `not`, these are removed everywhere, with a space after them.
fn without_mark(value: &str) -> Option<String> {
    if !value.starts_with('!') && !value.starts_with("not") {
        return None;
    }
    let mut out = String::new();
    let mut rest = value;
    while let Some(c) = rest.chars().next() {
        let after = rest.strip_prefix('!').or_else(|| rest.strip_prefix("not"));
        if let Some(after) = after {
            rest = after.strip_prefix(char::is_whitespace).unwrap_or(after);
        } else {
            out.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    Some(out)
}

/// `OPTION VALUE` of a keyword, which is used up.
fn option(kwargs: &mut Map, key: &str, option: &str) -> Option<String> {
    if !kwargs.contains(key) {
        return None;
    }
    let mark = negation(kwargs, key);
    let value = kwargs.remove(key)?;
    Some(format!("{mark}{option} {}", python::str(&value)))
}

fn is_empty(value: &Value) -> bool {
    value.is_nil() || value.is_str("")
}

/// Adds `-m NAME` unless it is there.
fn module(rule: &mut Vec<String>, name: &str) -> bool {
    let word = format!("-m {name}");
    let new = !rule.contains(&word);
    if new {
        rule.push(word);
    }
    new
}

fn matches(kwargs: &mut Map, rule: &mut Vec<String>) {
    let is_policy = kwargs.get("match").is_some_and(|m| m.is_str("policy"));
    let Some(value) = kwargs.remove("match") else {
        return;
    };
    let names: Vec<String> = match &value {
        Value::Array(list) => list.iter().map(python::str).collect(),
        one => python::str(one).split(',').map(str::to_owned).collect(),
    };
    for name in names {
        rule.push(format!("-m {name}"));
        if matches!(name.trim(), "pknock" | "quota2" | "recent")
            && let Some(own) = kwargs.remove("name_")
        {
            rule.push(format!("--name {}", python::str(&own)));
        }
    }
    if is_policy {
        rule.extend(option(kwargs, "proto", "--proto"));
    }
}

fn sets(kwargs: &mut Map, rule: &mut Vec<String>) {
    let list = match kwargs.remove("match-set") {
        None => return,
        Some(Value::Array(list)) => list,
        Some(one) => vec![one],
    };
    for set in list.iter().map(python::str) {
        rule.push(match without_mark(&set) {
            Some(set) => format!("-m set ! --match-set {set}"),
            None => format!("-m set --match-set {set}"),
        });
    }
}

/// `dports` and `sports`; false without a protocol.
fn ports(kwargs: &mut Map, rule: &mut Vec<String>, protocol: bool) -> bool {
    for key in ["dports", "sports"] {
        let Some(value) = kwargs.remove(key) else {
            continue;
        };
        if module(rule, "multiport") && !protocol {
            return false;
        }
        let list: Vec<String> = match &value {
            Value::Array(list) => list.iter().map(python::str).collect(),
            one => vec![python::str(one)],
        };
        let marked = list.iter().any(|port| without_mark(port).is_some());
        if marked {
            rule.push("!".to_owned());
        }
        let plain = |port: &String| match marked {
            true => without_mark(&format!("!{port}")).unwrap_or_default(),
            false => port.clone(),
        };
        let list: Vec<String> = list.iter().map(plain).collect();
        rule.push(format!("--{key} {}", list.join(",")));
    }
    true
}

/// The part of a command after the chain; an error as stock returns it.
fn words(mut kwargs: Map) -> Result<String, &'static str> {
    if let Some(target) = kwargs.remove("target") {
        kwargs.remove("jump");
        kwargs.set("jump", target);
    }
    kwargs.0.retain(|(key, _)| {
        let key = key.as_str().unwrap_or_default();
        !key.starts_with("__") && !NOT_OPTIONS.split_whitespace().any(|other| other == key)
    });
    let mut rule = Vec::new();
    rule.extend(option(&mut kwargs, "if", "-i"));
    rule.extend(option(&mut kwargs, "of", "-o"));
    if !kwargs.get("match").is_some_and(|m| m.is_str("policy"))
        && let Some(proto) = kwargs.remove("proto")
    {
        kwargs.set("protocol", proto);
    }
    let protocol = option(&mut kwargs, "protocol", "-p");
    let has_protocol = protocol.is_some();
    rule.extend(protocol);
    matches(&mut kwargs, &mut rule);
    sets(&mut kwargs, &mut rule);
    if kwargs.contains("connstate") {
        module(&mut rule, "state");
        rule.extend(option(&mut kwargs, "connstate", "--state"));
    }
    rule.extend(option(&mut kwargs, "dport", "--dport"));
    rule.extend(option(&mut kwargs, "sport", "--sport"));
    if !ports(&mut kwargs, &mut rule, has_protocol) {
        return Err("Error: protocol must be specified");
    }
    if let Some(comment) = kwargs.remove("comment") {
        module(&mut rule, "comment");
        rule.push(format!("--comment \"{}\"", python::str(&comment)));
    }
    if kwargs.get("set").is_some_and(Value::truthy) {
        rule.extend(option(&mut kwargs, "set", "--match-set"));
    }
    let mut last = Vec::new();
    for key in OF_TARGETS.split_whitespace() {
        let Some(value) = kwargs.remove(key) else {
            continue;
        };
        let text = python::str(&value);
        last.push(if is_empty(&value) {
            format!("--{key}")
        } else if text.contains(char::is_whitespace) {
            format!("--{key} \"{text}\"")
        } else {
            format!("--{key} {text}")
        });
    }
    let keys: Vec<String> = kwargs.iter().map(|(key, _)| python::str(key)).collect();
    for key in keys {
        let mark = negation(&mut kwargs, &key);
        let value = kwargs.get(&key).cloned().unwrap_or_default();
        let flag = if key.chars().count() == 1 { "-" } else { "--" };
        rule.push(if is_empty(&value) {
            format!("{mark}{flag}{key}")
        } else {
            format!("{mark}{flag}{key} {}", python::str(&value))
        });
    }
    rule.extend(last);
    Ok(rule.join(" "))
}

/// `iptables.build_rule`.
pub fn build(call: &mut Call<'_>) -> Result {
    let rule = match words(call.bound.kwargs.clone()) {
        Ok(rule) => rule,
        Err(text) => return Ok(text.into()),
    };
    if !call.flag("full") {
        return Ok(rule.into());
    }
    for (name, text) in [
        ("table", "Error: Table needs to be specified"),
        ("chain", "Error: Chain needs to be specified"),
        ("command", "Error: Command needs to be specified"),
    ] {
        if !call.flag(name) {
            return Ok(text.into());
        }
    }
    let text = |name| python::str(call.arg(name));
    let command = text("command");
    let flag = if "ACDIRLSFZNXPE".contains(&command) {
        "-"
    } else {
        "--"
    };
    let (table, chain, position) = (text("table"), text("chain"), text("position"));
    let program = program(call)?;
    let wait = if has(call, &program, "--wait")? {
        "--wait"
    } else {
        ""
    };
    Ok(format!("{program} {wait} -t {table} {flag}{command} {chain} {position} {rule}").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn rules() {
        let all = map! {"jump" => "LOG", "log-prefix" => "a b", "protocol" => "! tcp", "dports" => vec![Value::from("not 80"), 443.into()], "x" => ""};
        assert_eq!(
            words(all).as_deref(),
            Ok("! -p tcp -m multiport ! --dports 80,443 -x --jump LOG --log-prefix \"a b\"")
        );
        assert!(words(map! {"dports" => 1}).is_err());
    }
}
