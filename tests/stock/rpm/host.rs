//! A host for packages: this one with `/etc`, `/root`, `/usr`, `/var` and `/srv` in layers of its own, which nobody else sees and
//! which are gone with the last process inside.

use crate::rpm::Family;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that this process is inside.
const INSIDE: &str = "HALITE_RPM_HOST";
/// Where the layers lie.
const LAYERS: &str = "/srv/layers";

/// Whether this process is on such a host.
pub fn inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs one test of this program again, in a mount namespace of its own.
pub fn run_inside(test: &str) {
    let own = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare of util-linux runs");
    assert!(status.success(), "{test} failed on its host: {status}");
}

/// Runs a program that must succeed.
pub fn run(program: &str, args: &[&str]) {
    let done = Command::new(program).args(args).output();
    let done = done.unwrap_or_else(|e| panic!("{program} does not run: {e}"));
    assert!(
        done.status.success(),
        "{program} {args:?}: {}\n{}\n{}",
        done.status,
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Whether a program is there.
pub fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .any(|dir| Path::new(dir).join(program).exists())
}

/// Writes a file, and the directories above it.
pub fn write(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// The host of this process.
pub struct Host {
    state: &'static [&'static str],
}

impl Host {
    /// Puts the layers over this process's view of the host.
    ///
    /// # Panics
    /// They cannot be mounted: no root, or a kernel without overlays.
    pub fn new(family: &Family) -> Host {
        run("mount", &["-t", "tmpfs", "layers", "/srv"]);
        for dir in ["etc", "root", "usr", "var"] {
            let [upper, work] = ["upper", "work"].map(|part| format!("{LAYERS}/{dir}/{part}"));
            for dir in [&upper, &work] {
                std::fs::create_dir_all(dir).unwrap();
            }
            let options = format!("lowerdir=/{dir},upperdir={upper},workdir={work}");
            run(
                "mount",
                &["-t", "overlay", dir, "-o", &options, &format!("/{dir}")],
            );
        }
        for dir in family.state {
            std::fs::create_dir_all(dir).unwrap();
        }
        // Debian's rpm has its database in the home of whoever asks.
        write("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n");
        Host {
            state: family.state,
        }
    }

    /// Remembers the directories of the family as they are.
    pub fn keep(&self) {
        for (dir, kept) in self.places() {
            std::fs::create_dir_all(&kept).unwrap();
            copy(dir, &kept);
        }
    }

    /// Makes them so again.
    pub fn reset(&self) {
        for (dir, kept) in self.places() {
            for entry in std::fs::read_dir(dir).into_iter().flatten() {
                let entry = entry.unwrap();
                let gone = match entry.file_type().unwrap().is_dir() {
                    true => std::fs::remove_dir_all(entry.path()),
                    false => std::fs::remove_file(entry.path()),
                };
                gone.unwrap_or_else(|e| panic!("{}: {e}", entry.path().display()));
            }
            copy(&kept, Path::new(dir));
        }
    }

    fn places(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        let kept = |at| Path::new(LAYERS).join("kept").join(format!("{at}"));
        self.state
            .iter()
            .enumerate()
            .map(move |(at, dir)| (*dir, kept(at)))
    }
}

fn copy(from: impl AsRef<Path>, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    let from = format!("{}/.", from.as_ref().display());
    run("cp", &["-a", &from, to.to_str().unwrap()]);
}
