//! `gpg`: keys in a key ring (`salt/states/gpg.py`).

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, gpg, python};
use halite_wire::{Map, Value, map};
use jiff::civil::Date;

pub(super) const MODULE: StateModule = StateModule {
    name: "gpg",
    functions: &[
        StateFunction::new(
            "present",
            present,
            "Ensures that public keys are in a key ring, and that they are not expired.",
        )
        .args(args![
            keys = None,
            user = None,
            keyserver = None,
            gnupghome = None,
            trust = None,
            keyring = None,
            source = None,
            skip_keyserver = False,
            text = None,
            subkey_maxage = { 100 }
        ])
        .keywords(),
        StateFunction::new(
            "absent",
            absent,
            "Ensures that public keys are not in a key ring.",
        )
        .args(args![
            keys = None,
            user = None,
            gnupghome = None,
            keyring = None,
            keyring_absent_if_empty = False
        ])
        .keywords(),
    ],
};

/// A key that is there.
#[derive(Clone, Default)]
struct Known {
    trust: String,
    expired: bool,
    /// Ids of its parts.
    parts: Vec<String>,
    /// Parts that have expired lately, with the day.
    stale: Vec<(String, String)>,
}

fn items(value: &Value) -> Vec<Map> {
    let list = value.as_array().unwrap_or_default();
    list.iter().filter_map(Value::as_map).cloned().collect()
}

fn text_of(map: &Map, key: &str) -> String {
    map.get(key).map(python::str).unwrap_or_default()
}

impl Known {
    fn of(key: &Map, max_days: i64) -> Known {
        let parts = key.get("subkeys").map(items).unwrap_or_default();
        let today = jiff::Zoned::now().date();
        let lately = |part: &Map| {
            let day: Option<Date> = part.str("expires").and_then(|day| day.parse().ok());
            let age = day.and_then(|day| today.since(day).ok());
            is_expired(part) && age.is_some_and(|age| i64::from(age.get_days()) <= max_days)
        };
        let stale = parts.iter().filter(|part| max_days != 0 && lately(part));
        Known {
            trust: text_of(key, "trust"),
            expired: is_expired(key),
            stale: stale
                .map(|part| (text_of(part, "keyid"), text_of(part, "expires")))
                .collect(),
            parts: parts.iter().map(|part| text_of(part, "keyid")).collect(),
        }
    }
}

fn is_expired(key: &Map) -> bool {
    key.get("expired").is_some_and(Value::truthy)
}

/// The keys in the key ring, by id.
fn listed(s: &mut State<'_, '_>) -> Result<Vec<(String, Map)>> {
    let kwargs = s.pick(&["user", "gnupghome", "keyring"]);
    let all = items(&s.salt_with("gpg.list_keys", Vec::new(), kwargs)?);
    Ok(all
        .into_iter()
        .map(|key| (text_of(&key, "keyid"), key))
        .collect())
}

/// The keys that the state is about.
fn wanted(s: &State<'_, '_>) -> Vec<String> {
    match s.arg("keys") {
        Value::Array(list) if !list.is_empty() => list.iter().map(python::str).collect(),
        keys if keys.truthy() => vec![python::str(keys)],
        _ => vec![s.name()],
    }
}

/// The text of an error that becomes part of the comment; other errors are passed on.
fn expected<T>(done: Result<T>) -> Result<Result<T, String>> {
    match done {
        Ok(value) => Ok(Ok(value)),
        Err(CallError::Command(text) | CallError::Invocation(text)) => Ok(Err(text)),
        Err(fault) => Err(fault),
    }
}

fn present(s: &mut State<'_, '_>) -> Result {
    let trust = s.text("trust").filter(|trust| !trust.is_empty());
    if !s.flag("text") && s.flag("skip_keyserver") && !s.flag("source") {
        return Ok(StateOutcome::bad(
            "When skipping keyservers, you must provide at least one source",
        ));
    }
    let shown = trust.as_ref().map(|trust| {
        let level = gpg::LEVELS.iter().find(|(name, _)| name == trust);
        level.map(|(_, shown)| *shown).ok_or(trust)
    });
    if let Some(Err(trust)) = shown {
        return Ok(StateOutcome::bad(format!("Invalid trust level {trust}")));
    }
    let max_days = s.arg("subkey_maxage").as_int().unwrap_or_default();
    let mut known: Vec<(String, Known)> = match expected(listed(s))? {
        Ok(keys) => keys
            .iter()
            .map(|(id, key)| (id.clone(), Known::of(key, max_days)))
            .collect(),
        Err(text) => return Ok(StateOutcome::bad(text)),
    };
    let mut run = Run {
        max_days,
        outcome: StateOutcome::good(""),
        changes: Map::new(),
    };
    let keys = wanted(s);
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    for key in &keys {
        let own = known
            .iter()
            .find(|(id, _)| id == key)
            .map(|(_, own)| own.clone());
        let mut lines = Vec::new();
        let now = run.add(s, key, own.as_ref(), &mut lines)?;
        if let Some(now) = now {
            known.retain(|(id, _)| id != key);
            known.push((key.clone(), now));
        }
        said.push((key.clone(), lines));
    }
    if let (Some(trust), Some(Ok(shown))) = (&trust, shown) {
        for (key, lines) in &mut said {
            let own = known.iter().find(|(id, _)| id == key);
            // One that could not be added has no trust.
            if let Some((_, own)) = own {
                run.set_trust(s, key, own.trust == shown, trust, lines)?;
            }
        }
    }
    let blocks = said.iter().filter(|(_, lines)| !lines.is_empty());
    let blocks = blocks.map(|(key, lines)| format!("Key {key}:\n  * {}", lines.join("\n  * ")));
    let mut outcome = run.outcome;
    outcome.comment = blocks.collect::<Vec<_>>().join("\n");
    Ok(outcome.changes(run.changes))
}

/// What has happened so far.
struct Run {
    max_days: i64,
    outcome: StateOutcome,
    changes: Map,
}

impl Run {
    /// Notes a change of a key.
    fn change(&mut self, key: &str, what: &str, value: impl Into<Value>) {
        let mut own = self.changes.remove(key).and_then(Value::into_map);
        let own = own.get_or_insert_default();
        own.set(what, value);
        self.changes.set(key, std::mem::take(own));
    }

    /// Adds or renews a key; how it is then, if it is there.
    fn add(
        &mut self,
        s: &mut State<'_, '_>,
        key: &str,
        own: Option<&Known>,
        lines: &mut Vec<String>,
    ) -> Result<Option<Known>> {
        let expired = own.is_some_and(|own| own.expired);
        let stale = own.map(|own| own.stale.clone()).unwrap_or_default();
        let refresh = expired || !stale.is_empty();
        if own.is_some() && !refresh {
            lines.push(format!("GPG Public Key {key} already in keychain"));
            return Ok(None);
        }
        if s.test {
            self.outcome.result = None;
            if expired {
                lines.push(format!(
                    "Would have attempted to update {key} because it is expired"
                ));
            } else if refresh {
                lines.push(format!(
                    "Would have attempted to update {key} because it has expired subkeys:"
                ));
                let each = stale.iter();
                lines.extend(each.map(|(id, day)| format!("  - {id} (expired on {day})")));
            } else {
                lines.push(format!("Would have added {key} to GPG keychain"));
            }
            self.change(key, if refresh { "refresh" } else { "added" }, true);
            let unknown = Known {
                trust: "unknown".to_owned(),
                ..Known::default()
            };
            return Ok((!refresh).then_some(unknown));
        }
        match expected(self.fetched(s, key, own, refresh, lines))? {
            Ok(known) => Ok(Some(known)),
            Err(text) => {
                self.outcome.result = Some(false);
                if expired {
                    lines.push("Existing key is expired, tried to fetch updated one".to_owned());
                } else if refresh {
                    lines.push("Existing key has expired subkeys, tried to refresh".to_owned());
                }
                lines.extend(text.lines().map(str::to_owned));
                Ok(None)
            }
        }
    }

    fn fetched(
        &mut self,
        s: &mut State<'_, '_>,
        key: &str,
        own: Option<&Known>,
        refresh: bool,
        lines: &mut Vec<String>,
    ) -> Result<Known> {
        let expired = own.is_some_and(|own| own.expired);
        let message = match s.text("text").filter(|text| !text.is_empty()) {
            Some(text) => match imported(s, key, refresh, "text", "text", &text)? {
                Imported::Done(message) => message,
                Imported::Not(text) => return Err(CallError::Command(text)),
            },
            None => self.fetch_key(s, key, expired, refresh)?,
        };
        let mut kwargs = s.pick(&["user", "gnupghome", "keyring"]);
        kwargs.set("keyid", key);
        let new = s.salt_with("gpg.get_key", Vec::new(), kwargs)?;
        let Some(new) = new.as_map() else {
            let text = format!("{message}\nThe new key {key} could not be retrieved though.");
            return Err(CallError::Command(text));
        };
        if !refresh {
            self.change(key, "added", true);
        }
        let known = Known::of(new, self.max_days);
        if known.expired {
            let text = format!("{message}\nThe new key {key} is expired though.");
            return Err(CallError::Command(text));
        }
        let Some(own) = own.filter(|_| refresh) else {
            lines.push(format!("Added {key} to GPG keychain"));
            return Ok(known);
        };
        let added = known.parts.iter().filter(|part| !own.parts.contains(part));
        let added: Vec<String> = added.cloned().collect();
        let is_stale = |id: &String| known.stale.iter().any(|(other, _)| other == id);
        let extended = own
            .stale
            .iter()
            .map(|(id, _)| id)
            .filter(|id| !is_stale(id));
        let extended: Vec<String> = extended.cloned().collect();
        if expired {
            lines.push(format!("Updated {key} because it was expired"));
            self.change(key, "refresh", true);
        } else if added.is_empty() && extended.is_empty() {
            lines.push(format!(
                "Attempted to update {key} because it has expired subkeys, but no new signatures or keys were found"
            ));
        } else {
            lines.push(format!("Updated {key} because it had expired subkeys."));
            self.change(key, "refresh", true);
            let mut parts = Map::new();
            if !added.is_empty() {
                parts.set("added", added);
            }
            if !extended.is_empty() {
                parts.set("extended", extended);
            }
            self.change(key, "subkeys", parts);
        }
        Ok(known)
    }

    /// Gets a key from a key server, or else from a source.
    fn fetch_key(
        &self,
        s: &mut State<'_, '_>,
        key: &str,
        expired: bool,
        refresh: bool,
    ) -> Result<String> {
        let mut before = String::new();
        if !s.flag("skip_keyserver") {
            let mut kwargs = s.pick(&["keyserver", "user", "gnupghome", "keyring"]);
            kwargs.set("keys", key);
            let got = s.salt_with("gpg.receive_keys", Vec::new(), kwargs)?;
            let got = got.into_map().unwrap_or_default();
            let lines = got.get("message").map(Value::str_list).unwrap_or_default();
            let mut good = got.get("res").is_some_and(Value::truthy);
            let mut failed = !good;
            if refresh && good {
                good = lines.iter().any(|line| line.contains("updated: new"));
                // Parts that are as they were are no failure.
                failed = expired && !good;
            }
            let message = lines.join("\n");
            if good || !s.flag("source") {
                return match failed {
                    true => Err(CallError::Command(message)),
                    false => Ok(message),
                };
            }
            before = format!("{message}\n");
        }
        for source in s.list("source") {
            let file = s.salt("cp.cache_file", [source])?;
            if !file.truthy() {
                continue;
            }
            let path = python::str(&file);
            if let Imported::Done(message) = imported(s, key, refresh, "path", "filename", &path)? {
                return Ok(message);
            }
        }
        Err(CallError::Command(format!(
            "{before}none of the specified sources were found or contained the (unexpired) key {key}."
        )))
    }

    fn set_trust(
        &mut self,
        s: &mut State<'_, '_>,
        key: &str,
        is_right: bool,
        trust: &str,
        lines: &mut Vec<String>,
    ) -> Result<()> {
        if is_right {
            lines.push(format!(
                "GPG Public Key {key} already in correct trust state"
            ));
            return Ok(());
        }
        if s.test {
            self.outcome.result = None;
            lines.push(format!("Would have set trust level for {key} to {trust}"));
            self.change(key, "trust", trust);
            return Ok(());
        }
        let mut kwargs = s.pick(&["user", "gnupghome", "keyring"]);
        kwargs.set("keyid", key);
        kwargs.set("trust_level", trust);
        let done = expected(s.salt_with("gpg.trust_key", Vec::new(), kwargs))?;
        let why = match &done {
            Ok(done) => done.as_map().and_then(refusal),
            Err(text) => Some(text.clone()),
        };
        if let Some(why) = why {
            self.outcome.result = Some(false);
            lines.push(why);
            return Ok(());
        }
        lines.push(format!("Set trust level for {key} to {trust}"));
        self.change(key, "trust", trust);
        Ok(())
    }
}

/// The message of a function that has failed.
fn refusal(done: &Map) -> Option<String> {
    let failed = done.get("res") == Some(&Value::Bool(false));
    failed.then(|| text_of(done, "message"))
}

enum Imported {
    /// With this message.
    Done(String),
    /// The data does not have the key, or an expired one.
    Not(String),
}

/// Imports a key from a text or a file, which may have other keys too.
fn imported(
    s: &mut State<'_, '_>,
    key: &str,
    refresh: bool,
    read_arg: &str,
    import_arg: &str,
    data: &str,
) -> Result<Imported> {
    let mut kwargs = s.pick(&["user", "gnupghome"]);
    kwargs.set("keyid", key);
    kwargs.set(read_arg, data);
    let found = items(&s.salt_with("gpg.read_key", Vec::new(), kwargs)?);
    let Some(first) = found.first() else {
        return Ok(Imported::Not(format!(
            "Passed text did not contain the requested key {key}"
        )));
    };
    if refresh && is_expired(first) {
        return Ok(Imported::Not(format!(
            "Passed text contained the key {key}, but it's expired"
        )));
    }
    let mut kwargs = s.pick(&["user", "gnupghome", "keyring"]);
    kwargs.set(import_arg, data);
    kwargs.set("select", key);
    let done = s.salt_with("gpg.import_key", Vec::new(), kwargs)?;
    let done = done.into_map().unwrap_or_default();
    match refusal(&done) {
        Some(why) => Err(CallError::Command(why)),
        None => Ok(Imported::Done(text_of(&done, "message"))),
    }
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let keys = wanted(s);
    let there: Vec<String> = listed(s)?.into_iter().map(|(id, _)| id).collect();
    let mut outcome = StateOutcome::good("");
    let mut lines: Vec<String> = Vec::new();
    let mut deleted: Vec<String> = Vec::new();
    for key in &keys {
        if !there.contains(key) {
            lines.push(format!("{key} not found in GPG keychain"));
            continue;
        }
        if s.test {
            outcome.result = None;
            lines.push(format!("Would have deleted {key} from GPG keychain"));
            deleted.push(key.clone());
            continue;
        }
        let mut kwargs = s.pick(&["user", "gnupghome", "keyring"]);
        kwargs.set("keyid", key.as_str());
        let done = s.salt_with("gpg.delete_key", Vec::new(), kwargs)?;
        match done.as_map().and_then(refusal) {
            Some(why) => {
                outcome.result = Some(false);
                lines.push(why);
            }
            None => {
                lines.push(format!("Deleted {key} from GPG keychain"));
                deleted.push(key.clone());
            }
        }
    }
    let changes = |deleted: Vec<String>| match deleted.is_empty() {
        true => Map::new(),
        false => map! {"deleted" => deleted},
    };
    if s.test || outcome.result == Some(false) {
        outcome.comment = lines.join("\n");
        return Ok(outcome.changes(changes(deleted)));
    }
    let after: Vec<String> = listed(s)?.into_iter().map(|(id, _)| id).collect();
    let left: Vec<&str> = keys
        .iter()
        .filter(|key| after.contains(key))
        .map(String::as_str)
        .collect();
    let ring = s.text("keyring").filter(|ring| !ring.is_empty());
    let mut removed = None;
    if !left.is_empty() {
        outcome.result = Some(false);
        lines.push(format!(
            "State check revealed the following keys could not be deleted: {}",
            left.join(", ")
        ));
        deleted.retain(|key| !after.contains(key));
    } else if let Some(ring) =
        ring.filter(|_| after.is_empty() && s.flag("keyring_absent_if_empty"))
        && s.salt("file.file_exists", [Value::from(ring.as_str())])?
            .truthy()
    {
        s.salt("file.remove", [Value::from(ring.as_str())])?;
        lines.push(format!("Removed empty keyring file {ring}"));
        removed = Some(ring);
    }
    let mut changes = changes(deleted);
    if let Some(ring) = removed {
        changes.set("removed", ring);
    }
    outcome.comment = lines.join("\n");
    Ok(outcome.changes(changes))
}
