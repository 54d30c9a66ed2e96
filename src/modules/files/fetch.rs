//! Fetches one file from the file server (`salt/fileclient.py RemoteClient.get_file`).

use super::{FileClient, FileError, FileHash, MAX_CONTENT, Result, Source, url};
use flate2::read::GzDecoder;
use halite_channel::link::Link;
use halite_crypto::HashType;
use halite_sys::safe_open::read_finite;
use halite_wire::{Map, Value};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Attempts to fetch a file whose hash differs from the server's.
const MAX_ATTEMPTS: u32 = 3;
/// Bytes of a chunk that a halite master is asked for; it gives up to 4 MiB. Each request under way takes twice as much memory.
const WANTED_CHUNK: i64 = 2 << 20;
/// Requests under way for a file of several chunks.
const AT_ONCE: usize = 2;
/// Maximum size of an unpacked chunk.
const MAX_CHUNK: u64 = 256 << 20;

/// What to fetch, and where to.
#[derive(Clone, Debug, Default)]
pub struct GetFile<'a> {
    /// `salt://...`.
    pub url: &'a str,
    /// The environment, unless the URL has one.
    pub saltenv: &'a str,
    /// A file, or a directory to put it in; empty for the cache.
    pub dest: &'a str,
    /// Create the directories of `dest`.
    pub makedirs: bool,
    /// Compression level for the transfer, from 1 to 9.
    pub gzip: Option<i64>,
    /// Another `cachedir`; relative to the default one.
    pub cachedir: Option<&'a str>,
    /// The hash on the server, if it was just asked for.
    pub hash: Option<&'a FileHash>,
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

/// What became of fetching a file.
enum Fetched {
    /// It has the right hash.
    Same,
    /// It has another hash.
    Different,
    /// The server does not have it.
    Gone,
}

impl FileClient {
    /// Fetches a file unless the local copy is the same; returns its path. `None`: the file does not exist, or the
    /// directory of `dest` is missing.
    ///
    /// # Errors
    /// The URL is not one of the file server, the server is unreachable, or a file cannot be written.
    pub fn get_file(&self, get: &GetFile<'_>) -> Result<Option<PathBuf>> {
        if !get.url.starts_with(url::SCHEME) {
            return Err(FileError::Unsupported(get.url.to_owned()));
        }
        let (path, env) = url::parse(get.url);
        let saltenv = env.unwrap_or(get.saltenv);
        let address = url::create(path, None);
        let there = match get.hash {
            Some(hash) => Some(hash.clone()),
            None => self.hash(&address, saltenv)?,
        };
        let Some(mut there) = there else {
            log::debug!("{path} does not exist on the file server in {saltenv}");
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
        for attempt in 1..=MAX_ATTEMPTS {
            let load =
                halite_wire::map! {"path" => path, "saltenv" => saltenv, "cmd" => "_serve_file"};
            let found = match cached {
                true => self.fetch_whole(load, &dest, kind, &there)?,
                false => self.fetch_over(load, &dest, kind, &there, get.gzip)?,
            };
            match found {
                Fetched::Gone => return Ok(None),
                Fetched::Same => return Ok(Some(dest)),
                Fetched::Different => {}
            }
            // It has changed on the server meanwhile.
            log::warn!(
                "{path}: hash differs from the file server's, attempt {attempt} of {MAX_ATTEMPTS}"
            );
            match self.hash(&address, saltenv)? {
                Some(hash) => there = hash,
                None => return Ok(None),
            }
        }
        Err(FileError::Answer(format!(
            "{path}: the content does not have the hash that the file server tells"
        )))
    }

    /// A file's content, through the cache; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`FileClient::get_file`].
    pub fn contents(&self, url: &str, saltenv: &str) -> Result<Option<Vec<u8>>> {
        let Some(path) = self.get_file(&GetFile::new(url, saltenv))? else {
            return Ok(None);
        };
        let bytes = read_finite(&path, MAX_CONTENT);
        bytes.map(Some).map_err(|e| FileError::Io(path, e))
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

    /// Cache path of a file in an environment.
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
        // A relative path is joined, an absolute one replaces it.
        other.map_or_else(|| self.cachedir.clone(), |other| self.cachedir.join(other))
    }

    fn is_same(&self, dest: &Path, kind: Option<HashType>, there: &FileHash) -> Result<bool> {
        let Some(kind) = kind else {
            return Ok(false);
        };
        let here = self.hash_here(dest, kind)?;
        Ok(here.is_some_and(|here| here == *there))
    }

    /// Fetches into the cache atomically. A file with another hash is not put there.
    fn fetch_whole(
        &self,
        load: Map,
        dest: &Path,
        kind: Option<HashType>,
        there: &FileHash,
    ) -> Result<Fetched> {
        let failed = |e: io::Error| FileError::Io(dest.to_owned(), e);
        let dir = dest.parent().unwrap_or(Path::new("/"));
        make_cache_dir(&self.cachedir, dir).map_err(failed)?;
        let mut part = PartFile::create(dir, 0o600).map_err(failed)?;
        if !self.fetch_chunks(load, &mut part.file, dest)? {
            return Ok(Fetched::Gone);
        }
        if let Some(kind) = kind {
            part.file.rewind().map_err(failed)?;
            if kind.hex_of(&part.file).map_err(failed)? != there.hsum {
                return Ok(Fetched::Different);
            }
        }
        if dest.is_dir() {
            std::fs::remove_dir_all(dest).map_err(failed)?;
        }
        part.place(dest).map_err(failed)?;
        Ok(Fetched::Same)
    }

    /// Overwrites the file in place, keeping its mode, owner and links.
    fn fetch_over(
        &self,
        mut load: Map,
        dest: &Path,
        kind: Option<HashType>,
        there: &FileHash,
        gzip: Option<i64>,
    ) -> Result<Fetched> {
        if let Some(level) = gzip.filter(|level| *level > 0) {
            load.set("gzip", level);
        }
        let mut file = File::create(dest).map_err(|e| FileError::Io(dest.to_owned(), e))?;
        Ok(if !self.fetch_chunks(load, &mut file, dest)? {
            Fetched::Gone
        } else if kind.is_none() || self.is_same(dest, kind, there)? {
            Fetched::Same
        } else {
            Fetched::Different
        })
    }

    /// Fetches the file in chunks; false if the server does not have it (any more).
    fn fetch_chunks(&self, mut load: Map, file: &mut File, dest: &Path) -> Result<bool> {
        // Stock's masters pass over it.
        load.set("chunk", WANTED_CHUNK);
        let mut sink = Sink { file, dest, at: 0 };
        let mut is_first = true;
        loop {
            load.set("loc", sink.at);
            let chunk = Chunk::parse(self.request(&load)?, &load, dest)?;
            if let Some(known) = sink.write(&chunk)? {
                return Ok(known);
            }
            if let (true, Source::Remote(link)) = (is_first, &self.source)
                && let Some(known) = fetch_at_once(link, &load, chunk.data.len(), &mut sink)?
            {
                return Ok(known);
            }
            is_first = false;
        }
    }
}

/// A chunk as the server sent it.
struct Chunk {
    data: Vec<u8>,
    /// Whether the file ends with it; only halite's masters tell.
    is_last: bool,
    /// Whether the server has the file. Of one that is there, the answer tells where it goes (`salt/fileserver/roots.py
    /// serve_file`).
    is_known: bool,
}

impl Chunk {
    /// The answer to `load`.
    fn parse(answer: Value, load: &Map, dest: &Path) -> Result<Chunk> {
        let invalid = || FileError::Answer(format!("a chunk of {}", dest.display()));
        let mut answer = answer.into_map().ok_or_else(invalid)?;
        let data = match answer.remove("data") {
            Some(Value::Bytes(bytes)) => bytes,
            Some(Value::Str(text)) => text.into_bytes(),
            _ => return Err(invalid()),
        };
        let is_packed = !data.is_empty() && answer.get("gzip").is_some_and(Value::truthy);
        if is_packed && !load.contains("gzip") {
            return Err(invalid());
        }
        Ok(Chunk {
            data: match is_packed {
                true => unpack(&data).map_err(|e| FileError::Io(dest.to_owned(), e))?,
                false => data,
            },
            is_last: answer.get("end").is_some_and(Value::truthy),
            is_known: answer.str("dest").is_some_and(|dest| !dest.is_empty()),
        })
    }
}

/// Where the chunks go, one after the other.
struct Sink<'a> {
    file: &'a mut File,
    dest: &'a Path,
    at: u64,
}

impl Sink<'_> {
    /// Writes the chunk that starts at `at`. At the end of the file, whether the server has it.
    fn write(&mut self, chunk: &Chunk) -> Result<Option<bool>> {
        if chunk.data.is_empty() {
            return Ok(Some(chunk.is_known));
        }
        let failed = |e: io::Error| FileError::Io(self.dest.to_owned(), e);
        self.file.write_all(&chunk.data).map_err(failed)?;
        self.at += chunk.data.len() as u64;
        Ok(chunk.is_last.then_some(true))
    }
}

/// Fetches chunks of `size` bytes with [`AT_ONCE`] requests under way, so that neither the network nor the master waits for this
/// end. `None` if a chunk has another size: the caller goes on from there.
///
/// Each has a thread and a connection of its own. At the end of the file, nobody waits for a request that is past it.
fn fetch_at_once(
    link: &Link,
    load: &Map,
    size: usize,
    sink: &mut Sink<'_>,
) -> Result<Option<bool>> {
    let (size, mut lanes) = (size as u64, Vec::with_capacity(AT_ONCE));
    for n in 0..AT_ONCE as u64 {
        let Ok(link) = link.beside() else {
            return Ok(None);
        };
        // A chunk waits with its thread until it is its turn, so that no more of them are in memory.
        let (to, lane) = std::sync::mpsc::sync_channel(0);
        let (mut load, mut at) = (load.clone(), sink.at + n * size);
        let dest = sink.dest.to_owned();
        let fetch = move || loop {
            load.set("loc", at);
            let answer = link.call(&load).map_err(FileError::Link);
            let chunk = answer.and_then(|answer| Chunk::parse(answer, &load, &dest));
            let goes_on = |chunk: &Chunk| chunk.data.len() as u64 == size && !chunk.is_last;
            let is_over = !chunk.as_ref().is_ok_and(goes_on);
            if to.send(chunk).is_err() || is_over {
                return;
            }
            at += AT_ONCE as u64 * size;
        };
        if std::thread::Builder::new().spawn(fetch).is_err() {
            return Ok(None);
        }
        lanes.push(lane);
    }
    for lane in lanes.iter().cycle() {
        let Ok(chunk) = lane.recv() else {
            break;
        };
        let chunk = chunk?;
        if let Some(known) = sink.write(&chunk)? {
            return Ok(Some(known));
        }
        if chunk.data.len() as u64 != size {
            break;
        }
    }
    Ok(None)
}

/// A file that is being fetched, beside its place; removed unless it gets there. Nobody can foretell its name, and it
/// must not exist: whoever may write to the directory cannot lead this process elsewhere.
pub(super) struct PartFile {
    pub file: File,
    path: PathBuf,
    placed: bool,
}

impl PartFile {
    pub fn create(dir: &Path, mode: u32) -> io::Result<PartFile> {
        let path = dir.join(format!(".{:016x}.part", rand::random::<u64>()));
        let mut open = OpenOptions::new();
        open.read(true).write(true).create_new(true).mode(mode);
        let file = open.open(&path)?;
        Ok(PartFile {
            file,
            path,
            placed: false,
        })
    }

    pub fn place(mut self, place: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, place)?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.placed {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn unpack(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let most = MAX_CHUNK + 1;
    GzDecoder::new(data).take(most).read_to_end(&mut out)?;
    match out.len() as u64 > MAX_CHUNK {
        true => Err(io::Error::other("an unpacked chunk is too large")),
        false => Ok(out),
    }
}

/// Creates a cache directory, accessible only to this user. A file in its place is an outdated copy and is removed.
pub(super) fn make_cache_dir(cachedir: &Path, dir: &Path) -> io::Result<()> {
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
