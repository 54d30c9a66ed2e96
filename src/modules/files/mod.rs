//! The minion's file client (`salt/fileclient.py`): files from the master's file server or, with `file_client:
//! local`, from this host's `file_roots`, cached in `cachedir/files`.
//!
//! Both sources answer the same loads, so there is one client: over the [`Link`] to the master, or to an in-process
//! file server.

mod cache;
mod fetch;
pub mod url;
mod web;

#[cfg(test)]
mod tests;

pub use cache::FileFilter;
pub use fetch::GetFile;
pub use web::{Downloaded, GetUrl};

use crate::context::{CallError, Context};
use halite_channel::link::{Link, LinkError};
use halite_channel::session::lock;
use halite_config::FileServerOptions;
use halite_crypto::HashType;
use halite_store::files::{FileListKind, FileServer, stat_list};
use halite_sys::safe_open::open_finite;
use halite_wire::{Map, Value};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of content kept in memory.
pub const MAX_CONTENT: u64 = 256 << 20;

/// Why there is no file, although the file server may have it.
#[derive(Debug)]
pub enum FileError {
    /// The master is unreachable.
    Link(LinkError),
    /// Local file system error.
    Io(PathBuf, io::Error),
    /// The URL is not one of the file server.
    Unsupported(String),
    /// The file server's answer is invalid.
    Answer(String),
    /// Error of a web server, or an invalid URL.
    Web(String),
    /// A local path that is not absolute.
    Relative(String),
    /// The web server has no newer version.
    Unchanged,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::Link(LinkError::Silence) => f.write_str("File client timed out"),
            FileError::Link(e) => e.fmt(f),
            FileError::Io(path, e) => write!(f, "{}: {e}", path.display()),
            FileError::Unsupported(path) => write!(f, "Unsupported path: {path}"),
            FileError::Answer(what) => write!(f, "invalid answer from the file server: {what}"),
            FileError::Web(what) => f.write_str(what),
            FileError::Relative(path) => write!(f, "Path '{path}' is not absolute"),
            FileError::Unchanged => f.write_str("the file is the same as before"),
        }
    }
}

impl std::error::Error for FileError {}

impl From<FileError> for CallError {
    fn from(e: FileError) -> CallError {
        let class = match &e {
            FileError::Link(_) => "SaltClientError",
            FileError::Io(path, e) => {
                return crate::python::os_error(e, &path.to_string_lossy());
            }
            FileError::Relative(_) => return CallError::Command(e.to_string()),
            FileError::Unsupported(_)
            | FileError::Answer(_)
            | FileError::Web(_)
            | FileError::Unchanged => "salt.exceptions.MinionError",
        };
        CallError::raised(class, e.to_string())
    }
}

/// Result of the file client's functions.
pub type Result<T> = std::result::Result<T, FileError>;

/// The digest of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileHash {
    /// Hash type, by Salt's name.
    pub hash_type: String,
    /// Hexadecimal digits.
    pub hsum: String,
}

impl FileHash {
    /// The form of `cp.hash_file`.
    pub fn to_map(&self) -> Map {
        halite_wire::map! {"hash_type" => self.hash_type.as_str(), "hsum" => self.hsum.as_str()}
    }
}

enum Source {
    Remote(Link),
    Local(Box<Mutex<FileServer>>),
}

/// A job's file client.
pub struct FileClient {
    source: Source,
    cachedir: PathBuf,
    hash: HashType,
}

impl FileClient {
    /// The client according to a job's options.
    ///
    /// # Errors
    /// With `file_client: local`, invalid file server options.
    pub fn new(ctx: &Context) -> Result<FileClient> {
        let local = ctx.opts.str("file_client") == Some("local");
        let source = match local {
            true => Source::Local(Box::new(Mutex::new(local_server(ctx)?))),
            false => Source::Remote(ctx.master.clone()),
        };
        Ok(FileClient {
            source,
            cachedir: ctx.cachedir.clone(),
            hash: ctx
                .opts
                .str("hash_type")
                .and_then(|h| h.parse().ok())
                .unwrap_or_default(),
        })
    }

    /// Paths of all files of an environment with a prefix.
    ///
    /// # Errors
    /// The file server is unreachable.
    pub fn list(&self, saltenv: &str, prefix: &str) -> Result<Vec<String>> {
        self.listing("_file_list", saltenv, prefix)
    }

    /// Paths of all directories, as [`FileClient::list`].
    ///
    /// # Errors
    /// The file server is unreachable.
    pub fn dirs(&self, saltenv: &str, prefix: &str) -> Result<Vec<String>> {
        self.listing("_dir_list", saltenv, prefix)
    }

    /// Paths of empty directories, as [`FileClient::list`].
    ///
    /// # Errors
    /// The file server is unreachable.
    pub fn empty_dirs(&self, saltenv: &str, prefix: &str) -> Result<Vec<String>> {
        self.listing("_file_list_emptydirs", saltenv, prefix)
    }

    fn listing(&self, cmd: &str, saltenv: &str, prefix: &str) -> Result<Vec<String>> {
        let load = halite_wire::map! {"saltenv" => saltenv, "prefix" => prefix, "cmd" => cmd};
        Ok(self.request(&load)?.str_list())
    }

    /// Symbolic links and their targets.
    ///
    /// # Errors
    /// The file server is unreachable.
    pub fn links(&self, saltenv: &str, prefix: &str) -> Result<Map> {
        let load =
            halite_wire::map! {"saltenv" => saltenv, "prefix" => prefix, "cmd" => "_symlink_list"};
        Ok(self.request(&load)?.into_map().unwrap_or_default())
    }

    /// The environments of the file server.
    ///
    /// # Errors
    /// The file server is unreachable.
    pub fn envs(&self) -> Result<Vec<String>> {
        Ok(self
            .request(&halite_wire::map! {"cmd" => "_file_envs"})?
            .str_list())
    }

    /// Master options needed by states (`_master_opts`); none with `file_client: local`.
    ///
    /// # Errors
    /// The master is unreachable.
    pub fn master_opts(&self) -> Result<Map> {
        self.map(&halite_wire::map! {"cmd" => "_master_opts"})
    }

    /// The result of `master_tops` for this minion; empty with `file_client: local`.
    ///
    /// # Errors
    /// The master is unreachable.
    pub fn master_tops(&self, id: &str, opts: &Map) -> Result<Map> {
        self.map(&halite_wire::map! {"cmd" => "_master_tops", "id" => id, "opts" => opts.clone()})
    }

    fn map(&self, load: &Map) -> Result<Map> {
        Ok(self.request(load)?.into_map().unwrap_or_default())
    }

    /// The hash of a `salt://` URL as known by the server, or of a local absolute path; `None` if the file does not
    /// exist.
    ///
    /// # Errors
    /// The file server is unreachable, or the local file cannot be read.
    pub fn hash(&self, path: &str, saltenv: &str) -> Result<Option<FileHash>> {
        if !path.starts_with(url::SCHEME) {
            return self.hash_here(Path::new(path), self.hash);
        }
        let (path, env) = url::parse(path);
        let saltenv = env.unwrap_or(saltenv);
        let load = halite_wire::map! {"path" => path, "saltenv" => saltenv, "cmd" => "_file_hash"};
        let answer = self.map(&load)?;
        let (Some(hash_type), Some(hsum)) = (answer.str("hash_type"), answer.str("hsum")) else {
            return Ok(None);
        };
        Ok(Some(FileHash {
            hash_type: hash_type.to_owned(),
            hsum: hsum.to_owned(),
        }))
    }

    /// Like [`FileClient::hash`], with the ten numbers of Python's `os.stat` if known.
    ///
    /// # Errors
    /// As [`FileClient::hash`].
    pub fn hash_and_stat(&self, path: &str, saltenv: &str) -> Result<(Option<FileHash>, Value)> {
        let hash = self.hash(path, saltenv)?;
        if !path.starts_with(url::SCHEME) {
            let stat = std::fs::metadata(path).map_or(Value::Nil, |meta| {
                stat_list(&meta)
                    .into_iter()
                    .map(Value::Int)
                    .collect::<Vec<_>>()
                    .into()
            });
            return Ok((hash, stat));
        }
        let (path, env) = url::parse(path);
        let saltenv = env.unwrap_or(saltenv);
        let load = halite_wire::map! {"path" => path, "saltenv" => saltenv, "cmd" => "_file_find"};
        let stat = self.map(&load)?.remove("stat").unwrap_or_default();
        Ok((hash, stat))
    }

    fn hash_here(&self, path: &Path, kind: HashType) -> Result<Option<FileHash>> {
        if !path.is_file() {
            return Ok(None);
        }
        let hsum = hash_file(path, kind).map_err(|e| FileError::Io(path.to_owned(), e))?;
        Ok(Some(FileHash {
            hash_type: kind.name().to_owned(),
            hsum,
        }))
    }

    /// Sends a request to the file server.
    fn request(&self, load: &Map) -> Result<Value> {
        match &self.source {
            Source::Remote(link) => link.call(load).map_err(FileError::Link),
            Source::Local(server) => {
                let address = || url::create(load.str("path").unwrap_or_default(), None);
                serve(&mut lock(server), load).map_err(|e| FileError::Io(address().into(), e))
            }
        }
    }
}

/// The digest of a file.
///
/// # Errors
/// It cannot be read.
pub fn hash_file(path: &Path, kind: HashType) -> io::Result<String> {
    kind.hex_of(open_finite(path)?)
}

/// A file server for this host's `file_roots` (`salt/fileserver/__init__.py FSChan`).
/// The options of the last file server: a run makes several for each file, all with the same configuration.
static LAST_OPTIONS: Mutex<Option<(Arc<Map>, FileServerOptions)>> = Mutex::new(None);

fn local_options(opts: &Arc<Map>) -> Result<FileServerOptions> {
    let mut last = LAST_OPTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, options)) = &*last
        && Arc::ptr_eq(known, opts)
    {
        return Ok(options.clone());
    }
    let options =
        FileServerOptions::of_minion(opts).map_err(|e| FileError::Answer(e.to_string()))?;
    *last = Some((opts.clone(), options.clone()));
    Ok(options)
}

fn local_server(ctx: &Context) -> Result<FileServer> {
    let mut options = local_options(&ctx.opts)?;
    options.cachedir.clone_from(&ctx.cachedir);
    // A state applied right after an edit must see the new file.
    Ok(FileServer::new(&options.uncached()))
}

fn serve(server: &mut FileServer, load: &Map) -> io::Result<Value> {
    match load.str("cmd").unwrap_or_default() {
        "_file_list" => Ok(server.list(load, FileListKind::Files)),
        "_dir_list" => Ok(server.list(load, FileListKind::Dirs)),
        "_file_list_emptydirs" => Ok(server.list(load, FileListKind::EmptyDirs)),
        "_symlink_list" => Ok(server.symlinks(load)),
        "_file_envs" => Ok(server.envs(load)),
        "_file_find" => Ok(server.find(load)),
        "_file_hash" => server.hash(load),
        "_serve_file" => server.serve(load),
        _ => Ok(Value::Map(Map::new())),
    }
}
