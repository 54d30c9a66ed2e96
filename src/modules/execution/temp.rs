//! `temp`: temporary files and directories.

use super::declare::{Function, Module, Result, args};
use super::{Call, python};
use halite_crypto::Alphabet;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// How many names to try.
const MAX_ATTEMPTS: u32 = 100;

pub(super) const MODULE: Module = Module {
    name: "temp",
    functions: &[
        Function::new(
            "dir",
            |c| make(c, &new_dir),
            "Creates a directory only its owner can enter and returns its path.",
        )
        .args(args![suffix = "", prefix = "tmp", parent = None]),
        Function::new(
            "file",
            |c| make(c, &new_file),
            "Creates an empty file only its owner can read and returns its path.",
        )
        .args(args![suffix = "", prefix = "tmp", parent = None]),
    ],
};

fn new_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn new_file(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map(|_| ())
}

fn make(call: &mut Call<'_>, new: &dyn Fn(&Path) -> io::Result<()>) -> Result {
    let text = |name: &str| call.text(name).unwrap_or_default();
    let prefix = call.text("prefix").unwrap_or_else(|| "tmp".to_owned());
    let parent = call
        .text("parent")
        .unwrap_or_else(|| std::env::temp_dir().to_string_lossy().into_owned());
    let parent = std::path::absolute(if parent.is_empty() { "." } else { &parent })
        .map_err(|e| python::os_error(&e, &parent))?;
    let letters = Alphabet {
        chars: "abcdefghijklmnopqrstuvwxyz0123456789_".to_owned(),
        ..Alphabet::default()
    };
    let mut tries = 0;
    loop {
        let random = letters.password(8).unwrap_or_default();
        let path = parent.join(format!("{prefix}{random}{}", text("suffix")));
        let shown = path.to_string_lossy().into_owned();
        match new(&path) {
            Ok(()) => return Ok(shown.into()),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && tries < MAX_ATTEMPTS => {
                tries += 1
            }
            Err(e) => return Err(python::os_error(&e, &shown)),
        }
    }
}
