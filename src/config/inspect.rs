//! The options of configuration files with their line numbers, for tools that check a configuration without running it.

use super::finish::{Standing, standing};
use super::{ConfigError, Flavour, Role};
use halite_wire::Value;
use halite_wire::yaml::{self, KeyPosition};
use std::path::{Path, PathBuf};

/// An option as set in one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// Its name.
    pub name: String,
    /// The file.
    pub file: PathBuf,
    /// The line of its name, from 1.
    pub line: usize,
    /// Its value in this file.
    pub value: Value,
    /// How halite treats it.
    pub standing: Standing,
    /// Names within its value, with their lines; each path starts with the option.
    pub within: Vec<KeyPosition>,
}

impl Given {
    /// The line of a name within the value; the line of the option if it is not found.
    pub fn line_of(&self, name: &str) -> usize {
        let found = self
            .within
            .iter()
            .find(|s| s.path.last().is_some_and(|n| n == name));
        found.map_or(self.line, |s| s.line)
    }
}

/// All options set in the files of one role.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// The files in the order they are read; later ones win. Empty if there is no file.
    pub files: Vec<PathBuf>,
    /// Their options, in the order of the files.
    pub given: Vec<Given>,
}

impl Inspection {
    /// The option as it takes effect: the last one set.
    pub fn last(&self, name: &str) -> Option<&Given> {
        self.given.iter().rev().find(|g| g.name == name)
    }
}

/// Reads the same files as [`super::load_master`] and its like, and says how each option is treated.
///
/// # Errors
/// A file cannot be read or is not a map of options. Values are not checked.
pub fn inspect(dir: &Path, role: Role) -> Result<Inspection, ConfigError> {
    let source = super::file::read(dir, role, Flavour::of(dir))?;
    let mut out = Inspection::default();
    for file in source.files {
        if out.files.contains(&file) {
            continue;
        }
        out.given.extend(options_of(&file, role)?);
        out.files.push(file);
    }
    Ok(out)
}

/// The text of a file, its parsed value, and the positions of its names.
pub(super) fn read_with_places(
    file: &Path,
) -> Result<(String, Value, Vec<KeyPosition>), ConfigError> {
    let text = std::fs::read_to_string(file).map_err(|e| ConfigError::read(file, e))?;
    let (value, spots) = yaml::parse_with_places(&text).map_err(|error| ConfigError::Yaml {
        path: file.to_owned(),
        error,
    })?;
    Ok((text, value, spots))
}

fn options_of(file: &Path, role: Role) -> Result<Vec<Given>, ConfigError> {
    let (_, value, spots) = read_with_places(file)?;
    let mut out = Vec::new();
    for (key, value) in value.as_map().into_iter().flat_map(|map| map.iter()) {
        let Some(name) = key.as_str() else {
            continue;
        };
        let within = spots
            .iter()
            .filter(|s| s.path.first().is_some_and(|first| first == name));
        let within: Vec<KeyPosition> = within.cloned().collect();
        out.push(Given {
            name: name.to_owned(),
            file: file.to_owned(),
            line: within.first().map_or(1, |s| s.line),
            value: value.clone(),
            standing: standing(name, value, role),
            within: within.into_iter().skip(1).collect(),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_files_lines_and_standings() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("master.d")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "master",
            "# a\nuser: root\nworker_thread: 3\next_pillar:\n  - vault: x\n",
        );
        write(
            "master.d/a.conf",
            "queue_dirs: []\nredis.host: h\nmine: 1\nuser: salt\n",
        );
        let seen = inspect(dir.path(), Role::Master).unwrap();
        let names: Vec<(&str, usize, Standing)> = seen
            .given
            .iter()
            .map(|g| (g.name.as_str(), g.line, g.standing))
            .collect();
        assert_eq!(
            names,
            [
                ("user", 2, Standing::Followed),
                (
                    "worker_thread",
                    3,
                    Standing::Unknown(Some("worker_threads"))
                ),
                ("ext_pillar", 4, Standing::Followed),
                ("queue_dirs", 1, Standing::Ignored),
                ("redis.host", 2, Standing::Followed),
                ("mine", 3, Standing::Unknown(None)),
                ("user", 4, Standing::Followed),
            ]
        );
        assert_eq!(seen.files.len(), 2);
        assert_eq!(seen.given[2].line_of("vault"), 5);
        assert_eq!(seen.given[2].line_of("other"), 4);
        assert_eq!(seen.last("user").unwrap().value, "salt".into());
        write("master", "a: [");
        assert!(inspect(dir.path(), Role::Master).is_err());
        let none = tempfile::tempdir().unwrap();
        assert!(inspect(none.path(), Role::Minion).unwrap().files.is_empty());
    }
}
