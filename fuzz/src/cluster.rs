//! What masters of a cluster tell each other, from somebody who can write to NATS, and from one who has the secret.

use halite::cluster::jobs::record::{Message, unpack};
use halite::cluster::letter::Letter;
use halite::cluster::members::Standing;
use halite::cluster::pieces::{Foreign, Listener};
use halite::cluster::presence::Notice;
use halite::cluster::record::{KeyRecord, Meta, PAIR, PUBLICATION, Sealer};
use halite::cluster::seal::Seal;
use halite::crypto::{ClusterSecret, Gcm};
use halite::wire::msgpack;
use std::sync::LazyLock;

const MARK: &str = "0123456789abcdef";
const ORIGIN: &str = "m1.0123456789abcdef";
const PURPOSE: &str = "log";

static SECRET: LazyLock<ClusterSecret> = LazyLock::new(|| {
    let text = "0123456789abcdef0123456789abcdef";
    ClusterSecret::new(text, "prod").expect("it is long enough")
});

/// A message as it is, sealed as a piece, as an entry of the bucket, and opened.
pub fn cluster_message(data: &[u8]) {
    let mut listener = Listener::new(&SECRET, MARK, PURPOSE);
    assert_eq!(listener.open(ORIGIN, data), Err(Foreign));
    let seal = Seal::new(&SECRET, MARK, PURPOSE, ORIGIN);
    // Pieces, with numbers and places as they come: each at most once.
    for piece in data.chunks(64) {
        let sealed = seal.seal(piece);
        if let Ok(Some(_)) = listener.open(ORIGIN, &sealed) {
            assert_eq!(listener.open(ORIGIN, &sealed), Ok(None));
        }
    }
    entries(data);
    opened(data);
}

/// As entries of the bucket.
fn entries(data: &[u8]) {
    static KEY: LazyLock<Gcm> = LazyLock::new(|| SECRET.seal("state"));
    let mut sealer = Sealer::new(&SECRET);
    sealer.set_mark(MARK);
    let meta = Meta {
        mark: MARK.into(),
        master_key: String::new(),
        filled_by: None,
        before: Vec::new(),
    };
    assert!(sealer.open_meta(data).is_none() && sealer.open_pair(data, &meta).is_none());
    let sealed = |name: &str| KEY.seal(format!("{MARK}\0{name}").as_bytes(), data);
    for name in ["lead", "lead.arena"] {
        if let Some(lead) = sealer.open_lead(name, &sealed(name)) {
            let again = sealer.seal_lead(name, &lead);
            assert_eq!(sealer.open_lead(name, &again), Some(lead));
        }
    }
    if let Some(run) = sealer.open_run("run.a", &sealed("run.a")) {
        let again = sealer.seal_run("run.a", run);
        assert_eq!(sealer.open_run("run.a", &again), Some(run));
    }
    if let Some(key) = sealer.open_publication(&sealed(PUBLICATION)) {
        let again = sealer.seal_publication(&key);
        assert_eq!(sealer.open_publication(&again), Some(key));
    }
    assert!(sealer.open_pair(&sealed(PAIR), &meta).is_none());
}

/// As what a master has sealed. What was read is written and read again.
fn opened(data: &[u8]) {
    if let Some(message) = Message::decode(data) {
        for record in &message.records {
            let packed = record.load.iter().chain(&record.returns);
            packed.for_each(|one| drop(unpack(one)));
        }
        assert_eq!(Message::decode(&message.encode()), Some(message));
    }
    if let Some(letter) = Letter::decode(data, "m2") {
        assert_eq!(Letter::decode(&letter.encode("m2"), "m2"), Some(letter));
    }
    if let Some((at, standing)) = Standing::decode(data) {
        assert_eq!(Standing::decode(&standing.encode(at)), Some((at, standing)));
    }
    if let Some(notice) = Notice::decode(data) {
        assert_eq!(Notice::decode(&notice.encode()), Some(notice));
    }
    let map = msgpack::decode(data)
        .ok()
        .and_then(|value| value.into_map());
    if let Some(record) = map.and_then(|map| KeyRecord::from_map(&map)) {
        assert_eq!(KeyRecord::from_map(&record.to_map()), Some(record));
    }
}
