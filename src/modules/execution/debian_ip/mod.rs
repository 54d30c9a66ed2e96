//! `ip` on Debian and its kin: the files of ifupdown.

mod interfaces;
mod options;
mod settings;
mod system;
mod text;

pub use options::{is_mac, number};

use super::declare::{Function, Module, ModulesByHost, Result, args};
use super::{Call, CallError, command_helpers, python, shell, which};
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) const MODULES: ModulesByHost =
    &[(MODULE, |grains| grains.str("os_family") == Some("Debian"))];

const MODULE: Module = Module {
    name: "ip",
    functions: &[
        Function::new(
            "apply_network_settings",
            system::apply,
            "Restarts the network, and sets the host name with apply_hostname.",
        )
        .keywords()
        .one_line(&[]),
        Function::new(
            "build_bond",
            build_bond,
            "Writes the options of a bond for its kernel module, and loads that.",
        )
        .args(args![iface])
        .keywords()
        .one_line(&[]),
        Function::new(
            "build_interface",
            build_interface,
            "Writes an interface to the file of interfaces; returns its lines.",
        )
        .args(args![iface, iface_type, enabled])
        .keywords()
        .one_line(&[
            "up_cmds",
            "pre_up_cmds",
            "post_up_cmds",
            "down_cmds",
            "pre_down_cmds",
            "post_down_cmds",
        ]),
        Function::new(
            "build_network_settings",
            system::build,
            "Writes the settings of the whole network; returns them.",
        )
        .keywords()
        .one_line(&[]),
        Function::new(
            "build_routes",
            build_routes,
            "Writes scripts for the routes of an interface; returns their lines.",
        )
        .args(args![iface])
        .keywords(),
        Function::new("down", |c| switch(c, "ifdown"), "Brings an interface down.")
            .args(args![iface, iface_type])
            .names(&["iface"]),
        Function::new(
            "get_bond",
            |c| {
                let path = format!("{MODPROBE}{}.conf", iface(c)?);
                Ok(lines_of(&path))
            },
            "The options of a bond.",
        )
        .args(args![iface]),
        Function::new(
            "get_interface",
            get_interface,
            "The lines of an interface in the files of interfaces.",
        )
        .args(args![iface]),
        Function::new(
            "get_network_settings",
            system::get,
            "The settings of the whole network.",
        ),
        Function::new(
            "get_routes",
            get_routes,
            "The lines of the scripts for the routes of an interface.",
        )
        .args(args![iface]),
        Function::new("up", |c| switch(c, "ifup"), "Brings an interface up.")
            .args(args![iface, iface_type])
            .names(&["iface"]),
    ],
};

const MODPROBE: &str = "/etc/modprobe.d/";
const UP: &str = "/etc/network/if-up.d/";
const DOWN: &str = "/etc/network/if-down.d/";
const PEERS: &str = "/etc/ppp/peers";

/// Sets the host name if the settings say so; whether it has the one that they name.
///
/// # Errors
/// As `network.mod_hostname`.
pub fn apply_hostname(call: &mut Call<'_>, settings: &Map) -> Result<bool> {
    if settings.get("apply_hostname").and_then(truth) != Some(true) {
        return Ok(true);
    }
    Ok(match settings.get("hostname") {
        Some(name) => call
            .salt("network.mod_hostname", vec![name.clone()], Map::new())?
            .truthy(),
        None => false,
    })
}

/// Salt's words for yes and no.
pub fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(_) | Value::Int(0 | 1) => Some(value.truthy()),
        Value::Str(word) => match word.as_str() {
            "yes" | "on" | "true" | "1" => Some(true),
            "no" | "off" | "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// These words in error messages.
pub const WORDS: &[&str] = &[
    "yes", "on", "true", "1", "True", "no", "off", "false", "0", "False",
];

/// The error that states report as theirs.
pub fn attribute(text: impl Into<String>) -> CallError {
    CallError::raised("AttributeError", text)
}

pub fn key_error(key: &str) -> CallError {
    CallError::raised("KeyError", format!("'{key}'"))
}

/// The error of an option.
pub fn invalid(iface: &str, option: &str, expected: &[&str]) -> CallError {
    attribute(format!(
        "Invalid option -- Interface: {iface}, Option: {option}, Expected: [{}]",
        expected.join("|")
    ))
}

/// A list of lines as a value.
fn list(lines: impl IntoIterator<Item = String>) -> Value {
    Value::Array(lines.into_iter().map(Value::Str).collect())
}

/// The lines of a text with their ends.
fn lines(text: &str) -> Value {
    list(text.split_inclusive('\n').map(str::to_owned))
}

/// The parts of a text between line ends, each with one.
fn split(text: &str) -> Value {
    list(text.split('\n').map(|line| format!("{line}\n")))
}

/// The lines of a file; an empty text if it cannot be read.
fn lines_of(path: &str) -> Value {
    command_helpers::read_file(path).map_or_else(|_| "".into(), |text| lines(&text))
}

/// The name of the interface, which becomes a part of file names.
fn iface(call: &Call<'_>) -> Result<String> {
    let name = python::str(call.arg("iface"));
    if name.contains(['/', '\n']) {
        return Err(CallError::Invocation(format!("{name} is not an interface")));
    }
    Ok(name)
}

/// Hosts with netplan do not read these files.
fn check_netplan() -> Result<()> {
    if which("netplan").is_some() && Path::new("/etc/netplan").is_dir() {
        let text = "netplan manages the interfaces of this host, not ifupdown";
        return Err(CallError::Command(text.to_owned()));
    }
    Ok(())
}

/// The settings of a call, without those for the engine.
pub fn keywords(call: &Call<'_>) -> Map {
    let mut kwargs = call.bound.kwargs.clone();
    let inner = |key: &Value| key.as_str().is_some_and(|key| key.starts_with("__"));
    kwargs.0.retain(|(key, _)| !inner(key));
    kwargs
}

fn is_test(settings: &Map) -> bool {
    settings.get("test").is_some_and(Value::truthy)
}

/// Writes a file into a directory that must be there.
fn write_into(folder: &str, name: &str, text: &str) -> Result<String> {
    let path = format!("{folder}{name}");
    if !Path::new(folder).exists() {
        return Err(attribute(format!(
            "{path} cannot be written. {folder} does not exist"
        )));
    }
    command_helpers::write_file(&path, text).map_err(|e| python::os_error(&e, &path))?;
    Ok(path)
}

fn switch(call: &mut Call<'_>, program: &str) -> Result {
    check_netplan()?;
    // The master of a slave brings it up.
    if matches!(call.arg("iface_type").as_str(), Some("slave" | "source")) {
        return Ok(Value::Nil);
    }
    let name = iface(call)?;
    Ok(shell::run(call, &[program, &name])?.into())
}

fn get_interface(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let name = iface(call)?;
    let all = interfaces::parse()?;
    let Some(data) = all.get(&name).and_then(Value::as_map) else {
        return Ok(Value::Array(Vec::new()));
    };
    Ok(split(&if name == "source" {
        text::source(data)
    } else {
        text::interface(&name, data)
    }))
}

fn install(call: &mut Call<'_>, package: &str, test: bool) -> Result<()> {
    // Stock installs it in test mode, too.
    if !test {
        call.salt("pkg.install", vec![package.into()], Map::new())?;
    }
    Ok(())
}

const TYPES: &[&str] = &[
    "eth", "bond", "alias", "clone", "ipsec", "dialup", "bridge", "slave", "vlan", "pppoe",
    "source",
];

fn build_interface(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let name = iface(call)?;
    let kind = python::str(call.arg("iface_type")).to_lowercase();
    let settings = keywords(call);
    let test = is_test(&settings);
    if !TYPES.contains(&kind.as_str()) {
        return Err(invalid(&name, &kind, TYPES));
    }
    let needed = |key: &str, text: &str| match settings.contains(key) {
        true => Ok(()),
        false => Err(attribute(text)),
    };
    match kind.as_str() {
        "slave" => needed(
            "master",
            "master is a required setting for slave interfaces",
        )?,
        "vlan" => install(call, "vlan", test)?,
        "pppoe" => {
            let version = call.salt("pkg.version", vec!["ppp".into()], Map::new())?;
            if !version.truthy() {
                install(call, "ppp", test)?;
            }
        }
        "bond" => needed("slaves", "slaves is a required setting for bond interfaces")?,
        "bridge" => {
            needed(
                "ports",
                "ports is a required setting for bridge interfaces on Debian or Ubuntu based systems",
            )?;
            install(call, "bridge-utils", test)?;
        }
        _ => {}
    }
    let data = match kind.as_str() {
        "source" => settings::source(&settings)?,
        "eth" | "bond" | "bridge" | "slave" | "vlan" | "pppoe" => {
            let enabled = call.flag("enabled");
            settings::interface(&call.ctx.grains, &name, &kind, enabled, settings.clone())?
        }
        _ => {
            let text =
                "cannot access local variable 'opts' where it is not associated with a value";
            return Err(CallError::raised("UnboundLocalError", text));
        }
    };
    if test {
        return Ok(split(&text::interface(&name, &data)));
    }
    let written = interfaces::write(&name, &data, settings.str("filename"))?;
    if kind == "pppoe" {
        write_peer(&data)?;
    }
    Ok(split(&written))
}

/// The file of a provider. It may have a password in it, so that only root may read a new one.
fn write_peer(data: &Map) -> Result<()> {
    let inet = data
        .get("data")
        .and_then(Value::as_map)
        .and_then(|d| d.get("inet"));
    let inet = inet
        .and_then(Value::as_map)
        .ok_or_else(|| key_error("inet"))?;
    let provider = inet.get("provider").ok_or_else(|| key_error("provider"))?;
    let provider = python::str(provider);
    if provider.contains('/') || provider.starts_with('.') {
        return Err(CallError::Invocation(format!(
            "{provider} is not a provider"
        )));
    }
    if !Path::new(PEERS).exists() {
        return Err(attribute(format!("{PEERS} cannot be written.")));
    }
    let path = format!("{PEERS}/{provider}");
    let failed = |e: std::io::Error| python::os_error(&e, &path);
    command_helpers::write_private(&path, text::peer(inet).as_bytes()).map_err(failed)
}

fn build_bond(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let name = iface(call)?;
    let mut settings = keywords(call);
    let test = is_test(&settings);
    let options = settings::bond(&call.ctx.grains, &mut settings, &name)?;
    let text = text::bond(&name, &options);
    if test {
        return Ok(lines(&text));
    }
    let path = write_into(MODPROBE, &format!("{name}.conf"), &text)?;
    call.salt("kmod.load", vec!["bonding".into()], Map::new())?;
    install(call, "ifenslave", false)?;
    Ok(lines_of(&path))
}

/// The lines of both scripts; an empty text if there are none.
fn both(up: &str, down: &str) -> Value {
    match (lines_of(up), lines_of(down)) {
        (Value::Array(mut all), Value::Array(more)) => {
            all.extend(more);
            all.into()
        }
        (up @ Value::Array(_), _) => up,
        (_, down) => down,
    }
}

fn get_routes(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let name = iface(call)?;
    Ok(both(
        &format!("{UP}route-{name}"),
        &format!("{DOWN}route-{name}"),
    ))
}

fn build_routes(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let name = iface(call)?;
    let settings = keywords(call);
    let key = |key: &Value| python::str(key).to_lowercase() == "routes";
    let Some(routes) = settings.iter().find(|(k, _)| key(k)).map(|(_, v)| v) else {
        return Err(attribute(format!(
            "Invalid option -- Route interface: {name}, Option: routes, Expected: [List of routes]"
        )));
    };
    let (add, del) = (
        text::routes("add", &name, routes)?,
        text::routes("del", &name, routes)?,
    );
    if is_test(&settings) {
        return Ok(lines(&(add + &del)));
    }
    // run-parts(8) ignores files with dots in their names.
    let file = format!("route-{}", name.replace('.', "_"));
    for (folder, text) in [(UP, add), (DOWN, del)] {
        let path = write_into(folder, &file, &text)?;
        call.salt(
            "file.set_mode",
            vec![path.into(), "0755".into()],
            Map::new(),
        )?;
    }
    Ok(both(&format!("{UP}{file}"), &format!("{DOWN}{file}")))
}
