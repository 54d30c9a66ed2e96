use super::*;
use crate::testing;

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
        rekeys: false,
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
    mut world: impl FnMut(u64, &Action) -> Event,
) -> (u64, Action, Vec<usize>) {
    let (mut now, mut asked) = (0, Vec::new());
    let mut act = course.next(Event::Begin);
    while now <= seconds {
        let event = match &act {
            Action::Wait(wait) => {
                now += wait.as_secs().max(1);
                Event::Waited
            }
            Action::Scatter(bound) => {
                now += bound.as_secs() / 2;
                Event::Waited
            }
            Action::Ask(master, timeout) => {
                asked.push(*master);
                let event = world(now, &act);
                if event == silence() {
                    now += timeout.as_secs();
                }
                event
            }
            Action::Resolve(_) => world(now, &act),
            Action::Done(..) | Action::Fail(_) => break,
        };
        act = course.next(event);
    }
    (now, act, asked)
}

#[test]
fn the_straight_way() {
    let mut course = single(policy());
    assert_eq!(course.next(Event::Begin), Action::Resolve(0));
    assert_eq!(course.next(Event::Resolved), Action::Ask(0, secs(5)));
    assert!(matches!(
        course.next(Event::Answer(accepted())),
        Action::Done(0, _)
    ));
}

#[test]
fn a_silent_single_master_is_asked_for_ever() {
    let (now, act, asked) = drive(&mut single(policy()), 86_400, |now, act| match act {
        Action::Resolve(_) => Event::Resolved,
        _ if now < 80_000 => silence(),
        _ => Event::Answer(accepted()),
    });
    assert!(matches!(act, Action::Done(0, _)));
    assert!((80_000..80_020).contains(&now), "{now}");
    assert!(asked.len() > 5000, "{}", asked.len());
}

#[test]
fn a_name_is_resolved_before_every_question() {
    let mut course = single(policy());
    course.next(Event::Begin);
    course.next(Event::Resolved);
    assert!(matches!(course.next(silence()), Action::Scatter(_)));
    assert_eq!(course.next(Event::Waited), Action::Resolve(0));
}

#[test]
fn names_that_cannot_be_resolved() {
    let lost = || Event::Unresolvable("salt".into());
    let mut course = single(policy());
    course.next(Event::Begin);
    for _ in 0..100 {
        assert_eq!(course.next(lost()), Action::Wait(secs(30)));
        assert_eq!(course.next(Event::Waited), Action::Resolve(0));
    }
    let counted = Policy {
        retry_dns_count: Some(2),
        ..policy()
    };
    let mut course = single(counted.clone());
    course.next(Event::Begin);
    assert_eq!(course.next(lost()), Action::Wait(secs(30)));
    // A name that is there again starts the count anew.
    course.next(Event::Resolved);
    assert_eq!(course.next(lost()), Action::Wait(secs(30)));
    assert_eq!(course.next(lost()), Action::Wait(secs(30)));
    let Action::Fail(failure) = course.next(lost()) else {
        panic!();
    };
    assert!(failure.message.contains("'salt' could not be resolved"));
    let at_once = Policy {
        retry_dns: secs(0),
        ..policy()
    };
    let mut course = single(at_once);
    course.next(Event::Begin);
    assert_eq!(course.next(lost()), Action::Wait(secs(7)));
    // A list does not wait for names.
    let mut course = list(counted);
    course.next(Event::Begin);
    assert_eq!(course.next(lost()), Action::Resolve(1));
    assert_eq!(course.next(lost()), Action::Wait(secs(20)));
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
    let Action::Fail(failure) = course.next(Event::Unresolvable("salt".into())) else {
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
        Action::Resolve(_) => Event::Resolved,
        Action::Ask(0, _) => silence(),
        _ => Event::Answer(accepted()),
    });
    assert!(matches!(act, Action::Done(1, _)));
    assert_eq!((now, asked), (5, vec![0, 1]), "one attempt per master");
}

#[test]
fn a_list_is_gone_through_again_and_again() {
    let endless = Policy {
        master_tries: -1,
        ..policy()
    };
    let (now, act, _) = drive(&mut list(endless), 100_000, |now, act| match act {
        Action::Resolve(_) => Event::Resolved,
        Action::Ask(0, _) if now > 50_000 => Event::Answer(accepted()),
        _ => silence(),
    });
    assert!(matches!(act, Action::Done(0, _)));
    assert!((50_000..50_030).contains(&now), "{now}");
    // After `master_tries` passes the wait grows up to `acceptance_wait_time_max`.
    let mut course = list(policy());
    let mut waits = Vec::new();
    let mut act = course.next(Event::Begin);
    while waits.len() < 4 {
        act = match &act {
            Action::Resolve(_) => course.next(Event::Resolved),
            Action::Ask(..) => course.next(silence()),
            Action::Wait(wait) => {
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
        assert_eq!(course.next(Event::Answer(verdict)), Action::Resolve(1));
    }
    let mut course = list(policy());
    course.next(Event::Begin);
    assert_eq!(
        course.next(Event::Answer(Verdict::Pending)),
        Action::Wait(secs(10))
    );
    assert_eq!(
        course.next(Event::Waited),
        Action::Resolve(0),
        "it waits at that master"
    );
    assert_eq!(
        course.next(Event::Answer(Verdict::Full)),
        Action::Wait(secs(10))
    );
    let rejected = course.next(Event::Answer(Verdict::Rejected));
    assert!(matches!(rejected, Action::Fail(f) if f.status == 77));
    let wrong = course.next(Event::Answer(Verdict::WrongFinger("aa".into())));
    assert!(matches!(wrong, Action::Fail(f) if f.status == 42));
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
    assert_eq!(
        course.next(Event::Answer(Verdict::Pending)),
        Action::Resolve(1)
    );
    assert!(matches!(course.next(silence()), Action::Fail(f) if f.message.contains("No master")));
}

#[test]
fn safemode_waits_like_a_pending_key() {
    let safe = Policy {
        safemode: true,
        ..policy()
    };
    let mut course = single(safe);
    course.next(Event::Begin);
    assert_eq!(course.next(silence()), Action::Scatter(secs(1)));
    assert_eq!(course.next(silence()), Action::Wait(secs(10)));
    course.next(silence());
    assert_eq!(course.next(silence()), Action::Wait(secs(20)));
}

fn reversed(order: &mut [usize]) {
    order.reverse();
}

#[test]
fn orders() {
    let none = |_: &mut [usize]| {};
    let mut roster = MasterOrder::new(Kind::Failover, 3, "m1", false, false);
    assert_eq!(roster.order(Reason::First, 0, none), [0, 1, 2]);
    assert_eq!(roster.order(Reason::Lost, 0, none), [1, 2, 0]);
    assert_eq!(roster.order(Reason::Lost, 1, none), [2, 0, 1]);
    assert_eq!(roster.order(Reason::Again, 0, none), [0, 2, 1]);
    assert_eq!(roster.order(Reason::Failback, 0, none), [0, 1, 2]);
    let mut random = MasterOrder::new(Kind::Failover, 3, "m1", true, false);
    assert_eq!(random.order(Reason::First, 0, reversed), [2, 1, 0]);
    assert_eq!(random.order(Reason::Lost, 2, reversed), [0, 1, 2]);
    assert_eq!(
        random.order(Reason::Again, 1, reversed),
        [1, 0, 2],
        "no chance"
    );
    let mut failback = MasterOrder::new(Kind::Failover, 3, "m1", true, true);
    assert_eq!(failback.order(Reason::First, 0, reversed), [0, 2, 1]);
    let mut one = MasterOrder::new(Kind::Single, 1, "m1", true, false);
    assert_eq!(one.order(Reason::First, 0, reversed), [0]);
    assert_eq!(one.order(Reason::Lost, 0, reversed), [0]);
    assert!(!one.is_list());
    let mut spread = MasterOrder::new(Kind::Distributed, 3, "m1", false, false);
    let first = crc32fast::hash(b"m1") as usize % 3;
    let order = spread.order(Reason::First, 0, none);
    assert_eq!((order[0], order.len()), (first, 3));
}

#[test]
fn only_what_concerns_all_minions_is_put_off() {
    let begin = |policy: Policy, reason| single(policy).scattered(reason).next(Event::Begin);
    assert_eq!(begin(policy(), Reason::First), Action::Resolve(0));
    assert_eq!(begin(policy(), Reason::Lost), Action::Scatter(secs(7)));
    assert_eq!(begin(policy(), Reason::Failback), Action::Scatter(secs(7)));
    assert_eq!(begin(policy(), Reason::Again), Action::Scatter(secs(2)));
    let hasty = |reason| {
        let delay = secs(0);
        begin(Policy { delay, ..policy() }, reason)
    };
    assert_eq!(hasty(Reason::Again), Action::Resolve(0));
    let once = |reason| {
        let once = true;
        begin(Policy { once, ..policy() }, reason)
    };
    assert_eq!(once(Reason::Lost), Action::Resolve(0));
    let mut course = single(policy()).scattered(Reason::Lost);
    course.next(Event::Begin);
    assert_eq!(course.next(Event::Waited), Action::Resolve(0));
}

/// A fleet whose minions all begin to sign in at the same moment, in simulated time of milliseconds, at a master that
/// forgets questions whose minions no longer wait.
struct Fleet {
    /// Questions under way: when they came, whose they are.
    queue: std::collections::VecDeque<(u64, usize)>,
    /// What happens when: a step of a minion's course, or its patience with the question of that moment is over.
    due: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize, bool)>>,
    /// When each minion asked, and when it had its answer.
    asked: Vec<Vec<u64>>,
    done: Vec<Option<u64>>,
    chance: u64,
}

impl Fleet {
    /// A master that takes `each` milliseconds for one answer.
    fn run(minions: usize, each: u64, reason: Reason) -> Fleet {
        let usual = Policy {
            tries: 7,
            delay: secs(10),
            ..policy()
        };
        let mut courses: Vec<Course> = (0..minions)
            .map(|n| {
                let id = format!("m{n}");
                Course::new(usual.clone(), &id, vec![0], false).scattered(reason)
            })
            .collect();
        let mut fleet = Fleet {
            queue: Default::default(),
            due: Default::default(),
            asked: vec![Vec::new(); minions],
            done: vec![None; minions],
            chance: 1,
        };
        for (n, course) in courses.iter_mut().enumerate() {
            let act = course.next(Event::Begin);
            fleet.carry_out(0, n, course, act);
        }
        let mut served = 0;
        while let Some(std::cmp::Reverse((now, n, patience_over))) = fleet.due.pop() {
            while served <= now {
                let Some((at, who)) = fleet.queue.pop_front() else {
                    served = now + 1;
                    break;
                };
                // Those that are not waited for any more cost nothing.
                if fleet.asked[who].last() == Some(&at) && served < at + 5000 {
                    served = served.max(at) + each;
                    fleet.done[who] = Some(served);
                }
            }
            if fleet.done[n].is_some() {
                continue;
            }
            let event = if patience_over {
                silence()
            } else {
                Event::Waited
            };
            let act = courses[n].next(event);
            fleet.carry_out(now, n, &mut courses[n], act);
        }
        fleet
    }

    /// Notes when the minion goes on.
    fn carry_out(&mut self, now: u64, n: usize, course: &mut Course, act: Action) {
        let next = match act {
            Action::Resolve(_) => {
                let act = course.next(Event::Resolved);
                return self.carry_out(now, n, course, act);
            }
            Action::Ask(_, timeout) => {
                self.asked[n].push(now);
                self.queue.push_back((now, n));
                (now + timeout.as_millis() as u64, n, true)
            }
            Action::Wait(wait) => (now + wait.as_millis() as u64, n, false),
            Action::Scatter(bound) => (now + self.below(bound.as_millis() as u64), n, false),
            other => panic!("{other:?}"),
        };
        self.due.push(std::cmp::Reverse(next));
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005);
        self.chance = self.chance.wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % bound.max(1)
    }

    /// Questions in the busiest tenth of a second.
    fn busiest(&self) -> usize {
        let mut tenths = std::collections::BTreeMap::new();
        for at in self.asked.iter().flatten() {
            *tenths.entry(at / 100).or_insert(0) += 1;
        }
        tenths.into_values().max().unwrap_or_default()
    }

    fn last(&self) -> u64 {
        let done = self.done.iter().enumerate();
        done.map(|(n, at)| at.unwrap_or_else(|| panic!("m{n} is lost")))
            .max()
            .unwrap_or_default()
    }
}

#[test]
fn a_fleet_that_lost_its_master_comes_back_spread() {
    let fleet = Fleet::run(10_000, 1, Reason::Lost);
    // A thousand a second are asked for and answered: nobody asks twice.
    assert!(fleet.asked.iter().all(|asked| asked.len() == 1));
    assert!(fleet.busiest() < 200, "{}", fleet.busiest());
    assert!(fleet.last() < 12_000, "{}", fleet.last());
}

#[test]
fn a_fleet_with_unknown_keys_comes_back_through_a_slow_master() {
    // Five seconds of patience are two thousand answers: most ask several times, and none in step with the others.
    let fleet = Fleet::run(10_000, 2, Reason::Again);
    let most = fleet.asked.iter().map(Vec::len).max().unwrap_or_default();
    assert!(most <= 7, "{most}");
    assert!(fleet.busiest() < 1000, "{}", fleet.busiest());
    // Twenty seconds are the least that this master needs.
    assert!(fleet.last() < 40_000, "{}", fleet.last());
}
