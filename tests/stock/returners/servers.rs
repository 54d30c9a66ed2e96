//! Database servers of the distribution, in temporary directories, on Unix sockets only.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testing::harness::{LIMIT, eventually};

/// What a command prints; panics if it fails.
pub fn output(command: &mut Command) -> String {
    let out = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{command:?}: {said}");
    String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
}

/// A directory that any account may enter.
fn open_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::Builder::new()
        .prefix("db")
        .tempdir_in("/tmp")
        .unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// A running `redis-server`.
pub struct Redis {
    dir: tempfile::TempDir,
    child: Option<Child>,
}

impl Redis {
    pub fn start() -> Redis {
        let mut redis = Redis {
            dir: open_dir(),
            child: None,
        };
        redis.again();
        redis
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// Starts it once more, with nothing in it.
    pub fn again(&mut self) {
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            "0",
            "--save",
            "",
            "--appendonly",
            "no",
            "--unixsocket",
        ]);
        command.arg(self.socket()).arg("--dir").arg(self.dir.path());
        let child = command.stdout(Stdio::null()).stdin(Stdio::null()).spawn();
        self.child = Some(child.expect("redis-server is installed"));
        eventually("redis-server", || {
            UnixStream::connect(self.socket()).is_ok()
        });
    }

    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let _ = fs::remove_file(self.socket());
    }

    pub fn cli(&self, args: &[&str]) -> String {
        output(
            Command::new("redis-cli")
                .arg("-s")
                .arg(self.socket())
                .args(args),
        )
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A running PostgreSQL with an empty database `salt` of the user `salt`.
pub struct Postgres {
    pub dir: tempfile::TempDir,
    child: Child,
}

/// `initdb`, `postgres`: on the path or where Debian has them.
fn program(name: &str) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin").join(name))
        .filter(|path| path.exists())
        .collect();
    found.sort();
    found.pop().unwrap_or_else(|| name.into())
}

/// A command under an account that is not root: the server refuses to run as root.
fn unprivileged(name: &str) -> Command {
    let program = program(name);
    if !nix::unistd::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args([
        "--reuid=postgres",
        "--regid=postgres",
        "--clear-groups",
        "--",
    ]);
    command.arg(program);
    command
}

fn hand_over(dir: &Path) {
    if nix::unistd::geteuid().is_root() {
        let user = nix::unistd::User::from_name("postgres").unwrap();
        let user = user.expect("the package postgresql makes this account");
        chown(dir, Some(user.uid.as_raw()), Some(user.gid.as_raw())).unwrap();
    }
}

impl Postgres {
    pub fn start() -> Postgres {
        let dir = open_dir();
        hand_over(dir.path());
        let data = dir.path().join("data");
        let mut init = unprivileged("initdb");
        init.arg("-D")
            .arg(&data)
            .args(["-U", "salt", "-A", "trust", "-E", "UTF8", "--no-sync"]);
        output(init.current_dir("/"));
        let mut server = unprivileged("postgres");
        server.arg("-D").arg(&data).arg("-k").arg(dir.path());
        server.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        server
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = server.current_dir("/").spawn().unwrap();
        let postgres = Postgres { dir, child };
        let mut create = Command::new("createdb");
        create
            .arg("-h")
            .arg(postgres.dir.path())
            .args(["-U", "salt", "salt"]);
        create.stderr(Stdio::null());
        let end = std::time::Instant::now() + LIMIT;
        while !create.status().unwrap().success() {
            assert!(std::time::Instant::now() < end, "PostgreSQL does not start");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        postgres
    }

    pub fn psql(&self, sql: &str) -> String {
        let mut psql = Command::new("psql");
        psql.arg("-h")
            .arg(self.dir.path())
            .args(["-U", "salt", "-d", "salt", "-AtX"]);
        output(psql.args(["-v", "ON_ERROR_STOP=1", "-c", sql]))
    }

    /// A number that a query gives; `None` where a table is missing yet.
    pub fn count(&self, sql: &str) -> Option<u64> {
        let mut psql = Command::new("psql");
        psql.arg("-h")
            .arg(self.dir.path())
            .args(["-U", "salt", "-d", "salt", "-AtX", "-c", sql]);
        let out = psql.stderr(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&out.stdout).trim().parse().ok()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast end.
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
        let _ = self.child.wait();
    }
}
