//! `salt.state` and `salt.function`: jobs on minions (`salt/states/saltmod.py state, function`).

use super::{MasterStates, result};
use crate::command::{self, CmdJob, CmdReturns};
use crate::local::Job;
use halite_render::state::result::check_result;
use halite_wire::{Map, Value};

/// `salt.state`: `state.sls`, `state.highstate` or `state.top` on a target.
pub(super) fn state(states: &MasterStates, low: &Map, test: bool) -> Map {
    if let Some(refused) = over_ssh(low) {
        return refused;
    }
    let (fun, arg) = match state_call(low) {
        Some(what) => what,
        None => {
            return result(
                low,
                false,
                "No highstate or sls specified, no execution made",
            );
        }
    };
    let allow_fail = match low.get("allow_fail") {
        None => 0,
        Some(Value::Int(n)) => *n,
        Some(Value::Str(text)) if text.parse::<i64>().is_ok() => text.parse().unwrap_or(0),
        Some(_) => {
            return result(
                low,
                false,
                "Passed invalid value for 'allow_fail', must be an int",
            );
        }
    };
    let concurrent = match low.get("concurrent") {
        None => false,
        Some(Value::Bool(yes)) => *yes,
        Some(_) => {
            return result(low, false, "Must pass in boolean for value of 'concurrent'");
        }
    };
    let mut keyword = Map::new();
    let testing = low.get("test").map_or(test, Value::truthy);
    if test || low.contains("test") {
        keyword.set("test", testing);
    }
    for key in ["pillar", "pillarenv", "saltenv", "exclude"] {
        if let Some(value) = low.get(key).filter(|v| !v.is_nil()) {
            keyword.set(key, value.clone());
        }
    }
    keyword.set("queue", low.get("queue").cloned().unwrap_or(false.into()));
    keyword.set("concurrent", concurrent);
    let expect = low.get("expect_minions").is_none_or(Value::truthy);
    let returns = match publish(states, low, "state", fun, arg, keyword, expect) {
        Ok(returns) => returns,
        Err(why) => return result(low, false, &why),
    };
    if returns.minions.is_empty() && expect {
        return result(low, false, "No minions returned");
    }
    let mut outcome = summary(low, &returns, allow_fail);
    let changed = outcome.get("changes").is_some_and(Value::truthy);
    if testing && changed && outcome.get("result") == Some(&true.into()) {
        outcome.set("result", Value::Nil);
    }
    outcome
}

fn state_call(low: &Map) -> Option<(&'static str, Vec<Value>)> {
    if low.get("highstate").is_some_and(Value::truthy) {
        return Some(("state.highstate", Vec::new()));
    }
    if let Some(top) = low.get("top").filter(|v| v.truthy()) {
        return Some(("state.top", vec![top.clone()]));
    }
    let sls = low.get("sls").filter(|v| v.truthy())?;
    let names = match sls {
        Value::Array(_) => sls.str_list().join(",").into(),
        other => other.clone(),
    };
    Some(("state.sls", vec![names]))
}

/// A comment on failed, changed and unchanged minions.
fn summary(low: &Map, returns: &CmdReturns, allow_fail: i64) -> Map {
    let forgiven = names(low.get("fail_minions"));
    let mut changes = Map::new();
    let (mut failed, mut unchanged) = (Vec::new(), Vec::new());
    let mut details = Vec::new();
    for (id, entry) in &returns.minions {
        let ret = entry.get("ret");
        if !ret.is_some_and(|ret| check_result(ret, true)) {
            if !forgiven.contains(id) {
                failed.push(id.as_str());
                details.extend(detail(id, ret));
            }
            changes.set(id.as_str(), ret.cloned().unwrap_or(false.into()));
            continue;
        }
        let results = ret.and_then(Value::as_map).into_iter().flat_map(Map::iter);
        let changed = results
            .filter_map(|(_, r)| r.as_map())
            .any(|r| r.get("changes").is_some_and(Value::truthy));
        if changed {
            changes.set(id.as_str(), ret.cloned());
        } else {
            unchanged.push(id.as_str());
        }
    }
    let (good, comment) = if failed.len() as i64 > allow_fail {
        let mut comment = format!("Run failed on minions: {}", failed.join(", "));
        for line in details {
            comment.push('\n');
            comment.push_str(&line);
        }
        (false, comment)
    } else {
        let mut comment = "States ran successfully.".to_owned();
        let updated: Vec<&str> = changes.iter().filter_map(|(k, _)| k.as_str()).collect();
        if !updated.is_empty() {
            comment.push_str(&format!(" Updating {}.", updated.join(", ")));
        }
        if !unchanged.is_empty() {
            comment.push_str(&format!(" No changes made to {}.", unchanged.join(", ")));
        }
        (true, comment)
    };
    let mut outcome = result(low, good, &comment);
    if !changes.is_empty() {
        outcome.set(
            "changes",
            halite_wire::map! {"out" => "highstate", "ret" => changes},
        );
    }
    outcome.set("__jid__", returns.jid.as_str());
    outcome
}

/// Why a minion failed, if its return is not a list of states that shows it.
fn detail(id: &str, ret: Option<&Value>) -> Option<String> {
    match ret {
        None => Some(format!("Minion {id} did not return a state result.")),
        Some(Value::Map(_)) => None,
        Some(Value::Array(list)) => {
            let errors: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
            Some(format!(
                "Minion {id} returned errors: {}",
                errors.join("; ")
            ))
        }
        Some(Value::Str(text)) => Some(format!(
            "Minion {id} returned {} instead of a state result.",
            quoted(text)
        )),
        Some(_) => Some(format!(
            "Minion {id} returned something other than a state result."
        )),
    }
}

/// `repr()` of a string without control characters.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    match (text.contains('\''), text.contains('"')) {
        (true, false) => format!("\"{text}\""),
        _ => format!("'{}'", text.replace('\'', "\\'")),
    }
}

/// `salt.function`: any function on a target.
pub(super) fn function(states: &MasterStates, low: &Map, test: bool) -> Map {
    if let Some(refused) = over_ssh(low) {
        return refused;
    }
    let name = low.str("name").unwrap_or_default();
    let words = matches!(low.get("arg"), Some(Value::Str(_)));
    let arg = match low.get("arg") {
        None | Some(Value::Nil) => Vec::new(),
        Some(Value::Array(list)) => list.clone(),
        Some(Value::Str(words)) => words.split_whitespace().map(Value::from).collect(),
        Some(one) => vec![one.clone()],
    };
    if test {
        let target = match low.get("tgt") {
            Some(Value::Str(text)) => text.clone(),
            Some(other) => other.str_list().join(","),
            None => String::new(),
        };
        let comment = format!("Function {name} would be executed on target {target}");
        return result(low, Value::Nil, &comment);
    }
    let keyword = low.get("kwarg").and_then(Value::as_map).cloned();
    let expect = low.get("expect_minions").is_some_and(Value::truthy);
    let keyword = keyword.unwrap_or_default();
    let returns = match publish(states, low, "function", name, arg, keyword, expect) {
        Ok(returns) => returns,
        Err(why) => return result(low, false, &why),
    };
    if returns.minions.is_empty() {
        return result(low, false, "No minions responded");
    }
    let forgiven = names(low.get("fail_minions"));
    let mut failed = Vec::new();
    let mut changes = Map::new();
    for (id, entry) in &returns.minions {
        let code = entry.get("retcode").is_some_and(Value::truthy);
        let ret = entry.get("ret").cloned().unwrap_or(false.into());
        let bad = entry.contains("failed") || ret == Value::Bool(false);
        if code || bad && !forgiven.contains(id) {
            failed.push(id.as_str());
        }
        changes.set(id.as_str(), ret);
    }
    let ids: Vec<&str> = returns.minions.iter().map(|(id, _)| id.as_str()).collect();
    let said = if failed.is_empty() {
        "Function ran successfully.".to_owned()
    } else {
        format!(
            "Running function {name} failed on minions: {}",
            failed.join(", ")
        )
    };
    let comment = format!("{said} Function {name} ran on {}.", ids.join(", "));
    let mut outcome = result(low, failed.is_empty(), &comment);
    outcome.set("changes", halite_wire::map! {"ret" => changes});
    if words {
        let warning = "Please specify 'arg' as a list of arguments.";
        outcome.set("warnings", vec![Value::from(warning)]);
    }
    outcome.set("__jid__", returns.jid.as_str());
    outcome
}

fn publish(
    states: &MasterStates,
    low: &Map,
    kind: &str,
    fun: &str,
    arg: Vec<Value>,
    keyword: Map,
    expect_minions: bool,
) -> Result<CmdReturns, String> {
    let text = |key: &str| low.str(key).unwrap_or_default().to_owned();
    let tgt = low.get("tgt").cloned().unwrap_or_default();
    states.fire_args(halite_wire::map! {
        "type" => kind, "tgt" => tgt.clone(), "name" => text("name"),
        "args" => halite_wire::map! {
            "arg" => arg.clone(), "kwarg" => keyword.clone(), "tgt_type" => text("tgt_type"),
            "ret" => text("ret"), "expect_minions" => expect_minions,
        },
    });
    let mut kwargs = halite_wire::map! {"delimiter" => ":"};
    for key in ["ret_config", "ret_kwargs"] {
        if let Some(value) = low.get(key).filter(|v| v.truthy()) {
            kwargs.set(key, value.clone());
        }
    }
    let kind = text("tgt_type");
    let command = CmdJob {
        job: Job {
            fun: fun.into(),
            arg: command::arguments(arg, keyword),
            tgt,
            tgt_type: if kind.is_empty() { "glob".into() } else { kind },
            ret: low
                .get("ret")
                .map(|r| {
                    r.as_str()
                        .map_or_else(|| r.str_list().join(","), str::to_owned)
                })
                .unwrap_or_default(),
            jid: String::new(),
            kwargs,
        },
        timeout: low.int("timeout").and_then(|t| u64::try_from(t).ok()),
        batch: match low.get("batch") {
            Some(Value::Str(size)) => Some(size.clone()),
            Some(Value::Int(size)) => Some(size.to_string()),
            _ => None,
        },
        subset: low.int("subset").and_then(|n| usize::try_from(n).ok()),
        failhard: low.get("failhard").map_or(states.failhard, Value::truthy),
        expect_minions,
        ..CmdJob::default()
    };
    command::run(states.config, command, states.stop).map_err(|e| e.to_string())
}

fn names(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Str(list)) => list.split(',').map(|id| id.trim().to_owned()).collect(),
        Some(list) => list.str_list(),
        None => Vec::new(),
    }
}

/// The result of a job that is to go over ssh, which would reach other hosts than minions.
fn over_ssh(low: &Map) -> Option<Map> {
    let wanted = low.get("ssh").is_some_and(Value::truthy);
    wanted.then(|| result(low, false, "ssh: there is no salt-ssh here"))
}
