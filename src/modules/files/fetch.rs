//! One file from the file server (`salt/fileclient.py RemoteClient.get_file`).

use super::{FileClient, FileError, FileHash, Result, url};
use flate2::read::GzDecoder;
use halite_crypto::HashType;
use halite_wire::{Map, Value};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a file is fetched whose digest turns out to be another one than the server's.
const TRIES: u32 = 3;
/// Largest piece after it was unpacked.
const MAX_PIECE: u64 = 256 << 20;

/// What to fetch, and where to.
#[derive(Clone, Debug, Default)]
pub struct GetFile<'a> {
    /// `salt://...`.
    pub url: &'a str,
    /// The environment, unless the address names one.
    pub saltenv: &'a str,
    /// A file, or a directory to put it in; empty is the cache.
    pub dest: &'a str,
    /// Make the directories of `dest`.
    pub makedirs: bool,
    /// Compress on the way, from 1 to 9.
    pub gzip: Option<i64>,
    /// Another `cachedir`; a relative one is below the usual.
    pub cachedir: Option<&'a str>,
}

impl<'a> GetFile<'a> {
    /// Into the cache.
    pub fn new(url: &'a str, saltenv: &'a str) -> GetFile<'a> {
        GetFile {
            url,
            saltenv,
            ..GetFile::default()
        }
    }
}

impl FileClient {
    /// Fetches a file unless the copy here is the same; says where it is. `None`: the server has no
    /// such file, or the directory of `dest` is missing.
    ///
    /// # Errors
    /// The address is none of the file server, the server cannot be asked, or nothing can be written.
    pub fn get_file(&self, get: &GetFile<'_>) -> Result<Option<PathBuf>> {
        if !get.url.starts_with(url::SCHEME) {
            return Err(FileError::Unsupported(get.url.to_owned()));
        }
        let (path, env) = url::parse(get.url);
        let saltenv = env.unwrap_or(get.saltenv);
        let address = url::create(path, None);
        let Some(there) = self.hash(&address, saltenv)? else {
            log::debug!("the file server has no {path} in {saltenv}");
            return Ok(None);
        };
        let Some(dest) = self.destination(get, path, saltenv)? else {
            return Ok(None);
        };
        let kind: Option<HashType> = there.hash_type.parse().ok();
        if self.is_same(&dest, kind, &there)? {
            return Ok(Some(dest));
        }
        let cached = get.dest.is_empty();
        for attempt in 1..=TRIES {
            let load =
                halite_wire::map! {"path" => path, "saltenv" => saltenv, "cmd" => "_serve_file"};
            match cached {
                true => self.fetch_whole(load, &dest)?,
                false => self.fetch_over(load, &dest, get.gzip)?,
            }
            if kind.is_none() || self.is_same(&dest, kind, &there)? {
                break;
            }
            // It may have changed on the server meanwhile.
            log::warn!(
                "{path} came with another digest than announced, attempt {attempt} of {TRIES}"
            );
        }
        Ok(Some(dest))
    }

    /// The content of a file, by way of the cache; `None` if the server has no such file.
    ///
    /// # Errors
    /// As [`FileClient::get_file`].
    pub fn contents(&self, url: &str, saltenv: &str) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.get_file(&GetFile::new(url, saltenv))? else {
            return Ok(None);
        };
        let bytes = std::fs::read(&path).map_err(|e| FileError::Io(path, e))?;
        Ok(Some(bytes))
    }

    fn destination(&self, get: &GetFile<'_>, path: &str, saltenv: &str) -> Result<Option<PathBuf>> {
        if get.dest.is_empty() {
            return self.cache_place(path, saltenv, get.cachedir).map(Some);
        }
        let mut dest = PathBuf::from(get.dest);
        if get.dest.ends_with('/') || dest.is_dir() {
            dest.push(path.rsplit('/').next().unwrap_or(path));
        }
        let dir = dest.parent().unwrap_or(Path::new("/"));
        if dir.as_os_str().is_empty() || dir.is_dir() {
            return Ok(Some(dest));
        }
        if !get.makedirs {
            return Ok(None);
        }
        std::fs::create_dir_all(dir).map_err(|e| FileError::Io(dir.to_owned(), e))?;
        Ok(Some(dest))
    }

    /// Where a path of an environment is kept.
    pub(super) fn cache_place(
        &self,
        path: &str,
        saltenv: &str,
        cachedir: Option<&str>,
    ) -> Result<PathBuf> {
        let refused = || FileError::Unsupported(format!("{path} (saltenv {saltenv})"));
        let below = url::relative_path(path).ok_or_else(refused)?;
        let env = url::relative_path(saltenv).ok_or_else(refused)?;
        Ok(self
            .cache_root(cachedir)
            .join("files")
            .join(env)
            .join(below))
    }

    /// `cachedir`, or another one for a single call.
    pub fn cache_root(&self, other: Option<&str>) -> PathBuf {
        // A relative one is joined, an absolute one replaces it.
        other.map_or_else(|| self.cachedir.clone(), |other| self.cachedir.join(other))
    }

    fn is_same(&self, dest: &Path, kind: Option<HashType>, there: &FileHash) -> Result<bool> {
        let Some(kind) = kind else {
            return Ok(false);
        };
        let here = self.hash_here(dest, kind)?;
        Ok(here.is_some_and(|here| here == *there))
    }

    /// Into the cache: whole or not at all.
    fn fetch_whole(&self, load: Map, dest: &Path) -> Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let failed = |e: io::Error| FileError::Io(dest.to_owned(), e);
        let dir = dest.parent().unwrap_or(Path::new("/"));
        make_cache_dir(&self.cachedir, dir).map_err(failed)?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let part = dir.join(format!(".{}-{count}.part", std::process::id()));
        let mut open = OpenOptions::new();
        let open = open.write(true).create(true).truncate(true).mode(0o600);
        let written = open.open(&part).map_err(failed).and_then(|mut file| {
            self.fetch_chunks(load, &mut file, dest)?;
            if dest.is_dir() {
                std::fs::remove_dir_all(dest).map_err(failed)?;
            }
            std::fs::rename(&part, dest).map_err(failed)
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        written
    }

    /// Into the file itself, whose mode, owner and links stay.
    fn fetch_over(&self, mut load: Map, dest: &Path, gzip: Option<i64>) -> Result<()> {
        if let Some(level) = gzip.filter(|level| *level > 0) {
            load.set("gzip", level);
        }
        let mut file = File::create(dest).map_err(|e| FileError::Io(dest.to_owned(), e))?;
        self.fetch_chunks(load, &mut file, dest)
    }

    /// Fetches piece after piece.
    fn fetch_chunks(&self, mut load: Map, file: &mut File, dest: &Path) -> Result<()> {
        let mut at: u64 = 0;
        loop {
            load.set("loc", at);
            let answer = self.request(&load)?;
            let Some(answer) = answer.as_map() else {
                return Err(FileError::Answer(format!("a piece of {}", dest.display())));
            };
            let data = match answer.get("data") {
                Some(Value::Bytes(bytes)) => bytes.as_slice(),
                Some(Value::Str(text)) => text.as_bytes(),
                _ => return Err(FileError::Answer(format!("a piece of {}", dest.display()))),
            };
            if data.is_empty() {
                return Ok(());
            }
            let failed = |e: io::Error| FileError::Io(dest.to_owned(), e);
            let unpacked;
            let data = match answer.get("gzip").is_some_and(Value::truthy) {
                true => {
                    unpacked = unpack(data).map_err(failed)?;
                    &unpacked
                }
                false => data,
            };
            file.write_all(data).map_err(failed)?;
            at += data.len() as u64;
        }
    }
}

fn unpack(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    GzDecoder::new(data).take(MAX_PIECE).read_to_end(&mut out)?;
    Ok(out)
}

/// Makes a directory of the cache, for this account alone. A file that lies in the way was another
/// thing on the server before, and goes.
fn make_cache_dir(cachedir: &Path, dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Ok(below) = dir.strip_prefix(cachedir) {
        let mut at = cachedir.to_owned();
        for part in below {
            at.push(part);
            if at.is_file() {
                std::fs::remove_file(&at)?;
                break;
            }
        }
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
