use super::*;
use crate::minion::testing;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn policy() -> Policy {
    Policy {
        timeout: secs(5),
        tries: 2,
        retries: 0,
        wait: secs(10),
        wait_max: secs(30),
        rejected_retry: false,
        delay: secs(7),
        once: false,
        safemode: false,
        retry_dns: secs(30),
        retry_dns_count: None,
        master_tries: 1,
    }
}

fn accepted() -> Verdict {
    let keys = testing::credentials();
    Verdict::Accepted(Box::new(Accepted {
        aes: keys.aes,
        session: keys.session,
        publish_port: 4505,
        master: keys.master,
        pin: false,
    }))
}

fn silence() -> Event {
    Event::Answer(Verdict::Silence)
}

fn single(policy: Policy) -> Course {
    Course::new(policy, "m1", vec![0], false)
}

fn list(policy: Policy) -> Course {
    Course::new(policy, "m1", vec![0, 1], true)
}

/// Drives a course through a world in simulated time: what each master answers at which second.
fn drive(
    course: &mut Course,
    seconds: u64,
    mut world: impl FnMut(u64, &Do) -> Event,
) -> (u64, Do, Vec<usize>) {
    let (mut now, mut asked) = (0, Vec::new());
    let mut act = course.next(Event::Begin);
    while now <= seconds {
        let event = match &act {
            Do::Wait(wait) => {
                now += wait.as_secs().max(1);
                Event::Waited
            }
            Do::Ask(master, timeout) => {
                asked.push(*master);
                let event = world(now, &act);
                if event == silence() {
                    now += timeout.as_secs();
                }
                event
            }
            Do::Resolve(_) => world(now, &act),
            Do::Done(..) | Do::Fail(_) => break,
        };
        act = course.next(event);
    }
    (now, act, asked)
}

#[test]
fn the_straight_way() {
    let mut course = single(policy());
    assert_eq!(course.next(Event::Begin), Do::Resolve(0));
    assert_eq!(course.next(Event::Resolved), Do::Ask(0, secs(5)));
    assert!(matches!(
        course.next(Event::Answer(accepted())),
        Do::Done(0, _)
    ));
}

#[test]
fn a_silent_single_master_is_asked_for_ever() {
    let (now, act, asked) = drive(&mut single(policy()), 86_400, |now, act| match act {
        Do::Resolve(_) => Event::Resolved,
        _ if now < 80_000 => silence(),
        _ => Event::Answer(accepted()),
    });
    assert!(matches!(act, Do::Done(0, _)));
    assert!((80_000..80_020).contains(&now), "{now}");
    assert!(asked.len() > 5000, "{}", asked.len());
}

#[test]
fn a_name_is_resolved_before_every_question() {
    let mut course = single(policy());
    course.next(Event::Begin);
    course.next(Event::Resolved);
    assert!(matches!(course.next(silence()), Do::Wait(_)));
    assert_eq!(course.next(Event::Waited), Do::Resolve(0));
}

#[test]
fn names_that_cannot_be_resolved() {
    let lost = || Event::Unresolvable("salt".into());
    let mut course = single(policy());
    course.next(Event::Begin);
    for _ in 0..100 {
        assert_eq!(course.next(lost()), Do::Wait(secs(30)));
        assert_eq!(course.next(Event::Waited), Do::Resolve(0));
    }
    let counted = Policy {
        retry_dns_count: Some(2),
        ..policy()
    };
    let mut course = single(counted.clone());
    course.next(Event::Begin);
    assert_eq!(course.next(lost()), Do::Wait(secs(30)));
    // A name that is there again starts the count anew.
    course.next(Event::Resolved);
    assert_eq!(course.next(lost()), Do::Wait(secs(30)));
    assert_eq!(course.next(lost()), Do::Wait(secs(30)));
    let Do::Fail(failure) = course.next(lost()) else {
        panic!();
    };
    assert!(failure.message.contains("'salt' could not be resolved"));
    let at_once = Policy {
        retry_dns: secs(0),
        ..policy()
    };
    let mut course = single(at_once);
    course.next(Event::Begin);
    assert_eq!(course.next(lost()), Do::Wait(secs(7)));
    // A list does not wait for names.
    let mut course = list(counted);
    course.next(Event::Begin);
    assert_eq!(course.next(lost()), Do::Resolve(1));
    assert_eq!(course.next(lost()), Do::Wait(secs(20)));
}

#[test]
fn a_command_does_not_wait_for_names() {
    let once = Policy {
        once: true,
        tries: 1,
        ..policy()
    };
    let mut course = single(once);
    course.next(Event::Begin);
    let Do::Fail(failure) = course.next(Event::Unresolvable("salt".into())) else {
        panic!();
    };
    assert_eq!(failure.status, 1);
    assert!(
        failure
            .message
            .contains("Master hostname: 'salt' not found")
    );
}

#[test]
fn a_list_takes_the_first_that_answers() {
    let (now, act, asked) = drive(&mut list(policy()), 1000, |_, act| match act {
        Do::Resolve(_) => Event::Resolved,
        Do::Ask(0, _) => silence(),
        _ => Event::Answer(accepted()),
    });
    assert!(matches!(act, Do::Done(1, _)));
    assert_eq!((now, asked), (5, vec![0, 1]), "one attempt per master");
}

#[test]
fn a_list_is_gone_through_again_and_again() {
    let endless = Policy {
        master_tries: -1,
        ..policy()
    };
    let (now, act, _) = drive(&mut list(endless), 100_000, |now, act| match act {
        Do::Resolve(_) => Event::Resolved,
        Do::Ask(0, _) if now > 50_000 => Event::Answer(accepted()),
        _ => silence(),
    });
    assert!(matches!(act, Do::Done(0, _)));
    assert!((50_000..50_030).contains(&now), "{now}");
    // After `master_tries` passes the wait grows up to `acceptance_wait_time_max`.
    let mut course = list(policy());
    let mut waits = Vec::new();
    let mut act = course.next(Event::Begin);
    while waits.len() < 4 {
        act = match &act {
            Do::Resolve(_) => course.next(Event::Resolved),
            Do::Ask(..) => course.next(silence()),
            Do::Wait(wait) => {
                waits.push(wait.as_secs());
                course.next(Event::Waited)
            }
            other => panic!("{other:?}"),
        };
    }
    assert_eq!(waits, [20, 30, 30, 30]);
}

#[test]
fn what_makes_a_list_go_on_and_what_does_not() {
    for verdict in [
        Verdict::Silence,
        Verdict::Unreadable,
        Verdict::Untrusted("x".into()),
        Verdict::BadAlgorithm("signing_algorithm"),
    ] {
        let mut course = list(policy());
        course.next(Event::Begin);
        course.next(Event::Resolved);
        assert_eq!(course.next(Event::Answer(verdict)), Do::Resolve(1));
    }
    let mut course = list(policy());
    course.next(Event::Begin);
    assert_eq!(
        course.next(Event::Answer(Verdict::Pending)),
        Do::Wait(secs(10))
    );
    assert_eq!(
        course.next(Event::Waited),
        Do::Resolve(0),
        "it waits at that master"
    );
    assert_eq!(
        course.next(Event::Answer(Verdict::Full)),
        Do::Wait(secs(10))
    );
    let rejected = course.next(Event::Answer(Verdict::Rejected));
    assert!(matches!(rejected, Do::Fail(f) if f.status == 77));
    let wrong = course.next(Event::Answer(Verdict::WrongFinger("aa".into())));
    assert!(matches!(wrong, Do::Fail(f) if f.status == 42));
}

#[test]
fn a_command_goes_through_the_list_once() {
    let once = Policy {
        once: true,
        master_tries: -1,
        ..policy()
    };
    let mut course = list(once);
    course.next(Event::Begin);
    assert_eq!(course.next(Event::Answer(Verdict::Pending)), Do::Resolve(1));
    assert!(matches!(course.next(silence()), Do::Fail(f) if f.message.contains("No master")));
}

#[test]
fn safemode_waits_like_a_pending_key() {
    let safe = Policy {
        safemode: true,
        ..policy()
    };
    let mut course = single(safe);
    course.next(Event::Begin);
    assert_eq!(course.next(silence()), Do::Wait(secs(0)));
    assert_eq!(course.next(silence()), Do::Wait(secs(10)));
    course.next(silence());
    assert_eq!(course.next(silence()), Do::Wait(secs(20)));
}

fn reversed(order: &mut [usize]) {
    order.reverse();
}

#[test]
fn orders() {
    let none = |_: &mut [usize]| {};
    let mut roster = Roster::new(Kind::Failover, 3, "m1", false, false);
    assert_eq!(roster.order(Reason::First, 0, none), [0, 1, 2]);
    assert_eq!(roster.order(Reason::Lost, 0, none), [1, 2, 0]);
    assert_eq!(roster.order(Reason::Lost, 1, none), [2, 0, 1]);
    assert_eq!(roster.order(Reason::Again, 0, none), [0, 2, 1]);
    assert_eq!(roster.order(Reason::Failback, 0, none), [0, 1, 2]);
    let mut random = Roster::new(Kind::Failover, 3, "m1", true, false);
    assert_eq!(random.order(Reason::First, 0, reversed), [2, 1, 0]);
    assert_eq!(random.order(Reason::Lost, 2, reversed), [0, 1, 2]);
    assert_eq!(
        random.order(Reason::Again, 1, reversed),
        [1, 0, 2],
        "no chance"
    );
    let mut failback = Roster::new(Kind::Failover, 3, "m1", true, true);
    assert_eq!(failback.order(Reason::First, 0, reversed), [0, 2, 1]);
    let mut one = Roster::new(Kind::Single, 1, "m1", true, false);
    assert_eq!(one.order(Reason::First, 0, reversed), [0]);
    assert_eq!(one.order(Reason::Lost, 0, reversed), [0]);
    assert!(!one.is_list());
    let mut spread = Roster::new(Kind::Distributed, 3, "m1", false, false);
    let first = crc32fast::hash(b"m1") as usize % 3;
    let order = spread.order(Reason::First, 0, none);
    assert_eq!((order[0], order.len()), (first, 3));
}
