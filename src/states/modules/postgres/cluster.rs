//! `postgres_cluster`: clusters of Debian. Stock 3008 lacks the functions that these states call; they are those of 3007
//! (`salt/states/postgres_cluster.py`).

use super::{changed, run_with};
use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::python;
use halite_wire::{Map, Value, map};

pub const MODULE: StateModule = StateModule {
    name: "postgres_cluster",
    functions: &[
        StateFunction::new(
            "present",
            |s| run_with(s, "pg_createcluster", present),
            "Ensures that a cluster exists.",
        )
        .args(args![
            version,
            port = None,
            encoding = None,
            locale = None,
            datadir = None,
            allow_group_access = None,
            data_checksums = None,
            wal_segsize = None
        ]),
        StateFunction::new(
            "absent",
            |s| run_with(s, "pg_createcluster", absent),
            "Ensures that a cluster does not exist.",
        )
        .args(args![version]),
    ],
};

/// The cluster in comments.
fn shown(s: &State<'_, '_>) -> String {
    format!("{}/{}", python::str(s.arg("version")), s.name())
}

fn list(s: &mut State<'_, '_>) -> Result<Map> {
    let all = s.salt_with("postgres.cluster_list", vec![], map! {"verbose" => true})?;
    Ok(all.into_map().unwrap_or_default())
}

fn present(s: &mut State<'_, '_>) -> Result {
    let cluster = shown(s);
    if let Some(found) = list(s)?.get(&cluster).and_then(Value::as_map) {
        let differs = |arg: &str| s.flag(arg) && found.get(arg) != Some(s.arg(arg));
        if differs("port") || differs("datadir") {
            return Ok(StateOutcome::bad(format!(
                "Cluster {cluster} has wrong parameters which couldn't be changed on fly."
            )));
        }
        return Ok(StateOutcome::good(format!(
            "Cluster {cluster} is already present"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Cluster {cluster} is set to be created"
        )));
    }
    let mut kwargs = s.pick(&[
        "version",
        "port",
        "locale",
        "encoding",
        "datadir",
        "allow_group_access",
        "data_checksums",
        "wal_segsize",
    ]);
    kwargs.set("name", s.name());
    if s.salt_with("postgres.cluster_create", vec![], kwargs)?
        .truthy()
    {
        let mut changes = Map::new();
        changes.set(cluster.as_str(), "Present");
        let text = format!("The cluster {cluster} has been created");
        return Ok(StateOutcome::good(text).changes(changes));
    }
    Ok(StateOutcome::bad(format!(
        "Failed to create cluster {cluster}"
    )))
}

fn absent(s: &mut State<'_, '_>) -> Result {
    let cluster = shown(s);
    if !list(s)?.contains(&cluster) {
        return Ok(StateOutcome::good(format!(
            "Cluster {cluster} is not present, so it cannot be removed"
        )));
    }
    if s.test {
        return Ok(StateOutcome::would(format!(
            "Cluster {cluster} is set to be removed"
        )));
    }
    let args = vec![s.arg("version").clone(), s.name().into(), true.into()];
    let ran = s.salt("postgres.cluster_remove", args)?;
    if ran.as_map().and_then(|ran| ran.int("retcode")) == Some(0) {
        let text = format!("Cluster {cluster} has been removed");
        return Ok(changed(s, text, "Absent"));
    }
    // Stock says that it has been removed.
    Ok(StateOutcome::bad(format!(
        "Failed to remove cluster {cluster}"
    )))
}
