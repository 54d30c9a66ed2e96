//! Arguments of networks, and of a container's place in one.

use super::super::super::{CallError, python};
use super::forms::{self, Formed};
use super::{Faults, Given, Rules, named, unique};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};

const ALIASES: &[(&str, &str)] = &[
    ("aux_address", "aux_addresses"),
    ("driver_opt", "options"),
    ("driver_opts", "options"),
    ("ip_range", "iprange"),
    ("ipv6", "enable_ipv6"),
];

/// Arguments of a pool of addresses and their names in the API.
const POOL: [(&str, &str); 4] = [
    ("subnet", "Subnet"),
    ("iprange", "IPRange"),
    ("gateway", "Gateway"),
    ("aux_addresses", "AuxiliaryAddresses"),
];
/// A network to be created.
#[derive(Debug)]
pub struct Plan {
    body: Map,
    /// An argument that there is not.
    unknown: Option<String>,
}

impl Plan {
    /// What is sent.
    ///
    /// # Errors
    /// An argument that there is not: stock finds that only now.
    pub fn body(&self) -> Result<Map> {
        match &self.unknown {
            None => Ok(self.body.clone()),
            Some(key) => Err(CallError::Command(format!(
                "Unable to perform create_network: NetworkApiMixin.create_network() got an unexpected keyword argument \
                 '{key}'"
            ))),
        }
    }
}

/// Reads the arguments of a network.
///
/// # Errors
/// Arguments that cannot be read.
pub fn network(name: &str, given: Map, rules: &Rules) -> Result<Plan> {
    let mut faults = Faults::default();
    let mut good = Vec::new();
    for one in named(given, ALIASES) {
        let skipped = rules.skips(&one.name) || rules.skips(&one.spelled);
        let value = match one.name.as_str() {
            "options" | "ipam_opts" if !skipped => options(&one.value),
            "labels" if !skipped => Ok(forms::labels(&one.value)),
            _ => Ok(one.value.clone()),
        };
        match value {
            Ok(value) => good.push(Given { value, ..one }),
            Err(why) => faults.invalid(&one.spelled, why),
        }
    }
    let mut given = unique(good, rules, &mut faults);
    let mut pools = Vec::new();
    let mut own = Map::new();
    for (key, _) in POOL {
        if let Some(value) = given.remove(key) {
            own.set(key, value);
        }
    }
    let wrong = "ipam_pools must be a list of dictionaries";
    match given.remove("ipam_pools") {
        None | Some(Value::Nil) => {}
        Some(Value::Array(list)) => {
            for one in list {
                match one {
                    Value::Map(map) => pools.push(map),
                    _ => faults.invalid("ipam_pools", wrong),
                }
            }
        }
        Some(_) => faults.invalid("ipam_pools", wrong),
    }
    if !own.is_empty() {
        pools.push(own);
    }
    let mut config = Vec::new();
    for pool in pools {
        let pool = unique(named(pool, ALIASES), rules, &mut faults);
        let known = |key: &Value| POOL.iter().any(|(name, _)| key.is_str(name));
        if let Some((key, _)) = pool.iter().find(|(key, _)| !known(key)) {
            return Err(CallError::Command(format!(
                "IPAMPool.__init__() got an unexpected keyword argument '{}'",
                python::str(key)
            )));
        }
        let mut made = Map::new();
        for (key, api) in POOL {
            let Some(value) = pool.get(key) else { continue };
            let value = if rules.skips(key) {
                Ok(value.clone())
            } else {
                pool_value(key, value, rules.validate)
            };
            match value {
                Ok(value) => made.set(api, value),
                Err(why) => faults.invalid(key, why),
            }
        }
        config.push(Value::from(made));
    }
    let mut ipam = map! {"Driver" => "default", "Config" => config};
    let mut body = map! {"Name" => name, "CheckDuplicate" => true};
    let mut unknown = None;
    for (key, value) in given.iter() {
        let key = python::str(key);
        let flag = Value::from(value.truthy());
        let (place, value) = match key.as_str() {
            "driver" => ("Driver", value.clone()),
            "options" => ("Options", value.clone()),
            "check_duplicate" => ("CheckDuplicate", flag),
            "internal" => ("Internal", flag),
            "labels" => ("Labels", value.clone()),
            "enable_ipv6" => ("EnableIPv6", flag),
            "attachable" => ("Attachable", flag),
            "scope" => ("Scope", value.clone()),
            "ingress" => ("Ingress", flag),
            "ipam_driver" => {
                ipam.set("Driver", value.clone());
                continue;
            }
            "ipam_opts" => {
                ipam.set("Options", value.clone());
                continue;
            }
            _ => {
                unknown.get_or_insert(key);
                continue;
            }
        };
        if value.truthy() || place == "CheckDuplicate" {
            body.set(place, value);
        }
    }
    faults.check()?;
    body.set("IPAM", ipam);
    Ok(Plan { body, unknown })
}

fn options(value: &Value) -> Formed {
    Ok(forms::with_texts(forms::pairs(value, '=')?).into())
}

fn pool_value(key: &str, value: &Value, validate: bool) -> Formed {
    let text = python::str(value);
    match key {
        "subnet" | "iprange" => {
            if validate {
                forms::subnet(&text)?;
            }
            Ok(text.into())
        }
        "gateway" => {
            forms::ip(&text, validate)?;
            Ok(text.into())
        }
        _ => {
            let hosts = forms::pairs(value, '=')?;
            for (_, address) in hosts.iter() {
                forms::ip(&python::str(address), validate)?;
            }
            Ok(hosts.into())
        }
    }
}

/// A container's place in a network (`EndpointConfig`).
///
/// # Errors
/// An argument that there is not.
pub fn endpoint(given: &Map) -> Result<Map> {
    let mut made = Map::new();
    let mut ipam = Map::new();
    for (key, value) in given.iter() {
        let key = python::str(key);
        if value.is_nil() {
            continue;
        }
        match key.as_str() {
            "aliases" => made.set("Aliases", value.clone()),
            "links" => made.set("Links", links(value)),
            "ipv4_address" => ipam.set("IPv4Address", value.clone()),
            "ipv6_address" => ipam.set("IPv6Address", value.clone()),
            "link_local_ips" => ipam.set("LinkLocalIPs", value.clone()),
            "driver_opt" => made.set("DriverOpts", value.clone()),
            "mac_address" => made.set("MacAddress", value.clone()),
            _ => {
                return Err(CallError::Command(format!(
                    "Unable to perform connect_container_to_network: \
                     NetworkApiMixin.connect_container_to_network() got an unexpected keyword argument '{key}'"
                )));
            }
        }
    }
    if !ipam.is_empty() {
        made.set("IPAMConfig", ipam);
    }
    Ok(made)
}

/// Links as texts: of a map, or of a list of pairs or texts.
fn links(value: &Value) -> Value {
    let joined =
        |a: &Value, b: &Value| Value::from(format!("{}:{}", python::str(a), python::str(b)));
    match value {
        Value::Map(map) => Value::Array(map.iter().map(|(k, v)| joined(k, v)).collect()),
        Value::Array(list) => {
            let one = |link: &Value| match link.as_array() {
                Some([a, b]) => joined(a, b),
                _ => link.clone(),
            };
            Value::Array(list.iter().map(one).collect())
        }
        other => other.clone(),
    }
}
