//! Errors in a configuration.

use halite_wire::yaml::YamlError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a configuration cannot be used. The message names the file and the remedy.
#[derive(Debug)]
pub enum ConfigError {
    /// A file exists but cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The error from the system.
        error: std::io::Error,
    },
    /// A file is not YAML.
    Yaml {
        /// The file.
        path: PathBuf,
        /// Position and cause.
        error: YamlError,
    },
    /// A file is YAML but not a map of options.
    NotAMap {
        /// The file.
        path: PathBuf,
        /// Its content, shortened.
        found: String,
    },
    /// Files include one another too deeply.
    IncludeDepth {
        /// The file at which reading stopped.
        path: PathBuf,
    },
    /// An option has a value that is not allowed.
    BadValue {
        /// The file that sets it; empty for a value that comes from elsewhere.
        path: PathBuf,
        /// Name of the option.
        option: String,
        /// The value, as YAML.
        found: String,
        /// The values that are allowed.
        expected: String,
    },
    /// The path of the socket directory is too long for the socket names.
    SocketPath {
        /// The longest socket path needed.
        path: PathBuf,
        /// Bytes allowed in a socket path.
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
