//! `network.*`: wakes hosts up (`salt/runners/network.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::fleet::Fleet;
use crate::sls;
use halite_modules::execution::{Context, invoke};
use halite_store::cached_data::{CachedPart, cached_data};
use halite_wire::{Map, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "network.wol",
        args: &["mac", "?bcast", "?destport"],
        doc: "Sends a wake-on-LAN packet to a hardware address; bcast is 255.255.255.255 and destport 9 unless given.",
        run: |context, args| {
            let mac = args.get(0, "mac").cloned().unwrap_or_default();
            let sent = Sender::new(context, args, 1)?.wake(&mac)?;
            Ok(sent.into())
        },
    },
    Function {
        name: "network.wollist",
        args: &["maclist", "?bcast", "?destport"],
        doc: "Wakes up every hardware address of a file, one in each line.",
        run: wollist,
    },
    Function {
        name: "network.wolmatch",
        args: &["tgt", "?tgt_type", "?bcast", "?destport"],
        doc: "Wakes up minions by the hardware addresses in their cached grains.",
        run: wolmatch,
    },
];

/// Calls the function of the master's host.
struct Sender {
    host: Context,
    more: Vec<Value>,
}

impl Sender {
    /// `bcast` is at the position `at`, and `destport` behind it.
    fn new(context: &RunContext, args: &Args, at: usize) -> Result<Sender, RunError> {
        let bcast = args.text(at, "bcast");
        let port = args.get(at + 1, "destport").cloned();
        Ok(Sender {
            host: sls::without_pillar(&context.config).map_err(RunError::Unknown)?,
            more: vec![
                bcast.unwrap_or_else(|| "255.255.255.255".to_owned()).into(),
                port.unwrap_or(Value::Int(9)),
            ],
        })
    }

    fn wake(&self, mac: &Value) -> Result<Value, RunError> {
        let mut args = vec![mac.clone()];
        args.extend(self.more.iter().cloned());
        invoke(&self.host, "network.wol", args, Map::new())
            .map_err(|e| RunError::Raised(e.class().to_owned(), format!("{}: {e}", text(mac))))
    }
}

fn text(value: &Value) -> String {
    halite_modules::execution::python::str(value)
}

fn wollist(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let path = args.text(0, "maclist").unwrap_or_default();
    let list = std::fs::read_to_string(&path)
        .map_err(|e| RunError::Unknown(format!("maclist {path}: {e}")))?;
    let sender = Sender::new(context, args, 1)?;
    let mut woken = Vec::new();
    for mac in list.lines().map(str::trim).filter(|mac| !mac.is_empty()) {
        sender.wake(&mac.into())?;
        context.text(&format!("Waking up {mac}"));
        woken.push(mac.to_owned());
    }
    Ok(Value::from(woken).into())
}

fn wolmatch(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let kind = args.text(1, "tgt_type").unwrap_or_else(|| "glob".into());
    let tgt = args.get(0, "tgt").map(|tgt| (tgt, kind.as_str()));
    let fleet = Fleet::open(&context.config)?;
    let mine = &*context.stores.mine;
    let grains = cached_data(
        &context.config,
        mine,
        &fleet.inventory(),
        CachedPart::Grains,
        tgt,
    )
    .map_err(|why| RunError::Raised("SaltInvocationError".into(), why))?;
    let sender = Sender::new(context, args, 2)?;
    let mut woken = Vec::new();
    for (_, grains) in grains.iter() {
        let macs = grains
            .as_map()
            .and_then(|grains| grains.get("hwaddr_interfaces")?.as_map());
        for (name, mac) in macs.into_iter().flat_map(Map::iter) {
            if !name.is_str("lo") {
                let mac = text(mac).trim().to_owned();
                sender.wake(&mac.as_str().into())?;
                woken.push(mac);
            }
        }
    }
    Ok(Value::from(woken).into())
}
