//! The processes of the master: one table, and what they have in common.

use halite_config::MasterConfig;
use halite_sys::process::take_inherited;
use halite_transport::sockets;
use std::fmt;
use std::io::Write;
use std::sync::Mutex;

/// Environment variable with the descriptor on which a role says that it serves.
pub const READY_FD: &str = "HALITE_READY_FD";

/// One line of the process table.
pub struct RoleInfo {
    /// Role name, also the key in the supervisor.
    pub name: &'static str,
    /// What stands behind the command line in the process list; Salt's words.
    pub title: &'static str,
    /// Sockets it binds.
    pub binds: &'static str,
    /// Sockets it connects to.
    pub connects: &'static str,
    /// What it owns.
    pub owns: &'static str,
    /// Whether a configuration asks for it.
    pub wanted: fn(&MasterConfig) -> bool,
}

/// Of the roles that every master has.
fn always(_: &MasterConfig) -> bool {
    true
}

/// The process table, in order of start.
pub const TOPOLOGY: &[RoleInfo] = &[
    RoleInfo {
        name: "main",
        title: "MainProcess",
        binds: "",
        connects: "",
        owns: "the children, pid file, signals",
        wanted: always,
    },
    RoleInfo {
        name: "event",
        title: "EventPublisher",
        binds: "master_event_pull.ipc, master_event_pub.ipc",
        connects: "",
        owns: "fan-out of events, a bounded queue per listener, drop counters",
        wanted: always,
    },
    RoleInfo {
        name: "publish",
        title: "PubServerChannel._publish_daemon",
        binds: "tcp publish_port, publish_pull.ipc",
        connects: "",
        owns: "serial, encryption and signing of publications, a bounded queue per subscriber",
        wanted: always,
    },
    RoleInfo {
        name: "maintenance",
        title: "Maintenance",
        binds: "",
        connects: "publish_pull.ipc, master_event_pull.ipc",
        owns: "key rotation, the end of old jobs",
        wanted: always,
    },
    RoleInfo {
        name: "reactor",
        title: "Reactor",
        binds: "",
        connects: "master_event_pub.ipc, master_event_pull.ipc, ret_port",
        owns: "reactions to events; where `reactor` is set",
        wanted: |config| config.reactor.0.truthy(),
    },
    RoleInfo {
        name: "scheduler",
        title: "Scheduler",
        binds: "",
        connects: "master_event_pull.ipc",
        owns: "runners by the clock; where `schedule` is set",
        wanted: |config| !config.schedule.is_empty(),
    },
    RoleInfo {
        name: "request",
        title: "ReqServer MWorkerQueue",
        binds: "tcp ret_port, workers.ipc",
        connects: "",
        owns: "queues per command class, deadlines, refusal of replays",
        wanted: always,
    },
    RoleInfo {
        name: "worker",
        title: "ReqServer MWorker-N",
        binds: "",
        connects: "workers.ipc, publish_pull.ipc, master_event_pull.ipc",
        owns: "ClearFuncs and AESFuncs",
        wanted: always,
    },
    RoleInfo {
        name: "gateway-arena",
        title: "gateway-arena",
        binds: "",
        connects: "gateways:arena:servers, master_event_pub.ipc, master_event_pull.ipc",
        owns: "runtimes of ARENA and their modules; where `gateways: arena` is set",
        wanted: |config| config.arena_gateway().is_some(),
    },
    RoleInfo {
        name: "gateway-collective",
        title: "gateway-collective",
        binds: "",
        connects: "gateways:collective:servers, master_event_pub.ipc, master_event_pull.ipc, ret_port",
        owns: "nodes of MCollective and Choria, and this master's minions as such; where `gateways: collective` is set",
        wanted: |config| config.collective_gateway().is_some(),
    },
    RoleInfo {
        name: "gateway-sysinspect",
        title: "gateway-sysinspect",
        binds: "tcp gateways:sysinspect:port",
        connects: "master_event_pub.ipc, master_event_pull.ipc",
        owns: "connections and sessions of sysinspect minions; where `gateways: sysinspect` is set",
        wanted: |config| config.sysinspect_gateway().is_some(),
    },
    RoleInfo {
        name: "returner",
        title: "Returner",
        binds: "",
        connects: "master_event_pub.ipc, databases",
        owns: "copies of jobs and events (with master_job_cache, ext_job_cache or event_return)",
        wanted: |config| !config.job_returners().is_empty() || !config.event_returners().is_empty(),
    },
    RoleInfo {
        name: "metrics",
        title: "Metrics",
        binds: "master_status.ipc, tcp metrics_address",
        connects: "",
        owns: "what the scoreboard says, for Prometheus and fleet.status",
        wanted: always,
    },
];

/// Why a role ends with a status that says so.
#[derive(Debug)]
pub struct RoleError {
    /// Exit status.
    pub status: i32,
    /// What to tell the operator.
    pub message: String,
}

impl RoleError {
    /// An error with a status of its own.
    pub fn new(status: i32, message: impl Into<String>) -> RoleError {
        RoleError {
            status,
            message: message.into(),
        }
    }
}

impl fmt::Display for RoleError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RoleError {}

impl From<sockets::Error> for RoleError {
    fn from(e: sockets::Error) -> RoleError {
        RoleError::new(1, format!("ZeroMQ: {e}"))
    }
}

impl From<std::io::Error> for RoleError {
    fn from(e: std::io::Error) -> RoleError {
        RoleError::new(1, e.to_string())
    }
}

/// Resident memory at which a role that peers can reach starts afresh. libzmq puts no bound
/// on the frames of one message, nor on the topics of one subscriber, so that a single
/// peer could otherwise take all memory of the host.
const MOST_MEMORY: u64 = 1 << 30;
/// Exit status of a role that has outgrown [`MOST_MEMORY`].
const EXIT_MEMORY: i32 = 76;

/// Ends a role that has outgrown its memory; its successor begins with none of it.
pub fn exit_if_oversized() -> Result<(), RoleError> {
    let resident = halite_sys::process::resident();
    if resident < MOST_MEMORY {
        return Ok(());
    }
    let message = format!(
        "{} MiB of memory are in use, far more than any fleet needs: a peer floods this port; starting afresh",
        resident >> 20
    );
    Err(RoleError::new(EXIT_MEMORY, message))
}

/// What a role knows of its supervisor.
#[derive(Debug)]
pub struct Roles {
    ready: Mutex<Option<std::fs::File>>,
}

impl Roles {
    /// Picks up the readiness descriptor from the environment.
    pub fn inherited() -> Roles {
        Roles {
            ready: Mutex::new(take_inherited(READY_FD)),
        }
    }

    /// Says that the sockets are bound and work is taken.
    pub fn ready(&self) {
        let file = self.ready.lock().ok().and_then(|mut f| f.take());
        if let Some(mut file) = file {
            // A supervisor that is gone will end this process anyway.
            let _ = file.write_all(&std::process::id().to_be_bytes());
        }
    }
}
