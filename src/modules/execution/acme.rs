//! `acme`: certificates of Let's Encrypt and its like (`certbot(1)`).

use super::cmd::which;
use super::command_helpers::run_all_as;
use super::declare::{Arg, Function, Module, Result, args};
use super::{Call, CallError, find_for, program, python};
use halite_wire::{Map, Value, map};
use jiff::civil::DateTime;
use jiff::{ToSpan, Zoned, tz::TimeZone};
use std::path::{Path, PathBuf};

const LIVE: &str = "/etc/letsencrypt/live";
/// Names of the program, the present one first.
const PROGRAMS: [&str; 5] = [
    "certbot",
    "letsencrypt",
    "certbot-auto",
    "letsencrypt-auto",
    "/opt/letsencrypt/letsencrypt-auto",
];

/// The arguments of `acme.cert`.
pub const CERT: &[Arg] = args![
    name,
    aliases = None,
    email = None,
    webroot = None,
    test_cert = False,
    renew = None,
    keysize = None,
    server = None,
    owner = "root",
    group = "root",
    mode = "0640",
    certname = None,
    preferred_challenges = None,
    tls_sni_01_port = None,
    tls_sni_01_address = None,
    http_01_port = None,
    http_01_address = None,
    dns_plugin = None,
    dns_plugin_credentials = None,
    dns_plugin_propagate_seconds = { 10 },
    manual_auth_hook = None,
    manual_cleanup_hook = None
];

/// Arguments that certbot must not take for options.
const WORDS: &[&str] = &[
    "name",
    "aliases",
    "email",
    "webroot",
    "keysize",
    "server",
    "certname",
    "preferred_challenges",
    "tls_sni_01_port",
    "tls_sni_01_address",
    "http_01_port",
    "http_01_address",
    "dns_plugin_credentials",
    "dns_plugin_propagate_seconds",
    "manual_auth_hook",
    "manual_cleanup_hook",
];

pub(super) const MODULE: Module = Module {
    name: "acme",
    functions: &[
        Function::new("cert", cert, "Obtains or renews a certificate.")
            .args(CERT)
            .names(WORDS),
        Function::new("certs", certs, "The names of the certificates."),
        Function::new("info", info, "What is in a certificate.").args(args![name]),
        Function::new(
            "expires",
            |c| Ok(shown(&expiry(c, &name(c))?).into()),
            "When a certificate expires.",
        )
        .args(args![name]),
        Function::new(
            "has",
            |c| Ok(file(&name(c), "cert")?.is_file().into()),
            "Whether there is a certificate.",
        )
        .args(args![name]),
        Function::new(
            "renew_by",
            renew_by,
            "When a certificate expires, less a number of days.",
        )
        .args(args![name, window = None]),
        Function::new(
            "needs_renewal",
            needs_renewal,
            "Whether a certificate expires within a number of days.",
        )
        .args(args![name, window = None]),
    ],
};

fn name(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

/// A file of a certificate.
fn file(name: &str, kind: &str) -> Result<PathBuf> {
    if name.split('/').any(|part| part == "..") || name.starts_with('/') {
        let text = format!("{name} is not the name of a certificate");
        return Err(CallError::Invocation(text));
    }
    Ok(Path::new(LIVE).join(name).join(format!("{kind}.pem")))
}

/// When a certificate expires, in the time of this host.
fn expiry(_: &Call<'_>, name: &str) -> Result<Zoned> {
    let path = file(name, "cert")?.to_string_lossy().into_owned();
    let ran = program::run(["openssl", "x509", "-in", &path, "-noout", "-enddate"])?;
    let text = ran
        .stdout
        .trim()
        .strip_prefix("notAfter=")
        .unwrap_or_default();
    let text = text.trim_end_matches(" GMT");
    let time = DateTime::strptime("%b %e %H:%M:%S %Y", text)
        .and_then(|time| time.to_zoned(TimeZone::UTC))
        .map_err(|_| CallError::Command(format!("{path}: {}", ran.stderr)))?;
    Ok(time.with_time_zone(TimeZone::system()))
}

fn shown(time: &Zoned) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// The expiry less a number of days.
fn renewal(call: &Call<'_>, name: &str, days: Option<i64>) -> Result<Zoned> {
    let expiry = expiry(call, name)?;
    let Some(days) = days else { return Ok(expiry) };
    let span = 0.days().try_days(days);
    let earlier = span.and_then(|span| expiry.checked_sub(span));
    earlier.map_err(|_| CallError::raised("OverflowError", "date value out of range"))
}

fn days(window: &Value) -> Option<i64> {
    match window {
        Value::Int(days) => Some(*days),
        Value::Str(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok()
        }
        _ => None,
    }
}

fn renew_by(call: &mut Call<'_>) -> Result {
    let days = days(call.arg("window"));
    Ok(shown(&renewal(call, &name(call), days)?).into())
}

fn needs_renewal(call: &mut Call<'_>) -> Result {
    let window = call.arg("window").clone();
    Ok(is_due(call, &name(call), &window)?.into())
}

fn is_due(call: &Call<'_>, name: &str, window: &Value) -> Result<bool> {
    let mut before = None;
    if window.truthy() {
        if ["force", "true"].contains(&python::str(window).to_lowercase().as_str()) {
            return Ok(true);
        }
        before = days(window);
        if before.is_none() {
            let text = "The argument \"window\", if provided, must be one of the following : True (boolean), \
                        \"force\" or \"Force\" (str) or a numerical value in days.";
            return Err(CallError::Invocation(text.to_owned()));
        }
    }
    Ok(renewal(call, name, before)? <= Zoned::now())
}

fn certs(_: &mut Call<'_>) -> Result {
    let entries = std::fs::read_dir(LIVE).map_err(|e| python::os_error(&e, LIVE))?;
    let dirs = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> = dirs
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names.into())
}

fn info(call: &mut Call<'_>) -> Result {
    let path = file(&name(call), "cert")?;
    if !path.is_file() {
        return Ok(Map::new().into());
    }
    let path = path.to_string_lossy().into_owned();
    let known = find_for(call.ctx, "x509.read_certificate").is_some();
    if known {
        return call.salt("x509.read_certificate", vec![path.into()], Map::new());
    }
    let ran = program::run(["openssl", "x509", "-in", &path, "-noout", "-text"])?;
    Ok(map! {"text" => ran.stdout}.into())
}

/// The command of certbot for the arguments of a call.
fn command(call: &Call<'_>, program: String, certname: &str, again: bool) -> Vec<String> {
    let mut argv = vec![program];
    let mut add = |words: &[&str]| argv.extend(words.iter().map(|w| (*w).to_owned()));
    let text = |name: &str| call.text(name).filter(|_| call.flag(name));
    add(&["certonly", "--non-interactive", "--agree-tos"]);
    if again {
        add(&["--renew-by-default"]);
    }
    if let Some(server) = text("server") {
        add(&["--server", &server]);
    }
    if !certname.is_empty() {
        add(&["--cert-name", certname]);
    }
    if call.flag("test_cert") {
        add(&["--test-cert"]);
    }
    if let Some(webroot) = text("webroot") {
        add(&["--authenticator", "webroot"]);
        if call.arg("webroot") != &Value::Bool(true) {
            add(&["--webroot-path", &webroot]);
        }
    } else if call.arg("dns_plugin").is_str("cloudflare") {
        let credentials = python::str(call.arg("dns_plugin_credentials"));
        let seconds = python::str(call.arg("dns_plugin_propagate_seconds"));
        add(&[
            "--dns-cloudflare",
            "--dns-cloudflare-credentials",
            &credentials,
        ]);
        add(&["--dns-cloudflare-propagation-seconds", &seconds]);
    } else if let Some(hook) = text("manual_auth_hook") {
        add(&["--manual", "--manual-auth-hook", &hook]);
        if let Some(hook) = text("manual_cleanup_hook") {
            add(&["--manual-cleanup-hook", &hook]);
        }
    } else {
        add(&["--authenticator", "standalone"]);
    }
    for (arg, option) in [("email", "--email"), ("keysize", "--rsa-key-size")] {
        if let Some(value) = text(arg) {
            add(&[option, &value]);
        }
    }
    add(&["--domains", &name(call)]);
    for alias in call.arg("aliases").as_array().unwrap_or_default() {
        add(&["--domains", &python::str(alias)]);
    }
    for arg in [
        "preferred_challenges",
        "tls_sni_01_port",
        "tls_sni_01_address",
        "http_01_port",
        "http_01_address",
    ] {
        if let Some(value) = text(arg) {
            add(&[&format!("--{}", arg.replace('_', "-")), &value]);
        }
    }
    argv
}

fn cert(call: &mut Call<'_>) -> Result {
    let Some(program) = PROGRAMS.into_iter().find_map(which) else {
        return Err(CallError::CommandNotFound("certbot".to_owned()));
    };
    let name = name(call);
    let certname = call.text("certname").unwrap_or_else(|| name.clone());
    let path = file(&certname, "cert")?;
    let window = call.arg("renew").clone();
    let (there, mut renewed) = (path.is_file(), window.truthy());
    let due = there && is_due(call, &certname, &window)?;
    if !there {
        renewed = false;
    } else if due {
        renewed = true;
    }
    if call.flag("server") && call.flag("test_cert") {
        let text = "Use either server or test_cert, not both";
        return Ok(map! {"result" => false, "comment" => text}.into());
    }
    let mut argv = command(call, program, &certname, due);
    let mut ran = run_all_as(call, argv.clone(), Map::new())?;
    if !ran.ok() && ran.stderr.contains("expand") {
        argv.push("--expand".to_owned());
        ran = run_all_as(call, argv, Map::new())?;
    }
    if !ran.ok() {
        let text = format!("Certificate {name} renewal failed with:\n{}", ran.stderr);
        return Ok(map! {"result" => false, "comment" => text}.into());
    }
    let (comment, result) = if ran.stdout.contains("no action taken") {
        let text = format!("Certificate {} unchanged", path.display());
        (text, Value::Nil)
    } else if renewed {
        (format!("Certificate {certname} renewed"), true.into())
    } else {
        (format!("Certificate {certname} obtained"), true.into())
    };
    let ret = map! {
        "comment" => comment, "not_after" => shown(&expiry(call, &certname)?), "changes" => Map::new(), "result" => result,
    };
    let key = file(&certname, "privkey")?.to_string_lossy().into_owned();
    let mut args: Vec<Value> = vec![key.into(), ret.into()];
    args.extend(["owner", "group", "mode"].map(|arg| call.arg(arg).clone()));
    let checked = call.salt("file.check_perms", args, map! {"follow_symlinks" => true})?;
    let first = checked.as_array().and_then(|both| both.first());
    Ok(first.cloned().unwrap_or(checked))
}
