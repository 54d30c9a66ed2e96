//! A master without a key takes over the one that minions know the masters of its cluster by: before any role starts, in a process
//! of its own. The first master of a cluster finds none, and makes one.

use crate::link::{Link, LinkEvent};
use crate::record::{META, Meta, PAIR, Sealer};
use halite_config::{ClusterConfig, MasterConfig};
use halite_crypto::noise::fingerprint;
use halite_crypto::{HashType, PrivateKey, clean_key};
use halite_master::store_pair;
use halite_store::local::cluster_secret;
use halite_sys::exit::ExitError;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long a server is looked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most events that wait.
const WAITING: usize = 1024;

/// Asks for the key, and stores it if there is one.
///
/// # Errors
/// No server answers, or what is there cannot be the key of this cluster.
pub fn run(config: &MasterConfig, cluster: &ClusterConfig) -> Result<(), ExitError> {
    let error = |why: String| ExitError::new(1, why);
    let secret = cluster_secret(cluster).map_err(error)?;
    let mut sealer = Sealer::new(&secret);
    let key = config.master_key();
    let file = key.display();
    let found = entries(config, cluster).map_err(|why| {
        error(format!(
            "{file} is not there, and the NATS servers of {} cannot be asked for the key of its masters: {why}. Start them, or copy the \
             key of another master",
            cluster.id
        ))
    })?;
    let Some(meta) = found.get(META) else {
        log::info!(
            "cluster: {} has no master yet: this one makes the key",
            cluster.id
        );
        return Ok(());
    };
    let Some(meta) = sealer.open_meta(meta) else {
        return Err(error(format!(
            "what is in the bucket of {} cannot be read: its masters have another cluster_secret",
            cluster.id
        )));
    };
    sealer.set_mark(&meta.mark);
    let pem = found.get(PAIR).and_then(|sealed| sealer.open_pair(sealed));
    let pair = pem.and_then(|pem| PrivateKey::from_pem(&pem).ok());
    let Some(pair) = pair.filter(|pair| is_key_of(pair, &meta)) else {
        return Err(error(format!(
            "the masters of {} do not offer their key: is one of them running? Otherwise copy it to {file}",
            cluster.id
        )));
    };
    let public = pair.public().to_pem();
    if let Some(pinned) = &config.cluster_pub_fingerprint
        && !is_pinned(pinned, &public)
    {
        return Err(error(format!(
            "the key of the masters of {} is {}, and not {pinned} (cluster_pub_fingerprint)",
            cluster.id,
            fingerprint(&public)
        )));
    }
    store_pair(&key, &pair)?;
    log::warn!(
        "cluster: {file} is the key of the masters of {} now: {}",
        cluster.id,
        fingerprint(&public)
    );
    Ok(())
}

/// Whether this is the key of the masters whose bucket is this one.
pub fn is_key_of(pair: &PrivateKey, meta: &Meta) -> bool {
    fingerprint(&pair.public().to_pem()) == meta.master_key
}

/// Whether a public key has this SHA-256, with or without a line feed at its end, as stock's files have it or not.
fn is_pinned(pinned: &str, public: &str) -> bool {
    let clean = clean_key(public);
    let texts = [clean.clone(), format!("{clean}\n")];
    let hashes = texts.map(|text| HashType::Sha256.hex(text.as_bytes()));
    hashes
        .iter()
        .any(|hash| hash.eq_ignore_ascii_case(pinned.trim()))
}

/// What the bucket has under the two names. If it has masters, it is waited for their key.
fn entries(
    config: &MasterConfig,
    cluster: &ClusterConfig,
) -> Result<HashMap<String, Vec<u8>>, String> {
    let (sender, events) = crossbeam_channel::bounded(WAITING);
    let tell = move |event| sender.send(event).map_err(|_| ());
    let link = Link::open(cluster, &config.id, tell).map_err(|e| e.to_string())?;
    let deadline = Instant::now() + PATIENCE;
    let (mut found, mut all_told) = (HashMap::new(), false);
    let mut why = format!("no answer within {} s", PATIENCE.as_secs());
    while !all_told || found.contains_key(META) && !found.contains_key(PAIR) {
        match events.recv_deadline(deadline) {
            Ok(LinkEvent::Entry(entry)) if [META, PAIR].contains(&entry.name.as_str()) => {
                found.insert(entry.name, entry.value);
            }
            Ok(LinkEvent::AllTold) => all_told = true,
            Ok(LinkEvent::Down(words)) if !words.is_empty() => {
                log::warn!("cluster: {words}");
                why = words;
            }
            Ok(_) => {}
            Err(_) if all_told => break,
            Err(_) => return Err(why),
        }
    }
    // Its thread may be waiting for a reader.
    drop(events);
    drop(link);
    found.retain(|_, value| !value.is_empty());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_the_file() {
        let public = "-----BEGIN PUBLIC KEY-----\nAA==\n-----END PUBLIC KEY-----";
        for text in [public.to_owned(), format!("{public}\n")] {
            let hash = HashType::Sha256.hex(text.as_bytes());
            assert!(is_pinned(&hash, public));
            assert!(is_pinned(&hash.to_uppercase(), &text));
        }
        assert!(!is_pinned(&HashType::Sha256.hex(b"x"), public));
    }
}
