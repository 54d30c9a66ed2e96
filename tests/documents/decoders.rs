//! Whatever decodes bytes from outside does so within the limits of `src/wire/budget.rs`: parsers with limits of their own are
//! named in few places only.

use std::path::{Path, PathBuf};

/// What parses, and the files that may name it.
const PARSERS: &[(&str, &[&str])] = &[
    ("serde_json::from_", &["src/wire/json.rs"]),
    ("serde_json::Deserializer", &["src/wire/json.rs"]),
    ("serde_json::StreamDeserializer", &[]),
    ("rmp_serde::from_", &[]),
    ("rmp_serde::Deserializer", &["ipc/src/event.rs"]),
    (
        "saphyr_parser::",
        &[
            "src/collective/ruby/psych/read.rs",
            "src/wire/yaml/compose.rs",
            "src/wire/yaml/source.rs",
        ],
    ),
];

/// A JSON value that was parsed already.
const HARMLESS: &str = "serde_json::from_value";

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            sources(&path, into);
        } else if name.ends_with(".rs") && name != "tests.rs" && name != "testing.rs" {
            into.push(path);
        }
    }
}

#[test]
fn parsers_without_our_limits_are_not_used() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&top.join("src"), &mut files);
    sources(&top.join("ipc/src"), &mut files);
    let mut found = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let name = file.strip_prefix(top).unwrap().to_str().unwrap();
        for (parser, allowed) in PARSERS {
            let mut lines = code.lines().filter(|line| !line.contains(HARMLESS));
            if !allowed.contains(&name) && lines.any(|line| line.contains(parser)) {
                found.push(format!("{name}: {parser}"));
            }
        }
    }
    assert!(files.len() > 500, "{}", files.len());
    assert!(
        found.is_empty(),
        "use halite_wire::json, msgpack or yaml: {found:#?}"
    );
}
