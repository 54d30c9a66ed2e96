//! The master's file server (`salt/fileserver/__init__.py`; reference `salt-protocol.md` 8.3).
//!
//! Backends are searched in the order of `fileserver_backend`; the first that has a file serves it.
//! Loads and replies are those of the wire. Paths from minions are parsed in one place
//! (`request_path`) and opened in one place (`confined`).

mod chunk;
pub mod confined;
pub mod extmods;
pub mod git;
mod hashes;
mod ignore;
mod lists;
mod minionfs;
pub mod names;
mod read;
mod recv;
mod request_path;
mod roots;
mod roots_events;

pub use chunk::{Chunk, Served};
pub use hashes::expire as expire_hashes;
pub use lists::{FileListKind, clear as clear_lists};
pub use read::Opened;
pub use recv::receive;
pub use roots_events::RootsWatch;

use confined::ConfinedPath;
use git::GitFs;
use halite_config::{FileServerOptions, MasterConfig};
use halite_crypto::HashType;
use halite_target::{PyRegex, RegexLimit, fnmatch};
use halite_wire::{Map, Value};
use ignore::Ignore;
use lists::Lists;
use minionfs::MinionFs;
use request_path::{RequestPath, env_of};
use roots::RootsBackend;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Most bytes of a chunk, whatever `file_buffer_size` says: it must fit in a reply.
const LARGEST_CHUNK: u64 = 64 * 1024 * 1024;
/// Most bytes of a chunk that a minion may ask for. More would not be faster.
pub const MOST_WANTED: usize = 4 << 20;

/// A file that was found.
#[derive(Clone, Debug)]
pub struct Found {
    path: String,
    rel: String,
    stat: Vec<i64>,
    back: &'static str,
    place: ConfinedPath,
}

impl Found {
    /// As stock replies to `_file_find`: `path`, `rel`, `stat`, `back`.
    fn to_value(&self) -> Value {
        let stat: Vec<Value> = self.stat.iter().map(|n| (*n).into()).collect();
        Value::Map(halite_wire::map! {
            "path" => self.path.as_str(), "rel" => self.rel.as_str(), "stat" => stat,
            "back" => self.back,
        })
    }
}

enum Backend {
    Roots(RootsBackend),
    MinionFs(MinionFs),
    Git(Box<GitFs>),
}

impl Backend {
    fn name(&self) -> &'static str {
        match self {
            Backend::Roots(_) => "roots",
            Backend::MinionFs(_) => "minionfs",
            Backend::Git(_) => "gitfs",
        }
    }

    fn envs(&mut self) -> Vec<String> {
        match self {
            Backend::Roots(roots) => roots.envs(),
            Backend::MinionFs(fs) => fs.envs(),
            Backend::Git(git) => git.envs(),
        }
    }

    fn find(&mut self, request: &RequestPath, ignore: &Ignore) -> Option<Found> {
        let RequestPath { path, env, index } = request;
        match self {
            Backend::Roots(roots) => roots.find(path, env, index.as_deref(), ignore),
            Backend::MinionFs(fs) => fs.find(path, env, ignore),
            Backend::Git(git) => git.find(path, env),
        }
    }

    fn lists(&mut self, env: &str, prefix: &str, ignore: &Ignore) -> Arc<Lists> {
        match self {
            Backend::Roots(roots) => roots.lists(env, ignore),
            Backend::MinionFs(fs) => Arc::new(fs.lists(env, prefix, ignore)),
            Backend::Git(git) => Arc::new(git.lists(env)),
        }
    }
}

/// The file server of one process.
pub struct FileServer {
    backends: Vec<Backend>,
    ignore: Ignore,
    hashes: hashes::Hashes,
    hash_type: String,
    chunk: usize,
}

/// The names of the backends that a configuration enables, in Salt's spelling
/// (`salt/config/__init__.py apply_master_config`); unknown ones are skipped.
pub fn backend_names(config: &MasterConfig) -> Vec<&'static str> {
    let names = config.fileserver_backend.iter();
    names.filter_map(|name| backend_name(name)).collect()
}

/// The configured backends that halite does not have.
pub fn absent_backends(config: &MasterConfig) -> impl Iterator<Item = &str> {
    let names = config.fileserver_backend.iter().map(String::as_str);
    names.filter(|name| backend_name(name).is_none())
}

fn backend_name(name: &str) -> Option<&'static str> {
    match name {
        "roots" => Some("roots"),
        "gitfs" | "git" => Some("gitfs"),
        "minionfs" | "minion" => Some("minionfs"),
        _ => None,
    }
}

/// The hash of files and URLs.
fn hash_type(options: &FileServerOptions) -> HashType {
    options.hash_type.parse().unwrap_or(HashType::Sha256)
}

impl FileServer {
    /// A file server with the backends of `options`; unknown ones are logged and skipped.
    pub fn new(options: &FileServerOptions) -> FileServer {
        let mut backends = Vec::new();
        for name in &options.fileserver_backend {
            match backend_name(name) {
                Some("roots") => backends.push(Backend::Roots(RootsBackend::new(options))),
                Some("gitfs") => backends.push(Backend::Git(Box::new(GitFs::new(options)))),
                // As in Salt, it needs `file_recv`.
                Some("minionfs") if options.file_recv => {
                    backends.push(Backend::MinionFs(MinionFs::new(options)));
                }
                Some("minionfs") => {
                    log::warn!("the backend minionfs serves nothing while file_recv is false");
                }
                _ => log::error!("fileserver_backend: there is no backend {name:?}; it is skipped"),
            }
        }
        let hash_type = hash_type(options);
        FileServer {
            backends,
            ignore: Ignore::new(&options.file_ignore_regex, &options.file_ignore_glob),
            hashes: hashes::Hashes::new(hash_type, options.cachedir.join("file_hashes")),
            hash_type: options.hash_type.clone(),
            chunk: usize::try_from(options.file_buffer_size.min(LARGEST_CHUNK)).unwrap_or(1 << 20),
        }
    }

    /// Environments of all backends, sorted.
    pub fn environments(&mut self) -> Vec<String> {
        let envs: BTreeSet<String> = self.backends.iter_mut().flat_map(Backend::envs).collect();
        envs.into_iter().collect()
    }

    /// `_file_envs`: names, or names per backend with `sources`; `back` selects backends.
    pub fn envs(&mut self, load: &Map) -> Value {
        let picked = self.picked(load.get("back"));
        let by_source = load.get("sources").is_some_and(Value::truthy);
        let mut sources = Map::new();
        let mut all = BTreeSet::new();
        for at in picked {
            let backend = &mut self.backends[at];
            let mut envs = backend.envs();
            envs.sort_unstable();
            all.extend(envs.iter().cloned());
            sources.set(backend.name(), envs);
        }
        if by_source {
            Value::Map(sources)
        } else {
            Value::from(all.into_iter().collect::<Vec<String>>())
        }
    }

    /// Indexes of the backends selected by a list or comma-separated text; names such as `-roots`
    /// exclude a backend. Without a selection, all (`Fileserver.backends`).
    fn picked(&self, back: Option<&Value>) -> Vec<usize> {
        let names: Vec<String> = match back.filter(|b| b.truthy()) {
            None => Vec::new(),
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            Some(other) => {
                let text = other.as_str().unwrap_or_default();
                text.split(',').map(str::to_owned).collect()
            }
        };
        if names.iter().all(|name| name.starts_with('-')) {
            let without = |b: &Backend| {
                names
                    .iter()
                    .any(|n| backend_name(&n[1..]) == Some(b.name()))
            };
            let all = self.backends.iter().enumerate();
            return all.filter(|(_, b)| !without(b)).map(|(at, _)| at).collect();
        }
        let at = |name: &String| {
            let name = backend_name(name)?;
            self.backends.iter().position(|b| b.name() == name)
        };
        names.iter().filter_map(at).collect()
    }

    fn find_path(&mut self, path: &str, env: &str) -> Option<Found> {
        self.find_request(&RequestPath::parse(path, env)?)
    }

    fn find_request(&mut self, request: &RequestPath) -> Option<Found> {
        self.backends
            .iter_mut()
            .find_map(|backend| backend.find(request, &self.ignore))
    }

    fn found(&mut self, load: &Map, env: &str) -> Option<Found> {
        let path = load.str("path").filter(|p| !p.is_empty())?;
        self.find_path(path, env)
    }

    /// `_file_find`.
    pub fn find(&mut self, load: &Map) -> Value {
        let env = env_of(load).unwrap_or_else(|| "base".into());
        match self.found(load, &env) {
            Some(found) => found.to_value(),
            None => Value::Map(halite_wire::map! {"path" => "", "rel" => ""}),
        }
    }

    /// `_file_hash`: `""` if no backend has the file.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn hash(&mut self, load: &Map) -> io::Result<Value> {
        Ok(self
            .hash_found(load)?
            .map_or_else(|| "".into(), |(hash, _)| hash))
    }

    /// `_file_hash_and_stat`.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn hash_and_stat(&mut self, load: &Map) -> io::Result<Value> {
        let (hash, stat) = match self.hash_found(load)? {
            Some((hash, stat)) => (
                hash,
                Value::Array(stat.into_iter().map(Value::from).collect()),
            ),
            None => ("".into(), Value::Nil),
        };
        Ok(Value::Array(vec![hash, stat]))
    }

    fn hash_found(&mut self, load: &Map) -> io::Result<Option<(Value, Vec<i64>)>> {
        let Some(env) = env_of(load) else {
            return Ok(None);
        };
        let Some(found) = self.found(load, &env) else {
            return Ok(None);
        };
        let mut hash = Map::new();
        match found.place.open_seen() {
            Ok((file, _)) => {
                hash.set("hash_type", self.hash_type.as_str());
                hash.set("hsum", self.hashes.of(&file)?);
            }
            // Removed since it was found.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        Ok(Some((Value::Map(hash), found.stat)))
    }

    /// `_serve_file`: the chunk of a file at `loc`.
    ///
    /// # Errors
    /// The file exists but cannot be read, or `loc` or `gzip` is invalid.
    pub fn serve(&mut self, load: &Map) -> io::Result<Value> {
        match self.chunk(load)? {
            Served::Answer(answer) => Ok(answer),
            Served::Chunk(chunk) => chunk.answer(),
        }
    }

    /// Like [`FileServer::serve`], but an uncompressed chunk is not read yet.
    ///
    /// # Errors
    /// Those of [`FileServer::serve`].
    pub fn chunk(&mut self, load: &Map) -> io::Result<Served> {
        let nothing = |dest: &str| {
            let answer = halite_wire::map! {"data" => "", "dest" => dest};
            Ok(Served::Answer(Value::Map(answer)))
        };
        let (Some(env), true) = (env_of(load), load.contains("loc")) else {
            return nothing("");
        };
        let Some(found) = self.found(load, &env) else {
            return nothing("");
        };
        if found.back == "roots" {
            match self.roots().and_then(|roots| roots.holds(&env, &found)) {
                Some(true) => {}
                Some(false) => return nothing(&found.rel),
                None => return Ok(Served::Answer(found.to_value())),
            }
        }
        let loc = load.int("loc").and_then(|loc| u64::try_from(loc).ok());
        let loc = loc.ok_or_else(|| io::Error::other("loc is not a position in a file"))?;
        // A halite minion says how much it wants at once, and wants to know when that is the rest.
        let wanted = load.int("chunk").and_then(|n| usize::try_from(n).ok());
        let size = wanted.map_or(self.chunk, |n| n.clamp(1, MOST_WANTED));
        let mut chunk = Chunk::open(&found.place, loc, size, found.rel)?;
        chunk.tells_end(wanted.is_some());
        match load.get("gzip").filter(|level| level.truthy()) {
            Some(level) if !chunk.is_empty() => chunk.compressed(level).map(Served::Answer),
            _ => Ok(Served::Chunk(chunk)),
        }
    }

    fn roots(&self) -> Option<&RootsBackend> {
        self.backends.iter().find_map(|b| match b {
            Backend::Roots(roots) => Some(roots),
            _ => None,
        })
    }

    /// `_file_list`, `_dir_list`, `_file_list_emptydirs`: paths below the prefix, sorted.
    pub fn list(&mut self, load: &Map, kind: FileListKind) -> Value {
        let Some(env) = env_of(load) else {
            return Value::Array(Vec::new());
        };
        let prefix = prefix_of(load);
        let picked = match kind {
            // Stock ignores `fsbackend` here.
            FileListKind::EmptyDirs => self.picked(None),
            _ => self.picked(load.get("fsbackend")),
        };
        self.names(&picked, &env, prefix, kind).into()
    }

    fn names(
        &mut self,
        picked: &[usize],
        env: &str,
        prefix: &str,
        kind: FileListKind,
    ) -> Vec<String> {
        let mut all = Vec::new();
        for at in picked {
            let lists = self.backends[*at].lists(env, prefix, &self.ignore);
            let found = lists
                .get(kind)
                .iter()
                .filter(|path| path.starts_with(prefix));
            all.extend(found.cloned());
        }
        if picked.len() > 1 {
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    /// `_symlink_list`: links and their targets. If several backends have a link, the first
    /// wins (stock only lists the links of the last backend).
    pub fn symlinks(&mut self, load: &Map) -> Value {
        let Some(env) = env_of(load) else {
            return Value::Map(Map::new());
        };
        let prefix = prefix_of(load);
        let mut links = BTreeMap::new();
        for at in self.picked(load.get("fsbackend")) {
            let lists = self.backends[at].lists(&env, prefix, &self.ignore);
            for (path, target) in lists.links.iter().filter(|(p, _)| p.starts_with(prefix)) {
                links.entry(path.clone()).or_insert_with(|| target.clone());
            }
        }
        Value::Map(links.into_iter().collect())
    }
}

fn prefix_of(load: &Map) -> &str {
    load.str("prefix").unwrap_or_default().trim_matches('/')
}

/// Salt's list of a `stat` result: mode, inode, device, links, uid, gid, size, atime, mtime, ctime.
pub fn stat_list(meta: &Metadata) -> Vec<i64> {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    vec![
        meta.mode().into(),
        number(meta.ino()),
        number(meta.dev()),
        number(meta.nlink()),
        meta.uid().into(),
        meta.gid().into(),
        number(meta.size()),
        meta.atime(),
        meta.mtime(),
        meta.ctime(),
    ]
}

/// `salt/utils/stringutils.py check_whitelist_blacklist`: matches the first list, unless that is
/// empty, and does not match the second. Both hold globs or regular expressions.
fn exposed(name: &str, whitelist: &[String], blacklist: &[String]) -> bool {
    let never = blacklist.iter().all(|e| expr_match(name, e) == Ok(false));
    never && (whitelist.is_empty() || whitelist.iter().any(|e| expr_match(name, e) == Ok(true)))
}

/// `salt/utils/stringutils.py expr_match`: equal, or matched as a whole by a glob or a regular expression.
fn expr_match(name: &str, expr: &str) -> Result<bool, RegexLimit> {
    if name == expr || fnmatch(name, expr) {
        return Ok(true);
    }
    PyRegex::new(&format!(r"\A(?:{expr})\Z")).map_or(Ok(false), |regex| regex.matches(name))
}

#[cfg(test)]
mod tests;
