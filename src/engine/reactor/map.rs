//! Which files react to which tags (option `reactor`).

use crate::target::fnmatch;
use crate::wire::{Map, Value, yaml};
use std::path::{Path, PathBuf};

/// Globs of tags with files, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct ReactionMap {
    entries: Vec<(String, Vec<String>)>,
}

impl ReactionMap {
    /// From the option: a list of one-key maps, or the path of a YAML file with such a list.
    pub fn new(option: &Value) -> ReactionMap {
        let read;
        let list = match option {
            Value::Str(path) => {
                read = std::fs::read_to_string(path)
                    .map_err(|e| e.to_string())
                    .and_then(|text| yaml::parse(&text).map_err(|e| e.to_string()));
                match &read {
                    Ok(value) => value,
                    Err(e) => {
                        log::error!("{path}: the map of reactions cannot be read: {e}");
                        return ReactionMap::default();
                    }
                }
            }
            other => other,
        };
        let entries = list.as_array().unwrap_or_default().iter().filter_map(|item| {
            let map = item.as_map().filter(|m| m.len() == 1);
            let Some((Value::Str(tag), files)) = map.and_then(|m| m.0.first()) else {
                log::error!(
                    "an entry of `reactor` is not `tag: [files]` and is ignored; quote tags that hold a colon"
                );
                return None;
            };
            Some((tag.clone(), files_of(files)))
        });
        ReactionMap {
            entries: entries.collect(),
        }
    }

    /// Whether anything reacts to a tag.
    pub fn has(&self, tag: &str) -> bool {
        self.entries.iter().any(|(glob, _)| fnmatch(tag, glob))
    }

    /// The files that react to a tag, in order.
    pub fn files(&self, tag: &str) -> Vec<String> {
        let matching = self.entries.iter().filter(|(glob, _)| fnmatch(tag, glob));
        matching.flat_map(|(_, files)| files.clone()).collect()
    }

    /// Adds an entry; the answer in Salt's form.
    pub fn add(&mut self, tag: Option<&str>, files: Option<&Value>) -> Map {
        let (Some(tag), Some(files)) = (tag, files) else {
            return told(false, "An event and reactors are needed.");
        };
        if self.entries.iter().any(|(glob, _)| glob == tag) {
            return told(false, "Reactor already exists.");
        }
        self.entries.push((tag.to_owned(), files_of(files)));
        told(true, "Reactor added.")
    }

    /// Takes an entry out; the answer in Salt's form.
    pub fn delete(&mut self, tag: Option<&str>) -> Map {
        let before = self.entries.len();
        self.entries.retain(|(glob, _)| Some(glob.as_str()) != tag);
        if self.entries.len() < before {
            told(true, "Reactor deleted.")
        } else {
            told(false, "Reactor does not exists.")
        }
    }

    /// As the option holds it.
    pub fn to_value(&self) -> Value {
        let entries = self
            .entries
            .iter()
            .map(|(tag, files)| Value::Map(crate::map! {tag.as_str() => files.clone()}));
        Value::Array(entries.collect())
    }
}

fn told(good: bool, comment: &str) -> Map {
    crate::map! {"status" => good, "comment" => comment}
}

fn files_of(value: &Value) -> Vec<String> {
    match value {
        Value::Str(one) => vec![one.clone()],
        other => other.str_list(),
    }
}

/// The files that a path means; its last part may be a glob.
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
    fn tags_are_globs_and_files_add_up() {
        let option = yaml::parse(
            "- 'salt/minion/*/start':\n  - /a.sls\n  - /b.sls\n- 'salt/*':\n  - /c.sls\n- other: /d.sls\n",
        )
        .unwrap();
        let mut map = ReactionMap::new(&option);
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
            list[2] = Value::Map(crate::map! {"other" => vec![Value::from("/d.sls")]});
            Value::Array(list)
        });
    }
}
