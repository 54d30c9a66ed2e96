//! `firewalld`: zones and services of the firewall daemon, through firewall-cmd(1).

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python, shell, which};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: Module = Module {
    name: "firewalld",
    functions: &[
        Function::new(
            "version",
            |c| text(c, &["--version"]),
            "The version of firewalld.",
        ),
        Function::new(
            "reload_rules",
            reload,
            "Has the daemon read its configuration again.",
        ),
        Function::new(
            "default_zone",
            |c| text(c, &["--get-default-zone"]),
            "The default zone.",
        ),
        Function::new(
            "list_zones",
            |c| Ok(zones(c, None, "--list-all-zones")?.into()),
            "All zones with their settings.",
        )
        .args(args![permanent = True]),
        Function::new(
            "get_zones",
            |c| words(c, "--get-zones"),
            "The names of the zones.",
        )
        .args(args![permanent = True]),
        Function::new(
            "get_services",
            |c| words(c, "--get-services"),
            "The names of the services.",
        )
        .args(args![permanent = True]),
        Function::new(
            "get_icmp_types",
            |c| words(c, "--get-icmptypes"),
            "The types of ICMP.",
        )
        .args(args![permanent = True]),
        Function::new(
            "new_zone",
            |c| manage(c, "zone", "--new-zone"),
            "Adds a zone.",
        )
        .args(args![zone, restart = True]),
        Function::new(
            "delete_zone",
            |c| manage(c, "zone", "--delete-zone"),
            "Removes a zone.",
        )
        .args(args![zone, restart = True]),
        Function::new(
            "set_default_zone",
            |c| {
                let zone = option(c, "set-default-zone", "zone");
                text(c, &[&zone])
            },
            "Sets the default zone.",
        )
        .args(args![zone]),
        Function::new(
            "new_service",
            |c| manage(c, "name", "--new-service"),
            "Adds a service.",
        )
        .args(args![name, restart = True]),
        Function::new(
            "delete_service",
            |c| manage(c, "name", "--delete-service"),
            "Removes a service.",
        )
        .args(args![name, restart = True]),
        Function::new(
            "list_all",
            |c| {
                let zone = given_zone(c);
                Ok(zones(c, zone, "--list-all")?.into())
            },
            "The settings of a zone, by default the default zone.",
        )
        .args(args![zone = None, permanent = True]),
        Function::new(
            "list_services",
            |c| words(c, "--list-services"),
            "The services of a zone.",
        )
        .args(args![zone = None, permanent = True]),
        Function::new(
            "add_service",
            |c| change(c, "add-service", "service"),
            "Adds a service to a zone.",
        )
        .args(args![service, zone = None, permanent = True]),
        Function::new(
            "remove_service",
            |c| change(c, "remove-service", "service"),
            "Removes a service from a zone.",
        )
        .args(args![service, zone = None, permanent = True]),
        Function::new(
            "add_service_port",
            |c| of_known_service(c, "add-port"),
            "Adds a port to a service.",
        )
        .args(args![service, port]),
        Function::new(
            "remove_service_port",
            |c| of_known_service(c, "remove-port"),
            "Removes a port from a service.",
        )
        .args(args![service, port]),
        Function::new(
            "get_service_ports",
            |c| of_service(c, "--get-ports").map(|t| split(&t)),
            "The ports of a service.",
        )
        .args(args![service]),
        Function::new(
            "add_service_protocol",
            |c| {
                let protocol = option(c, "add-protocol", "protocol");
                Ok(of_service(c, &protocol)?.into())
            },
            "Adds a protocol to a service.",
        )
        .args(args![service, protocol]),
        Function::new(
            "remove_service_protocol",
            |c| {
                let protocol = option(c, "remove-protocol", "protocol");
                Ok(of_service(c, &protocol)?.into())
            },
            "Removes a protocol from a service.",
        )
        .args(args![service, protocol]),
        Function::new(
            "get_service_protocols",
            |c| of_service(c, "--get-protocols").map(|t| split(&t)),
            "The protocols of a service.",
        )
        .args(args![service]),
        Function::new(
            "get_masquerade",
            |c| Ok(masquerades(c)?.into()),
            "Whether a zone hides addresses.",
        )
        .args(args![zone = None, permanent = True]),
        Function::new(
            "add_masquerade",
            |c| in_zone(c, "--add-masquerade").map(Value::from),
            "Has a zone hide addresses.",
        )
        .args(args![zone = None, permanent = True]),
        Function::new(
            "remove_masquerade",
            |c| in_zone(c, "--remove-masquerade").map(Value::from),
            "Has a zone no longer hide addresses.",
        )
        .args(args![zone = None, permanent = True]),
        Function::new(
            "add_port",
            |c| {
                force_masquerade(c)?;
                change(c, "add-port", "port")
            },
            "Adds a port to a zone.",
        )
        .args(args![
            zone,
            port,
            permanent = True,
            force_masquerade = False
        ]),
        Function::new(
            "remove_port",
            |c| change(c, "remove-port", "port"),
            "Removes a port from a zone.",
        )
        .args(args![zone, port, permanent = True]),
        Function::new(
            "list_ports",
            |c| words(c, "--list-ports"),
            "The ports of a zone.",
        )
        .args(args![zone, permanent = True]),
        Function::new(
            "add_port_fwd",
            |c| {
                force_masquerade(c)?;
                forward(c, "add")
            },
            "Forwards a port of a zone.",
        )
        .args(args![
            zone,
            src,
            dest,
            proto = "tcp",
            dstaddr = "",
            permanent = True,
            force_masquerade = False
        ]),
        Function::new(
            "remove_port_fwd",
            |c| forward(c, "remove"),
            "No longer forwards a port of a zone.",
        )
        .args(args![
            zone,
            src,
            dest,
            proto = "tcp",
            dstaddr = "",
            permanent = True
        ]),
        Function::new(
            "list_port_fwd",
            list_forwards,
            "The forwarded ports of a zone.",
        )
        .args(args![zone, permanent = True]),
        Function::new(
            "block_icmp",
            |c| icmp(c, "add-icmp-block", false),
            "Blocks a type of ICMP in a zone.",
        )
        .args(args![zone, icmp, permanent = True]),
        Function::new(
            "allow_icmp",
            |c| icmp(c, "remove-icmp-block", true),
            "Allows a type of ICMP in a zone.",
        )
        .args(args![zone, icmp, permanent = True]),
        Function::new(
            "list_icmp_block",
            |c| words(c, "--list-icmp-blocks"),
            "The types of ICMP that a zone blocks.",
        )
        .args(args![zone, permanent = True]),
        Function::new(
            "make_permanent",
            |c| text(c, &["--runtime-to-permanent"]),
            "Makes the settings in use permanent.",
        ),
        Function::new(
            "get_interfaces",
            |c| words(c, "--list-interfaces"),
            "The interfaces of a zone.",
        )
        .args(args![zone, permanent = True]),
        Function::new(
            "add_interface",
            |c| change(c, "add-interface", "interface"),
            "Adds an interface to a zone.",
        )
        .args(args![zone, interface, permanent = True]),
        Function::new(
            "remove_interface",
            |c| change(c, "remove-interface", "interface"),
            "Removes an interface from a zone.",
        )
        .args(args![zone, interface, permanent = True]),
        Function::new(
            "get_sources",
            |c| words(c, "--list-sources"),
            "The sources of a zone.",
        )
        .args(args![zone, permanent = True]),
        Function::new(
            "add_source",
            |c| change(c, "add-source", "source"),
            "Adds a source to a zone.",
        )
        .args(args![zone, source, permanent = True]),
        Function::new(
            "remove_source",
            |c| change(c, "remove-source", "source"),
            "Removes a source from a zone.",
        )
        .args(args![zone, source, permanent = True]),
        Function::new(
            "get_rich_rules",
            |c| {
                let text = in_zone(c, "--list-rich-rules")?;
                Ok(text.lines().map(Value::from).collect::<Vec<_>>().into())
            },
            "The rich rules of a zone.",
        )
        .args(args![zone, permanent = True]),
        Function::new(
            "add_rich_rule",
            |c| change(c, "add-rich-rule", "rule"),
            "Adds a rich rule to a zone.",
        )
        .args(args![zone, rule, permanent = True]),
        Function::new(
            "remove_rich_rule",
            |c| change(c, "remove-rich-rule", "rule"),
            "Removes a rich rule from a zone.",
        )
        .args(args![zone, rule, permanent = True]),
    ],
};

/// Runs firewall-cmd; its output.
fn run<T: AsRef<str>>(call: &mut Call<'_>, options: &[T]) -> Result<String> {
    let program = which("firewall-cmd");
    let program =
        program.ok_or_else(|| CallError::Command("firewall-cmd is not installed".to_owned()))?;
    let mut argv = vec![program.as_str()];
    argv.extend(options.iter().map(AsRef::as_ref));
    let ran = shell::run_all(call, &argv)?;
    if ran.retcode == 0 {
        return Ok(ran.stdout);
    }
    let said = if ran.stderr.is_empty() {
        ran.stdout
    } else {
        ran.stderr
    };
    Err(CallError::Command(format!("firewall-cmd failed: {said}")))
}

fn text(call: &mut Call<'_>, options: &[&str]) -> Result {
    Ok(run(call, options)?.into())
}

fn split(text: &str) -> Value {
    text.split_whitespace()
        .map(Value::from)
        .collect::<Vec<_>>()
        .into()
}

/// `--name=value` of an argument.
fn option(call: &Call<'_>, name: &str, arg: &str) -> String {
    format!("--{name}={}", python::str(call.arg(arg)))
}

fn reload(call: &mut Call<'_>) -> Result {
    text(call, &["--reload"])
}

/// The zone, if one was given; functions that need one take any.
fn given_zone(call: &Call<'_>) -> Option<String> {
    let has = call
        .function
        .args
        .iter()
        .any(|arg| arg.name == "zone" && (arg.default.is_none() || call.flag("zone")));
    has.then(|| option(call, "zone", "zone"))
}

/// Runs an option in the zone of the call.
fn in_zone(call: &mut Call<'_>, option: &str) -> Result<String> {
    let mut options: Vec<String> = given_zone(call).into_iter().collect();
    options.push(option.to_owned());
    if call.flag("permanent") {
        options.push("--permanent".to_owned());
    }
    run(call, &options)
}

fn words(call: &mut Call<'_>, option: &str) -> Result {
    Ok(split(&in_zone(call, option)?))
}

fn change(call: &mut Call<'_>, name: &str, arg: &str) -> Result {
    let option = option(call, name, arg);
    Ok(in_zone(call, &option)?.into())
}

/// Adds or removes a zone or a service, always permanently.
fn manage(call: &mut Call<'_>, arg: &str, action: &str) -> Result {
    let option = format!("{action}={}", python::str(call.arg(arg)));
    let out = run(call, &[option.as_str(), "--permanent"])?;
    if call.flag("restart") && out == "success" {
        return reload(call);
    }
    Ok(out.into())
}

/// Zones with their settings, each a list.
fn zones(call: &mut Call<'_>, zone: Option<String>, option: &str) -> Result<Map> {
    let mut options: Vec<String> = zone.into_iter().collect();
    options.push(option.to_owned());
    if call.flag("permanent") {
        options.push("--permanent".to_owned());
    }
    Ok(parse(&run(call, &options)?))
}

fn parse(text: &str) -> Map {
    let mut all = Map::new();
    let (mut zone, mut key) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            line.trim_end().clone_into(&mut zone);
            continue;
        }
        if !all.contains(&zone) {
            all.set(zone.as_str(), Map::new());
        }
        let Some(Value::Map(settings)) = all.get_mut(&zone) else {
            continue;
        };
        // Rich rules are on lines of their own.
        if line.starts_with('\t') {
            if let Some(Value::Array(list)) = settings.get_mut(&key) {
                list.push(line.trim().into());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            name.trim().clone_into(&mut key);
            settings.set(key.as_str(), vec![Value::from(value.trim())]);
        }
    }
    all
}

fn masquerades(call: &mut Call<'_>) -> Result<bool> {
    let zone = given_zone(call);
    let all = zones(call, zone, "--list-all")?;
    let mut values = Vec::new();
    for (_, settings) in all.iter() {
        let value = settings.as_map().and_then(|m| m.get("masquerade"));
        let value = value.ok_or_else(|| CallError::raised("KeyError", "'masquerade'"))?;
        values.extend(value.as_array().and_then(|list| list.first()).cloned());
    }
    Ok(!values.iter().any(|value| value.is_str("no")))
}

fn force_masquerade(call: &mut Call<'_>) -> Result<()> {
    if call.flag("force_masquerade") {
        let zone = call.arg("zone").clone();
        let hides = call.salt("firewalld.get_masquerade", vec![zone.clone()], Map::new())?;
        if !hides.truthy() {
            call.salt("firewalld.add_masquerade", vec![zone], Map::new())?;
        }
    }
    Ok(())
}

fn of_service(call: &mut Call<'_>, action: &str) -> Result<String> {
    let service = option(call, "service", "service");
    run(call, &["--permanent", &service, action])
}

fn of_known_service(call: &mut Call<'_>, name: &str) -> Result {
    let service = python::str(call.arg("service"));
    let known = run(call, &["--get-services", "--permanent"])?;
    if !known.split_whitespace().any(|other| other == service) {
        return Err(CallError::Command("The service does not exist.".to_owned()));
    }
    let port = option(call, name, "port");
    Ok(of_service(call, &port)?.into())
}

fn forward(call: &mut Call<'_>, action: &str) -> Result {
    let [src, proto, dest, to] =
        ["src", "proto", "dest", "dstaddr"].map(|name| python::str(call.arg(name)));
    let option =
        format!("--{action}-forward-port=port={src}:proto={proto}:toport={dest}:toaddr={to}");
    Ok(in_zone(call, &option)?.into())
}

fn list_forwards(call: &mut Call<'_>) -> Result {
    let mut all = Vec::new();
    for line in in_zone(call, "--list-forward-ports")?.lines() {
        let values: Vec<&str> = line
            .split(':')
            .map(|part| part.split('=').nth(1).unwrap_or_default())
            .collect();
        let &[src, proto, dest, to] = values.as_slice() else {
            let few = values.len() < 4;
            let text = if few {
                format!(
                    "not enough values to unpack (expected 4, got {})",
                    values.len()
                )
            } else {
                "too many values to unpack (expected 4)".to_owned()
            };
            return Err(CallError::raised("ValueError", text));
        };
        all.push(Value::Map(map! {
            "Source port" => src, "Protocol" => proto, "Destination port" => dest, "Destination address" => to,
        }));
    }
    Ok(all.into())
}

fn icmp(call: &mut Call<'_>, name: &str, blocked: bool) -> Result {
    let kind = python::str(call.arg("icmp"));
    let mut known = vec!["--get-icmptypes"];
    if call.flag("permanent") {
        known.push("--permanent");
    }
    let has = |text: &str| text.split_whitespace().any(|other| other == kind);
    if !has(&run(call, &known)?) {
        return Ok(false.into());
    }
    if has(&in_zone(call, "--list-icmp-blocks")?) != blocked {
        return Ok("success".into());
    }
    change(call, name, "icmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_parsed() {
        let all = parse(
            "public (active)\n  target: default\n  ports: 80/tcp\n  rich rules: \n\trule a: b\n\trule c\n\nwork\n  ports: \n",
        );
        let zone = all.get("public (active)").and_then(Value::as_map).unwrap();
        let rules: Vec<Value> = ["", "rule a: b", "rule c"].map(Value::from).to_vec();
        assert_eq!(zone.get("rich rules"), Some(&rules.into()));
        assert_eq!(all.len(), 2);
    }
}
