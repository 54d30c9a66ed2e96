//! Option types with a fixed set of words, and the directories of environments.

use super::value::{Converted, OptionValue, converted, text, with_note};
use halite_wire::network::{Network, any_contains};
use halite_wire::{KeyType, Map, Transport, Value};
use std::net::IpAddr;
use std::path::Path;

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident = $type:literal { $($(#[$word_meta:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$word_meta])* $variant,)*
        }

        impl OptionValue for $name {
            const TYPE: &'static str = $type;

            fn from_value(value: &Value) -> Option<Converted<Self>> {
                match text(value)?.as_str() {
                    $($word => converted($name::$variant),)*
                    _ => None,
                }
            }

            fn to_value(&self) -> Value {
                match self {
                    $($name::$variant => $word.into(),)*
                }
            }
        }
    )*};
}

words! {
    /// Release of Salt whose tools are used on this host.
    SaltSeries = "3006, 3007 or 3008" {
        /// 3006.x
        S3006 = "3006",
        /// 3007.x
        S3007 = "3007",
        /// 3008.x
        S3008 = "3008",
    }

    /// Framing of the event bus towards listeners.
    BusFraming = "auto, bare or prefixed" {
        /// What the stock tools of `salt_series` read.
        Auto = "auto",
        /// A msgpack map without a prefix.
        Bare = "bare",
        /// Four bytes of length before each map.
        Prefixed = "prefixed",
    }

    /// Format of log lines.
    LogFormat = "salt or json" {
        /// See `log_fmt_console` and `log_fmt_logfile`.
        Salt = "salt",
        /// One object per line.
        Json = "json",
    }

    /// How much of the job cache stock tools can read.
    JobCacheCompat = "auto, none, load or full" {
        /// `full` where stock tools are installed, the configuration directory is Salt's, or an option is set that only
        /// Salt has, otherwise `load`.
        Auto = "auto",
        /// Nothing.
        None = "none",
        /// The load of each job, without which the stock CLI does not wait for returns.
        Load = "load",
        /// Every return as well.
        Full = "full",
    }
}

impl SaltSeries {
    /// How this series writes `_stamp` (reference `salt-local.md` 1.3).
    pub fn stamp_style(self) -> halite_ipc::StampStyle {
        match self {
            SaltSeries::S3006 | SaltSeries::S3007 => halite_ipc::StampStyle::Naive,
            SaltSeries::S3008 => halite_ipc::StampStyle::Offset,
        }
    }
}

impl OptionValue for Transport {
    const TYPE: &'static str = "zeromq, tcp or ws";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        converted(Transport::of_name(&text(value)?)?)
    }

    fn to_value(&self) -> Value {
        self.name().into()
    }
}

impl OptionValue for KeyType {
    const TYPE: &'static str = "rsa or ed25519";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        converted(KeyType::of_name(&text(value)?)?)
    }

    fn to_value(&self) -> Value {
        self.name().into()
    }
}

/// What is to be told where `key_type` asks for another type than that of the key in `path`.
pub fn kept_key(key_type: KeyType, present: KeyType, path: &Path) -> Option<String> {
    let is_asked = key_type != KeyType::default() && key_type != present;
    is_asked.then(|| {
        format!(
            "key_type: it is for new keys; {} is an {present} key and stays in use (docs/operations.md, \"The type of a key\")",
            path.display()
        )
    })
}

/// The transports of a list (`transports`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transports(pub Vec<Transport>);

impl OptionValue for Transports {
    const TYPE: &'static str = "a list of zeromq, tcp and ws";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        let one = |value: &Value| Transport::of_name(&text(value)?);
        converted(Transports(match value {
            Value::Array(items) => items.iter().map(one).collect::<Option<_>>()?,
            single => vec![one(single)?],
        }))
    }

    fn to_value(&self) -> Value {
        let names: Vec<String> = self.0.iter().map(Transport::to_string).collect();
        names.into()
    }
}

/// Addresses and networks (`proxy_protocol`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<Network>);

impl Networks {
    /// Whether an address is in one of them; one of IPv4 in a form of IPv6 is of IPv4.
    pub fn contain(&self, address: IpAddr) -> bool {
        any_contains(&self.0, address)
    }
}

impl OptionValue for Networks {
    const TYPE: &'static str =
        "a list of addresses and networks such as 10.0.0.5 and 10.1.0.0/24 (no names, no ports)";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        let one = |value: &Value| Network::parse(value.as_str()?.trim());
        converted(Networks(match value {
            Value::Array(items) => items.iter().map(one).collect::<Option<_>>()?,
            single => vec![one(single)?],
        }))
    }

    fn to_value(&self) -> Value {
        let texts: Vec<String> = self.0.iter().map(Network::to_string).collect();
        texts.into()
    }
}

/// Environments and the directories of each, in the order of the file (`file_roots`, `pillar_roots`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roots(pub Vec<(String, Vec<String>)>);

impl Roots {
    /// The directories of one environment.
    pub fn get(&self, env: &str) -> Option<&[String]> {
        self.0
            .iter()
            .find(|(name, _)| name == env)
            .map(|(_, dirs)| dirs.as_slice())
    }
}

/// A list of anything (`gitfs_remotes`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Items(pub Vec<Value>);

impl OptionValue for Items {
    const TYPE: &'static str = "a list";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        converted(Items(value.as_array()?.to_vec()))
    }

    fn to_value(&self) -> Value {
        Value::Array(self.0.clone())
    }
}

/// A list of names and of maps with settings (`engines`); one map stands for a list of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entries(pub Vec<Value>);

impl OptionValue for Entries {
    const TYPE: &'static str = "a list or a map";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value {
            Value::Map(map) if map.is_empty() => converted(Entries::default()),
            Value::Map(_) => converted(Entries(vec![value.clone()])),
            _ => converted(Entries(value.as_array()?.to_vec())),
        }
    }

    fn to_value(&self) -> Value {
        Value::Array(self.0.clone())
    }
}

/// A switch that may also be a number or a list (`state_queue`, `state_aggregate`).
#[derive(Clone, Debug, PartialEq)]
pub struct Switch(pub Value);

impl OptionValue for Switch {
    const TYPE: &'static str = "true, false, a whole number or a list";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value {
            Value::Bool(_) | Value::Int(_) | Value::Array(_) => converted(Switch(value.clone())),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

impl OptionValue for Roots {
    const TYPE: &'static str = "a map of environments to lists of directories";

    /// An environment whose value is not a list has no directories; names may be numbers; patterns are expanded
    /// (`salt/config/__init__.py _normalize_roots`).
    fn from_value(value: &Value) -> Option<Converted<Self>> {
        let mut out = Vec::new();
        for (env, dirs) in value.as_map()?.iter() {
            let dirs = dirs.as_array().unwrap_or_default();
            let dirs: Vec<String> = dirs.iter().map(text).collect::<Option<_>>()?;
            let dirs = dirs.iter().flat_map(|d| super::glob::expand_dir(d));
            out.push((text(env)?, dirs.collect()));
        }
        converted(Roots(out))
    }

    fn to_value(&self) -> Value {
        let entries = self.0.iter();
        Value::Map(
            entries
                .map(|(env, dirs)| (env.as_str(), dirs.clone()))
                .collect::<Map>(),
        )
    }
}

/// Who may choose the lifetime of their token (`token_expire_user_override`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOverride {
    /// Nobody or everybody.
    All(bool),
    /// Users, per system of external authentication.
    Users(Vec<(String, Vec<String>)>),
}

impl TokenOverride {
    /// Whether this user of this system may choose it.
    pub fn allows(&self, system: &str, user: &str) -> bool {
        match self {
            TokenOverride::All(all) => *all,
            TokenOverride::Users(systems) => systems
                .iter()
                .any(|(name, users)| name == system && users.iter().any(|u| u == user)),
        }
    }
}

impl OptionValue for TokenOverride {
    const TYPE: &'static str = "true, false or a map of systems to lists of users";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        if let Some(all) = value.as_bool() {
            return converted(TokenOverride::All(all));
        }
        let mut systems = Vec::new();
        for (system, users) in value.as_map()?.iter() {
            let users = users.as_array()?.iter().map(text).collect::<Option<_>>()?;
            systems.push((text(system)?, users));
        }
        converted(TokenOverride::Users(systems))
    }

    fn to_value(&self) -> Value {
        match self {
            TokenOverride::All(all) => (*all).into(),
            TokenOverride::Users(systems) => {
                let pairs = systems.iter();
                Value::Map(
                    pairs
                        .map(|(s, users)| (s.as_str(), users.clone()))
                        .collect(),
                )
            }
        }
    }
}

/// What minions may ask of others (`peer`, `peer_run`).
#[derive(Clone, Debug, PartialEq)]
pub struct PeerRules(pub Map);

impl OptionValue for PeerRules {
    const TYPE: &'static str = "a map of ids to lists of functions";

    /// `true` and `false` permit nothing, as in Salt (`salt/master.py AESFuncs.__verify_minion_publish`).
    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value.as_bool() {
            Some(true) => with_note(
                PeerRules(Map::new()),
                "permits nothing; write a map, for example `.*: ['.*']`",
            ),
            Some(false) => converted(PeerRules(Map::new())),
            None => Map::from_value(value).map(|read| Converted {
                value: PeerRules(read.value),
                note: read.note,
            }),
        }
    }

    fn to_value(&self) -> Value {
        Value::Map(self.0.clone())
    }
}

/// The map of reactions: a list of one-entry maps, or the path of a file with such a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Reactions(pub Value);

impl OptionValue for Reactions {
    const TYPE: &'static str = "a list of maps of one tag to its files, or a path";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        match value {
            Value::Nil => converted(Reactions(Value::Array(Vec::new()))),
            Value::Array(_) | Value::Str(_) => converted(Reactions(value.clone())),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

/// The keys of `decrypt_pillar`, unchecked for the same reason as [`ExtPillars`].
#[derive(Clone, Debug, PartialEq)]
pub struct Decrypt(pub Value);

impl OptionValue for Decrypt {
    const TYPE: &'static str = "a list of keys, or of maps of a key to its renderer";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        converted(Decrypt(value.clone()))
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}

/// The entries of `ext_pillar`. Anything but a list of maps is kept as it is: as in Salt, the error shows up in each
/// pillar and does not keep the master from starting.
#[derive(Clone, Debug, PartialEq)]
pub struct ExtPillars(pub Value);

impl OptionValue for ExtPillars {
    const TYPE: &'static str = "a list of maps of one name to its arguments";

    fn from_value(value: &Value) -> Option<Converted<Self>> {
        converted(ExtPillars(value.clone()))
    }

    fn to_value(&self) -> Value {
        self.0.clone()
    }
}
