use super::*;

fn dispatcher(workers: usize) -> (Dispatcher<u32>, Instant) {
    let limits = Limits {
        queue: 3,
        deadline: Duration::from_secs(60),
        sign_in: Some(Duration::from_secs(5)),
    };
    let mut d = Dispatcher::new(limits, &[workers], 0);
    for w in 0..workers {
        d.ready(0, format!("w{w}").as_bytes(), 100 + w as u32);
    }
    (d, Instant::now())
}

fn put(d: &mut Dispatcher<u32>, now: Instant, class: Class, payload: u32) -> Result<(), u32> {
    d.submit(now, 0, class, false, payload)
}

/// The next requests for a worker, long after the last.
fn batch(d: &mut Dispatcher<u32>) -> Option<(WorkerName, u64, Vec<u32>)> {
    let later = Instant::now() + Duration::from_secs(3600);
    d.assign(later)
        .map(|(w, s, p)| (w, s, p.into_iter().copied().collect()))
}

fn take(d: &mut Dispatcher<u32>) -> Option<(WorkerName, u64, u32)> {
    let (worker, seq, requests) = batch(d)?;
    assert_eq!(requests.len(), 1);
    Some((worker, seq, requests[0]))
}

#[test]
fn slow_work_leaves_a_worker_for_the_rest() {
    let (mut d, now) = dispatcher(3);
    for i in 0..3 {
        put(&mut d, now, Class::Pillar, i).unwrap();
        put(&mut d, now, Class::File, 10 + i).unwrap();
    }
    let mut got = vec![take(&mut d).unwrap().2, take(&mut d).unwrap().2];
    got.sort_unstable();
    assert_eq!(
        got,
        [0, 10],
        "one of each, then the last worker is kept free"
    );
    assert!(take(&mut d).is_none());
    put(&mut d, now, Class::Auth, 99).unwrap();
    assert_eq!(take(&mut d).unwrap().2, 99);
}

#[test]
fn logins_that_hang_do_not_take_all_workers() {
    let (mut d, now) = dispatcher(3);
    for i in 0..3 {
        put(&mut d, now, Class::Login, i).unwrap();
    }
    assert_eq!(take(&mut d).unwrap().2, 0);
    assert!(
        take(&mut d).is_none(),
        "others wait, although workers are idle"
    );
    for class in [Class::Auth, Class::Publish] {
        put(&mut d, now, class, 99).unwrap();
        assert_eq!(take(&mut d).unwrap().2, 99);
    }
}

#[test]
fn classes_take_turns() {
    let (mut d, now) = dispatcher(1);
    for i in 0..3 {
        put(&mut d, now, Class::Pillar, i).unwrap();
    }
    put(&mut d, now, Class::Auth, 50).unwrap();
    let mut order = Vec::new();
    while let Some((worker, seq, payload)) = take(&mut d) {
        order.push(payload);
        assert_eq!(d.done(Instant::now(), &worker, seq, 1), [Some(payload)]);
    }
    assert_eq!(order, [50, 0, 1, 2]);
}

#[test]
fn jobs_and_returns_go_before_a_sign_in() {
    for class in [Class::Return, Class::Publish] {
        let (mut d, now) = dispatcher(1);
        put(&mut d, now, Class::Auth, 50).unwrap();
        let mut passed = 0;
        loop {
            put(&mut d, now, class, 1).unwrap();
            let (worker, seq, payload) = take(&mut d).unwrap();
            d.done(Instant::now(), &worker, seq, 1);
            if payload == 50 {
                break;
            }
            passed += 1;
        }
        assert_eq!(passed, PASSED, "not for ever");
    }
}

#[test]
fn a_sign_in_does_not_wait_while_returns_gather() {
    let (mut d, now) = returning(2);
    put(&mut d, now, Class::Auth, 50).unwrap();
    put(&mut d, now, Class::Return, 2).unwrap();
    assert!(d.gathers(now));
    assert_eq!(d.assign(now).unwrap().2, [&50]);
}

#[test]
fn idle_workers_share_files_and_sign_ins_and_a_busy_one_gets_several() {
    for (class, most) in [
        (Class::File, FILES_AT_ONCE),
        (Class::Auth, SIGN_INS_AT_ONCE),
    ] {
        let (mut d, now) = dispatcher(5);
        d.limits.queue = 100;
        for i in 0..7 {
            put(&mut d, now, class, i).unwrap();
        }
        let (worker, seq, first) = batch(&mut d).unwrap();
        assert_eq!(first, [0, 1], "seven for five");
        let mut answered = d.done(now, &worker, seq, 1);
        assert_eq!(
            answered,
            [Some(0)],
            "the other is not begun and is first again"
        );
        while let Some((worker, seq, all)) = batch(&mut d) {
            answered.extend(d.done(now, &worker, seq, all.len()));
        }
        assert_eq!(answered, [0, 1, 2, 3, 4, 5, 6].map(Some));

        let (mut d, now) = dispatcher(1);
        d.limits.queue = 100;
        d.submit(now, 0, class, true, 50).unwrap();
        for i in 0..10 {
            put(&mut d, now, class, i).unwrap();
        }
        let (worker, seq, first) = batch(&mut d).unwrap();
        assert_eq!(first, [50], "a large one goes alone");
        d.done(now, &worker, seq, 1);
        assert_eq!(batch(&mut d).unwrap().2.len(), most);
    }
}

#[test]
fn sign_ins_that_nobody_waits_for_are_dropped() {
    let (mut d, now) = dispatcher(1);
    let second = Duration::from_secs(1);
    put(&mut d, now, Class::Auth, 1).unwrap();
    put(&mut d, now + second, Class::Auth, 2).unwrap();
    put(&mut d, now, Class::Return, 3).unwrap();
    assert!(d.outwaited(now + 4 * second).is_empty());
    assert_eq!(d.outwaited(now + 5 * second), [1]);
    assert_eq!(d.counters.outwaited, 1);
    assert_eq!(take(&mut d).unwrap().2, 3, "a return waits longer");
    assert_eq!(d.outwaited(now + 6 * second), [2]);
    d.limits.sign_in = None;
    put(&mut d, now, Class::Auth, 4).unwrap();
    assert!(d.outwaited(now + 30 * second).is_empty());
}

#[test]
fn a_full_queue_refuses() {
    let (mut d, now) = dispatcher(1);
    for i in 0..3 {
        put(&mut d, now, Class::Other, i).unwrap();
    }
    assert_eq!(put(&mut d, now, Class::Other, 9), Err(9));
    assert_eq!(d.counters.refused, 1);
    put(&mut d, now, Class::Auth, 9).unwrap();
}

/// `count` workers, the last of which handles returns 0 and 1.
fn returning(count: usize) -> (Dispatcher<u32>, Instant) {
    let limits = Limits {
        queue: 100,
        deadline: Duration::from_secs(60),
        sign_in: Some(Duration::from_secs(5)),
    };
    let mut d = Dispatcher::new(limits, &[count], 0);
    for w in 0..count {
        d.ready(0, format!("w{w}").as_bytes(), 100 + w as u32);
    }
    let now = Instant::now();
    for i in 0..2 {
        put(&mut d, now, Class::Return, i).unwrap();
    }
    assert_eq!(d.assign(now).unwrap().2, [&0, &1]);
    (d, now)
}

#[test]
fn returns_share_a_way_and_wait_for_company() {
    let (mut d, now) = returning(3);
    put(&mut d, now, Class::Return, 2).unwrap();
    assert!(d.gathers(now) && d.assign(now).is_none());
    put(&mut d, now, Class::Auth, 99).unwrap();
    assert_eq!(d.assign(now).unwrap().2, [&99], "others do not wait");
    let later = now + GATHER;
    assert!(!d.gathers(later));
    assert_eq!(d.assign(later).unwrap().2, [&2], "nor does it for long");

    let (mut d, now) = returning(2);
    for i in 0..ENOUGH as u32 {
        put(&mut d, now, Class::Return, 10 + i).unwrap();
    }
    assert_eq!(d.assign(now).unwrap().2.len(), ENOUGH, "enough have come");

    let (mut d, now) = returning(2);
    for i in 0..90 {
        d.submit(now, 0, Class::Return, i == 70, i).unwrap();
    }
    assert_eq!(d.assign(now).unwrap().2.len(), MOST_AT_ONCE);
    d.done(Instant::now(), b"w1", 1, 2);
    assert_eq!(batch(&mut d).unwrap().2, [64, 65, 66, 67, 68, 69]);
    let (mut d, now) = returning(2);
    d.submit(now, 0, Class::Return, true, 7).unwrap();
    put(&mut d, now, Class::Return, 8).unwrap();
    assert_eq!(batch(&mut d).unwrap().2, [7], "a large one goes alone");
}

#[test]
fn what_a_worker_did_not_begin_waits_again() {
    let (mut d, _) = returning(2);
    assert_eq!(d.done(Instant::now(), b"w1", 1, 1), [Some(0)]);
    assert_eq!(batch(&mut d).unwrap().2, [1]);
    assert_eq!(d.counters.retried, 0);
}

#[test]
fn a_dead_worker_costs_one_retry_only() {
    let (mut d, _) = returning(1);
    assert_eq!(
        d.ready(0, b"w0", 100),
        Reassigned::default(),
        "the same instance repeats itself"
    );
    assert!(batch(&mut d).is_none());
    let fate = d.ready(0, b"w0", 200);
    assert_eq!((fate.retried, fate.lost.len()), (2, 0));
    assert_eq!(batch(&mut d).unwrap().2, [0], "each by itself");
    let fate = d.ready(0, b"w0", 300);
    assert_eq!(
        (fate.retried, fate.lost),
        (0, vec![0]),
        "a request that kills is not tried for ever"
    );
    assert_eq!(batch(&mut d).unwrap().2, [1]);
    assert_eq!(
        d.done(Instant::now(), b"w0", 3, 1),
        [Some(1)],
        "its neighbour is carried out"
    );
    assert_eq!(d.pending(), 0);
}

#[test]
fn deadlines_hold_for_waiting_and_running() {
    let (mut d, now) = dispatcher(1);
    put(&mut d, now, Class::Pillar, 1).unwrap();
    put(&mut d, now, Class::Pillar, 2).unwrap();
    let (worker, seq, _) = take(&mut d).unwrap();
    assert!(d.expire(now + Duration::from_secs(59)).is_empty());
    let mut late = d.expire(now + Duration::from_secs(60));
    late.sort_unstable();
    assert_eq!(late, [1, 2]);
    assert!(
        d.done(Instant::now(), &worker, seq, 1).is_empty(),
        "its sender has been told already"
    );
    put(&mut d, now, Class::Pillar, 3).unwrap();
    assert_eq!(take(&mut d).unwrap().2, 3, "the late worker serves again");

    let (mut d, now) = returning(1);
    let soon = now + Duration::from_secs(1);
    put(&mut d, soon, Class::Return, 2).unwrap();
    assert_eq!(d.expire(now + Duration::from_secs(60)), [0, 1]);
    assert_eq!(d.pending(), 1);
}
