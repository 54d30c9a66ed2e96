//! Address categories of Python 3.11's module `ipaddress`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks that are `is_private`.
const PRIVATE_4: &[(u32, u32)] = &[
    (0x0000_0000, 8),
    (0x0a00_0000, 8),
    (0x7f00_0000, 8),
    (0xa9fe_0000, 16),
    (0xac10_0000, 12),
    (0xc000_0000, 29),
    (0xc000_00aa, 31),
    (0xc000_0200, 24),
    (0xc0a8_0000, 16),
    (0xc612_0000, 15),
    (0xc633_6400, 24),
    (0xcb00_7100, 24),
    (0xf000_0000, 4),
    (0xffff_ffff, 32),
];

const PRIVATE_6: &[(u128, u32)] = &[
    (0x1, 128),
    (0x0, 128),
    (0xffff << 32, 96),
    (0x0100 << 112, 64),
    (0x2001 << 112, 23),
    (0x2001_0002 << 96, 48),
    (0x2001_0db8 << 96, 32),
    (0x2001_0010 << 96, 28),
    (0xfc00 << 112, 7),
    (0xfe80 << 112, 10),
];

/// `IPv6Address.is_reserved`.
const RESERVED_6: &[(u128, u32)] = &[
    (0, 8),
    (0x0100 << 112, 8),
    (0x0200 << 112, 7),
    (0x0400 << 112, 6),
    (0x0800 << 112, 5),
    (0x1000 << 112, 4),
    (0x4000 << 112, 3),
    (0x6000 << 112, 3),
    (0x8000 << 112, 3),
    (0xa000 << 112, 3),
    (0xc000 << 112, 3),
    (0xe000 << 112, 4),
    (0xf000 << 112, 5),
    (0xf800 << 112, 6),
    (0xfe00 << 112, 9),
];

fn in_4(address: Ipv4Addr, networks: &[(u32, u32)]) -> bool {
    let own = u32::from(address);
    networks
        .iter()
        .any(|(net, length)| *length == 0 || (own ^ net) >> (32 - length) == 0)
}

fn in_6(address: Ipv6Addr, networks: &[(u128, u32)]) -> bool {
    let own = u128::from(address);
    networks
        .iter()
        .any(|(net, length)| *length == 0 || (own ^ net) >> (128 - length) == 0)
}

/// `is_private`.
pub fn private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => in_4(v4, PRIVATE_4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => in_4(v4, PRIVATE_4),
            None => in_6(v6, PRIVATE_6),
        },
    }
}

/// Whether the address has the property named by an option of Salt's filters; `None` for an unknown option, which is
/// ignored.
pub fn has(address: IpAddr, option: &str) -> Option<bool> {
    Some(match (option, address) {
        ("global" | "public", _) => !private(address),
        ("private", _) => private(address),
        ("link-local" | "linklocal" | "ll" | "link_local", IpAddr::V4(v4)) => v4.is_link_local(),
        ("link-local" | "linklocal" | "ll" | "link_local", IpAddr::V6(v6)) => {
            in_6(v6, &[(0xfe80 << 112, 10)])
        }
        ("loopback" | "lo", _) => address.is_loopback(),
        ("multicast", _) => address.is_multicast(),
        ("reserved", IpAddr::V4(v4)) => in_4(v4, &[(0xf000_0000, 4)]),
        ("reserved", IpAddr::V6(v6)) => in_6(v6, RESERVED_6),
        ("site-local" | "sl" | "site_local", IpAddr::V4(_)) => false,
        ("site-local" | "sl" | "site_local", IpAddr::V6(v6)) => in_6(v6, &[(0xfec0 << 112, 10)]),
        ("unspecified", _) => address.is_unspecified(),
        _ => return None,
    })
}
