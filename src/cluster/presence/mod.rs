//! Which minions are connected at which master. No IO and no clock: it is told the time.
//!
//! Each master tells what has changed among its own, with a number that grows. Who has missed one, or has just come, asks for
//! the whole list. What a master has told counts until it is silent for `AWAY`.

use crate::digest;
use halite_store::presence::Addresses;
use halite_wire::budget::Budget;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How often each tells, even if nothing has changed.
const EVERY: Duration = Duration::from_secs(2);
/// Silence of a master after which its minions are not counted any more.
const AWAY: Duration = Duration::from_secs(10);
/// Shortest time between two whole lists: several masters may ask.
const PAUSE: Duration = Duration::from_secs(2);
/// Most masters that are known.
const MOST: usize = 32;
/// Most bytes of ids and addresses in the list of one master, as [`size`] counts: some 150 000 minions.
const MOST_BYTES: usize = 8 << 20;
/// How old what a master tells may be, in seconds: somebody may have kept it.
const RECENT: u64 = 60;
/// The form of messages that this version writes; others are ignored.
const FORM: u64 = 1;

/// What a master tells about its minions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// When it is told, in Unix seconds.
    pub at: u64,
    /// When the role of that master started, in Unix seconds.
    pub since: u64,
    /// The number of the list that it had before; `None` if this is the whole list.
    from: Option<u64>,
    /// The number of the list after it.
    number: u64,
    came: Addresses,
    went: Vec<MinionId>,
    /// The masters whose whole lists it asks for.
    asks: Vec<String>,
}

impl Notice {
    /// As it is told.
    pub fn encode(&self) -> Vec<u8> {
        let text = |address: &std::net::IpAddr| Value::from(address.to_string());
        let came = self.came.iter();
        let came: Map = came.map(|(id, at)| (id.as_str(), text(at))).collect();
        let list = |ids: Vec<Value>| Value::Array(ids);
        let mut map = halite_wire::map! {
            "form" => FORM, "at" => self.at, "since" => self.since, "number" => self.number, "came" => came,
            "went" => list(self.went.iter().map(Value::from).collect()),
            "asks" => list(self.asks.iter().map(|id| Value::from(id.as_str())).collect()),
        };
        if let Some(from) = self.from {
            map.set("from", from);
        }
        msgpack::encode_map(&map, Profile::Local)
    }

    /// `None` if it is not that.
    pub fn decode(bytes: &[u8]) -> Option<Notice> {
        let map = msgpack::decode_load(bytes, Budget::of(bytes.len())).ok()?;
        let number = |name: &str| digest::number(map.get(name)?);
        if number("form")? != FORM {
            return None;
        }
        let came = map.get("came")?.as_map()?.iter();
        let came = came.map(|(id, at)| Some((parsed(id)?, parsed(at)?)));
        let list = |name: &str| map.get(name)?.as_array();
        let asks = list("asks")?.iter();
        let from = map.get("from").map(digest::number);
        Some(Notice {
            at: number("at")?,
            since: number("since")?,
            from: match from {
                Some(from) => Some(from?),
                None => None,
            },
            number: number("number")?,
            came: came.collect::<Option<_>>()?,
            went: list("went")?.iter().map(parsed).collect::<Option<_>>()?,
            asks: asks
                .map(|id| id.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
        })
    }
}

fn parsed<T: FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

/// Bytes of a minion in a list, about.
fn size(id: &MinionId) -> usize {
    id.as_str().len() + 40
}

/// The list of another master.
struct Peer {
    /// The name of its start, and when that was.
    origin: String,
    since: u64,
    /// `None` until the whole list has come.
    number: Option<u64>,
    connected: Addresses,
    bytes: usize,
    heard: Instant,
}

impl Peer {
    /// Takes a change. Forgets all if the list would be larger than any is.
    fn take(&mut self, notice: Notice) {
        for id in notice.went {
            if self.connected.remove(&id).is_some() {
                self.bytes -= size(&id);
            }
        }
        for (id, address) in notice.came {
            let more = size(&id);
            if self.connected.insert(id, address).is_none() {
                self.bytes += more;
            }
            if self.bytes > MOST_BYTES {
                (self.connected, self.bytes, self.number) = (Addresses::new(), 0, None);
                return;
            }
        }
        self.number = Some(notice.number);
    }
}

/// The lists of all masters.
pub struct Presence {
    /// The id of this master, and when its role started.
    own: String,
    since: u64,
    /// Its minions now, and as it has told them with this number.
    here: Addresses,
    told: Addresses,
    number: u64,
    /// Whether they differ.
    is_news: bool,
    told_at: Option<Instant>,
    is_whole_wanted: bool,
    whole_at: Option<Instant>,
    /// Masters of whose lists something is missing.
    asks: BTreeSet<String>,
    peers: BTreeMap<String, Peer>,
    has_changed: bool,
    /// Minions of this master that the others are not told of, since there are too many.
    pub left_out: usize,
}

impl Presence {
    /// Of the master `own`, whose role started then, in Unix seconds. Nothing is known yet.
    pub fn new(own: &str, since: u64) -> Presence {
        Presence {
            own: own.to_owned(),
            since,
            here: Addresses::new(),
            told: Addresses::new(),
            number: 0,
            is_news: false,
            told_at: None,
            is_whole_wanted: true,
            whole_at: None,
            asks: BTreeSet::new(),
            peers: BTreeMap::new(),
            has_changed: false,
            left_out: 0,
        }
    }

    /// These minions are connected to this master now.
    pub fn here(&mut self, mut connected: Addresses) {
        let (count, mut bytes) = (connected.len(), 0);
        connected.retain(|id, _| {
            bytes += size(id);
            bytes <= MOST_BYTES
        });
        self.left_out = count - connected.len();
        self.here = connected;
        self.is_news = self.here != self.told;
    }

    /// What is to be told now, at `unix` by the clock of this master.
    pub fn due(&mut self, now: Instant, unix: u64) -> Option<Notice> {
        let since = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        let is_past = |at, time| since(at).is_none_or(|silence| silence >= time);
        let is_whole = self.is_whole_wanted && is_past(self.whole_at, PAUSE);
        if !(is_whole || self.is_news || !self.asks.is_empty() || is_past(self.told_at, EVERY)) {
            return None;
        }
        Some(self.notice(is_whole, now, unix))
    }

    /// The last words of this master: it has no minions any more.
    pub fn farewell(&mut self, now: Instant, unix: u64) -> Notice {
        self.here.clear();
        self.notice(true, now, unix)
    }

    fn notice(&mut self, is_whole: bool, now: Instant, unix: u64) -> Notice {
        let before = self.number;
        let (came, went) = match is_whole {
            true => (self.here.clone(), Vec::new()),
            false => {
                let here = self.here.iter();
                let came = here.filter(|(id, address)| self.told.get(*id) != Some(address));
                let went = self.told.keys().filter(|id| !self.here.contains_key(*id));
                let came = came.map(|(id, address)| (id.clone(), *address));
                (came.collect(), went.cloned().collect())
            }
        };
        if is_whole || self.is_news {
            self.number += 1;
            self.is_news = false;
            self.told.clone_from(&self.here);
        }
        if is_whole {
            (self.is_whole_wanted, self.whole_at) = (false, Some(now));
        }
        self.told_at = Some(now);
        Notice {
            at: unix,
            since: self.since,
            from: (!is_whole).then_some(before),
            number: self.number,
            came,
            went,
            asks: std::mem::take(&mut self.asks).into_iter().collect(),
        }
    }

    /// What was to be told last could not be sent: others notice it, and ask.
    pub fn lost(&mut self) {
        self.is_whole_wanted = true;
    }

    /// The start `origin` of the master `peer` has told this.
    pub fn heard(&mut self, peer: &str, origin: &str, notice: Notice, now: Instant, unix: u64) {
        let is_known = self.peers.contains_key(peer);
        let is_first_of_many = !is_known && self.peers.len() >= MOST;
        if peer == self.own || notice.at.abs_diff(unix) > RECENT || is_first_of_many {
            return;
        }
        let entry = self.peers.entry(peer.to_owned()).or_insert_with(|| Peer {
            origin: origin.to_owned(),
            since: notice.since,
            number: None,
            connected: Addresses::new(),
            bytes: 0,
            heard: now,
        });
        if entry.origin != origin {
            // Of an earlier start: somebody has sent it again.
            if notice.since < entry.since {
                return;
            }
            // Until the new one has told its minions, those of the one before count.
            (entry.origin, entry.since) = (origin.to_owned(), notice.since);
            entry.number = None;
        }
        entry.heard = now;
        self.is_whole_wanted |= notice.asks.contains(&self.own);
        match notice.from {
            None => {
                let before = std::mem::take(&mut entry.connected);
                entry.bytes = 0;
                entry.take(notice);
                self.has_changed |= before != entry.connected;
                self.asks.remove(peer);
            }
            Some(from) if entry.number == Some(from) => {
                let is_change = notice.number != from;
                entry.take(notice);
                self.has_changed |= is_change;
            }
            Some(_) => {
                entry.number = None;
                self.asks.insert(peer.to_owned());
            }
        }
    }

    /// Forgets what masters have told that are silent.
    pub fn tick(&mut self, now: Instant) {
        let mut is_gone = false;
        self.peers.retain(|_, peer| {
            let is_there = now.saturating_duration_since(peer.heard) < AWAY;
            is_gone |= !is_there && !peer.connected.is_empty();
            is_there
        });
        self.has_changed |= is_gone;
    }

    /// Whether [`Presence::elsewhere`] has changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// The minions that are connected to other masters.
    pub fn elsewhere(&self) -> Addresses {
        let all = self.peers.values().flat_map(|peer| &peer.connected);
        all.map(|(id, address)| (id.clone(), *address)).collect()
    }

    /// The ids of the minions that are connected to any master.
    pub fn all(&self) -> BTreeSet<MinionId> {
        let elsewhere = self.peers.values().flat_map(|peer| peer.connected.keys());
        self.here.keys().chain(elsewhere).cloned().collect()
    }

    /// How many minions are connected to other masters.
    pub fn count_elsewhere(&self) -> usize {
        self.peers.values().map(|peer| peer.connected.len()).sum()
    }
}

#[cfg(test)]
mod tests;
