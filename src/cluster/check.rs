//! What `halite-master --check-config` says about a cluster.

use crate::link::probe;
use crate::record::{META, Sealer};
use halite_config::MasterConfig;
use halite_master::master_key;
use halite_store::local::cluster_secret;

/// Connects to the servers of the master's cluster, and looks whether it can take part: what it can run with, and what keeps it from
/// taking part. Changes nothing.
pub fn check(config: &MasterConfig) -> (Vec<String>, Vec<String>) {
    let mut warnings = Vec::new();
    let faults = faults(config, &mut warnings);
    (warnings, faults.into_iter().collect())
}

fn faults(config: &MasterConfig, warnings: &mut Vec<String>) -> Option<String> {
    let cluster = config.cluster()?;
    let secret = match cluster_secret(&cluster) {
        Ok(secret) => secret,
        Err(why) => return Some(format!("cluster_secret: {why}")),
    };
    let probes = match probe(&cluster, &config.id, META) {
        Ok(probes) => probes,
        Err(e) => {
            warnings.push(format!("the servers of the cluster cannot be asked: {e}"));
            return None;
        }
    };
    let mut meta = None;
    for found in probes {
        match found.entry {
            Ok(entry) => meta = meta.or(entry),
            Err(why) => warnings.push(format!("cluster:servers: {}: {why}", found.server)),
        }
    }
    let meta = meta.filter(|meta| !meta.is_empty())?;
    let Some(meta) = Sealer::new(&secret).open_meta(&meta) else {
        let id = &cluster.id;
        return Some(format!(
            "cluster_secret: the masters of {id} have another one"
        ));
    };
    let file = config.master_key();
    let own = file.exists().then(|| master_key(config))?;
    let own = match own {
        Ok(own) => own,
        Err(e) => return Some(e.message),
    };
    (!meta.has_key(&own)).then(|| {
        format!(
            "{} is not the key of the masters of {}: without it, this master takes over theirs at its start",
            file.display(),
            cluster.id
        )
    })
}
