//! Targets by address or network, using the grains `ipv4` and `ipv6`.

use halite_wire::network::Network;
use halite_wire::{Map, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address or a network to look for.
#[derive(Clone, Debug, PartialEq)]
pub enum IpTest {
    /// One address, as Python prints it.
    Address {
        /// Whether it belongs to IPv6.
        v6: bool,
        /// The text to find in the grain.
        text: String,
    },
    /// A network.
    Network(Network),
}

impl IpTest {
    /// Parses an address or a network; `None` if it is neither.
    pub fn parse(text: &str) -> Option<IpTest> {
        if let Some((address, scope)) = address(text) {
            let scope = scope.map(|s| format!("%{s}")).unwrap_or_default();
            return Some(IpTest::Address {
                v6: address.is_ipv6(),
                text: python_text(address) + &scope,
            });
        }
        Network::parse(text).map(IpTest::Network)
    }

    /// Whether one of the addresses in these grains matches.
    ///
    /// Salt gives up on the whole target when a grain contains something that is not an address. Here such an entry is
    /// skipped, so that one minion cannot spoil a target for the others.
    pub fn matches(&self, grains: &Map) -> bool {
        match grains.get(self.grain()) {
            Some(Value::Array(items)) => items.iter().any(|item| self.fits(item)),
            Some(item) => self.fits(item),
            None => false,
        }
    }

    /// The grain it tests.
    pub fn grain(&self) -> &'static str {
        let v6 = match self {
            IpTest::Address { v6, .. } => *v6,
            IpTest::Network(network) => network.is_ipv6(),
        };
        if v6 { "ipv6" } else { "ipv4" }
    }

    fn fits(&self, item: &Value) -> bool {
        let Some(item) = item.as_str() else {
            return false;
        };
        match self {
            IpTest::Address { text, .. } => text == item,
            IpTest::Network(network) => {
                address(item).is_some_and(|(address, _)| network.contains(address))
            }
        }
    }
}

/// An address and, for IPv6, the zone after `%`.
fn address(text: &str) -> Option<(IpAddr, Option<&str>)> {
    if let Ok(v4) = text.parse::<Ipv4Addr>() {
        return Some((v4.into(), None));
    }
    let (text, scope) = match text.split_once('%') {
        Some((_, scope)) if scope.is_empty() || scope.contains(['%', '/']) => return None,
        Some((text, scope)) => (text, Some(scope)),
        None => (text, None),
    };
    text.parse::<Ipv6Addr>().ok().map(|v6| (v6.into(), scope))
}

/// Python prints an IPv4 address embedded in an IPv6 one in hexadecimal.
fn python_text(address: IpAddr) -> String {
    match address {
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => {
            let [.., high, low] = v6.segments();
            format!("::ffff:{high:x}:{low:x}")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;
    use proptest::prelude::*;

    fn check(test: &str, key: &str, item: &str) -> Option<bool> {
        let grains = map! { key => vec![Value::from(item)] };
        IpTest::parse(test).map(|test| test.matches(&grains))
    }

    #[test]
    fn cases() {
        assert_eq!(check("10.0.0.0/8", "ipv4", "10.1.2.3"), Some(true));
        assert_eq!(check("10.0.0.0/255.0.0.0", "ipv4", "10.1.2.3"), Some(true));
        assert_eq!(
            check("10.0.0.0/0.255.255.255", "ipv4", "10.1.2.3"),
            Some(true)
        );
        assert_eq!(check("0.0.0.0/0", "ipv4", "10.1.2.3"), Some(true));
        assert_eq!(check("10.1.2.3/32", "ipv4", "10.1.2.3"), Some(true));
        assert_eq!(check("10.0.0.1/8", "ipv4", "10.1.2.3"), None);
        assert_eq!(check("10.0.0.0/33", "ipv4", "10.1.2.3"), None);
        assert_eq!(check("10.0.0.0/", "ipv4", "10.1.2.3"), None);
        assert_eq!(check("10.0.0.0/255.0.255.0", "ipv4", "10.1.2.3"), None);
        assert_eq!(check("010.0.0.1", "ipv4", "10.0.0.1"), None);
        assert_eq!(check("fe80::/10", "ipv6", "fe80::1%eth0"), Some(true));
        assert_eq!(check("::/0", "ipv6", "fe80::1"), Some(true));
        assert_eq!(check("FE80::1", "ipv6", "fe80::1"), Some(true));
        assert_eq!(check("::ffff:10.0.0.1", "ipv6", "::ffff:a00:1"), Some(true));
        assert_eq!(check("10.0.0.0/8", "ipv4", "junk"), Some(false));
    }

    proptest! {
        #[test]
        fn any_text(text in ".*", item in ".*") {
            check(&text, "ipv4", &item);
        }

        #[test]
        fn likely_text(text in "[0-9a-f:./%]{0,20}") {
            check(&text, "ipv6", &text);
        }
    }
}
