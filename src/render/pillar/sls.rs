//! SLS files of the pillar and what they include (`Pillar.render_pillar`, `render_pstate`).

use super::super::merge::MergeStrategy;
use super::super::pipeline::Source;
use super::{Compilation, Matches, PillarError};
use halite_target::Glob;
use halite_wire::{Map, Value};
use std::collections::HashMap;

/// Longest chain of includes.
const MAX_DEPTH: usize = 100;

/// SLS files of one environment that were rendered before, without their includes.
type Mods = HashMap<String, Value>;

/// The environment does not exist.
struct NoEnv;

/// One line of an `include`.
struct Include {
    sls: String,
    /// The key to put the data under; levels are separated by colons.
    key: Option<String>,
    /// Variables for its templates. They apply to the following lines, too, unless these have their own.
    defaults: Option<Map>,
}

impl Compilation<'_> {
    /// Renders all files of a minion into one map.
    pub(super) fn render(
        &self,
        matches: &Matches,
        errors: &mut Vec<String>,
    ) -> Result<Map, PillarError> {
        let mut pillar = self.request.pillar_override.clone();
        for (env, names) in in_order(matches, &self.options().env_order) {
            let mut mods = Mods::new();
            let mut files = Vec::new();
            for name in names {
                let found = self.available(env, name).unwrap_or_else(|NoEnv| {
                    errors.push(no_env(env));
                    Vec::new()
                });
                if found.is_empty() {
                    files.push(name.clone())
                } else {
                    files.extend(found)
                }
            }
            for sls in files {
                let (state, found) = self.sls(&sls, env, &mut mods, &Map::new());
                errors.extend(found);
                match state {
                    Some(Value::Map(state)) => pillar = self.merger.merge(pillar, &state),
                    None => {}
                    Some(_) => log::error!(
                        "The rendered pillar sls file, '{sls}' state did not return the expected data format."
                    ),
                }
            }
        }
        Ok(pillar)
    }

    /// The SLS files that match a name or pattern, sorted.
    fn available(&self, env: &str, pattern: &str) -> Result<Vec<String>, NoEnv> {
        let roots = match self.settings.roots_of(env) {
            Some(roots) => roots,
            None if env == "base" => &[],
            None => return Err(NoEnv),
        };
        let states = self.master.files.states(roots);
        let glob = Glob::new(pattern);
        Ok(match glob.literal() {
            Some(name) => states.get(name).into_iter().cloned().collect(),
            None => states
                .iter()
                .filter(|name| glob.matches(name))
                .cloned()
                .collect(),
        })
    }

    /// Renders an SLS and its includes; `None` if it is skipped.
    fn sls(
        &self,
        sls: &str,
        env: &str,
        mods: &mut Mods,
        defaults: &Map,
    ) -> (Option<Value>, Vec<String>) {
        let mut errors = Vec::new();
        let roots = self.settings.roots_of(env).unwrap_or_default();
        let Some((file, is_init)) = self.master.files.state(roots, sls) else {
            return match self.missing(sls, env, !roots.is_empty()) {
                None => (None, errors),
                Some(error) => {
                    log::error!("{error}");
                    mods.insert(sls.to_owned(), Value::Map(Map::new()));
                    (Some(Value::Map(Map::new())), vec![error])
                }
            };
        };
        let source = Source {
            text: &file.text,
            path: &file.path.to_string_lossy(),
            saltenv: env,
            sls,
            defaults,
        };
        let state = self.compile_source(&source).map(Some).unwrap_or_else(|e| {
            let full = format!("Rendering SLS '{sls}' failed, render error:\n{e}");
            log::error!("{full}");
            errors.push(if self.options().pillar_safe_render_error {
                format!("Rendering SLS '{sls}' failed. Please see master log for details.")
            } else {
                full
            });
            None
        });
        let mut state = match state {
            Some(Value::Map(state)) => state,
            other => {
                if other.as_ref().is_some_and(Value::truthy) {
                    let error = format!("SLS '{sls}' does not render to a dictionary");
                    log::error!("{error}");
                    errors.push(error);
                }
                mods.insert(sls.to_owned(), other.clone().unwrap_or_default());
                return (other, errors);
            }
        };
        let include = match state.get("include") {
            None => Vec::new(),
            Some(Value::Array(_)) => match state.remove("include") {
                Some(Value::Array(list)) => list,
                _ => Vec::new(),
            },
            Some(_) => {
                let error = format!("Include Declaration in SLS '{sls}' is not formed as a list");
                log::error!("{error}");
                errors.push(error);
                Vec::new()
            }
        };
        mods.insert(sls.to_owned(), Value::Map(state.clone()));
        if include.is_empty() {
            return (Some(Value::Map(state)), errors);
        }
        if self.depth.get() >= MAX_DEPTH {
            errors.push(format!(
                "SLS '{sls}': more than {MAX_DEPTH} includes within each other"
            ));
            return (Some(Value::Map(state)), errors);
        }
        self.depth.set(self.depth.get() + 1);
        let place = IncludingSls { sls, env, is_init };
        let state = self.included(&place, state, &include, mods, defaults, &mut errors);
        self.depth.set(self.depth.get() - 1);
        (Some(Value::Map(state)), errors)
    }

    /// The error for a missing SLS, if that is an error.
    fn missing(&self, sls: &str, env: &str, has_roots: bool) -> Option<String> {
        if self
            .ignored
            .borrow()
            .iter()
            .any(|(e, s)| e == env && s == sls)
        {
            log::debug!("Skipping ignored and missing SLS '{sls}' in environment '{env}'");
            return None;
        }
        if has_roots {
            return Some(format!(
                "Specified SLS '{sls}' in environment '{env}' is not available on the salt master"
            ));
        }
        let why = if self.settings.git {
            "each branch of a git_pillar must have its own top file"
        } else {
            "is the environment defined in 'pillar_roots'?"
        };
        log::debug!("Specified SLS '{sls}' in environment '{env}' was not found; {why}");
        None
    }

    /// Merges the includes of an SLS with its own data, which take precedence unless
    /// `pillar_includes_override_sls` is set.
    fn included(
        &self,
        place: &IncludingSls,
        own: Map,
        include: &[Value],
        mods: &mut Mods,
        defaults: &Map,
        errors: &mut Vec<String>,
    ) -> Map {
        let mut defaults = defaults.clone();
        let includes_win = self.options().pillar_includes_override_sls;
        let mut parts: Vec<(Map, Option<String>)> = Vec::new();
        let mut state = own;
        // As in Salt, errors of an include are repeated for each further match that needs no rendering.
        let mut last: Vec<String> = Vec::new();
        for line in include {
            let line = match Include::read(line) {
                Ok(line) => line,
                Err(why) => {
                    errors.push(format!("Include Declaration in SLS '{}': {why}", place.sls));
                    continue;
                }
            };
            if let Some(own) = line.defaults {
                defaults = own;
            }
            for name in self.include_names(place, &line.sls, errors) {
                let part = match mods.get(&name) {
                    Some(known) => Some(known.clone()),
                    None => {
                        let (part, found) = self.sls(&name, place.env, mods, &defaults);
                        last = found;
                        part
                    }
                };
                // Anything but a map is reported elsewhere.
                if let Some(Value::Map(part)) = part.filter(Value::truthy) {
                    let part = nest(part, line.key.as_deref());
                    let whole = line.key.is_none().then(|| name.clone());
                    if includes_win {
                        state = self.merger.merge(state, &part)
                    } else {
                        parts.push((part, whole))
                    }
                }
                errors.extend(last.iter().cloned());
            }
        }
        if includes_win {
            return state;
        }
        parts.push((state, None));
        let mut parts = parts.into_iter();
        let (first, name) = parts.next().unwrap_or_default();
        if self.merger.strategy == MergeStrategy::Overwrite
            && let Some(second) = parts.as_slice().first()
            && let Some(Value::Map(held)) = name.and_then(|name| mods.get_mut(&name))
            && *held == first
        {
            overwrite_held(held, &second.0);
        }
        parts.fold(first, |merged, (part, _)| self.merger.merge(merged, &part))
    }

    /// The SLS files of a line of `include`. A relative name is first looked for without its dots; a name
    /// found both ways counts twice, as in Salt.
    fn include_names(
        &self,
        place: &IncludingSls,
        sls: &str,
        errors: &mut Vec<String>,
    ) -> Vec<String> {
        let plain = sls.trim_start_matches('.').replace('/', ".");
        let mut found = match self.available(place.env, &plain) {
            Ok(found) => found,
            Err(NoEnv) => {
                errors.push(no_env(place.env));
                return vec![sls.to_owned()];
            }
        };
        let full = match sls.strip_prefix('.') {
            None => sls.to_owned(),
            Some(rest) => place.relative(rest),
        };
        found.extend(self.available(place.env, &full).unwrap_or_default());
        if found.is_empty() {
            found.push(full);
        }
        found
    }
}

/// The including SLS.
struct IncludingSls<'a> {
    sls: &'a str,
    env: &'a str,
    is_init: bool,
}

impl IncludingSls<'_> {
    fn relative(&self, rest: &str) -> String {
        let parts: Vec<&str> = self.sls.split('.').collect();
        let keep = parts.len() - usize::from(!self.is_init);
        let mut parts = parts[..keep].to_vec();
        parts.push(rest);
        parts.join(".")
    }
}

impl Include {
    fn read(line: &Value) -> Result<Include, &'static str> {
        let plain = |sls: &str| Include {
            sls: sls.to_owned(),
            key: None,
            defaults: None,
        };
        let map = match line {
            Value::Str(sls) => return Ok(plain(sls)),
            Value::Map(map) => map,
            _ => return Err("a line is neither a name nor a map"),
        };
        let Some((Value::Str(sls), options)) = map.0.first() else {
            return Err("a line is a map without a name");
        };
        let Value::Map(options) = options else {
            return Err("the options of a line are not a map");
        };
        let defaults = match options.get("defaults") {
            None => Map::new(),
            Some(Value::Map(defaults)) => defaults.clone(),
            Some(_) => return Err("the 'defaults' of a line are not a map"),
        };
        let key = match options.get("key") {
            None => None,
            Some(Value::Str(key)) => Some(key.clone()).filter(|key| !key.is_empty()),
            Some(key) if !key.truthy() => None,
            Some(_) => return Err("the 'key' of a line is not text"),
        };
        Ok(Include {
            key,
            defaults: Some(defaults),
            ..plain(sls)
        })
    }
}

fn nest(part: Map, key: Option<&str>) -> Map {
    let Some(key) = key else { return part };
    key.rsplit(':')
        .fold(part, |inner, key| halite_wire::map! { key => inner })
}

/// With the strategy `overwrite`, stock Salt writes into the first map that it merges, which later includes
/// of the same SLS then see.
fn overwrite_held(held: &mut Map, with: &Map) {
    for (key, value) in &mut held.0 {
        if let Some((_, new)) = with.iter().find(|(k, _)| k == key) {
            *value = new.clone();
        }
    }
}

fn no_env(env: &str) -> String {
    format!("No matching pillar environment for environment '{env}' found")
}

/// Environments in the order of `env_order`, then the others.
fn in_order<'a>(matches: &'a Matches, env_order: &[String]) -> Vec<(&'a str, &'a Vec<String>)> {
    let listed = env_order
        .iter()
        .filter_map(|env| matches.iter().find(|(name, _)| name == env));
    let others = matches.iter().filter(|(name, _)| !env_order.contains(name));
    listed
        .chain(others)
        .map(|(env, names)| (env.as_str(), names))
        .collect()
}
