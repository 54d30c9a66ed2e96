//! `pillar.show_pillar` and `pillar.show_top`: the pillar as the master compiles it
//! (`salt/runners/pillar.py`).

use super::{Args, Function, RunContext, RunError, RunnerOutput};
use halite_render::pillar::{PillarCompiler, PillarRequest};
use halite_wire::Value;
use halite_wire::ids::MinionId;
use std::time::Duration;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "pillar.show_pillar",
        args: &["?minion", "?saltenv", "?pillarenv"],
        doc: "The pillar of a minion, compiled now with its cached grains; without a minion, with none.",
        run: show_pillar,
    },
    Function {
        name: "pillar.show_top",
        args: &["?minion", "?saltenv"],
        doc: "The merged top files of the pillar, rendered with the cached grains of a minion.",
        run: show_top,
    },
];

/// Compiles the pillar with the cached grains.
fn show_pillar(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (master, mut request) = prepare(context, args)?;
    request.pillarenv = args.text(2, "pillarenv");
    let limit = Duration::from_secs(context.config.request_timeout);
    let pillar = master
        .compile(&request, limit)
        .map_err(|e| RunError::Unknown(e.to_string()))?;
    Ok(Value::Map(pillar).into())
}

fn show_top(context: &mut RunContext, args: &Args) -> Result<RunnerOutput, RunError> {
    let (master, request) = prepare(context, args)?;
    let (top, errors) = master
        .top(&request)
        .map_err(|e| RunError::Unknown(e.to_string()))?;
    if errors.is_empty() {
        Ok(Value::Map(top.into()).into())
    } else {
        Ok(Value::from(errors).into())
    }
}

/// The minion in question, with its cached data.
fn prepare(context: &RunContext, args: &Args) -> Result<(PillarCompiler, PillarRequest), RunError> {
    let name = args.text(0, "minion").unwrap_or_else(|| "*".into());
    let id: MinionId = name
        .parse()
        .map_err(|e| RunError::Unknown(format!("{e}")))?;
    let cached = context.stores.minions.get(&id);
    let grains = match cached {
        Some(data) => (*data.grains).clone(),
        None => halite_wire::map! {"fqdn" => name},
    };
    let mut request = PillarRequest::new(id, grains);
    request.saltenv = Some(args.text(1, "saltenv").unwrap_or_else(|| "base".into()));
    Ok((PillarCompiler::new(&context.config), request))
}
