//! The state modules. One file or directory per module, one table per module, one line here per table.

mod alias;
mod beacon;
mod cron;
mod disk;
mod environ;
mod event;
mod grains;
mod group;
mod host;
mod http;
mod ini;
mod kmod;
mod locale;
mod mount;
mod saltutil;
mod schedule;
mod ssh_auth;
mod ssh_known_hosts;
mod sysctl;
mod test;
mod timezone;
mod user;

use crate::declare::{StateFunction, StateModule};

/// All state modules. A new one is added here and nowhere else.
const MODULES: &[StateModule] = &[
    alias::MODULE,
    beacon::MODULE,
    cron::MODULE,
    disk::MODULE,
    environ::MODULE,
    event::MODULE,
    grains::MODULE,
    group::MODULE,
    host::MODULE,
    http::MODULE,
    ini::MODULE,
    kmod::MODULE,
    locale::MODULE,
    mount::MODULE,
    saltutil::MODULE,
    schedule::MODULE,
    ssh_auth::MODULE,
    ssh_known_hosts::MODULE,
    sysctl::MODULE,
    test::MODULE,
    timezone::MODULE,
    user::MODULE,
];

/// A function by full name.
pub(crate) fn find(module: &str, function: &str) -> Option<&'static StateFunction> {
    MODULES
        .iter()
        .find(|m| m.name == module)?
        .function(function)
}

/// The names of the modules that react to `watch`.
pub fn watching() -> impl Iterator<Item = &'static str> {
    let watches = |m: &&StateModule| m.function("mod_watch").is_some();
    MODULES.iter().filter(watches).map(|m| m.name)
}

/// All functions by full name, but `mod_watch`, sorted.
pub fn functions() -> Vec<(String, &'static StateFunction)> {
    let named = |m: &'static StateModule| {
        let functions = m.functions.iter().filter(|f| f.name != "mod_watch");
        functions.map(|f| (format!("{}.{}", m.name, f.name), f))
    };
    let mut all: Vec<_> = MODULES.iter().flat_map(named).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}
