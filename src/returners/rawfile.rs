//! `rawfile_json`: one JSON document per line (`salt/returners/rawfile_json.py`).

use super::json::{Strictness, dumps_map};
use super::{Opener, Store, StoreError};
use halite_ipc::Event;
use halite_store::jobs::JobUpdate;
use halite_wire::{Value, msgpack};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The file; opened for each batch, so it may be rotated at any time.
pub struct RawFile {
    path: PathBuf,
}

impl RawFile {
    /// The file named by the setting `filename`; by default `events` in the product's log directory.
    pub fn new(opener: &Opener) -> RawFile {
        let default = || format!("/var/log/{}/events", opener.product).into();
        RawFile {
            path: opener.settings.path("filename").unwrap_or_else(default),
        }
    }
}

impl Store for RawFile {
    fn jobs(&mut self, updates: &[JobUpdate]) -> Result<(), StoreError> {
        let returns = updates.iter().flat_map(|job| &job.returns);
        let line = |load| dumps_map(load, Strictness::Text) + "\n";
        self.append(returns.map(|ret| line(&ret.load)).collect())
    }

    fn events(&mut self, events: &[Arc<Event>]) -> Result<(), StoreError> {
        self.append(events.iter().map(|event| line(event)).collect())
    }
}

impl RawFile {
    fn append(&self, lines: String) -> Result<(), StoreError> {
        let written = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)
            .and_then(|mut file| {
                // As in stock, because several processes write to the file.
                file.lock()?;
                file.write_all(lines.as_bytes())
            });
        written.map_err(|e| StoreError::Away(format!("{}: {e}", self.path.display())))
    }
}

fn line(event: &Event) -> String {
    let document = halite_wire::map! {"data" => data(event), "tag" => event.tag.as_str()};
    dumps_map(&document, Strictness::Text) + "\n"
}

/// The data of an event.
pub fn data(event: &Event) -> Value {
    msgpack::decode(&event.payload).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_config::{Returner, Settings};

    #[test]
    fn a_line_per_event() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events");
        let options =
            halite_wire::map! {"rawfile_json.filename" => path.to_string_lossy().as_ref()};
        let mut file = RawFile::new(&Opener {
            settings: Settings::new(Returner::RawfileJson, vec![&options]),
            id: "m",
            keep: 0,
            product: "halite",
            program: "halite-master",
        });
        let event = |tag| Arc::new(Event::new(tag, &halite_wire::map! {"n" => 1}).unwrap());
        file.events(&[event("a"), event("b")]).unwrap();
        file.events(&[event("c")]).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let tags: Vec<_> = text
            .lines()
            .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["tag"].clone())
            .collect();
        assert_eq!(tags, ["a", "b", "c"]);
        assert!(text.starts_with("{\"data\": {\"n\": 1}"), "{text}");
    }
}
