//! What can be wrong with a configuration.

use halite_wire::yaml::YamlError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a configuration cannot be used. The text names the file and the remedy.
#[derive(Debug)]
pub enum ConfigError {
    /// A file exists but cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A file is not YAML.
    Yaml {
        /// The file.
        path: PathBuf,
        /// Where and what.
        error: YamlError,
    },
    /// A file is YAML but holds something else than options.
    NotAMap {
        /// The file.
        path: PathBuf,
        /// What it holds.
        found: String,
    },
    /// Files include one another too deeply.
    IncludeDepth {
        /// The file at which reading stopped.
        path: PathBuf,
    },
    /// An option has a value that does not fit.
    BadValue {
        /// The file that sets it; empty for a value that came from elsewhere.
        path: PathBuf,
        /// Name of the option.
        option: String,
        /// The value, as YAML.
        found: String,
        /// What is expected instead.
        expected: String,
    },
    /// The socket directory leaves no room for the names of the sockets.
    SocketPath {
        /// The longest path that would be needed.
        path: PathBuf,
        /// Bytes that a socket path may have.
        limit: usize,
    },
}

impl ConfigError {
    pub(super) fn read(path: &Path, error: std::io::Error) -> Self {
        let path = path.to_owned();
        ConfigError::Read { path, error }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ConfigError::Read { path, error } => {
                write!(
                    f,
                    "cannot read the configuration file {}: {error}",
                    path.display()
                )
            }
            ConfigError::Yaml { path, error } => {
                write!(f, "{}: {error}", path.display())
            }
            ConfigError::NotAMap { path, found } => write!(
                f,
                "{}: the file must hold lines of the form 'option: value', but it is {found}",
                path.display()
            ),
            ConfigError::IncludeDepth { path } => write!(
                f,
                "{}: files include one another more than {} levels deep; look for a file that includes itself",
                path.display(),
                super::file::MAX_INCLUDE_DEPTH
            ),
            ConfigError::BadValue {
                path,
                option,
                found,
                expected,
            } => {
                if !path.as_os_str().is_empty() {
                    write!(f, "{}: ", path.display())?;
                }
                write!(
                    f,
                    "the option '{option}' is {found}, but must be {expected}"
                )
            }
            ConfigError::SocketPath { path, limit } => write!(
                f,
                "the socket path {} has {} bytes, but the system allows {limit}; set 'sock_dir' to a shorter path",
                path.display(),
                path.as_os_str().len()
            ),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Read { error, .. } => Some(error),
            ConfigError::Yaml { error, .. } => Some(error),
            _ => None,
        }
    }
}
