//! The processes of the master: their table, and what they have in common.

use super::privileges::{Privileges, Programs, Writes};
use halite_config::{JobCacheCompat, MasterConfig, SaltSeries};
use halite_sys::exit::ExitError;
use halite_sys::process::{READY_FD, take_inherited};
use halite_sys::sandbox::Enforced;
use std::io::Write;
use std::sync::Mutex;

/// The role that takes part in a cluster of masters; also its name on `workers.ipc`.
pub const CLUSTER: &str = "cluster";
/// What a master without a key does before its roles start: it asks the other masters of its cluster.
pub const JOIN: &str = "cluster-join";

/// A row of the process table.
pub struct RoleInfo {
    /// Role name, also the key in the supervisor.
    pub name: &'static str,
    /// Suffix of the command line in the process list, as in Salt.
    pub title: &'static str,
    /// Sockets it binds.
    pub binds: &'static str,
    /// Sockets it connects to.
    pub connects: &'static str,
    /// What it owns.
    pub owns: &'static str,
    /// Whether the configuration enables it.
    pub is_enabled: fn(&MasterConfig) -> bool,
    /// What it may do.
    pub may: Privileges,
}

/// For the roles that every master has.
fn always(_: &MasterConfig) -> bool {
    true
}

/// The port of `metrics_address`.
fn metrics_port(config: &MasterConfig) -> Vec<u16> {
    let port = config.metrics_address.rsplit(':').next();
    port.and_then(|port| port.parse().ok())
        .into_iter()
        .collect()
}

/// The process table, in starting order.
pub const TOPOLOGY: &[RoleInfo] = &[
    RoleInfo {
        name: "main",
        title: "MainProcess",
        binds: "",
        connects: "",
        owns: "the children, pid file, signals",
        is_enabled: always,
        may: Privileges::PROGRAMS,
    },
    RoleInfo {
        name: "event",
        title: "EventPublisher",
        binds: "master_event_pull.ipc, master_event_pub.ipc",
        connects: "",
        owns: "fan-out of events, a bounded queue per listener, drop counters",
        is_enabled: always,
        may: Privileges::writing(Writes::Sockets),
    },
    RoleInfo {
        name: "publish",
        title: "PubServerChannel._publish_daemon",
        binds: "tcp publish_port, publish_pull.ipc",
        connects: "",
        owns: "serial, encryption and signing of publications, a bounded queue per subscriber",
        is_enabled: always,
        may: Privileges {
            binds: MasterConfig::publish_ports,
            ..Privileges::writing(Writes::Sockets)
        },
    },
    RoleInfo {
        name: "maintenance",
        title: "Maintenance",
        binds: "",
        connects: "publish_pull.ipc, master_event_pull.ipc",
        owns: "key rotation, the end of old jobs, when minions were connected last",
        is_enabled: always,
        may: Privileges {
            programs: Programs::WithGit,
            ..Privileges::writing(Writes::Cache)
        },
    },
    RoleInfo {
        name: CLUSTER,
        title: "Cluster",
        binds: "cluster.ipc",
        connects: "cluster:servers, workers.ipc, publish_pull.ipc, master_event_pub.ipc, master_event_pull.ipc",
        owns: "keys, jobs, the key of publications and who is connected, for the masters of a cluster; where `cluster_id` is set",
        is_enabled: |config| config.cluster().is_some(),
        may: Privileges {
            connects: true,
            ..Privileges::writing(Writes::SocketsCacheAndKeys)
        },
    },
    RoleInfo {
        name: "reactor",
        title: "Reactor",
        binds: "",
        connects: "master_event_pub.ipc, master_event_pull.ipc, ret_port",
        owns: "reactions to events; where `reactor` is set",
        is_enabled: |config| config.reactor.0.truthy(),
        may: Privileges::PROGRAMS,
    },
    RoleInfo {
        name: "scheduler",
        title: "Scheduler",
        binds: "",
        connects: "master_event_pull.ipc, cluster.ipc (in a cluster)",
        owns: "runners by the clock; where `schedule` is set",
        is_enabled: |config| !config.schedule.is_empty(),
        may: Privileges::PROGRAMS,
    },
    RoleInfo {
        name: "batch",
        title: "BatchManager",
        binds: "",
        connects: "master_event_pub.ipc, master_event_pull.ipc, ret_port",
        owns: "batches of stock clients; with salt_series 3008, unless job_cache_compat is none",
        is_enabled: |config| {
            config.salt_series == SaltSeries::S3008
                && config.job_cache_compat != JobCacheCompat::None
        },
        may: Privileges {
            connects: true,
            ..Privileges::writing(Writes::Cache)
        },
    },
    RoleInfo {
        name: "request",
        title: "ReqServer MWorkerQueue",
        binds: "tcp ret_port, workers.ipc",
        connects: "cluster.ipc (in a cluster)",
        owns: "queues per command class, deadlines, refusal of replays",
        is_enabled: always,
        may: Privileges {
            binds: MasterConfig::ret_ports,
            ..Privileges::writing(Writes::SocketsAndReplays)
        },
    },
    RoleInfo {
        name: "worker",
        title: "ReqServer MWorker-N",
        binds: "",
        connects: "workers.ipc, publish_pull.ipc, master_event_pull.ipc",
        owns: "ClearFuncs and AESFuncs",
        is_enabled: always,
        may: Privileges::PROGRAMS,
    },
    RoleInfo {
        name: "gateway-arena",
        title: "gateway-arena",
        binds: "",
        connects: "gateways:arena:servers, master_event_pub.ipc, master_event_pull.ipc",
        owns: "runtimes of ARENA and their modules; where `gateways: arena` is set",
        is_enabled: |config| config.arena_gateway().is_some(),
        may: Privileges {
            connects: true,
            ..Privileges::writing(Writes::CacheAndKeys)
        },
    },
    RoleInfo {
        name: "gateway-collective",
        title: "gateway-collective",
        binds: "",
        connects: "gateways:collective:servers, master_event_pub.ipc, master_event_pull.ipc, ret_port",
        owns: "nodes of MCollective and Choria, and this master's minions as such; where `gateways: collective` is set",
        is_enabled: |config| config.collective_gateway().is_some(),
        may: Privileges {
            connects: true,
            ..Privileges::writing(Writes::CacheAndKeys)
        },
    },
    RoleInfo {
        name: "gateway-sysinspect",
        title: "gateway-sysinspect",
        binds: "tcp gateways:sysinspect:port",
        connects: "master_event_pub.ipc, master_event_pull.ipc",
        owns: "connections and sessions of sysinspect minions; where `gateways: sysinspect` is set",
        is_enabled: |config| config.sysinspect_gateway().is_some(),
        may: Privileges {
            binds: |config| {
                config
                    .sysinspect_gateway()
                    .map(|g| g.port)
                    .into_iter()
                    .collect()
            },
            ..Privileges::writing(Writes::CacheAndKeys)
        },
    },
    RoleInfo {
        name: "returner",
        title: "Returner",
        binds: "",
        connects: "master_event_pub.ipc, databases",
        owns: "copies of jobs and events (with master_job_cache, ext_job_cache, event_return or job_cache_compat: full)",
        is_enabled: |config| {
            !config.job_returners().is_empty()
                || !config.event_return.is_empty()
                || config.job_cache_compat == JobCacheCompat::Full
        },
        may: Privileges {
            programs: Programs::WithEventReturn,
            connects: true,
            ..Privileges::writing(Writes::Anywhere)
        },
    },
    RoleInfo {
        name: "engines",
        title: "Engines",
        binds: "",
        connects: "master_event_pub.ipc, master_event_pull.ipc, workers.ipc",
        owns: "the processes of engines in Python (with engines)",
        is_enabled: |config| !config.engines.0.is_empty(),
        may: Privileges::PROGRAMS,
    },
    RoleInfo {
        name: "api",
        title: "SaltAPI",
        binds: "tcp api:port",
        connects: "ret_port, master_event_pub.ipc",
        owns: "sessions of the REST service; where `api` has a port and no account of its own",
        is_enabled: |config| config.api().is_some_and(|api| api.user.is_none()),
        may: Privileges {
            binds: MasterConfig::api_ports,
            connects: true,
            ..Privileges::writing(Writes::Sockets)
        },
    },
    RoleInfo {
        name: "metrics",
        title: "Metrics",
        binds: "master_status.ipc, tcp metrics_address",
        connects: "",
        owns: "what the scoreboard says, for Prometheus and fleet.status",
        is_enabled: always,
        may: Privileges {
            binds: metrics_port,
            ..Privileges::writing(Writes::Sockets)
        },
    },
];

/// Takes from this process, which is about to run `role`, what the role does not need. `programs`: it starts programs, whatever the
/// table says. Call this before there are threads.
///
/// # Errors
/// There is no such role, or the kernel refuses to give up privileges.
pub fn confine(role: &str, config: &MasterConfig, programs: bool) -> Result<Enforced, ExitError> {
    let name = match role {
        JOIN => CLUSTER,
        _ => role.strip_prefix("MWorker-").map_or(role, |_| "worker"),
    };
    let info = TOPOLOGY.iter().find(|info| info.name == name);
    let info = info.ok_or_else(|| ExitError::new(64, format!("unknown role {role:?}")))?;
    let mut sandbox = info.may.sandbox(config);
    sandbox.programs |= programs;
    let enforced = sandbox.enter()?;
    log::debug!("{role}: {enforced:?} of {sandbox:?}");
    Ok(enforced)
}

/// Resident memory at which a role exposed to peers restarts. libzmq does not limit the frames of a message or
/// the topics of a subscriber, so that a single peer could otherwise use up the host's memory.
const MOST_MEMORY: u64 = 1 << 30;
/// Exit status of a role that exceeds [`MOST_MEMORY`].
const EXIT_MEMORY: i32 = 76;

/// Ends a role that uses too much memory; its successor starts afresh.
pub fn exit_if_oversized() -> Result<(), ExitError> {
    MemoryWatch::default().look().map(drop)
}

/// How much of its memory a role uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Less than half of it, or no more than at an earlier look.
    Enough,
    /// More than half of it, and more than before.
    Grows,
    /// Nearly all of it.
    Scarce,
}

/// Growth after which a role looks for the reason again.
const GROWTH: u64 = MOST_MEMORY / 16;

/// Watches the memory of this process.
#[derive(Debug, Default)]
pub struct MemoryWatch {
    seen: u64,
}

impl MemoryWatch {
    /// How much is used now.
    ///
    /// # Errors
    /// More than a role may use: it must end.
    pub fn look(&mut self) -> Result<Memory, ExitError> {
        self.judge(halite_sys::process::resident())
    }

    fn judge(&mut self, resident: u64) -> Result<Memory, ExitError> {
        if resident >= MOST_MEMORY {
            let message = format!(
                "{} MiB of memory are in use, far more than any fleet needs: a peer floods this port; restarting",
                resident >> 20
            );
            return Err(ExitError::new(EXIT_MEMORY, message));
        }
        if resident > MOST_MEMORY / 4 * 3 {
            return Ok(Memory::Scarce);
        }
        let grows = resident > MOST_MEMORY / 2 && resident > self.seen + GROWTH;
        if grows || resident < self.seen {
            self.seen = resident;
        }
        Ok(if grows { Memory::Grows } else { Memory::Enough })
    }
}

/// The role's connection to its supervisor.
#[derive(Debug)]
pub struct Roles {
    ready: Mutex<Option<std::fs::File>>,
}

impl Roles {
    /// Takes the readiness descriptor from the environment.
    pub fn inherited() -> Roles {
        Roles {
            ready: Mutex::new(take_inherited(READY_FD)),
        }
    }

    /// Reports that the sockets are bound and requests are accepted.
    pub fn ready(&self) {
        let file = self.ready.lock().ok().and_then(|mut f| f.take());
        if let Some(mut file) = file {
            // If the supervisor is gone, this process is about to be stopped anyway.
            let _ = file.write_all(&std::process::id().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use std::net::TcpListener;

    fn config(dir: &std::path::Path) -> MasterConfig {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let options = halite_wire::map! {
            "root_dir" => dir.to_string_lossy().into_owned(),
            "metrics_address" => format!("127.0.0.1:{port}"),
        };
        let config = MasterConfig::from_map(options, std::path::Path::new("/etc/halite")).unwrap();
        for dir in [&config.sock_dir, &config.cachedir, &config.pki_dir] {
            std::fs::create_dir_all(dir).unwrap();
        }
        config
    }

    /// Runs `work` in a thread that is confined like a role.
    fn confined(role: &str, config: &MasterConfig, work: impl FnOnce(Enforced) + Send) {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| work(confine(role, config, false).unwrap()));
            thread.join().unwrap();
        });
    }

    /// Roles that any stranger can send something to, or that pass on what strangers send.
    const LISTENERS: [&str; 7] = [
        "event",
        "publish",
        "request",
        "metrics",
        "gateway-arena",
        "gateway-collective",
        "gateway-sysinspect",
    ];

    #[test]
    fn listeners_start_no_programs_and_write_to_their_places_only() {
        // Not in the directory for temporary files, where they may write.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let config = config(dir.path());
        for role in LISTENERS {
            confined(role, &config, |enforced| {
                if enforced.system_calls {
                    let started = std::process::Command::new("/bin/true").spawn();
                    let refused = started.unwrap_err().raw_os_error();
                    assert_eq!(refused, Some(Errno::EPERM as i32), "{role}");
                }
                let gateway = role.starts_with("gateway-");
                let may = |path: &std::path::Path| std::fs::write(path.join("x"), "").is_ok();
                if enforced.files {
                    assert_eq!(may(&config.sock_dir), !gateway, "{role}");
                    assert_eq!(may(&config.cachedir), gateway, "{role}");
                    assert_eq!(may(&config.pki_dir), gateway, "{role}");
                }
            });
        }
    }

    #[test]
    fn the_port_of_the_role_is_the_only_one() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        confined("metrics", &config, |enforced| {
            TcpListener::bind(&config.metrics_address).unwrap();
            let other = TcpListener::bind("127.0.0.1:0");
            assert!(!enforced.files || other.is_err());
        });
        assert_eq!(metrics_port(&config).len(), 1);
    }

    #[test]
    fn git_is_for_those_who_have_repositories() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        let maintenance = TOPOLOGY.iter().find(|info| info.name == "maintenance");
        let maintenance = &maintenance.unwrap().may;
        assert!(!maintenance.sandbox(&config).programs);
        config.fileserver_backend = vec!["roots".into(), "gitfs".into()];
        assert!(maintenance.sandbox(&config).programs);
    }

    #[test]
    fn each_role_has_a_row() {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        confined("MWorker-0", &config, |_| {
            let started = std::process::Command::new("/bin/true").spawn();
            assert!(started.unwrap().wait().unwrap().success());
        });
        assert!(confine("unknown", &config, false).is_err());
    }
}
