//! Data of minions at all masters: grains and pillars with what gateways have recorded, and the mine.
//!
//! The newest of each minion and bank is a message of a stream, sealed for its place. Its order decides: what comes later
//! replaces what came before, at every master.

use crate::agents;
use crate::digest;
use crate::record::{text_of, token};
use crate::seal::place;
use halite_crypto::{ClusterSecret, Gcm};
use halite_store::Stores;
use halite_wire::budget::Budget;
use halite_wire::ids::MinionId;
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most bytes of a message; NATS takes 1 MiB with what it adds.
const LARGEST: usize = 1000 << 10;
/// Most messages without an answer.
const UNDER_WAY: usize = 64;
/// How much the clocks of a master and of the servers may differ, in seconds, with the time that a message takes.
const RECENT: u64 = 600;
/// What it is about.
const PURPOSE: &str = "data";

/// Where data of a minion are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Bank {
    /// Grains and pillar.
    Minion,
    /// The mine.
    Mine,
}

impl Bank {
    const ALL: [Bank; 2] = [Bank::Minion, Bank::Mine];

    /// Its name in subjects.
    pub fn name(self) -> &'static str {
        match self {
            Bank::Minion => "minion",
            Bank::Mine => "mine",
        }
    }

    /// The bank with this name.
    pub fn named(name: &str) -> Option<Bank> {
        Bank::ALL.into_iter().find(|bank| bank.name() == name)
    }
}

/// Data of one minion in one bank.
pub type Item = (Bank, MinionId);

/// A message for the stream.
pub struct Sending {
    /// The end of its subject.
    pub tail: String,
    /// Sealed.
    pub bytes: Vec<u8>,
    /// To be given back.
    pub ticket: u64,
}

/// What is to be told, and what is under way.
#[derive(Default)]
pub struct DataShare {
    waiting: BTreeSet<Item>,
    under_way: HashMap<u64, Item>,
    /// Items of which another master has told while this one's own were on their way: the order of the stream decides.
    overtaken: HashSet<Item>,
    /// Until the stream is read to where it ended at first: what it has.
    seen: Option<(u64, HashSet<Item>)>,
    ticket: u64,
    /// The number of the last message: microseconds since the epoch, if the clock does not go back.
    number: u64,
    /// Those of others.
    numbers: Numbers,
    voice: Option<Voice>,
    /// Items of other masters that were stored.
    pub stored: u64,
}

struct Voice {
    key: Gcm,
    mark: String,
    own: String,
}

impl DataShare {
    /// This master is a member, `own` its id.
    pub fn join(&mut self, secret: &ClusterSecret, mark: &str, own: &str) {
        self.voice = Some(Voice {
            key: secret.seal(PURPOSE),
            mark: mark.to_owned(),
            own: own.to_owned(),
        });
    }

    /// Reading begins with nothing known, up to the message `last`: what is not there then is told.
    pub fn begin(&mut self, last: u64, stores: &Stores) -> io::Result<()> {
        self.seen = Some((last, HashSet::new()));
        match last {
            0 => self.reached(0, stores),
            _ => Ok(()),
        }
    }

    fn reached(&mut self, sequence: u64, stores: &Stores) -> io::Result<()> {
        let Some((_, seen)) = self.seen.take_if(|(last, _)| sequence >= *last) else {
            return Ok(());
        };
        let all = stores.minions.ids()?.into_iter();
        let all = all.flat_map(|id| Bank::ALL.map(|bank| (bank, id.clone())));
        self.waiting.extend(all.filter(|item| !seen.contains(item)));
        Ok(())
    }

    /// Something has changed at this master.
    pub fn changed(&mut self, item: Item) {
        self.waiting.insert(item);
    }

    /// How a message has ended.
    pub fn ended(&mut self, ticket: u64, is_told: bool) {
        if let Some(item) = self.under_way.remove(&ticket)
            && !is_told
        {
            self.waiting.insert(item);
        }
    }

    /// The connection is lost.
    pub fn down(&mut self) {
        let lost = self.under_way.drain().map(|(_, item)| item);
        self.waiting.extend(lost);
    }

    /// The next messages.
    pub fn next(&mut self, stores: &Stores) -> Vec<Sending> {
        let mut out = Vec::new();
        let Some(voice) = &self.voice else {
            return out;
        };
        while self.under_way.len() < UNDER_WAY
            && let Some(item) = self.waiting.pop_first()
        {
            let Some(data) = read(stores, &item) else {
                continue;
            };
            let data = data.into_iter().map(|(name, part)| {
                let packed = msgpack::encode_map(&part, Profile::Local);
                (name, Value::Bytes(packed))
            });
            let data: Map = data.collect();
            self.number = self.number.max(micros()) + 1;
            let map = halite_wire::map! {
                "by" => voice.own.as_str(), "at" => self.number, "data" => data,
            };
            let plain = msgpack::encode_map(&map, Profile::Local);
            let (bank, id) = &item;
            if plain.len() > LARGEST {
                log::warn!(minion:% = id; "the data of {id} ({}) are not told to the other masters: {} bytes are too many", bank.name(), plain.len());
                continue;
            }
            let tail = format!("{}.{}", bank.name(), token(id.as_str()));
            self.ticket += 1;
            out.push(Sending {
                bytes: voice.key.seal(&place(&voice.mark, PURPOSE, &tail), &plain),
                tail,
                ticket: self.ticket,
            });
            self.under_way.insert(self.ticket, item);
        }
        out
    }

    /// A message of the stream, with its number there, and when the servers stored it, in Unix seconds. `false` if no master of
    /// the cluster has sealed it now: somebody may have sent it again.
    ///
    /// # Errors
    /// The minions with data cannot be listed.
    pub fn take(
        &mut self,
        tail: &str,
        bytes: &[u8],
        (sequence, stored): (u64, u64),
        stores: &Stores,
    ) -> io::Result<bool> {
        let opened = self.voice.as_ref().and_then(|voice| {
            let (bank, id) = tail.split_once('.')?;
            let item = (Bank::named(bank)?, text_of(id)?.parse().ok()?);
            let plain = voice
                .key
                .open(&place(&voice.mark, PURPOSE, tail), bytes)
                .ok()?;
            let mut map = msgpack::decode_load(&plain, Budget::of(plain.len())).ok()?;
            let by = map.str("by")?.to_owned();
            // Masters of the version before say nothing.
            let number = map.get("at").map_or(Some(0), digest::number)?;
            let mut parts = Parts::new();
            for (name, packed) in map.remove("data")?.into_map()?.iter() {
                // It was read once, where it comes from.
                let part = msgpack::decode(packed.as_bytes()?).ok()?.into_map()?;
                parts.insert(name.as_str()?.to_owned(), part);
            }
            Some((item, by, number, parts))
        });
        let opened = opened.filter(|(item, by, number, _)| {
            *number == 0 || self.numbers.is_new(item, by, *number, stored)
        });
        let is_ours = opened.is_some();
        if let Some((item, by, _, data)) = opened {
            let is_own = self.voice.as_ref().is_some_and(|voice| voice.own == by);
            if let Some((_, seen)) = &mut self.seen {
                seen.insert(item.clone());
            }
            let is_pending = self.under_way.values().any(|sent| *sent == item);
            if !is_own && is_pending {
                self.overtaken.insert(item.clone());
            }
            // What is still to be sent is newer.
            let is_newest = !self.waiting.contains(&item);
            if is_newest && (!is_own || self.overtaken.remove(&item)) {
                write(stores, &item, data);
                self.stored += 1;
            }
        }
        self.reached(sequence, stores)?;
        Ok(is_ours)
    }
}

/// The numbers of what masters have told lately: what was told before is not taken again.
#[derive(Default)]
struct Numbers {
    /// By item and master, in two generations.
    young: HashMap<(Item, String), u64>,
    old: HashMap<(Item, String), u64>,
    /// When the younger one began, in Unix seconds as the servers tell them.
    since: u64,
}

impl Numbers {
    /// Whether nothing with this number or a higher one was told about it, and it was stored when it was sealed.
    fn is_new(&mut self, item: &Item, by: &str, number: u64, stored: u64) -> bool {
        if stored.abs_diff(number / 1_000_000) > RECENT {
            return false;
        }
        if stored.abs_diff(self.since) > 2 * RECENT {
            (self.old, self.since) = (std::mem::take(&mut self.young), stored);
        }
        let key = (item.clone(), by.to_owned());
        let known = [&self.young, &self.old].map(|all| all.get(&key).copied());
        let is_new = known.into_iter().flatten().all(|known| known < number);
        if is_new {
            self.young.insert(key, number);
        }
        is_new
    }
}

fn micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0))
}

/// Maps by name.
type Parts = BTreeMap<String, Map>;

/// The part of a mine.
const VALUES: &str = "values";
/// The parts of grains and pillar, and of what gateways have recorded.
const GRAINS: &str = "grains";
const PILLAR: &str = "pillar";
const AGENT: &str = "agent";

fn read(stores: &Stores, (bank, id): &Item) -> Option<Parts> {
    match bank {
        Bank::Minion => {
            let mut parts = Parts::new();
            if let Some(data) = stores.minions.peek(id) {
                parts.insert(GRAINS.to_owned(), (*data.grains).clone());
                parts.insert(PILLAR.to_owned(), (*data.pillar).clone());
            }
            let agent = agents::read(stores, id);
            parts.extend(agent.map(|agent| (AGENT.to_owned(), agent)));
            (!parts.is_empty()).then_some(parts)
        }
        // A mine that was flushed is empty.
        Bank::Mine => match stores.mine.get(id) {
            Ok(mine) => Some([(VALUES.to_owned(), mine.unwrap_or_default())].into()),
            Err(e) => {
                log::warn!(minion:% = id; "the mine of {id} is not told to the other masters: {e}");
                None
            }
        },
    }
}

fn write(stores: &Stores, (bank, id): &Item, mut data: Parts) {
    let written = match bank {
        Bank::Minion => {
            let agent = data.remove(AGENT);
            let recorded = agent.map_or(Ok(()), |agent| agents::write(stores, id, &agent));
            let stored = data.remove(GRAINS).map_or(Ok(()), |grains| {
                let pillar = data.remove(PILLAR).unwrap_or_default();
                stores.minions.store(id, &grains, &pillar)
            });
            recorded.and(stored)
        }
        Bank::Mine => match data.remove(VALUES).unwrap_or_default() {
            values if values.is_empty() => stores.mine.flush(id).map(drop),
            values => stores.mine.put(id, values, true),
        },
    };
    // What is only cached must not stop everything else.
    if let Err(e) = written {
        log::error!(minion:% = id; "data of {id} that another master told are not stored: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(own: &str, mark: &str) -> DataShare {
        let secret = ClusterSecret::new(&"a".repeat(32), "c").unwrap();
        let mut share = DataShare::default();
        share.join(&secret, mark, own);
        share
    }

    fn now() -> u64 {
        micros() / 1_000_000
    }

    fn item() -> Item {
        (Bank::Mine, "m.1".parse().unwrap())
    }

    fn put(stores: &Stores, value: i64) {
        let data = halite_wire::map! {"fun" => value};
        stores.mine.put(&item().1, data, true).unwrap();
    }

    fn mine(stores: &Stores) -> Option<i64> {
        stores.mine.get(&item().1).unwrap()?.int("fun")
    }

    /// What one master sends, to the next place in the stream.
    fn send(share: &mut DataShare, stores: &Stores) -> Sending {
        share.changed(item());
        share.next(stores).remove(0)
    }

    #[test]
    fn the_order_of_the_stream_decides() {
        let stores = [
            halite_store::memory::stores(),
            halite_store::memory::stores(),
        ];
        let [mut one, mut two] = [share("one", "mark"), share("two", "mark")];
        // Both change it at once.
        put(&stores[0], 1);
        put(&stores[1], 2);
        let first = send(&mut one, &stores[0]);
        let second = send(&mut two, &stores[1]);
        for (sequence, sent) in [(1, &second), (2, &first)] {
            for (share, stores) in [(&mut one, &stores[0]), (&mut two, &stores[1])] {
                assert!(
                    share
                        .take(&sent.tail, &sent.bytes, (sequence, now()), stores)
                        .unwrap()
                );
            }
        }
        assert_eq!([mine(&stores[0]), mine(&stores[1])], [Some(1), Some(1)]);
        // A mine that is flushed is flushed everywhere.
        stores[0].mine.flush(&item().1).unwrap();
        let sent = send(&mut one, &stores[0]);
        assert!(
            two.take(&sent.tail, &sent.bytes, (3, now()), &stores[1])
                .unwrap()
        );
        assert_eq!(mine(&stores[1]), None);
    }

    #[test]
    fn what_was_told_before_is_not_taken_again() {
        let stores = halite_store::memory::stores();
        let mut one = share("one", "mark");
        let mut told = |value| {
            put(&stores, value);
            send(&mut one, &stores)
        };
        let (old, new) = (told(1), told(2));
        let other = halite_store::memory::stores();
        let mut two = share("two", "mark");
        let mut take = |sent: &Sending, at: u64| {
            let place = (1, at);
            two.take(&sent.tail, &sent.bytes, place, &other).unwrap()
        };
        assert!(take(&old, now()) && take(&new, now()));
        assert!(!take(&old, now()) && !take(&new, now()));
        assert_eq!(mine(&other), Some(2));
        // One that was stored long after it was sealed.
        let later = told(3);
        assert!(!take(&later, now() + 2 * RECENT));
        assert!(take(&later, now()));
    }

    #[test]
    fn only_masters_are_believed() {
        let stores = halite_store::memory::stores();
        put(&stores, 1);
        let sent = send(&mut share("one", "mark"), &stores);
        let other = sent.tail.replace("mine", "minion");
        for (mark, tail, bytes) in [
            ("other", &sent.tail, &sent.bytes),
            ("mark", &other, &sent.bytes),
            ("mark", &sent.tail, &b"garbage".to_vec()),
        ] {
            let taken = share("two", mark)
                .take(tail, bytes, (1, now()), &stores)
                .unwrap();
            assert!(!taken);
        }
    }

    #[test]
    fn what_is_not_in_the_stream_is_told_once_it_is_read() {
        let stores = halite_store::memory::stores();
        let ids: Vec<MinionId> = ["a", "b"].map(|id| id.parse().unwrap()).into();
        for id in &ids {
            stores.minions.store(id, &Map::new(), &Map::new()).unwrap();
        }
        let mut other = share("one", "mark");
        other.changed((Bank::Minion, ids[0].clone()));
        let sent = other.next(&stores).remove(0);
        let mut share = share("two", "mark");
        share.begin(1, &stores).unwrap();
        assert!(share.next(&stores).is_empty());
        assert!(
            share
                .take(&sent.tail, &sent.bytes, (1, now()), &stores)
                .unwrap()
        );
        let tails: Vec<String> = share.next(&stores).into_iter().map(|s| s.tail).collect();
        assert!(tails.contains(&"minion.b".to_owned()) && !tails.contains(&"minion.a".to_owned()));
    }
}
