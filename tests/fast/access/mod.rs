//! Access control with real programs: who is let in, by what proof, and to what.
//!
//! PAM needs root, LDAP the program `slapd`; without them these tests say so and pass.

mod cve;
mod file;
mod ldap;
mod pam;
mod stock;

use std::path::{Path, PathBuf};
use std::time::Duration;
use testing::cli::{Ran, run};
use testing::{Cli, Master, Minion, wait_until};

/// A master with one minion, and a home directory for tokens.
pub struct Place {
    /// The master.
    pub master: Master,
    /// Its minion `m1`.
    _minion: Minion,
    /// The tools of halite.
    pub cli: Cli,
    /// Home of whoever calls a tool, with the file `users`.
    pub dir: tempfile::TempDir,
}

impl Place {
    /// Starts both; `extra` are lines of the master's configuration, in which `DIR` stands for a
    /// directory of the test.
    pub fn start(extra: &str) -> Place {
        let dir = testing::short_dir();
        let extra = extra.replace("DIR", &dir.path().to_string_lossy());
        std::fs::write(dir.path().join("users"), users()).unwrap();
        let master = Master::halite(&format!("auto_accept: true\n{extra}"));
        let minion = Minion::halite(&master, "m1", "");
        let cli = master.halite_cli();
        wait_until("the minion answers", || {
            cli.salt(&["m1", "test.ping", "--out=json", "-t", "1"])
                .status
                == Some(0)
        });
        Place {
            master,
            _minion: minion,
            cli,
            dir,
        }
    }

    /// Runs a tool with a home directory of its own.
    pub fn run(&self, cli: &Cli, tool: &str, args: &[&str]) -> Ran {
        let mut command = cli.command(tool);
        command.args(args).env("HOME", self.dir.path());
        command.env_remove("XDG_CONFIG_HOME");
        run(command, format!("{tool} {args:?}"), Duration::from_secs(60))
    }

    /// Runs `halite` as a user of an external system.
    pub fn salt(&self, system: &str, user: &str, password: &str, args: &[&str]) -> Ran {
        let mut all = vec!["-a", system, "--username", user, "--password", password];
        all.extend(args);
        all.push("--out=json");
        self.run(&self.cli, "salt", &all)
    }

    /// Where a token is kept.
    pub fn token_file(&self) -> PathBuf {
        self.dir.path().join("salt_token")
    }

    /// The audit log, one value a line.
    pub fn audit(&self) -> Vec<serde_json::Value> {
        let path = self.master.home.root().join("var/log/salt/audit");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Whatever lies below the master's directory and holds this text.
    pub fn files_with(&self, text: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        search(self.master.home.root(), text.as_bytes(), &mut found);
        found
    }
}

fn search(dir: &Path, text: &[u8], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            search(&path, text, found);
        } else if kind.is_file() {
            let content = std::fs::read(&path).unwrap_or_default();
            if content.windows(text.len()).any(|w| w == text) {
                found.push(path);
            }
        }
    }
}

/// Users of the file: fred and mary, both with the password `geheim`.
fn users() -> &'static str {
    "fred:$apr1$abcdefgh$bw9gEObk10asetVLiysIZ0\n\
     mary:$6$rounds=1400$anotherlongsalt$c76Z0mPZmPlIg6eV/O14OsI55RfQqtvBhASJrFkPOPfP0owIMU2SxPsCPALDpIA9xe0z6.zrf1Y2TIqfjRDag/\n"
}

/// The minion has returned.
pub fn allowed(ran: &Ran) {
    assert_eq!(ran.status, Some(0), "{}", ran.describe());
    assert!(ran.out.contains("m1"), "{}", ran.describe());
}

/// The master did not believe the proof.
pub fn unproven(ran: &Ran) {
    assert_ne!(ran.status, Some(0), "{}", ran.describe());
    let told = format!("{}{}", ran.out, ran.err);
    assert!(
        told.contains("Authentication error occurred."),
        "{}",
        ran.describe()
    );
}

/// The user may not do this.
pub fn refused(ran: &Ran) {
    assert_ne!(ran.status, Some(0), "{}", ran.describe());
    let told = format!("{}{}", ran.out, ran.err);
    assert!(
        told.contains("Authorization error occurred."),
        "{}",
        ran.describe()
    );
}
