//! Creates, deletes, imports and exports keys.

use super::super::{Call, CallError, python};
use super::keys::{found, names};
use super::run::{Gpg, Ran, content};
use super::{KEYSERVER, passphrase, wanted_passphrase};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

pub fn create(call: &mut Call<'_>) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let mut lines = vec![format!("Key-Type: {}", text("key_type"))];
    let mut add = |key: &str, value: String| {
        if !value.trim().is_empty() {
            lines.push(format!("{key}: {value}"));
        }
    };
    add("Key-Length", text("key_length"));
    add("Name-Real", text("name_real"));
    add("Name-Comment", text("name_comment"));
    let user = ["LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| halite_sys::environment::get(name).filter(|user| !user.is_empty()));
    let host = nix::unistd::gethostname().unwrap_or_default();
    let email = match call.flag("name_email") {
        true => text("name_email"),
        false => format!(
            "{}@{}",
            user.unwrap_or_else(|| "unspecified".to_owned())
                .replace(' ', "_"),
            host.to_string_lossy()
        ),
    };
    add("Name-Email", email);
    for (key, name) in [
        ("Subkey-Type", "subkey_type"),
        ("Subkey-Length", "subkey_length"),
        ("Expire-Date", "expire_date"),
    ] {
        if call.flag(name) {
            add(key, text(name));
        }
    }
    let answer = |good: bool, fingerprint: &str, message: &str| {
        Ok(map! {"res" => good, "fingerprint" => fingerprint, "message" => message}.into())
    };
    let gpg = Gpg::new(call)?;
    if call.flag("use_passphrase") {
        match passphrase(call)? {
            None => return answer(false, "", "gpg_passphrase not available in pillar."),
            Some(text) if text.contains(['\n', '\r']) => {
                return Err(CallError::raised("ValueError", "Invalid passphrase"));
            }
            Some(text) => lines.push(format!("Passphrase: {text}")),
        }
    } else {
        lines.push("%no-protection".to_owned());
    }
    lines.push("%commit\n".to_owned());
    let ran = gpg.run(&["--gen-key"], Some(lines.join("\n").into_bytes()))?;
    let made = ran.status().find(|(key, _)| *key == "KEY_CREATED");
    match made.and_then(|(_, value)| value.split_whitespace().nth(1)) {
        Some(fingerprint) => answer(true, fingerprint, "GPG key pair successfully generated."),
        None => answer(false, "", "Unable to generate GPG key pair."),
    }
}

/// Deletes one key; why not, if it cannot.
fn delete_one(
    gpg: &Gpg,
    fingerprint: &str,
    words: &[&str],
    secret: Option<&str>,
) -> Result<String> {
    let mut argv = words.to_vec();
    argv.extend(["--", fingerprint]);
    let ran = gpg.run_with(&argv, None, secret)?;
    let problem = ran.status().find(|(key, _)| *key == "DELETE_PROBLEM");
    Ok(match problem.map(|(_, value)| value) {
        None => "ok".to_owned(),
        Some("1") => "No such key".to_owned(),
        Some("2") => "Must delete secret key first".to_owned(),
        Some("3") => "Ambiguous specification".to_owned(),
        Some(other) => format!("Unknown error: {}", python::repr(&other.into())),
    })
}

pub fn delete(call: &mut Call<'_>) -> Result {
    let answer =
        |good: bool, message: String| Ok(map! {"res" => good, "message" => message}.into());
    match (call.flag("fingerprint"), call.flag("keyid")) {
        (true, true) => {
            let text = "Only specify one argument, fingerprint or keyid";
            return answer(false, text.to_owned());
        }
        (false, false) => {
            let text = "Required argument, fingerprint or keyid";
            return answer(false, text.to_owned());
        }
        _ => {}
    }
    let gpg = Gpg::new(call)?;
    let (keyid, fingerprint) = (call.arg("keyid").clone(), call.arg("fingerprint").clone());
    let Some(key) = found(&gpg, &keyid, &fingerprint, false)? else {
        return answer(false, "Key not available in keychain.".to_owned());
    };
    let own = key.str("fingerprint").unwrap_or_default().to_owned();
    let mut message = String::new();
    if found(&gpg, &keyid, &own.as_str().into(), true)?.is_some() {
        if !call.flag("delete_secret") {
            let text = "Secret key exists, delete first or pass delete_secret=True.";
            return answer(false, text.to_owned());
        }
        let secret = match call.flag("use_passphrase") {
            false => None,
            true => passphrase(call)?,
        };
        let out = if call.flag("use_passphrase") && secret.is_none() {
            "gpg_passphrase not available in pillar.".to_owned()
        } else {
            delete_one(
                &gpg,
                &own,
                &["--yes", "--delete-secret-key"],
                secret.as_deref(),
            )?
        };
        if out != "ok" {
            return answer(
                false,
                format!("Failed to delete secret key for {own}: {out}"),
            );
        }
        message = format!("Secret key for {own} deleted\n");
    }
    let out = delete_one(&gpg, &own, &["--delete-key"], None)?;
    if out == "ok" {
        message.push_str(&format!("Public key for {own} deleted"));
    } else {
        message.push_str(&format!("Failed to delete public key for {own}: {out}"));
    }
    answer(out == "ok", message)
}

/// The fingerprints of imported keys.
fn fingerprints(ran: &Ran) -> Vec<Value> {
    let good = ran.status().filter(|(key, _)| *key == "IMPORT_OK");
    let prints = good.filter_map(|(_, value)| value.split_whitespace().nth(1));
    prints.map(Value::from).collect()
}

fn import_into(gpg: &Gpg, data: Vec<u8>) -> Result<Map> {
    let ran = gpg.run(&["--import"], Some(data))?;
    let counts = ran.status().find(|(key, _)| *key == "IMPORT_RES");
    let counts: Vec<u64> = counts
        .map(|(_, value)| {
            value
                .split_whitespace()
                .filter_map(|n| n.parse().ok())
                .collect()
        })
        .unwrap_or_default();
    let count = |at: usize| counts.get(at).copied().unwrap_or_default();
    let (all, imported, rsa, unchanged, skipped) =
        (count(0), count(2), count(3), count(4), count(12));
    let (good, message) = if imported > 0 || rsa > 0 {
        (true, "Successfully imported key(s).")
    } else if unchanged > 0 {
        (true, "Key(s) already exist in keychain.")
    } else if skipped > 0 || all == 0 {
        (false, "Unable to import key.")
    } else {
        (true, "")
    };
    Ok(map! {"res" => good, "message" => message, "fingerprints" => fingerprints(&ran)})
}

pub fn import(call: &mut Call<'_>) -> Result {
    let invocation = |text: &str| Err(CallError::Invocation(text.to_owned()));
    let data = match (call.flag("text"), call.flag("filename")) {
        (false, false) => return invocation("filename or text must be passed."),
        (true, true) => return invocation("filename and text are mutually exclusive."),
        (true, false) => call.text("text").unwrap_or_default().into_bytes(),
        (false, true) => match content(&call.text("filename").unwrap_or_default()) {
            Ok(data) => data,
            Err(_) => return invocation("filename does not exist."),
        },
    };
    let gpg = Gpg::new(call)?;
    let select = match call.arg("select") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        one if one.truthy() => vec![python::str(one)],
        _ => Vec::new(),
    };
    if select.is_empty() {
        return Ok(import_into(&gpg, data)?.into());
    }
    // gpg imports all or nothing: all go to a temporary key ring, and only what is wanted goes on.
    let scratch = gpg.scratch()?;
    let ring = gpg.with_keyring(&scratch.file("ring"));
    let all = import_into(&ring, data)?;
    if !all.get("res").is_some_and(Value::truthy) {
        return Ok(all.into());
    }
    let mut words = vec!["--export".to_owned(), "--armor".to_owned(), "--".to_owned()];
    words.extend(select);
    let wanted = ring.run(&words, None)?.data;
    if wanted.is_empty() {
        let none: Vec<Value> = Vec::new();
        let text = "After filtering, no keys to import were left.";
        return Ok(map! {"res" => true, "message" => text, "fingerprints" => none}.into());
    }
    Ok(import_into(&gpg, wanted)?.into())
}

/// Writes keys; secret ones for their owner only.
fn write(path: &str, data: &[u8], secret: bool) -> Result<()> {
    let mode = if secret { 0o600 } else { 0o666 };
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(mode);
    file.open(path)
        .and_then(|mut file| file.write_all(data))
        .map_err(|e| python::os_error(&e, path))
}

pub fn export(call: &mut Call<'_>) -> Result {
    let secret = call.flag("secret");
    let gpg = Gpg::new(call)?;
    let phrase = match secret {
        true => wanted_passphrase(call)?,
        false => None,
    };
    let which = if secret {
        "--export-secret-key"
    } else {
        "--export"
    };
    let mut words = vec![which.to_owned(), "--armor".to_owned(), "--".to_owned()];
    words.extend(names(call.arg("keyids")));
    let ran = gpg.run_with(&words, None, phrase.as_deref())?;
    let bare = call.flag("bare");
    if ran.data.is_empty() {
        return Ok(match bare {
            true => false.into(),
            false => map! {"res" => false}.into(),
        });
    }
    let output = call.text("output").filter(|path| !path.is_empty());
    if let Some(path) = &output {
        write(path, &ran.data, secret)?;
    }
    if bare {
        return Ok(ran.text().into());
    }
    let comment = match output {
        Some(path) => format!("Exported key data has been written to {path}"),
        None => ran.text(),
    };
    Ok(map! {"res" => true, "comment" => comment}.into())
}

pub fn receive(call: &mut Call<'_>) -> Result {
    let server = call.text("keyserver").filter(|server| !server.is_empty());
    let server = server.unwrap_or_else(|| KEYSERVER.to_owned());
    let gpg = Gpg::new(call)?;
    let words = ["--keyserver", &server, "--recv-keys", "--"];
    let mut words: Vec<String> = words.map(str::to_owned).into();
    words.extend(names(call.arg("keys")));
    let ran = gpg.run(&words, None)?;
    let mut message: Vec<Value> = Vec::new();
    let mut skipped = false;
    for (key, value) in ran.status() {
        let mut parts = value.split_whitespace();
        let (first, second) = (parts.next().unwrap_or_default(), parts.next());
        let problem = |text: &str| Some(format!("Unable to add key to keychain: {text}"));
        let text = match key {
            "IMPORT_OK" => {
                let print = second.unwrap_or_default();
                match first {
                    "0" => Some(format!("Key {print} already exists in keychain")),
                    "1" => Some(format!("Key {print} added to keychain")),
                    "4" => Some(format!("Key {print} updated: new signatures")),
                    "8" => Some(format!("Key {print} updated: new subkeys")),
                    _ => None,
                }
            }
            "NODATA" => problem("No valid data found"),
            "KEYEXPIRED" => problem("Key expired"),
            "SIGEXPIRED" => problem("Signature expired"),
            "FAILURE" => problem("Other failure"),
            "IMPORT_PROBLEM" => problem(match first {
                "1" => "Invalid Certificate",
                "2" => "Issuer Certificate missing",
                "3" => "Certificate Chain too long",
                "4" => "Error storing certificate",
                _ => "No specific reason given",
            }),
            "IMPORT_RES" => {
                skipped = value.split_whitespace().nth(12).is_some_and(|n| n != "0");
                None
            }
            _ => None,
        };
        message.extend(text.map(Value::from));
    }
    let good = !skipped && !fingerprints(&ran).is_empty();
    if !good {
        message.push(format!("GPG reported failure: {}", ran.said).into());
    }
    Ok(map! {"res" => good, "message" => message}.into())
}

/// Levels of trust: the argument, and how it is shown. `gpg` counts them from 1.
pub const LEVELS: [(&str, &str); 6] = [
    ("expired", "Expired"),
    ("unknown", "Unknown"),
    ("not_trusted", "Not Trusted"),
    ("marginally", "Marginally"),
    ("fully", "Fully Trusted"),
    ("ultimately", "Ultimately Trusted"),
];

pub fn trust(call: &mut Call<'_>) -> Result {
    let (keyid, fingerprint) = (call.arg("keyid").clone(), call.arg("fingerprint").clone());
    if keyid.truthy() == fingerprint.truthy() {
        return Err(CallError::Invocation(
            "Exactly one of keyid or fingerprint is required".to_owned(),
        ));
    }
    let level = LEVELS
        .iter()
        .position(|(name, _)| call.arg("trust_level").is_str(name));
    let Some(level) = level else {
        let names = LEVELS.map(|(name, _)| name).join(",");
        let text = format!("ERROR: Valid trust levels - {names}");
        return Err(CallError::Invocation(text));
    };
    let gpg = Gpg::new(call)?;
    let Some(key) = found(&gpg, &keyid, &fingerprint, false)? else {
        let id = if keyid.truthy() { keyid } else { fingerprint };
        let text = format!("Key {} not in GPG keychain", python::str(&id));
        return Ok(map! {"res" => false, "message" => text}.into());
    };
    let own = key.str("fingerprint").unwrap_or_default().to_owned();
    let line = format!("{own}:{}:\n", level + 1);
    let ran = gpg.run(&["--import-ownertrust"], Some(line.into_bytes()))?;
    if ran.code != 0 {
        let text = format!("gpg returned an error - return code {}", ran.code);
        return Err(CallError::raised("ValueError", text));
    }
    let text = format!("Setting ownership trust to {}.", LEVELS[level].1);
    Ok(map! {"res" => true, "message" => text, "fingerprint" => own}.into())
}
