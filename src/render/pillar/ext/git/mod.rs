//! `git`: pillar files from branches of git repositories (`salt/pillar/git_pillar.py`).
//!
//! Each branch is a root of its own with its own top file; the environment is `base` for the base
//! branch, else the name of the branch, unless `env` says otherwise.

mod repo;

use super::super::{Compile, Settings};
use super::{Args, Given};
use crate::render::merge::{Merger, Strategy};
use crate::wire::{Map, Value};
use repo::Repo;

pub(super) const ARGS: &[&str] = &["*"];

/// One entry: `branch url`, perhaps with options of its own.
struct Remote {
    url: String,
    branch: String,
    base: String,
    env: String,
    root: String,
    ssl_verify: bool,
}

impl Remote {
    fn read(compile: &Compile, entry: &Value) -> Result<Remote, String> {
        let config = compile.config();
        let (name, options) = match entry {
            Value::Str(name) => (name.as_str(), Map::new()),
            Value::Map(map) => match map.0.as_slice() {
                [(Value::Str(name), options)] => (name.as_str(), flat(options)?),
                _ => return Err("a repository is a map of one name to its options".into()),
            },
            _ => return Err("a repository is text or a map".into()),
        };
        let (branch, url) = name.split_once(char::is_whitespace).unwrap_or(("", name));
        let mut remote = Remote {
            url: url.trim().to_owned(),
            branch: if branch.is_empty() {
                config.git_pillar_branch.clone()
            } else {
                branch.to_owned()
            },
            base: config.git_pillar_base.clone(),
            env: config.git_pillar_env.clone(),
            root: config.git_pillar_root.clone(),
            ssl_verify: config.git_pillar_ssl_verify,
        };
        for (key, value) in options.iter() {
            let slot = match key.as_str().unwrap_or_default() {
                "base" => &mut remote.base,
                "env" => &mut remote.env,
                "root" => &mut remote.root,
                "name" => continue,
                "ssl_verify" => {
                    remote.ssl_verify = value.truthy();
                    continue;
                }
                other => {
                    return Err(format!(
                        "the option '{other}' of {url} is not available on this master"
                    ));
                }
            };
            *slot = super::super::super::functions::text_of(value);
        }
        Ok(remote)
    }

    /// The branch for this minion.
    fn target(&self, settings: &Settings) -> String {
        if self.branch != "__env__" {
            return self.branch.clone();
        }
        match wanted_env(settings) {
            "base" => self.base.clone(),
            env => env.to_owned(),
        }
    }

    fn env(&self, settings: &Settings, target: &str) -> String {
        match self.env.as_str() {
            "__env__" => wanted_env(settings).to_owned(),
            "" if self.branch == self.base || target == self.base => "base".to_owned(),
            "" => target.to_owned(),
            env => env.to_owned(),
        }
    }
}

fn wanted_env(settings: &Settings) -> &str {
    let env = settings
        .pillarenv
        .as_deref()
        .or(settings.saltenv.as_deref());
    env.filter(|env| !env.is_empty()).unwrap_or("base")
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

pub(super) fn run(compile: &Compile, _: &Map, args: &Args) -> Given {
    let config = compile.config();
    let mut dirs: Vec<(String, String)> = Vec::new();
    for entry in args
        .0
        .get("*")
        .and_then(Value::as_array)
        .unwrap_or_default()
    {
        let remote = Remote::read(compile, entry)?;
        let target = remote.target(&compile.settings);
        let repo = Repo::new(config, &remote.url, remote.ssl_verify)?;
        let Some(tree) = repo.tree(&target, compile.left())? else {
            log::error!("git_pillar: {} has no branch or tag {target}", repo.shown());
            continue;
        };
        let root = remote.root.trim_matches('/');
        if root.split('/').any(|part| part == "..") {
            return Err(format!("the root '{root}' leads out of its repository"));
        }
        let dir = if root.is_empty() {
            tree
        } else {
            tree.join(root)
        };
        dirs.push((
            dir.to_string_lossy().into_owned(),
            remote.env(&compile.settings, &target),
        ));
    }
    let merger = Merger {
        strategy: Strategy::of(&config.pillar_source_merging_strategy, "yaml"),
        lists: config.pillar_merge_lists,
    };
    let mut pillar = Map::new();
    for (dir, env) in &dirs {
        if compile
            .settings
            .pillarenv
            .as_ref()
            .is_some_and(|only| only != env)
        {
            continue;
        }
        let mut roots = vec![dir.clone()];
        if config.git_pillar_includes {
            roots.extend(
                dirs.iter()
                    .filter(|(d, e)| e == env && d != dir)
                    .map(|(d, _)| d.clone()),
            );
        }
        let settings = Settings {
            roots: vec![(env.clone(), roots)],
            saltenv: Some(env.clone()),
            ext_pillar: Value::Nil,
            git: true,
            ..compile.settings.clone()
        };
        let own = Compile::with(compile.master, compile.request, settings, compile.deadline);
        let own = own.run(false).map_err(|e| e.to_string())?;
        pillar = merger.merge(pillar, &own);
    }
    Ok(Value::Map(pillar))
}
