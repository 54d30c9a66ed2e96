//! Which files react to which tags (option `reactor`).

use halite_target::fnmatch;
use halite_wire::{Map, Value, yaml};
use std::path::{Path, PathBuf};

/// A glob of tags with the files that react.
type Entry = (String, Vec<String>);

/// Globs of tags with files, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct ReactionMap {
    entries: Vec<Entry>,
}

impl ReactionMap {
    /// Reads the option: a list of one-key maps, or the path of a YAML file with such a list. Also returns what
    /// is wrong with it.
    pub fn new(option: &Value) -> (ReactionMap, Vec<String>) {
        let (mut map, mut errors) = (ReactionMap::default(), Vec::new());
        let read;
        let list = match option {
            Value::Str(path) => match read_list(path) {
                Ok(list) => {
                    read = list;
                    &read
                }
                Err(why) => {
                    let text = format!("reactor: {path}: {why}; there are no reactions");
                    return (map, vec![text]);
                }
            },
            other => other,
        };
        for (at, item) in list.as_array().unwrap_or_default().iter().enumerate() {
            match entry(at + 1, item) {
                Ok(entry) => map.entries.push(entry),
                Err(why) => errors.push(format!("reactor: {why}; the entry is ignored")),
            }
        }
        (map, errors)
    }

    /// Reaction files that do not exist, with their tags. Files from the file server are not checked: it may
    /// not have fetched them yet.
    pub fn missing(&self) -> Vec<String> {
        let all = self.entries.iter();
        let all = all.flat_map(|(tag, files)| files.iter().map(move |file| (tag, file)));
        all.filter(|(_, file)| !file.starts_with("salt://") && paths(file).is_empty())
            .map(|(tag, file)| {
                format!(
                    "reactor: {tag}: there is no file {file}; write the full path of an SLS file, or salt://..."
                )
            })
            .collect()
    }

    /// Whether any file reacts to a tag.
    pub fn has(&self, tag: &str) -> bool {
        self.entries.iter().any(|(glob, _)| fnmatch(tag, glob))
    }

    /// The files that react to a tag, in order.
    pub fn files(&self, tag: &str) -> Vec<String> {
        let matching = self.entries.iter().filter(|(glob, _)| fnmatch(tag, glob));
        matching.flat_map(|(_, files)| files.clone()).collect()
    }

    /// Adds an entry; returns the reply in Salt's form.
    pub fn add(&mut self, tag: Option<&str>, files: Option<&Value>) -> Map {
        let (Some(tag), Some(files)) = (tag, files) else {
            return reply(false, "An event and reactors are needed.");
        };
        if self.entries.iter().any(|(glob, _)| glob == tag) {
            return reply(false, "Reactor already exists.");
        }
        self.entries.push((tag.to_owned(), files_of(files)));
        reply(true, "Reactor added.")
    }

    /// Deletes an entry; returns the reply in Salt's form.
    pub fn delete(&mut self, tag: Option<&str>) -> Map {
        let before = self.entries.len();
        self.entries.retain(|(glob, _)| Some(glob.as_str()) != tag);
        if self.entries.len() < before {
            reply(true, "Reactor deleted.")
        } else {
            reply(false, "Reactor does not exists.")
        }
    }

    /// The map in the form of the option.
    pub fn to_value(&self) -> Value {
        let entries = self
            .entries
            .iter()
            .map(|(tag, files)| Value::Map(halite_wire::map! {tag.as_str() => files.clone()}));
        Value::Array(entries.collect())
    }
}

fn reply(good: bool, comment: &str) -> Map {
    halite_wire::map! {"status" => good, "comment" => comment}
}

fn read_list(path: &str) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let list = yaml::parse(&text).map_err(|e| e.to_string())?;
    match list {
        Value::Array(_) | Value::Nil => Ok(list),
        _ => Err("it is not a list of `tag: [files]`".to_owned()),
    }
}

/// Parses an entry, `number` counting from 1. Errors start with its tag, if it has one.
fn entry(number: usize, item: &Value) -> Result<Entry, String> {
    let map = item.as_map().filter(|m| m.len() == 1);
    let Some((tag, files)) = map.and_then(|m| m.0.first()) else {
        return Err(format!(
            "entry {number}: it is not `tag: [files]`; each tag starts a list item of its own, quoted if it holds a colon or a star, and its files are indented below it"
        ));
    };
    let Value::Str(tag) = tag else {
        return Err(format!("entry {number}: its tag is not a string; quote it"));
    };
    let good = match files {
        Value::Str(file) => !file.is_empty(),
        Value::Array(files) => {
            !files.is_empty()
                && files
                    .iter()
                    .all(|f| f.as_str().is_some_and(|f| !f.is_empty()))
        }
        _ => false,
    };
    if good {
        Ok((tag.clone(), files_of(files)))
    } else {
        Err(format!(
            "{tag}: it names no files; write `- /srv/reactor/x.sls` or `- salt://reactor/x.sls` below it"
        ))
    }
}

fn files_of(value: &Value) -> Vec<String> {
    match value {
        Value::Str(one) => vec![one.clone()],
        other => other.str_list(),
    }
}

/// The files matching a path; its last component may be a glob.
pub(super) fn paths(entry: &str) -> Vec<PathBuf> {
    let path = Path::new(entry);
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    if !name.contains(['*', '?', '[']) {
        return path
            .is_file()
            .then(|| path.to_owned())
            .into_iter()
            .collect();
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| e.file_name().to_str().is_some_and(|n| fnmatch(n, name)))
        .map(|e| e.path())
        .filter(|p| p.is_file())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_entries_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join("a.sls"), "").unwrap();
        let text = format!(
            "- good: ['{place}/a.sls', '{place}/*.sls', 'salt://x.sls']\n- two: [/a]\n  tags: [/b]\n- text\n\
             - 5: [/a]\n- none:\n- empty: []\n- number: [5]\n- gone: '{place}/b.sls'\n"
        );
        let (map, errors) = ReactionMap::new(&yaml::parse(&text).unwrap());
        assert_eq!(map.entries.len(), 2);
        let names = ["entry 2", "entry 3", "entry 4", "none", "empty", "number"];
        assert_eq!(errors.len(), names.len(), "{errors:?}");
        for (name, error) in names.iter().zip(&errors) {
            assert!(error.starts_with(&format!("reactor: {name}: ")), "{error}");
        }
        let missing = map.missing();
        assert_eq!(missing.len(), 1);
        assert!(missing[0].contains("gone: there is no file"), "{missing:?}");

        let file = dir.path().join("map.yaml");
        for (content, wrong) in [("- a: [/x]\n", 0), ("a: [/x]\n", 1), ("{", 1)] {
            std::fs::write(&file, content).unwrap();
            let (_, errors) = ReactionMap::new(&file.to_str().unwrap().into());
            assert_eq!(errors.len(), wrong, "{content}: {errors:?}");
        }
        assert_eq!(ReactionMap::new(&"/no/such".into()).1.len(), 1);
    }

    #[test]
    fn tags_are_globs_and_files_add_up() {
        let option = yaml::parse(
            "- 'salt/minion/*/start':\n  - /a.sls\n  - /b.sls\n- 'salt/*':\n  - /c.sls\n- other: /d.sls\n",
        )
        .unwrap();
        let (mut map, errors) = ReactionMap::new(&option);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(
            map.files("salt/minion/m/start"),
            ["/a.sls", "/b.sls", "/c.sls"]
        );
        assert_eq!(map.files("other"), ["/d.sls"]);
        assert!(!map.has("none"));
        assert_eq!(
            map.add(Some("other"), None).get("status"),
            Some(&false.into())
        );
        assert_eq!(
            map.add(Some("new"), Some(&"/n.sls".into())).get("status"),
            Some(&true.into())
        );
        assert_eq!(map.delete(Some("new")).get("status"), Some(&true.into()));
        assert_eq!(map.delete(Some("new")).get("status"), Some(&false.into()));
        assert_eq!(map.to_value(), {
            let mut list = option.as_array().unwrap().to_vec();
            list[2] = Value::Map(halite_wire::map! {"other" => vec![Value::from("/d.sls")]});
            Value::Array(list)
        });
    }
}
