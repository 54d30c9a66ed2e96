//! Beacon `log`: matching lines of a log file (`salt/beacons/log_beacon.py`).

use crate::execution::python;
use halite_target::PyRegex;
use halite_wire::{Map, Value};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Maximum read per poll; the rest is left for the next one.
const MAX_READ: u64 = 16 << 20;

pub(super) fn validate(config: &Map) -> Result<(), String> {
    if config.contains("file") {
        Ok(())
    } else {
        Err("Configuration for log beacon must contain file option.".to_owned())
    }
}

pub(super) fn poll(at: &mut Option<u64>, config: &Map) -> Result<Vec<Map>, String> {
    let path = config.get("file").map(python::str).unwrap_or_default();
    let failed = |e: std::io::Error| python::os_error(&e, &path).message().to_owned();
    let mut file = File::open(&path).map_err(failed)?;
    let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
    // A file that was empty is read from its start, as in stock.
    let Some(from) = at.filter(|from| *from > 0) else {
        *at = Some(size);
        return Ok(Vec::new());
    };
    file.seek(SeekFrom::Start(from)).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_READ)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    *at = Some(if from > size {
        size
    } else {
        from + bytes.len() as u64
    });
    Ok(evaluate(config, &String::from_utf8_lossy(&bytes)))
}

fn evaluate(config: &Map, text: &str) -> Vec<Map> {
    let mut events = Vec::new();
    let mut patterns = Vec::new();
    let tags = config.get("tags").and_then(Value::as_map);
    for (tag, wanted) in tags.into_iter().flat_map(Map::iter) {
        let tag = python::str(tag);
        let regex = wanted.as_map().and_then(|map| map.get("regex"));
        let Some(regex) = regex.filter(|regex| regex.truthy()) else {
            continue;
        };
        match PyRegex::new(&python::str(regex)) {
            Ok(regex) => patterns.push((tag, regex)),
            Err(_) => events.push(event(&tag, "no", "", "bad regex")),
        }
    }
    for line in text.lines() {
        for (tag, regex) in &patterns {
            if regex.matches(line) == Ok(true) {
                events.push(event(tag, "yes", line, ""));
            }
        }
    }
    events
}

fn event(tag: &str, matched: &str, raw: &str, error: &str) -> Map {
    halite_wire::map! {"tag" => tag, "match" => matched, "raw" => raw, "error" => error}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, "good-bye before\n").unwrap();
        let tags = halite_wire::map! {
            "a/b" => halite_wire::map! {"regex" => ".*good-bye.*"}, "bad" => halite_wire::map! {"regex" => "("},
        };
        let config = halite_wire::map! {"file" => path.to_str().unwrap(), "tags" => tags};
        let mut at = None;
        assert!(poll(&mut at, &config).unwrap().is_empty());
        std::fs::write(&path, "good-bye before\nhello\na good-bye\n").unwrap();
        let found = poll(&mut at, &config).unwrap();
        let want = [
            event("bad", "no", "", "bad regex"),
            event("a/b", "yes", "a good-bye", ""),
        ];
        assert_eq!(found, want);
        assert_eq!(poll(&mut at, &config).unwrap().len(), 1);
        assert!(poll(&mut at, &halite_wire::map! {"file" => "/nosuch"}).is_err());
    }
}
