//! Turns the configuration files of a Salt master or minion into halite's: the same lines, with remarks.

use super::finish::standing;
use super::inspect::read_with_places;
use super::{ConfigError, OptionInfo, Role, Standing, default_text};
use std::collections::BTreeMap;
use std::path::Path;

/// Prefix of every remark.
const MARK: &str = "# halite-migrate:";

/// A converted file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigratedFile {
    /// The text of the new file.
    pub text: String,
    /// Number of remarks in it.
    pub remarks: usize,
    /// Number of options it sets.
    pub options: usize,
}

/// Converts the file at `path` for halite. Options whose default is another path in halite (keys, caches, sockets,
/// logs) are commented out, so that the two installations share nothing; options that halite does not act on get a
/// remark. Everything else is copied unchanged.
///
/// # Errors
/// The file cannot be read or is not YAML.
pub fn migrate_file(path: &Path, role: Role) -> Result<MigratedFile, ConfigError> {
    let (text, value, spots) = read_with_places(path)?;
    // Line -> the remark for it, and whether the option is commented out.
    let mut marks: BTreeMap<usize, Option<(String, bool)>> = BTreeMap::new();
    for spot in spots.iter().filter(|s| s.path.len() == 1) {
        let value = value.as_map().and_then(|map| map.get(&spot.path[0]));
        let remark = value.and_then(|value| remark(&spot.path[0], value, role));
        marks.insert(spot.line, remark);
    }
    let mut out = format!(
        "{MARK} copied from {}; lines that halite treats differently are marked like this one\n",
        path.display()
    );
    let (mut remarks, mut off) = (0, false);
    for (at, line) in text.lines().enumerate() {
        if let Some(mark) = marks.get(&(at + 1)) {
            off = mark.as_ref().is_some_and(|(_, comment)| *comment);
            if let Some((note, _)) = mark {
                out.push_str(&format!("{MARK} {note}\n"));
                remarks += 1;
            }
        }
        if off && !line.trim_start().starts_with('#') && !line.trim().is_empty() {
            out.push('#');
        }
        out.push_str(line);
        out.push('\n');
    }
    Ok(MigratedFile {
        text: out,
        remarks,
        options: marks.len(),
    })
}

fn remark(name: &str, value: &halite_wire::Value, role: Role) -> Option<(String, bool)> {
    let own_place = |o: &&OptionInfo| o.name == name && o.default.contains("{product}");
    if let Some(option) = super::doc::table(role).iter().find(own_place) {
        let own = default_text(option);
        return Some((format!("left to its default, {own}"), true));
    }
    let note = match standing(name, value, role) {
        Standing::Followed => return None,
        Standing::Refused(why) => why.to_owned(),
        Standing::Ignored => "Salt's option, which has no effect here".to_owned(),
        Standing::Unknown(Some(near)) => format!("unknown; is '{near}' meant?"),
        Standing::Unknown(None) => "unknown; templates and config.get see it".to_owned(),
    };
    Some((note, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_become_comments_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master");
        let text = "# mine\nuser: root\npki_dir: /etc/salt/pki/master\n\n# x\nfile_roots:\n  base:\n    - /srv/salt\n\
                    log_file:\n  /var/log/salt/master\nqueue_dirs: []\nworker_thread: 2\n";
        std::fs::write(&path, text).unwrap();
        let carried = migrate_file(&path, Role::Master).unwrap();
        assert_eq!((carried.remarks, carried.options), (4, 6));
        let lines: Vec<&str> = carried.text.lines().skip(1).collect();
        let expected = [
            "# mine",
            "user: root",
            "# halite-migrate: left to its default, /etc/halite/pki/master",
            "#pki_dir: /etc/salt/pki/master",
            "",
            "# x",
            "file_roots:",
            "  base:",
            "    - /srv/salt",
            "# halite-migrate: left to its default, /var/log/halite/master",
            "#log_file:",
            "#  /var/log/salt/master",
            "# halite-migrate: Salt's option, which has no effect here",
            "queue_dirs: []",
            "# halite-migrate: unknown; is 'worker_threads' meant?",
            "worker_thread: 2",
        ];
        assert_eq!(lines, expected);
        std::fs::write(&path, &carried.text).unwrap();
        assert_eq!(migrate_file(&path, Role::Master).unwrap().options, 4);
    }
}
