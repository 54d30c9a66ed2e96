//! `network.*`: wakes hosts up (`salt/runners/network.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::fleet::Fleet;
use crate::sls;
use halite_modules::execution::{Context, invoke};
use halite_store::cached_data::{CachedPart, cached_data};
use halite_sys::safe_open::read_regular;
use halite_wire::{Map, Value};

/// Largest list, in bytes.
const MOST_LIST: u64 = 1 << 20;
/// How many interfaces of one minion are woken.
const MOST_INTERFACES: usize = 64;

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
        doc: "Wakes up every hardware address of a file: one in each line, but for empty ones and those that begin with #.",
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

/// Twelve digits, with or without a separator between pairs.
fn is_hardware_address(text: &str) -> bool {
    let digits = |c: char| c.is_ascii_hexdigit();
    match text.len() {
        12 => text.chars().all(digits),
        17 => text.chars().enumerate().all(|(at, c)| match at % 3 {
            2 => matches!(c, ':' | '-'),
            _ => digits(c),
        }),
        _ => false,
    }
}

fn wollist(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let path = args.text(0, "maclist").unwrap_or_default();
    // Who may call this need not be allowed to read the master's files: nothing of them is told, nor whether they exist.
    let list = read_regular(path.as_ref(), MOST_LIST).ok();
    let list = list.and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(list) = list else {
        return Err(RunError::Unknown(format!(
            "maclist {path} is not a list that can be read"
        )));
    };
    let sender = Sender::new(context, args, 1)?;
    let mut woken = Vec::new();
    let lines = list.lines().map(str::trim).zip(1..);
    for (mac, number) in lines.filter(|(mac, _)| !mac.is_empty() && !mac.starts_with('#')) {
        if !is_hardware_address(mac) {
            return Err(RunError::Unknown(format!(
                "maclist {path}: line {number} is not a hardware address"
            )));
        }
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
    for (id, grains) in grains.iter() {
        let macs = grains
            .as_map()
            .and_then(|grains| grains.get("hwaddr_interfaces")?.as_map());
        // The grains are what the minion says.
        for (name, mac) in macs.into_iter().flat_map(Map::iter).take(MOST_INTERFACES) {
            let mac = text(mac).trim().to_owned();
            if name.is_str("lo") || woken.contains(&mac) {
                continue;
            }
            if !is_hardware_address(&mac) {
                log::warn!("{}: {} has no hardware address", text(id), text(name));
                continue;
            }
            sender.wake(&mac.as_str().into())?;
            woken.push(mac);
        }
    }
    Ok(Value::from(woken).into())
}
