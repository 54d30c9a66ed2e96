//! The options of bonds.

use super::{Result, attribute, invalid, number, python, word};
use halite_wire::{Map, Value};

const MODES: [&str; 7] = [
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
];

const POLICIES: [&str; 6] = [
    "layer2",
    "layer2+3",
    "layer3+4",
    "encap2+3",
    "encap3+4",
    "vlan+srcmac",
];

fn mode(opts: &Map, iface: &str) -> Result<usize> {
    let Some(given) = opts.get("mode") else {
        return Err(attribute("mode is required for bond interfaces"));
    };
    let given = python::str(given);
    let known = |at: &usize| MODES.get(*at) == Some(&given.as_str()) || given == at.to_string();
    (0..MODES.len()).find(known).ok_or_else(|| {
        let mut valid: Vec<String> = (0..MODES.len()).map(|n| n.to_string()).collect();
        valid.extend(MODES.map(str::to_owned));
        let valid: Vec<&str> = valid.iter().map(String::as_str).collect();
        invalid(iface, "mode", &valid)
    })
}

fn integer(opts: &Map, iface: &str, key: &str) -> Result<Option<i64>> {
    let Some(value) = opts.get(key) else {
        return Ok(None);
    };
    match number(value)? {
        Some(n) => Ok(Some(n)),
        None => Err(invalid(iface, key, &["integer"])),
    }
}

/// Adds how the links of ports are watched.
fn links(opts: &Map, iface: &str, out: &mut String) -> Result<()> {
    let miimon = integer(opts, iface, "miimon")?;
    let miimon = miimon.ok_or_else(|| invalid(iface, "miimon", &["integer"]))?;
    if miimon == 0 {
        return Err(invalid(iface, "miimon", &["nonzero integer"]));
    }
    *out += &format!(" miimon={miimon}");
    let delay = |key: &str, default: Option<i64>| -> Result<Option<String>> {
        let Some(value) = integer(opts, iface, key)?.or(default) else {
            return Ok(None);
        };
        if value.checked_rem(miimon) != Some(0) {
            let valid = format!("0 or a multiple of miimon ({miimon})");
            return Err(invalid(iface, key, &[&valid]));
        }
        Ok(Some(format!(" {key}={value}")))
    };
    let down = delay("downdelay", miimon.checked_mul(2))?.unwrap_or_default();
    let up = delay("updelay", None)?.unwrap_or_default();
    // As stock: its own value for downdelay comes last.
    *out += &match opts.contains("downdelay") {
        true => down + &up,
        false => up + &down,
    };
    let carrier = match word(opts, iface, "use_carrier") {
        Ok(on) => on.unwrap_or(false),
        Err(_) => return Err(invalid(iface, "use_carrier", super::WORDS)),
    };
    *out += &format!(" use_carrier={}", i32::from(carrier));
    Ok(())
}

/// Adds which hosts are asked whether they are there.
fn targets(opts: &Map, iface: &str, out: &mut String) -> Result<()> {
    let interval = integer(opts, iface, "arp_interval")?.unwrap_or_default();
    let targets = match opts.get("arp_ip_target") {
        Some(Value::Array(list)) if (1..=16).contains(&list.len()) => {
            let all: Vec<String> = list.iter().map(python::str).collect();
            all.join(",")
        }
        _ => return Err(invalid(iface, "arp_ip_target", &["list of ips (up to 16)"])),
    };
    *out += &format!(" arp_interval={interval} arp_ip_target={targets}");
    Ok(())
}

/// Adds the options of 802.3ad.
fn lacp(opts: &Map, iface: &str, out: &mut String) -> Result<()> {
    let rate = match opts.get("lacp_rate") {
        None => "0",
        Some(Value::Str(rate)) if rate == "fast" || rate == "1" => "1",
        Some(Value::Str(rate)) if rate == "slow" || rate == "0" => "0",
        Some(_) => return Err(invalid(iface, "lacp_rate", &["fast", "1", "slow", "0"])),
    };
    let select = integer(opts, iface, "ad_select")?.unwrap_or_default();
    *out += &format!(" lacp_rate={rate} ad_select={select}");
    Ok(())
}

/// The value of `BONDING_OPTS`.
pub fn options(opts: &Map, iface: &str) -> Result<String> {
    let mode = mode(opts, iface)?;
    let mut out = format!("mode={mode}");
    let watches_hosts = mode == 0 || mode == 2;
    if watches_hosts && !opts.contains("miimon") && !opts.contains("arp_interval") {
        let valid = ["at least one of these is required"];
        return Err(invalid(iface, "miimon or arp_interval", &valid));
    }
    if !watches_hosts || opts.contains("miimon") {
        links(opts, iface, &mut out)?;
    }
    if watches_hosts && opts.contains("arp_interval") {
        targets(opts, iface, &mut out)?;
    }
    if mode == 4 {
        lacp(opts, iface, &mut out)?;
    }
    if let Some(primary) = opts.get("primary").filter(|_| matches!(mode, 1 | 5 | 6)) {
        out += &format!(" primary={}", python::str(primary));
    }
    if let Some(policy) = opts
        .get("hashing-algorithm")
        .filter(|_| mode == 2 || mode == 4)
    {
        let valid = if mode == 2 {
            &POLICIES[..3]
        } else {
            &POLICIES[..]
        };
        let policy = python::str(policy);
        if !valid.contains(&policy.as_str()) {
            return Err(invalid(iface, "hashing-algorithm", valid));
        }
        out += &format!(" xmit_hash_policy={policy}");
    }
    Ok(out)
}
