//! A master without a key takes over the one that minions know the masters of its cluster by: before any role starts, in a process
//! of its own. The first master of a cluster finds none, and makes one.

use crate::link::{Link, LinkEvent};
use crate::memory;
use crate::record::{META, Meta, PAIR, Sealer};
use crossbeam_channel::Receiver;
use halite_config::{ClusterConfig, MasterConfig};
use halite_crypto::noise::fingerprint;
use halite_crypto::{HashType, IdentityKey, clean_key};
use halite_master::{read_key, store_pair};
use halite_store::local::cluster_secret;
use halite_sys::exit::ExitError;
use std::time::{Duration, Instant};

/// How long a server is looked for, and then the key.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long what cannot be read is waited for to be written again: somebody else may have written it.
const MENDING: Duration = Duration::from_secs(5);
/// Most events that wait.
const WAITING: usize = 1024;

/// Asks for the key, and stores it if there is one.
///
/// # Errors
/// No server answers, or what is there cannot be the key of this cluster.
pub fn run(config: &MasterConfig, cluster: &ClusterConfig) -> Result<(), ExitError> {
    let id = &cluster.id;
    let key = config.master_key();
    let file = key.display();
    let error = |why: String| ExitError::new(1, why);
    let secret = cluster_secret(cluster).map_err(error)?;
    let sealer = Sealer::new(&secret);
    let found = look(config, cluster, sealer).map_err(|why| {
        error(format!(
            "{file} is not there, and the NATS servers of {id} cannot be asked for the key of its masters: {why}. Start them, or copy the \
             key of another master"
        ))
    })?;
    let why = match found {
        Found::Key(pair) => return take_over(config, id, &pair),
        Found::Nothing if memory::path(&config.cluster_dir()).exists() => format!(
            "{file} is not there, and neither is the bucket of {id}, which this master was a member of: start another one of its masters \
             first, or copy its key"
        ),
        Found::Nothing => {
            // That of a master alone becomes that of the cluster.
            let own = read_key(&config.own_key()).map(|own| own.public().to_pem());
            let is_own = |pin: &str| own.is_ok_and(|own| is_pinned(pin, &own));
            if config.cluster_pin().is_none_or(is_own) {
                log::warn!(
                    "cluster: {id} has no master yet: this one is the first, and makes the key"
                );
                return Ok(());
            }
            format!(
                "{id} has no master yet, but cluster_pub_fingerprint asks for its key: is cluster_id right, and does one of its masters run?"
            )
        }
        Found::Remains => format!(
            "somebody has removed what says what the bucket of {id} is: start one of its masters first"
        ),
        Found::Unreadable => format!(
            "what is in the bucket of {id} cannot be read: its masters have another cluster_secret"
        ),
        Found::NoKey => {
            format!("the masters of {id} do not offer their key: is one of them running?")
        }
    };
    Err(error(why))
}

/// Stores the key of the masters of the cluster `id`, unless another one is asked for.
fn take_over(config: &MasterConfig, id: &str, pair: &IdentityKey) -> Result<(), ExitError> {
    let public = pair.public().to_pem();
    if let Some(pinned) = config.cluster_pin()
        && !is_pinned(pinned, &public)
    {
        let why = format!(
            "the key of the masters of {id} is {}, and not {pinned} (cluster_pub_fingerprint)",
            fingerprint(&public)
        );
        return Err(ExitError::new(1, why));
    }
    let file = config.master_key();
    store_pair(&file, pair)?;
    log::warn!(
        "cluster: {} is the key of the masters of {id} now: {}",
        file.display(),
        fingerprint(&public)
    );
    Ok(())
}

/// What the bucket has.
enum Found {
    Nothing,
    /// Something, but not what it is.
    Remains,
    /// It cannot be read with this secret.
    Unreadable,
    /// No key of its masters.
    NoKey,
    /// The key of its masters.
    Key(IdentityKey),
}

/// Whether a public key has this SHA-256, with or without a line feed at its end, as stock's files have it or not.
fn is_pinned(pinned: &str, public: &str) -> bool {
    let clean = clean_key(public);
    let texts = [clean.clone(), format!("{clean}\n")];
    let pinned = pinned.trim().replace(':', "");
    let hashes = texts.map(|text| HashType::Sha256.hex(text.as_bytes()));
    hashes.iter().any(|hash| hash.eq_ignore_ascii_case(&pinned))
}

/// Reads the bucket.
fn look(config: &MasterConfig, cluster: &ClusterConfig, sealer: Sealer) -> Result<Found, String> {
    let (sender, events) = crossbeam_channel::bounded(WAITING);
    let tell = move |event| sender.send(event).map_err(|_| ());
    let link = Link::open(cluster, &config.id, tell).map_err(|e| e.to_string())?;
    let found = listen(&events, sealer);
    // Its thread may be waiting for a reader.
    drop(events);
    drop(link);
    found
}

fn listen(events: &Receiver<LinkEvent>, mut sealer: Sealer) -> Result<Found, String> {
    let mut deadline = Instant::now() + PATIENCE;
    let (mut meta, mut pair): (Option<Option<Meta>>, Option<Vec<u8>>) = (None, None);
    let (mut is_empty, mut all_told) = (true, false);
    let mut why = format!("no answer within {} s", PATIENCE.as_secs());
    loop {
        let found = match (&meta, &pair) {
            (None, _) if is_empty => Found::Nothing,
            (None, _) => Found::Remains,
            (Some(None), _) => Found::Unreadable,
            (Some(Some(meta)), Some(sealed)) => {
                sealer.set_mark(&meta.mark);
                let pair = sealer.open_pair(sealed, meta);
                pair.map_or(Found::NoKey, Found::Key)
            }
            (Some(Some(_)), None) => Found::NoKey,
        };
        if all_told && matches!(found, Found::Nothing | Found::Key(_)) {
            return Ok(found);
        }
        match events.recv_deadline(deadline) {
            Ok(LinkEvent::Entry(entry)) => {
                is_empty = false;
                match entry.name.as_str() {
                    META if entry.value.is_empty() => meta = None,
                    META => meta = Some(sealer.open_meta(&entry.value)),
                    PAIR => pair = Some(entry.value),
                    _ => {}
                }
            }
            Ok(LinkEvent::AllTold) => {
                all_told = true;
                if !matches!(found, Found::NoKey) {
                    deadline = deadline.min(Instant::now() + MENDING);
                }
            }
            Ok(LinkEvent::Down(words)) if !words.is_empty() => {
                log::warn!("cluster: {words}");
                why = words;
            }
            Ok(_) => {}
            Err(_) if all_told => return Ok(found),
            Err(_) => return Err(why),
        }
    }
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
            let pairs = hash
                .as_bytes()
                .chunks(2)
                .map(|pair| String::from_utf8_lossy(pair));
            assert!(is_pinned(&pairs.collect::<Vec<_>>().join(":"), public));
        }
        assert!(!is_pinned(&HashType::Sha256.hex(b"x"), public));
    }
}
