//! SLS files that run on the master, with its grains, pillar and files.

use halite_config::MasterConfig;
use halite_modules::grains;
use halite_render::pillar::{PillarCompiler, PillarRequest};
use halite_wire::Map;
use halite_wire::ids::MinionId;
use std::time::Duration;

/// The renderer of orchestrations and reactions.
pub use halite_render::MasterSls;

/// A renderer for the master's own id. `given` is the caller's pillar data, merged over the pillar of the
/// master's id.
///
/// # Errors
/// The master's id is invalid, or its pillar cannot be compiled.
pub fn of_master(
    config: &MasterConfig,
    given: Map,
    pillarenv: Option<&str>,
) -> Result<MasterSls, String> {
    let (id, own) = master_identity(config)?;
    let mut request = PillarRequest::new(id.clone(), own.clone());
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
    Ok(MasterSls::new(config, id, own, pillar))
}

/// A renderer without a pillar.
///
/// # Errors
/// The master's id is invalid.
pub fn without_pillar(config: &MasterConfig) -> Result<MasterSls, String> {
    let (id, own) = master_identity(config)?;
    Ok(MasterSls::new(config, id, own, Map::new()))
}

/// Id and grains of the master itself.
fn master_identity(config: &MasterConfig) -> Result<(MinionId, Map), String> {
    let id: MinionId = config
        .id
        .parse()
        .map_err(|e| format!("the option `id` of the master: {e}"))?;
    let mut own = grains::collect(&Map::new());
    own.set("id", config.id.as_str());
    Ok((id, own))
}
