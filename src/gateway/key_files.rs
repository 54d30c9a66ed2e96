//! Files with keys, secrets and certificates that the settings of gateways name.

use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Bytes of the largest file with a key, a secret or certificates.
const LARGEST: u64 = 64 * 1024;
/// Who may do what with a file that holds a secret: its owner may do anything, its group may read it, as Puppet's keys are.
const SECRET: u32 = 0o037;
/// Files that others are trusted by: nobody but the owner may write them.
const PUBLIC: u32 = 0o022;

/// A setting that does not work: which one, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKeys {
    gateway: &'static str,
    setting: &'static str,
    path: PathBuf,
    why: String,
}

impl fmt::Display for BadKeys {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "gateways:{}:{}", self.gateway, self.setting)?;
        if !self.path.as_os_str().is_empty() {
            write!(f, ": {}", self.path.display())?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for BadKeys {}

impl BadKeys {
    /// A setting of a gateway that is no file, and what is wrong with it.
    pub fn new(gateway: &'static str, setting: &'static str, why: String) -> BadKeys {
        BadKeys {
            gateway,
            setting,
            path: PathBuf::new(),
            why,
        }
    }
}

/// A file that a setting names.
pub struct File<'a> {
    gateway: &'static str,
    setting: &'static str,
    /// Where it lies.
    pub path: &'a Path,
}

impl<'a> File<'a> {
    /// The file that this setting of a gateway names.
    pub fn new(gateway: &'static str, setting: &'static str, path: &'a Path) -> File<'a> {
        File {
            gateway,
            setting,
            path,
        }
    }

    /// What is wrong with it.
    pub fn bad(&self, why: &str) -> BadKeys {
        BadKeys {
            gateway: self.gateway,
            setting: self.setting,
            path: self.path.to_owned(),
            why: why.to_owned(),
        }
    }

    /// Its text, which only its owner and their group may know.
    ///
    /// # Errors
    /// It cannot be read, others can, or it is no text.
    pub fn secret(&self) -> Result<Zeroizing<String>, BadKeys> {
        self.read(
            SECRET,
            "others can read or change it, and it is a secret; `chmod 0600` it",
        )
    }

    /// Its text, which everybody may know.
    ///
    /// # Errors
    /// It cannot be read, others can change it, or it is no text.
    pub fn public(&self) -> Result<Zeroizing<String>, BadKeys> {
        self.read(PUBLIC, "others can change it; `chmod go-w` it")
    }

    fn read(&self, forbidden: u32, remedy: &str) -> Result<Zeroizing<String>, BadKeys> {
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
        // A FIFO must not hold up the role.
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
        let mut octets = Zeroizing::new(Vec::new());
        let read = file.take(LARGEST + 1).read_to_end(&mut octets);
        read.map_err(failed)?;
        if octets.len() as u64 > LARGEST {
            return Err(self.bad(&format!(
                "it has more than {LARGEST} octets, which no key has"
            )));
        }
        match std::str::from_utf8(&octets) {
            Ok(text) => Ok(Zeroizing::new(text.to_owned())),
            Err(_) => Err(self.bad("it is no text; keys and certificates are in PEM form")),
        }
    }
}
