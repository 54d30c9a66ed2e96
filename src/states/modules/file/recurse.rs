//! `file.recurse`.

use super::clean::Keep;
use super::managed::Managed;
use super::symlink::Link;
use super::{Ended, Step, change, directory, fail, has_changes, known_owner, mode_of, user_of};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::{Perms, remove};
use halite_modules::execution::{CallError, python};
use halite_modules::files::{FileClient, FileFilter, url};
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a state manages.
#[derive(Default)]
struct Tree {
    /// Files and their URLs.
    files: BTreeMap<String, String>,
    dirs: BTreeSet<String>,
    /// Links and their targets.
    links: BTreeMap<String, String>,
    /// What `clean` keeps.
    keep: Vec<String>,
}

/// What a state asks for, read from a compiled call: other states that clean ask as well.
struct Request<'a> {
    low: &'a Map,
    name: String,
    saltenv: String,
}

impl<'a> Request<'a> {
    fn of(low: &'a Map) -> Request<'a> {
        let name = low.get("name").map(python::str).unwrap_or_default();
        let env = low.str("__env__").filter(|env| !env.is_empty());
        Request {
            low,
            name: expanduser(&name),
            saltenv: env.unwrap_or("base").to_owned(),
        }
    }

    fn arg(&self, name: &str) -> Value {
        self.low.get(name).cloned().unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.low.get(name).is_some_and(Value::truthy)
    }

    /// The sources, which have to be on the file server.
    fn sources(&self) -> Step<Vec<String>> {
        let list = match self.arg("source") {
            Value::Array(list) => list,
            one => vec![one],
        };
        let list: Vec<String> = list.iter().map(python::str).collect();
        let list: Vec<String> = list
            .iter()
            .map(|source| source.trim_end_matches('/').to_owned())
            .collect();
        match list.iter().find(|source| !source.starts_with(url::SCHEME)) {
            Some(wrong) => fail(format!("Invalid source '{wrong}' (must be a salt:// URI)")),
            None => Ok(list),
        }
    }

    /// All that one source has.
    fn add(&self, client: &FileClient, source: &str, tree: &mut Tree) -> Result<(), CallError> {
        let (path, env) = url::parse(source);
        let saltenv = env.unwrap_or(&self.saltenv);
        let prefix = match path.trim_end_matches('/') {
            "" => String::new(),
            path => format!("{path}/"),
        };
        let filter = FileFilter::new(&self.arg("include_pat"), &self.arg("exclude_pat"));
        let depth = self.arg("maxdepth").as_int();
        let mut links = Vec::new();
        if self.flag("keep_symlinks") {
            for (link, target) in client.links(saltenv, &prefix)?.iter() {
                let link = python::str(link);
                let Some(own) = link.strip_prefix(&prefix) else {
                    continue;
                };
                if !filter.selects(own) {
                    continue;
                }
                links.push(format!("{link}/"));
                links.push(link.clone());
                let place = paths::join(&self.name, own);
                tree.keep.push(place.clone());
                tree.links
                    .entry(place)
                    .or_insert_with(|| python::str(target));
            }
        }
        for file in client.list(saltenv, &prefix)? {
            let Some(own) = file.strip_prefix(&prefix).filter(|own| !own.is_empty()) else {
                continue;
            };
            let deep = depth.is_some_and(|depth| own.matches('/').count() as i64 > depth);
            let linked = links
                .iter()
                .any(|link| file == *link || link.ends_with('/') && file.starts_with(link));
            if deep || linked || !filter.selects(own) {
                continue;
            }
            let place = paths::join(&self.name, own);
            tree.dirs.insert(paths::dirname(&place).to_owned());
            tree.keep.push(place.clone());
            let address = url::create(&file, Some(saltenv));
            tree.files.entry(place).or_insert(address);
        }
        if self.flag("include_empty") {
            for dir in client.empty_dirs(saltenv, &prefix)? {
                let Some(own) = dir.strip_prefix(&prefix).filter(|own| !own.is_empty()) else {
                    continue;
                };
                if filter.selects(own) {
                    let place = paths::join(&self.name, own);
                    tree.keep.push(place.clone());
                    tree.dirs.insert(place);
                }
            }
        }
        Ok(())
    }

    fn tree(&self, s: &mut State<'_, '_>, sources: &[String]) -> Step<Tree> {
        let client = FileClient::new(s.ctx()).map_err(CallError::from)?;
        let mut tree = Tree::default();
        for source in sources {
            self.add(&client, source, &mut tree)?;
        }
        Ok(tree)
    }

    /// The sources to use: the first there is, or with `merge` all.
    fn chosen(&self, s: &mut State<'_, '_>) -> Step<Vec<String>> {
        let sources = match self.sources() {
            Ok(sources) => sources,
            Err(Ended::With(wrong)) => return fail(format!("Recurse failed: {}", wrong.comment)),
            Err(other) => return Err(other),
        };
        let client = FileClient::new(s.ctx()).map_err(CallError::from)?;
        let mut found = Vec::new();
        for source in sources {
            let (path, env) = url::parse(&source);
            let saltenv = env.unwrap_or(&self.saltenv);
            let dirs = client.dirs(saltenv, "").map_err(CallError::from)?;
            if path.is_empty() || dirs.iter().any(|dir| dir == path) {
                found.push(source);
            }
        }
        if found.is_empty() {
            return fail("Recurse failed: none of the specified sources were found");
        }
        if !self.flag("merge") {
            found.truncate(1);
        }
        Ok(found)
    }
}

/// What another state of the run manages below its directory.
pub(super) fn kept_by(s: &mut State<'_, '_>, low: &Map) -> Step<Vec<String>> {
    let request = Request::of(low);
    let sources = request.chosen(s)?;
    let tree = request.tree(s, &sources)?;
    let dirs = tree.dirs.into_iter();
    Ok(tree.keep.into_iter().chain(dirs).collect())
}

/// The outcomes of all parts.
#[derive(Default)]
struct Parts {
    failed: bool,
    would: bool,
    comments: Vec<(String, String)>,
    changes: Map,
}

impl Parts {
    fn add(&mut self, path: &str, step: Step) -> Result<(), CallError> {
        let outcome = match step {
            Ok(outcome) => outcome,
            Err(Ended::With(outcome)) => *outcome,
            Err(Ended::Raised(fault)) => return Err(fault),
        };
        self.failed |= outcome.result == Some(false);
        self.would |= outcome.result.is_none();
        if has_changes(&outcome) {
            self.changes.set(path, outcome.changes);
        }
        if outcome.result != Some(true) && !outcome.comment.is_empty() {
            self.comments.push((path.to_owned(), outcome.comment));
        }
        Ok(())
    }

    fn outcome(self, name: &str) -> StateOutcome {
        let blocks = self
            .comments
            .iter()
            .map(|(path, text)| format!("#### {path} ####\n{text}"));
        let mut comment = blocks.collect::<Vec<_>>().join("\n\n");
        if comment.is_empty() {
            comment = match self.changes.is_empty() {
                true => format!("The directory {name} is in the correct state"),
                false => format!("Recursively updated {name}"),
            };
        }
        let result = match (self.failed, self.would) {
            (true, _) => Some(false),
            (false, true) => None,
            (false, false) => Some(true),
        };
        StateOutcome::new(result, comment).changes(self.changes)
    }
}

pub(super) fn recurse(s: &mut State<'_, '_>) -> Step {
    let low = s.low.clone();
    let request = Request::of(&low);
    let name = request.name.clone();
    let (user, group) = (user_of(s), s.arg("group").clone());
    if s.kwargs.contains("mode") {
        return fail(
            "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'.",
        );
    }
    known_owner(s, &user, &group)?;
    if !paths::is_abs(&name) {
        return fail(format!("Specified file {name} is not an absolute path"));
    }
    let sources = request.chosen(s)?;
    if paths::exists(&name) && !paths::is_dir(&name) {
        return fail(format!("The path {name} exists and is not a directory"));
    }
    let tree = request.tree(s, &sources)?;
    let mut parts = Parts::default();
    let clean = s.flag("clean");
    let dir_perms = Perms {
        user: user.clone(),
        group: group.clone(),
        mode: mode_of(s.arg("dir_mode")),
        ..Perms::default()
    };
    let mut dirs = tree.dirs.clone();
    dirs.insert(name.clone());
    for dir in &tree.dirs {
        if clean && paths::lexists(dir) && !paths::is_dir(dir) {
            if s.test {
                let outcome = StateOutcome::would("File exists where the directory should be");
                parts.add(dir, Ok(outcome))?;
                continue;
            }
            remove(dir)?;
        }
        let step = directory::one(s, dir, dir_perms.clone());
        parts.add(dir, step)?;
    }
    for (path, source) in &tree.files {
        let step = manage(s, path, source, clean);
        parts.add(path, step)?;
    }
    for (path, target) in &tree.links {
        let link = Link {
            name: path.clone(),
            target: target.clone(),
            user: user.clone(),
            group: group.clone(),
            mode: s.arg("sym_mode").clone(),
            force: s.flag("force_symlinks"),
            makedirs: true,
            follow: true,
            ..Link::default()
        };
        let step = link.require(s);
        parts.add(path, step)?;
    }
    if clean {
        let require = s.arg("require").clone();
        let mut keep = super::clean::kept(s, &name, &require)?;
        keep.extend(tree.keep);
        keep.extend(dirs);
        let keep = Keep::new(&name, keep, s.arg("exclude_pat"));
        remove_rest(s, &keep, &mut parts)?;
    }
    Ok(parts.outcome(&name))
}

fn remove_rest(s: &State<'_, '_>, keep: &Keep, parts: &mut Parts) -> Step<()> {
    if s.test {
        let removed = keep.removable();
        if !removed.is_empty() {
            let lines: Vec<String> = removed.iter().map(python::str).collect();
            parts.add("removed", Ok(StateOutcome::would(lines.join("\n"))))?;
        }
        return Ok(());
    }
    let removed = keep.clean()?;
    if !removed.is_empty() {
        parts.changes.set("removed", removed);
    }
    Ok(())
}

/// Manages one file.
fn manage(s: &mut State<'_, '_>, path: &str, source: &str, clean: bool) -> Step {
    if clean && paths::is_dir(path) && s.flag("replace") {
        if s.test {
            return Ok(StateOutcome::would("Replacing directory with a file"));
        }
        remove(path)?;
        let mut outcome = file_request(s, path, source).apply(s)?;
        change(&mut outcome, "diff", "Replaced directory with a new file");
        return Ok(outcome);
    }
    file_request(s, path, source).apply(s)
}

fn file_request(s: &State<'_, '_>, path: &str, source: &str) -> Managed {
    let arg = |name: &str| s.arg(name).clone();
    let keep = s
        .text("file_mode")
        .is_some_and(|m| m.eq_ignore_ascii_case("keep"));
    let mut request = Managed::with_contents(s, path, Value::Nil);
    let mode = if keep {
        Value::Nil
    } else {
        mode_of(s.arg("file_mode"))
    };
    request.keep_mode = keep;
    request.perms.user = user_of(s);
    request.perms.group = arg("group");
    request.perms.mode = mode.clone();
    request.get.source = source.into();
    request.get.template = arg("template");
    request.get.context = arg("context");
    request.get.defaults = arg("defaults");
    request.get.user = user_of(s);
    request.get.group = arg("group");
    request.get.mode = mode;
    request.keep_source = s.flag("keep_source");
    request.makedirs = true;
    request.replace = s.flag("replace");
    request.backup = arg("backup");
    request
}
