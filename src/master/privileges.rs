//! What a role of the master may do.

use halite_config::MasterConfig;
use halite_store::files::backend_names;
use halite_sys::safe_open::no_follow;
use halite_sys::sandbox::Sandbox;
use std::fmt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// What a role may do, besides reading what its account can read and using the sockets in `sock_dir`.
pub struct Privileges {
    /// Whether it starts programs. If so, nothing else is restricted: its programs may need it.
    pub programs: Programs,
    /// Where it writes, besides logs and temporary files.
    pub writes: Writes,
    /// TCP ports on which it listens.
    pub binds: fn(&MasterConfig) -> Vec<u16>,
    /// Whether it connects to TCP ports.
    pub connects: bool,
}

/// Whether a role starts programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// Not with any configuration.
    Never,
    /// If it updates mirrors of repositories.
    WithGit,
    /// If there are returners for events that are none of halite's own.
    WithEventReturn,
    /// Templates, runners and external pillars do.
    Always,
}

/// Where a role writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// To `sock_dir`.
    Sockets,
    /// To `sock_dir` and the file with the codes of requests.
    SocketsAndReplays,
    /// To `cachedir`.
    Cache,
    /// To `cachedir` and `pki_dir`.
    CacheAndKeys,
    /// To `sock_dir`, `cachedir` and `pki_dir`.
    SocketsCacheAndKeys,
    /// Options name files at any place.
    Anywhere,
}

impl Privileges {
    /// Of a role that starts programs.
    pub const PROGRAMS: Privileges = Privileges {
        programs: Programs::Always,
        connects: true,
        ..Privileges::writing(Writes::Anywhere)
    };

    /// Of a role that starts no programs and has nothing to do with TCP.
    pub const fn writing(writes: Writes) -> Privileges {
        Privileges {
            programs: Programs::Never,
            writes,
            binds: |_| Vec::new(),
            connects: false,
        }
    }

    /// The restrictions with this configuration.
    pub fn sandbox(&self, config: &MasterConfig) -> Sandbox {
        Sandbox {
            programs: match self.programs {
                Programs::Never => false,
                Programs::WithGit => backend_names(config).contains(&"gitfs"),
                Programs::WithEventReturn => config.other_event_returners().next().is_some(),
                Programs::Always => true,
            },
            writes: self.places(config),
            binds: (self.binds)(config),
            connects: self.connects,
        }
    }

    fn places(&self, config: &MasterConfig) -> Option<Vec<PathBuf>> {
        let mut places = match self.writes {
            Writes::Sockets => vec![config.sock_dir.clone()],
            Writes::SocketsAndReplays => {
                let replays = config.replays();
                // Only an existing file can be allowed. The role itself says if it cannot use it.
                let _ = no_follow()
                    .append(true)
                    .create(true)
                    .mode(0o600)
                    .open(&replays);
                vec![config.sock_dir.clone(), replays]
            }
            Writes::Cache => vec![config.cachedir.clone()],
            Writes::CacheAndKeys => vec![config.cachedir.clone(), config.pki_dir.clone()],
            Writes::SocketsCacheAndKeys => vec![
                config.sock_dir.clone(),
                config.cachedir.clone(),
                config.pki_dir.clone(),
            ],
            Writes::Anywhere => return None,
        };
        if matches!(
            self.writes,
            Writes::CacheAndKeys | Writes::SocketsCacheAndKeys
        ) {
            places.extend(config.cluster_dir_of_key().map(PathBuf::from));
        }
        // Log files are moved away and created again.
        let logs = [&config.log_file, &config.audit_log].map(PathBuf::from);
        for log in logs.into_iter().chain(halite_sys::logging::path()) {
            let target = std::fs::canonicalize(&log).unwrap_or_default();
            let dirs = [log, target]
                .into_iter()
                .filter_map(|log| Some(log.parent()?.to_owned()));
            places.extend(dirs.filter(|dir| dir.is_absolute()));
        }
        places.extend([std::env::temp_dir(), "/dev/null".into()]);
        Some(places)
    }
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.programs == Programs::Always {
            return f.write_str("anything, because it starts programs");
        }
        f.write_str(match self.writes {
            Writes::Sockets => "write to sock_dir",
            Writes::SocketsAndReplays => "write to sock_dir and the file of replays",
            Writes::Cache => "write to cachedir",
            Writes::CacheAndKeys => "write to cachedir and pki_dir",
            Writes::SocketsCacheAndKeys => "write to sock_dir, cachedir and pki_dir",
            Writes::Anywhere => "write anywhere",
        })?;
        if self.connects {
            f.write_str(", connect to other hosts")?;
        }
        if self.programs == Programs::WithGit {
            f.write_str("; with gitfs anything, because it runs git")?;
        }
        Ok(())
    }
}
