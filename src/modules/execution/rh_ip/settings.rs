//! The settings of the whole network.

use super::{
    Call, Result, WORDS, apply_hostname, attribute, command_helpers, is_test, key_error, keywords,
    lines, lines_of, lower_case, python, truth,
};
use halite_wire::{Map, Value};

/// The file of the settings.
pub const FILE: &str = "/etc/sysconfig/network";

/// The settings that the file keeps, after those that it must have.
const SETTINGS: [&str; 5] = [
    "gateway",
    "gatewaydev",
    "nisdomain",
    "networkdelay",
    "nozeroconf",
];

/// The settings of the file as they stand there.
fn current() -> Result<Map> {
    let text = match command_helpers::read_file(FILE) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(python::os_error(&e, FILE)),
    };
    let mut out = Map::new();
    for line in text.lines() {
        if let Some((key, value)) = line.split_once('=') {
            out.set(key.trim().to_lowercase(), value);
        }
    }
    Ok(out)
}

fn invalid(setting: &str, expected: &[&str]) -> super::CallError {
    attribute(format!(
        "Invalid network setting -- Setting: {setting}, Expected: [{}]",
        expected.join("|")
    ))
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

fn yes_no(value: &Value, setting: &str) -> Result<&'static str> {
    match truth(value) {
        Some(true) => Ok("yes"),
        Some(false) => Ok("no"),
        None => Err(invalid(setting, WORDS)),
    }
}

/// The new text of the file.
fn file(opts: &Map, now: &Map) -> Result<String> {
    let mut quote = "";
    let networking = match opts.get("enabled") {
        Some(enabled) => yes_no(enabled, "networking")?,
        None => {
            let own = now
                .str("networking")
                .ok_or_else(|| key_error("networking"))?;
            // What is added gets the same quotes.
            quote = match own.chars().next() {
                Some('"') => "\"",
                Some('\'') => "'",
                _ => "",
            };
            yes_no(&unquoted(own).into(), "networking")?
        }
    };
    let quoted = |value: &Value| format!("{quote}{}{quote}", unquoted(&python::str(value)));
    let hostname = opts.get("hostname").or(now.get("hostname"));
    let Some(hostname) = hostname.filter(|name| name.truthy()) else {
        return Err(invalid("hostname", &["server1.example.com"]));
    };
    let retain = opts.get("retain_settings").is_some_and(Value::truthy);
    let value = |key: &str| -> Result<Option<String>> {
        match opts.get(key) {
            Some(given) if key == "nozeroconf" => {
                Ok(Some(quoted(&yes_no(given, "nozeroconf")?.into())))
            }
            Some(given) => Ok(Some(quoted(given))),
            None => Ok(now.get(key).filter(|_| retain).map(python::str)),
        }
    };
    let mut out = format!("NETWORKING={quote}{networking}{quote}\n");
    if let Some(six) = value("networking_ipv6")? {
        out += &format!("NETWORKING_IPV6={six}\n");
    }
    out += &format!("HOSTNAME={}\n", quoted(hostname));
    for key in SETTINGS {
        if let Some(value) = value(key)? {
            out += &format!("{}={value}\n", key.to_uppercase());
        }
    }
    if opts.contains("enable_ipv6") {
        out += "IPV6INIT=\"yes\"\n";
    }
    Ok(out)
}

/// `ip.build_network_settings`.
pub fn build(call: &mut Call<'_>) -> Result {
    let opts = lower_case(keywords(call));
    let text = file(&opts, &current()?)?;
    if is_test(&opts) {
        return Ok(lines(&text));
    }
    command_helpers::write_file(FILE, &text).map_err(|e| python::os_error(&e, FILE))?;
    lines_of(FILE)
}

/// `ip.apply_network_settings`.
pub fn apply(call: &mut Call<'_>) -> Result {
    let opts = keywords(call);
    let is = |key: &str| opts.get(key).and_then(truth) == Some(true);
    let named = apply_hostname(call, &opts)?;
    if is("require_reboot") {
        return Ok(named.into());
    }
    let major = call
        .ctx
        .grains
        .get("osmajorrelease")
        .and_then(Value::as_int);
    let service = if major >= Some(8) {
        "NetworkManager"
    } else {
        "network"
    };
    let restarted = call.salt("service.restart", vec![service.into()], Map::new())?;
    Ok((named && restarted.truthy()).into())
}
