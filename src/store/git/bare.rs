//! A bare mirror of a remote. The process that fetches writes its refs to a file, which the others read.

use super::access::{Access, is_hex, redact_url};
use super::run::{Git, LOCAL};
use halite_sys::daemon::write_atomic;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use halite_wire::msgpack::{self, Profile};
use nix::fcntl::{Flock, FlockArg};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Commits that are cached by hash.
const MAX_COMMITS: usize = 1000;

/// Names of refs and the objects they point to, with tags peeled.
pub type Refs = BTreeMap<String, String>;

/// A mirror, with what this process caches of it.
pub struct BareMirror {
    dir: PathBuf,
    url: String,
    access: Access,
    refspecs: Vec<String>,
    refs: Arc<Refs>,
    stamp: Option<(u64, i64, i64)>,
    commits: HashMap<String, Option<String>>,
}

impl BareMirror {
    /// The mirror of `url` in `dir`. Nothing is created yet.
    pub fn new(dir: PathBuf, url: &str, access: Access, refspecs: Vec<String>) -> BareMirror {
        BareMirror {
            dir,
            url: url.to_owned(),
            access,
            refspecs,
            refs: Arc::default(),
            stamp: None,
            commits: HashMap::new(),
        }
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// While this file exists, the mirror is not fetched (`fileserver.lock`).
    pub fn lock_file(&self) -> PathBuf {
        self.dir.with_extension("lk")
    }

    fn refs_file(&self) -> PathBuf {
        self.dir.join("halite-refs")
    }

    /// The refs as of the last fetch.
    pub fn refs(&mut self) -> Arc<Refs> {
        let path = self.refs_file();
        let stamp = std::fs::metadata(&path)
            .ok()
            .map(|m| (m.ino(), m.mtime(), m.mtime_nsec()));
        if stamp != self.stamp {
            self.refs = Arc::new(read_refs(&path).unwrap_or_default());
            self.stamp = stamp;
            self.commits.clear();
        }
        self.refs.clone()
    }

    /// Fetches, unless that was tried within `interval`. A failure is only an error as long as nothing
    /// was ever fetched; otherwise it is logged, and tried again after `interval`.
    pub fn refresh(&mut self, interval: Duration, limit: Duration) -> io::Result<()> {
        let tried = self.dir.join("halite-tried");
        let age = std::fs::metadata(&tried).and_then(|m| m.modified()).ok();
        let age = age.and_then(|at| SystemTime::now().duration_since(at).ok());
        let there = self.refs_file().exists();
        if there && age.is_some_and(|age| age < interval) {
            return Ok(());
        }
        let done = self.fetch(limit, None).map(drop);
        if self.dir.is_dir() {
            std::fs::write(&tried, "")?;
        }
        match done {
            Err(e) if there => {
                log::error!("{} was not updated: {e}", redact_url(&self.url));
                Ok(())
            }
            Ok(()) if !self.refs_file().exists() => {
                Err(io::Error::other("it is being fetched for the first time"))
            }
            done => done,
        }
    }

    /// Fetches; returns whether any ref changed. Only one process fetches at a time, and none while
    /// [`Self::lock_file`] exists.
    pub fn fetch(&mut self, limit: Duration, stop: Option<&StopFlag>) -> io::Result<bool> {
        let url = redact_url(&self.url);
        if self.lock_file().exists() {
            log::warn!(
                "git: {url} is locked ({}); it is not updated",
                self.lock_file().display()
            );
            return Ok(false);
        }
        let mut make = std::fs::DirBuilder::new();
        make.recursive(true).mode(0o700).create(&self.dir)?;
        let guard = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(self.dir.join("halite-lock"))?;
        let Ok(_guard) = Flock::lock(guard, FlockArg::LockExclusiveNonblock) else {
            log::debug!("git: {url} is being updated by another process");
            return Ok(false);
        };
        let git = Git {
            access: Some(&self.access),
            limit,
            stop,
            ..Git::local(&self.dir)
        };
        if !self.dir.join("HEAD").exists() {
            git.run(&["init", "--quiet", "--bare"], b"")?;
        }
        let mut args = vec!["fetch", "--quiet", "--prune", "--no-tags", "--force", "--"];
        args.push(&self.url);
        args.extend(self.refspecs.iter().map(String::as_str));
        // The messages of git may contain the URL with a password.
        git.run(&args, b"")
            .map_err(|e| io::Error::other(e.to_string().replace(&self.url, &url)))?;
        let format = "--format=%(objectname) %(*objectname) %(refname)";
        let output = git.run(
            &["for-each-ref", format, "refs/remotes/origin/", "refs/tags/"],
            b"",
        )?;
        let refs = parse_refs(&output);
        let before = read_refs(&self.refs_file());
        if before.as_ref() == Some(&refs) {
            return Ok(false);
        }
        let map: Map = refs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        write_atomic(
            &self.refs_file(),
            &msgpack::encode_map(&map, Profile::Local),
            0o600,
        )?;
        Ok(true)
    }

    /// The commit that a name means: that of a branch, a tag or a hash, in this order.
    pub fn commit(&mut self, name: &str) -> Option<String> {
        let refs = self.refs();
        refs.get(&format!("refs/remotes/origin/{name}"))
            .or_else(|| refs.get(&format!("refs/tags/{name}")))
            .cloned()
            .or_else(|| self.commit_of_hash(name))
    }

    /// The commit with this hash, which may be abbreviated.
    pub fn commit_of_hash(&mut self, name: &str) -> Option<String> {
        if !is_hex(name) || !(4..=64).contains(&name.len()) {
            return None;
        }
        if let Some(known) = self.commits.get(name) {
            return known.clone();
        }
        let object = format!("{name}^{{commit}}");
        let found = Git::local(&self.dir)
            .run(&["rev-parse", "--quiet", "--verify", &object], b"")
            .ok()
            .and_then(|out| String::from_utf8(out).ok())
            .map(|out| out.trim().to_owned());
        if self.commits.len() > MAX_COMMITS {
            self.commits.clear();
        }
        self.commits.insert(name.to_owned(), found.clone());
        found
    }

    /// Writes all files of a commit into `tree`, an empty directory; `index` is the path of
    /// a temporary file.
    pub fn check_out(
        &self,
        commit: &str,
        tree: &Path,
        index: &Path,
        limit: Duration,
    ) -> io::Result<()> {
        let git = Git {
            env: &[("GIT_WORK_TREE", tree), ("GIT_INDEX_FILE", index)],
            limit: limit.min(LOCAL),
            ..Git::local(&self.dir)
        };
        let args = ["checkout", "--quiet", "--force", commit, "--", "."];
        git.run(&args, b"").map(drop)
    }
}

fn read_refs(path: &Path) -> Option<Refs> {
    let value = msgpack::decode(&std::fs::read(path).ok()?).ok()?;
    let pairs = value.into_map()?.0.into_iter();
    pairs
        .map(|(k, v)| Some((k.as_str()?.to_owned(), v.as_str()?.to_owned())))
        .collect()
}

fn parse_refs(output: &[u8]) -> Refs {
    let text = String::from_utf8_lossy(output);
    let lines = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ' ');
        let (object, peeled, name) = (fields.next()?, fields.next()?, fields.next()?);
        let object = if peeled.is_empty() { object } else { peeled };
        Some((name.to_owned(), object.to_owned()))
    });
    lines.collect()
}
