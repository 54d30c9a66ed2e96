//! `git`: pillar files from branches of git repositories (`salt/pillar/git_pillar.py`).
//!
//! Each branch is a root with its own top file. Its environment is `env` if set, `base` for the base branch,
//! else the name of the branch.

use super::super::{Compilation, PillarSettings};
use super::{ExtArgs, ExtResult};
use crate::functions::text_of;
use crate::merge::{MergeStrategy, Merger};
use halite_config::RenderOptions;
use halite_crypto::HashType;
use halite_store::git::{Access, BareMirror, Checkout, check_url, redact_url, refspec_error};
use halite_wire::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const ARGS: &[&str] = &["*"];

/// One entry: `branch url`, with options of its own.
struct Remote {
    url: String,
    branch: String,
    base: String,
    env: String,
    root: String,
    mountpoint: String,
    fallback: String,
    all_saltenvs: Option<String>,
    refspecs: Vec<String>,
    access: Access,
}

impl Remote {
    fn new(options: &RenderOptions, name: &str) -> Result<Remote, String> {
        let (branch, url) = name.split_once(char::is_whitespace).unwrap_or(("", name));
        let url = url.trim();
        // Unlike with the file server, local repositories are allowed.
        if !url.starts_with('/') {
            check_url(url)
                .map_err(|why| format!("the URL {} is not allowed: {why}", redact_url(url)))?;
        }
        Ok(Remote {
            url: url.to_owned(),
            branch: if branch.is_empty() {
                options.git_pillar_branch.clone()
            } else {
                branch.to_owned()
            },
            base: options.git_pillar_base.clone(),
            env: options.git_pillar_env.clone(),
            root: options.git_pillar_root.clone(),
            mountpoint: String::new(),
            fallback: options.git_pillar_fallback.clone(),
            all_saltenvs: None,
            refspecs: options.git_pillar_refspecs.clone(),
            access: Access {
                ssl_verify: options.git_pillar_ssl_verify,
                user: options.git_pillar_user.clone(),
                password: options.git_pillar_password.clone(),
                privkey: options.git_pillar_privkey.clone(),
                proxy: options.git_pillar_proxy.clone(),
            },
        })
    }

    fn read(options: &RenderOptions, entry: &Value) -> Result<Remote, String> {
        let (name, own) = match entry {
            Value::Str(name) => (name.as_str(), Map::new()),
            Value::Map(map) => match map.0.as_slice() {
                [(Value::Str(name), own)] => (name.as_str(), flat(own)?),
                _ => return Err("a repository is a map of one name to its options".into()),
            },
            _ => return Err("a repository is text or a map".into()),
        };
        let mut remote = Remote::new(options, name)?;
        for (key, value) in own.iter() {
            let key = key.as_str().unwrap_or_default();
            remote.set(key, value).map_err(|why| {
                format!("the option '{key}' of {}: {why}", redact_url(&remote.url))
            })?;
        }
        remote.checked()
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            "base" if self.branch != "__env__" => {
                return Err("it is for the branch __env__ only".into());
            }
            "base" => self.base = text_of(value),
            "env" => self.env = text_of(value),
            "root" => self.root = text_of(value),
            "mountpoint" => {
                let path = text_of(value);
                path.strip_prefix("salt://")
                    .unwrap_or(&path)
                    .trim_matches('/')
                    .clone_into(&mut self.mountpoint);
            }
            "fallback" => self.fallback = text_of(value),
            "all_saltenvs" => self.all_saltenvs = Some(text_of(value)),
            "refspecs" => self.refspecs = value.str_list(),
            "ssl_verify" => self.access.ssl_verify = value.truthy(),
            "user" => self.access.user = text_of(value),
            "password" => self.access.password = text_of(value),
            "privkey" => self.access.privkey = text_of(value),
            "proxy" => self.access.proxy = text_of(value),
            // `name` would name the directory, which has a name already; the others only concern the file
            // server.
            "name" | "ref_types" | "disable_saltenv_mapping" | "depth" => {}
            _ => return Err("it is not available on this master".into()),
        }
        Ok(())
    }

    fn checked(mut self) -> Result<Remote, String> {
        self.root = self.root.trim_matches('/').to_owned();
        for (what, path) in [("root", &self.root), ("mountpoint", &self.mountpoint)] {
            if path.contains('\0') || path.split('/').any(|part| part == "..") {
                return Err(format!("the {what} '{path}' leads out of its repository"));
            }
        }
        match self.refspecs.iter().find_map(|spec| refspec_error(spec)) {
            Some(why) => Err(why),
            None => Ok(self),
        }
    }

    /// The branch for this minion (`get_checkout_target`).
    fn target(&self, settings: &PillarSettings) -> String {
        if self.branch != "__env__" {
            return self.branch.clone();
        }
        match (&self.all_saltenvs, requested_env(settings)) {
            (Some(branch), _) => branch.clone(),
            (None, None | Some("base")) => self.base.clone(),
            (None, Some(env)) => env.to_owned(),
        }
    }

    /// The environment of a branch (`GitPillar.checkout`).
    fn env(&self, settings: &PillarSettings, target: &str) -> String {
        let wanted = || requested_env(settings).unwrap_or("base").to_owned();
        match self.env.as_str() {
            _ if self.branch == "__env__" && self.all_saltenvs.is_some() => wanted(),
            "" if self.branch == self.base || target == self.base => "base".to_owned(),
            "" => target.to_owned(),
            env => env.to_owned(),
        }
    }

    /// One mirror per URL and credentials: a user without access must not see what another user has fetched.
    fn repository(&self, options: &RenderOptions) -> Checkout {
        let a = &self.access;
        let mut words = vec![&self.url, &a.user, &a.password, &a.privkey, &a.proxy];
        words.extend(&self.refspecs);
        let words = words.iter().map(|word| word.as_str());
        let words = words.collect::<Vec<_>>().join("\n");
        let name = HashType::Sha256.hex(words.as_bytes());
        let dir = options.git_pillar_dir().join(name);
        let bare = BareMirror::new(
            Checkout::mirror(&dir),
            &self.url,
            self.access.clone(),
            self.refspecs.clone(),
        );
        Checkout::new(dir, bare)
    }

    /// The directory that is the root of the pillar; `None` if the branch or the directory does not exist.
    fn directory(
        &self,
        options: &RenderOptions,
        target: &str,
        left: Duration,
    ) -> std::io::Result<Option<PathBuf>> {
        let mut repository = self.repository(options);
        let interval = Duration::from_secs(options.git_pillar_update_interval);
        repository.bare.refresh(interval, left)?;
        let names = [target, self.fallback.as_str()].into_iter();
        let mut names = names.filter(|name| !name.is_empty());
        let Some(commit) = names.find_map(|name| repository.bare.commit(name)) else {
            log::error!(
                "git_pillar: {} has no branch or tag {target}",
                redact_url(&self.url)
            );
            return Ok(None);
        };
        let dir = repository.tree(&commit, left)?.join(&self.root);
        if !dir.is_dir() {
            log::error!(
                "git_pillar: {} has no directory '{}'",
                redact_url(&self.url),
                self.root
            );
            return Ok(None);
        }
        match self.mountpoint.as_str() {
            "" => Ok(Some(dir)),
            mountpoint => repository.mounted(&dir, mountpoint).map(Some),
        }
    }
}

/// The environment that the minion or the configuration asks for.
fn requested_env(settings: &PillarSettings) -> Option<&str> {
    let some = |env: &&str| !env.is_empty();
    let pillarenv = settings.pillarenv.as_deref().filter(some);
    pillarenv.or(settings.saltenv.as_deref().filter(some))
}

/// Options given as a map, or as a list of maps.
fn flat(options: &Value) -> Result<Map, String> {
    match options {
        Value::Map(map) => Ok(map.clone()),
        Value::Array(list) => {
            let maps = list.iter().map(Value::as_map).collect::<Option<Vec<_>>>();
            let maps = maps.ok_or("the options of a repository are a list of maps")?;
            Ok(Map(maps
                .into_iter()
                .flat_map(|map| map.0.clone())
                .collect()))
        }
        Value::Nil => Ok(Map::new()),
        _ => Err("the options of a repository are a list of maps".into()),
    }
}

/// A root of the pillar.
struct Root {
    dir: String,
    env: String,
    /// Only for includes of other roots.
    mounted: bool,
}

fn roots(compile: &Compilation, entries: &[Value]) -> Result<Vec<Root>, String> {
    let (options, settings) = (compile.options(), &compile.settings);
    let mut roots = Vec::new();
    for entry in entries {
        let remote = Remote::read(options, entry)?;
        let target = remote.target(settings);
        let found = remote.directory(options, &target, compile.left());
        let Some(dir) = found.map_err(|e| format!("{}: {e}", redact_url(&remote.url)))? else {
            continue;
        };
        let mut env = remote.env(settings, &target);
        if env == "__env__" {
            let wanted = requested_env(settings).unwrap_or(&options.git_pillar_base);
            env = wanted.to_owned();
        }
        roots.push(Root {
            dir: dir.to_string_lossy().into_owned(),
            env,
            mounted: !remote.mountpoint.is_empty(),
        });
    }
    Ok(roots)
}

pub(super) fn run(compile: &Compilation, _: &Map, args: &ExtArgs) -> ExtResult {
    let options = compile.options();
    let entries = args.0.get("*").and_then(Value::as_array);
    let roots = roots(compile, entries.unwrap_or_default())?;
    let merger = Merger {
        strategy: MergeStrategy::of(&options.pillar_source_merging_strategy, "yaml"),
        lists: options.pillar_merge_lists,
    };
    let only = compile.settings.pillarenv.as_ref();
    let mut pillar = Map::new();
    for (at, root) in roots.iter().enumerate() {
        if root.mounted || only.is_some_and(|only| *only != root.env) {
            continue;
        }
        let mut dirs = vec![root.dir.clone()];
        if options.git_pillar_includes {
            let others = roots.iter().enumerate();
            let others = others.filter(|(n, other)| *n != at && other.env == root.env);
            dirs.extend(others.map(|(_, other)| other.dir.clone()));
        }
        let settings = PillarSettings {
            roots: vec![(root.env.clone(), dirs)],
            saltenv: Some(root.env.clone()),
            ext_pillar: Value::Nil,
            git: true,
            ..compile.settings.clone()
        };
        let own = Compilation::with(compile.master, compile.request, settings, compile.deadline);
        let own = own.run(false).map_err(|e| e.to_string())?;
        pillar = merger.merge(pillar, &own);
    }
    Ok(Value::Map(pillar))
}
