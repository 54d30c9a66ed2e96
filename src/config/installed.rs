//! What tells which release of Salt a host uses, where `salt_series` is not set.
//!
//! Only fixed places are looked at, so that commands and daemons find the same whatever their `PATH` is.

use super::{OptionValue, SaltSeries};
use std::path::{Path, PathBuf};

/// Directories in which packages and pip put the commands of Salt, below `/`.
const COMMANDS: [&str; 4] = [
    "usr/bin",
    "usr/local/bin",
    "opt/saltstack/salt",
    "opt/saltstack/salt/bin",
];

/// What `salt_series` is where it is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FoundSeries {
    series: SaltSeries,
    why: String,
}

impl FoundSeries {
    /// That of the cache of a stock master older than 3008 in `cachedir`; 3006 and 3007 lay it out in the same way.
    pub fn of_cache(cachedir: &Path) -> Option<FoundSeries> {
        has_combined_layout(cachedir).then(|| FoundSeries {
            series: SaltSeries::S3007,
            why: format!("{} is the cache of such a master", cachedir.display()),
        })
    }

    /// Sets the option, and tells which series was taken and why, unless it is the default.
    pub fn apply(self, option: &mut SaltSeries, warnings: &mut Vec<String>) {
        *option = self.series;
        if self.series != SaltSeries::S3008 {
            let name = self.series.to_value();
            let name = name.as_str().unwrap_or_default();
            let why = self.why;
            warnings.push(format!(
                "salt_series: {name} is used, since {why}; set the option to choose another"
            ));
        }
    }
}

/// A Salt that is installed on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstalledSalt {
    /// For example `3007.15`.
    pub version: String,
    /// Its Python package.
    pub package: PathBuf,
}

impl InstalledSalt {
    /// The first one found below `root`, which is `/` except in tests.
    pub fn find(root: &Path) -> Option<InstalledSalt> {
        COMMANDS
            .iter()
            .find_map(|dir| installed(&root.join(dir).join("salt-run")))
    }

    /// Its series, if halite knows it.
    pub fn series(&self) -> Option<FoundSeries> {
        let series = match self.version.split('.').next()? {
            "3006" => SaltSeries::S3006,
            "3007" => SaltSeries::S3007,
            "3008" => SaltSeries::S3008,
            _ => return None,
        };
        let (version, package) = (&self.version, self.package.display());
        Some(FoundSeries {
            series,
            why: format!("Salt {version} is installed in {package}"),
        })
    }
}

/// The Salt that a command belongs to; none for halite's own link of that name.
fn installed(command: &Path) -> Option<InstalledSalt> {
    let command = command.canonicalize().ok()?;
    // `<prefix>/bin/salt-run`, and `<prefix>/salt-run` in the packages with a Python of their own.
    let prefixes = command.ancestors().skip(1).take(2);
    prefixes.flat_map(packages).find_map(|package| {
        // `_version.txt` is in every release since 3005.
        let version = std::fs::read_to_string(package.join("_version.txt")).ok()?;
        let version = version.trim().to_owned();
        Some(InstalledSalt { version, package })
    })
}

/// Where the Python package of Salt may lie below a prefix.
fn packages(prefix: &Path) -> Vec<PathBuf> {
    let lib = prefix.join("lib");
    let pythons = std::fs::read_dir(&lib).into_iter().flatten().flatten();
    let pythons = pythons.filter(|e| e.file_name().to_string_lossy().starts_with("python3"));
    pythons
        .flat_map(|e| ["site-packages/salt", "dist-packages/salt"].map(|dir| e.path().join(dir)))
        .collect()
}

/// Whether a cache of a stock master older than 3008 lies in `cachedir`: minions' data in a file of each, and no
/// bank of grains.
fn has_combined_layout(cachedir: &Path) -> bool {
    if cachedir.join("grains").exists() {
        return false;
    }
    let minions = std::fs::read_dir(cachedir.join("minions"));
    // Each minion that has ever signed in has such a file, so a few directories suffice.
    let some = minions.into_iter().flatten().flatten().take(100);
    some.map(|e| e.path().join("data.p"))
        .any(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn packages_of_all_kinds_are_found() {
        for (command, link, package) in [
            (
                "opt/saltstack/salt/salt-run",
                true,
                "opt/saltstack/salt/lib/python3.10/site-packages",
            ),
            ("usr/bin/salt-run", false, "usr/lib/python3/dist-packages"),
            (
                "usr/local/bin/salt-run",
                false,
                "usr/local/lib/python3.11/dist-packages",
            ),
            (
                "srv/venv/bin/salt-run",
                true,
                "srv/venv/lib/python3.12/site-packages",
            ),
        ] {
            let root = tempfile::tempdir().unwrap();
            let root = root.path().canonicalize().unwrap();
            assert_eq!(InstalledSalt::find(&root), None);
            write(&root.join(command), "");
            if link {
                std::fs::create_dir_all(root.join("usr/bin")).unwrap();
                symlink(root.join(command), root.join("usr/bin/salt-run")).unwrap();
            }
            assert_eq!(
                InstalledSalt::find(&root),
                None,
                "{command} of something else"
            );
            let package = root.join(package).join("salt");
            write(&package.join("_version.txt"), "3007.15\n");
            let found = InstalledSalt::find(&root).unwrap();
            assert_eq!(
                (found.version.as_str(), &found.package),
                ("3007.15", &package)
            );
            assert_eq!(found.series().unwrap().series, SaltSeries::S3007);
        }
    }

    #[test]
    fn layouts_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_combined_layout(dir.path()));
        write(&dir.path().join("minions/m/files/x"), "");
        assert!(!has_combined_layout(dir.path()), "only files of a minion");
        write(&dir.path().join("minions/n/data.p"), "");
        assert!(has_combined_layout(dir.path()));
        write(&dir.path().join("grains/n"), "");
        assert!(!has_combined_layout(dir.path()), "3008 was here since");
    }
}
