//! The system `pam`, with an account made for the test and removed after.

use super::{Place, allowed, refused, unproven};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Password of every such account.
pub const PASSWORD: &str = "ein-Geheimnis-1";

/// A service and an account of PAM; dropping it removes both.
pub struct Account {
    /// The name of both.
    pub name: String,
    service: PathBuf,
}

impl Account {
    /// `None`, and a word about it, without root.
    pub fn make(tag: &str, service: &str) -> Option<Account> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: only root can make an account for PAM");
            return None;
        }
        let name = format!("hlt{tag}{}", std::process::id() % 100_000);
        let account = Account {
            service: PathBuf::from(format!("/etc/pam.d/{name}")),
            name,
        };
        tool(
            "useradd",
            &["-M", "-N", "-s", "/usr/sbin/nologin", &account.name],
        );
        let mut chpasswd = Command::new("chpasswd")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let line = format!("{}:{PASSWORD}\n", account.name);
        chpasswd
            .stdin
            .take()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        assert!(chpasswd.wait().unwrap().success());
        std::fs::write(&account.service, service).unwrap();
        Some(account)
    }

    /// Lets it call `test.ping`, and members of its group `test.echo`.
    pub fn config(&self) -> String {
        let service = self.service.file_name().unwrap().to_string_lossy();
        format!(
            "auth.pam.service: {service}\nexternal_auth:\n  pam:\n    {}: [test.ping]\n    users%: [test.echo]\n",
            self.name
        )
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.service);
        let _ = Command::new("userdel").arg(&self.name).status();
    }
}

fn tool(program: &str, args: &[&str]) {
    let status = Command::new(program).args(args).status().unwrap();
    assert!(status.success(), "{program} {args:?}: {status}");
}

/// A service as systems have it.
pub const PLAIN: &str = "auth required pam_unix.so nodelay\naccount required pam_unix.so\n";

#[test]
fn an_account_by_its_password() {
    let Some(account) = Account::make("a", PLAIN) else {
        return;
    };
    let place = Place::start(&account.config());
    let ping = |password: &str| place.salt("pam", &account.name, password, &["m1", "test.ping"]);
    allowed(&ping(PASSWORD));
    unproven(&ping("falsch"));
    unproven(&ping(""));
    refused(&place.salt("pam", &account.name, PASSWORD, &["m1", "cmd.run", "id"]));
    allowed(&place.salt("pam", &account.name, PASSWORD, &["m1", "test.echo", "x"]));

    // CVE-2022-22967: the password is right, but the account has ended.
    tool("chage", &["-E", "1", &account.name]);
    unproven(&ping(PASSWORD));
    tool("chage", &["-E", "-1", &account.name]);
    allowed(&ping(PASSWORD));
    tool("usermod", &["-L", &account.name]);
    unproven(&ping(PASSWORD));
}

#[test]
fn a_pam_that_hangs_stops_nobody_else() {
    let hanging = "auth required pam_exec.so quiet /bin/sleep 8\nauth required pam_unix.so nodelay\naccount required pam_unix.so\n";
    let Some(account) = Account::make("h", hanging) else {
        return;
    };
    let place = Place::start(&account.config());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| place.salt("pam", &account.name, PASSWORD, &["m1", "test.ping"]));
        }
        super::wait_until("PAM hangs", || {
            let children = Command::new("pgrep")
                .args(["-f", "^halite-master authenticate"])
                .output();
            children.is_ok_and(|out| !out.stdout.is_empty())
        });
        let begun = Instant::now();
        for _ in 0..5 {
            allowed(&place.cli.salt(&["m1", "test.ping", "--out=json"]));
        }
        assert!(
            begun.elapsed() < Duration::from_secs(6),
            "{:?}",
            begun.elapsed()
        );
    });
}
