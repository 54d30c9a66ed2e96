//! `gitfs_remotes` and related options (`salt/utils/gitfs.py GitProvider`).

use crate::files::{exposed, names};
use crate::git::{Access, check_url, is_hex, redact_url, refspec_error};
use halite_config::FileServerOptions;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;

/// Options per environment: `ref`, `root`, `mountpoint`.
type PerEnv = BTreeMap<String, Map>;

/// One remote with the options that apply to it.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub url: String,
    /// Directory of the mirror below `cachedir/gitfs/mirrors`.
    pub name: String,
    pub base: String,
    root: String,
    mountpoint: String,
    all_saltenvs: Option<String>,
    remote_envs: PerEnv,
    global_envs: PerEnv,
    whitelist: Vec<String>,
    blacklist: Vec<String>,
    pub ref_types: Vec<String>,
    disable_mapping: bool,
    pub fallback: String,
    pub update_interval: u64,
    pub refspecs: Vec<String>,
    pub access: Access,
}

impl Remote {
    /// Reads all remotes. Invalid ones are logged and skipped.
    pub fn all(options: &FileServerOptions) -> Vec<Remote> {
        let mut remotes: Vec<Remote> = Vec::new();
        for item in &options.gitfs_remotes.0 {
            let read = match item {
                Value::Map(map) => map
                    .iter()
                    .map(|(url, overrides)| (url, Some(overrides)))
                    .collect(),
                url => vec![(url, None)],
            };
            for (url, overrides) in read {
                match Remote::read(options, url, overrides) {
                    Ok(remote) if remotes.iter().any(|r| r.name == remote.name) => log::error!(
                        "gitfs_remotes: {} is listed twice; give one of them a 'name'",
                        redact_url(&remote.url)
                    ),
                    Ok(remote) => remotes.push(remote),
                    Err(why) => {
                        let url = url.as_str().map_or_else(|| format!("{url:?}"), redact_url);
                        log::error!("gitfs_remotes: {url} is skipped: {why}");
                    }
                }
            }
        }
        remotes
    }

    fn read(
        c: &FileServerOptions,
        url: &Value,
        overrides: Option<&Value>,
    ) -> Result<Remote, String> {
        let url = url.as_str().ok_or("a remote must be a URL in quotes")?;
        check_url(url)?;
        let digest = crate::files::hash_type(c).hex(url.as_bytes());
        let mut r = Remote {
            url: url.into(),
            name: format!("{digest:.40}"),
            base: c.gitfs_base.clone(),
            root: c.gitfs_root.clone(),
            mountpoint: c.gitfs_mountpoint.clone(),
            all_saltenvs: None,
            remote_envs: PerEnv::new(),
            global_envs: per_env(&Value::Map(c.gitfs_saltenv.clone()))?,
            whitelist: c.gitfs_saltenv_whitelist.clone(),
            blacklist: c.gitfs_saltenv_blacklist.clone(),
            ref_types: c.gitfs_ref_types.clone(),
            disable_mapping: c.gitfs_disable_saltenv_mapping,
            fallback: c.gitfs_fallback.clone(),
            update_interval: c.gitfs_update_interval,
            refspecs: c.gitfs_refspecs.clone(),
            access: Access {
                ssl_verify: c.gitfs_ssl_verify,
                user: c.gitfs_user.clone(),
                password: c.gitfs_password.clone(),
                privkey: c.gitfs_privkey.clone(),
                proxy: c.gitfs_proxy.clone(),
            },
        };
        if let Some(overrides) = overrides {
            let overrides =
                repacked(overrides).ok_or("its options must be a map or a list of maps")?;
            if overrides.is_empty() {
                return Err("it ends with a colon but has no options".into());
            }
            for (key, value) in overrides.iter() {
                let key = key.as_str().unwrap_or_default();
                r.set(key, value).map_err(|why| format!("{key}: {why}"))?;
            }
        }
        r.finish()
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let word = || text(value).ok_or_else(|| "it must be text".to_owned());
        let flag = || {
            value
                .as_bool()
                .ok_or_else(|| "it must be true or false".to_owned())
        };
        match key {
            "base" => self.base = word()?,
            "root" => self.root = word()?,
            "mountpoint" => self.mountpoint = word()?,
            "all_saltenvs" => self.all_saltenvs = Some(word()?),
            "name" => self.name = word()?,
            "fallback" => self.fallback = word()?,
            "saltenv" => self.remote_envs = per_env(value)?,
            "saltenv_whitelist" => self.whitelist = list(value),
            "saltenv_blacklist" => self.blacklist = list(value),
            "ref_types" => self.ref_types = list(value),
            "refspecs" => self.refspecs = list(value),
            "disable_saltenv_mapping" => self.disable_mapping = flag()?,
            "ssl_verify" => self.access.ssl_verify = flag()?,
            "user" => self.access.user = word()?,
            "password" => self.access.password = word()?,
            "privkey" => self.access.privkey = word()?,
            "proxy" => self.access.proxy = word()?,
            "update_interval" => {
                let seconds = value.as_int().and_then(|n| u64::try_from(n).ok());
                self.update_interval = seconds.ok_or("it must be a number of seconds")?;
            }
            _ => return Err("remotes have no such option".into()),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Remote, String> {
        if self.name.starts_with('.')
            || names::inside(&self.name).as_deref() != Some(&self.name)
            || self.name.contains('/')
        {
            return Err(format!(
                "name: {:?} cannot be the name of a directory",
                self.name
            ));
        }
        for kind in &mut self.ref_types {
            *kind = kind.to_lowercase();
            if !["branch", "tag", "sha"].contains(&kind.as_str()) {
                return Err(format!("ref_types: {kind:?} must be branch, tag or sha"));
            }
        }
        if let Some(why) = self.refspecs.iter().find_map(|spec| refspec_error(spec)) {
            return Err(why);
        }
        if self.update_interval == 0 {
            self.update_interval = 60;
        }
        // A `ref` set for the environment `base` overrides the option `base`.
        if let Some(reference) = self
            .remote_envs
            .get_mut("base")
            .and_then(|conf| conf.remove("ref"))
        {
            self.base = text(&reference).unwrap_or_default();
        }
        Ok(self)
    }

    /// Whether the whitelist and blacklist allow this environment.
    pub fn exposes(&self, env: &str) -> bool {
        exposed(env, &self.whitelist, &self.blacklist)
    }

    fn per_env(&self, env: &str, key: &str) -> Option<String> {
        let conf = |all: &PerEnv| all.get(env)?.get(key).and_then(text);
        conf(&self.remote_envs).or_else(|| conf(&self.global_envs))
    }

    /// Branch, tag or commit of an environment.
    pub fn reference(&self, env: &str) -> Option<String> {
        if let Some(all) = &self.all_saltenvs {
            return Some(all.clone());
        }
        if env == "base" {
            return Some(self.base.clone());
        }
        let reference = self.per_env(env, "ref");
        if self.disable_mapping {
            reference
        } else {
            Some(reference.unwrap_or_else(|| env.to_owned()))
        }
    }

    /// Directory of the repository that is served, without slashes at the ends.
    pub fn root(&self, env: &str) -> String {
        let root = self
            .per_env(env, "root")
            .unwrap_or_else(|| self.root.clone());
        root.trim_matches('/').to_owned()
    }

    /// Directory under which its files appear, without slashes at the ends.
    pub fn mountpoint(&self, env: &str) -> String {
        let mountpoint = self
            .per_env(env, "mountpoint")
            .unwrap_or_else(|| self.mountpoint.clone());
        names::strip_proto(&mountpoint).trim_matches('/').to_owned()
    }

    /// Refs and the environments that options map them to; options of the remote take precedence.
    fn mapped(&self) -> Vec<(String, String)> {
        let refs = |all: &PerEnv| -> Vec<(String, String)> {
            let all = all.iter();
            all.filter_map(|(env, conf)| Some((text(conf.get("ref")?)?, env.clone())))
                .collect()
        };
        let mut mapped = refs(&self.remote_envs);
        for (reference, env) in refs(&self.global_envs) {
            if !mapped.iter().any(|(_, known)| *known == env) {
                mapped.push((reference, env));
            }
        }
        mapped
    }

    /// Environments that result from a set of refs (`GitProvider._get_envs_from_ref_paths`, `GitFS.envs`).
    pub fn envs<'a>(&self, refs: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mapped = self.mapped();
        let mut envs: Vec<String> = mapped.iter().map(|(_, env)| env.clone()).collect();
        if is_hex(&self.base) {
            envs.push("base".into());
        }
        for name in refs {
            let kinds = [("refs/remotes/origin/", "branch"), ("refs/tags/", "tag")];
            let found = kinds
                .iter()
                .find_map(|(dir, kind)| Some((name.strip_prefix(dir)?, kind)));
            let Some((name, kind)) = found else { continue };
            if !self.ref_types.iter().any(|k| k == kind) || mapped.iter().any(|(r, _)| r == name) {
                continue;
            }
            if name == self.base {
                envs.push("base".into());
            } else if !self.disable_mapping {
                envs.push(name.into());
            }
        }
        envs.retain(|env| self.exposes(env));
        envs
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Str(s) => Some(s.clone()),
        Value::Int(n) => Some(n.to_string()),
        Value::Float(_) => Some(halite_wire::yaml::emit_scalar(value)),
        _ => None,
    }
}

/// A list, or comma-separated text.
fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        other => {
            let all = text(other).unwrap_or_default();
            all.split(',').map(|item| item.trim().to_owned()).collect()
        }
    }
}

/// A map, or a list of maps merged into one (`salt/utils/data.py repack_dictlist`).
fn repacked(value: &Value) -> Option<Map> {
    match value {
        Value::Map(map) => Some(map.clone()),
        Value::Array(items) => {
            let mut all = Map::new();
            for item in items {
                all.0.extend(item.as_map()?.0.iter().cloned());
            }
            Some(all)
        }
        _ => None,
    }
}

fn per_env(value: &Value) -> Result<PerEnv, String> {
    let envs = repacked(value).ok_or("it must map environments to their options")?;
    let mut all = PerEnv::new();
    for (env, conf) in envs.iter() {
        let env = text(env).ok_or("the name of an environment must be text")?;
        let conf = repacked(conf).ok_or_else(|| format!("{env}: its options must be a map"))?;
        if let Some((key, _)) = conf
            .iter()
            .find(|(k, _)| !["ref", "root", "mountpoint"].iter().any(|o| k.is_str(o)))
        {
            return Err(format!("{env}: environments have no option {key:?}"));
        }
        all.insert(env, conf);
    }
    Ok(all)
}
