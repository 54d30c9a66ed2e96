//! `state.pause`, `state.resume` and `state.soft_kill`: pause or stop runs of `state.orchestrate`
//! (`salt/runners/state.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use crate::orchestrate::pause;
use halite_wire::Value;
use halite_wire::ids::Jid;

const PAUSE: &[&str] = &["jid", "?state_id", "?duration"];
const RESUME: &[&str] = &["jid", "?state_id"];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "state.pause",
        args: PAUSE,
        doc: "Pauses an orchestration before a state, or before the next; duration is in seconds.",
        run: hold,
    },
    Function {
        name: "state.set_pause",
        args: PAUSE,
        doc: "The same as state.pause.",
        run: hold,
    },
    Function {
        name: "state.resume",
        args: RESUME,
        doc: "Resumes a paused orchestration.",
        run: resume,
    },
    Function {
        name: "state.rm_pause",
        args: RESUME,
        doc: "The same as state.resume.",
        run: resume,
    },
    Function {
        name: "state.soft_kill",
        args: RESUME,
        doc: "Stops an orchestration before a state, or before the next.",
        run: |context, args| {
            let (jid, id) = which(args)?;
            let kill = Some(("kill", Value::Bool(true)));
            pause::pause(&context.config, &jid, id.as_deref(), kill)?;
            Ok(Value::Nil.into())
        },
    },
];

fn which(args: &Args) -> Result<(Jid, Option<String>), RunError> {
    let jid = match args.get(0, "jid") {
        Some(Value::Int(number)) => number.to_string(),
        _ => args.text(0, "jid").unwrap_or_default(),
    };
    let jid = jid.parse().map_err(|e| RunError::Unknown(format!("{e}")))?;
    Ok((jid, args.text(1, "state_id")))
}

fn hold(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (jid, id) = which(args)?;
    let duration = args.int(2, "duration").filter(|d| *d != 0);
    let further = duration.map(|d| ("duration", Value::Int(d)));
    pause::pause(&context.config, &jid, id.as_deref(), further)?;
    Ok(Value::Nil.into())
}

fn resume(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (jid, id) = which(args)?;
    pause::resume(&context.config, &jid, id.as_deref())?;
    Ok(Value::Nil.into())
}
