//! Captured messages, for tests.

use halite_wire::base64;
use serde_json::Value as Json;
use std::path::Path;

/// A file of captures.
pub fn captures(name: &str) -> Json {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/vectors/collective");
    let text = std::fs::read_to_string(path.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Decodes base64.
pub fn base64_bytes(text: &Json) -> Vec<u8> {
    base64::decode(text.as_str().unwrap().as_bytes()).unwrap()
}
