//! The state modules. One file or directory per module, one table per module, one line here per table.

mod acme;
mod alias;
mod alternatives;
mod apache;
mod archive;
mod at;
mod augeas;
mod beacon;
mod blockdev;
mod cmd;
mod cron;
mod debconf;
mod disk;
mod docker;
mod environ;
mod event;
mod file;
mod firewall;
mod firewalld;
mod gem;
mod git;
mod gpg;
mod grains;
mod group;
mod host;
mod http;
mod ini;
mod iptables;
mod keyboard;
mod kmod;
mod locale;
mod loop_until;
mod lvm;
mod made_file;
mod mod_beacon;
mod module;
mod mount;
mod mysql;
mod network;
mod nftables;
mod npm;
mod pip;
mod pkg;
mod pkgrepo;
mod postgres;
mod process;
mod quota;
mod rabbitmq;
mod raid;
mod saltutil;
mod schedule;
mod selinux;
mod service;
mod ssh_auth;
mod ssh_known_hosts;
mod ssh_pki;
mod status;
mod supervisord;
mod sysctl;
mod test;
mod timezone;
mod tls;
mod user;
mod virtualenv;
mod x509;

use crate::declare::{StateFunction, StateModule};
use halite_sys::programs::which;
use halite_wire::Map;
use std::collections::HashMap;
use std::sync::LazyLock;

/// All state modules. A new one is added here and nowhere else.
const MODULES: &[StateModule] = &[
    acme::MODULE,
    alias::MODULE,
    alternatives::MODULE,
    apache::CONF,
    apache::MODS,
    apache::MODULE,
    apache::SITE,
    archive::MODULE,
    at::MODULE,
    augeas::MODULE,
    beacon::MODULE,
    blockdev::MODULE,
    cmd::MODULE,
    cron::MODULE,
    debconf::MODULE,
    gem::MODULE,
    npm::MODULE,
    disk::MODULE,
    docker::CONTAINER,
    docker::IMAGE,
    docker::NETWORK,
    docker::VOLUME,
    environ::MODULE,
    event::MODULE,
    file::MODULE,
    firewall::MODULE,
    firewalld::MODULE,
    git::MODULE,
    gpg::MODULE,
    grains::MODULE,
    group::MODULE,
    host::MODULE,
    http::MODULE,
    ini::MODULE,
    iptables::MODULE,
    keyboard::MODULE,
    kmod::MODULE,
    locale::MODULE,
    loop_until::MODULE,
    lvm::MODULE,
    module::MODULE,
    mount::MODULE,
    mysql::database::MODULE,
    mysql::grants::MODULE,
    mysql::query::MODULE,
    mysql::user::MODULE,
    network::MODULE,
    nftables::MODULE,
    pip::MODULE,
    pkg::MODULE,
    pkgrepo::MODULE,
    postgres::cluster::MODULE,
    postgres::database::MODULE,
    postgres::extension::MODULE,
    postgres::group::MODULE,
    postgres::initdb::MODULE,
    postgres::language::MODULE,
    postgres::privileges::MODULE,
    postgres::schema::MODULE,
    postgres::tablespace::MODULE,
    postgres::user::MODULE,
    process::MODULE,
    quota::MODULE,
    rabbitmq::CLUSTER,
    rabbitmq::PLUGIN,
    rabbitmq::POLICY,
    rabbitmq::UPSTREAM,
    rabbitmq::USER,
    rabbitmq::VHOST,
    raid::MODULE,
    saltutil::MODULE,
    schedule::MODULE,
    selinux::MODULE,
    service::MODULE,
    ssh_auth::MODULE,
    ssh_known_hosts::MODULE,
    ssh_pki::MODULE,
    status::MODULE,
    supervisord::MODULE,
    sysctl::MODULE,
    test::MODULE,
    timezone::MODULE,
    tls::MODULE,
    user::MODULE,
    virtualenv::MODULE,
    x509::MODULE,
];

/// The same by name: a run asks several times for each state.
static BY_NAME: LazyLock<HashMap<&str, &StateModule>> =
    LazyLock::new(|| MODULES.iter().map(|m| (m.name, m)).collect());

/// A function by full name.
pub(crate) fn find(module: &str, function: &str) -> Option<&'static StateFunction> {
    BY_NAME.get(module)?.function(function)
}

/// Whether there is a module of this name.
pub(crate) fn has(module: &str) -> bool {
    BY_NAME.contains_key(module)
}

/// Modules that are there only with one of these programs, and what stock says without.
const NEEDED: &[(&[&str], &[&str], &str)] = &[
    (
        &["apache", "apache_conf", "apache_module", "apache_site"],
        &["apache2ctl", "apachectl", "httpd"],
        "apache module could not be loaded",
    ),
    (&["at"], &["at"], "at module could not be loaded"),
    (
        &["debconf"],
        &["debconf-get-selections"],
        "debconf module could not be loaded",
    ),
    (
        &["firewalld"],
        &["firewall-cmd"],
        "firewall-cmd is not available, firewalld is probably not installed.",
    ),
    (
        &["iptables"],
        &["iptables"],
        "iptables module could not be loaded",
    ),
    (&["lvm"], &["lvm"], "lvm command not found"),
    (
        &["nftables"],
        &["nft"],
        "nftables module could not be loaded",
    ),
    (
        &["quota"],
        &["setquota"],
        "quota module could not be loaded",
    ),
    (&["raid"], &["mdadm"], "Unable to locate command: mdadm"),
    (
        &["selinux"],
        &["semanage"],
        "selinux module could not be loaded",
    ),
];

/// Why a module is not there on this host: a program that it needs is missing.
pub(crate) fn lacking(module: &str) -> Option<String> {
    let mut needed = NEEDED.iter();
    let (_, programs, why) = needed.find(|(modules, ..)| modules.contains(&module))?;
    let is_missing = programs.iter().all(|program| which(program).is_none());
    is_missing.then(|| format!("'{module}' __virtual__ returned False: {why}"))
}

/// The names of the modules that react to `watch`.
pub fn watching() -> impl Iterator<Item = &'static str> {
    let watches = |m: &&StateModule| m.function("mod_watch").is_some();
    MODULES.iter().filter(watches).map(|m| m.name)
}

/// Joins the calls of other states with one; `None` if there is nothing to join.
pub(crate) type Join = fn(&Map, &[&Map]) -> Option<Map>;

/// How states of a module are joined (`aggregate`), if they can be.
pub(crate) fn joining(module: &str) -> Option<Join> {
    match module {
        "pkg" => Some(pkg::joined),
        "selinux" => Some(selinux::joined),
        _ => None,
    }
}

/// Functions that only the engine calls.
pub(crate) const INNER: [&str; 4] = ["mod_aggregate", "mod_beacon", "mod_init", "mod_watch"];

/// All functions by full name but the engine's own, sorted.
pub fn functions() -> Vec<(String, &'static StateFunction)> {
    let named = |m: &'static StateModule| {
        let functions = m.functions.iter().filter(|f| !INNER.contains(&f.name));
        functions.map(|f| (format!("{}.{}", m.name, f.name), f))
    };
    let mut all: Vec<_> = MODULES.iter().flat_map(named).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}
