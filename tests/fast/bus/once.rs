//! Events that are delivered once, although several senders fire them.

use super::{Bus, event, next};
use halite::transport::bus::BusOptions;
use halite_ipc::Framing;
use std::collections::BTreeMap;

#[test]
fn what_is_delivered_once_is_delivered_once() {
    let options = BusOptions {
        once: Some(|tag| tag.starts_with("once/")),
        ..BusOptions::default()
    };
    let bus = Bus::start(options);
    let mut listener = bus.listener();
    let mut senders = [Framing::Bare, Framing::Prefixed].map(|framing| bus.sender(framing));
    for sender in &mut senders {
        for tag in ["once/a", "often", "once/b", "end"] {
            sender.fire(&event(tag, 0)).unwrap();
        }
    }
    let mut heard = BTreeMap::new();
    while heard.get("end") != Some(&2) {
        *heard.entry(next(&mut listener).tag).or_insert(0) += 1;
    }
    let wanted = [("end", 2), ("often", 2), ("once/a", 1), ("once/b", 1)];
    assert_eq!(heard, wanted.map(|(tag, n)| (tag.to_owned(), n)).into());
    assert_eq!(bus.stop().repeated, 2);
}
