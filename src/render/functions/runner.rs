//! `saltutil.runner` and `mine.get`: cached data of other minions (`salt/modules/saltutil.py runner`,
//! `salt/modules/mine.py`).
//!
//! Only runner functions that read local data exist here. They run in this process: they fire no events and
//! leave nothing in the job cache.

use super::{Call, CallError, CallResult, Function, FunctionContext, Run, RunnerFn, text_of};
use halite_store::cached_data::CachedPart;
use halite_wire::yaml::parse_input;
use halite_wire::{Map, Value};
use std::collections::BTreeMap;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "mine.get",
        params: &["tgt", "fun", "tgt_type", "exclude_minion"],
        required: 2,
        run: Run::Data(mine_get),
    },
    Function {
        name: "saltutil.runner",
        params: &[
            "name",
            "arg",
            "kwarg",
            "full_return",
            "saltenv",
            "jid",
            "**",
        ],
        required: 1,
        run: Run::Data(runner),
    },
];

/// A runner function.
struct Runner {
    name: &'static str,
    params: &'static [&'static str],
    /// How many of them are required.
    required: usize,
    run: fn(&FunctionContext, &Map) -> Result<Value, String>,
}

const TGT: &[&str] = &["tgt", "tgt_type"];
const SUBSET: &[&str] = &["subset", "show_ip"];

const RUNNERS: &[Runner] = &[
    Runner {
        name: "mine.get",
        params: &["tgt", "fun", "tgt_type"],
        required: 2,
        run: mine,
    },
    Runner {
        name: "cache.grains",
        params: TGT,
        required: 1,
        run: |scope, args| cache(scope, args, CachedPart::Grains),
    },
    Runner {
        name: "cache.pillar",
        params: TGT,
        required: 0,
        run: |scope, args| cache(scope, args, CachedPart::Pillar),
    },
    Runner {
        name: "cache.mine",
        params: TGT,
        required: 0,
        run: |scope, args| cache(scope, args, CachedPart::Mine),
    },
    Runner {
        name: "manage.present",
        params: SUBSET,
        required: 0,
        run: present,
    },
    Runner {
        name: "manage.not_present",
        params: SUBSET,
        required: 0,
        run: not_present,
    },
];

/// With `file_client: local`, which is set for pillars, `mine.get` reads the data store of the host itself,
/// which has no mine.
fn mine_get(scope: &FunctionContext, _: &Call) -> CallResult {
    log::info!(
        "the pillar of {} calls mine.get, which finds nothing there; the mine answers \
         salt['saltutil.runner']('mine.get', ...)",
        scope.id
    );
    Ok(Value::Map(Map::new()))
}

fn runner(scope: &FunctionContext, call: &Call) -> CallResult {
    let name = call.text("name");
    if let Some(run) = &scope.runner {
        return run_any(&**run, &name, call);
    }
    let Some(runner) = RUNNERS.iter().find(|runner| runner.name == name) else {
        return Err(CallError::Function(format!(
            "the function saltutil.runner {name} is not available in templates of this master"
        )));
    };
    if call.flag("full_return", false) {
        return Err(CallError::Function(format!(
            "saltutil.runner {name}: full_return is not available in templates of this master"
        )));
    }
    let args = runner.bind(call).map_err(CallError::Type)?;
    (runner.run)(scope, &args).map_err(|why| CallError::Function(format!("{name}: {why}")))
}

/// Calls a runner function in a file of the master itself.
fn run_any(run: &RunnerFn, name: &str, call: &Call) -> CallResult {
    let positional = match call.some("arg") {
        None => Vec::new(),
        Some(Value::Array(items)) => items.clone(),
        Some(one) => vec![one.clone()],
    };
    let mut keyword = call
        .some("kwarg")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    keyword.0.extend(call.more.0.clone());
    let returned = run(name, positional, keyword).map_err(CallError::Function)?;
    if call.flag("full_return", false) {
        return Ok(halite_wire::map! {"return" => returned, "success" => true}.into());
    }
    Ok(returned)
}

impl Runner {
    /// Binds arguments to parameters. Positional texts are parsed as on a command line.
    fn bind(&self, call: &Call) -> Result<Map, String> {
        let given = match call.some("arg") {
            None => &[][..],
            Some(Value::Array(items)) => items.as_slice(),
            Some(_) => return Err("arg must be formatted as a list/tuple".to_owned()),
        };
        let mut named = match call.some("kwarg") {
            None => Map::new(),
            Some(Value::Map(map)) => map.clone(),
            Some(_) => return Err("kwarg must be formatted as a dictionary".to_owned()),
        };
        let mut places = self.params.iter();
        let mut args = Map::new();
        for value in given {
            let (values, more) = match value {
                Value::Str(text) => parse_input(std::slice::from_ref(text), &[]),
                other => (vec![other.clone()], Map::new()),
            };
            for value in values {
                let place = places
                    .next()
                    .ok_or_else(|| self.argument_error("too many were given"))?;
                args.set(*place, value);
            }
            named.0.extend(more.0);
        }
        named.0.extend(call.more.0.iter().cloned());
        for (name, value) in named.0 {
            let name = text_of(&name);
            match self.params.iter().find(|param| **param == name) {
                _ if name.starts_with("__") => {}
                Some(param) => args.set(*param, value),
                None => return Err(self.argument_error(&format!("there is no '{name}'"))),
            }
        }
        match self.params[..self.required]
            .iter()
            .find(|p| !args.contains(p))
        {
            Some(missing) => Err(self.argument_error(&format!("'{missing}' is missing"))),
            None => Ok(args),
        }
    }

    fn argument_error(&self, why: &str) -> String {
        let params = self.params.join(", ");
        format!("{} takes the arguments {params}: {why}", self.name)
    }
}

fn kind(args: &Map) -> String {
    let kind = args.get("tgt_type").map(text_of);
    kind.filter(|kind| !kind.is_empty())
        .unwrap_or_else(|| "glob".to_owned())
}

fn mine(scope: &FunctionContext, args: &Map) -> Result<Value, String> {
    let Some(fleet) = &scope.fleet else {
        return Ok(Map::new().into());
    };
    let (tgt, fun) = (args.get("tgt"), args.get("fun"));
    let (tgt, fun) = (tgt.unwrap_or(&Value::Nil), fun.unwrap_or(&Value::Nil));
    let found = fleet.mine(&scope.id, tgt, &kind(args).to_lowercase(), fun);
    found.map(Value::Map)
}

fn cache(scope: &FunctionContext, args: &Map, part: CachedPart) -> Result<Value, String> {
    let Some(fleet) = &scope.fleet else {
        return Ok(Map::new().into());
    };
    let kind = kind(args);
    let tgt = args.get("tgt").filter(|tgt| !tgt.is_nil());
    let tgt = tgt.map(|tgt| (tgt, kind.as_str()));
    fleet.cached(part, tgt).map(Value::Map)
}

fn present(scope: &FunctionContext, args: &Map) -> Result<Value, String> {
    let subset = args.get("subset").map(Value::str_list);
    let subset: Option<Vec<_>> =
        subset.map(|ids| ids.iter().filter_map(|id| id.parse().ok()).collect());
    let connected = match &scope.fleet {
        Some(fleet) => fleet.connected(subset.as_deref())?,
        None => BTreeMap::new(),
    };
    let ids = connected.iter();
    Ok(if args.get("show_ip").is_some_and(Value::truthy) {
        Value::Map(ids.map(|(id, ip)| (id.as_str(), ip.to_string())).collect())
    } else {
        Value::Array(ids.map(|(id, _)| id.as_str().into()).collect())
    })
}

fn not_present(scope: &FunctionContext, args: &Map) -> Result<Value, String> {
    let subset = args.get("subset").map(Value::str_list);
    let absent = match &scope.fleet {
        Some(fleet) => fleet.disconnected()?,
        None => Vec::new(),
    };
    let wanted = |id: &str| {
        let subset = subset.as_ref();
        subset.is_none_or(|ids| ids.iter().any(|wanted| wanted == id))
    };
    let absent = absent.iter().filter(|id| wanted(id.as_str()));
    Ok(Value::Array(absent.map(|id| id.as_str().into()).collect()))
}
