//! Files with keys, secrets and certificates named in the settings of gateways.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Size limit of such a file, in bytes.
const MAX_FILE_SIZE: u64 = 64 * 1024;
/// Mode bits that a secret file must not have: everything is allowed to its owner, reading to its group, as with
/// Puppet's keys.
const SECRET_FORBIDDEN: u32 = 0o037;
/// Mode bits that a public file must not have: only the owner may write files that others are verified with.
const PUBLIC_FORBIDDEN: u32 = 0o022;
/// The mode bit of directories whose entries only their owners may replace.
const STICKY: u32 = 0o1000;

/// A setting that does not work, with the reason and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileError {
    gateway: &'static str,
    setting: &'static str,
    path: PathBuf,
    why: String,
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "gateways:{}:{}", self.gateway, self.setting)?;
        if !self.path.as_os_str().is_empty() {
            write!(f, ": {}", self.path.display())?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for KeyFileError {}

impl KeyFileError {
    /// For a setting that does not name a file.
    pub fn new(gateway: &'static str, setting: &'static str, why: String) -> KeyFileError {
        KeyFileError {
            gateway,
            setting,
            path: PathBuf::new(),
            why,
        }
    }
}

/// A file named in a setting.
pub struct File<'a> {
    gateway: &'static str,
    setting: &'static str,
    /// Its path.
    pub path: &'a Path,
}

impl<'a> File<'a> {
    /// The file named by `setting` of `gateway`.
    pub fn new(gateway: &'static str, setting: &'static str, path: &'a Path) -> File<'a> {
        File {
            gateway,
            setting,
            path,
        }
    }

    /// An error about this file.
    pub fn bad(&self, why: &str) -> KeyFileError {
        KeyFileError {
            gateway: self.gateway,
            setting: self.setting,
            path: self.path.to_owned(),
            why: why.to_owned(),
        }
    }

    /// Reads a file that only its owner and their group may read.
    ///
    /// # Errors
    /// The file cannot be read, others can read or change it, or it is not text.
    pub fn secret(&self) -> Result<Zeroizing<String>, KeyFileError> {
        self.read(
            SECRET_FORBIDDEN,
            "others can read or change it, and it is a secret; `chmod 0600` it",
        )
    }

    /// Reads a file that everybody may read.
    ///
    /// # Errors
    /// The file cannot be read, others can change it, or it is not text.
    pub fn public(&self) -> Result<Zeroizing<String>, KeyFileError> {
        self.read(PUBLIC_FORBIDDEN, "others can change it; `chmod go-w` it")
    }

    /// Checks a directory whose files say who is trusted: whoever can write to it, or to one above it, could add one.
    /// Sticky directories above it, such as `/tmp`, are allowed.
    ///
    /// # Errors
    /// Others can write to the directory or to one above it.
    pub fn directory(&self) -> Result<(), KeyFileError> {
        // What the path leads to, and the path with its symbolic links.
        let real = std::fs::canonicalize(self.path).ok();
        for path in [real, Some(self.path.to_owned())].into_iter().flatten() {
            for dir in path.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
                let Ok(meta) = std::fs::metadata(dir) else {
                    continue;
                };
                let sticky = dir != path && meta.mode() & STICKY != 0;
                if meta.mode() & PUBLIC_FORBIDDEN != 0 && !sticky {
                    let dir = dir.display();
                    return Err(self.bad(&format!(
                        "others can write to {dir}, and so say who is trusted; `chmod go-w {dir}`"
                    )));
                }
            }
        }
        Ok(())
    }

    fn read(&self, forbidden: u32, remedy: &str) -> Result<Zeroizing<String>, KeyFileError> {
        let failed = |error: std::io::Error| {
            let why = match error.kind() {
                std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
                std::io::ErrorKind::PermissionDenied => {
                    "it may not be read; give it to the account of the master (option `user`)"
                        .to_owned()
                }
                _ => error.to_string(),
            };
            self.bad(&why)
        };
        // Opening a FIFO must not block the role.
        let file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NONBLOCK)
            .open(self.path)
            .map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(self.bad("it is no regular file"));
        }
        if meta.mode() & forbidden != 0 {
            return Err(self.bad(remedy));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        let read = file.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes);
        read.map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE_SIZE {
            return Err(self.bad(&format!(
                "it is longer than {MAX_FILE_SIZE} bytes, which is too much for a key"
            )));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(Zeroizing::new(text.to_owned())),
            Err(_) => Err(self.bad("it is not text; keys and certificates are in PEM form")),
        }
    }
}
