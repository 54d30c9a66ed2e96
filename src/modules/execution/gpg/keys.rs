//! Lists keys.

use super::super::{Call, CallError, python};
use super::KEYSERVER;
use super::run::Gpg;
use crate::execution::declare::Result;
use halite_wire::{Map, Value};

/// A key or a part of one, as `gpg --with-colons` tells it.
#[derive(Default)]
struct Key {
    id: String,
    fingerprint: Option<String>,
    /// `None` for parts, which belong to the key's users.
    uids: Option<Vec<String>>,
    expires: String,
    date: String,
    length: String,
    owner_trust: String,
    trust: String,
    parts: Vec<Key>,
}

/// The text of a user, in which some characters are escaped.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after.strip_prefix('x').and_then(|hex| hex.get(..2));
        let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (code, after.chars().next()) {
            (Some(code), _) => {
                out.push(char::from(code));
                rest = &after[3..];
            }
            (None, Some('n')) => {
                out.push('\n');
                rest = &after[1..];
            }
            _ => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The keys in a listing. In one of a key server (`search`), the fields are others.
fn parse(text: &str, search: bool) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default().to_owned();
        let record = field(0);
        match record.as_str() {
            "pub" if search => keys.push(Key {
                id: field(1),
                uids: Some(Vec::new()),
                length: field(3),
                date: field(4),
                expires: field(5),
                ..Key::default()
            }),
            "pub" | "sec" | "sub" | "ssb" => {
                let key = Key {
                    trust: field(1),
                    length: field(2),
                    id: field(4),
                    date: field(5),
                    expires: field(6),
                    owner_trust: field(8),
                    ..Key::default()
                };
                if matches!(record.as_str(), "pub" | "sec") {
                    let own = Some(field(9)).filter(|uid| !uid.is_empty());
                    keys.push(Key {
                        uids: Some(own.into_iter().collect()),
                        ..key
                    });
                } else if let Some(last) = keys.last_mut() {
                    last.parts.push(key);
                }
            }
            "uid" => {
                let uid = unescaped(&field(if search { 1 } else { 9 }));
                if let Some(uids) = keys.last_mut().and_then(|key| key.uids.as_mut()) {
                    uids.push(uid);
                }
            }
            "fpr" => {
                let Some(key) = keys.last_mut() else { continue };
                match key.parts.last_mut() {
                    Some(part) => part.fingerprint = Some(field(9)),
                    None => key.fingerprint = Some(field(9)),
                }
            }
            _ => {}
        }
    }
    keys
}

/// What a letter says about a key.
fn trust_text(letters: &str) -> Result<&'static str> {
    Ok(match letters {
        "e" => "Expired",
        "q" | "-" => "Unknown",
        "n" => "Not Trusted",
        "f" => "Fully Trusted",
        "m" => "Marginally Trusted",
        "u" => "Ultimately Trusted",
        "r" => "Revoked",
        other => return Err(CallError::raised("KeyError", format!("'{other}'"))),
    })
}

/// A day, where this host is.
fn day(seconds: &str) -> Result<String> {
    let wrong = || CallError::raised("ValueError", format!("not a time: '{seconds}'"));
    let seconds: i64 = seconds.parse().map_err(|_| wrong())?;
    let time = jiff::Timestamp::from_second(seconds).map_err(|_| wrong())?;
    let time = time.to_zoned(jiff::tz::TimeZone::system());
    Ok(time.strftime("%Y-%m-%d").to_string())
}

impl Key {
    fn value(&self) -> Result {
        let mut map = halite_wire::map! {"keyid" => self.id.as_str()};
        if let Some(uids) = &self.uids {
            map.set("uids", uids.clone());
        }
        if let Some(fingerprint) = &self.fingerprint {
            map.set("fingerprint", fingerprint.as_str());
        }
        if !self.expires.is_empty() {
            let now = jiff::Timestamp::now().as_second();
            map.set("expires", day(&self.expires)?);
            map.set(
                "expired",
                self.expires.parse::<i64>().is_ok_and(|at| now >= at),
            );
        }
        if !self.date.is_empty() {
            map.set("created", day(&self.date)?);
        }
        if !self.length.is_empty() {
            map.set("keyLength", self.length.as_str());
        }
        if !self.owner_trust.is_empty() {
            map.set("ownerTrust", trust_text(&self.owner_trust)?);
        }
        if !self.trust.is_empty() {
            map.set("trust", trust_text(&self.trust)?);
        }
        if !self.parts.is_empty() {
            let parts: Result<Vec<Value>> = self.parts.iter().map(Key::value).collect();
            map.set("subkeys", parts?);
        }
        Ok(map.into())
    }

    /// Whether it is the key that the arguments `keyid` and `fingerprint` name.
    fn is(&self, keyid: &Value, fingerprint: &Value) -> bool {
        let own = self.fingerprint.as_deref();
        own.is_some_and(|own| fingerprint.is_str(own))
            || keyid.is_str(&self.id)
            || self.id.get(8..).is_some_and(|short| keyid.is_str(short))
    }
}

fn values(keys: &[Key]) -> Result {
    let values: Result<Vec<Value>> = keys.iter().map(Key::value).collect();
    Ok(values?.into())
}

fn listed(gpg: &Gpg, secret: bool) -> Result<Vec<Key>> {
    let which = if secret {
        "--list-secret-keys"
    } else {
        "--list-keys"
    };
    let ran = gpg.run(&[which, "--fingerprint", "--fingerprint"], None)?;
    Ok(parse(&ran.text(), false))
}

pub fn list(call: &mut Call<'_>, secret: bool) -> Result {
    values(&listed(&Gpg::new(call)?, secret)?)
}

/// A key by id or fingerprint.
pub fn found(gpg: &Gpg, keyid: &Value, fingerprint: &Value, secret: bool) -> Result<Option<Map>> {
    let keys = listed(gpg, secret)?;
    match keys.iter().find(|key| key.is(keyid, fingerprint)) {
        Some(key) => Ok(key.value()?.into_map()),
        None => Ok(None),
    }
}

pub fn get(call: &mut Call<'_>, secret: bool) -> Result {
    let gpg = Gpg::new(call)?;
    let key = found(&gpg, call.arg("keyid"), call.arg("fingerprint"), secret)?;
    Ok(key.map_or(false.into(), Value::from))
}

pub fn read(call: &mut Call<'_>) -> Result {
    let invocation = |text: &str| Err(CallError::Invocation(text.to_owned()));
    let input = match (call.flag("path"), call.flag("text")) {
        (false, false) => return invocation("Either `path` or `text` is required."),
        (true, true) => return invocation("`path` and `text` are mutually exclusive."),
        // One that cannot be read has no keys, as in stock Salt.
        (true, false) => {
            let path = call.text("path").unwrap_or_default();
            super::run::content(&path).unwrap_or_default()
        }
        (false, true) => call.text("text").unwrap_or_default().into_bytes(),
    };
    let gpg = Gpg::new(call)?;
    let show = ["--dry-run", "--import-options", "import-show", "--import"];
    let mut keys = parse(&gpg.run(&show, Some(input))?.text(), false);
    // A listing of keys that are not in a key ring has no fingerprints of parts.
    for part in keys.iter_mut().flat_map(|key| key.parts.iter_mut()) {
        part.fingerprint = None;
    }
    let (keyid, fingerprint) = (call.arg("keyid"), call.arg("fingerprint"));
    if keyid.truthy() || fingerprint.truthy() {
        keys.retain(|key| key.is(keyid, fingerprint));
    }
    values(&keys)
}

pub fn search(call: &mut Call<'_>) -> Result {
    let text = call.text("text").unwrap_or_default();
    let mut text = text.trim().to_owned();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        text.insert_str(0, "0x");
    }
    let server = call.text("keyserver").filter(|server| !server.is_empty());
    let server = server.unwrap_or_else(|| KEYSERVER.to_owned());
    let gpg = Gpg::new(call)?;
    let words = [
        "--fingerprint",
        "--keyserver",
        &server,
        "--search-keys",
        "--",
        &text,
    ];
    let ran = gpg.run(&words, None)?;
    values(&parse(&ran.text(), true))
}

/// The items of an argument that is a list, or text with commas.
pub fn names(value: &Value) -> Vec<String> {
    match value {
        Value::Str(text) => text.split(',').map(str::to_owned).collect(),
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Nil => Vec::new(),
        one => vec![python::str(one)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_are_read() {
        let text = "tru::1:1:0:3:1:5\n\
            pub:u:1024:1:AAAABBBBCCCCDDDD:1669853493:1700000000::u:::scESCA::::::23::0:\n\
            fpr:::::::::FP1:\nuid:u::::1::H::A \\x3a B <a@b>::::::::::0:\n\
            sub:u:2048:1:EEEE:1:::::: e::::::23:\nfpr:::::::::FP2:\n";
        let keys = parse(text, false);
        let [key] = keys.as_slice() else { panic!() };
        assert_eq!(key.fingerprint.as_deref(), Some("FP1"));
        assert_eq!(key.uids.as_deref(), Some(&["A : B <a@b>".to_owned()][..]));
        assert_eq!(key.parts[0].fingerprint.as_deref(), Some("FP2"));
        let value = key.value().unwrap();
        let map = value.as_map().unwrap();
        assert_eq!(map.str("trust"), Some("Ultimately Trusted"));
        assert_eq!(map.get("expired"), Some(&true.into()));
        assert!(key.is(&"CCCCDDDD".into(), &Value::Nil));
        assert!(!key.is(&Value::Nil, &Value::Nil));
        let found = parse("info:1:1\npub:ABCD:1:1024:1:2:\nuid:A%20B:1::\n", true);
        assert_eq!(found[0].length, "1024");
        assert_eq!(unescaped("a\\nb\\\\x"), "a\nb\\\\x");
    }
}
