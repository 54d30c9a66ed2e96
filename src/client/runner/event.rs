//! `state.event` and `event.send`: the bus from the command line.

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::call;
use halite_ipc::Subscriber;
use halite_target::fnmatch;
use halite_wire::msgpack;
use halite_wire::{Map, Value};
use std::time::Duration;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "state.event",
        args: &["?tagmatch", "?count", "?quiet", "?pretty"],
        doc: "Prints events as they happen, tag and data; tagmatch is a glob, count ends it after so many.",
        run: watch,
    },
    Function {
        name: "event.send",
        args: &["tag", "?data"],
        doc: "Fires an event with this tag on the master's bus.",
        run: send,
    },
];

fn watch(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let glob = args.text(0, "tagmatch").unwrap_or_else(|| "*".into());
    let mut left = args.int(1, "count").unwrap_or(-1);
    let (quiet, pretty) = (args.flag(2, "quiet"), args.flag(3, "pretty"));
    let path = context.config.event_pub();
    let connect = || {
        Subscriber::connect(&path).map_err(|e| {
            RunError::Unknown(format!(
                "{}: {e}; is the master running, and may this account listen?",
                path.display()
            ))
        })
    };
    let mut events = connect()?;
    while left != 0 && !context.stop.is_set() {
        let event = match events.next(Some(Duration::from_millis(200))) {
            Ok(Some(event)) => event,
            Ok(None) => continue,
            Err(_) => {
                // The master is restarting; keep waiting until the user stops.
                std::thread::sleep(Duration::from_millis(200));
                if let Ok(fresh) = connect() {
                    events = fresh;
                }
                continue;
            }
        };
        if !fnmatch(&event.tag, &glob) {
            continue;
        }
        left -= 1;
        if !quiet {
            let data = msgpack::decode(&event.payload).unwrap_or_default();
            (context.show)(&event.tag, &data, pretty);
        }
    }
    Ok(Value::Nil.into())
}

fn send(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let tag = args.text(0, "tag").unwrap_or_default();
    if let Err(e) = tag.parse::<halite_wire::ids::Tag>() {
        return Err(RunError::Unknown(e.to_string()));
    }
    let data = match args.get(1, "data") {
        None => Map::new(),
        Some(Value::Map(data)) => data.clone(),
        Some(_) => {
            return Err(RunError::Unknown(
                "data must be a map, such as '{\"key\": \"value\"}'".into(),
            ));
        }
    };
    call::fire(&context.config, tag, data)?;
    Ok(Value::Bool(true).into())
}
