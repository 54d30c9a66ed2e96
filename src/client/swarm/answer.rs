//! Answers of simulated minions: a few functions of stock Salt, reproduced exactly.

use halite_target::{Subject, Target};
use halite_wire::yaml::keyword_map;
use halite_wire::{Map, Value};

/// Grains of all simulated minions.
pub fn grains() -> Map {
    halite_wire::map! {"os" => "Swarm", "os_family" => "Swarm", "kernel" => "Linux", "saltversion" => "3006.28"}
}

/// Facts about a simulated minion, for matching targets.
pub struct Facts<'a> {
    /// Its id.
    pub id: &'a str,
    /// Grains of all simulated minions.
    pub grains: &'a Map,
}

impl Subject for Facts<'_> {
    fn id(&self) -> &str {
        self.id
    }

    fn grains(&self) -> &Map {
        self.grains
    }

    fn pillar(&self) -> &Map {
        const NONE: &Map = &Map(Vec::new());
        NONE
    }
}

/// The target of a job; `None` if it is invalid, which matches no minion.
pub fn target(job: &Map) -> Option<Target> {
    let kind = job.str("tgt_type").unwrap_or("glob");
    Target::parse(job.get("tgt")?, kind, job.str("delimiter")).ok()
}

/// Whether all minions give the same answer to a job.
pub fn is_common(job: &Map) -> bool {
    job.str("fun") != Some("saltutil.find_job")
}

/// The return load of a job (`minion.py _thread_return`; reference 8.1) without the minion's id, which the
/// channel adds. `running` looks up a running job by its jid.
pub fn answer(job: &Map, running: &dyn Fn(&str) -> Option<Map>) -> Map {
    let fun = job.str("fun").unwrap_or_default();
    let arg = job.get("arg").cloned().unwrap_or_default();
    let (args, kwargs) = split(arg.as_array().unwrap_or_default());
    let known = match fun {
        "test.ping" => Some(Value::Bool(true)),
        "test.echo" => args.first().cloned(),
        "test.arg" => Some(Value::Map(
            halite_wire::map! {"args" => args, "kwargs" => kwargs},
        )),
        "saltutil.find_job" => Some(Value::Map(
            args.first()
                .and_then(Value::as_str)
                .and_then(running)
                .unwrap_or_default(),
        )),
        "saltutil.running" => Some(Value::Array(Vec::new())),
        _ => None,
    };
    let success = known.is_some();
    let mut load = halite_wire::map! {
        "cmd" => "_return", "success" => success,
        "return" => known.unwrap_or_else(|| format!("'{fun}' is not available.").into()),
        "retcode" => i64::from(!success), "jid" => job.str("jid").unwrap_or_default(),
        "fun" => fun, "fun_args" => arg,
    };
    if !success {
        load.set("out", "nested");
    }
    for key in ["user", "metadata"] {
        if let Some(value) = job.get(key) {
            load.set(key, value.clone());
        }
    }
    load
}

/// Positional and keyword arguments (`utils/args.py condition_input`; reference 5.3).
fn split(arg: &[Value]) -> (Vec<Value>, Map) {
    let (mut args, mut kwargs) = (Vec::new(), Map::new());
    for value in arg {
        match keyword_map(value) {
            Some(pairs) => kwargs.0.extend(pairs.cloned()),
            None => args.push(value.clone()),
        }
    }
    (args, kwargs)
}
