//! What the programs are made of: the list that `scripts/sbom` writes, licences, and the compiler that is asked for.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use testing::halite_program;

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> Vec<u8> {
    let done = command.current_dir(top()).output();
    let done = done.unwrap_or_else(|e| panic!("{command:?} does not run: {e}"));
    let why = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{command:?}: {why}");
    done.stdout
}

fn sbom() -> Value {
    let said = run(Command::new(top().join("scripts/sbom")).env("SOURCE_DATE_EPOCH", "86400"));
    serde_json::from_slice(&said).expect("the list is JSON")
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().expect("a list")
}

/// Name and version of what is in the list, with its entry.
fn components(sbom: &Value) -> BTreeMap<(&str, &str), &Value> {
    let entries = list(sbom, "components").iter();
    let named = entries.map(|entry| ((text(entry, "/name"), text(entry, "/version")), entry));
    named.collect()
}

/// Name and version of the packages of Cargo.lock, with their checksums; packages of this repository have none.
fn locked() -> BTreeMap<(String, String), Option<String>> {
    let lock = fs::read_to_string(top().join("Cargo.lock")).unwrap();
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name));
        let value = line.and_then(|line| line.strip_prefix(" = "));
        value.map(|value| value.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]\n").skip(1).map(|package| {
        let name = field(package, "name").unwrap();
        let version = field(package, "version").unwrap();
        ((name, version), field(package, "checksum"))
    });
    packages.collect()
}

#[test]
fn the_list_names_what_is_linked() {
    let sbom = sbom();
    assert_eq!(text(&sbom, "/bomFormat"), "CycloneDX");
    assert_eq!(text(&sbom, "/metadata/timestamp"), "1970-01-02T00:00:00Z");
    assert_eq!(text(&sbom, "/metadata/component/name"), "halite");
    assert!(text(&sbom, "/serialNumber").starts_with("urn:uuid:"));
    let components = components(&sbom);
    let locked = locked();
    for ((name, version), entry) in &components {
        let package = locked.get(&((*name).to_owned(), (*version).to_owned()));
        let checksum = package.unwrap_or_else(|| panic!("{name} {version} is not in Cargo.lock"));
        let listed = entry.pointer("/hashes/0/content").and_then(Value::as_str);
        assert_eq!(listed, checksum.as_deref(), "{name}");
        assert!(
            checksum.is_some() || name.starts_with("halite-"),
            "{name} has no checksum"
        );
        assert_ne!(text(entry, "/licenses/0/expression"), "", "{name}");
    }
    // Dependencies lead to what is in the list.
    let known: BTreeSet<&str> = components
        .values()
        .map(|entry| text(entry, "/bom-ref"))
        .collect();
    let edges = list(&sbom, "dependencies");
    assert_eq!(edges.len(), components.len() + 1);
    for used in edges.iter().flat_map(|edge| list(edge, "dependsOn")) {
        assert!(known.contains(used.as_str().unwrap()), "{used}");
    }
    // C and C++ that becomes part of the programs, and nothing that only tests or the compiler need.
    let names: BTreeSet<&str> = components.keys().map(|(name, _)| *name).collect();
    for (name, linked) in [
        ("zeromq-src", true),
        ("libsqlite3-sys", true),
        ("clap_mangen", false),
        ("cc", false),
        ("syn", false),
    ] {
        assert_eq!(names.contains(name), linked, "{name}");
    }
}

/// Crates leave the paths of their sources in a program, for what it says in a panic.
#[test]
fn what_programs_show_of_their_crates_is_in_the_list() {
    let sbom = sbom();
    let listed: BTreeSet<String> = components(&sbom)
        .keys()
        .map(|(name, version)| format!("{name}-{version}"))
        .collect();
    for program in ["halite-master", "halite-minion", "halite-runtime"] {
        let mut grep = Command::new("grep");
        grep.env("LC_ALL", "C")
            .args(["-aohE", "registry/src/[^/]+/[A-Za-z0-9_.+-]+/"]);
        let shown = String::from_utf8(run(grep.arg(halite_program(program)))).unwrap();
        let crates = shown
            .lines()
            .filter_map(|path| path.trim_end_matches('/').rsplit('/').next());
        let crates: BTreeSet<&str> = crates.collect();
        assert!(crates.len() > 20, "{program} shows {crates:?}");
        let strange: Vec<_> = crates
            .iter()
            .filter(|name| !listed.contains(**name))
            .collect();
        assert!(strange.is_empty(), "{program} holds {strange:?}");
    }
}

/// As `cargo deny check licenses`, which not everyone has.
#[test]
fn licenses_are_those_that_are_let_in() {
    let policy = fs::read_to_string(top().join("deny.toml")).unwrap();
    let (_, allowed) = policy
        .split_once("\nallow = [")
        .expect("deny.toml lets licenses in");
    let allowed: BTreeSet<&str> = allowed
        .split_once(']')
        .unwrap()
        .0
        .split('"')
        .skip(1)
        .step_by(2)
        .collect();
    assert!(allowed.contains("MIT"));
    for ((name, _), entry) in components(&sbom()) {
        let expression = text(entry, "/licenses/0/expression").replace(['(', ')'], "");
        for part in expression.split(" AND ") {
            let choice = part
                .split(" OR ")
                .any(|license| allowed.contains(license.trim()));
            assert!(choice, "{name} is under {expression}");
        }
    }
}

fn release(version: &str) -> Vec<u32> {
    let parts = version.split('.').take(2);
    parts.map(|part| part.parse().unwrap()).collect()
}

/// That the code itself keeps to `rust-version` is for clippy's `incompatible_msrv` to say.
#[test]
fn no_dependency_asks_for_a_newer_compiler() {
    let own = release(env!("CARGO_PKG_RUST_VERSION"));
    let mut cargo = Command::new(env!("CARGO"));
    let metadata = run(cargo.args(["metadata", "--locked", "--format-version", "1"]));
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    for package in list(&metadata, "packages") {
        let Some(asked) = package["rust_version"].as_str() else {
            continue;
        };
        assert!(
            release(asked) <= own,
            "{} asks for {asked}",
            package["name"]
        );
    }
}
