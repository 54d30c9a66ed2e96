//! Internet sockets of a process (`psutil.Process.net_connections`).

use halite_wire::Value;
use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

const STREAM: i64 = 1;
const DATAGRAM: i64 = 2;
const INET: i64 = 2;
const INET6: i64 = 10;

/// Descriptor, family, type, local address, remote address and state of each socket among open descriptors.
pub(super) fn connections(descriptors: &[(i64, PathBuf)]) -> Vec<Value> {
    let mut inodes: HashMap<String, i64> = HashMap::new();
    for (number, target) in descriptors {
        let target = target.to_string_lossy();
        let inode = target
            .strip_prefix("socket:[")
            .and_then(|t| t.strip_suffix(']'));
        if let Some(inode) = inode {
            inodes.entry(inode.to_owned()).or_insert(*number);
        }
    }
    let tables = [
        ("tcp", INET, STREAM),
        ("tcp6", INET6, STREAM),
        ("udp", INET, DATAGRAM),
        ("udp6", INET6, DATAGRAM),
    ];
    let mut all = Vec::new();
    for (name, family, kind) in tables {
        let table = std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default();
        let lines = table.lines().skip(1);
        all.extend(lines.filter_map(|line| socket(line, family, kind, &inodes)));
    }
    all
}

fn socket(line: &str, family: i64, kind: i64, inodes: &HashMap<String, i64>) -> Option<Value> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let descriptor = *inodes.get(*words.get(9)?)?;
    let state = if kind == STREAM {
        state(words.get(3)?)
    } else {
        "NONE"
    };
    Some(Value::Array(vec![
        descriptor.into(),
        family.into(),
        kind.into(),
        endpoint(words.get(1)?)?,
        endpoint(words.get(2)?)?,
        state.into(),
    ]))
}

/// Address and port; an empty list without a port.
fn endpoint(text: &str) -> Option<Value> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    if port == 0 {
        return Some(Value::Array(Vec::new()));
    }
    let mut bytes = Vec::new();
    for at in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).to_string(),
        _ => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_string(),
    };
    Some(Value::Array(vec![ip.into(), port.into()]))
}

fn state(code: &str) -> &'static str {
    match code {
        "01" => "ESTABLISHED",
        "02" => "SYN_SENT",
        "03" => "SYN_RECV",
        "04" => "FIN_WAIT1",
        "05" => "FIN_WAIT2",
        "06" => "TIME_WAIT",
        "07" => "CLOSE",
        "08" => "CLOSE_WAIT",
        "09" => "LAST_ACK",
        "0A" => "LISTEN",
        _ => "CLOSING",
    }
}
