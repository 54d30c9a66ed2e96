//! Addresses and networks, parsed like Python's `ipaddress` does: no leading zeros, and a network must not have bits
//! set to the right of its prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// A network; an address alone is one with nothing else in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// The bits of an address that must be equal to those of `address`.
    mask: u128,
}

impl Network {
    /// Parses `10.0.0.0/8`, `10.0.0.0/255.0.0.0`, `10.0.0.0/0.255.255.255`, `fd00::/8` or an address; `None` if it is
    /// none of these.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (net, bits) = number(address);
        let mask = match (mask, address) {
            (None, _) => ones(bits),
            (Some(mask), IpAddr::V4(_)) => prefix(mask, bits).or_else(|| v4_mask(mask))?,
            (Some(mask), IpAddr::V6(_)) => prefix(mask, bits)?,
        };
        (net & !mask & ones(bits) == 0).then_some(Network { address, mask })
    }

    /// Whether the address is in this network. One of IPv4 in a form of IPv6 is of IPv6.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.is_ipv6() == address.is_ipv6()
            && number(address).0 & self.mask == number(self.address).0
    }

    /// Whether it belongs to IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }
}

/// Whether an address is in one of the networks. One of IPv4 in a form of IPv6, as a socket of both has it, is of IPv4
/// here.
pub fn any_contains(networks: &[Network], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(address))
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.address.fmt(f)?;
        let (_, bits) = number(self.address);
        match self.mask.count_ones() {
            all if all == bits => Ok(()),
            some => write!(f, "/{some}"),
        }
    }
}

fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(v4) => (v4.to_bits().into(), 32),
        IpAddr::V6(v6) => (v6.to_bits(), 128),
    }
}

fn ones(bits: u32) -> u128 {
    if bits == 0 {
        0
    } else {
        u128::MAX >> (128 - bits)
    }
}

/// The mask for a prefix length, as in `/24`.
fn prefix(text: &str, bits: u32) -> Option<u128> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let length: u32 = text.parse().ok().filter(|length| *length <= bits)?;
    Some(ones(bits) & !ones(bits - length))
}

/// The mask for `/255.255.255.0` or its inverse, `/0.0.0.255`.
fn v4_mask(text: &str) -> Option<u128> {
    let mask = text.parse::<Ipv4Addr>().ok()?.to_bits();
    let is_mask = |mask: u32| mask.leading_ones() + mask.trailing_zeros() >= 32;
    if is_mask(mask) {
        return Some(mask.into());
    }
    is_mask(!mask).then_some((!mask).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_are_told_from_anything_else() {
        let shown = |text| Network::parse(text).map(|network| network.to_string());
        for (text, network) in [
            ("10.0.0.5", "10.0.0.5"),
            ("10.0.0.5/32", "10.0.0.5"),
            ("10.1.0.0/24", "10.1.0.0/24"),
            ("10.1.0.0/255.255.255.0", "10.1.0.0/24"),
            ("10.1.0.0/0.0.0.255", "10.1.0.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("FD00::/8", "fd00::/8"),
            ("fd00::1", "fd00::1"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(network), "{text}");
        }
        for text in [
            "",
            "balancer",
            "10.0.0",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "010.0.0.1",
            "fe80::1%eth0",
            "10.0.0.5:4505",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses() {
        let contains = |network, address: &str| {
            Network::parse(network).map(|network| network.contains(address.parse().unwrap()))
        };
        assert_eq!(contains("10.1.0.0/24", "10.1.0.255"), Some(true));
        assert_eq!(contains("10.1.0.0/24", "10.1.1.0"), Some(false));
        assert_eq!(contains("0.0.0.0/0", "192.0.2.1"), Some(true));
        assert_eq!(contains("0.0.0.0/0", "::1"), Some(false));
        assert_eq!(contains("fd00::/8", "fd12::1"), Some(true));
        assert_eq!(contains("fd00::1", "fd00::2"), Some(false));
        assert_eq!(contains("::/0", "::ffff:10.0.0.1"), Some(true));
        let all = ["10.0.0.0/8", "fd00::1"].map(|text| Network::parse(text).unwrap());
        for (address, expected) in [
            ("::ffff:10.0.0.1", true),
            ("fd00::1", true),
            ("192.0.2.1", false),
        ] {
            assert_eq!(any_contains(&all, address.parse().unwrap()), expected);
        }
    }
}
