//! A Debian root in a directory.

use crate::deb::packages::Packages;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use testing::short_dir;

/// Where package management itself keeps books, and what it leaves of files that it changes.
const BOOKS: &[&str] = &[
    "etc/.pwd.lock",
    "etc/group-",
    "etc/gshadow-",
    "etc/passwd-",
    "etc/shadow-",
    "etc/subgid-",
    "etc/subuid-",
    "proc",
    "tmp",
    "var/cache/ldconfig",
    "var/lib/dpkg",
    "var/log/dpkg.log",
];

/// Where packages wait for their installation.
const STORE: &str = "packages";

/// Says which of these programs are missing; whether any is.
pub fn lacking(programs: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let has = |name: &str| {
        path.split(':')
            .any(|dir| Path::new(dir).join(name).exists())
    };
    let missing: Vec<&&str> = programs.iter().filter(|name| !has(name)).collect();
    if !missing.is_empty() {
        eprintln!(
            "skipped: this system lacks {missing:?}; `scripts/test` installs what they come from"
        );
    }
    !missing.is_empty()
}

/// Says so where this process is not root; whether that is so.
pub fn not_root() -> bool {
    let not = !nix::unistd::geteuid().is_root();
    if not {
        eprintln!("skipped: only root can make a Debian root and install into it");
    }
    not
}

/// The root; it is gone with this value.
pub struct Root {
    _dir: tempfile::TempDir,
    top: PathBuf,
}

impl Root {
    /// A fresh one with what `packages` need; systemd is not there.
    pub fn new(packages: &Packages) -> Root {
        Root::from("plain", &own_release(), packages.needs())
    }

    /// A fresh one that can be booted, with what `packages` need, of a release of Debian.
    pub fn bootable(packages: &Packages, release: &str) -> Root {
        let mut needs = packages.needs();
        // Parts of systemd do not go with the whole.
        needs.retain(|name| !name.starts_with("systemd-standalone-"));
        if release != own_release() {
            // Libraries have other names there, by which they provide what is asked for; dpkg says if one is missing.
            needs.retain(|name| !name.starts_with("lib"));
        }
        needs.extend(["dbus", "systemd"].map(str::to_owned));
        Root::from("bootable", release, needs)
    }

    fn from(kind: &str, release: &str, needs: Vec<String>) -> Root {
        let archive = archive(kind, release, &needs.join(","));
        let dir = short_dir();
        let top = dir.path().join("root");
        std::fs::create_dir(&top).expect("a directory");
        done(
            Command::new("tar")
                .arg("-xf")
                .arg(archive)
                .arg("-C")
                .arg(&top),
        );
        Root { _dir: dir, top }
    }

    /// Where it lies.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// A path of the host.
    pub fn path(&self, below: &str) -> PathBuf {
        self.top.join(below)
    }

    /// A program inside, with a `/proc` that is gone with it.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg("mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"")
            .arg(&self.top)
            .args(words)
            .env_clear()
            .envs([
                ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
                ("DEBIAN_FRONTEND", "noninteractive"),
                ("LC_ALL", "C.UTF-8"),
            ])
            .current_dir("/");
        command
    }

    /// Runs a program inside that must succeed; what it said.
    pub fn run(&self, words: &[&str]) -> String {
        done(&mut self.command(words))
    }

    /// Runs a program inside; what it said.
    ///
    /// # Errors
    /// What it said when it failed.
    pub fn try_run(&self, words: &[&str]) -> Result<String, String> {
        let output = self.command(words).output().expect("unshare runs");
        match output.status.success() {
            true => Ok(said(&output)),
            false => Err(said(&output)),
        }
    }

    /// The text of a file inside.
    pub fn read(&self, below: &str) -> String {
        let path = self.path(below);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// Changes the text of a file inside, which may be a new one.
    pub fn write(&self, below: &str, change: impl FnOnce(String) -> String) {
        let path = self.path(below);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, change(text)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    /// Installs packages, or upgrades to them.
    pub fn install(&self, packages: &Packages) {
        let files = self.bring(packages);
        self.dpkg("-i", files);
        std::fs::remove_dir_all(self.path(STORE)).expect("it is there");
    }

    /// Puts packages inside; their paths there.
    pub fn bring(&self, packages: &Packages) -> Vec<String> {
        let store = self.path(STORE);
        let _ = std::fs::remove_dir_all(&store);
        std::fs::create_dir(&store).expect("a directory");
        let bring = |file: PathBuf| {
            let name = file.file_name().expect("a name").to_string_lossy();
            std::fs::copy(&file, store.join(&*name)).expect("a copy");
            format!("/{STORE}/{name}")
        };
        packages.files().into_iter().map(bring).collect()
    }

    /// Removes packages, but not their options.
    pub fn remove(&self, packages: &Packages) {
        self.dpkg("-r", packages.names());
    }

    /// Removes packages with all that is theirs.
    pub fn purge(&self, packages: &Packages) {
        self.dpkg("-P", packages.names());
    }

    fn dpkg(&self, how: &str, what: Vec<String>) {
        let mut words = vec!["dpkg", how];
        words.extend(what.iter().map(String::as_str));
        self.run(&words);
    }

    /// Every file with its kind, mode and owner, and every line on accounts.
    pub fn state(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        self.walk(Path::new(""), &mut found);
        for file in ["passwd", "group", "shadow", "gshadow"] {
            let text = self.read(&format!("etc/{file}"));
            found.extend(text.lines().map(|line| format!("{file}: {line}")));
        }
        found
    }

    fn walk(&self, below: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(self.top.join(below))
            .expect("a directory")
            .flatten()
        {
            let path = below.join(entry.file_name());
            if BOOKS.iter().any(|book| path == Path::new(book)) {
                continue;
            }
            let meta = entry.metadata().expect("it was listed");
            found.insert(format!(
                "{:o} {}:{} {}",
                meta.mode(),
                meta.uid(),
                meta.gid(),
                path.display()
            ));
            if meta.is_dir() {
                self.walk(&path, found);
            }
        }
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn done(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        said(&output)
    );
    said(&output)
}

/// A release with what is needed beside its core, from where the host has its own packages: an archive that is made once for each
/// kind and release.
fn archive(kind: &str, release: &str, needs: &str) -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("debian-{release}-{kind}"));
    let _lock = testing::locked(&kept.with_extension("lock"));
    let archive = kept.join("root.tar");
    let list = kept.join("needs");
    if archive.exists() && std::fs::read_to_string(&list).is_ok_and(|text| text == needs) {
        return archive;
    }
    let _ = std::fs::remove_dir_all(&kept);
    std::fs::create_dir_all(&kept).expect("a directory below target");
    let fresh = short_dir();
    done(
        Command::new("debootstrap")
            .args(["--variant=minbase", &format!("--include={needs}"), release])
            .arg(fresh.path())
            .arg(mirror()),
    );
    let half = kept.join("half");
    done(
        Command::new("tar")
            .args([
                "--exclude=./var/cache/apt/archives/*.deb",
                "--exclude=./var/lib/apt/lists/*",
                "-cf",
            ])
            .arg(&half)
            .arg("-C")
            .arg(fresh.path())
            .arg("."),
    );
    std::fs::rename(&half, &archive).expect("both are in one directory");
    std::fs::write(&list, needs).expect("it can be written");
    archive
}

/// The release that this host runs.
pub fn own_release() -> String {
    let text = std::fs::read_to_string("/etc/os-release").expect("a Debian system");
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    value
        .expect("no VERSION_CODENAME in /etc/os-release")
        .trim_matches('"')
        .to_owned()
}

/// Where apt gets the release of this host from, and others are. Asked of its sources, not of its lists: other tests clear those.
fn mirror() -> String {
    let said = done(Command::new("apt-get").args(["update", "--print-uris"]));
    let codename = own_release();
    let below = format!("/dists/{codename}/main/");
    let site = said
        .lines()
        .find_map(|line| line.strip_prefix('\'')?.split_once(&below));
    let (site, _) = site.unwrap_or_else(|| panic!("apt knows no source of {codename}:\n{said}"));
    site.to_owned()
}
