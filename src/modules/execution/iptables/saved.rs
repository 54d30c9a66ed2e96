//! The output of `iptables-save` as data, and the file for it.

use super::program;
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, command_helpers, python, shell};
use halite_wire::{Map, Value, map, shlex};

/// Options of rules with their one letter, or another name.
const SHORT: &[(&str, &str)] = &[
    ("-A", "append"),
    ("-D", "delete"),
    ("-I", "insert"),
    ("-R", "replace"),
    ("-L", "list"),
    ("-F", "flush"),
    ("-Z", "zero"),
    ("-N", "new-chain"),
    ("-X", "delete-chain"),
    ("-P", "policy"),
    ("-E", "rename-chain"),
    ("-p", "protocol"),
    ("-s", "source"),
    ("-d", "destination"),
    ("-j", "jump"),
    ("-g", "goto"),
    ("-i", "in-interface"),
    ("-o", "out-interface"),
    ("-f", "fragment"),
    ("-c", "set-counters"),
    ("-m", "match"),
    ("--sport", "source_port"),
    ("--source-port", "source_port"),
    ("--dport", "destination_port"),
    ("--destination-port", "destination_port"),
    ("--sports", "source-ports"),
    ("--dports", "destination-ports"),
    ("--src-cc", "source-country"),
    ("--dst-cc", "destination-country"),
];

/// All options of iptables(8), iptables-extensions(8) and xtables-addons(8), in the order in which they are shown.
const OPTIONS: &str = "append delete insert replace list flush zero new-chain delete-chain policy rename-chain protocol \
    source destination jump goto in-interface out-interface fragment set-counters match src-type \
    dst-type limit-iface-in limit-iface-out ahspi ahlen ahres bytecode cgroup cluster-total-nodes \
    cluster-local-node cluster-local-nodemask cluster-hash-seed h-length mangle-mac-s mangle-mac-d \
    comment connbytes connbytes-dir connbytes-mode label connlimit-upto connlimit-above connlimit-mask \
    connlimit-saddr connlimit-daddr mark ctstate ctproto ctorigsrc ctorigdst ctreplsrc ctrepldst \
    ctorigsrcport ctorigdstport ctreplsrcport ctrepldstport ctstatus ctexpire ctdir cpu source_port \
    destination_port dccp-types dccp-option src-group dst-group dscp dscp-class dst-len dst-opts \
    ecn-tcp-cwr ecn-tcp-ece ecn-ip-ect espspi fragid fraglen fragres fragfirst fragmore fraglast \
    hashlimit-upto hashlimit-above hashlimit-burst hashlimit-mode hashlimit-srcmask hashlimit-dstmask \
    hashlimit-name hashlimit-htable-size hashlimit-htable-max hashlimit-htable-expire \
    hashlimit-htable-gcinterval hbh-len hbh-opts helper hl-eq hl-lt hl-gt icmp-type icmpv6-type \
    src-range dst-range soft header ipvs vproto vaddr vport vdir vmethod vportctl length limit \
    limit-burst mac-source mh-type source-ports destination-ports ports nfacct-name genre ttl log \
    uid-owner gid-owner socket-exists physdev-in physdev-out physdev-is-in physdev-is-out \
    physdev-is-bridged pkt-type dir pol strict reqid spi proto mode tunnel-src tunnel-dst next quota \
    rateest rateest1 rateest2 rateest-delta rateest-bps rateest-bps1 rateest-bps2 rateest-pps \
    rateest-pps1 rateest-pps2 rateest-lt rateest-gt rateest-eq rateest-name rateest-interval \
    rateest-ewma realm name set rsource rdest mask rcheck update remove seconds reap hitcount rttl loose \
    validmark accept-local invert rt-type rt-segsleft rt-len rt-0-res rt-0-addrs rt-0-not-strict \
    chunk-types match-set return-nomatch update-counters update-subcounters packets-eq packets-lt \
    packets-gt bytes-eq bytes-lt bytes-gt transparent nowildcard state probability every packet algo \
    from to string hex-string tcp-flags syn tcp-option mss datestart datestop timestart timestop \
    monthdays weekdays contiguous kerneltz utc localtz tos ttl-eq ttl-gt ttl-lt u32 condition mac \
    lower-limit upper-limit source-country destination-country enabled disabled iface dev-in dev-out up \
    down broadcast loopback pointtopoint running noarp arp promisc multicast dynamic lower-up dormant \
    edk kazaa gnu dc bit apple soul winmx ares debug flags any layer3 layer4 layer5 stealth synscan \
    cnscan grscan psd-weight-threshold psd-delay-threshold psd-lo-ports-weight psd-hi-ports-weight grow \
    no-change packets knockports time autoclose checkip type checksum-fill set-class new hashmode \
    clustermac total-nodes local-node hash-init set-xmark save-mark restore-mark and-mark or-mark \
    xor-mark set-mark nfmask ctmask save restore notrack ctevents expevents zone timeout to-destination \
    random persistent src-pfx dst-pfx set-dscp set-dscp-class ecn-tcp-remove hl-set hl-dec hl-inc \
    hmark-tuple hmark-mod hmark-offset hmark-src-prefix hmark-dst-prefix hmark-sport-mask \
    hmark-dport-mask hmark-spi-mask hmark-proto-mask hmark-rnd led-trigger-id led-delay led-always-blink \
    log-level log-prefix log-tcp-sequence log-tcp-options log-ip-options log-uid to-ports nflog-group \
    nflog-prefix nflog-range nflog-threshold queue-num queue-balance queue-bypass queue-cpu-fanout \
    rateest-ewmalog reject-with nodst selctx add-set del-set exist to-source set-mss clamp-mss-to-pmtu \
    strip-options gateway set-tos and-tos or-tos xor-tos on-port on-ip tproxy-mark ttl-set ttl-dec \
    ttl-inc ulog-nlgroup ulog-prefix ulog-cprange ulog-qthreshold addr tname delude tarpit set-mac \
    prefix reuse static and-mask or-mask shift honeypot reset";

/// The file whose rules a system loads when it starts.
pub fn file(call: &Call<'_>) -> Result<String> {
    let grain = |name| call.ctx.grains.str(name).unwrap_or_default();
    let six = call.arg("family").is_str("ipv6");
    let four = call.arg("family").is_str("ipv4");
    let (v4, v6) = match (grain("os_family"), grain("os")) {
        ("RedHat", _) => ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
        ("Arch", _) => (
            "/etc/iptables/iptables.rules",
            "/etc/iptables/ip6tables.rules",
        ),
        ("Debian", _) => ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
        (_, "Gentoo") => (
            "/var/lib/iptables/rules-save",
            "/var/lib/ip6tables/rules-save",
        ),
        ("Suse", _) => (
            "/etc/sysconfig/scripts/SuSEfirewall2-custom",
            "/etc/sysconfig/scripts/SuSEfirewall2-custom",
        ),
        ("Void", _) if !four => (
            "/etc/iptables/ip6tables.rules",
            "/etc/iptables/ip6tables.rules",
        ),
        ("Void", _) => (
            "/etc/iptables/iptables.rules",
            "/etc/iptables/ip6tables.rules",
        ),
        (_, "Alpine") => ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
        ("NILinuxRT", _) => (
            "/etc/natinst/share/iptables.conf",
            "/etc/natinst/share/ip6tables.conf",
        ),
        (_, os) => {
            let text = format!(
                "Saving iptables to file is not supported on {os}. Please file an issue with SaltStack"
            );
            return Err(CallError::raised("salt.exceptions.SaltException", text));
        }
    };
    Ok(if six { v6 } else { v4 }.to_owned())
}

/// Rules without the lines that `iptables.save_filters` leaves out.
pub fn filtered(call: &mut Call<'_>, rules: String) -> Result<String> {
    let name = vec!["iptables.save_filters".into(), Value::Array(Vec::new())];
    let filters = call.salt("config.option", name, Map::new())?.str_list();
    if filters.is_empty() {
        return Ok(rules);
    }
    let patterns: Vec<_> = filters
        .iter()
        .filter_map(|f| fancy_regex::Regex::new(f).ok())
        .collect();
    let kept = |line: &&str| !patterns.iter().any(|p| p.is_match(line).unwrap_or(false));
    Ok(rules.split_inclusive('\n').filter(kept).collect())
}

/// The rules of the file `conf_file`, or of that of the system.
pub fn of_file(call: &mut Call<'_>) -> Result<Map> {
    let own = file(call)?;
    let path = call.text("conf_file").filter(|path| !path.is_empty());
    let text = command_helpers::read(&path.unwrap_or(own))?;
    parse(&text)
}

/// The rules in use.
pub fn of_kernel(call: &mut Call<'_>) -> Result<Map> {
    file(call)?;
    let program = format!("{}-save", program(call)?);
    let text = shell::stdout(call, &[program])?;
    parse(&text)
}

/// A chain of a table.
pub fn chain<'m>(rules: &'m Map, table: &str, chain: &str) -> Option<&'m Map> {
    let table = rules.get(table).and_then(Value::as_map)?;
    table.get(chain).and_then(Value::as_map)
}

fn chain_mut<'m>(rules: &'m mut Map, table: &str, chain: &str) -> Result<&'m mut Map> {
    let absent = |name: &str| CallError::raised("KeyError", format!("'{name}'"));
    let Some(Value::Map(table)) = rules.get_mut(table) else {
        return Err(absent(table));
    };
    match table.get_mut(chain) {
        Some(Value::Map(chain)) => Ok(chain),
        _ => Err(absent(chain)),
    }
}

fn parse(text: &str) -> Result<Map> {
    let mut rules = Map::new();
    let mut table = String::new();
    for line in text.lines() {
        if line.starts_with('*') {
            table = line.replace('*', "");
            rules.set(table.as_str(), Map::new());
        } else if line.starts_with(':') {
            let short = || CallError::raised("IndexError", "list index out of range");
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().replace(':', "");
            let policy = words.next().ok_or_else(short)?;
            let counters = words.next().ok_or_else(short)?.replace(['[', ']'], "");
            let (packets, bytes) = counters.split_once(':').ok_or_else(|| {
                CallError::raised(
                    "ValueError",
                    "not enough values to unpack (expected 2, got 1)",
                )
            })?;
            let chain = map! {
                "policy" => policy, "packet count" => packets, "byte count" => bytes, "rules" => Vec::<Value>::new(), "rules_comment" => Map::new(),
            };
            match rules.get_mut(&table) {
                Some(Value::Map(table)) => table.set(name, chain),
                _ => return Err(CallError::raised("KeyError", format!("'{table}'"))),
            }
        } else if line.starts_with("-A") {
            let (name, rule) = rule(line)?;
            let chain = chain_mut(&mut rules, &table, &name)?;
            let comment = rule.get("comment").and_then(Value::as_array);
            let comment = comment
                .and_then(|list| list.first())
                .and_then(Value::as_str);
            if let Some(comment) = comment.map(|text| text.trim_matches('"').to_owned())
                && let Some(Value::Map(all)) = chain.get_mut("rules_comment")
            {
                all.set(comment, rule.clone());
            }
            if let Some(Value::Array(all)) = chain.get_mut("rules") {
                all.push(rule.into());
            }
        }
    }
    Ok(rules)
}

/// The name of an option, `None` if it is unknown; a long one may be shortened.
fn option(word: &str) -> Option<&'static str> {
    let known = SHORT.iter().find(|(short, _)| *short == word);
    if let Some((_, name)) = known {
        return Some(name);
    }
    let long = word.strip_prefix("--")?;
    let all = || {
        OPTIONS
            .split_whitespace()
            .filter(|name| !name.contains('_'))
    };
    if let Some(exact) = all().find(|name| *name == long) {
        return Some(exact);
    }
    let mut close = all().filter(|name| name.starts_with(long));
    close.next().filter(|_| close.next().is_none())
}

/// The chain of a line and its options, each a list of values.
fn rule(line: &str) -> Result<(String, Map)> {
    let words = shlex::split(line).map_err(|e| CallError::raised("ValueError", e))?;
    let mut given: Vec<(&'static str, String)> = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let mut value: Vec<String> = Vec::new();
        let mut name = word;
        // The mark of negation may be before its option.
        if name == "!" && words.peek().is_some_and(|next| next.starts_with('-')) {
            name = words.next().unwrap_or_default();
            value.push("!".to_owned());
        }
        if !name.starts_with('-') {
            continue;
        }
        while let Some(next) = words.next_if(|next| next != "!" && !next.starts_with('-')) {
            value.push(next);
        }
        if let Some(name) = option(&name) {
            given.push((name, value.join(" ")));
        }
    }
    let mut chain = String::new();
    let mut rule = Map::new();
    for name in OPTIONS.split_whitespace() {
        let values = given.iter().filter(|(other, _)| *other == name);
        let values: Vec<Value> = values.map(|(_, value)| value.as_str().into()).collect();
        if name == "append" {
            chain = values.first().map(python::str).unwrap_or_default();
        } else if !values.is_empty() {
            rule.set(name, values);
        }
    }
    Ok((chain, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let (chain, rule) =
            rule("-A INPUT ! -s 10.0.0.1/32 -p tcp -m comment --comment \"a b\" --syn -j DROP")
                .unwrap();
        assert_eq!(chain, "INPUT");
        let list = |text: &str| Some(Value::Array(vec![text.into()]));
        assert_eq!(rule.get("source").cloned(), list("! 10.0.0.1/32"));
        assert_eq!(rule.get("comment").cloned(), list("a b"));
        assert_eq!(rule.get("syn").cloned(), list(""));
    }
}
