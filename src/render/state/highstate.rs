//! SLS files and their includes, as one piece of high data (`salt/state.py BaseHighState.render_highstate`,
//! `render_state`).

use super::declare::{
    FIRST_ORDER, assign_order, id_text, pad_funcs, split_excludes, split_extends,
};
use halite_target::fnmatch;
use halite_wire::{Map, Value, pytext};
use std::collections::{HashMap, HashSet};

/// Longest chain of includes.
const MAX_DEPTH: usize = 64;

/// One rendered SLS file.
#[derive(Clone, Debug, Default)]
pub struct RenderedSls {
    /// The output of the pipeline.
    pub data: Value,
    /// Whether the file is an `init.sls`; its relative includes start one level lower.
    pub init: bool,
}

/// Where SLS files come from.
pub trait SlsSource {
    /// The SLS names of an environment; `None` if there is no such environment.
    fn available(&self, saltenv: &str) -> Option<Vec<String>>;

    /// Renders a file; `Ok(None)` if it does not exist.
    ///
    /// # Errors
    /// Why it cannot be rendered, for the user.
    fn render(&mut self, saltenv: &str, sls: &str) -> Result<Option<RenderedSls>, String>;
}

/// High data, and all errors in them.
#[derive(Clone, Debug, Default)]
pub struct HighData {
    /// The high data, before [`super::compile::resolve`].
    pub high: Map,
    /// Messages for the user. With errors, a run must not start.
    pub errors: Vec<String>,
}

/// Renders the SLS files of `matches` (environment, names or globs) and their includes. With `auto_order`,
/// declarations are numbered in the order of the files (`state_auto_order`).
pub fn render_highstate(
    source: &mut dyn SlsSource,
    matches: &[(String, Vec<String>)],
    auto_order: bool,
) -> HighData {
    let mut renderer = HighstateRenderer {
        source,
        matches,
        auto_order,
        next_order: FIRST_ORDER,
        done: HashSet::new(),
    };
    let mut all = HighData::default();
    // As in stock, a missing environment keeps the files of the glob before.
    let mut files: Vec<String> = Vec::new();
    for (saltenv, wanted) in matches {
        for glob in wanted {
            match renderer.available(saltenv) {
                Some(available) => files = matching(&available, glob),
                None => all.errors.push(format!(
                    "No matching salt environment for environment '{saltenv}' found"
                )),
            }
            if files.is_empty() {
                files.push(glob.clone());
            }
            for sls in &files {
                if renderer.done.contains(&key(saltenv, sls)) {
                    continue;
                }
                let (state, mut errors) = renderer.file(sls, saltenv, 0);
                for error in &mut errors {
                    let missing = format!("SLS {glob} in saltenv");
                    if error.contains("is not available") && error.contains(&missing) {
                        *error = format!("No matching sls found for '{glob}' in env '{saltenv}'");
                    }
                }
                merge(&mut all.high, state, &mut errors);
                all.errors.append(&mut errors);
            }
        }
    }
    drop_repeated_extensions(&mut all.high);
    all
}

fn key(saltenv: &str, sls: &str) -> String {
    format!("{saltenv}:{sls}")
}

fn matching(available: &[String], glob: &str) -> Vec<String> {
    let matching = available.iter().filter(|sls| fnmatch(sls, glob));
    matching.cloned().collect()
}

struct HighstateRenderer<'a> {
    source: &'a mut dyn SlsSource,
    matches: &'a [(String, Vec<String>)],
    auto_order: bool,
    next_order: i64,
    done: HashSet<String>,
}

impl HighstateRenderer<'_> {
    fn available(&self, saltenv: &str) -> Option<Vec<String>> {
        self.source
            .available(saltenv)
            .or_else(|| self.source.available("__env__"))
    }

    fn file(&mut self, sls: &str, saltenv: &str, depth: usize) -> (Map, Vec<String>) {
        let mut errors = Vec::new();
        if depth > MAX_DEPTH {
            errors.push(format!(
                "SLS '{saltenv}:{sls}' is included {MAX_DEPTH} files deep; flatten the includes"
            ));
            return (Map::new(), errors);
        }
        let rendered = self.source.render(saltenv, sls);
        if !matches!(rendered, Ok(None)) {
            // A missing file is looked for, and reported, each time.
            self.done.insert(key(saltenv, sls));
        }
        let rendered = match rendered {
            Ok(Some(rendered)) => rendered,
            Ok(None) => {
                errors.push(format!(
                    "Specified SLS {sls} in saltenv {saltenv} is not available on the salt master or through a configured fileserver"
                ));
                return (Map::new(), errors);
            }
            Err(why) => {
                errors.push(format!("Rendering SLS '{saltenv}:{sls}' failed: {why}"));
                return (Map::new(), errors);
            }
        };
        let mut state = match rendered.data {
            Value::Map(map) => map,
            empty if !empty.truthy() => return (Map::new(), errors),
            other => {
                errors.push(format!("SLS {sls} does not render to a dictionary"));
                let shown = pytext::str(&other);
                errors.push(format!("Error when rendering state with contents: {shown}"));
                return (Map::new(), errors);
            }
        };
        let include = match state.remove("include") {
            None => Vec::new(),
            Some(Value::Array(list)) => list,
            Some(other) => {
                state.set("include", other);
                errors.push(format!(
                    "Include Declaration in SLS {sls} is not formed as a list"
                ));
                Vec::new()
            }
        };
        split_extends(&mut state, sls, saltenv, &mut errors);
        split_excludes(&mut state, sls, &mut errors);
        pad_funcs(&mut state, sls, saltenv, &mut errors);
        let here = Here {
            sls,
            saltenv,
            init: rendered.init,
        };
        for wanted in include {
            self.include(&here, &wanted, depth, &mut state, &mut errors);
        }
        if self.auto_order {
            assign_order(&mut state, &mut self.next_order);
        }
        (state, errors)
    }

    fn include(
        &mut self,
        here: &Here,
        wanted: &Value,
        depth: usize,
        state: &mut Map,
        errors: &mut Vec<String>,
    ) {
        let (env, name) = match self.resolve(here, wanted) {
            Ok(found) => found,
            Err(e) => {
                errors.push(e);
                return;
            }
        };
        let available = self.available(here.saltenv).unwrap_or_default();
        let mut targets = matching(&available, &name);
        if targets.is_empty() {
            targets.push(name);
        }
        for target in targets {
            if self.done.contains(&key(&env, &target)) {
                continue;
            }
            let (mut more, mut wrong) = self.file(&target, &env, depth + 1);
            for (id, body) in &mut more.0 {
                if id.as_str().is_some_and(|id| id.starts_with("__")) {
                    continue;
                }
                if let Value::Map(body) = body {
                    let mut from = body
                        .get("__sls_included_from__")
                        .map(Value::str_list)
                        .unwrap_or_default();
                    from.push(here.sls.to_owned());
                    body.set("__sls_included_from__", Value::from(from));
                }
            }
            merge(state, more, errors);
            errors.append(&mut wrong);
        }
    }

    /// Environment and absolute name of an include.
    fn resolve(&self, here: &Here, wanted: &Value) -> Result<(String, String), String> {
        let Here { sls, saltenv, .. } = here;
        let (env, name) = match wanted {
            Value::Str(name) => ((*saltenv).to_owned(), name.clone()),
            Value::Map(map) if map.len() == 1 => match map.iter().next() {
                Some((Value::Str(env), Value::Str(name))) => (env.clone(), name.clone()),
                _ => return Err(here.malformed()),
            },
            _ => return Err(here.malformed()),
        };
        let any_env = env == "_xenv";
        if !any_env && self.available(&env).is_none() {
            return Err(format!(
                "Nonexistent saltenv '{env}' found in include of '{name}' within SLS '{saltenv}:{sls}'"
            ));
        }
        let name = here.absolute(&name)?;
        let has = |env: &str| {
            let available = self.available(env).unwrap_or_default();
            available.iter().any(|sls| fnmatch(sls, &name))
        };
        let envs: Vec<String> = if any_env {
            let all = self.matches.iter().map(|(env, _)| env);
            all.filter(|env| has(env)).cloned().collect()
        } else if self.matches.iter().any(|(e, _)| *e == env) || has(&env) {
            vec![env.clone()]
        } else {
            Vec::new()
        };
        match envs.as_slice() {
            [one] => Ok((one.clone(), name)),
            several if several.iter().any(|e| e == saltenv) => Ok(((*saltenv).to_owned(), name)),
            [] => {
                let all: Vec<&str> = self.matches.iter().map(|(e, _)| e.as_str()).collect();
                let tried = if any_env { all.join(", ") } else { env.clone() };
                Err(format!(
                    "Unknown include: Specified SLS {env}: {name} is not available on the salt master in saltenv(s): {tried} "
                ))
            }
            several => Err(format!(
                "Ambiguous include: Specified SLS {env}: {name} is available on the salt master in multiple available saltenvs: {}",
                several.join(", ")
            )),
        }
    }
}

struct Here<'a> {
    sls: &'a str,
    saltenv: &'a str,
    init: bool,
}

impl Here<'_> {
    fn malformed(&self) -> String {
        format!(
            "Badly formatted include in SLS '{}:{}'; write `- name` or `- environment: name`",
            self.saltenv, self.sls
        )
    }

    /// `..name` goes up from the directory of this file, one level per dot.
    fn absolute(&self, name: &str) -> Result<String, String> {
        let rest = name.trim_start_matches('.');
        let levels = name.len() - rest.len();
        if levels == 0 {
            return Ok(name.to_owned());
        }
        let mut parts: Vec<&str> = self.sls.split('.').collect();
        if self.init {
            parts.push("init");
        }
        if levels > parts.len() {
            return Err(format!(
                "Attempted relative include of '{name}' within SLS '{}:{}' goes beyond top level package ",
                self.saltenv, self.sls
            ));
        }
        parts.truncate(parts.len() - levels);
        parts.push(rest);
        Ok(parts.join("."))
    }
}

/// Adds the ids of `state`. Conflicting declarations of an id in two files are an error
/// (`merge_included_states`).
fn merge(high: &mut Map, mut state: Map, errors: &mut Vec<String>) {
    for list in ["__extend__", "__exclude__"] {
        let Some(Value::Array(more)) = state.remove(list) else {
            continue;
        };
        match high.get_mut(list) {
            Some(Value::Array(have)) => have.extend(more),
            _ => high.set(list, more),
        }
    }
    let again = positions(high, &state);
    for (id, body) in state.0 {
        let at = match &id {
            Value::Str(id) => again.get(id).copied(),
            id => high.0.iter().position(|(k, _)| k == id),
        };
        let Some(have) = at.and_then(|at| high.0.get_mut(at)) else {
            high.0.push((id, body));
            continue;
        };
        if have.1 != body {
            let from = |body: &Value| {
                let text = |key| body.as_map().and_then(|b| b.str(key)).unwrap_or_default();
                format!("{}:{}", text("__env__"), text("__sls__"))
            };
            errors.push(format!(
                "Detected conflicting IDs, SLS IDs need to be globally unique.\n    The conflicting ID is '{}' and is found in SLS '{}' and SLS '{}'",
                id_text(&id),
                from(&have.1),
                from(&body)
            ));
        }
        have.1 = body;
    }
}

/// Where in `high` the ids are that `state` has as well.
fn positions(high: &Map, state: &Map) -> HashMap<String, usize> {
    let ids: HashSet<&str> = state.iter().filter_map(|(k, _)| k.as_str()).collect();
    let known = high.iter().enumerate();
    known
        .filter_map(|(at, (id, _))| {
            Some((id.as_str().filter(|id| ids.contains(id))?.to_owned(), at))
        })
        .collect()
}

/// An extension that was included twice counts once (`clean_duplicate_extends`).
fn drop_repeated_extensions(high: &mut Map) {
    let Some(Value::Array(list)) = high.get_mut("__extend__") else {
        return;
    };
    let mut seen: Vec<(Value, Value)> = Vec::new();
    for chunk in std::mem::take(list) {
        for item in chunk.into_map().unwrap_or_default().0 {
            if !seen.contains(&item) {
                seen.push(item);
            }
        }
    }
    *list = seen
        .into_iter()
        .map(|item| Value::Map(Map(vec![item])))
        .collect();
}
