//! All grains of a minion.

use super::{add, collect, external, python, server_id, with_text_keys};
use halite_config::MinionConfig;
use halite_sys::signals::StopFlag;
use halite_wire::Map;

/// All grains of a minion, in increasing priority: core grains, grains of executables, the file `grains` beside the
/// configuration (`salt/grains/extra.py config`), the option `grains`.
pub fn all_grains(config: &MinionConfig) -> Map {
    all_grains_until(config, &StopFlag::default())
}

/// The same; with `stop`, Python files have had their time.
pub fn all_grains_until(config: &MinionConfig, stop: &StopFlag) -> Map {
    let mut own = grains_file(&config.conf_file.with_file_name("grains"));
    for (key, value) in config.grains.iter() {
        match key.as_str() {
            Some(key) => own.set(key, value.clone()),
            None => own.0.push((key.clone(), value.clone())),
        }
    }
    let mut collected = collect(&Map::new());
    let opts = config.as_map();
    let mut further = external::collect(&opts);
    let of_python = python::collect(opts.clone(), &collected, stop);
    add(&mut further, &with_text_keys(of_python), &opts);
    for more in [&further, &own] {
        add(&mut collected, more, &opts);
    }
    for (key, value) in halite_wire::map! {
        "id" => config.id.as_str(),
        "server_id" => server_id(&config.id),
        "master" => config.master.first().map_or("", String::as_str),
    }
    .0
    {
        if !own.iter().any(|(k, _)| *k == key) {
            collected.0.retain(|(k, _)| *k != key);
            collected.0.push((key, value));
        }
    }
    collected
}

/// Reads a grains file; a missing or unreadable one is empty.
fn grains_file(path: &std::path::Path) -> Map {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) => {
            if e.kind() != std::io::ErrorKind::NotFound {
                log::warn!("{}: {e}; ignoring its grains", path.display());
            }
            return Map::new();
        }
    };
    match halite_wire::yaml::parse(&text) {
        Ok(halite_wire::Value::Map(map)) => map,
        Ok(other) if other.is_nil() => Map::new(),
        Ok(_) => {
            log::warn!("{}: not a map; ignoring its grains", path.display());
            Map::new()
        }
        Err(e) => {
            log::warn!("{}: {e}; ignoring its grains", path.display());
            Map::new()
        }
    }
}
