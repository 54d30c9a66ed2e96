//! Salt's network filters (`salt/utils/network.py`).

use super::super::cx::Cx;
use super::super::error::{Error, ErrorKind};
use super::super::value::{Args, Dict, Obj, quote};
use super::{FilterFn, net_kinds, required, text_of};
use num_bigint::BigInt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) const TABLE: &[(&str, FilterFn)] = &[
    ("filter_by_networks", filter_by_networks),
    ("ip_host", ip_host),
    ("ipaddr", |cx, v, a| addresses(cx, v, a, "ipaddr", None)),
    ("ipv4", |cx, v, a| addresses(cx, v, a, "ipv4", Some(4))),
    ("ipv6", |cx, v, a| addresses(cx, v, a, "ipv6", Some(6))),
    ("ipwrap", ipwrap),
    ("is_ip", |_, v, a| is_address(v, a, "is_ip_filter", None)),
    ("is_ipv4", |_, v, a| {
        is_address(v, a, "is_ipv4_filter", Some(4))
    }),
    ("is_ipv6", |_, v, a| {
        is_address(v, a, "is_ipv6_filter", Some(6))
    }),
    ("mac_str_to_bytes", mac_str_to_bytes),
    ("network_hosts", network_hosts),
    ("network_size", network_size),
];

/// An address, its scope, and the prefix length of its network.
struct Interface {
    address: IpAddr,
    scope: String,
    length: u32,
    /// Whether a network was given.
    with_network: bool,
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Interface {
    /// `ip_address(text)`, else `ip_interface(text)`.
    fn parse(text: &str) -> Option<Interface> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        let (address, scope) = match address.split_once('%') {
            Some((address, scope)) if !scope.is_empty() && !scope.contains('%') => (address, scope),
            Some(_) => return None,
            None => (address, ""),
        };
        let address: IpAddr = if scope.is_empty() {
            address.parse().ok()?
        } else {
            IpAddr::V6(address.parse().ok()?)
        };
        let length = match mask {
            None => width(address),
            Some(mask) => prefix_length(address, mask)?,
        };
        Some(Interface {
            address,
            scope: scope.to_owned(),
            length,
            with_network: mask.is_some(),
        })
    }

    fn version(&self) -> i64 {
        if self.address.is_ipv4() { 4 } else { 6 }
    }

    /// The address without the network.
    fn bare(&self) -> String {
        let address = shown(self.address);
        if self.scope.is_empty() {
            address
        } else {
            format!("{address}%{}", self.scope)
        }
    }

    /// `str()` of the parsed value.
    fn text(&self) -> String {
        if self.with_network {
            format!("{}/{}", self.bare(), self.length)
        } else {
            self.bare()
        }
    }

    fn first(&self) -> u128 {
        number(self.address) & mask(width(self.address), self.length)
    }

    /// Number of addresses in the network; a big integer because of IPv6.
    fn size(&self) -> BigInt {
        BigInt::from(1) << (width(self.address) - self.length)
    }
}

/// Python writes IPv4 addresses embedded in IPv6 addresses in hexadecimal too.
fn shown(address: IpAddr) -> String {
    let IpAddr::V6(v6) = address else {
        return address.to_string();
    };
    match v6.to_ipv4_mapped() {
        Some(v4) => {
            let [a, b, c, d] = v4.octets();
            let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            format!("::ffff:{high:x}:{low:x}")
        }
        None => v6.to_string(),
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

fn address(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

fn mask(width: u32, length: u32) -> u128 {
    let all = u128::MAX >> (128 - width);
    all & !all.checked_shr(length).unwrap_or(0)
}

/// A prefix length, or an IPv4 netmask or hostmask.
fn prefix_length(address: IpAddr, text: &str) -> Option<u32> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().ok().filter(|length| *length <= width(address));
    }
    if address.is_ipv6() {
        return None;
    }
    let mask: Ipv4Addr = text.parse().ok()?;
    let mask = u32::from(mask);
    if mask.leading_ones() + mask.trailing_zeros() >= 32 {
        return Some(mask.leading_ones());
    }
    let host = !mask;
    (host.leading_ones() + host.trailing_zeros() >= 32).then(|| host.leading_ones())
}

/// The text of an address if it has this version and all properties in `options` (`salt/utils/network.py _is_ipv`).
fn accepted(value: &Obj, version: i64, options: &[String]) -> Option<String> {
    let found = match value {
        Obj::Int(n) if (0..1 << 32).contains(n) => Interface {
            address: Ipv4Addr::from(*n as u32).into(),
            scope: String::new(),
            length: 32,
            with_network: false,
        },
        other => Interface::parse(other.as_str()?)?,
    };
    let fits = found.version() == version
        && options
            .iter()
            .all(|option| net_kinds::has(found.address, option).unwrap_or(true));
    fits.then(|| found.text())
}

fn options(argument: &Option<Obj>) -> Result<Vec<String>, Error> {
    match argument {
        Some(obj) if obj.truthy()? => {
            let options = text_of(obj)?.split(',');
            Ok(options.map(|option| option.trim().to_owned()).collect())
        }
        _ => Ok(Vec::new()),
    }
}

fn is_address(value: &Obj, args: &Args, name: &str, version: Option<i64>) -> Result<Obj, Error> {
    let bound = args.bind(name, &["options"])?;
    let options = options(&bound[0])?;
    if let Obj::Undefined(missing) = value {
        return Err(missing.error());
    }
    let versions = version.map_or(vec![4, 6], |version| vec![version]);
    let mut accepted = versions.iter().map(|v| accepted(value, *v, &options));
    Ok(Obj::Bool(accepted.any(|text| text.is_some())))
}

fn addresses(
    cx: &mut Cx,
    value: &Obj,
    args: &Args,
    name: &str,
    version: Option<i64>,
) -> Result<Obj, Error> {
    let bound = args.bind(name, &["options"])?;
    filtered(cx, value, version, &options(&bound[0])?)
}

/// The addresses of one version, or first IPv4, then IPv6; a single text gives a single text.
fn filtered(
    cx: &mut Cx,
    value: &Obj,
    version: Option<i64>,
    options: &[String],
) -> Result<Obj, Error> {
    let versions = version.map_or(vec![4, 6], |version| vec![version]);
    match value {
        Obj::Undefined(missing) => Err(missing.error()),
        Obj::Str(_) | Obj::Markup(_) => {
            let mut accepted = versions.iter().map(|v| accepted(value, *v, options));
            Ok(accepted.find_map(|text| text).into())
        }
        Obj::List(_) | Obj::Tuple(_) | Obj::Iter(_) => {
            let items = cx.iterate(value)?;
            let mut out = Vec::new();
            for version in versions {
                let accepted = items
                    .iter()
                    .filter_map(|item| accepted(item, version, options));
                out.extend(accepted.map(Obj::from));
            }
            Ok(Obj::list(out))
        }
        _ => Ok(Obj::None),
    }
}

/// Applies a function to the addresses that pass the options: to one for a text, else to a list.
fn map_addresses(
    cx: &mut Cx,
    value: &Obj,
    args: &Args,
    name: &str,
    apply: fn(&mut Cx, &Interface) -> Result<Obj, Error>,
) -> Result<Obj, Error> {
    let bound = args.bind(name, &["options", "version"])?;
    let version = bound[1].as_ref().and_then(Obj::as_int);
    let found = filtered(cx, value, version, &options(&bound[0])?)?;
    if !found.truthy()? {
        return Ok(Obj::None);
    }
    if let Some(text) = found.as_str() {
        return Interface::parse(text).map_or(Ok(Obj::None), |one| apply(cx, &one));
    }
    let mut out = Vec::new();
    for item in cx.iterate(&found)? {
        if let Some(one) = item.as_str().and_then(Interface::parse) {
            out.push(apply(cx, &one)?);
        }
    }
    Ok(Obj::list(out))
}

fn ip_host(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    map_addresses(cx, value, args, "ip_host", |_, one| {
        Ok(format!("{}/{}", one.bare(), one.length).into())
    })
}

fn network_size(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    map_addresses(cx, value, args, "network_size", |_, one| {
        Ok(Obj::big(one.size()))
    })
}

/// The hosts of a network: without network and broadcast address, unless the network is too small for them.
fn network_hosts(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    map_addresses(cx, value, args, "network_hosts", |cx, one| {
        let size = u128::try_from(one.size()).unwrap_or(u128::MAX);
        let (mut from, mut to) = (one.first(), one.first().saturating_add(size - 1));
        if size > 2 {
            from += 1;
            to -= u128::from(one.address.is_ipv4());
        }
        let count = usize::try_from(to - from)
            .unwrap_or(usize::MAX)
            .saturating_add(1);
        cx.check_size(count)?;
        cx.charge(count)?;
        let hosts = (from..=to).map(|n| Obj::from(shown(address(n, one.address))));
        Ok(Obj::list(hosts.collect()))
    })
}

fn bracketed(value: &Obj) -> Obj {
    match accepted(value, 6, &[]) {
        Some(text) if !text.contains('/') => format!("[{text}]").into(),
        _ => value.clone(),
    }
}

fn ipwrap(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("ipwrap", &[])?;
    Ok(match value {
        Obj::Undefined(missing) => return Err(missing.error()),
        Obj::List(list) => Obj::list(list.borrow().iter().map(bracketed).collect()),
        Obj::Tuple(items) => Obj::list(items.iter().map(bracketed).collect()),
        other => bracketed(other),
    })
}

fn filter_by_networks(cx: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    let bound = args.bind_required("filter_by_networks", &["networks"], 1)?;
    let networks = required(&bound[0]);
    if networks.is_none() {
        return Ok(value.clone());
    }
    let mut parsed = Vec::new();
    for network in cx.iterate(&networks)? {
        let text = network.to_str()?;
        let Some(one) = Interface::parse(&text) else {
            return Err(Error::value_error(format!(
                "{} does not appear to be an IPv4 or IPv6 network",
                quote(&text)
            )));
        };
        if one.first() != number(one.address) {
            return Err(Error::value_error(format!("{text} has host bits set")));
        }
        parsed.push(one);
    }
    match value {
        Obj::Dict(dict) => {
            let entries: Vec<(Obj, Obj)> = {
                let dict = dict.borrow();
                dict.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
            };
            let mut out = Dict::new();
            for (key, item) in entries {
                out.insert(key, within(cx, &item, &parsed)?)?;
            }
            Ok(out.into())
        }
        Obj::List(_) | Obj::Tuple(_) | Obj::Str(_) | Obj::Range(_) => within(cx, value, &parsed),
        Obj::Undefined(missing) => Err(missing.error()),
        other => Err(Error::value_error(format!(
            "Do not know how to filter a <class '{}'>",
            other.type_name()
        ))),
    }
}

fn within(cx: &mut Cx, values: &Obj, networks: &[Interface]) -> Result<Obj, Error> {
    let mut out = Vec::new();
    for value in cx.iterate(values)? {
        let text = value.to_str()?;
        let parsed = Interface::parse(&text).filter(|one| !one.with_network);
        for network in networks {
            let Some(own) = &parsed else {
                return Err(Error::value_error(format!(
                    "{} does not appear to be an IPv4 or IPv6 address",
                    quote(&text)
                )));
            };
            let mask = mask(width(network.address), network.length);
            if own.version() == network.version() && number(own.address) & mask == network.first() {
                out.push(value.clone());
            }
        }
    }
    Ok(Obj::list(out))
}

fn mac_str_to_bytes(_: &mut Cx, value: &Obj, args: &Args) -> Result<Obj, Error> {
    args.bind("mac_str_to_bytes", &[])?;
    let text = text_of(value)?;
    let chars: Vec<char> = text.chars().collect();
    let digits: Vec<char> = match chars.len() {
        12 => chars,
        17 => chars.iter().copied().filter(|c| *c != chars[2]).collect(),
        _ => return Err(Error::value_error("Invalid MAC address")),
    };
    let mut bytes = Vec::new();
    for pair in digits.chunks(2) {
        let pair: String = pair.iter().collect();
        let byte = u8::from_str_radix(&pair, 16).map_err(|_| {
            Error::new(
                ErrorKind::Value,
                format!("invalid literal for int() with base 16: {}", quote(&pair)),
            )
        })?;
        bytes.push(byte);
    }
    Ok(Obj::Bytes(bytes.into()))
}
