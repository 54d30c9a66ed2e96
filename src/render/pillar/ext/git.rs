//! `git`: pillar files from branches of git repositories (`salt/pillar/git_pillar.py`).
//!
//! Each branch is a root of its own with its own top file; the environment is `base` for the base
//! branch, else the name of the branch, unless `env` says otherwise.

use super::super::{Compilation, PillarSettings};
use super::{ExtArgs, ExtResult};
use crate::functions::text_of;
use crate::merge::{MergeStrategy, Merger};
use halite_config::MasterConfig;
use halite_crypto::HashType;
use halite_store::git::{Access, Bare, Checkout, check_url, refspec_fault, shown};
use halite_wire::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

pub(super) const ARGS: &[&str] = &["*"];

/// One entry: `branch url`, perhaps with options of its own.
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
    fn new(config: &MasterConfig, name: &str) -> Result<Remote, String> {
        let (branch, url) = name.split_once(char::is_whitespace).unwrap_or(("", name));
        let url = url.trim();
        // Unlike a file server, a pillar may come from a repository on this host.
        if !url.starts_with('/') {
            check_url(url)
                .map_err(|why| format!("the URL {} is not allowed: {why}", shown(url)))?;
        }
        Ok(Remote {
            url: url.to_owned(),
            branch: if branch.is_empty() {
                config.git_pillar_branch.clone()
            } else {
                branch.to_owned()
            },
            base: config.git_pillar_base.clone(),
            env: config.git_pillar_env.clone(),
            root: config.git_pillar_root.clone(),
            mountpoint: String::new(),
            fallback: config.git_pillar_fallback.clone(),
            all_saltenvs: None,
            refspecs: config.git_pillar_refspecs.clone(),
            access: Access {
                ssl_verify: config.git_pillar_ssl_verify,
                user: config.git_pillar_user.clone(),
                password: config.git_pillar_password.clone(),
                privkey: config.git_pillar_privkey.clone(),
                proxy: config.git_pillar_proxy.clone(),
            },
        })
    }

    fn read(config: &MasterConfig, entry: &Value) -> Result<Remote, String> {
        let (name, options) = match entry {
            Value::Str(name) => (name.as_str(), Map::new()),
            Value::Map(map) => match map.0.as_slice() {
                [(Value::Str(name), options)] => (name.as_str(), flat(options)?),
                _ => return Err("a repository is a map of one name to its options".into()),
            },
            _ => return Err("a repository is text or a map".into()),
        };
        let mut remote = Remote::new(config, name)?;
        for (key, value) in options.iter() {
            let key = key.as_str().unwrap_or_default();
            remote
                .set(key, value)
                .map_err(|why| format!("the option '{key}' of {}: {why}", shown(&remote.url)))?;
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
            // A name for the directory, which has one anyway; what only the file server heeds.
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
        match self.refspecs.iter().find_map(|spec| refspec_fault(spec)) {
            Some(why) => Err(why),
            None => Ok(self),
        }
    }

    /// The branch for this minion (`get_checkout_target`).
    fn target(&self, settings: &PillarSettings) -> String {
        if self.branch != "__env__" {
            return self.branch.clone();
        }
        match (&self.all_saltenvs, wanted_env(settings)) {
            (Some(branch), _) => branch.clone(),
            (None, None | Some("base")) => self.base.clone(),
            (None, Some(env)) => env.to_owned(),
        }
    }

    /// The environment that a branch is (`GitPillar.checkout`).
    fn env(&self, settings: &PillarSettings, target: &str) -> String {
        let wanted = || wanted_env(settings).unwrap_or("base").to_owned();
        match self.env.as_str() {
            _ if self.branch == "__env__" && self.all_saltenvs.is_some() => wanted(),
            "" if self.branch == self.base || target == self.base => "base".to_owned(),
            "" => target.to_owned(),
            env => env.to_owned(),
        }
    }

    /// A mirror of its own for every way to reach the repository: who may not read it gets
    /// nothing that somebody else has fetched.
    fn repository(&self, config: &MasterConfig) -> Checkout {
        let a = &self.access;
        let mut words = vec![&self.url, &a.user, &a.password, &a.privkey, &a.proxy];
        words.extend(&self.refspecs);
        let words = words.iter().map(|word| word.as_str());
        let words = words.collect::<Vec<_>>().join("\n");
        let name = HashType::Sha256.hex(words.as_bytes());
        let dir = config.git_pillar().join(name);
        let bare = Bare::new(
            Checkout::mirror(&dir),
            &self.url,
            self.access.clone(),
            self.refspecs.clone(),
        );
        Checkout::new(dir, bare)
    }

    /// The directory that is the root of the pillar; `None` if there is no such branch or root.
    fn directory(
        &self,
        config: &MasterConfig,
        target: &str,
        left: Duration,
    ) -> std::io::Result<Option<PathBuf>> {
        let mut repository = self.repository(config);
        let interval = Duration::from_secs(config.git_pillar_update_interval);
        repository.bare.refresh(interval, left)?;
        let names = [target, self.fallback.as_str()].into_iter();
        let mut names = names.filter(|name| !name.is_empty());
        let Some(commit) = names.find_map(|name| repository.bare.commit(name)) else {
            log::error!(
                "git_pillar: {} has no branch or tag {target}",
                shown(&self.url)
            );
            return Ok(None);
        };
        let dir = repository.tree(&commit, left)?.join(&self.root);
        if !dir.is_dir() {
            log::error!(
                "git_pillar: {} has no directory '{}'",
                shown(&self.url),
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
fn wanted_env(settings: &PillarSettings) -> Option<&str> {
    let some = |env: &&str| !env.is_empty();
    let pillarenv = settings.pillarenv.as_deref().filter(some);
    pillarenv.or(settings.saltenv.as_deref().filter(some))
}

/// Options as a map, or as a list of maps.
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
    /// It is there for others to include from.
    mounted: bool,
}

fn roots(compile: &Compilation, entries: &[Value]) -> Result<Vec<Root>, String> {
    let (config, settings) = (compile.config(), &compile.settings);
    let mut roots = Vec::new();
    for entry in entries {
        let remote = Remote::read(config, entry)?;
        let target = remote.target(settings);
        let found = remote.directory(config, &target, compile.left());
        let Some(dir) = found.map_err(|e| format!("{}: {e}", shown(&remote.url)))? else {
            continue;
        };
        let mut env = remote.env(settings, &target);
        if env == "__env__" {
            let wanted = wanted_env(settings).unwrap_or(&config.git_pillar_base);
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
    let config = compile.config();
    let entries = args.0.get("*").and_then(Value::as_array);
    let roots = roots(compile, entries.unwrap_or_default())?;
    let merger = Merger {
        strategy: MergeStrategy::of(&config.pillar_source_merging_strategy, "yaml"),
        lists: config.pillar_merge_lists,
    };
    let only = compile.settings.pillarenv.as_ref();
    let mut pillar = Map::new();
    for (at, root) in roots.iter().enumerate() {
        if root.mounted || only.is_some_and(|only| *only != root.env) {
            continue;
        }
        let mut dirs = vec![root.dir.clone()];
        if config.git_pillar_includes {
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
