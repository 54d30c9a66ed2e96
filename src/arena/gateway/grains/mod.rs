//! Facts about a runtime as grains: all of them below `arena`, and at the top level the few grains that mixed fleets
//! are targeted by, under Salt's names.

use crate::registry::{KeptRuntime, json_value};
use crate::wire::Json;
use halite_wire::{Map, Value};

/// Grains taken from `platform`, each with its path there.
const PLATFORM: &[(&str, &[&str])] = &[
    ("kernel", &["kernel"]),
    ("kernelrelease", &["kernelrelease"]),
    ("os", &["os"]),
    ("osrelease", &["osrelease"]),
    ("cpuarch", &["cpu", "arch"]),
    ("cpu_model", &["cpu", "model"]),
    ("num_cpus", &["cpu", "cores"]),
];

/// The grains of a runtime of this realm.
pub(super) fn grains(kept: &KeptRuntime, realm: &str) -> Map {
    let runtime = &kept.runtime;
    let mut out = halite_wire::map! {
        "id" => kept.id.as_str(), "gateway" => super::NAME,
        "arena" => halite_wire::map! {
            "uuid" => runtime.uuid.as_str(), "name" => runtime.name.as_str(),
            "apis" => runtime.apis.clone(), "runtime_type" => runtime.kind.as_str(),
            "platform" => json_value(&runtime.platform), "metadata" => json_value(&runtime.metadata),
            "max_nmodules" => runtime.max_modules, "realm" => realm,
            "manager" => runtime.manager.as_ref().map_or(Value::Nil, |uuid| uuid.as_str().into()),
        },
    };
    for (name, path) in PLATFORM {
        let found = path
            .iter()
            .try_fold(&runtime.platform, |at, key| at.get(key));
        if let Some(found) = found.filter(|found| found.is_string() || found.is_number()) {
            out.set(*name, json_value(found));
        }
    }
    // Salt's unit is MiB.
    let memory = runtime.platform.get("mem").and_then(|mem| mem.get("total"));
    if let Some(bytes) = memory.and_then(Json::as_u64).filter(|n| *n >= 1 << 20) {
        out.set("mem_total", bytes >> 20);
    }
    if let Some(host) = runtime.metadata.get("host").and_then(Json::as_str) {
        out.set("host", host);
    }
    out
}

#[cfg(test)]
pub(super) mod tests;
