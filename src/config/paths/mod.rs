//! Default directories, `root_dir` and the length of socket paths; [`master`] and [`minion`] have the path of every
//! file and socket.

pub mod master;
pub mod minion;

use super::{ConfigError, MasterConfig, finish};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Maximum length of a socket path in bytes (`sun_path` without the final NUL).
pub const MAX_SOCKET_PATH: usize = 107;

/// Environment variable that names the configuration directory.
const DIR_VARIABLE: &str = "HALITE_CONFIG_DIR";

/// The configuration directory if the command line does not name one: `HALITE_CONFIG_DIR`, else `/etc/halite`.
pub fn default_dir() -> PathBuf {
    match std::env::var_os(DIR_VARIABLE) {
        Some(dir) if !dir.is_empty() => dir.into(),
        _ => "/etc/halite".into(),
    }
}

/// Whose default paths a configuration uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// `/etc/halite`, `/var/cache/halite`, ...
    Halite,
    /// Those of stock Salt: `/etc/salt`, `/var/cache/salt`, ...
    Salt,
}

impl Flavour {
    /// [`Flavour::Salt`] for a directory called `salt`.
    pub fn of(dir: &Path) -> Flavour {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        match normal(&dir).file_name() {
            Some(name) if name == OsStr::new("salt") => Flavour::Salt,
            _ => Flavour::Halite,
        }
    }

    /// The product name used in paths.
    pub fn name(self) -> &'static str {
        match self {
            Flavour::Halite => "halite",
            Flavour::Salt => "salt",
        }
    }
}

/// Puts a path below `root_dir` unless it is already there. Absolute paths are moved as well (`salt/config/__init__.py
/// prepend_root_dir`).
pub(super) fn below(root: &Path, path: &Path) -> PathBuf {
    let inside = path.strip_prefix(root).unwrap_or(path);
    let inside = normal(inside);
    normal(&root.join(inside.strip_prefix("/").unwrap_or(&inside)))
}

/// Like [`below`], for a log file, which may also be a URL such as `udp://host:514`.
pub(super) fn log_below(root: &Path, log: &str) -> String {
    if is_url(log) {
        return log.to_owned();
    }
    below(root, Path::new(log)).to_string_lossy().into_owned()
}

fn is_url(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else {
        return false;
    };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Resolves `.` and `..` in the text of the path, like Python's `os.path.normpath`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if out == Path::new("/") => {}
            Component::ParentDir if out.file_name().is_some_and(|n| n != "..") => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The socket directory; moved below `cachedir` if its path is more than ten characters longer than `cachedir`
/// (`salt/config/__init__.py apply_master_config`; before `root_dir` is prepended).
pub(super) fn sock_dir(sock_dir: PathBuf, cachedir: &Path) -> PathBuf {
    let length = |p: &Path| p.to_string_lossy().chars().count();
    if length(&sock_dir) > length(cachedir) + 10 {
        return cachedir.join(".salt-unix");
    }
    sock_dir
}

/// Refuses a socket directory whose path is too long for the longest socket name.
pub(super) fn check_sockets(sock_dir: &Path, longest: &str) -> Result<(), ConfigError> {
    let path = sock_dir.join(longest);
    if path.as_os_str().len() <= MAX_SOCKET_PATH {
        return Ok(());
    }
    let limit = MAX_SOCKET_PATH;
    Err(ConfigError::SocketPath { path, limit })
}

impl MasterConfig {
    /// Puts the paths below `root_dir` and sets the id (`salt/config/__init__.py apply_master_config`).
    pub(super) fn resolve_paths(&mut self) {
        self.root_dir = finish::root(&self.root_dir);
        self.sock_dir = sock_dir(std::mem::take(&mut self.sock_dir), &self.cachedir);
        let root = self.root_dir.clone();
        if self.extension_modules.as_os_str().is_empty() {
            self.extension_modules = minion::cache::extmods(&self.cachedir);
        }
        for path in [
            &mut self.pki_dir,
            &mut self.cachedir,
            &mut self.pidfile,
            &mut self.syndic_pidfile,
            &mut self.sock_dir,
            &mut self.sqlite_queue_dir,
            &mut self.extension_modules,
        ] {
            *path = below(&root, path);
        }
        let optional = [
            &mut self.autosign_file,
            &mut self.autoreject_file,
            &mut self.autosign_grains_dir,
        ];
        for path in optional.into_iter().flatten() {
            *path = below(&root, path);
        }
        for log in [
            &mut self.log_file,
            &mut self.key_logfile,
            &mut self.audit_log,
        ]
        .into_iter()
        .filter(|log| !log.is_empty())
        {
            *log = log_below(&root, log);
        }
        if self.id.is_empty() {
            let cache = finish::id_cache(&self.conf_file, self.flavour, &root);
            self.id = super::id::cached(&cache).unwrap_or_else(super::id::generate) + "_master";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &str, path: &str) -> String {
        below(Path::new(root), Path::new(path))
            .to_string_lossy()
            .into_owned()
    }

    /// Results of `salt.config.prepend_root_dir` for the same arguments.
    #[test]
    fn root_dir_is_put_in_front() {
        assert_eq!(put("/", "/etc/salt/pki"), "/etc/salt/pki");
        assert_eq!(put("/r", "/etc/salt/pki"), "/r/etc/salt/pki");
        assert_eq!(put("/r", "/r/pki"), "/r/pki");
        assert_eq!(put("/r", "/rest/pki"), "/r/rest/pki");
        assert_eq!(put("/r", "pki"), "/r/pki");
        assert_eq!(put("/r", "./a//b/../c"), "/r/a/c");
        assert_eq!(put("/", "pki"), "/pki");
    }

    #[test]
    fn logs_may_be_addresses() {
        let root = Path::new("/r");
        assert_eq!(log_below(root, "/var/log/x"), "/r/var/log/x");
        assert_eq!(log_below(root, "file:///dev/log"), "file:///dev/log");
        assert_eq!(log_below(root, "udp://h:514"), "udp://h:514");
    }

    #[test]
    fn long_socket_directories_move() {
        let cache = Path::new("/var/cache/salt");
        let sock = |s: &str| sock_dir(s.into(), cache).to_string_lossy().into_owned();
        assert_eq!(sock("/var/run/salt"), "/var/run/salt");
        assert_eq!(
            sock("/var/run/salt/0123456789ab"),
            "/var/cache/salt/.salt-unix"
        );
        assert!(check_sockets(Path::new("/var/run/salt"), "x.ipc").is_ok());
        let long = format!("/{}", "d".repeat(120));
        let error = check_sockets(Path::new(&long), "x.ipc")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("sock_dir") && error.contains("107"),
            "{error}"
        );
    }

    #[test]
    fn the_directory_name_decides_the_flavour() {
        assert_eq!(Flavour::of(Path::new("/etc/salt")), Flavour::Salt);
        assert_eq!(Flavour::of(Path::new("/etc/salt/")), Flavour::Salt);
        assert_eq!(Flavour::of(Path::new("/x/salt/.")), Flavour::Salt);
        assert_eq!(Flavour::of(Path::new("/etc/halite")), Flavour::Halite);
    }
}
