//! Addresses and networks as in Python's `ipaddress`.

use super::super::{CallError, python};
use crate::execution::declare::Result;
use halite_wire::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `str(address)`: Python shows mapped IPv4 addresses in hexadecimal.
pub(in crate::execution) fn show(ip: IpAddr) -> String {
    match ip {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(_) => {
                let words = v6.segments();
                format!("::ffff:{:x}:{:x}", words[6], words[7])
            }
            None => v6.to_string(),
        },
        v4 => v4.to_string(),
    }
}

/// `ipaddress.ip_address()`; integers are valid, too.
///
/// # Errors
/// `ValueError`.
pub(in crate::execution) fn address(value: &Value) -> Result<IpAddr> {
    let ip = match value {
        Value::Str(text) => text.parse().ok(),
        Value::Int(number) => u32::try_from(*number)
            .ok()
            .map(|n| Ipv4Addr::from(n).into()),
        _ => None,
    };
    ip.ok_or_else(|| {
        let shown = python::repr(value);
        let text = format!("{shown} does not appear to be an IPv4 or IPv6 address");
        CallError::raised("ValueError", text)
    })
}

/// A network: all bits after the prefix are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::execution) struct Network {
    /// Its first address.
    pub first: IpAddr,
    /// Prefix length.
    pub prefix: u32,
}

impl Network {
    /// The network of an address.
    pub fn new(ip: IpAddr, prefix: u32) -> Network {
        let first = match ip {
            IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) & mask4(prefix)).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) & mask6(prefix)).into(),
        };
        Network { first, prefix }
    }

    /// `ipaddress.ip_network(value, strict)`.
    ///
    /// # Errors
    /// `ValueError`.
    pub fn parse(value: &Value, strict: bool) -> Result<Network> {
        let found = match value {
            Value::Str(text) => split(text),
            other => address(other).ok().map(|ip| (ip, width(ip))),
        };
        let Some((ip, prefix)) = found else {
            let shown = python::repr(value);
            let text = format!("{shown} does not appear to be an IPv4 or IPv6 network");
            return Err(CallError::raised("ValueError", text));
        };
        let network = Network::new(ip, prefix);
        if strict && network.first != ip {
            let text = format!("{}/{prefix} has host bits set", show(ip));
            return Err(CallError::raised("ValueError", text));
        }
        Ok(network)
    }

    /// Whether it contains an address of the same family.
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.first.is_ipv4() && Network::new(ip, self.prefix).first == self.first
    }

    /// Its mask as an address.
    pub fn netmask(&self) -> IpAddr {
        match self.first {
            IpAddr::V4(_) => Ipv4Addr::from(mask4(self.prefix)).into(),
            IpAddr::V6(_) => Ipv6Addr::from(mask6(self.prefix)).into(),
        }
    }

    /// Its last address.
    pub fn broadcast(&self) -> IpAddr {
        match self.first {
            IpAddr::V4(ip) => Ipv4Addr::from(u32::from(ip) | !mask4(self.prefix)).into(),
            IpAddr::V6(ip) => Ipv6Addr::from(u128::from(ip) | !mask6(self.prefix)).into(),
        }
    }

    /// Whether all of it is loopback.
    pub fn is_loopback(&self) -> bool {
        self.first.is_loopback() && self.broadcast().is_loopback()
    }

    /// `num_addresses`; as text above 64 bits, which msgpack cannot represent as a number.
    pub fn size(&self) -> Value {
        let bits = width(self.first) - self.prefix;
        match 1_u128.checked_shl(bits) {
            Some(size) => u64::try_from(size).map_or_else(|_| size.to_string().into(), Value::from),
            None => "340282366920938463463374607431768211456".into(),
        }
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", show(self.first), self.prefix)
    }
}

fn width(ip: IpAddr) -> u32 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn mask4(prefix: u32) -> u32 {
    u32::MAX.checked_shl(32 - prefix.min(32)).unwrap_or(0)
}

fn mask6(prefix: u32) -> u128 {
    u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0)
}

fn split(text: &str) -> Option<(IpAddr, u32)> {
    let Some((ip, mask)) = text.split_once('/') else {
        let ip: IpAddr = text.parse().ok()?;
        return Some((ip, width(ip)));
    };
    let ip: IpAddr = ip.parse().ok()?;
    if !mask.is_empty() && mask.bytes().all(|b| b.is_ascii_digit()) {
        let prefix = mask.parse().ok().filter(|p| *p <= width(ip))?;
        return Some((ip, prefix));
    }
    // IPv4 networks may have a netmask or hostmask instead of a length.
    let mask = u32::from(mask.parse::<Ipv4Addr>().ok().filter(|_| ip.is_ipv4())?);
    if mask.leading_ones() + mask.trailing_zeros() == 32 {
        return Some((ip, mask.leading_ones()));
    }
    let host = !mask;
    (host.leading_ones() + host.trailing_zeros() == 32).then(|| (ip, host.leading_ones()))
}

/// `is_private`.
pub(super) fn is_private(ip: IpAddr) -> bool {
    const V4: [&str; 14] = [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/29",
        "192.0.0.170/31",
        "192.0.2.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "255.255.255.255/32",
    ];
    const V6: [&str; 10] = [
        "::1/128",
        "::/128",
        "::ffff:0:0/96",
        "100::/64",
        "2001::/23",
        "2001:2::/48",
        "2001:db8::/32",
        "2001:10::/28",
        "fc00::/7",
        "fe80::/10",
    ];
    let inside = |net: &&str| {
        let net = split(net).map(|(ip, prefix)| Network::new(ip, prefix));
        net.is_some_and(|net| net.contains(ip))
    };
    match ip {
        IpAddr::V4(_) => V4.iter().any(inside),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_private(v4.into()),
            None => V6.iter().any(inside),
        },
    }
}

/// `reverse_pointer`.
pub(super) fn reverse_pointer(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => {
            let [a, b, c, d] = ip.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(ip) => {
            let digits = format!("{:032x}", u128::from(ip));
            let digits: Vec<String> = digits.chars().rev().map(String::from).collect();
            format!("{}.ip6.arpa", digits.join("."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str, strict: bool) -> Result<String, String> {
        let parsed = Network::parse(&text.into(), strict);
        parsed
            .map(|n| n.to_string())
            .map_err(|e| e.message().to_owned())
    }

    #[test]
    fn networks() {
        assert_eq!(net("10.1.2.3/8", false).unwrap(), "10.0.0.0/8");
        assert_eq!(net("10.1.2.3/255.255.0.0", false).unwrap(), "10.1.0.0/16");
        assert_eq!(net("10.1.2.3/0.0.0.255", false).unwrap(), "10.1.2.0/24");
        assert_eq!(net("10.1.2.3", true).unwrap(), "10.1.2.3/32");
        assert_eq!(
            net("10.1.2.3/8", true).unwrap_err(),
            "10.1.2.3/8 has host bits set"
        );
        assert_eq!(
            net("10.1.2.3/33", false).unwrap_err(),
            "'10.1.2.3/33' does not appear to be an IPv4 or IPv6 network"
        );
        assert_eq!(net("fe80::1/64", false).unwrap(), "fe80::/64");
        assert_eq!(net("1.2.3.4/0", false).unwrap(), "0.0.0.0/0");
    }

    #[test]
    fn properties() {
        let ip = |t: &str| t.parse::<IpAddr>().unwrap();
        assert!(is_private(ip("192.0.2.1")) && is_private(ip("::ffff:10.0.0.1")));
        assert!(!is_private(ip("8.8.8.8")) && !is_private(ip("2600::1")));
        assert_eq!(show(ip("::ffff:1.2.3.4")), "::ffff:102:304");
        assert_eq!(reverse_pointer(ip("1.2.3.4")), "4.3.2.1.in-addr.arpa");
    }
}
