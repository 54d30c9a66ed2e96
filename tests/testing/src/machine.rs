//! A machine to install packages on: a root directory with systemd as its first process, in its own namespaces.
//!
//! It has its own processes, mounts, network (loopback only), host name and control group, and cannot affect
//! this host. It is stopped when its guard is dropped.

use super::process::Process;
use super::wait_for;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where cgroup v2 is mounted: on hosts with both versions, and on those with v2 only.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Starts systemd in `$1`, in the control group of this shell. The kernel is the host's: the machine loads no modules.
const BOOT: &str = r#"
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mkdir -p proc sys dev run tmp old
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 run run
mount -t tmpfs tmp tmp
mount -t tmpfs -o mode=755 dev dev
for device in null zero full random urandom tty; do
    touch dev/$device
    mount --bind /dev/$device dev/$device
done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ip link set lo up
pivot_root . old
umount -l old
exec env -i container=halite PATH=/usr/bin:/usr/sbin setpriv --bounding-set -sys_module /usr/lib/systemd/systemd
"#;

/// A running machine.
pub struct Machine {
    /// `unshare`, whose only child is the machine's first process.
    process: Process,
    group: PathBuf,
}

impl Machine {
    /// Why no machine can be started here; `None` if it can.
    pub fn impossible() -> Option<&'static str> {
        if !nix::unistd::geteuid().is_root() {
            return Some("only root can make namespaces");
        }
        if !Path::new("/usr/lib/systemd/systemd").exists() {
            return Some("there is no systemd on this host");
        }
        let Some(groups) = groups() else {
            return Some("there are no control groups of version 2");
        };
        let probe = groups.join(format!("halite-probe-{}", std::process::id()));
        let may = fs::create_dir(&probe).is_ok();
        let _ = fs::remove_dir(&probe);
        (!may).then_some("control groups cannot be made")
    }

    /// Boots `root`, which contains systemd and D-Bus, and waits until its services are up. Its log is written next to it.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn boot(root: &Path) -> Machine {
        static BOOTED: AtomicU32 = AtomicU32::new(0);
        let nth = BOOTED.fetch_add(1, Ordering::Relaxed);
        let group = groups()
            .expect("there are control groups")
            .join(format!("halite-{}-{nth}", std::process::id()));
        fs::create_dir(&group).expect("a control group can be made");
        let join = format!("echo $$ >'{}/cgroup.procs' && exec \"$@\"", group.display());
        let mut command = Command::new("bash");
        command.args(["-c", &join, "join", "unshare"]);
        command.args(["--pid", "--mount", "--uts", "--ipc", "--cgroup", "--net"]);
        command.args(["--fork", "--kill-child", "--", "bash", "-c", BOOT, "boot"]);
        let process = Process::start("machine", command.arg(root), &root.with_extension("log"));
        let machine = Machine { process, group };
        // systemctl works once its bus is up.
        wait_for("the machine is up", || {
            machine.pid()?;
            let said = machine.output(&["systemctl", "is-system-running", "--wait"]);
            let state = String::from_utf8_lossy(&said.stdout).into_owned();
            ["running", "degraded"]
                .contains(&state.trim())
                .then_some(())
        });
        machine
    }

    /// Process id, on this host, of the machine's first process; `None` if it has not started yet.
    fn pid(&self) -> Option<i32> {
        let unshare = self.process.id();
        let children = format!("/proc/{unshare}/task/{unshare}/children");
        let children = fs::read_to_string(children).ok()?;
        let pid = children.split_whitespace().next()?.parse().ok()?;
        // Until then it has not entered its root directory yet.
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name.trim() == "systemd").then_some(pid)
    }

    /// Runs a program in the machine.
    pub fn output(&self, command: &[&str]) -> Output {
        let pid = self.pid().expect("the machine runs").to_string();
        let mut enter = Command::new("nsenter");
        enter.args(["--all", "--target", &pid, "--", "env", "-i"]);
        enter.args(["PATH=/usr/bin:/usr/sbin", "HOME=/root", "LC_ALL=C"]);
        enter.args(command).output().expect("nsenter runs")
    }

    /// Runs a program that must succeed; returns its output.
    pub fn run(&self, command: &[&str]) -> String {
        let done = self.output(command);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(
            done.status.success(),
            "{command:?}: {}\n{}\n{}\n{}",
            done.status,
            text(&done.stdout),
            text(&done.stderr),
            text(
                &self
                    .output(&["journalctl", "-n", "60", "--no-pager"])
                    .stdout
            )
        );
        text(&done.stdout)
    }

    /// Like [`Machine::run`], with a shell command.
    pub fn shell(&self, line: &str) -> String {
        self.run(&["sh", "-c", line])
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Killing the first process kills all others.
        if let Some(pid) = self.pid() {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        self.process.stop();
        remove_groups(&self.group);
    }
}

fn groups() -> Option<PathBuf> {
    let found = GROUPS.iter().map(Path::new);
    let mut found = found.filter(|dir| dir.join("cgroup.controllers").exists());
    found.next().map(Path::to_owned)
}

/// Removes a control group and its children, which have no processes any more.
fn remove_groups(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_groups(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}
