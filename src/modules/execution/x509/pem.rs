//! PEM as text: `get_pem_entry`, `get_pem_entries`, `write_pem`.

use super::source::{self, is_file};
use crate::execution::command_helpers::{TempFile, rewrite, write_private};
use crate::execution::declare::Result;
use crate::execution::file::{paths, replace_file};
use crate::execution::{Call, CallError, python};
use halite_wire::{Map, Value};
use regex::Regex;
use std::path::Path;

const WIDTH: usize = 64;
const ANY: &str = "[0-9A-Z ]+";

/// The first block of a text, put right; of a type if one is given.
///
/// # Errors
/// There is none.
pub fn entry(text: &Value, kind: Option<&str>) -> Result<String> {
    let bytes = source::bytes(text)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| CallError::raised("UnicodeDecodeError", "'utf-8' codec can't decode bytes"))?;
    // Line breaks get lost on their way through other formats.
    let mut text = text.replace("\\n", "\n");
    if text.lines().count() == 1 && text.starts_with("-----") && text.ends_with("-----") {
        text = broken_up(&text);
    }
    let shown = kind.unwrap_or(ANY);
    let pattern = format!(
        "(?s)-----BEGIN {shown}-----\\s+(?:(Proc-Type: 4,ENCRYPTED)\\s*)?(?:(DEK-Info: \
         (?:DES-[3A-Z-]+,[0-9A-F]{{16}}|[0-9A-Z-]+,[0-9A-F]{{32}}))\\s*)?(.+?)\\s+-----END {shown}-----"
    );
    let bad = || {
        CallError::Invocation(match kind {
            Some(kind) => format!("PEM does not contain a single entry of type {kind}:\n{text}"),
            None => format!("PEM text not valid:\n{text}"),
        })
    };
    let found = Regex::new(&pattern)
        .ok()
        .and_then(|p| p.captures(&text))
        .ok_or_else(bad)?;
    // The type may have groups of its own, so ours are counted from the end of the header.
    let whole = found.get(0).map(|m| m.as_str()).unwrap_or_default();
    let (header, rest) = whole
        .split_once("-----\n")
        .or_else(|| whole.split_once("-----\r"))
        .ok_or_else(bad)?;
    let (body, footer) = rest.rsplit_once("-----END ").ok_or_else(bad)?;
    let mut out = format!("{header}-----\n");
    let mut content = String::new();
    let mut headers = false;
    for line in body.lines().map(str::trim) {
        if line.starts_with("Proc-Type:") || line.starts_with("DEK-Info:") {
            out.push_str(line);
            out.push('\n');
            headers |= line.starts_with("DEK-Info:");
        } else {
            content.extend(line.chars().filter(|c| !c.is_whitespace()));
        }
    }
    if headers {
        out.push('\n');
    }
    wrap(&content, &mut out);
    out.push_str(&format!("-----END {footer}\n"));
    Ok(out)
}

fn wrap(content: &str, out: &mut String) {
    let chars: Vec<char> = content.chars().collect();
    for line in chars.chunks(WIDTH) {
        out.extend(line);
        out.push('\n');
    }
}

/// A text of one line, with its lines.
fn broken_up(text: &str) -> String {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = if let Some(after) = rest.strip_prefix("-----") {
            after.find("-----").map_or(rest.len(), |at| at + 10)
        } else {
            let end = rest.find('-').unwrap_or(rest.len());
            let width = rest
                .char_indices()
                .nth(WIDTH)
                .map_or(rest.len(), |(at, _)| at);
            // A stray hyphen is a line of its own.
            end.min(width).max(1)
        };
        let (line, tail) = rest.split_at(length);
        lines.push(line);
        rest = tail;
    }
    lines.join("\n")
}

/// `get_pem_entry`.
pub fn get_entry(call: &mut Call<'_>) -> Result {
    let kind = call.text("pem_type").filter(|k| !k.is_empty());
    Ok(Value::Bytes(
        entry(call.arg("text"), kind.as_deref())?.into_bytes(),
    ))
}

/// `get_pem_entries`.
pub fn get_entries(call: &mut Call<'_>) -> Result {
    let mut all = Map::new();
    for path in paths::glob(&python::str(call.arg("glob_path"))) {
        let value = Value::from(path.as_str());
        if is_file(&value) {
            let text = entry(&value, None)?;
            all.set(path, Value::Bytes(text.into_bytes()));
        }
    }
    Ok(all.into())
}

/// Writes a block to a file; what was there of keys and parameters may stay.
///
/// # Errors
/// There is no block, or the file cannot be written.
pub fn write(text: &Value, path: &str, overwrite: bool, kind: Option<&str>) -> Result<String> {
    let mut content = entry(text, kind)?;
    if kind == Some("CERTIFICATE") && !overwrite && Path::new(path).is_file() {
        let old = Value::from(path);
        if let Ok(key) = entry(&old, Some("(?:RSA )?PRIVATE KEY")) {
            content.insert_str(0, &key);
        }
        if let Ok(parameters) = entry(&old, Some("DH PARAMETERS")) {
            content.push_str(&parameters);
        }
    }
    // What is public keeps the mode that it has.
    let written = if !content.contains("PRIVATE KEY-----") && Path::new(path).is_file() {
        rewrite(Path::new(path), content.as_bytes())
    } else {
        write_private(path, content.as_bytes())
    };
    written.map_err(|e| python::os_error(&e, path))?;
    Ok(format!("PEM written to {path}"))
}

/// Puts bytes into a file, whose owner and mode stay (`safe_atomic_write`).
///
/// # Errors
/// It cannot be written.
pub fn put(call: &mut Call<'_>, path: &str, content: &[u8], backup: &Value) -> Result<()> {
    let backup = if backup.truthy() {
        backup.clone()
    } else {
        "".into()
    };
    let mode = call.salt("config.backup_mode", vec![backup], Map::new())?;
    let file = TempFile::new(content)?;
    replace_file(call, file.path(), path, &python::str(&mode))
}

/// `write_pem`.
pub fn write_function(call: &mut Call<'_>) -> Result {
    let path = python::str(call.arg("path"));
    let kind = call.text("pem_type").filter(|k| !k.is_empty());
    let done = write(
        call.arg("text"),
        &path,
        call.flag("overwrite"),
        kind.as_deref(),
    )?;
    Ok(done.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_put_right() {
        let get = |text: &str, kind| entry(&text.into(), kind);
        let want = "-----BEGIN A B-----\nAQI=\n-----END A B-----\n";
        for text in [
            want,
            "x\n  -----BEGIN A B-----\n AQ\n I=  \n-----END A B-----\ny",
            "-----BEGIN A B-----AQI=-----END A B-----",
            "-----BEGIN A B-----\\nAQI=\\n-----END A B-----",
        ] {
            assert_eq!(get(text, None).unwrap(), want, "{text}");
            assert_eq!(get(text, Some("A (?:B|C)")).unwrap(), want);
            assert!(get(text, Some("A")).is_err());
        }
        let locked = "-----BEGIN A-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123\n\nAQI=\n-----END A-----\n";
        assert_eq!(get(locked, None).unwrap(), locked);
    }
}
