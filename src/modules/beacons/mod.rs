//! Beacons: periodic checks that fire events (`salt/beacons/__init__.py Beacon`, `salt/minion.py process_beacons`).
//!
//! [`Beacons`] belongs to the daemon. It decides which beacons are due and handles change requests, without IO. A
//! [`BeaconPoller`] polls them and keeps their state between polls; it runs in its own thread because some beacons
//! wait for programs.

mod config;
mod in_python;
mod inotify;
mod load;
mod log_file;
mod network_info;
mod ps;
mod service;
mod status;
mod usage;

#[cfg(test)]
mod tests;

pub use config::BeaconConfig;

use crate::execution::{self, Context, proc, python};
use halite_python::JobHost;
use halite_sys::time::unix_now_f64;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// All beacons.
pub const KINDS: &[&str] = &[
    "diskusage",
    "inotify",
    "load",
    "log",
    "memusage",
    "network_info",
    "ps",
    "service",
    "status",
];

/// Validates a beacon's configuration.
///
/// # Errors
/// The message of stock's `validate`.
pub fn validate(kind: &str, config: &Value) -> Result<(), String> {
    if config.as_array().is_none() {
        return Err(format!("Configuration for {kind} beacon must be a list."));
    }
    let settings = BeaconConfig::from_value(config);
    match kind {
        "inotify" => inotify::validate(&settings.all),
        "load" => load::validate(&settings.all),
        "log" => log_file::validate(&settings.all),
        "memusage" => usage::validate_memory(&settings.all),
        "network_info" => network_info::validate(&settings.all),
        "ps" => ps::validate(&settings.all),
        "service" => service::validate(&settings.all),
        _ => Ok(()),
    }
}

/// A beacon that is due.
#[derive(Clone, Debug, PartialEq)]
pub struct DueBeacon {
    /// Its name.
    pub name: String,
    /// Its configuration.
    pub settings: BeaconConfig,
}

/// The reply to a `manage_beacons` request: an event.
#[derive(Clone, Debug, PartialEq)]
pub struct BeaconReply {
    /// The tag.
    pub tag: &'static str,
    /// The data.
    pub data: Map,
}

/// The beacons of a minion.
#[derive(Debug)]
pub struct Beacons {
    own: Map,
    pillar: Map,
    /// Default interval.
    every: Duration,
    active: bool,
    /// When each beacon is due next.
    next: BTreeMap<String, Instant>,
    /// A poll is running.
    polling: bool,
    /// Beacons whose state the poller must drop.
    dropped: Vec<String>,
}

impl Beacons {
    /// From the configuration: `beacons` and `loop_interval`. Nothing is due before [`Beacons::start`].
    pub fn new(own: &Map, loop_interval: u64) -> Beacons {
        let mut beacons = Beacons {
            own: own.clone(),
            pillar: Map::new(),
            every: Duration::from_secs(loop_interval.max(1)),
            active: false,
            next: BTreeMap::new(),
            polling: false,
            dropped: Vec::new(),
        };
        beacons.strip();
        beacons
    }

    /// Starts polling. With `at_once`, beacons without an interval are due immediately.
    pub fn start(&mut self, now: Instant, at_once: bool) {
        if std::mem::replace(&mut self.active, true) {
            return;
        }
        self.plan(now);
        if at_once {
            for (name, config) in self.effective() {
                if BeaconConfig::from_value(&config).interval.is_none() {
                    self.next.insert(name, now);
                }
            }
        }
    }

    /// Applies the beacons of a new pillar. Beacon state is dropped, as in stock.
    pub fn set_pillar(&mut self, pillar: &Map, now: Instant) {
        let beacons = pillar.get("beacons").and_then(Value::as_map);
        let beacons = beacons.cloned().unwrap_or_default();
        if beacons == self.pillar {
            return;
        }
        self.refresh();
        self.pillar = beacons;
        self.plan(now);
    }

    /// The event `beacons_refresh`: beacon state is dropped.
    pub fn refresh(&mut self) {
        let all = self.effective();
        self.dropped.extend(all.into_iter().map(|(name, _)| name));
    }

    /// The pillar's beacons if it has any, else the configured ones (`config.merge`); none while beacons are
    /// disabled.
    fn effective(&self) -> Vec<(String, Value)> {
        let all = if self.pillar.is_empty() {
            &self.own
        } else {
            &self.pillar
        };
        if all.get("enabled").is_some_and(|enabled| !enabled.truthy()) {
            return Vec::new();
        }
        let fits = |config: &Value| {
            BeaconConfig::from_value(config)
                .all
                .get("enabled")
                .is_none_or(Value::truthy)
        };
        all.iter()
            .filter(|(name, config)| !name.is_str("enabled") && fits(config))
            .map(|(name, config)| (python::str(name), config.clone()))
            .collect()
    }

    /// Schedules new beacons; existing ones keep their times.
    fn plan(&mut self, now: Instant) {
        let before = std::mem::take(&mut self.next);
        for (name, config) in self.effective() {
            let wait = self.wait(&BeaconConfig::from_value(&config));
            let next = before.get(&name).copied().unwrap_or(now + wait);
            self.next.insert(name, next.min(now + wait));
        }
    }

    fn wait(&self, settings: &BeaconConfig) -> Duration {
        settings
            .interval
            .map_or(self.every, |wait| wait.max(self.every))
    }

    /// Time until the next beacon is due; `None` without beacons or while a poll is running.
    pub fn next_due(&self, now: Instant) -> Option<Duration> {
        if !self.active || self.polling {
            return None;
        }
        let next = self.next.values().min()?;
        Some(next.saturating_duration_since(now))
    }

    /// The beacons that are due now. If there are any, the caller must call [`Beacons::finish_poll`] after polling.
    pub fn due(&mut self, now: Instant) -> Vec<DueBeacon> {
        if self.next_due(now) != Some(Duration::ZERO) {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (name, config) in self.effective() {
            let settings = BeaconConfig::from_value(&config);
            let wait = self.wait(&settings);
            match self.next.get_mut(&name) {
                Some(next) if *next <= now => *next = now + wait,
                _ => continue,
            }
            if settings.run_once {
                self.set_enabled(&name, false);
            }
            due.push(DueBeacon { name, settings });
        }
        self.polling = !due.is_empty();
        due
    }

    /// Marks the running poll as finished.
    pub fn finish_poll(&mut self) {
        self.polling = false;
    }

    /// Beacons whose state the poller must drop before its next poll.
    pub fn take_removed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.dropped)
    }

    /// Handles the event `manage_beacons`; `None` if it is not a valid request.
    pub fn manage(&mut self, request: &Map, now: Instant) -> Option<BeaconReply> {
        let name = request.get("name").map(python::str).unwrap_or_default();
        let data = request.get("beacon_data").cloned().unwrap_or_default();
        let answer = match request.str("func")? {
            "add" => self.set(&name, data, "/salt/minion/minion_beacon_add_complete", true),
            "modify" => self.set(
                &name,
                data,
                "/salt/minion/minion_beacon_modify_complete",
                false,
            ),
            "delete" => self.delete(&name),
            "enable" => self.all(true, "/salt/minion/minion_beacons_enabled_complete"),
            "disable" => self.all(false, "/salt/minion/minion_beacons_disabled_complete"),
            "enable_beacon" => self.set_beacon_enabled(&name, true),
            "disable_beacon" => self.set_beacon_enabled(&name, false),
            "list" => self.list(request),
            "list_available" => BeaconReply {
                tag: "/salt/minion/minion_beacons_list_available_complete",
                data: halite_wire::map! {"complete" => true, "beacons" => KINDS.iter().map(|k| Value::from(*k)).collect::<Vec<_>>()},
            },
            "validate_beacon" => checked(&name, &data),
            "reset" => self.reset(),
            other => {
                log::error!("Function \"{other}\" is unavailable in salt.utils.beacons");
                return None;
            }
        };
        self.strip();
        self.plan(now);
        Some(answer)
    }

    /// Stock drops `enabled: True` of single beacons at the next poll; we do so at once.
    fn strip(&mut self) {
        for (_, config) in &mut self.own.0 {
            let on = |map: &Map| map.get("enabled").is_some_and(Value::truthy);
            match config {
                Value::Array(list) => list.retain(|item| !item.as_map().is_some_and(on)),
                Value::Map(map) if on(map) => {
                    map.remove("enabled");
                }
                _ => {}
            }
        }
    }

    fn reply(&self, tag: &'static str, complete: bool, comment: String) -> BeaconReply {
        BeaconReply {
            tag,
            data: halite_wire::map! {"complete" => complete, "comment" => comment, "beacons" => self.own.clone()},
        }
    }

    fn set(&mut self, name: &str, data: Value, tag: &'static str, add: bool) -> BeaconReply {
        if self.pillar.contains(name) {
            let comment = if add {
                format!("Cannot update beacon item {name}, because it is configured in pillar.")
            } else {
                format!("Cannot modify beacon item {name}, it is configured in pillar.")
            };
            return self.reply(tag, false, comment);
        }
        let comment = if add && !self.own.contains(name) {
            format!("Added new beacon item: {name}")
        } else {
            format!("Updating settings for beacon item: {name}")
        };
        self.own.set(name, data);
        self.reply(tag, true, comment)
    }

    fn delete(&mut self, name: &str) -> BeaconReply {
        let tag = "/salt/minion/minion_beacon_delete_complete";
        if self.pillar.contains(name) {
            let comment = format!("Cannot delete beacon item {name}, it is configured in pillar.");
            return self.reply(tag, false, comment);
        }
        let comment = match self.own.remove(name) {
            Some(_) => format!("Deleting beacon item: {name}"),
            None => format!("Beacon item {name} not found."),
        };
        self.dropped.push(name.to_owned());
        self.reply(tag, true, comment)
    }

    fn all(&mut self, enabled: bool, tag: &'static str) -> BeaconReply {
        self.own.set("enabled", enabled);
        BeaconReply {
            tag,
            data: halite_wire::map! {"complete" => true, "beacons" => self.own.clone()},
        }
    }

    fn set_beacon_enabled(&mut self, name: &str, enabled: bool) -> BeaconReply {
        let (tag, word, doing) = if enabled {
            (
                "/salt/minion/minion_beacon_enabled_complete",
                "enable",
                "Enabling",
            )
        } else {
            (
                "/salt/minion/minion_beacon_disabled_complete",
                "disable",
                "Disabling",
            )
        };
        if self.pillar.contains(name) {
            let comment = format!("Cannot {word} beacon item {name}, it is configured in pillar.");
            return self.reply(tag, false, comment);
        }
        self.set_enabled(name, enabled);
        self.reply(tag, true, format!("{doing} beacon item {name}"))
    }

    fn set_enabled(&mut self, name: &str, enabled: bool) {
        match self.own.get_mut(name) {
            Some(Value::Map(map)) => map.set("enabled", enabled),
            Some(Value::Array(list)) => {
                let known = list.iter_mut().find_map(|item| match item {
                    Value::Map(map) if map.contains("enabled") => Some(map),
                    _ => None,
                });
                match known {
                    Some(map) => map.set("enabled", enabled),
                    None => list.push(halite_wire::map! {"enabled" => enabled}.into()),
                }
            }
            _ => {}
        }
    }

    fn list(&self, request: &Map) -> BeaconReply {
        let wanted = |key: &str| request.get(key).is_some_and(Value::truthy);
        let mut all = Map::new();
        if wanted("include_pillar") {
            all = self.pillar.clone();
        }
        if wanted("include_opts") {
            for (name, config) in self.own.iter() {
                all.set(python::str(name), config.clone());
            }
        }
        BeaconReply {
            tag: "/salt/minion/minion_beacons_list_complete",
            data: halite_wire::map! {"complete" => true, "beacons" => all},
        }
    }

    fn reset(&mut self) -> BeaconReply {
        self.dropped
            .extend(self.own.iter().map(|(name, _)| python::str(name)));
        self.own = Map::new();
        let tag = "/salt/minion/minion_beacon_reset_complete";
        self.reply(tag, true, "Beacons have been reset".to_owned())
    }
}

/// `validate_beacon`.
fn checked(name: &str, data: &Value) -> BeaconReply {
    let module = data
        .as_array()
        .into_iter()
        .flatten()
        .find_map(|item| item.as_map()?.str("beacon_module"));
    let kind = module.unwrap_or(name);
    let (valid, comment) = if KINDS.contains(&kind) {
        match validate(kind, data) {
            Ok(()) => (true, "Valid beacon configuration".to_owned()),
            Err(why) => (false, why),
        }
    } else {
        (
            true,
            format!("Beacon {kind} does not have a validate function, skipping validation."),
        )
    };
    BeaconReply {
        tag: "/salt/minion/minion_beacon_validation_complete",
        data: halite_wire::map! {"complete" => true, "vcomment" => comment, "valid" => valid},
    }
}

/// Polls beacons and keeps their state.
pub struct BeaconPoller {
    memory: BTreeMap<String, BeaconState>,
    /// Errors already logged.
    logged: Vec<String>,
    /// Of beacons in Python; nothing runs without them.
    python: JobHost,
}

/// How long a beacon in Python may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Errors of beacons that are remembered.
const MAX_LOGGED: usize = 100;

impl Default for BeaconPoller {
    fn default() -> BeaconPoller {
        BeaconPoller {
            memory: BTreeMap::new(),
            logged: Vec::new(),
            python: JobHost::with_limit_of_each(PATIENCE),
        }
    }
}

/// State of one beacon.
#[derive(Default)]
struct BeaconState {
    load: Option<[f64; 3]>,
    services: BTreeMap<String, service::LastSeen>,
    log_at: Option<u64>,
    inotify: Option<inotify::Watches>,
}

impl BeaconPoller {
    /// Drops the state of a beacon.
    pub fn forget(&mut self, name: &str) {
        self.memory.remove(name);
    }

    /// Polls the given beacons and returns their events in the form of `__beacons_return`.
    pub fn poll(&mut self, ctx: &Context, due: &[DueBeacon]) -> Vec<Value> {
        let mut events = Vec::new();
        // One process for all polls: modules keep what they have seen in it.
        let ctx = Context {
            python: self.python.clone(),
            ..ctx.clone()
        };
        for beacon in due {
            events.extend(self.poll_beacon(&ctx, beacon).into_iter().map(Value::Map));
        }
        events
    }

    fn poll_beacon(&mut self, ctx: &Context, beacon: &DueBeacon) -> Vec<Map> {
        let DueBeacon { name, settings } = beacon;
        let kind = settings.module.as_deref().unwrap_or(name);
        let is_ours = KINDS.contains(&kind);
        let is_python = in_python::has(ctx, kind, is_ours);
        if !is_ours && !is_python {
            let why = in_python::fault(ctx, kind);
            let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
            self.log_once(format!(
                "Unable to process beacon {name}: there is no beacon {kind}{why}"
            ));
            return Vec::new();
        }
        let valid = match is_python {
            true => in_python::validate(ctx, kind, settings, name),
            false => validate(kind, &settings.config),
        };
        if let Err(why) = valid {
            self.log_once(format!(
                "Beacon {name} configuration invalid, not running.\n{why}"
            ));
            return Vec::new();
        }
        if settings.not_with_states && state_runs(ctx) {
            if let Some(memory) = self.memory.get_mut(name) {
                memory.inotify = None;
            }
            log::info!("Skipping beacon {name}. State run in progress.");
            return Vec::new();
        }
        let memory = self.memory.entry(name.clone()).or_default();
        let all = &settings.all;
        let found = match kind {
            _ if is_python => in_python::poll(ctx, kind, settings, name),
            "diskusage" => usage::disk(ctx, &settings.list),
            "inotify" => inotify::poll(&mut memory.inotify, all),
            "load" => load::poll(&mut memory.load, all),
            "log" => log_file::poll(&mut memory.log_at, all),
            "memusage" => usage::memory(ctx, all),
            "network_info" => network_info::poll(ctx, all),
            "ps" => ps::poll(all),
            "service" => service::poll(ctx, &mut memory.services, all, unix_now_f64()),
            _ => status::poll(ctx, &settings.list),
        };
        let tag = format!("salt/beacon/{}/{name}/", ctx.id);
        match found {
            Ok(found) => found
                .into_iter()
                .map(|data| event(ctx, &tag, kind, data))
                .collect(),
            Err(why) => {
                log::error!("Unable to start {name} beacon, {why}");
                vec![halite_wire::map! {
                    "tag" => tag, "error" => why, "data" => Map::new(), "beacon_name" => kind,
                }]
            }
        }
    }

    fn log_once(&mut self, what: String) {
        if !self.logged.contains(&what) {
            log::error!("{what}");
            if self.logged.len() >= MAX_LOGGED {
                self.logged.remove(0);
            }
            self.logged.push(what);
        }
    }
}

fn event(ctx: &Context, tag: &str, kind: &str, mut data: Map) -> Map {
    let end = data
        .remove("tag")
        .map(|end| python::str(&end))
        .unwrap_or_default();
    if !data.contains("id") {
        data.set("id", ctx.id.as_str());
    }
    halite_wire::map! {"tag" => format!("{tag}{end}"), "data" => data, "beacon_name" => kind}
}

fn state_runs(ctx: &Context) -> bool {
    let running = proc::running(&ctx.cachedir);
    running
        .iter()
        .any(|job| job.str("fun").is_some_and(|fun| fun.starts_with("state")))
}

/// Calls an execution function for beacons that wrap one.
fn call_function(ctx: &Context, fun: &str, args: &[Value]) -> Result<Value, String> {
    let outcome = execution::call(ctx, fun, args);
    match outcome.fault {
        Some(fault) => Err(fault.message().to_owned()),
        None => Ok(outcome.ret),
    }
}

/// Parses a threshold: a number, or text with an optional `%`.
fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Str(text) => {
            let plain = text.replace('%', "");
            plain.trim().parse().map_err(|_| {
                format!(
                    "could not convert string to float: {}",
                    python::repr(&plain.as_str().into())
                )
            })
        }
        Value::Int(number) => Ok(*number as f64),
        Value::UInt(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        Value::Bool(flag) => Ok(f64::from(u8::from(*flag))),
        other => Err(format!(
            "float() argument must be a string or a real number, not '{}'",
            python::type_name(other)
        )),
    }
}
