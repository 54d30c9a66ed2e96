//! Copies files of this host to minions by means of jobs (`salt/cli/cp.py SaltCP`).

use super::gather::{Gather, GatherTimeouts, MinionOutcome};
use super::local::{ClientError, Job, LocalClient};
use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use halite_ipc::Subscriber;
use halite_store::jobs::JobReader;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Why not everything was copied.
#[derive(Debug)]
pub enum CopyError {
    /// The request to the master failed.
    Client(ClientError),
    /// A source cannot be sent, with the reason.
    Source(String),
    /// No minion matched, with the master's message.
    Nobody(String),
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            CopyError::Client(e) => e.fmt(f),
            CopyError::Source(why) | CopyError::Nobody(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for CopyError {}

impl From<ClientError> for CopyError {
    fn from(e: ClientError) -> CopyError {
        CopyError::Client(e)
    }
}

/// Files to copy, and the target.
pub struct FileCopy<'a> {
    /// The client of the master.
    pub client: &'a mut LocalClient,
    /// Its event bus, subscribed before the first job.
    pub events: &'a mut Subscriber,
    /// The job cache, where returns missing on the bus are looked up.
    pub jobs: &'a dyn JobReader,
    /// How long to wait for minions.
    pub patience: GatherTimeouts,
    /// The target: `tgt`, `tgt_type` and the delimiter in `kwargs`.
    pub target: Job,
    /// Set by Ctrl-C.
    pub stop: &'a dyn Fn() -> bool,
}

/// The result for each file on each minion.
pub type CopyResults = BTreeMap<String, Value>;

impl FileCopy<'_> {
    /// Sends small text files whole, in one job (`cp.recv`).
    ///
    /// # Errors
    /// See [`CopyError`].
    pub fn send_whole(
        &mut self,
        sources: &[PathBuf],
        dest: &str,
    ) -> Result<CopyResults, CopyError> {
        let mut files = Map::new();
        for source in sources {
            let name = source.to_string_lossy();
            if source.is_dir() {
                return Err(CopyError::Source(format!(
                    "{name} is a directory, only files are supported in non-chunked mode. Use \"--chunked\" command line argument."
                )));
            }
            let bytes = std::fs::read(source).map_err(|e| unavailable(source, &e))?;
            let text = String::from_utf8(bytes).map_err(|_| {
                CopyError::Source(format!("{name} is not UTF-8 text; copy it with --chunked"))
            })?;
            files.set(name.as_ref(), text);
        }
        self.run_function("cp.recv", vec![Value::Map(files), dest.into()])
    }

    /// Sends files and directories in chunks of `size` bytes (`cp.recv_chunked`). A minion that fails gets no
    /// further chunks of that file.
    ///
    /// # Errors
    /// See [`CopyError`].
    pub fn send_chunked(
        &mut self,
        sources: &[PathBuf],
        dest: &str,
        size: usize,
        gzip: bool,
    ) -> Result<CopyResults, CopyError> {
        let plan = CopyPlan::of(sources, dest)?;
        let mut all: BTreeMap<String, Map> = BTreeMap::new();
        let mut add = |results: CopyResults, remote: &str| {
            for (id, result) in results {
                all.entry(id).or_default().set(remote, result);
            }
        };
        let target = self.target.clone();
        for (path, remote) in &plan.files {
            let results = self.send_file(path, remote, size, gzip);
            self.target = target.clone();
            add(results?, remote);
        }
        for remote in &plan.empty_dirs {
            let results = self.run_function("cp.recv_chunked", vec![remote.into(), Value::Nil])?;
            add(results, remote);
        }
        Ok(all
            .into_iter()
            .map(|(id, map)| (id, Value::Map(map)))
            .collect())
    }

    fn send_file(
        &mut self,
        path: &Path,
        remote: &str,
        size: usize,
        gzip: bool,
    ) -> Result<CopyResults, CopyError> {
        let file = File::open(path).map_err(|e| unavailable(path, &e))?;
        let mode = file
            .metadata()
            .map_err(|e| unavailable(path, &e))?
            .permissions()
            .mode()
            & 0o7777;
        let mut results = CopyResults::new();
        let mut first = true;
        loop {
            let mut piece = Vec::with_capacity(size);
            let read = (&file).take(size as u64).read_to_end(&mut piece);
            read.map_err(|e| unavailable(path, &e))?;
            if piece.is_empty() && !first {
                return Ok(results);
            }
            let last = piece.len() < size;
            if gzip {
                piece = compress(&piece).map_err(|e| unavailable(path, &e))?;
            }
            // With a leading newline, no minion mistakes a text that ends with one `=` for a keyword argument.
            let text = format!(
                "\n{}",
                base64::engine::general_purpose::STANDARD.encode(piece)
            );
            let arg = vec![
                remote.into(),
                text.into(),
                (!first).into(),
                gzip.into(),
                mode.into(),
            ];
            results.extend(self.run_function("cp.recv_chunked", arg)?);
            let good = results
                .iter()
                .filter(|(_, result)| **result == Value::Bool(true));
            let good: Vec<String> = good.map(|(id, _)| id.clone()).collect();
            if last || good.is_empty() || (self.stop)() {
                return Ok(results);
            }
            self.target.tgt = good.into();
            self.target.tgt_type = "list".into();
            first = false;
        }
    }

    /// Runs one function on the target; a minion that did not return gets a message instead.
    fn run_function(&mut self, fun: &str, arg: Vec<Value>) -> Result<CopyResults, CopyError> {
        let job = Job {
            fun: fun.into(),
            arg,
            ..self.target.clone()
        };
        let published = self.client.publish(&job)?;
        if published.jid.is_empty() {
            let why = published
                .error
                .unwrap_or_else(|| "No minions matched the target.".into());
            return Err(CopyError::Nobody(why));
        }
        let mut results = CopyResults::new();
        let missing = published.missing.iter();
        results.extend(missing.map(|id| (id.clone(), "it has no accepted key".into())));
        let mut gather = Gather::new(self.client, self.events, Some(self.jobs), self.patience);
        gather.add_job(&published);
        gather.run(self.stop, &mut |id, outcome| {
            let result = match outcome {
                MinionOutcome::Returned(mut load) => load.remove("return").unwrap_or_default(),
                MinionOutcome::Running => "it has not finished".into(),
                _ => "Minion did not return. [Not connected]".into(),
            };
            results.insert(id.to_owned(), result);
        })?;
        Ok(results)
    }
}

fn unavailable(path: &Path, e: &io::Error) -> CopyError {
    CopyError::Source(format!(
        "The referenced file, {} is not available: {e}",
        path.display()
    ))
}

fn compress(piece: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(piece)?;
    out.finish()
}

/// Files and empty directories, with their paths on the minions.
#[derive(Debug, Default, PartialEq)]
struct CopyPlan {
    files: Vec<(PathBuf, String)>,
    empty_dirs: Vec<String>,
}

impl CopyPlan {
    fn of(sources: &[PathBuf], dest: &str) -> Result<CopyPlan, CopyError> {
        let (mut files, mut dirs) = (Vec::new(), Vec::new());
        for source in sources {
            walk(source, source, &mut files, &mut dirs, 0)?;
        }
        let into_dir = !dirs.is_empty() || files.len() > 1 || dest.ends_with(['/', '\\']);
        let name = |source: &Path| {
            source
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let join = |dir: &str, below: &str| format!("{}/{below}", dir.trim_end_matches('/'));
        let remote = |source: &Path, path: &Path| match path.strip_prefix(source) {
            Ok(rel) if !rel.as_os_str().is_empty() => {
                join(&join(dest, &name(source)), &rel.to_string_lossy())
            }
            _ if into_dir => join(dest, &name(source)),
            _ => dest.to_owned(),
        };
        Ok(CopyPlan {
            empty_dirs: dirs
                .iter()
                .map(|(source, path)| remote(source, path))
                .collect(),
            files: files
                .into_iter()
                .map(|(source, path)| {
                    let remote = remote(&source, &path);
                    (path, remote)
                })
                .collect(),
        })
    }
}

type Paths = Vec<(PathBuf, PathBuf)>;

fn walk(
    source: &Path,
    path: &Path,
    files: &mut Paths,
    dirs: &mut Paths,
    depth: usize,
) -> Result<(), CopyError> {
    let meta = std::fs::metadata(path)
        .map_err(|_| CopyError::Source(format!("{} does not exist", path.display())))?;
    let pair = || (source.to_owned(), path.to_owned());
    if meta.is_file() {
        files.push(pair());
        return Ok(());
    }
    if !meta.is_dir() || depth > 100 {
        return Err(CopyError::Source(format!(
            "{} is neither a file nor a directory",
            path.display()
        )));
    }
    let entries = std::fs::read_dir(path).map_err(|e| unavailable(path, &e))?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    below.sort_unstable();
    if below.is_empty() {
        dirs.push(pair());
    }
    below
        .iter()
        .try_for_each(|path| walk(source, path, files, dirs, depth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_on_the_minions() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        std::fs::create_dir_all(at("d/sub/empty")).unwrap();
        std::fs::write(at("d/sub/f"), "x").unwrap();
        std::fs::write(at("one"), "x").unwrap();
        let plan = |sources: &[&str], dest: &str| {
            let sources: Vec<PathBuf> = sources.iter().map(|s| at(s)).collect();
            let plan = CopyPlan::of(&sources, dest).unwrap();
            let files: Vec<String> = plan.files.into_iter().map(|(_, remote)| remote).collect();
            (files, plan.empty_dirs)
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(plan(&["one"], "/t"), (vec!["/t".into()], none.clone()));
        assert_eq!(plan(&["one"], "/t/"), (vec!["/t/one".into()], none));
        let (files, dirs) = plan(&["d", "one"], "/t");
        assert_eq!(
            (files, dirs),
            (
                vec!["/t/d/sub/f".into(), "/t/one".into()],
                vec!["/t/d/sub/empty".into()]
            )
        );
        assert!(matches!(
            CopyPlan::of(&[at("none")], "/t"),
            Err(CopyError::Source(_))
        ));
    }
}
