//! `ip` on the Red Hat family: the files below `/etc/sysconfig`.

mod bond;
mod ethtool;
mod interface;
mod routes;
mod settings;

use super::debian_ip::{
    self, WORDS, apply_hostname, attribute, invalid, key_error, keywords, number, truth,
};
use super::declare::{Function, Module, ModulesByHost, Result, args};
use super::{Call, CallError, command_helpers, python, shell};
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULES: ModulesByHost =
    &[(MODULE, |grains| grains.str("os_family") == Some("RedHat"))];

const MODULE: Module = Module {
    name: "ip",
    functions: &[
        Function::new(
            "apply_network_settings",
            settings::apply,
            "Restarts the network, and sets the host name with apply_hostname.",
        )
        .keywords()
        .one_line(&[]),
        Function::new(
            "build_interface",
            build_interface,
            "Writes the file of an interface; returns its lines.",
        )
        .args(args![iface, iface_type, enabled])
        .keywords()
        .one_line(&[]),
        Function::new(
            "build_network_settings",
            settings::build,
            "Writes the settings of the whole network; returns them.",
        )
        .keywords()
        .one_line(&[]),
        Function::new(
            "build_routes",
            routes::build,
            "Writes the files for the routes of an interface; returns their lines.",
        )
        .args(args![iface])
        .keywords()
        .one_line(&[]),
        Function::new("down", |c| switch(c, "ifdown"), "Brings an interface down.")
            .args(args![iface, iface_type])
            .names(&["iface"]),
        Function::new(
            "get_interface",
            |c| lines_of(&format!("{SCRIPTS}/ifcfg-{}", iface(c)?)),
            "The lines of the file of an interface.",
        )
        .args(args![iface]),
        Function::new(
            "get_network_settings",
            |_| lines_of(settings::FILE),
            "The settings of the whole network.",
        ),
        Function::new(
            "get_routes",
            routes::get,
            "The lines of the files for the routes of an interface.",
        )
        .args(args![iface]),
        Function::new("up", |c| switch(c, "ifup"), "Brings an interface up.")
            .args(args![iface, iface_type])
            .names(&["iface"]),
    ],
};

const SCRIPTS: &str = "/etc/sysconfig/network-scripts";

const TYPES: &[&str] = &[
    "eth", "bond", "team", "alias", "clone", "ipsec", "dialup", "bridge", "slave", "teamport",
    "vlan", "ipip", "ib",
];

/// The name of the interface, which becomes a part of file names.
fn iface(call: &Call<'_>) -> Result<String> {
    let name = python::str(call.arg("iface"));
    if name.contains(['/', '\n']) {
        return Err(CallError::Invocation(format!("{name} is not an interface")));
    }
    Ok(name)
}

/// Settings under names in lower case.
fn lower_case(settings: Map) -> Map {
    let mut out = Map::new();
    for (key, value) in settings.0 {
        out.set(python::str(&key).to_lowercase(), value);
    }
    out
}

fn is_test(settings: &Map) -> bool {
    settings.get("test").is_some_and(Value::truthy)
}

/// The lines of a text without their ends. As stock, without the first one that is empty.
fn lines(text: &str) -> Value {
    let mut all: Vec<&str> = text.lines().collect();
    if let Some(at) = all.iter().position(|line| line.is_empty()) {
        all.remove(at);
    }
    Value::Array(all.into_iter().map(Value::from).collect())
}

/// The lines of a file; none if there is no file.
fn lines_of(path: &str) -> Result {
    match command_helpers::read_file(path) {
        Ok(text) => Ok(lines(&text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Value::Array(Vec::new())),
        Err(e) => Err(python::os_error(&e, path)),
    }
}

/// Writes a file of an interface into the directory of those, which must be there.
fn write(name: &str, text: &str) -> Result<()> {
    let path = format!("{SCRIPTS}/{name}");
    if !Path::new(SCRIPTS).exists() {
        return Err(attribute(format!(
            "{path} cannot be written. {SCRIPTS} does not exist"
        )));
    }
    command_helpers::write_file(&path, text).map_err(|e| python::os_error(&e, &path))
}

/// A word for yes or no, if it is given.
fn word(opts: &Map, iface: &str, key: &str) -> Result<Option<bool>> {
    let Some(value) = opts.get(key) else {
        return Ok(None);
    };
    match truth(value) {
        Some(on) => Ok(Some(on)),
        None => Err(invalid(iface, &python::str(value), WORDS)),
    }
}

fn switch(call: &mut Call<'_>, program: &str) -> Result {
    let kind = python::str(call.arg("iface_type")).to_lowercase();
    // The master of a port brings it up.
    if kind == "slave" || kind == "teamport" {
        return Ok(Value::Nil);
    }
    let name = iface(call)?;
    Ok(shell::run(call, &[program, &name])?.into())
}

fn install(call: &mut Call<'_>, package: &str, test: bool) -> Result<()> {
    // Stock installs it in test mode, too.
    if !test {
        call.salt("pkg.install", vec![package.into()], Map::new())?;
    }
    Ok(())
}

/// Has traffic of bridges pass the filters of the host, or not.
fn filter_bridges(call: &mut Call<'_>, opts: &Map, name: &str) -> Result<()> {
    let bypass = word(opts, name, "bypassfirewall")?.unwrap_or(true);
    for program in ["ip6tables", "iptables", "arptables"] {
        let key = format!("net.bridge.bridge-nf-call-{program}");
        let value = if bypass { "0" } else { "1" };
        let args = vec![key.as_str().into(), value.into()];
        // A kernel without the module for it has no such parameter: there is nothing to pass.
        if let Err(e) = call.salt("sysctl.persist", args, Map::new()) {
            log::warn!("{name}: {key}: {e}");
        }
    }
    Ok(())
}

fn build_interface(call: &mut Call<'_>) -> Result {
    let name = iface(call)?;
    let kind = python::str(call.arg("iface_type")).to_lowercase();
    let opts = keywords(call);
    let test = is_test(&opts);
    if !TYPES.contains(&kind.as_str()) {
        return Err(invalid(&name, &kind, TYPES));
    }
    let needed = |keys: &[&str], text: &str| match keys.iter().any(|key| opts.contains(key)) {
        true => Ok(()),
        false => Err(attribute(format!(
            "{text} is a required setting for {kind} interfaces"
        ))),
    };
    match kind.as_str() {
        "slave" => needed(&["master"], "master")?,
        "teamport" => needed(&["master", "team_master"], "master or team_master")?,
        "team" => install(call, "teamd", test)?,
        "bridge" => install(call, "bridge-utils", test)?,
        "clone" | "ipsec" | "dialup" => {
            let text =
                "cannot access local variable 'ifcfg' where it is not associated with a value";
            return Err(CallError::raised("UnboundLocalError", text));
        }
        _ => {}
    }
    let text = interface::file(&name, &kind, call.flag("enabled"), &opts)?;
    if test {
        return Ok(lines(&text));
    }
    if kind == "bridge" {
        filter_bridges(call, &opts, &name)?;
    }
    let file = format!("ifcfg-{name}");
    write(&file, &text)?;
    lines_of(&format!("{SCRIPTS}/{file}"))
}
