//! What kind of archive a source is, and how it is unpacked.

use super::{FORMATS, TAR_ENDINGS};
use crate::declare::State;
use halite_wire::shlex;

/// The format that was declared, or that the name of the source tells.
pub(super) fn format(s: &State<'_, '_>, source: &str) -> Result<String, String> {
    if let Some(given) = s.text("archive_format") {
        let low = given.to_lowercase();
        if FORMATS.contains(&low.as_str()) {
            return Ok(low);
        }
        return Err(format!(
            "Invalid archive_format '{given}'. Either set it to a supported value ({}) or remove this argument and the \
             archive format will be guessed based on file extension.",
            FORMATS.join(", ")
        ));
    }
    let path = source.split(['?', '#']).next().unwrap_or_default();
    if TAR_ENDINGS.iter().any(|end| path.ends_with(end)) {
        return Ok("tar".to_owned());
    }
    for (end, format) in [
        (".zip", "zip"),
        (".rar", "rar"),
        (".war", "zip"),
        (".jar", "zip"),
    ] {
        if path.ends_with(end) {
            return Ok(format.to_owned());
        }
    }
    Err(format!(
        "Could not guess archive_format from the value of the 'source' argument. Please set this archive_format to one \
         of the following: {}",
        FORMATS.join(", ")
    ))
}

/// The number of leading directories that options of tar take away.
pub(super) fn strip(options: &str) -> Option<i64> {
    let words = shlex::split(options).ok()?;
    for (at, word) in words.iter().enumerate() {
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (word.as_str(), words.get(at + 1).cloned()),
        };
        if key.len() >= "--strip".len() && "--strip-components".starts_with(key) {
            return value?.parse().ok();
        }
    }
    None
}
