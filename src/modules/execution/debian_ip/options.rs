//! Which options of interfaces are valid, and their values.

use super::{Result, python};
use crate::execution::CallError;
use halite_wire::Value;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How to check an option.
#[derive(Clone, Copy)]
enum Check {
    Any,
    V4,
    V6,
    Mac,
    Int,
    Float,
    Mask4,
    Mask6,
    /// One of these texts.
    Words(&'static [&'static str]),
    /// A number up to this one.
    UpTo(i64),
    /// Words between spaces.
    List,
}

use Check::{Any, Float, Int, List, Mac, Mask4, Mask6, UpTo, V4, V6, Words};

const TUNNELS: Check = Words(&["gre", "GRE", "ipip", "IPIP", "802.3ad"]);

const INET: &[(&str, Check)] = &[
    (
        "proto",
        Words(&["bootp", "dhcp", "static", "manual", "loopback", "ppp"]),
    ),
    ("address", V4),
    ("addresses", Any),
    ("netmask", Mask4),
    ("broadcast", V4),
    ("metric", Int),
    ("gateway", V4),
    ("pointopoint", V4),
    ("hwaddress", Mac),
    ("mtu", Int),
    ("scope", Words(&["global", "link", "host"])),
    ("hostname", Any),
    ("leasehours", Int),
    ("leasetime", Int),
    ("vendor", Any),
    ("client", Any),
    ("bootfile", Any),
    ("server", V4),
    ("hwaddr", Mac),
    ("mode", TUNNELS),
    ("endpoint", V4),
    ("dstaddr", V4),
    ("local", V4),
    ("ttl", Int),
    ("slaves", Any),
    ("provider", Any),
    ("unit", Int),
    ("options", Any),
    ("dns-nameservers", List),
    ("dns-search", List),
    ("vlan-raw-device", Any),
    ("network", Any),
    ("test", Any),
    ("enable_ipv4", Any),
    ("enable_ipv6", Any),
];

const INET6: &[(&str, Check)] = &[
    (
        "proto",
        Words(&[
            "auto", "loopback", "static", "manual", "dhcp", "v4tunnel", "6to4",
        ]),
    ),
    ("address", V6),
    ("addresses", Any),
    ("netmask", Mask6),
    ("broadcast", V6),
    ("gateway", V6),
    ("hwaddress", Mac),
    ("mtu", Int),
    ("scope", Words(&["global", "site", "link", "host"])),
    ("privext", UpTo(2)),
    ("dhcp", UpTo(1)),
    ("media", Any),
    ("accept_ra", UpTo(2)),
    ("autoconf", UpTo(1)),
    ("preferred-lifetime", Int),
    ("dad-attempts", Int),
    ("dad-interval", Float),
    ("slaves", Any),
    ("mode", TUNNELS),
    ("endpoint", V4),
    ("local", V4),
    ("ttl", Int),
    ("dns-nameservers", List),
    ("dns-search", List),
    ("vlan-raw-device", Any),
    ("test", Any),
    ("enable_ipv4", Any),
    ("enable_ipv6", Any),
];

const WIRELESS: &[(&str, Check)] = &[
    ("wireless-essid", Any),
    ("wireless-mode", Any),
    ("wpa-ap-scan", UpTo(2)),
    ("wpa-conf", Any),
    ("wpa-driver", Any),
    ("wpa-group", Any),
    ("wpa-key-mgmt", Any),
    ("wpa-pairwise", Any),
    ("wpa-psk", Any),
    ("wpa-proto", Any),
    ("wpa-roam", Any),
    ("wpa-ssid", Any),
];

/// Whether an option is known at all.
pub fn is_known(name: &str) -> bool {
    [INET, INET6, WIRELESS]
        .into_iter()
        .flatten()
        .any(|(known, _)| *known == name)
}

/// Whether an option is valid for `inet` or `inet6`, and its value.
pub fn checked(name: &str, value: &Value, family: &str) -> Result<(bool, Value)> {
    let own = match family {
        "inet" => INET,
        "inet6" => INET6,
        // Neither of them has options.
        _ => return Ok((false, value.clone())),
    };
    let found = own.iter().chain(WIRELESS).find(|(known, _)| *known == name);
    let Some((_, check)) = found else {
        return Ok((false, value.clone()));
    };
    let keep = |valid: bool| Ok((valid, value.clone()));
    match check {
        Any => keep(true),
        V4 => keep(address(value, 32, |ip| ip.parse::<Ipv4Addr>().is_ok())),
        V6 => keep(address(value, 128, |ip| ip.parse::<Ipv6Addr>().is_ok())),
        Mac => keep(is_mac(value)?),
        Words(words) => {
            let text = python::str(value);
            // Numbers are no words where stock does not make texts of them.
            let valid = words.contains(&text.as_str());
            Ok((valid, if valid { text.into() } else { value.clone() }))
        }
        Int => Ok(number(value)?.map_or((false, value.clone()), |n| (true, n.into()))),
        UpTo(most) => Ok(match number(value)? {
            Some(n) => ((0..=*most).contains(&n), n.into()),
            None => (false, value.clone()),
        }),
        Float => Ok(match float(value)? {
            Some(n) => (true, Value::Float(n)),
            None => (false, value.clone()),
        }),
        Mask4 => Ok(match number(value)? {
            Some(n) => ((0..=32).contains(&n), n.into()),
            None => (is_mask(value), value.clone()),
        }),
        Mask6 => Ok(match number(value)? {
            Some(n) => ((0..=128).contains(&n), n.into()),
            None => (false, value.clone()),
        }),
        List => Ok(match value {
            Value::Str(text) => {
                let words: Vec<Value> = text.split_whitespace().map(Value::from).collect();
                (!words.is_empty(), words.into())
            }
            Value::Array(list) => (!list.is_empty(), value.clone()),
            Value::Map(_) => (true, value.clone()),
            _ => (false, value.clone()),
        }),
    }
}

/// Python's `int()`; `None` where it raises a `ValueError`.
pub fn number(value: &Value) -> Result<Option<i64>> {
    match value {
        Value::Int(n) => Ok(Some(*n)),
        Value::Bool(yes) => Ok(Some((*yes).into())),
        #[expect(clippy::cast_possible_truncation, reason = "as Python's int()")]
        Value::Float(n) => Ok(Some(*n as i64)),
        Value::Str(text) => Ok(text.trim().parse().ok()),
        other => Err(not_a_number(
            "int",
            "a string, a bytes-like object or a real number",
            other,
        )),
    }
}

/// Python's `float()`; `None` where it raises a `ValueError`.
pub fn float(value: &Value) -> Result<Option<f64>> {
    match value {
        Value::Float(n) => Ok(Some(*n)),
        #[expect(clippy::cast_precision_loss, reason = "as Python's float()")]
        Value::Int(n) => Ok(Some(*n as f64)),
        Value::Bool(yes) => Ok(Some(f64::from(u8::from(*yes)))),
        Value::Str(text) => Ok(text.trim().parse().ok()),
        other => Err(not_a_number("float", "a string or a real number", other)),
    }
}

fn not_a_number(function: &str, wanted: &str, value: &Value) -> CallError {
    let text = format!(
        "{function}() argument must be {wanted}, not '{}'",
        python::type_name(value)
    );
    CallError::raised("TypeError", text)
}

fn address(value: &Value, most: i64, parses: fn(&str) -> bool) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let (ip, mask) = match text.rsplit_once('/') {
        Some((ip, mask)) => (ip, mask.trim().parse().ok()),
        None => (text, Some(most)),
    };
    parses(ip) && mask.is_some_and(|mask| (1..=most).contains(&mask))
}

fn is_mask(value: &Value) -> bool {
    let mask = value
        .as_str()
        .and_then(|text| text.parse::<Ipv4Addr>().ok());
    mask.is_some_and(|mask| {
        let bits = u32::from(mask);
        // Of a net, or of its hosts.
        bits.leading_ones() + bits.trailing_zeros() >= 32
            || bits.leading_zeros() + bits.trailing_ones() >= 32
    })
}

/// Whether it is the address of a device: six numbers.
pub fn is_mac(value: &Value) -> Result<bool> {
    let Some(text) = value.as_str() else {
        let text = format!(
            "expected string or bytes-like object, got '{}'",
            python::type_name(value)
        );
        return Err(CallError::raised("TypeError", text));
    };
    let fits = |mark: char| {
        let parts: Vec<&str> = text.split(mark).collect();
        let part =
            |p: &&str| (1..=2).contains(&p.len()) && p.bytes().all(|b| b.is_ascii_hexdigit());
        parts.len() == 6 && parts.iter().all(part)
    };
    Ok(['-', ':', '.'].into_iter().any(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let valid = |name, value: Value, family| checked(name, &value, family).unwrap();
        assert_eq!(valid("netmask", "24".into(), "inet"), (true, 24.into()));
        assert_eq!(
            valid("netmask", "255.255.0.0".into(), "inet"),
            (true, "255.255.0.0".into())
        );
        assert!(!valid("netmask", "255.0.255.0".into(), "inet").0);
        assert!(
            valid("address", "fe80::1/64".into(), "inet6").0
                && !valid("address", "fe80::1".into(), "inet").0
        );
        assert!(
            valid("hwaddress", "1:2:3:4:5:aF".into(), "inet").0
                && !valid("hwaddress", "random".into(), "inet").0
        );
        assert!(checked("mtu", &Value::Nil, "inet").is_err());
    }
}
