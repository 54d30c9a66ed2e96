//! `_master_tops`: states of a minion from a source other than the top file (`salt/daemons/masterapi.py
//! RemoteFuncs._master_tops`, `salt/tops/ext_nodes.py`).

use super::context::Context;
use halite_render::ext_nodes::{self, MODULE, merge};
use halite_render::python::About;
use halite_wire::ids::MinionId;
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

/// Longest run time of the command in seconds, if a request may take longer at all.
const PATIENCE: u64 = 30;

/// Maps environments to names of states. The id is that of the channel; that in the configuration sent by the minion, from which
/// stock takes it, is replaced.
pub(crate) fn request(worker: &mut Context, id: &MinionId, load: &Map) -> Value {
    let patience = Duration::from_secs(PATIENCE.min(worker.config.request_timeout));
    let config = worker.config.clone();
    let mut tops = Map::new();
    for (name, setting) in config.master_tops.iter() {
        let name = name.as_str().unwrap_or_default();
        let found = match (by_python(worker, name, id, load, patience), name, setting) {
            (Some(found), ..) => found,
            (None, MODULE, Value::Str(line)) if !line.is_empty() => {
                ext_nodes::run(line, id.as_str(), patience)
            }
            (None, MODULE, _) => continue,
            (None, ..) => {
                log::error!(
                    "master_tops: there is no module {name:?}: this master has {MODULE} and the Python files that \
                     `halite-run saltutil.sync_tops` fetches from salt://_tops"
                );
                continue;
            }
        };
        match found {
            Ok(more) => merge(&mut tops, more),
            Err(e) => log::error!("master_tops: {name} of {id} failed: {e}"),
        }
    }
    tops.into()
}

/// `top(opts=, grains=)` of a Python file, if there is one: `__opts__` are the master's, the arguments are the minion's.
fn by_python(
    worker: &mut Context,
    name: &str,
    id: &MinionId,
    load: &Map,
    patience: Duration,
) -> Option<Result<Map, String>> {
    let pillar = worker.pillar();
    let python = pillar.python()?;
    let about = About::new(python.opts().clone(), Instant::now() + patience);
    let function = format!("{name}.top");
    match python.has(&about, "tops", &function, name == MODULE) {
        Ok(true) => {}
        Ok(false) if name == MODULE => return None,
        Ok(false) => return python.fault(&about, "tops", &function).map(Err),
        Err(why) => return Some(Err(why)),
    }
    let mut opts = load
        .get("opts")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    opts.set("id", id.as_str());
    let grains = opts
        .get("grains")
        .cloned()
        .unwrap_or_else(|| Map::new().into());
    let kwargs = halite_wire::map! {"opts" => opts, "grains" => grains};
    let done = python.call(&about, "tops", &function, Vec::new(), kwargs, Map::new());
    Some(match done {
        Ok(Value::Map(found)) => Ok(found),
        Ok(Value::Nil) => Ok(Map::new()),
        Ok(_) => Err("it did not give a dictionary".to_owned()),
        Err(why) => Err(why),
    })
}
