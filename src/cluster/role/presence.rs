//! Which minions are connected to which master: looks at this one, and tells the others.

use super::{Cluster, Membership};
use crate::link::Channel;
use crate::pieces::Voice;
use crate::presence::{Notice, Presence};
use halite_config::MasterConfig;
use halite_crypto::ClusterSecret;
use halite_master::presence_events::{PRESENT, PresenceEvents};
use halite_store::Stores;
use halite_store::gateways::REFRESH;
use halite_store::presence::{Addresses, ConnectedHere};
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use halite_wire::Map;
use std::io;
use std::time::{Duration, Instant};

/// What it is about.
const PURPOSE: &str = "present";
/// How often this master looks who is connected to it.
const LOOK: Duration = Duration::from_secs(1);
/// How many times as long it rests: looking takes long where there are many minions.
const REST: u32 = 20;
/// Longest rest: on a busy host, looking may take long for other reasons.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// Longest sleep, so that a stop takes effect.
const NAP: Duration = Duration::from_millis(250);

/// What the role has about it.
pub(super) struct Connected {
    pub(super) lists: Presence,
    voice: Option<Voice>,
    /// What was told on the buses, and when this master has last looked whether it is to tell that.
    events: PresenceEvents,
    looped: Option<Instant>,
    /// When the list of minions at other masters was last written or kept.
    kept: Option<Instant>,
    /// Whether the log has said that there are too many minions.
    said_left_out: bool,
}

impl Connected {
    pub(super) fn new(own: &str) -> Connected {
        Connected {
            lists: Presence::new(own, unix_now()),
            voice: None,
            events: PresenceEvents::default(),
            looped: None,
            kept: None,
            said_left_out: false,
        }
    }

    /// The bucket of before is lost.
    pub(super) fn leave(&mut self) {
        self.voice = None;
    }

    /// This master is a member of the bucket with this mark.
    pub(super) fn join(&mut self, secret: &ClusterSecret, mark: &str, origin: &str) {
        let voice = || Voice::new(secret, mark, PURPOSE, origin);
        self.voice.get_or_insert_with(voice);
    }
}

/// Starts the thread that looks which minions are connected to this master, and passes that to `tell`. It ends with the process.
pub(super) fn watch(
    config: &MasterConfig,
    stop: &StopFlag,
    tell: impl Fn(Addresses) -> Result<(), ()> + Send + 'static,
) -> io::Result<()> {
    let (config, stop) = (config.clone(), stop.clone());
    let look = move || {
        let stores = Stores::open(&config);
        let mut here = ConnectedHere::default();
        while !stop.is_set() {
            let began = Instant::now();
            match here.look(&config, &stores, None) {
                Ok(connected) => {
                    if tell(connected).is_err() {
                        return;
                    }
                }
                Err(e) => log::error!("cannot determine which minions are connected: {e}"),
            }
            let rest = (began.elapsed() * REST).clamp(LOOK, LONGEST_REST);
            let next = Instant::now() + rest;
            while Instant::now() < next && !stop.is_set() {
                std::thread::sleep(NAP);
            }
        }
    };
    let builder = std::thread::Builder::new().name("connected".into());
    builder.spawn(look).map(drop)
}

impl Cluster<'_> {
    /// These minions are connected to this master.
    pub(super) fn connected_here(&mut self, connected: Addresses) {
        let lists = &mut self.connected.lists;
        lists.here(connected);
        let is_left_out = lists.left_out > 0;
        if !std::mem::replace(&mut self.connected.said_left_out, is_left_out) && is_left_out {
            log::error!(
                "cluster: the other masters do not know of {} connected minions of this one: they are too many",
                self.connected.lists.left_out
            );
        }
    }

    /// Tells the others which minions are here, and writes for the other roles which are there.
    pub(super) fn tend_presence(&mut self) {
        let now = Instant::now();
        self.connected.lists.tick(now);
        if self.membership == Membership::Member
            && let Some(notice) = self.connected.lists.due(now, unix_now())
        {
            self.tell_presence(&notice);
        }
        let has_changed = self.connected.lists.take_change();
        let is_due = self
            .connected
            .kept
            .is_some_and(|at| at.elapsed() >= REFRESH);
        if !has_changed && !is_due {
            return;
        }
        self.connected.kept = Some(now);
        let elsewhere = &self.stores.elsewhere;
        // What could not be stored, or is gone, is stored the next time.
        if (has_changed || elsewhere.keep().is_err())
            && let Err(e) = elsewhere.put(&self.connected.lists.elsewhere())
        {
            log::error!("cluster: the list of minions at other masters cannot be stored: {e}");
        }
    }

    /// `presence_events`: the leader tells for all, every `loop_interval`.
    pub(super) fn fire_presence(&mut self) {
        let interval = Duration::from_secs(self.config.loop_interval.max(1));
        let is_due = self
            .connected
            .looped
            .is_none_or(|at| at.elapsed() >= interval);
        if !self.config.presence_events || !is_due {
            return;
        }
        self.connected.looped = Some(Instant::now());
        if self.leases.is_leader() {
            let present = self.connected.lists.all();
            self.bus.fire_all(self.connected.events.next(present));
        }
    }

    /// Another master has told this event.
    pub(super) fn heard_event(&mut self, tag: &str, data: &Map) {
        if tag == PRESENT {
            self.connected.events.told(data);
        }
    }

    /// This process ends: the others are not to wait until it is silent.
    pub(super) fn tell_no_presence(&mut self) {
        let notice = self.connected.lists.farewell(Instant::now(), unix_now());
        self.tell_presence(&notice);
    }

    fn tell_presence(&mut self, notice: &Notice) {
        let Some(Voice { teller, .. }) = &mut self.connected.voice else {
            return;
        };
        // Its size is limited.
        let pieces = teller.seal(&notice.encode()).unwrap_or_default();
        let tell = |piece| {
            let origin = teller.origin.clone();
            self.link.tell(Channel::Presence, origin, piece)
        };
        if !pieces.into_iter().all(tell) {
            self.connected.lists.lost();
        }
    }

    /// A master has told which minions are connected to it.
    pub(super) fn heard_presence(&mut self, origin: &str, bytes: &[u8]) {
        let Some(voice) = &mut self.connected.voice else {
            return;
        };
        if voice.is_own(origin) {
            return;
        }
        let Ok((peer, opened)) = voice.open(origin, bytes) else {
            self.stranger(&format!("a message of present.{origin:.100}"));
            return;
        };
        if let Some(notice) = opened.and_then(|bytes| Notice::decode(&bytes)) {
            let (now, unix) = (Instant::now(), unix_now());
            self.connected.lists.heard(&peer, origin, notice, now, unix);
        }
    }
}
