use super::*;
use crate::random::Random;
use std::net::IpAddr;

const AT: u64 = 1000;

fn id(n: u64) -> MinionId {
    format!("m{n}").parse().unwrap()
}

fn addresses(ids: &[u64]) -> Addresses {
    let address = |n: u64| IpAddr::from([10, 0, 0, n as u8]);
    ids.iter().map(|n| (id(*n), address(*n))).collect()
}

/// What a master tells, as another one reads it.
fn due(presence: &mut Presence, now: Instant) -> Option<Notice> {
    let notice = presence.due(now, AT)?;
    let read = Notice::decode(&notice.encode());
    assert_eq!(read.as_ref(), Some(&notice));
    read
}

#[test]
fn changes_are_told_at_once_and_a_gap_is_filled() {
    let start = Instant::now();
    let (mut one, mut two) = (Presence::new("one", 1), Presence::new("two", 1));
    one.here(addresses(&[1, 2]));
    let whole = due(&mut one, start).unwrap();
    assert_eq!((whole.from, &whole.came), (None, &addresses(&[1, 2])));
    assert_eq!(due(&mut one, start), None);
    two.heard("one", "one.a", whole, start, AT);
    assert!(two.take_change() && !two.take_change());
    assert_eq!(two.elsewhere(), addresses(&[1, 2]));
    one.here(addresses(&[2, 3]));
    let change = due(&mut one, start).unwrap();
    assert_eq!(
        (&change.came, &change.went),
        (&addresses(&[3]), &vec![id(1)])
    );
    two.heard("one", "one.a", change, start, AT);
    assert!(two.take_change());
    assert_eq!(two.elsewhere(), addresses(&[2, 3]));
    two.here(addresses(&[3, 4]));
    assert_eq!(two.all(), [2, 3, 4].map(id).into());
    // Nothing new: that is told now and then.
    assert_eq!(due(&mut one, start + EVERY / 2), None);
    let still = due(&mut one, start + EVERY).unwrap();
    two.heard("one", "one.a", still, start, AT);
    assert!(!two.take_change());
    // A change is missed.
    one.here(addresses(&[2]));
    due(&mut one, start + EVERY).unwrap();
    one.here(addresses(&[]));
    let change = due(&mut one, start + EVERY).unwrap();
    two.heard("one", "one.a", change, start, AT);
    assert_eq!(two.elsewhere(), addresses(&[2, 3]));
    let asks = due(&mut two, start).unwrap();
    assert_eq!(asks.asks, ["one"]);
    one.heard("two", "two.a", asks, start, AT);
    let whole = due(&mut one, start + EVERY + PAUSE).unwrap();
    two.heard("one", "one.a", whole, start, AT);
    assert!(two.take_change());
    assert_eq!(two.elsewhere(), addresses(&[]));
    assert_eq!(due(&mut two, start + EVERY).unwrap().asks, [""; 0]);
}

#[test]
fn what_a_silent_master_told_is_forgotten() {
    let start = Instant::now();
    let (mut one, mut two) = (Presence::new("one", 1), Presence::new("two", 1));
    one.here(addresses(&[1]));
    let whole = due(&mut one, start).unwrap();
    two.heard("one", "one.a", whole.clone(), start, AT);
    two.tick(start + AWAY / 2);
    assert_eq!(two.count_elsewhere(), 1);
    assert!(two.take_change());
    two.tick(start + AWAY);
    assert!(two.take_change());
    assert_eq!(two.elsewhere(), addresses(&[]));
    // Its next start tells the same; the one before counts no more, nor what was told long ago.
    let again = Notice {
        since: 2,
        ..whole.clone()
    };
    two.heard("one", "one.b", again.clone(), start, AT);
    two.heard(
        "one",
        "one.a",
        Notice {
            came: Addresses::new(),
            ..whole
        },
        start,
        AT,
    );
    assert_eq!(two.elsewhere(), addresses(&[1]));
    two.heard("three", "three.a", again.clone(), start, AT + RECENT + 1);
    two.heard("two", "two.b", again, start, AT);
    assert_eq!(two.count_elsewhere(), 1);
    let last = one.farewell(start, AT);
    assert_eq!((last.from, last.came.len()), (None, 0));
}

/// Messages that nobody could send who keeps to the limits.
#[test]
fn lists_are_limited() {
    let start = Instant::now();
    let mut one = Presence::new("one", 1);
    let many: Addresses = (0..MOST_BYTES as u64 / 44)
        .map(|n| (id(n), IpAddr::from([10, 0, 0, 1])))
        .collect();
    let whole = |came| Notice {
        at: AT,
        since: 1,
        from: None,
        number: 1,
        came,
        ..Notice::default()
    };
    one.here(many.clone());
    assert!(one.left_out > 0);
    let told = one.due(start, AT).unwrap();
    let mut two = Presence::new("two", 1);
    two.heard("one", "one.a", told.clone(), start, AT);
    assert_eq!(two.count_elsewhere(), many.len() - one.left_out);
    two.heard("one", "one.a", whole(many), start, AT);
    assert_eq!(two.count_elsewhere(), 0);
    for n in 0..2 * MOST {
        two.heard(
            &format!("x{n}"),
            "x.a",
            whole(addresses(&[n as u64])),
            start,
            AT,
        );
    }
    assert_eq!(two.count_elsewhere(), MOST - 1);
    assert!(told.encode().len() < 16 << 20);
}

#[test]
fn what_is_no_notice_is_ignored() {
    assert_eq!(Notice::decode(b"garbage"), None);
    let map = |form: u64, id: &str| {
        halite_wire::map! {
            "form" => form, "at" => 1u64, "since" => 1u64, "number" => 1u64, "asks" => Vec::<Value>::new(),
            "went" => Vec::<Value>::new(), "came" => halite_wire::map! {id => "10.0.0.1"}, "more" => 1u64,
        }
    };
    let read = |map: &Map| Notice::decode(&msgpack::encode_map(map, Profile::Local));
    assert!(read(&map(FORM, "m")).is_some());
    assert_eq!(read(&map(FORM + 1, "m")), None);
    assert_eq!(read(&map(FORM, "../m")), None);
    let mut wrong = map(FORM, "m");
    wrong.set("from", "x");
    assert_eq!(read(&wrong), None);
}

/// Three masters, whose minions come and go, whose messages get lost, and who start anew: when that ends, all know all.
#[test]
fn all_know_all_in_the_end() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let mut now = Instant::now();
        let names = ["one", "two", "three"];
        let mut starts = [0; 3];
        let mut masters: Vec<Presence> = names.map(|name| Presence::new(name, 0)).into();
        let mut lists = vec![Addresses::new(); 3];
        for step in 0..400 {
            let is_quiet = step >= 200;
            now += Duration::from_millis(random.below(if is_quiet { 200 } else { 1000 }));
            let n = random.below(3) as usize;
            if !is_quiet {
                match random.below(20) {
                    0 => {
                        starts[n] += 1;
                        masters[n] = Presence::new(names[n], starts[n]);
                    }
                    1..10 => {
                        let minion = random.below(9);
                        if lists[n].remove(&id(minion)).is_none() {
                            lists[n].extend(addresses(&[minion]));
                        }
                    }
                    _ => {}
                }
            }
            masters[n].here(lists[n].clone());
            let Some(notice) = due(&mut masters[n], now) else {
                continue;
            };
            let origin = format!("{}.{:x}", names[n], starts[n]);
            for (m, master) in masters.iter_mut().enumerate().filter(|(m, _)| *m != n) {
                if is_quiet || random.below(4) > 0 {
                    master.heard(names[n], &origin, notice.clone(), now, AT);
                }
                assert_ne!(m, n);
                master.tick(now);
            }
        }
        let all: Addresses = lists
            .iter()
            .flatten()
            .map(|(id, at)| (id.clone(), *at))
            .collect();
        let ids: BTreeSet<MinionId> = all.keys().cloned().collect();
        for master in &masters {
            assert_eq!(master.all(), ids, "seed {seed}");
        }
    }
}
