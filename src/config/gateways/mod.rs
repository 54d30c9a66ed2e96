//! The option `gateways`: a map of foreign protocols, each with its own settings.

pub mod arena;
pub mod collective;

pub use arena::ArenaGateway;
pub use collective::{Broker, CollectiveGateway, Plugin};

use super::value::OptionValue;
use super::{ConfigError, MasterConfig, finish};
use halite_wire::{Map, Value};
use std::borrow::Cow;
use std::time::Duration;

/// Settings of the gateway for sysinspect minions (`gateways: sysinspect: {...}`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysinspectGateway {
    /// `interface`: listen address; default is the master's.
    pub interface: String,
    /// `port`.
    pub port: u16,
    /// `ping_interval`: time between heartbeats.
    pub ping_interval: Duration,
    /// `session_timeout`: idle time after which a session is closed.
    pub session_timeout: Duration,
    /// `hello_timeout`: how long a connection may stay without a session, and how long a frame may stay incomplete.
    pub hello_timeout: Duration,
    /// `job_timeout`: how long a minion may take for a command.
    pub job_timeout: Duration,
    /// `max_frame`: bytes of the largest frame.
    pub max_frame: usize,
    /// `max_queue`: bytes that may be queued for one minion.
    pub max_queue: usize,
    /// `max_connections`: total.
    pub max_connections: usize,
    /// `max_strangers`: connections without a session per address.
    pub max_strangers: usize,
    /// `registrations_per_minute`: per address.
    pub registrations_per_minute: u32,
    /// `max_pending`: keys that may wait for the operator to accept them; further registrations are refused.
    pub max_pending: usize,
    /// `auto_accept`: accept the key of every sysinspect minion.
    pub auto_accept: bool,
}

/// The type of a setting.
pub(super) enum SettingKind {
    Text,
    Flag,
    /// A list of text; a single text counts as a list of one.
    List,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number within these bounds.
    Number(u64, u64),
}

/// Settings of `gateways: sysinspect:`.
const SYSINSPECT: &[(&str, SettingKind)] = &[
    ("interface", SettingKind::Text),
    ("port", SettingKind::Number(1, 65535)),
    ("ping_interval", SettingKind::Number(1, 3600)),
    ("session_timeout", SettingKind::Number(2, 86_400)),
    ("hello_timeout", SettingKind::Number(1, 3600)),
    ("job_timeout", SettingKind::Number(1, 604_800)),
    ("max_frame", SettingKind::Number(1024, 64 << 20)),
    ("max_queue", SettingKind::Number(1024, 1 << 30)),
    ("max_connections", SettingKind::Number(1, 1_000_000)),
    ("max_strangers", SettingKind::Number(1, 1_000_000)),
    (
        "registrations_per_minute",
        SettingKind::Number(1, 1_000_000),
    ),
    ("max_pending", SettingKind::Number(0, 10_000_000)),
    ("auto_accept", SettingKind::Flag),
];

/// Gateways by their name in the option.
const GATEWAYS: &[(&str, &[(&str, SettingKind)])] = &[
    ("arena", arena::SETTINGS),
    ("collective", collective::SETTINGS),
    ("sysinspect", SYSINSPECT),
];

/// Gateways that reach their agents through a broker, so that in a cluster one master after the other can run them. Minions of
/// sysinspect connect to one master.
pub const THROUGH_BROKERS: [&str; 2] = ["arena", "collective"];

impl MasterConfig {
    /// The configured gateways that one master of the cluster runs; none without a cluster.
    pub fn gateways_of_clusters(&self) -> Vec<&'static str> {
        let is_there = |name: &&str| gateway_settings(&self.gateways, name).is_some();
        match self.cluster() {
            Some(_) => THROUGH_BROKERS.into_iter().filter(is_there).collect(),
            None => Vec::new(),
        }
    }

    /// Settings of the sysinspect gateway; `None` if it is not enabled.
    pub fn sysinspect_gateway(&self) -> Option<SysinspectGateway> {
        let given = gateway_settings(&self.gateways, "sysinspect")?;
        let number = |name: &str, default: u64| number(&given, name, default);
        let size =
            |name: &str, default: u64| usize::try_from(number(name, default)).unwrap_or(usize::MAX);
        let seconds = |name: &str, default: u64| Duration::from_secs(number(name, default));
        Some(SysinspectGateway {
            interface: given.str("interface").unwrap_or(&self.interface).to_owned(),
            port: u16::try_from(number("port", 4200)).unwrap_or(4200),
            ping_interval: seconds("ping_interval", 5),
            session_timeout: seconds("session_timeout", 30),
            hello_timeout: seconds("hello_timeout", 10),
            job_timeout: seconds("job_timeout", 300),
            max_frame: size("max_frame", 1 << 20),
            max_queue: size("max_queue", 4 << 20),
            max_connections: size("max_connections", 10_000),
            max_strangers: size("max_strangers", 512),
            registrations_per_minute: u32::try_from(number("registrations_per_minute", 60))
                .unwrap_or(u32::MAX),
            max_pending: size("max_pending", 10_000),
            auto_accept: given.get("auto_accept").and_then(Value::as_bool) == Some(true),
        })
    }

    /// Refuses invalid settings; returns a warning per unknown gateway.
    pub(super) fn check_gateways(
        &self,
        checks: &finish::Checks,
    ) -> Result<Vec<String>, ConfigError> {
        let mut warnings = Vec::new();
        for (name, settings) in self.gateways.iter() {
            let name = name.as_str().unwrap_or_default();
            let Some((_, known)) = GATEWAYS.iter().find(|(known, _)| *known == name) else {
                let names: Vec<&str> = GATEWAYS.iter().map(|(name, _)| *name).collect();
                warnings.push(unknown("gateways", name, &names));
                continue;
            };
            let path = format!("gateways:{name}");
            match settings {
                Value::Map(settings) => {
                    warnings.extend(check(&path, settings, known, checks)?);
                }
                Value::Nil | Value::Bool(_) => {}
                other => return Err(checks.bad(&path, other, "a map of settings, true or false")),
            }
        }
        if let Some(gateway) = self.arena_gateway() {
            gateway.check(checks)?;
        }
        if let Some(gateway) = self.collective_gateway() {
            gateway.check(checks)?;
        }
        if let Some(gateway) = self.sysinspect_gateway() {
            let silent = gateway.session_timeout <= gateway.ping_interval;
            if silent {
                let found = Value::from(gateway.session_timeout.as_secs());
                let expected = "longer than 'ping_interval', or every session would end";
                return Err(checks.bad("gateways:sysinspect:session_timeout", &found, expected));
            }
            if [self.publish_port, self.ret_port].contains(&gateway.port) {
                let expected = "a port other than publish_port and ret_port";
                let found = Value::from(gateway.port);
                return Err(checks.bad("gateways:sysinspect:port", &found, expected));
            }
        }
        Ok(warnings)
    }
}

/// The settings given for the gateway `name`; `None` if it is not enabled.
fn gateway_settings<'a>(gateways: &'a Map, name: &str) -> Option<Cow<'a, Map>> {
    match gateways.get(name)? {
        Value::Map(map) => Some(Cow::Borrowed(map)),
        Value::Nil | Value::Bool(true) => Some(Cow::Owned(Map::new())),
        _ => None,
    }
}

/// A whole number from the settings.
pub(super) fn number(given: &Map, name: &str, default: u64) -> u64 {
    let given = given.get(name).and_then(u64::from_value);
    given.map_or(default, |number| number.value)
}

fn unknown(path: &str, name: &str, known: &[&str]) -> String {
    format!(
        "the option '{path}' has no setting {name:?}; it has {}",
        known.join(", ")
    )
}

/// Checks settings by their table; returns a warning for each unknown one.
pub(super) fn check(
    path: &str,
    settings: &Map,
    known: &[(&str, SettingKind)],
    checks: &finish::Checks,
) -> Result<Vec<String>, ConfigError> {
    let mut warnings = Vec::new();
    for (name, value) in settings.iter() {
        let name = name.as_str().unwrap_or_default();
        let Some((_, kind)) = known.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            warnings.push(unknown(path, name, &names));
            continue;
        };
        let bad = |expected: &str| Err(checks.bad(&format!("{path}:{name}"), value, expected));
        match kind {
            SettingKind::Text if value.as_str().is_none() => return bad(String::TYPE),
            SettingKind::Flag if value.as_bool().is_none() => return bad(bool::TYPE),
            SettingKind::Number(least, most) => {
                let number = u64::from_value(value).map(|number| number.value);
                if !number.is_some_and(|number| (*least..=*most).contains(&number)) {
                    return bad(&format!("a whole number from {least} to {most}"));
                }
            }
            SettingKind::List if !is_text_list(value) => return bad("text or a list of text"),
            SettingKind::Word(words)
                if !value.as_str().is_some_and(|word| words.contains(&word)) =>
            {
                return bad(&format!("one of {}", words.join(", ")));
            }
            SettingKind::Text | SettingKind::Flag | SettingKind::List | SettingKind::Word(_) => {}
        }
    }
    Ok(warnings)
}

/// Whether a value is text or a list of text.
fn is_text_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| item.as_str().is_some()),
        other => other.as_str().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_master;

    fn load(yaml: &str) -> Result<MasterConfig, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("master"), yaml).unwrap();
        load_master(dir.path())
    }

    #[test]
    fn off_unless_named() {
        assert_eq!(load("{}").unwrap().sysinspect_gateway(), None);
        let off = load("gateways: {sysinspect: false}").unwrap();
        assert_eq!(off.sysinspect_gateway(), None);
        for on in ["{sysinspect: {}}", "{sysinspect: true}", "{sysinspect: }"] {
            let config = load(&format!("interface: 127.0.0.1\ngateways: {on}")).unwrap();
            let gateway = config.sysinspect_gateway().unwrap();
            assert_eq!(
                (gateway.interface.as_str(), gateway.port),
                ("127.0.0.1", 4200)
            );
            assert_eq!(gateway.session_timeout, Duration::from_secs(30));
            assert!(!gateway.auto_accept);
        }
    }

    #[test]
    fn settings_are_checked_by_name() {
        let config = load("gateways: {sysinspect: {port: '4300', prot: 1}, mcolective: {}}");
        let config = config.unwrap();
        assert_eq!(config.sysinspect_gateway().unwrap().port, 4300);
        let warned = |part: &str| config.warnings.iter().any(|w| w.contains(part));
        assert!(warned("'gateways:sysinspect' has no setting \"prot\""));
        assert!(warned("'gateways' has no setting \"mcolective\""));
        for (bad, named) in [
            ("{sysinspect: 5}", "gateways:sysinspect"),
            ("{sysinspect: {port: 70000}}", "gateways:sysinspect:port"),
            ("{sysinspect: {port: 4506}}", "gateways:sysinspect:port"),
            (
                "{sysinspect: {auto_accept: maybe}}",
                "gateways:sysinspect:auto_accept",
            ),
            (
                "{sysinspect: {session_timeout: 5}}",
                "gateways:sysinspect:session_timeout",
            ),
        ] {
            let error = load(&format!("gateways: {bad}")).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
