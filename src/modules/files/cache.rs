//! Caching whole directories, and the content of the cache.

use super::fetch::GetFile;
use super::{Downloaded, FileClient, FileError, GetUrl, Result, url};
use halite_config::paths::minion::cache;
use halite_crypto::HashType;
use halite_render::files::{sls_files, sls_name};
use halite_target::{PyRegex, fnmatch};
use halite_wire::{Map, Value};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum length of a file name kept in `extrn_files`.
const MAX_NAME: usize = 255;

/// Selects files of a directory by globs, or by regular expressions after `E@`. Empty selects all.
#[derive(Clone, Debug, Default)]
pub struct FileFilter {
    /// At least one must match, if there are any.
    pub include: Vec<String>,
    /// None may match.
    pub exclude: Vec<String>,
}

impl FileFilter {
    /// From `include_pat` and `exclude_pat`, each text or a list.
    pub fn new(include: &Value, exclude: &Value) -> FileFilter {
        let list = |value: &Value| match value {
            Value::Str(text) if !text.is_empty() => vec![text.clone()],
            other => other.str_list(),
        };
        FileFilter {
            include: list(include),
            exclude: list(exclude),
        }
    }

    /// Whether a path is selected (`salt/utils/stringutils.py check_include_exclude`).
    pub fn selects(&self, path: &str) -> bool {
        let hit = |pattern: &String| match pattern.strip_prefix("E@") {
            Some(regex) => {
                let regex = PyRegex::new(&format!("(?s:.*?)(?:{regex})"));
                regex.is_ok_and(|regex| regex.matches(path) == Ok(true))
            }
            None => fnmatch(path, pattern),
        };
        (self.include.is_empty() || self.include.iter().any(hit)) && !self.exclude.iter().any(hit)
    }
}

impl FileClient {
    /// Caches a file and returns its path; `None` if it does not exist. Absolute paths and `file://` are local files,
    /// used in place.
    ///
    /// # Errors
    /// As [`FileClient::get_url`].
    pub fn cache_file(&self, path: &str, saltenv: &str) -> Result<Option<PathBuf>> {
        Ok(match self.get_url(&GetUrl::new(path, saltenv))? {
            Some(Downloaded::File(place)) => Some(place),
            _ => None,
        })
    }

    /// Caches all files of an environment.
    ///
    /// # Errors
    /// As [`FileClient::get_file`].
    pub fn cache_master(&self, saltenv: &str) -> Result<Vec<PathBuf>> {
        let mut cached = Vec::new();
        for path in self.list(saltenv, "")? {
            cached.extend(self.cache_file(&url::create(&path, None), saltenv)?);
        }
        Ok(cached)
    }

    /// Caches a directory and returns its files.
    ///
    /// # Errors
    /// As [`FileClient::get_file`].
    pub fn cache_dir(
        &self,
        dir: &str,
        saltenv: &str,
        include_empty: bool,
        pick: &FileFilter,
        cachedir: Option<&str>,
    ) -> Result<Vec<PathBuf>> {
        if !dir.starts_with(url::SCHEME) {
            return Err(FileError::Unsupported(dir.to_owned()));
        }
        let dir = url::parse(dir).0;
        let dir = format!("{}/", dir.trim_end_matches('/'));
        let mut cached = Vec::new();
        for path in self.list(saltenv, "")? {
            if path.starts_with(&dir) && pick.selects(&path) {
                let url = url::create(&path, None);
                let mut get = GetFile::new(&url, saltenv);
                get.cachedir = cachedir;
                cached.extend(self.get_file(&get)?);
            }
        }
        let empty = match include_empty {
            true => self.empty_dirs(saltenv, "")?,
            false => Vec::new(),
        };
        for path in empty.iter().filter(|path| path.starts_with(&dir)) {
            let place = self.cache_place(path, saltenv, cachedir)?;
            std::fs::create_dir_all(&place).map_err(|e| FileError::Io(place.clone(), e))?;
            cached.push(place);
        }
        Ok(cached)
    }

    /// Copies a directory of the file server below `dest`; returns the sorted files.
    ///
    /// # Errors
    /// As [`FileClient::get_file`].
    pub fn get_dir(
        &self,
        dir: &str,
        dest: &str,
        saltenv: &str,
        gzip: Option<i64>,
    ) -> Result<Vec<String>> {
        if !dir.starts_with(url::SCHEME) {
            return Err(FileError::Unsupported(dir.to_owned()));
        }
        let (dir, env) = url::parse(dir);
        let saltenv = env.unwrap_or(saltenv);
        let dir = dir.trim_end_matches('/');
        let above = dir.rsplit_once('/').map_or("", |(above, _)| above);
        // `salt://foo` is not a parent of `salt://foobar`.
        let below = |path: &str| -> Option<String> {
            path.strip_prefix(dir)?.strip_prefix('/')?;
            let own = path.strip_prefix(above)?.trim_start_matches('/');
            url::relative_path(own).map(|own| format!("{dest}/{own}"))
        };
        let mut got = Vec::new();
        for path in self.list(saltenv, dir)? {
            let Some(place) = below(&path) else {
                continue;
            };
            let url = url::create(&path, None);
            let get = GetFile {
                dest: &place,
                makedirs: true,
                gzip,
                ..GetFile::new(&url, saltenv)
            };
            let there = self.get_file(&get)?;
            got.extend(there.map(|p| p.to_string_lossy().into_owned()));
        }
        for path in self.empty_dirs(saltenv, dir)? {
            let Some(place) = below(&path) else {
                continue;
            };
            std::fs::create_dir_all(&place).map_err(|e| FileError::Io(place.clone().into(), e))?;
            got.push(place);
        }
        got.sort();
        Ok(got)
    }

    /// The sorted names of an environment's SLS files.
    ///
    /// # Errors
    /// The file server is unreachable.
    pub fn states(&self, saltenv: &str) -> Result<Vec<String>> {
        let files = self.list(saltenv, "")?;
        let names: BTreeSet<String> = files.iter().filter_map(|path| sls_name(path)).collect();
        Ok(names.into_iter().collect())
    }

    /// Caches an SLS file; returns its URL and local path.
    ///
    /// # Errors
    /// As [`FileClient::get_file`].
    pub fn state(&self, sls: &str, saltenv: &str) -> Result<Option<(String, PathBuf)>> {
        for (path, _) in sls_files(sls) {
            let url = url::create(&path, None);
            if let Some(place) = self.get_file(&GetFile::new(&url, saltenv))? {
                return Ok(Some((url, place)));
            }
        }
        Ok(None)
    }

    /// The cached path of a file, if it is cached (`Client.is_cached`).
    pub fn is_cached(&self, path: &str, saltenv: &str) -> Option<String> {
        let (path, env) = url::parse(path);
        let saltenv = env.unwrap_or(saltenv);
        let shown = |place: &Path| {
            let place = place.to_string_lossy().into_owned();
            match path.starts_with('|') {
                true => url::escape(&place),
                false => place,
            }
        };
        let places = [
            self.cache_place(path, saltenv, None).ok(),
            url::relative_path(path).map(|path| cache::local_files(&self.cachedir).join(path)),
        ];
        let found = places.into_iter().flatten().find(|place| place.exists());
        found.map(|place| shown(&place)).or_else(|| {
            let place = self.extrn_path(path, saltenv, None)?;
            place.exists().then(|| place.to_string_lossy().into_owned())
        })
    }

    /// The path a file would have in the cache (`Client.cache_dest`).
    pub fn cache_dest(&self, address: &str, saltenv: &str) -> Option<PathBuf> {
        if address.starts_with(url::SCHEME) {
            let (path, env) = url::parse(address);
            return self.cache_place(path, env.unwrap_or(saltenv), None).ok();
        }
        match address.contains("://") {
            true => self.extrn_path(address, saltenv, None),
            false => Some(PathBuf::from(address)),
        }
    }

    /// Copies a local file to `localfiles`.
    ///
    /// # Errors
    /// The file cannot be read or the copy not written.
    pub fn cache_local_file(&self, path: &str) -> Result<PathBuf> {
        let below = url::relative_path(path).ok_or(FileError::Unsupported(path.to_owned()))?;
        let dest = cache::local_files(&self.cachedir).join(below);
        let copied = std::fs::create_dir_all(dest.parent().unwrap_or(Path::new("/")))
            .and_then(|()| std::fs::copy(path, &dest));
        copied.map_err(|e| FileError::Io(PathBuf::from(path), e))?;
        Ok(dest)
    }

    /// All cached files of an environment and all local files, sorted.
    pub fn local_list(&self, saltenv: &str) -> Vec<String> {
        let mut all = BTreeSet::new();
        let files = url::relative_path(saltenv).map(|env| cache::files(&self.cachedir).join(env));
        for dir in files
            .into_iter()
            .chain([cache::local_files(&self.cachedir)])
        {
            // As in stock, a missing directory is replaced by its parent.
            match dir.is_dir() {
                true => walk(&dir, &mut all),
                false => walk(dir.parent().unwrap_or(Path::new("/")), &mut all),
            }
        }
        all.into_iter().collect()
    }

    /// Cache path of a file from another server (`Client._extrn_path`); `None` if it leads out of the cache.
    pub fn extrn_path(
        &self,
        address: &str,
        saltenv: &str,
        cachedir: Option<&str>,
    ) -> Option<PathBuf> {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, rest) = match address.contains("://") {
            true => rest.split_at(at),
            false => ("", rest),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let name = match rest.split_once('?') {
            Some((path, query)) if !query.is_empty() => format!("{path}-{query}"),
            _ => rest.trim_end_matches('?').to_owned(),
        };
        let host = host.rsplit('@').next().unwrap_or_default().replace(':', "");
        // `salt://file` is a host without a path here.
        let below = if name.is_empty() && !host.is_empty() {
            ""
        } else {
            url::relative_path(&name)?
        };
        let name = match name.len() > MAX_NAME {
            true => HashType::Sha256.hex(name.as_bytes()),
            false => below.to_owned(),
        };
        let env = url::relative_path(saltenv)?;
        let root = cache::extern_files(&self.cache_root(cachedir)).join(env);
        match host.as_str() {
            ".." | "." => None,
            host if name.is_empty() => Some(root.join(host)),
            host => Some(root.join(host).join(name)),
        }
    }

    /// `{"source": url, "dest": path}` of an SLS file, as shown by `cp.get_state`-like functions.
    ///
    /// # Errors
    /// As [`FileClient::state`].
    pub fn state_map(&self, sls: &str, saltenv: &str) -> Result<Map> {
        Ok(match self.state(sls, saltenv)? {
            Some((source, dest)) => {
                halite_wire::map! {"source" => source, "dest" => dest.to_string_lossy().as_ref()}
            }
            None => Map::new(),
        })
    }
}

fn walk(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&path, found),
            Ok(_) => {
                found.insert(path.to_string_lossy().into_owned());
            }
            Err(_) => {}
        }
    }
}
