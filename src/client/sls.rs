//! SLS files that run on the master, with its grains, pillar, files and the execution functions of its host.

use halite_config::MasterConfig;
use halite_modules::execution::{Context, template_functions};
use halite_modules::grains;
use halite_modules::render::SaltFunctions;
use halite_render::pillar::{PillarCompiler, PillarRequest};
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The renderer of orchestrations and reactions.
pub use halite_render::MasterSls;
pub use halite_render::functions::RunnerFn;

/// The master's host as its own minion (`salt/minion.py MasterMinion`): with the master's id and options, its grains and the
/// pillar of its id, over which `given` is merged.
///
/// # Errors
/// The master's id is invalid, or its pillar cannot be compiled.
pub fn host(config: &MasterConfig, given: Map, pillarenv: Option<&str>) -> Result<Context, String> {
    let mut ctx = without_pillar(config)?;
    let mut request = PillarRequest::new(id_of(config)?, Map::clone(&ctx.grains));
    request.pillar_override = given;
    request.pillarenv = pillarenv.map(str::to_owned);
    let pillar = PillarCompiler::new(config)
        .compile(&request, Duration::from_secs(config.request_timeout.max(1)))
        .map_err(|e| e.to_string())?;
    if let Some(errors) = pillar.get("_errors") {
        return Err(format!(
            "the master's own pillar has errors: {}",
            errors.str_list().join("; ")
        ));
    }
    ctx.pillar = Arc::new(pillar);
    Ok(ctx)
}

/// The same without a pillar.
///
/// # Errors
/// The master's id is invalid.
pub fn without_pillar(config: &MasterConfig) -> Result<Context, String> {
    id_of(config)?;
    let mut own = grains::collect(&Map::new());
    own.set("id", config.id.as_str());
    let mut ctx = Context::of_master(config);
    Arc::make_mut(&mut ctx.opts).set("file_client", "local");
    ctx.grains = Arc::new(own);
    Ok(ctx)
}

/// A renderer for SLS files on this host, with the functions of pillars.
///
/// # Errors
/// The master's id is invalid.
pub fn renderer(config: &MasterConfig, host: &Context) -> Result<MasterSls, String> {
    let (grains, pillar) = (Map::clone(&host.grains), Map::clone(&host.pillar));
    Ok(MasterSls::new(config, id_of(config)?, grains, pillar))
}

/// The same with all functions of this host; `runner` calls those of runners.
///
/// # Errors
/// The master's id is invalid.
pub fn open_renderer(
    config: &MasterConfig,
    host: &Context,
    runner: Rc<RunnerFn>,
) -> Result<MasterSls, String> {
    let functions = SaltFunctions(template_functions(host.clone()));
    Ok(renderer(config, host)?.with_functions(Rc::new(functions), runner))
}

fn id_of(config: &MasterConfig) -> Result<MinionId, String> {
    config
        .id
        .parse()
        .map_err(|e| format!("the option `id` of the master: {e}"))
}
