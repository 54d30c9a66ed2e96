//! `file.recurse`.

use super::clean::Keep;
use super::managed::Managed;
use super::symlink::Link;
use super::{Ended, Step, directory, fail, has_changes, known_owner, mode_of, user_of};
use crate::declare::{State, StateOutcome};
use halite_modules::execution::file::paths::{self, expanduser};
use halite_modules::execution::file::{Perms, remove};
use halite_modules::execution::{CallError, python};
use halite_modules::files::{FileClient, FileFilter, url};
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a state manages. A source never replaces what one before it has.
#[derive(Default)]
struct Tree {
    /// Files and their URLs.
    files: BTreeMap<String, String>,
    /// Directories of files, and empty ones.
    dirs: BTreeSet<String>,
    /// All directories, with those above them.
    above: BTreeSet<String>,
    /// Directories that links would have led to.
    ignored: BTreeSet<String>,
    /// Links and their targets.
    links: BTreeMap<String, String>,
    /// What `clean` keeps.
    keep: Vec<String>,
}

impl Tree {
    /// Whether a path is a directory already, or is or is below something else.
    fn is_taken(&self, path: &str) -> bool {
        let is_file = |p: &str| self.files.contains_key(p) || self.links.contains_key(p);
        self.above.contains(path) || ancestors(path).any(is_file)
    }
}

/// A path and those above it.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| {
        let up = paths::dirname(path);
        (up != *path && !up.is_empty()).then_some(up)
    })
}

/// One source of a state.
struct Source<'a> {
    client: &'a FileClient,
    saltenv: &'a str,
    /// Its path with a slash, or nothing.
    prefix: String,
    filter: FileFilter,
    depth: Option<i64>,
}

impl Source<'_> {
    /// The path below the source, if it is to be managed.
    fn own<'p>(&self, path: &'p str) -> Option<&'p str> {
        let own = path.strip_prefix(&self.prefix)?;
        let deep = |depth| own.matches('/').count() as i64 > depth;
        let fits = !own.is_empty()
            && !own.split('/').any(|part| part == "..")
            && !self.depth.is_some_and(deep)
            && self.filter.selects(own);
        fits.then_some(own)
    }
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
        let source = Source {
            client,
            saltenv: env.unwrap_or(&self.saltenv),
            prefix: match path.trim_end_matches('/') {
                "" => String::new(),
                path => format!("{path}/"),
            },
            filter: FileFilter::new(&self.arg("include_pat"), &self.arg("exclude_pat")),
            depth: self.arg("maxdepth").as_int(),
        };
        let keep_symlinks = self.flag("keep_symlinks");
        let mut files = client.list(source.saltenv, &source.prefix)?;
        if keep_symlinks {
            self.add_links(&source, &mut files, tree)?;
        }
        for file in files {
            let Some(own) = source.own(&file) else {
                continue;
            };
            let place = paths::join(&self.name, own);
            if tree.is_taken(&place) {
                continue;
            }
            tree.dirs.insert(paths::dirname(&place).to_owned());
            tree.above
                .extend(ancestors(paths::dirname(&place)).map(str::to_owned));
            tree.keep.push(place.clone());
            let address = url::create(&file, Some(source.saltenv));
            tree.files.insert(place, address);
        }
        if self.flag("include_empty") {
            let dirs = client.dirs(source.saltenv, &source.prefix)?;
            if !dirs.is_empty() {
                // The source itself is one of its directories, under this name.
                tree.dirs.insert(format!("{}/.", self.name));
            }
            for dir in dirs {
                let Some(own) = source.own(&dir) else {
                    continue;
                };
                let place = paths::join(&self.name, own);
                if !tree.ignored.contains(&place) && !tree.is_taken(&place) {
                    tree.keep.push(place.clone());
                    tree.above.insert(place.clone());
                    tree.dirs.insert(place);
                }
            }
        } else if keep_symlinks {
            self.drop_empty_links(&source, tree)?;
        }
        Ok(())
    }

    /// The links of a source. The files that they lead to are not listed a second time below them.
    fn add_links(
        &self,
        source: &Source<'_>,
        files: &mut Vec<String>,
        tree: &mut Tree,
    ) -> Result<(), CallError> {
        for (link, target) in source.client.links(source.saltenv, &source.prefix)?.iter() {
            let (link, target) = (python::str(link), python::str(target));
            let below = format!("{link}/");
            let led_to_dir = files.iter().any(|file| file.starts_with(&below));
            files.retain(|file| *file != link && !file.starts_with(&below));
            let Some(own) = source.own(&link) else {
                continue;
            };
            let place = paths::join(&self.name, own);
            if tree.is_taken(&place) {
                continue;
            }
            let aim = paths::normpath(&paths::join(paths::dirname(&place), &target));
            // A source before this one may have made something else of what the link leads to.
            if led_to_dir && tree.files.contains_key(&aim) {
                tree.ignored.insert(place);
            } else if led_to_dir || !tree.dirs.contains(&aim) {
                tree.keep.push(place.clone());
                tree.links.insert(place, target);
            }
        }
        Ok(())
    }

    /// Drops links to empty directories, which are not managed, and links to such links.
    fn drop_empty_links(&self, source: &Source<'_>, tree: &mut Tree) -> Result<(), CallError> {
        let dirs = source.client.dirs(source.saltenv, &source.prefix)?;
        loop {
            let is_gone = |target: &String| {
                let there = paths::normpath(&paths::join(&source.prefix, target));
                let place = paths::normpath(&paths::join(&self.name, target));
                dirs.contains(&there)
                    && !tree.files.contains_key(&place)
                    && !tree.above.contains(&place)
                    && !tree.links.contains_key(&place)
            };
            let gone = tree.links.iter().filter(|(_, target)| is_gone(target));
            let gone: Vec<String> = gone.map(|(link, _)| link.clone()).collect();
            if gone.is_empty() {
                return Ok(());
            }
            tree.links.retain(|link, _| !gone.contains(link));
        }
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
    // It is made before all else, and not told.
    if !s.test && !paths::exists(&name) {
        let outcome = directory::one(s, &name, dir_perms.clone())?;
        if outcome.result == Some(false) {
            return Ok(outcome);
        }
    }
    for dir in &tree.dirs {
        if clean && paths::lexists(dir) && !paths::is_dir(dir) {
            if s.test {
                let text = format!("Replacing {dir} with a directory");
                parts.add(dir, Ok(StateOutcome::would(text)))?;
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
            let text = format!("Replacing directory {path} with a file");
            return Ok(StateOutcome::would(text));
        }
        remove(path)?;
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
