//! Files of all sizes: chunks that are fetched two at a time have to end up in their places.

use super::pair::*;
use std::fs;
use std::path::Path;

/// Writes a file of each size, named after it.
pub fn write(dir: &Path, sizes: &[usize]) {
    fs::create_dir_all(dir).unwrap();
    for size in sizes {
        let content: Vec<u8> = (0..*size).map(|at| (at % 251) as u8).collect();
        fs::write(dir.join(size.to_string()), content).unwrap();
    }
}

/// Checks that all of them have arrived.
pub fn compare(from: &Path, to: &Path, sizes: &[usize]) {
    for size in sizes {
        let name = size.to_string();
        let [sent, received] = [from, to].map(|dir| fs::read(dir.join(&name)).unwrap());
        assert!(sent == received, "{name}: {} bytes", received.len());
    }
}

#[test]
fn files_of_all_sizes() {
    const CHUNK: usize = 2 << 20;
    let sizes = [
        0,
        1,
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        2 * CHUNK,
        3 * CHUNK,
        3 * CHUNK + 1,
        7 * CHUNK - 1,
    ];
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("sizes");
    write(&from, &sizes);
    let lines = format!("file_roots: {{base: [{}]}}", dir.path().display());
    for handshake in ["auto", "salt"] {
        let mut pair = Pair::start(&lines, &format!("handshake: {handshake}"));
        let to = pair.minion.path("to");
        let args = ["salt://sizes".into(), to.display().to_string().into()];
        pair.run("cp.get_dir", &args);
        compare(&from, &to.join("sizes"), &sizes);
    }
}
