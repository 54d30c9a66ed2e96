//! CPU time and memory of a family of processes, from `/proc`.

use super::process::stat_fields;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// What the process list shows, arguments separated by spaces.
    pub title: String,
    /// User and system time of the process and of its children that were waited for.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident: u64,
}

/// All current processes.
pub fn all() -> io::Result<Vec<Process>> {
    let tick = tick();
    let page = page();
    let mut out = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let pid = entry?
            .file_name()
            .to_str()
            .and_then(|n| n.parse::<u32>().ok());
        // A process may exit meanwhile.
        out.extend(pid.and_then(|pid| read(pid, tick, page)));
    }
    Ok(out)
}

/// A process and all its descendants, without zombies.
pub fn family(pid: u32) -> io::Result<Vec<Process>> {
    let mut rest: HashMap<u32, Vec<Process>> = HashMap::new();
    let mut out = Vec::new();
    for process in all()? {
        if process.pid == pid {
            out.push(process);
        } else {
            rest.entry(process.parent).or_default().push(process);
        }
    }
    let mut at = 0;
    while at < out.len() {
        let parent: u32 = out[at].pid;
        out.extend(rest.remove(&parent).unwrap_or_default());
        at += 1;
    }
    Ok(out)
}

/// CPU time used so far by a process and its descendants.
pub fn cpu(pid: u32) -> io::Result<Duration> {
    Ok(family(pid)?.iter().map(|p| p.cpu).sum())
}

/// One process, if it exists.
pub fn one(pid: u32) -> Option<Process> {
    read(pid, tick(), page())
}

/// The main process of a master on this host: the oldest ancestor that runs the same program
/// as the process that listens on `port`.
pub fn find_master(port: u16) -> io::Result<u32> {
    let inode = listener(port).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("no process of this host listens on port {port}; give --master-pids PID"),
        )
    })?;
    let name = format!("socket:[{inode}]");
    let holder = all()?
        .into_iter()
        .find(|p| holds(p.pid, &name))
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "the owner of port {port} cannot be seen; run as root or give --master-pids PID"
                ),
            )
        })?;
    let (mut pid, mut parent) = (holder.pid, holder.parent);
    while parent > 1 && program(parent).is_some() && program(parent) == program(pid) {
        pid = parent;
        parent = read(pid, 1, 1).map_or(0, |p| p.parent);
    }
    Ok(pid)
}

fn read(pid: u32, tick: u64, page: u64) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = stat_fields(&stat);
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let number = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok());
    let ticks: u64 = (11..15).filter_map(number).sum();
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let title = String::from_utf8_lossy(&line)
        .replace('\0', " ")
        .trim_end()
        .to_owned();
    Some(Process {
        pid,
        parent: u32::try_from(number(1)?).ok()?,
        title,
        cpu: Duration::from_nanos(ticks * (1_000_000_000 / tick)),
        resident: number(21)? * page,
    })
}

fn tick() -> u64 {
    system(nix::unistd::SysconfVar::CLK_TCK, 100)
}

fn page() -> u64 {
    system(nix::unistd::SysconfVar::PAGE_SIZE, 4096)
}

fn system(name: nix::unistd::SysconfVar, usual: u64) -> u64 {
    let known = nix::unistd::sysconf(name).ok().flatten();
    known
        .and_then(|n| u64::try_from(n).ok())
        .filter(|n| *n > 0)
        .unwrap_or(usual)
}

fn program(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// Inode of the socket that listens on a TCP port.
fn listener(port: u16) -> Option<String> {
    let wanted = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|path| {
        let table = std::fs::read_to_string(path).ok()?;
        table.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let listens = words.get(1)?.ends_with(&wanted) && *words.get(3)? == "0A";
            listens.then(|| words.get(9).map(|s| (*s).to_owned()))?
        })
    })
}

fn holds(pid: u32, name: &str) -> bool {
    let Ok(dir) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    dir.flatten()
        .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|l| l.as_os_str() == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found() {
        let own = std::process::id();
        let family = family(own).unwrap();
        assert_eq!(family[0].pid, own);
        assert!(family[0].resident > 0 && family[0].title.contains("halite"));
    }

    #[test]
    fn the_owner_of_a_port_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(find_master(port).unwrap(), std::process::id());
        drop(socket);
        assert!(find_master(port).is_err());
    }
}
