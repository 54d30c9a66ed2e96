//! Top files: which SLS files this minion gets (`salt/state.py BaseHighState.get_tops`, `merge_tops`,
//! `top_matches`).

use super::source::MinionSls;
use halite_modules::execution::{CallError, Context, invoke, matching, python, python_modules};
use halite_modules::files::FileClient;
use halite_render::ext_nodes;
pub use halite_render::tops::Matches;
use halite_render::tops::{add, kind, section};
use halite_wire::{Map, Value};
use std::time::Duration;

/// Longest run time of the command of `ext_nodes`.
const PATIENCE: Duration = Duration::from_secs(30);

/// The top files by environment, in the order in which they were read.
type Tops = Vec<(String, Vec<Map>)>;

/// The merged top file: by environment, targets with their entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Top(Vec<(String, Targets)>);

/// Targets with their entries, in order.
type Targets = Vec<(Value, Vec<Value>)>;

/// How top files of several environments become one (`top_file_merging_strategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Merge,
    Same,
    MergeAll,
}

fn text<'a>(ctx: &'a Context, key: &str) -> Option<&'a str> {
    ctx.opts.str(key).filter(|text| !text.is_empty())
}

fn strategy(ctx: &Context) -> Strategy {
    match text(ctx, "top_file_merging_strategy") {
        None | Some("merge") => Strategy::Merge,
        Some("same") => Strategy::Same,
        Some("merge_all") => Strategy::MergeAll,
        Some(other) => {
            log::warn!("Invalid top_file_merging_strategy '{other}', falling back to 'merge'");
            Strategy::Merge
        }
    }
}

/// The environments, `base` first, in the order of `env_order`.
fn environments(ctx: &Context, sls: &MinionSls) -> Result<Vec<String>, CallError> {
    let mut envs = vec!["base".to_owned()];
    envs.extend(sls.environments()?);
    let order = ctx
        .opts
        .get("env_order")
        .map(Value::str_list)
        .unwrap_or_default();
    if !order.is_empty() {
        let mut ordered: Vec<String> = order.into_iter().filter(|env| envs.contains(env)).collect();
        ordered.extend(
            std::mem::take(&mut envs)
                .into_iter()
                .filter(|env| env != "base" || strategy(ctx) != Strategy::Merge),
        );
        envs = ordered;
    }
    let mut seen = Vec::new();
    envs.retain(|env| {
        let new = !seen.contains(env);
        seen.push(env.clone());
        new
    });
    Ok(envs)
}

/// The top files in use, with those they include.
fn tops(ctx: &Context, sls: &MinionSls, errors: &mut Vec<String>) -> Result<Tops, CallError> {
    let name = text(ctx, "state_top")
        .unwrap_or("top.sls")
        .trim_start_matches("salt://")
        .to_owned();
    let envs = match text(ctx, "saltenv").or(text(ctx, "state_top_saltenv")) {
        Some(env) => vec![env.to_owned()],
        None => environments(ctx, sls)?,
    };
    let mut all = Tops::new();
    for env in envs {
        let name = match (
            strategy(ctx),
            text(ctx, "saltenv").or(text(ctx, "state_top_saltenv")),
        ) {
            // An environment without a top file uses that of `default_top`.
            (Strategy::Same, None) if sls.file(&name, &env, "").is_ok_and(|top| top.is_none()) => {
                let default = text(ctx, "default_top").unwrap_or("base").to_owned();
                match sls.file(&name, &default, "") {
                    Ok(Some(Value::Map(top))) => all.push((env, vec![top])),
                    Ok(_) => {}
                    Err(e) => errors.push(format!("Unable to render top file: {e}")),
                }
                continue;
            }
            _ => name.clone(),
        };
        let mut found = Vec::new();
        match sls.file(&name, &env, "") {
            Ok(Some(Value::Map(top))) => found.push(top),
            Ok(Some(other)) if other.truthy() => errors.push(format!("Unable to render top file: No targets found. The top file of the environment {env} is not a map")),
            Ok(_) => continue,
            Err(e) => {
                errors.push(format!("Unable to render top file: {e}"));
                continue;
            }
        }
        let mut at = 0;
        let mut done = Vec::new();
        while at < found.len() {
            let include = found[at]
                .remove("include")
                .map(|list| list.str_list())
                .unwrap_or_default();
            for sls_name in include {
                if done.contains(&sls_name) {
                    continue;
                }
                let path = sls_name.replace('.', "/");
                let names = [format!("{path}.sls"), format!("{path}/init.sls")];
                let rendered = names
                    .iter()
                    .find_map(|name| sls.file(name, &env, "").transpose());
                match rendered {
                    Some(Ok(Value::Map(top))) => found.push(top),
                    Some(Ok(_)) => {}
                    Some(Err(e)) => errors.push(format!("Unable to render top file: {e}")),
                    None => log::error!(
                        "the top file '{sls_name}' of environment '{env}' does not exist"
                    ),
                }
                done.push(sls_name);
            }
            at += 1;
        }
        all.push((env, found));
    }
    Ok(all)
}

impl Top {
    /// Reads and merges the top files; messages about those that are wrong are added to `errors`.
    ///
    /// # Errors
    /// The file server does not answer.
    pub fn read(
        ctx: &Context,
        sls: &MinionSls,
        errors: &mut Vec<String>,
    ) -> Result<Top, CallError> {
        let tops = tops(ctx, sls, errors)?;
        let mut top = merged(&tops, strategy(ctx));
        for (_, targets) in &mut top.0 {
            targets.sort_by_key(|(_, entries)| order_of(entries));
        }
        for (env, targets) in &top.0 {
            for (target, entries) in targets {
                if entries.is_empty() {
                    errors.push(format!(
                        "Malformed topfile (state declarations not formed in environment {env}, target {})",
                        python::str(target)
                    ));
                }
            }
        }
        Ok(top)
    }

    /// The SLS files of the targets that match this minion, and those of the master's `master_tops`.
    ///
    /// # Errors
    /// The master does not answer.
    pub fn matches(&self, ctx: &Context, client: &FileClient) -> Result<Matches, CallError> {
        let mut matches = Matches::new();
        for (env, targets) in &self.0 {
            if text(ctx, "saltenv").is_some_and(|only| only != env) {
                continue;
            }
            for (target, entries) in targets {
                if !is_match(ctx, target, entries)? {
                    continue;
                }
                let names = entries.iter().filter_map(|entry| match entry {
                    Value::Str(name) => Some(name.clone()),
                    Value::Int(number) => Some(number.to_string()),
                    _ => None,
                });
                add(&mut matches, env, names);
            }
        }
        let tops = match text(ctx, "file_client") {
            Some("local") => own_tops(ctx),
            _ => client.master_tops(&ctx.id, &tops_query(ctx))?,
        };
        for (env, names) in tops.iter() {
            let env = env.as_str().unwrap_or("base");
            add(&mut matches, env, names.str_list());
        }
        Ok(matches)
    }
}

/// What the modules of a masterless minion's own `master_tops` tell: `ext_nodes`, and `top(**kwargs)` of Python files.
fn own_tops(ctx: &Context) -> Map {
    let mut tops = Map::new();
    let modules = ctx.opts.get("master_tops").and_then(Value::as_map);
    for (name, setting) in modules.into_iter().flat_map(Map::iter) {
        let name = python::str(name);
        let function = format!("{name}.top");
        let is_ours = name == ext_nodes::MODULE;
        let found = match setting {
            _ if python_modules::has(ctx, "tops", &function, is_ours) => {
                let args = halite_wire::map! {
                    "opts" => Map::clone(&ctx.opts), "grains" => Map::clone(&ctx.grains),
                };
                python_modules::use_function(ctx, "tops", &function, Vec::new(), args)
                    .map(|found| found.into_map().unwrap_or_default())
                    .map_err(|fault| fault.message().to_owned())
            }
            Value::Str(line) if is_ours && !line.is_empty() => {
                ext_nodes::run(line, &ctx.id, PATIENCE)
            }
            _ if is_ours => continue,
            _ => Err("there is no such module".to_owned()),
        };
        match found {
            Ok(more) => ext_nodes::merge(&mut tops, more),
            Err(why) => log::error!("master_tops: {name}: {why}"),
        }
    }
    tops
}

/// The options that `master_tops` modules read.
fn tops_query(ctx: &Context) -> Map {
    let mut opts = Map::new();
    for key in ["id", "saltenv", "pillarenv", "state_top_saltenv"] {
        if let Some(value) = ctx.opts.get(key) {
            opts.set(key, value.clone());
        }
    }
    opts.set("grains", Map::clone(&ctx.grains));
    opts
}

/// The matches as `state.show_top` shows them.
pub fn shown(matches: &Matches) -> Map {
    matches
        .iter()
        .map(|(env, names)| (env.clone(), Value::from(names.clone())))
        .collect()
}

/// `order` of a target's entries.
fn order_of(entries: &[Value]) -> i64 {
    let order = entries
        .iter()
        .rev()
        .find_map(|entry| entry.as_map()?.int("order"));
    order.unwrap_or(0)
}

fn is_match(ctx: &Context, target: &Value, entries: &[Value]) -> Result<bool, CallError> {
    let kind = kind(entries).and_then(Value::as_str);
    if let Some(matcher) = kind
        && let Some(matched) = matching::by_python(ctx, matcher, false, target, Map::new())?
    {
        return Ok(matched);
    }
    let fun = format!("match.{}", kind.unwrap_or("compound"));
    let matched = invoke(ctx, &fun, vec![target.clone()], Map::new());
    matched.map(|value| value.truthy()).map_err(|_| {
        CallError::Command(format!(
            "the top file: '{fun}' of the target {} does not exist",
            python::str(target)
        ))
    })
}

fn merged(tops: &Tops, strategy: Strategy) -> Top {
    let mut top = Top::default();
    let base = |env: &str| env == "base";
    let order = tops
        .iter()
        .filter(|(env, _)| base(env))
        .chain(tops.iter().filter(|(env, _)| !base(env)));
    let order: Vec<_> = match strategy {
        Strategy::Merge => order.collect(),
        Strategy::Same | Strategy::MergeAll => tops.iter().collect(),
    };
    for (env, files) in order {
        // Sections of this environment that an earlier file had.
        let taken: Vec<String> = top.0.iter().map(|(env, _)| env.clone()).collect();
        for file in files {
            for (section, targets) in file.iter() {
                let section = python::str(section);
                let wanted = match strategy {
                    Strategy::Merge => base(env) || (section == *env && !taken.contains(&section)),
                    Strategy::Same => section == *env,
                    Strategy::MergeAll => true,
                };
                if section == "include" || !wanted {
                    continue;
                }
                let Value::Map(targets) = targets else {
                    continue;
                };
                for (target, entries) in targets.iter() {
                    top.insert(&section, target, entries, strategy == Strategy::MergeAll);
                }
            }
        }
    }
    top
}

impl Top {
    fn insert(&mut self, env: &str, target: &Value, entries: &Value, append: bool) {
        let mut list: Vec<Value> = Vec::new();
        for entry in entries.as_array().unwrap_or_default() {
            if entry.as_map().is_some() || !list.contains(entry) {
                list.push(entry.clone());
            }
        }
        let targets = section(&mut self.0, env);
        match targets.iter_mut().find(|(known, _)| known == target) {
            Some((_, known)) if append => {
                for entry in list {
                    if !known.contains(&entry) {
                        known.push(entry);
                    }
                }
            }
            Some((_, known)) => *known = list,
            None => targets.push((target.clone(), list)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    fn top(env: &str, file: Map) -> (String, Vec<Map>) {
        (env.to_owned(), vec![file])
    }

    fn list(names: &[&str]) -> Value {
        names
            .iter()
            .map(|n| Value::from(*n))
            .collect::<Vec<_>>()
            .into()
    }

    #[test]
    fn strategies() {
        let tops = vec![
            top(
                "dev",
                map! {"dev" => map! {"*" => list(&["d"])}, "base" => map! {"*" => list(&["x"])}, "qa" => map! {"*" => list(&["q"])}},
            ),
            top(
                "base",
                map! {"base" => map! {"*" => list(&["a", "a"])}, "qa" => map! {"m" => list(&["b"])}},
            ),
        ];
        let shown = |strategy| {
            let top = merged(&tops, strategy);
            let one = |(env, targets): &(String, Vec<(Value, Vec<Value>)>)| {
                let all: Vec<String> = targets
                    .iter()
                    .flat_map(|(_, e)| e.iter().map(python::str))
                    .collect();
                format!("{env}:{}", all.join(","))
            };
            top.0.iter().map(one).collect::<Vec<_>>()
        };
        assert_eq!(shown(Strategy::Merge), ["base:a", "qa:b", "dev:d"]);
        assert_eq!(shown(Strategy::Same), ["dev:d", "base:a"]);
        assert_eq!(shown(Strategy::MergeAll), ["dev:d", "base:x,a", "qa:q,b"]);
    }
}
