//! Key management: what `salt-key` does (`salt/key.py Key`; reference `salt-local.md` 6), on the files of the
//! key store and with events to a running master.
//!
//! The files are authoritative, events are best effort: everything here works without a master.

mod cleanup;
mod pairs;

pub use pairs::{KeyPairError, SignatureOptions, generate_pair, make_signature};

use crate::samples::Samples;
use halite_config::{BusFraming, MasterConfig, SaltSeries};
use halite_crypto::{HashType, IdentityPublic, PublicKey, clean_key, finger};
use halite_ipc::{Event, Framing, Publisher, StampStyle};
use halite_store::Stores;
use halite_store::keys::{KeyState, event_act, universal_newlines};
use halite_target::Glob;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Ids by state, in the order used by the series; ids are sorted ignoring case.
pub type Selection = Vec<(KeyState, Vec<MinionId>)>;

/// Input of a fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FingerForm {
    /// The lines between BEGIN and END: as printed by `key.finger` on a minion, expected in `master_finger`,
    /// and shown by `salt-key` of 3006 and 3007.
    #[default]
    Body,
    /// The whole text: as shown by `salt-key` of 3008 (`salt/utils/crypt.py pem_finger(key=...)`).
    Text,
}

/// How long a master may take to connect to its cluster.
const CONNECTS: Duration = Duration::from_secs(3);
/// The states of which an id is in one; denied keys exist in addition.
const EFFECTIVE: [KeyState; 3] = [KeyState::Accepted, KeyState::Pending, KeyState::Rejected];

/// Group of fingerprints in sysinspect's form, and name of the gateway.
const SYSINSPECT: &str = "sysinspect";

/// A text per key, by the name of their group (`minions`, ..., `local`, `sysinspect`).
pub type KeyTexts = Vec<(&'static str, Vec<(String, String)>)>;

/// Result of a change.
#[derive(Debug, Default)]
pub struct KeyChanges {
    /// Changed ids, in the order of the selection.
    pub done: Vec<MinionId>,
    /// Ids whose key is not a valid RSA public key, with the reason.
    pub invalid: Vec<(MinionId, String)>,
    /// Ids whose files could not be changed, with the reason.
    pub failed: Vec<(MinionId, io::Error)>,
}

/// The keys of one master.
pub struct Keys<'a> {
    config: &'a MasterConfig,
    stores: Stores,
    bus: KeyEventBus,
}

#[derive(Debug)]
enum KeyEventBus {
    Untried,
    None,
    Open(Publisher),
}

impl<'a> Keys<'a> {
    /// The keys below the `pki_dir` of `config`; nothing is accessed yet.
    pub fn new(config: &'a MasterConfig) -> Keys<'a> {
        Keys {
            config,
            stores: Stores::open(config),
            bus: KeyEventBus::Untried,
        }
    }

    /// The states in the order used by the series (`salt/key.py list_keys`).
    pub fn states(&self) -> [KeyState; 4] {
        use KeyState::*;
        match self.config.salt_series {
            SaltSeries::S3006 | SaltSeries::S3007 => [Accepted, Pending, Rejected, Denied],
            SaltSeries::S3008 => [Pending, Rejected, Accepted, Denied],
        }
    }

    /// Ids of one state. An id with several keys is listed in the state the master uses: rejected before
    /// pending before accepted; denied keys are listed in addition.
    pub fn list(&self, state: KeyState) -> io::Result<Vec<MinionId>> {
        let over: &[KeyState] = match state {
            KeyState::Accepted => &[KeyState::Rejected, KeyState::Pending],
            KeyState::Pending => &[KeyState::Rejected],
            KeyState::Rejected | KeyState::Denied => &[],
        };
        let mut ids = self.stores.keys.list(state)?.to_vec();
        for state in over {
            let stronger = self.stores.keys.list(*state)?;
            if !stronger.is_empty() {
                ids.retain(|id| stronger.binary_search(id).is_err());
            }
        }
        sort_ignoring_case(&mut ids);
        Ok(ids)
    }

    /// All states with their ids, including empty ones.
    pub fn list_all(&self) -> io::Result<Selection> {
        self.states()
            .into_iter()
            .map(|s| Ok((s, self.list(s)?)))
            .collect()
    }

    /// The ids that match a glob or a comma-separated list of globs; states without a match are omitted.
    pub fn select(&self, globs: &str) -> io::Result<Selection> {
        let globs = Globs::new(globs);
        let mut all = self.list_all()?;
        for (_, ids) in &mut all {
            ids.retain(|id| globs.match_any(id.as_str()));
        }
        all.retain(|(_, ids)| !ids.is_empty());
        Ok(all)
    }

    /// The key texts of a selection.
    pub fn texts(&self, selection: &Selection) -> io::Result<KeyTexts> {
        let mut out = KeyTexts::new();
        for (state, ids) in selection {
            let mut group = Vec::with_capacity(ids.len());
            for id in ids {
                if let Some(text) = self.stores.keys.text(*state, id)? {
                    group.push((id.as_str().to_owned(), text));
                }
            }
            out.push((state.dir(), group));
        }
        Ok(out)
    }

    /// Fingerprints of the matching keys, including the master's own files as group `local`.
    pub fn fingers(&self, globs: &str, form: FingerForm) -> io::Result<KeyTexts> {
        let hash = self
            .config
            .hash_type
            .parse::<HashType>()
            .unwrap_or_default();
        let selection = self.select(globs)?;
        let mut foreign = self.sysinspect_fingers(&selection)?;
        let mut out = self.texts(&selection)?;
        let local = self.local_texts(&Globs::new(globs))?;
        if self.config.sysinspect_gateway().is_some() {
            let master = local.iter().filter(|(name, _)| name == "master.pub");
            foreign.extend(master.filter_map(|(name, text)| {
                let key = PublicKey::from_pem(text).ok()?;
                Some((name.clone(), key.pkcs1_fingerprint()))
            }));
        }
        if !local.is_empty() {
            out.push(("local", local));
        }
        for (_, text) in out.iter_mut().flat_map(|(_, group)| group) {
            *text = match form {
                FingerForm::Body => finger(text, hash),
                FingerForm::Text => halite_crypto::in_pairs(&hash.hex(text.as_bytes())),
            };
        }
        if !foreign.is_empty() {
            out.push((SYSINSPECT, foreign));
        }
        Ok(out)
    }

    /// Fingerprints of minions registered through the sysinspect gateway, in sysinspect's form.
    fn sysinspect_fingers(&self, selection: &Selection) -> io::Result<Vec<(String, String)>> {
        let records = self.stores.gateways.of(SYSINSPECT);
        let mut out = Vec::new();
        for (state, ids) in selection {
            for id in ids.iter().filter(|id| records.knows(id)) {
                let text = self.stores.keys.text(*state, id)?.unwrap_or_default();
                let name = match state {
                    KeyState::Denied => format!("{id} (denied)"),
                    _ => id.to_string(),
                };
                let key = PublicKey::from_pem(&text).ok();
                out.extend(key.map(|key| (name, key.pkcs1_fingerprint())));
            }
        }
        Ok(out)
    }

    /// Names of the `.pem` and `.pub` files in `pki_dir`, as shown by `key.list_all`.
    ///
    /// # Errors
    /// The directory is not readable.
    pub fn local_names(&self) -> io::Result<Vec<String>> {
        let texts = self.local_texts(&Globs::new("*"))?;
        Ok(texts.into_iter().map(|(name, _)| name).collect())
    }

    /// The `.pem` and `.pub` files in `pki_dir`. 3008 omits its symlinks `master.pem` and `master.pub`
    /// (`salt/cache/localfs_key.py list_`).
    fn local_texts(&self, globs: &Globs) -> io::Result<Vec<(String, String)>> {
        let links = self.config.salt_series != SaltSeries::S3008;
        let entries = match std::fs::read_dir(&self.config.pki_dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut out = Vec::new();
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let wanted =
                (name.ends_with(".pem") || name.ends_with(".pub")) && globs.match_any(&name);
            let path = entry.path();
            if !wanted || !path.is_file() || (!links && path.is_symlink()) {
                continue;
            }
            let bytes = zeroize::Zeroizing::new(std::fs::read(&path)?);
            out.push((name, universal_newlines(&bytes)));
        }
        out.sort_by_cached_key(|(name, _)| (name.to_lowercase(), name.clone()));
        Ok(out)
    }

    /// Accepts the keys of a selection; invalid RSA public keys keep their state.
    ///
    /// # Errors
    /// The master runs, but has no connection to its cluster: another master may be accepting another key for the same id.
    pub fn accept(&mut self, selection: &Selection) -> io::Result<KeyChanges> {
        if is_alone(self.config) {
            return Err(io::Error::other(
                "not accepted: this master has no connection to its cluster (`halite-run cluster.status`). Another one may be accepting \
                 another key for the same id. Keys can be rejected and deleted",
            ));
        }
        self.change(selection, KeyState::Accepted)
    }

    /// Rejects the keys of a selection, valid or not. Call [`Keys::forget_vanished`] and
    /// [`Keys::request_rotation`] afterwards.
    pub fn reject(&mut self, selection: &Selection) -> io::Result<KeyChanges> {
        self.change(selection, KeyState::Rejected)
    }

    fn change(&mut self, selection: &Selection, to: KeyState) -> io::Result<KeyChanges> {
        let mut out = KeyChanges::default();
        let verify = to == KeyState::Accepted;
        for (from, ids) in selection.iter().filter(|(from, _)| *from != to) {
            for id in ids {
                match self.change_one(id, *from, to, verify) {
                    Ok(ChangeResult::Done(key)) => {
                        self.fire(id, to.name(), key);
                        out.done.push(id.clone());
                    }
                    Ok(ChangeResult::Gone) => {}
                    Ok(ChangeResult::Invalid(why)) => out.invalid.push((id.clone(), why)),
                    Err(e) => out.failed.push((id.clone(), e)),
                }
            }
        }
        Ok(out)
    }

    fn change_one(
        &mut self,
        id: &MinionId,
        from: KeyState,
        to: KeyState,
        verify: bool,
    ) -> io::Result<ChangeResult> {
        let _lock = self.stores.keys.lock(id)?;
        let carries_key = self.config.salt_series == SaltSeries::S3008 && self.bus_is_open();
        let mut key = None;
        if verify || carries_key {
            let Some(text) = self.stores.keys.text(from, id)? else {
                return Ok(ChangeResult::Gone);
            };
            if verify && let Err(why) = IdentityPublic::from_pem(&text) {
                return Ok(ChangeResult::Invalid(why.to_string()));
            }
            key = carries_key.then(|| clean_key(&text));
        }
        if !self.stores.keys.change(id, from, to)? {
            return Ok(ChangeResult::Gone);
        }
        // Another key may have had this id, and whoever has that key its session.
        cleanup::end_sessions(&*self.stores.sessions, id);
        // All other copies of an id are removed, as in 3008, so that the id is in one state afterwards.
        for state in EFFECTIVE.into_iter().filter(|s| *s != to && *s != from) {
            self.stores.keys.delete(state, id)?;
        }
        Ok(ChangeResult::Done(key))
    }

    fn listings(&self) -> io::Result<Vec<(KeyState, halite_store::keys::IdList)>> {
        KeyState::ALL
            .into_iter()
            .map(|s| Ok((s, self.stores.keys.list(s)?)))
            .collect()
    }

    /// Deletes the keys of a selection. Call [`Keys::forget_vanished`] and [`Keys::request_rotation`]
    /// afterwards.
    pub fn delete(&mut self, selection: &Selection) -> io::Result<KeyChanges> {
        let mut out = KeyChanges::default();
        for (from, ids) in selection {
            for id in ids {
                match self.delete_one(id, *from) {
                    Ok(true) => {
                        self.fire(id, "delete", None);
                        out.done.push(id.clone());
                    }
                    Ok(false) => {}
                    Err(e) => out.failed.push((id.clone(), e)),
                }
            }
        }
        Ok(out)
    }

    fn delete_one(&self, id: &MinionId, from: KeyState) -> io::Result<bool> {
        let _lock = self.stores.keys.lock(id)?;
        if from == KeyState::Denied {
            return self.stores.keys.delete(from, id);
        }
        // Removing the key with precedence must not bring another one into effect.
        let mut any = false;
        for state in EFFECTIVE {
            any |= self.stores.keys.delete(state, id)?;
        }
        Ok(any)
    }

    fn bus_is_open(&mut self) -> bool {
        if matches!(self.bus, KeyEventBus::Untried) {
            self.bus = match self.connect() {
                Some(publisher) => KeyEventBus::Open(publisher),
                None => KeyEventBus::None,
            };
        }
        matches!(self.bus, KeyEventBus::Open(_))
    }

    fn connect(&self) -> Option<Publisher> {
        let path: PathBuf = self.config.event_pull();
        let style = match self.config.salt_series {
            SaltSeries::S3008 => StampStyle::Offset,
            SaltSeries::S3006 | SaltSeries::S3007 => StampStyle::Naive,
        };
        let framing = match self.config.event_bus_framing {
            BusFraming::Bare => Framing::Bare,
            BusFraming::Auto | BusFraming::Prefixed => Framing::Prefixed,
        };
        match Publisher::connect(&path, framing) {
            Ok(publisher) => Some(publisher.with_stamp(Some(style))),
            Err(e) => {
                log::debug!("cannot fire events: {e}");
                None
            }
        }
    }

    /// Fires `salt/key`. `act` is the state's name as in 3008; older series use verbs.
    fn fire(&mut self, id: &MinionId, act: &str, key: Option<String>) {
        log::info!(minion:% = id; "key of {id}: {act}");
        if !self.bus_is_open() {
            return;
        }
        let KeyEventBus::Open(publisher) = &mut self.bus else {
            return;
        };
        let act = event_act(self.config.salt_series, act);
        let mut data: Map =
            halite_wire::map! {"result" => true, "act" => act, "id" => Value::from(id)};
        if let Some(key) = key {
            data.set("pub", key);
        }
        let event = Event {
            tag: "salt/key".into(),
            payload: msgpack::encode_map(&data, Profile::Local),
        };
        if let Err(e) = publisher.fire(&event) {
            log::warn!("cannot fire the event for {id} and those that follow: {e}");
            self.bus = KeyEventBus::None;
        }
    }
}

enum ChangeResult {
    /// Changed; with the key if it belongs in the event.
    Done(Option<String>),
    /// Another process was faster.
    Gone,
    /// Not an RSA public key.
    Invalid(String),
}

/// A comma-separated list of globs.
struct Globs(Vec<Glob>);

impl Globs {
    fn new(text: &str) -> Globs {
        Globs(text.split(',').map(Glob::new).collect())
    }

    fn match_any(&self, name: &str) -> bool {
        self.0.iter().any(|glob| glob.matches(name))
    }
}

/// `salt/utils/data.py sorted_ignorecase`, with a deterministic order of ids that differ only in case.
fn sort_ignoring_case(ids: &mut [MinionId]) {
    let plain = |id: &MinionId| {
        !id.as_str()
            .bytes()
            .any(|b| b.is_ascii_uppercase() || !b.is_ascii())
    };
    // The store's lists are sorted; without capitals the order is the same.
    if !ids.iter().all(plain) {
        ids.sort_by_cached_key(|id| (id.as_str().to_lowercase(), id.clone()));
    }
}

/// Whether the master runs without a connection to its cluster. One that has just started gets some time for it.
fn is_alone(config: &MasterConfig) -> bool {
    let deadline = Instant::now() + CONNECTS;
    while config.cluster().is_some() {
        match Samples::read(&config.master_status()) {
            Ok(samples) if samples.one("halite_cluster_member") == 0.0 => {}
            // What is changed while the master is down is told when it starts.
            _ => return false,
        }
        if Instant::now() >= deadline {
            return true;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    false
}
