//! Limits and sizes of this host that matter to a server.

use std::fs;

/// Limits and sizes. `None` where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Soft and hard limit of open descriptors per process.
    pub open_files: Option<(u64, u64)>,
    /// Limit of open files in the whole system.
    pub file_max: Option<u64>,
    /// Longest accept queue of a listening socket (`somaxconn`).
    pub backlog: Option<u64>,
    /// Processors that this process may use; 0 if unknown.
    pub cpus: u64,
    /// Bytes of memory.
    pub memory: Option<u64>,
}

impl Host {
    /// Reads them from the kernel.
    pub fn read() -> Host {
        use nix::sys::resource::{Resource, getrlimit};
        Host {
            open_files: getrlimit(Resource::RLIMIT_NOFILE).ok(),
            file_max: number("/proc/sys/fs/file-max"),
            backlog: number("/proc/sys/net/core/somaxconn"),
            cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u64),
            memory: memory(),
        }
    }
}

/// Bytes of memory of this host; `None` if the kernel does not say.
pub fn memory() -> Option<u64> {
    total(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// `MemTotal:       24595752 kB`.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_limits() {
        let host = Host::read();
        let (soft, hard) = host.open_files.unwrap();
        assert!(soft > 0 && soft <= hard);
        assert!(host.cpus > 0 && host.memory.unwrap() > 1 << 20);
        assert!(host.backlog.unwrap() > 0);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(total("A: 1 kB\nMemTotal:   3 kB\n"), Some(3072));
        assert_eq!(total("MemTotal: many"), None);
        assert_eq!(total(""), None);
    }
}
