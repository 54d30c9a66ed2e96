//! Connections and neighbours of this host.

use super::super::declare::Result;
use super::super::{Call, CallError, shell, which};
use halite_wire::map;
use halite_wire::{Map, Value};

fn field<'a>(words: &[&'a str], index: usize) -> Result<&'a str> {
    words
        .get(index)
        .copied()
        .ok_or_else(|| CallError::raised("IndexError", "list index out of range"))
}

pub(super) fn netstat(call: &mut Call<'_>) -> Result {
    match which("netstat") {
        Some(_) => by_netstat(call),
        None => by_ss(call),
    }
}

fn by_netstat(call: &mut Call<'_>) -> Result {
    let text = shell::run(call, &["netstat", "-tulpnea"])?;
    let mut out: Vec<Value> = Vec::new();
    for line in text.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        let tcp = line.starts_with("tcp");
        if !tcp && !line.starts_with("udp") {
            continue;
        }
        let mut entry = map! {
            "proto" => field(&w, 0)?, "recv-q" => field(&w, 1)?, "send-q" => field(&w, 2)?,
            "local-address" => field(&w, 3)?, "remote-address" => field(&w, 4)?,
        };
        if tcp {
            entry.set("state", field(&w, 5)?);
        }
        let shift = usize::from(tcp);
        for (index, key) in ["user", "inode", "program"].into_iter().enumerate() {
            entry.set(key, field(&w, 5 + shift + index)?);
        }
        out.push(entry.into());
    }
    Ok(out.into())
}

fn by_ss(call: &mut Call<'_>) -> Result {
    let text = shell::run(call, &["ss", "-tulpnea"])?;
    let mut out: Vec<Value> = Vec::new();
    for line in text.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        let tcp = line.starts_with("tcp");
        if !tcp && !line.starts_with("udp") {
            continue;
        }
        let (mut user, mut inode, mut program) = (Value::Int(0), Value::Int(0), "");
        // Stock drops the last word.
        for word in w.iter().take(w.len() - 1).skip(6) {
            match word.split_once(':') {
                Some(("users", rest)) => {
                    program = rest.split('"').nth(1).unwrap_or_default();
                }
                Some(("uid", rest)) => user = rest.into(),
                Some(("ino", rest)) => inode = rest.into(),
                _ => {}
            }
        }
        let mut entry = map! {
            "proto" => field(&w, 0)?, "recv-q" => field(&w, 2)?, "send-q" => field(&w, 3)?,
            "local-address" => field(&w, 4)?, "remote-address" => field(&w, 5)?,
        };
        if tcp {
            let state = field(&w, 1)?;
            entry.set(
                "state",
                if state == "ESTAB" {
                    "ESTABLISHED"
                } else {
                    state
                },
            );
        }
        entry.set("user", user);
        entry.set("inode", inode);
        entry.set("program", program);
        out.push(entry.into());
    }
    Ok(out.into())
}

/// Keys are connection numbers starting from 0.
pub(super) fn active_tcp(_: &mut Call<'_>) -> Result {
    let all = halite_sys::net::all_established();
    let entries = all.iter().enumerate().map(|(number, c)| {
        let entry = map! {
            "local_addr" => c.local.to_canonical().to_string(),
            "local_port" => c.local_port,
            "remote_addr" => c.remote.to_canonical().to_string(),
            "remote_port" => c.remote_port,
        };
        (Value::from(number), Value::Map(entry))
    });
    Ok(Value::Map(Map(entries.collect())))
}

pub(super) fn arp(call: &mut Call<'_>) -> Result {
    shell::require("arp")?;
    let text = shell::run(call, &["arp", "-an"])?;
    let mut out = Map::new();
    for line in text.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        if let &[_, ip, _, hardware, ..] = w.as_slice() {
            out.set(hardware, ip.trim_matches('(').trim_matches(')'));
        }
    }
    Ok(out.into())
}

/// Neighbours of an address family, recognized by its separator.
pub(super) fn neighbours(call: &mut Call<'_>, mark: char) -> Result {
    let text = shell::run(call, &["ip", "neigh", "show"])?;
    let mut out = Map::new();
    for line in text.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        if let &[ip, _, _, _, hardware, ..] = w.as_slice()
            && ip.contains(mark)
        {
            out.set(hardware, ip);
        }
    }
    Ok(out.into())
}
