//! Maintenance.
//!
//! Owns periodic work: rotation of the AES key (requested by `halite-key` through the file `cachedir/.dfn`, and
//! every `publish_session` seconds; [`super::rotation`] decides), removal of old jobs and expired tokens, when minions
//! were connected last, and, in a thread, updates of the file server. Binds nothing; fires events on `master_event_pull.ipc` and
//! publishes through `publish_pull.ipc`.
//!
//! On failure: nothing is lost, its successor continues.

use super::events::Bus;
use super::presence_events::PresenceEvents;
use super::roles::Roles;
use super::rotation::{Rotation, RotationStep};
use super::score::Score;
use halite_config::MasterConfig;
use halite_crypto::KeyString;
use halite_store::Stores;
use halite_store::jobs::JobStore;
use halite_store::keys::KeyState;
use halite_store::presence::{Addresses, ConnectedHere};
use halite_store::tokens::TokenStore;
use halite_sys::exit::ExitError;
use halite_sys::shared::SharedSecret;
use halite_sys::signals::StopFlag;
use halite_sys::time::{unix_now, unix_now_f64, unix_now_i64};
use halite_transport::sockets::{Context, Push, PushOptions};
use halite_wire::Value;
use halite_wire::ids::{JidClock, MinionId};
use halite_wire::msgpack::{self, Profile};
use std::time::{Duration, Instant};

/// How often to check for the rotation file. Salt does so every `loop_interval`, so that a deleted minion can
/// read jobs for another minute.
const WATCH: Duration = Duration::from_secs(1);

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let shared = SharedSecret::inherited()?;
    let stores = Stores::open(config);
    let mut bus = Bus::new(config);
    let files = super::fileserver_update::start(config, stop)?;
    let mut rotation = Rotation::new(
        Duration::from_secs(config.publish_session.max(1)),
        Duration::from_secs(config.rotation_grace),
        shared.offered()?.is_some(),
        Instant::now(),
    );
    let mut score = Score::inherited("maintenance");
    let (mut rotations, mut last) = (0u64, 0u64);
    let mut looped: Option<Instant> = None;
    let mut presence = PresenceEvents::default();
    let mut connected = ConnectedHere::default();
    roles.ready();
    // The role `cluster` decides for all masters of a cluster, and tells who is connected to any of them.
    let is_alone = config.cluster().is_none();
    while !stop.is_set() {
        let requested = is_alone && stores.rotation.take();
        if is_alone
            && let Some(act) = rotation.due(requested, Instant::now())
            && rotate(act, &shared, &mut bus)?
        {
            (rotations, last) = (rotations + 1, unix_now());
            if config.ping_on_rotate {
                ping(config)?;
            }
        }
        let interval = Duration::from_secs(config.loop_interval.max(1));
        if looped.is_none_or(|at| at.elapsed() >= interval) {
            looped = Some(Instant::now());
            expire(&*stores.jobs, config.keep_jobs_seconds);
            if config.keep_jobs_seconds > 0 {
                let keep = Duration::from_secs(config.keep_jobs_seconds);
                stores.owners.expire(keep);
            }
            match connected.look_everywhere(config, &stores, None) {
                Ok(found) => {
                    note(&stores, &found);
                    if config.presence_events && is_alone {
                        bus.fire_all(presence.next(found.into_keys().collect()));
                    }
                }
                Err(e) => log::error!("cannot determine which minions are connected: {e}"),
            }
            expire_tokens(&*stores.tokens);
        }
        score.tick(|| halite_wire::map! {"rotations" => rotations, "rotated" => last});
        pause(stop);
    }
    if files.join().is_err() {
        return Err(ExitError::new(1, "the file server thread has panicked"));
    }
    Ok(())
}

/// These minions are connected now. Those that have no accepted key any more are forgotten.
fn note(stores: &Stores, connected: &Addresses) {
    let accepted = stores.keys.list(KeyState::Accepted);
    let noted = accepted.and_then(|ids| {
        let is_accepted = |id: &MinionId| ids.binary_search(id).is_ok();
        stores
            .last_seen
            .note(connected, unix_now_i64(), &is_accepted)
    });
    if let Err(e) = noted {
        log::error!("cannot keep when minions were connected: {e}");
    }
}

fn pause(stop: &StopFlag) {
    // Sleep in short steps, so that SIGTERM takes effect at once.
    let end = Instant::now() + WATCH;
    while Instant::now() < end && !stop.is_set() {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Performs a rotation step; returns whether another key is in force now.
fn rotate(act: RotationStep, shared: &SharedSecret, bus: &mut Bus) -> Result<bool, ExitError> {
    let fresh = KeyString::generate;
    let generation = match act {
        RotationStep::Offer => {
            let next = shared.offer_key(fresh().as_str())?;
            log::info!("the next AES key of publications is on offer (generation {next})");
            return Ok(false);
        }
        RotationStep::Take => match shared.take_offered()? {
            Some(generation) => generation,
            // The offer was withdrawn meanwhile by another writer; a new key is due anyway.
            None => shared.store_key(fresh().as_str())?,
        },
        RotationStep::Replace => shared.store_key(fresh().as_str())?,
    };
    log::info!("the AES key of publications was rotated (generation {generation})");
    bus.fire("key", halite_wire::map! {"rotate_aes_key" => true});
    Ok(true)
}

/// `ping_on_rotate`: a job for everybody, so that all sign in again now and not during the next important job.
fn ping(config: &MasterConfig) -> Result<(), ExitError> {
    let path = config.publish_pull();
    let socket = Push::connect(&Context::new(), &path, PushOptions::default())?;
    let job = halite_wire::map! {
        "fun" => "test.ping", "arg" => Vec::<Value>::new(), "tgt" => "*",
        "jid" => JidClock::default().next().as_str(), "ret" => "", "tgt_type" => "glob",
        "user" => config.user.as_str(),
    };
    let job = msgpack::encode_map(&job, Profile::Wire);
    Ok(socket.send(&[job])?)
}

fn expire(jobs: &dyn JobStore, keep: u64) {
    if keep == 0 {
        return;
    }
    match jobs.expire(unix_now_i64(), keep) {
        Ok(0) => {}
        Ok(n) => log::info!("{n} jobs older than {keep} seconds were removed"),
        Err(e) => log::error!("old jobs could not be removed: {e}"),
    }
}

fn expire_tokens(tokens: &dyn TokenStore) {
    match tokens.expire(unix_now_f64()) {
        Ok(0) => {}
        Ok(n) => log::info!("{n} expired tokens were removed"),
        Err(e) => log::error!("expired tokens could not be removed: {e}"),
    }
}
