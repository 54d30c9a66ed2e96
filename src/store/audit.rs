//! The audit log: who asked for what, and what was decided.
//!
//! One line of JSON per decision, appended with a single write to a file of mode 0600. The file
//! is opened again for each line, so it can be renamed at any time.

use halite_sys::safe_open::no_follow;
use halite_wire::{Map, Value};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Most characters of one field; the rest is cut off.
const MAX_FIELD: usize = 512;
/// Most names of one list; the rest are dropped.
const MAX_NAMES: usize = 64;

/// The audit log of one master. Without a path, nothing is logged.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: Option<PathBuf>,
}

/// One decision.
#[derive(Clone, Debug, Default)]
pub struct Decision<'a> {
    /// `publish`, `runner`, `wheel`, `token`, `key`.
    pub what: &'a str,
    /// The user; empty if unknown.
    pub user: &'a str,
    /// How the user was authenticated: `key`, `token`, `eauth:pam`, `account` (the tool ran as this account), `collective`.
    pub method: &'a str,
    /// Address of the peer; empty for local callers.
    pub from: &'a str,
    /// Target of a job.
    pub target: Option<&'a Value>,
    /// The function, or a list of functions.
    pub function: Option<&'a Value>,
    /// Names of keyword arguments and the number of positional ones; never their values.
    pub arguments: Option<String>,
    /// The jid; empty if there is none.
    pub jid: &'a str,
    /// Whether it was allowed.
    pub allowed: bool,
    /// Why it was allowed or refused.
    pub reason: &'a str,
}

impl AuditLog {
    /// The log at this path; an empty path turns it off.
    pub fn new(path: &Path) -> AuditLog {
        let path = (!path.as_os_str().is_empty()).then(|| path.to_owned());
        AuditLog { path }
    }

    /// Whether lines can be written.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> io::Result<()> {
        self.path.as_ref().map_or(Ok(()), |path| append(path, ""))
    }

    /// Writes one decision. Errors go to the ordinary log: the master does not stop working
    /// because a disk is full.
    pub fn write(&self, decision: &Decision) {
        let Some(path) = &self.path else { return };
        if let Err(e) = append(path, &line(decision)) {
            log::error!("the audit log {}: {e}", path.display());
        }
    }
}

fn line(decision: &Decision) -> String {
    let mut map = Map::new();
    let now = jiff::Timestamp::now();
    map.set("time", format!("{now:.6}"));
    for (key, text) in [
        ("what", decision.what),
        ("user", decision.user),
        ("method", decision.method),
        ("from", decision.from),
    ] {
        if !text.is_empty() {
            map.set(key, truncate(text));
        }
    }
    for (key, value) in [("target", decision.target), ("function", decision.function)] {
        if let Some(value) = value {
            map.set(key, shorten(value));
        }
    }
    if let Some(arguments) = &decision.arguments {
        map.set("arguments", truncate(arguments));
    }
    if !decision.jid.is_empty() {
        map.set("jid", truncate(decision.jid));
    }
    map.set(
        "verdict",
        if decision.allowed {
            "allowed"
        } else {
            "refused"
        },
    );
    if !decision.reason.is_empty() {
        map.set("reason", truncate(decision.reason));
    }
    serde_json::to_string(&map).unwrap_or_default() + "\n"
}

fn truncate(text: &str) -> String {
    text.chars().take(MAX_FIELD).collect()
}

fn shorten(value: &Value) -> Value {
    match value {
        Value::Str(text) => truncate(text).into(),
        Value::Array(items) => {
            let names = items.iter().take(MAX_NAMES);
            Value::Array(names.map(|item| shorten_item(item).into()).collect())
        }
        other => shorten_item(other).into(),
    }
}

fn shorten_item(value: &Value) -> String {
    match value {
        Value::Str(text) => truncate(text),
        other => truncate(&serde_json::to_string(other).unwrap_or_default()),
    }
}

fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = no_follow();
    options.append(true).create(true).mode(0o600);
    let mut file = match options.open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if let Some(dir) = path.parent() {
                halite_sys::daemon::make_dir(dir, 0o755)?;
            }
            options.open(path)?
        }
        other => other?,
    };
    let written = file.write(line.as_bytes())?;
    if written < line.len() {
        return Err(io::Error::other(
            "only part of a line was written; is the disk full?",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn one_line_each_and_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log/audit");
        let log = AuditLog::new(&path);
        let (target, function) = ("web*\n".into(), "test.ping".into());
        let decision = Decision {
            what: "publish",
            user: "fr\"ed\n",
            target: Some(&target),
            function: Some(&function),
            allowed: true,
            ..Decision::default()
        };
        log.write(&decision);
        log.write(&decision);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        log.write(&Decision::default());
        let old = std::fs::read_to_string(dir.path().join("old")).unwrap();
        let lines: Vec<serde_json::Value> = old
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["user"], "fr\"ed\n");
        assert_eq!(lines[0]["verdict"], "allowed");
        let new = std::fs::read_to_string(&path).unwrap();
        assert!(new.contains("\"verdict\":\"refused\"") && new.lines().count() == 1);
        AuditLog::new(Path::new("")).write(&decision);
    }
}
