//! The request for a pillar.

use halite_wire::{Map, Value};

/// Parameters of a pillar request, other than the minion.
#[derive(Clone, Debug, Default)]
pub struct PillarQuery {
    /// The environment of the states.
    pub saltenv: Option<String>,
    /// The only pillar environment to use.
    pub pillarenv: Option<String>,
    /// Data that overrides all others.
    pub pillar_override: Map,
    /// An additional external pillar.
    pub ext: Option<Value>,
    /// Options for external pillars (`pass_to_ext_pillars`).
    pub extra: Map,
    /// Whether the master is to compile it anew, in spite of its `pillar_cache`.
    pub clean_cache: bool,
}

impl PillarQuery {
    /// The parameters from a minion's options.
    pub fn of(opts: &Map) -> PillarQuery {
        let text = |key: &str| opts.str(key).map(str::to_owned);
        PillarQuery {
            saltenv: text("saltenv"),
            pillarenv: text("pillarenv"),
            extra: extra(opts),
            ..PillarQuery::default()
        }
    }

    /// The request to the master (reference `salt-protocol.md` 9.1).
    pub fn load(&self, id: &str, grains: &Map) -> Map {
        let mut load = halite_wire::map! {
            "id" => id,
            "grains" => grains.clone(),
            "saltenv" => self.saltenv.clone(),
            "pillarenv" => self.pillarenv.clone(),
            "pillar_override" => self.pillar_override.clone(),
            "extra_minion_data" => self.extra.clone(),
            "ver" => "2",
            "cmd" => "_pillar",
        };
        if let Some(ext) = self.ext.as_ref().filter(|ext| ext.truthy()) {
            load.set("ext", ext.clone());
        }
        if self.clean_cache {
            load.set("clean_cache", true);
        }
        load
    }
}

/// The options that `pass_to_ext_pillars` names (`salt/pillar/__init__.py RemotePillarMixin.get_ext_pillar_extra_minion_data`).
fn extra(opts: &Map) -> Map {
    let names = opts.get("pass_to_ext_pillars").map(Value::str_list);
    let mut out = Map::new();
    for name in names.unwrap_or_default() {
        match opts.get(&name) {
            Some(value) => out.set(name.as_str(), value.clone()),
            None => log::warn!("pass_to_ext_pillars: there is no option {name:?}"),
        }
    }
    out
}
