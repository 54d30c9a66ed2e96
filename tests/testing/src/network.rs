//! Hosts that can be cut off: network namespaces, with a bridge between them.

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

/// Set in the process that runs a test in a user namespace.
const APART: &str = "HALITE_TEST_IS_APART";

/// A network of its own; it ends with its last process.
struct Namespace(File);

impl Namespace {
    /// With a loopback interface.
    fn new() -> io::Result<Namespace> {
        let made = std::thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        });
        let namespace = Namespace(made.join().expect("the thread does not panic")?);
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Runs something in this network, on a thread of its own; what it starts stays there.
    fn within<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        let apart = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).expect("a thread can change its network");
            run()
        };
        std::thread::scope(|scope| {
            let done = scope.spawn(apart).join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `ip` here.
    fn ip(&self, line: &str) -> io::Result<()> {
        let mut command = Command::new("ip");
        command.args(line.split(' ')).stderr(Stdio::piped());
        let said = self.within(move || command.output())?;
        match said.status.success() {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "ip {line}: {}",
                String::from_utf8_lossy(&said.stderr)
            ))),
        }
    }

    /// A path that names it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Hosts at one bridge.
pub struct Network {
    switch: Namespace,
    hosts: Vec<Namespace>,
}

impl Network {
    /// Makes that many hosts. `None`, with a message, where that is not allowed.
    pub fn start(hosts: usize) -> Option<Network> {
        match Network::make(hosts) {
            Ok(network) => Some(network),
            Err(e) => {
                eprintln!("skipped: no networks can be made here ({e})");
                None
            }
        }
    }

    fn make(hosts: usize) -> io::Result<Network> {
        let mut network = Network {
            switch: Namespace::new()?,
            hosts: Vec::new(),
        };
        network.switch.ip("link add name bridge type bridge")?;
        network.switch.ip("link set bridge up")?;
        for n in 0..hosts {
            let host = Namespace::new()?;
            let [port, card] = [port(n), format!("card{n}")];
            let link = format!("link add name {port} type veth peer name {card}");
            network.switch.ip(&link)?;
            let to_host = format!("link set {card} netns {}", host.path());
            network.switch.ip(&to_host)?;
            network.switch.ip(&format!("link set {port} up"))?;
            host.ip(&format!("addr add {}/24 dev {card}", address(n)))?;
            host.ip(&format!("link set {card} up"))?;
            // Connections to a host that is cut off end after some 13 seconds, as docs/cluster.md advises; else servers refuse each
            // other for up to a minute after it is back.
            let retries = || std::fs::write("/proc/sys/net/ipv4/tcp_retries2", "5");
            host.within(retries)?;
            network.hosts.push(host);
            network.heal(n);
        }
        Ok(network)
    }

    /// Runs something on a host; what it starts stays there.
    pub fn at<T: Send>(&self, n: usize, run: impl FnOnce() -> T + Send) -> T {
        self.hosts[n].within(run)
    }

    /// Cuts a host off: what it sends, and what is sent to it, is lost without a word.
    pub fn cut(&self, n: usize) {
        let done = self.switch.ip(&format!("link set {} nomaster", port(n)));
        done.expect("a port of the bridge can be taken away");
    }

    /// Connects it again.
    pub fn heal(&self, n: usize) {
        let line = format!("link set {} master bridge", port(n));
        let done = self.switch.ip(&line);
        done.expect("a port of the bridge can be added");
    }
}

/// The address of a host.
pub fn address(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, u8::try_from(n + 1).expect("few hosts"))
}

fn port(n: usize) -> String {
    format!("port{n}")
}

/// Whoever is not root becomes it in a user namespace, if that is allowed: runs the test with this name again, there. `false` if the
/// test is to go on here.
///
/// # Panics
/// If it fails there.
pub fn runs_apart(test: &str) -> bool {
    if nix::unistd::geteuid().is_root() || std::env::var_os(APART).is_some() {
        return false;
    }
    let may = Command::new("unshare").args(["-Urn", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        return false;
    }
    let own = std::env::current_exe().expect("a test has a path");
    let mut command = Command::new("unshare");
    command.arg("-Urn").arg(own);
    command
        .args(["--exact", test, "--nocapture"])
        .env(APART, "1");
    let status = command.status().expect("unshare runs");
    assert!(status.success(), "{test} fails in a user namespace");
    true
}
