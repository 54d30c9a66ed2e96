//! The settings of the whole network: host name, domain, and whether the interfaces come up at the start.

use super::{
    Call, Result, WORDS, apply_hostname, attribute, check_netplan, is_test, keywords, lines, truth,
};
use crate::execution::{command_helpers, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

const NETWORKING: &str = "/etc/default/networking";
const RESOLV: &str = "/etc/resolv.conf";

/// `domain` and `search` of the resolver; `None` if its file cannot be read.
fn resolver() -> Option<(String, Value)> {
    let text = command_helpers::read_file(RESOLV).ok()?;
    let (mut domain, mut search) = (String::new(), Vec::new());
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let directive = words.next().unwrap_or_default().to_lowercase();
        let args: Vec<Value> = words
            .take_while(|w| !w.starts_with(['#', ';']))
            .map(Value::from)
            .collect();
        match directive.as_str() {
            "domain" => domain = args.first().map_or(domain, python::str),
            "search" => search = args,
            _ => {}
        }
    }
    Some((domain, search.into()))
}

/// What is set now: `networking`, `hostname`, `domainname`, `searchdomain`.
fn current() -> Map {
    let text = command_helpers::read_file(NETWORKING).unwrap_or_default();
    let lines = text
        .lines()
        .filter(|line| line.starts_with("CONFIGURE_INTERFACES"));
    let networking = lines.filter_map(|line| line.split_once('=')).next_back();
    let hostname = command_helpers::read_file("/etc/hostname").unwrap_or_default();
    let (domain, search) = resolver().unwrap_or_else(|| (String::new(), "".into()));
    map! {
        "networking" => networking.map(|(_, value)| value.trim()).unwrap_or_default(),
        "hostname" => hostname.lines().next().unwrap_or_default(), "domainname" => domain, "searchdomain" => search,
    }
}

/// Settings as they are shown.
fn shown(settings: &Map) -> String {
    let mut out = String::new();
    for (key, name) in [
        ("networking", "NETWORKING"),
        ("hostname", "HOSTNAME"),
        ("domainname", "DOMAIN"),
        ("searchdomain", "SEARCH"),
    ] {
        if let Some(value) = settings.get(key).filter(|value| value.truthy()) {
            out += &format!("{name}={}\n", python::str(value));
        }
    }
    out
}

/// Whether the host is an Ubuntu without the file for all interfaces.
fn is_ubuntu(call: &Call<'_>) -> bool {
    let grain = |name| {
        call.ctx
            .grains
            .get(name)
            .map(python::str)
            .unwrap_or_default()
    };
    let release = grain("osrelease");
    let major = release
        .split('.')
        .next()
        .and_then(|n| n.parse::<u32>().ok());
    grain("osfullname") == "Ubuntu" && major >= Some(12)
}

fn service(call: &mut Call<'_>, fun: &str, name: &str) -> Result<bool> {
    Ok(call.salt(fun, vec![name.into()], Map::new())?.truthy())
}

/// `ip.get_network_settings`.
pub fn get(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let mut settings = current();
    if is_ubuntu(call) {
        let runs = service(call, "service.available", "networking")?
            && service(call, "service.status", "networking")?;
        settings.set("networking", if runs { "yes" } else { "no" });
        settings.remove("searchdomain");
    }
    Ok(lines(&shown(&settings)))
}

fn invalid(setting: &str, expected: &[&str]) -> super::CallError {
    attribute(format!(
        "Invalid network setting -- Setting: {setting}, Expected: [{}]",
        expected.join("|")
    ))
}

/// The wanted settings.
fn wanted(settings: &Map, now: &Map) -> Result<Map> {
    let mut given = Map::new();
    for (key, value) in settings.iter() {
        given.set(python::str(key).to_lowercase(), value.clone());
    }
    let networking = given
        .get("enabled")
        .or(now.get("networking"))
        .and_then(truth);
    let Some(networking) = networking else {
        return Err(invalid("networking", WORDS));
    };
    let hostname = given
        .get("hostname")
        .or(now.get("hostname"))
        .filter(|h| h.truthy());
    let Some(hostname) = hostname else {
        return Err(invalid("hostname", &["server1.example.com"]));
    };
    let mut out = map! {
        "networking" => if networking { "yes" } else { "no" }, "hostname" => hostname.clone(),
    };
    if let Some(search) = given.get("search") {
        out.set("search", search.clone());
    }
    Ok(out)
}

fn file(networking: &str) -> String {
    format!(
        "# Configuration for networking init script being run during\n# the boot sequence\n\n\
         # Set to 'no' to skip interfaces configuration on boot\nCONFIGURE_INTERFACES={networking}\n\n\
         # Don't configure these interfaces. Shell wildcards supported/\n#EXCLUDE_INTERFACES=\n\n\
         # Set to 'yes' to enable additional verbosity\n#VERBOSE=no"
    )
}

/// `ip.build_network_settings`.
pub fn build(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let settings = keywords(call);
    let test = is_test(&settings);
    let now = current();
    let mut opts = wanted(&settings, &now)?;
    let networking = opts.str("networking").unwrap_or_default().to_owned();
    if is_ubuntu(call) {
        // Stock does this in test mode, too.
        if !test {
            let fun = if networking == "yes" {
                "service.enable"
            } else {
                "service.disable"
            };
            for name in ["NetworkManager", "networking"] {
                if service(call, "service.available", name)? {
                    service(call, fun, name)?;
                }
            }
        }
    } else {
        let text = file(&networking);
        if test {
            return Ok(lines(&text));
        }
        command_helpers::write_file(NETWORKING, &text)
            .map_err(|e| python::os_error(&e, NETWORKING))?;
    }
    let hostname = python::str(opts.get("hostname").unwrap_or(&Value::Nil));
    let (host, new_domain) = match hostname.split_once('.') {
        Some((host, domain)) => (host, Some(domain)),
        None => (hostname.as_str(), None),
    };
    opts.set("hostname", host);
    let domain = now.str("domainname").unwrap_or_default();
    let search = now.get("searchdomain").cloned().unwrap_or_default();
    let new_domain = new_domain.filter(|new| *new != domain);
    let new_search = opts.get("search").filter(|new| **new != search).cloned();
    let changed = new_domain.is_some() || new_search.is_some();
    let domain = new_domain.unwrap_or(domain);
    let search = new_search.unwrap_or(search);
    opts.set("domainname", domain);
    opts.set("searchdomain", search.clone());
    if changed && !test {
        write_resolver(domain, &python::str(&search))?;
    }
    Ok(lines(&shown(&opts)))
}

/// Puts domain and search into the file of the resolver, where it has lines for them. As stock, which joins lines that
/// have their ends with more ends.
fn write_resolver(domain: &str, search: &str) -> Result<()> {
    if !Path::new(RESOLV).exists() {
        return Err(attribute(format!(
            "{RESOLV} cannot be written. {RESOLV} does not exist and create is setto False"
        )));
    }
    let text = command_helpers::read_file(RESOLV).map_err(|e| python::os_error(&e, RESOLV))?;
    let is = |line: &str, word: &str| {
        line.strip_prefix(word)
            .is_some_and(|rest| rest.starts_with(char::is_whitespace))
    };
    let one = |line: &str| {
        if is(line, "domain") {
            format!("domain {domain}")
        } else if is(line, "search") {
            format!("search {search}")
        } else {
            line.to_owned()
        }
    };
    let new: Vec<String> = text.split_inclusive('\n').map(one).collect();
    command_helpers::write_file(RESOLV, &new.join("\n")).map_err(|e| python::os_error(&e, RESOLV))
}

/// `ip.apply_network_settings`.
pub fn apply(call: &mut Call<'_>) -> Result {
    check_netplan()?;
    let settings = keywords(call);
    let is = |key: &str| settings.get(key).and_then(truth) == Some(true);
    let named = apply_hostname(call, &settings)?;
    if is("require_reboot") {
        return Ok(named.into());
    }
    let stopped = service(call, "service.stop", "networking")?;
    // As stock: time for what the service leaves behind.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let started = stopped && service(call, "service.start", "networking")?;
    Ok((named && started).into())
}
