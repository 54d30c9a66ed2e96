//! A repository as a bare mirror, and its branches as directories that never change.
//!
//! One process fetches at a time; the others go on with what is there. A commit is checked out
//! into a directory of its own, which gets its name when it is complete.

use crate::config::MasterConfig;
use crate::crypto::HashType;
use crate::sys::command::Helper;
use crate::sys::daemon::{InstanceLock, make_dir};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Protocols that a URL may name, and that a server may lead to.
const PROTOCOLS: &str = "https:http:ssh:git:file";
/// Variables that would point git elsewhere.
const UNWANTED: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_CONFIG_GLOBAL",
    "GIT_SSH_COMMAND",
];
/// Trees of one repository that are kept.
const TREES: usize = 20;

pub(super) struct Repo {
    url: String,
    dir: PathBuf,
    interval: Duration,
    ssl_verify: bool,
}

impl Repo {
    /// Nothing is run yet.
    pub fn new(config: &MasterConfig, url: &str, ssl_verify: bool) -> Result<Repo, String> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        let known = scheme.is_none_or(|s| PROTOCOLS.split(':').any(|p| p == s));
        // Without a scheme it is a path or the short form of ssh; `name::` would run a helper.
        if !known || url.is_empty() || url.starts_with('-') || url.contains("::") {
            return Err(format!(
                "the URL {} has no form that is allowed",
                hidden(url)
            ));
        }
        Ok(Repo {
            dir: config
                .cachedir
                .join("git_pillar")
                .join(HashType::Sha256.hex(url.as_bytes())),
            url: url.to_owned(),
            interval: Duration::from_secs(config.git_pillar_update_interval),
            ssl_verify,
        })
    }

    /// The URL without its password.
    pub fn shown(&self) -> String {
        hidden(&self.url)
    }

    /// The directory with the files of a branch, tag or commit; `None` if there is none.
    pub fn tree(&self, name: &str, limit: Duration) -> Result<Option<PathBuf>, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._/-+@".contains(c);
        if name.starts_with(['-', '.', '/']) || name.contains("..") || !name.chars().all(plain) {
            return Ok(None);
        }
        self.fetch(limit)?;
        let Some(commit) = self.commit(name, limit)? else {
            return Ok(None);
        };
        let tree = self.dir.join("trees").join(&commit);
        if !tree.is_dir() {
            self.check_out(&commit, &tree, limit)?;
        }
        Ok(Some(tree))
    }

    fn mirror(&self) -> PathBuf {
        self.dir.join("mirror")
    }

    /// Fetches if it is time. What fails is an error only while there is nothing yet.
    fn fetch(&self, limit: Duration) -> Result<(), String> {
        let stamp = self.dir.join("fetched");
        let age = std::fs::metadata(&stamp).and_then(|m| m.modified()).ok();
        let age = age.and_then(|at| SystemTime::now().duration_since(at).ok());
        if age.is_some_and(|age| age < self.interval) {
            return Ok(());
        }
        let text = |e: std::io::Error| format!("{}: {e}", self.dir.display());
        make_dir(&self.dir, 0o700).map_err(text)?;
        let Some(_lock) = InstanceLock::take(&self.dir.join("lock")).map_err(text)? else {
            return match age {
                Some(_) => Ok(()),
                None => Err(format!(
                    "{} is being fetched for the first time",
                    self.shown()
                )),
            };
        };
        let result = self.fetch_now(limit);
        // A server that is away is not asked again at once either.
        match result.and_then(|()| std::fs::write(&stamp, "").map_err(text)) {
            Ok(()) => Ok(()),
            Err(e) if age.is_some() => {
                log::error!("git_pillar: {} was not updated: {e}", self.shown());
                std::fs::write(&stamp, "").map_err(text)
            }
            Err(e) => Err(e),
        }
    }

    fn fetch_now(&self, limit: Duration) -> Result<(), String> {
        if !self.mirror().join("HEAD").exists() {
            self.git(None, &["init", "--bare", "--quiet", "."], limit)?;
        }
        let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let fetch = [
            "fetch",
            "--quiet",
            "--prune",
            "--no-tags",
            "--force",
            "--",
            &self.url,
            refs[0],
            refs[1],
        ];
        self.git(None, &fetch, limit).map(drop)
    }

    fn commit(&self, name: &str, limit: Duration) -> Result<Option<String>, String> {
        for place in ["refs/heads/", "refs/tags/", ""] {
            let wanted = format!("{place}{name}^{{commit}}");
            let found = self.git(None, &["rev-parse", "--verify", "--quiet", &wanted], limit);
            match found.map(|text| text.trim().to_owned()) {
                Ok(commit)
                    if commit.len() >= 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()) =>
                {
                    return Ok(Some(commit));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn check_out(&self, commit: &str, tree: &Path, limit: Duration) -> Result<(), String> {
        let text = |e: std::io::Error| format!("{}: {e}", tree.display());
        let trees = tree.parent().unwrap_or(tree);
        make_dir(trees, 0o700).map_err(text)?;
        tidy(trees);
        let fresh = trees.join(format!(".{commit}.{}", std::process::id()));
        make_dir(&fresh, 0o700).map_err(text)?;
        let index = self.dir.join(format!("index.{}", std::process::id()));
        let work = fresh.to_string_lossy();
        let index_text = index.to_string_lossy();
        let env = [("GIT_WORK_TREE", &*work), ("GIT_INDEX_FILE", &*index_text)];
        let done = self.git(
            Some(&env),
            &["checkout", "--quiet", "--force", commit, "--", "."],
            limit,
        );
        // Whether it was made or not, it has served.
        let _ = std::fs::remove_file(&index);
        let placed = done.and_then(|_| std::fs::rename(&fresh, tree).map_err(text));
        if placed.is_err() {
            let _ = std::fs::remove_dir_all(&fresh);
        }
        // Another worker may have been faster.
        if tree.is_dir() { Ok(()) } else { placed }
    }

    fn git(
        &self,
        env: Option<&[(&str, &str)]>,
        args: &[&str],
        limit: Duration,
    ) -> Result<String, String> {
        let mirror = self.mirror();
        make_dir(&mirror, 0o700).map_err(|e| format!("{}: {e}", mirror.display()))?;
        let fixed = [
            "git",
            "--no-pager",
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "gc.autoDetach=false",
            "-c",
            "core.symlinks=true",
        ];
        let mut helper = Helper::new(fixed.iter().chain(args).map(|a| (*a).to_owned()));
        let set = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        helper.env = UNWANTED
            .iter()
            .map(|name| ((*name).to_owned(), None))
            .collect();
        helper.env.extend([
            set("GIT_DIR", "."),
            set("GIT_TERMINAL_PROMPT", "0"),
            set("GIT_ASKPASS", "true"),
            set("SSH_ASKPASS", "true"),
            set("GIT_ALLOW_PROTOCOL", PROTOCOLS),
            set("LC_ALL", "C"),
        ]);
        if !self.ssl_verify {
            helper.env.push(set("GIT_SSL_NO_VERIFY", "1"));
        }
        helper.env.extend(
            env.unwrap_or_default()
                .iter()
                .map(|(name, value)| set(name, value)),
        );
        helper.cwd = Some(mirror.to_string_lossy().into_owned());
        let output = helper.run(limit).map_err(|e| e.to_string())?;
        if output.code != 0 {
            let why = String::from_utf8_lossy(&output.stderr).replace(&self.url, &self.shown());
            return Err(format!(
                "git {}: {}",
                args.first().unwrap_or(&""),
                why.trim()
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Removes the oldest trees when there are many.
fn tidy(trees: &Path) {
    let Ok(entries) = std::fs::read_dir(trees) else {
        return;
    };
    let mut dirs: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    dirs.sort();
    let many = dirs.len().saturating_sub(TREES);
    for (_, dir) in dirs.into_iter().take(many) {
        let _ = std::fs::remove_dir_all(dir);
    }
}

fn hidden(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, rest)), Some((_, host))) if rest.contains('@') => {
            format!("{scheme}://***@{host}")
        }
        _ => url.to_owned(),
    }
}
