//! Top files: which SLS files a minion gets (`Pillar.get_tops`, `merge_tops`, `top_matches`).

use super::super::pipeline::Source;
use super::super::tops::{Matches, add, kind, section};
use super::{Compilation, PillarError, PillarRequest};
use halite_target::{Subject, Target, TargetError};
use halite_wire::{Map, Value};

/// The entries of one target in a top file, in order: maps such as `match: grain`, then SLS names.
type Entries = Vec<Value>;

/// By environment, its top file and the files it includes.
type Tops = Vec<(String, Vec<Map>)>;

/// A target, its `order` and its entries.
type Ordered = (Value, i64, Entries);

/// The merged top files: by environment, targets with their entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Top(pub Vec<(String, Vec<(Value, Entries)>)>);

impl From<Top> for Map {
    /// As `pillar.show_top` shows it.
    fn from(top: Top) -> Map {
        let targets = |body: Vec<(Value, Entries)>| {
            Map(body
                .into_iter()
                .map(|(target, entries)| (target, entries.into()))
                .collect())
        };
        top.0
            .into_iter()
            .map(|(env, body)| (env, targets(body)))
            .collect()
    }
}

/// A top file cannot be merged, so none counts.
struct Malformed;

impl Compilation<'_> {
    /// The merged top files of the environments in use, and errors in them.
    pub(super) fn top(&self) -> Result<(Top, Vec<String>), PillarError> {
        let (tops, mut errors) = self.tops()?;
        let top = self.merge_tops(&tops).unwrap_or_else(|Malformed| {
            errors.push("Error encountered while rendering pillar top file.".to_owned());
            Top::default()
        });
        Ok((top, errors))
    }

    fn top_envs(&self) -> Vec<String> {
        let settings = &self.settings;
        if let Some(env) = &settings.pillarenv {
            return settings.roots_of(env).iter().map(|_| env.clone()).collect();
        }
        let envs: Vec<String> = settings.envs().into_iter().map(str::to_owned).collect();
        if self.options().pillar_source_merging_strategy != "none" {
            return envs;
        }
        let only = settings
            .saltenv
            .as_deref()
            .filter(|env| !env.is_empty())
            .unwrap_or("base");
        envs.into_iter().filter(|env| env == only).collect()
    }

    /// The top files, with the files they include.
    fn tops(&self) -> Result<(Tops, Vec<String>), PillarError> {
        let mut errors = Vec::new();
        let mut tops = Tops::new();
        let name = self.options().state_top.trim_start_matches("salt://");
        for env in self.top_envs() {
            let roots = self.settings.roots_of(&env).unwrap_or_default();
            let Some(file) = self.master.files.find(roots, name) else {
                continue;
            };
            let none = Map::new();
            let source = Source {
                text: &file.text,
                path: &file.path.to_string_lossy(),
                saltenv: &env,
                sls: "",
                defaults: &none,
            };
            match self.compile_source(&source) {
                Ok(top) => tops.push((env.clone(), vec![top_map(top, &file.path)?])),
                Err(e) => {
                    log::error!(
                        "Pillar rendering failed for minion {}: {e}",
                        self.request.id
                    );
                    errors.push(format!(
                        "Rendering Primary Top file failed, render error:\n{e}"
                    ));
                    break;
                }
            }
        }
        for (env, tops) in &mut tops {
            let mut include = Vec::new();
            for top in tops.iter_mut() {
                match top.remove("include") {
                    None => {}
                    Some(Value::Array(list)) => include.extend(list),
                    Some(_) => {
                        return Err(PillarError(format!(
                            "the 'include' of the pillar top file of environment '{env}' is not a list"
                        )));
                    }
                }
            }
            self.included_tops(env, include, tops, &mut errors)?;
        }
        Ok((tops, errors))
    }

    fn included_tops(
        &self,
        env: &str,
        include: Vec<Value>,
        tops: &mut Vec<Map>,
        errors: &mut Vec<String>,
    ) -> Result<(), PillarError> {
        let mut done: Vec<String> = Vec::new();
        for sls in include.iter().filter_map(Value::as_str) {
            if done.iter().any(|d| d == sls) {
                continue;
            }
            done.push(sls.to_owned());
            let roots = self.settings.roots_of(env).unwrap_or_default();
            let Some((file, _)) = self.master.files.state(roots, sls) else {
                log::error!("the top file '{sls}' of environment '{env}' does not exist");
                continue;
            };
            let none = Map::new();
            let source = Source {
                text: &file.text,
                path: &file.path.to_string_lossy(),
                saltenv: env,
                sls: "",
                defaults: &none,
            };
            match self.compile_source(&source) {
                Ok(top) => tops.push(top_map(top, &file.path)?),
                Err(e) => errors.push(format!(
                    "Rendering Top file {sls} failed, render error:\n{e}"
                )),
            }
        }
        Ok(())
    }

    fn merge_tops(&self, tops: &Tops) -> Result<Top, Malformed> {
        let mut merged: Vec<(String, Vec<Ordered>)> = Vec::new();
        for top in tops.iter().flat_map(|(_, tops)| tops) {
            for (env, targets) in top.iter() {
                if env.is_str("include") {
                    continue;
                }
                let targets = match targets {
                    Value::Map(targets) => targets,
                    // Python's loop over an empty list or text does nothing.
                    Value::Array(list) if list.is_empty() => continue,
                    Value::Str(text) if text.is_empty() => continue,
                    _ => return Err(Malformed),
                };
                let env = env.as_str().unwrap_or_default();
                for (target, entries) in targets.iter() {
                    let (order, entries) = self.target_entries(env, entries)?;
                    let body = section(&mut merged, env);
                    match body.iter_mut().find(|(known, ..)| known == target) {
                        Some(slot) => (slot.1, slot.2) = (order, entries),
                        None => body.push((target.clone(), order, entries)),
                    }
                }
            }
        }
        let sorted = merged.into_iter().map(|(env, mut body)| {
            body.sort_by_key(|(_, order, _)| *order);
            let body = body
                .into_iter()
                .map(|(target, _, entries)| (target, entries));
            (env, body.collect())
        });
        Ok(Top(sorted.collect()))
    }

    /// The entries of one target and its `order`.
    fn target_entries(&self, env: &str, entries: &Value) -> Result<(i64, Entries), Malformed> {
        let letters: Vec<Value>;
        let entries = match entries {
            Value::Array(list) => list.as_slice(),
            // Python iterates over the characters of a text.
            Value::Str(text) => {
                letters = text.chars().map(|c| c.to_string().into()).collect();
                &letters
            }
            Value::Map(map) => {
                letters = map.iter().map(|(key, _)| key.clone()).collect();
                &letters
            }
            _ => return Err(Malformed),
        };
        let (mut options, mut states) = (Vec::new(), Vec::new());
        let (mut order, mut ignore_missing) = (0, false);
        for entry in entries {
            match entry {
                Value::Map(map) => {
                    if map.contains("match") {
                        options.push(entry.clone());
                    }
                    if let Some(value) = map.get("order") {
                        order = whole(value).ok_or(Malformed)?;
                    }
                    ignore_missing |= map.get("ignore_missing").is_some_and(Value::truthy);
                }
                Value::Str(_) if !states.contains(entry) => states.push(entry.clone()),
                _ => {}
            }
        }
        if ignore_missing {
            let names = states.iter().filter_map(Value::as_str);
            let names = names.map(|name| (env.to_owned(), name.to_owned()));
            self.ignored.borrow_mut().extend(names);
        }
        options.extend(states);
        Ok((order, options))
    }

    /// The SLS names of the targets that match this minion.
    pub(super) fn matches(&self, top: &Top) -> Result<Matches, PillarError> {
        let mut matches: Matches = Vec::new();
        let about = TopSubject {
            request: self.request,
            pillar: &self.pillar.borrow(),
            groups: &self.options().nodegroups,
        };
        for (env, body) in &top.0 {
            if self
                .settings
                .pillarenv
                .as_ref()
                .is_some_and(|only| only != env)
            {
                continue;
            }
            for (target, entries) in body {
                if !about.matches(target, entries)? {
                    continue;
                }
                let names = entries.iter().filter_map(Value::as_str);
                add(&mut matches, env, names.map(str::to_owned));
            }
        }
        Ok(matches)
    }
}

fn top_map(top: Value, path: &std::path::Path) -> Result<Map, PillarError> {
    top.into_map().ok_or_else(|| {
        PillarError(format!(
            "{}: a pillar top file must be a map",
            path.display()
        ))
    })
}

/// `int(value)`, but 0 for text that is not a number; other types are refused.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(i) => Some(*i),
        Value::Bool(b) => Some(i64::from(*b)),
        Value::Float(f) => Some(*f as i64),
        Value::Str(text) => Some(text.trim().parse().unwrap_or(0)),
        _ => None,
    }
}

/// The minion, for targets.
struct TopSubject<'a> {
    request: &'a PillarRequest,
    pillar: &'a Map,
    groups: &'a Map,
}

impl Subject for TopSubject<'_> {
    fn id(&self) -> &str {
        self.request.id.as_str()
    }

    fn grains(&self) -> &Map {
        &self.request.grains
    }

    fn pillar(&self) -> &Map {
        self.pillar
    }

    fn nodegroups(&self) -> Option<&Map> {
        Some(self.groups)
    }
}

impl TopSubject<'_> {
    fn matches(&self, target: &Value, entries: &[Value]) -> Result<bool, PillarError> {
        let kind = kind(entries).map_or(Some("compound"), Value::as_str);
        let kind = kind.unwrap_or("?");
        // Masters do not have this data of minions.
        if kind == "data" {
            return Ok(false);
        }
        match Target::parse(target, kind, None) {
            Ok(parsed) => Ok(parsed.try_matches(self).unwrap_or_else(|e| {
                log::error!("pillar top file: the target {target:?} matches nobody: {e}");
                false
            })),
            Err(e @ TargetError::UnknownType(_)) => Err(PillarError(format!(
                "pillar top file: the target {target:?} cannot be matched: {e}"
            ))),
            Err(e) => {
                log::error!("pillar top file: the target {target:?} matches nobody: {e}");
                Ok(false)
            }
        }
    }
}
