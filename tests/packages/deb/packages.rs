//! Packages made of the programs that cargo has built for the tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use testing::halite_program;

/// The version before [`NEW`]: the same programs.
pub const OLD: &str = "0.0.1";
/// The version of this tree.
pub const NEW: &str = env!("CARGO_PKG_VERSION");

/// The packages of one version.
pub struct Packages {
    dir: PathBuf,
    version: &'static str,
}

impl Packages {
    /// Builds them, once in a run of the tests.
    pub fn get(version: &'static str) -> &'static Packages {
        static BUILT: [OnceLock<Packages>; 2] = [OnceLock::new(), OnceLock::new()];
        let at = usize::from(version == NEW);
        BUILT[at].get_or_init(|| Packages::build_once(version))
    }

    /// nextest runs each test in a process of its own: the first one builds.
    fn build_once(version: &'static str) -> Packages {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let _lock = testing::locked(&place.join("packages.lock"));
        let dir = place.join(format!("packages-{version}"));
        let stamp = dir.join("run");
        let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_default();
        let built = std::fs::read_to_string(&stamp).is_ok_and(|of| !run.is_empty() && of == run);
        if built {
            return Packages { dir, version };
        }
        let packages = Packages::build(dir, version);
        std::fs::write(&stamp, run).expect("it can be written");
        packages
    }

    fn build(dir: PathBuf, version: &'static str) -> Packages {
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let _ = std::fs::remove_dir_all(&dir);
        let made = Command::new(top.join("scripts/package"))
            .args(["deb", "--version", version, "--binaries"])
            .arg(stripped())
            .arg("--out")
            .arg(&dir)
            // Packages for a minute's use are not worth packing well.
            .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
            .env("DPKG_DEB_COMPRESSOR_LEVEL", "1")
            .output()
            .expect("scripts/package can be run");
        assert!(
            made.status.success(),
            "scripts/package deb: {}\n{}\n{}",
            made.status,
            String::from_utf8_lossy(&made.stdout),
            String::from_utf8_lossy(&made.stderr)
        );
        Packages { dir, version }
    }

    /// The package files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.with_extension("deb")
    }

    /// Names of the packages.
    pub fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| Some(path.file_name()?.to_str()?.split_once('_')?.0.to_owned());
        self.files().iter().filter_map(name).collect()
    }

    /// The file that lists them.
    pub fn changes(&self) -> PathBuf {
        self.with_extension("changes").remove(0)
    }

    /// Packages of the distribution that these need, each by the smallest that will do.
    pub fn needs(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for file in self.files() {
            let said = Command::new("dpkg-deb")
                .arg("-f")
                .arg(&file)
                .arg("Depends")
                .output();
            let said = said.expect("dpkg-deb runs");
            let text = String::from_utf8_lossy(&said.stdout).into_owned();
            let smallest = text.split(',').filter_map(|one| one.split('|').next_back());
            all.extend(smallest.filter_map(|one| Some(one.split_whitespace().next()?.to_owned())));
        }
        all.retain(|name| !name.starts_with("halite"));
        all.sort();
        all.dedup();
        all
    }

    fn with_extension(&self, extension: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.dir)
            .expect("packages were built")
            .flatten();
        let mut found: Vec<PathBuf> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|e| e == extension))
            .filter(|path| {
                path.to_string_lossy()
                    .contains(&format!("_{}-", self.version))
            })
            .collect();
        found.sort();
        assert!(
            !found.is_empty(),
            "no .{extension} in {}",
            self.dir.display()
        );
        found
    }
}

/// A directory with the programs without what debuggers read, which is most of them.
fn stripped() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stripped");
        std::fs::create_dir_all(&dir).expect("a directory below target");
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin"))
            .expect("programs")
            .flatten()
        {
            let path = entry.path();
            let name = path.file_stem().and_then(|n| n.to_str()).expect("a name");
            let done = Command::new("strip")
                .arg("-o")
                .arg(dir.join(name))
                .arg(halite_program(name))
                .status();
            assert!(done.expect("strip runs").success(), "{name}");
        }
        dir
    })
}
