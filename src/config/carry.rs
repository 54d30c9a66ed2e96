//! Configuration files of a Salt master as halite's own: the same lines, with remarks.

use super::finish::standing;
use super::inspect::read_with_places;
use super::{ConfigError, OptionInfo, Role, Standing, default_text};
use std::collections::BTreeMap;
use std::path::Path;

/// What every remark begins with.
const MARK: &str = "# halite-migrate:";

/// A file that was worked over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The text of the new file.
    pub text: String,
    /// How many remarks it has.
    pub remarks: usize,
    /// How many options it sets.
    pub options: usize,
}

/// The text of `path` for a directory of halite's. Options for which halite has a place of its own (keys, caches, sockets,
/// logs) become comments, so that the two masters have nothing in common; others get a remark where halite does not act on
/// them. Everything else stays as it is.
///
/// # Errors
/// The file cannot be read or is no YAML.
pub fn carry(path: &Path, role: Role) -> Result<Carried, ConfigError> {
    let (text, value, spots) = read_with_places(path)?;
    // Line -> what to say there, and whether the option becomes a comment.
    let mut marks: BTreeMap<usize, Option<(String, bool)>> = BTreeMap::new();
    for spot in spots.iter().filter(|s| s.way.len() == 1) {
        let value = value.as_map().and_then(|map| map.get(&spot.way[0]));
        let remark = value.and_then(|value| remark(&spot.way[0], value, role));
        marks.insert(spot.line, remark);
    }
    let mut out = format!(
        "{MARK} copied from {}; what halite takes otherwise is marked like this line\n",
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
    Ok(Carried {
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
                    log_file:\n  /var/log/salt/master\nengines: []\nworker_thread: 2\n";
        std::fs::write(&path, text).unwrap();
        let carried = carry(&path, Role::Master).unwrap();
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
            "engines: []",
            "# halite-migrate: unknown; is 'worker_threads' meant?",
            "worker_thread: 2",
        ];
        assert_eq!(lines, expected);
        std::fs::write(&path, &carried.text).unwrap();
        assert_eq!(carry(&path, Role::Master).unwrap().options, 4);
    }
}
