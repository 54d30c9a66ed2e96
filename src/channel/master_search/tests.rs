use super::*;
use crate::testing;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn policy() -> RetryOptions {
    RetryOptions {
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
        cipher: Default::default(),
        noise: None,
        rekeys: false,
    }))
}

fn silence() -> Event {
    Event::Answer(Verdict::Silence)
}

fn single(policy: RetryOptions) -> MasterSearch {
    MasterSearch::new(policy, "m1", vec![0], false)
}

fn list(policy: RetryOptions) -> MasterSearch {
    MasterSearch::new(policy, "m1", vec![0, 1], true)
}

/// Runs a search in simulated time; `world` says what each master replies at which second.
fn drive(
    search: &mut MasterSearch,
    seconds: u64,
    mut world: impl FnMut(u64, &Action) -> Event,
) -> (u64, Action, Vec<usize>) {
    let (mut now, mut asked) = (0, Vec::new());
    let mut act = search.next(Event::Begin);
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
        act = search.next(event);
    }
    (now, act, asked)
}

#[test]
fn the_straight_way() {
    let mut search = single(policy());
    assert_eq!(search.next(Event::Begin), Action::Resolve(0));
    assert_eq!(search.next(Event::Resolved), Action::Ask(0, secs(5)));
    assert!(matches!(
        search.next(Event::Answer(accepted())),
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
    let mut search = single(policy());
    search.next(Event::Begin);
    search.next(Event::Resolved);
    assert!(matches!(search.next(silence()), Action::Scatter(_)));
    assert_eq!(search.next(Event::Waited), Action::Resolve(0));
}

#[test]
fn names_that_cannot_be_resolved() {
    let lost = || Event::Unresolvable("salt".into());
    let mut search = single(policy());
    search.next(Event::Begin);
    for _ in 0..100 {
        assert_eq!(search.next(lost()), Action::Wait(secs(30)));
        assert_eq!(search.next(Event::Waited), Action::Resolve(0));
    }
    let counted = RetryOptions {
        retry_dns_count: Some(2),
        ..policy()
    };
    let mut search = single(counted.clone());
    search.next(Event::Begin);
    assert_eq!(search.next(lost()), Action::Wait(secs(30)));
    // When the name resolves again, the count starts over.
    search.next(Event::Resolved);
    assert_eq!(search.next(lost()), Action::Wait(secs(30)));
    assert_eq!(search.next(lost()), Action::Wait(secs(30)));
    let Action::Fail(failure) = search.next(lost()) else {
        panic!();
    };
    assert!(failure.message.contains("'salt' could not be resolved"));
    let at_once = RetryOptions {
        retry_dns: secs(0),
        ..policy()
    };
    let mut search = single(at_once);
    search.next(Event::Begin);
    assert_eq!(search.next(lost()), Action::Wait(secs(7)));
    // With a list, unresolvable names are not waited for.
    let mut search = list(counted);
    search.next(Event::Begin);
    assert_eq!(search.next(lost()), Action::Resolve(1));
    assert_eq!(search.next(lost()), Action::Wait(secs(20)));
}

#[test]
fn a_command_does_not_wait_for_names() {
    let once = RetryOptions {
        once: true,
        tries: 1,
        ..policy()
    };
    let mut search = single(once);
    search.next(Event::Begin);
    let Action::Fail(failure) = search.next(Event::Unresolvable("salt".into())) else {
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
    let endless = RetryOptions {
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
    let mut search = list(policy());
    let mut waits = Vec::new();
    let mut act = search.next(Event::Begin);
    while waits.len() < 4 {
        act = match &act {
            Action::Resolve(_) => search.next(Event::Resolved),
            Action::Ask(..) => search.next(silence()),
            Action::Wait(wait) => {
                waits.push(wait.as_secs());
                search.next(Event::Waited)
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
        let mut search = list(policy());
        search.next(Event::Begin);
        search.next(Event::Resolved);
        assert_eq!(search.next(Event::Answer(verdict)), Action::Resolve(1));
    }
    let mut search = list(policy());
    search.next(Event::Begin);
    assert_eq!(
        search.next(Event::Answer(Verdict::Pending)),
        Action::Wait(secs(10))
    );
    assert_eq!(
        search.next(Event::Waited),
        Action::Resolve(0),
        "it waits at that master"
    );
    assert_eq!(
        search.next(Event::Answer(Verdict::Full)),
        Action::Wait(secs(10))
    );
    let rejected = search.next(Event::Answer(Verdict::Rejected));
    assert!(matches!(rejected, Action::Fail(f) if f.status == 77));
    let wrong = search.next(Event::Answer(Verdict::WrongFinger("aa".into())));
    assert!(matches!(wrong, Action::Fail(f) if f.status == 42));
}

#[test]
fn a_command_goes_through_the_list_once() {
    let once = RetryOptions {
        once: true,
        master_tries: -1,
        ..policy()
    };
    let mut search = list(once);
    search.next(Event::Begin);
    assert_eq!(
        search.next(Event::Answer(Verdict::Pending)),
        Action::Resolve(1)
    );
    assert!(matches!(search.next(silence()), Action::Fail(f) if f.message.contains("No master")));
}

#[test]
fn safemode_waits_like_a_pending_key() {
    let safe = RetryOptions {
        safemode: true,
        ..policy()
    };
    let mut search = single(safe);
    search.next(Event::Begin);
    assert_eq!(search.next(silence()), Action::Scatter(secs(1)));
    assert_eq!(search.next(silence()), Action::Wait(secs(10)));
    search.next(silence());
    assert_eq!(search.next(silence()), Action::Wait(secs(20)));
}

fn reversed(order: &mut [usize]) {
    order.reverse();
}

#[test]
fn orders() {
    let none = |_: &mut [usize]| {};
    let mut roster = MasterOrder::new(MasterType::Failover, 3, "m1", false, false);
    assert_eq!(roster.order(Reason::First, 0, none), [0, 1, 2]);
    assert_eq!(roster.order(Reason::Lost, 0, none), [1, 2, 0]);
    assert_eq!(roster.order(Reason::Lost, 1, none), [2, 0, 1]);
    assert_eq!(roster.order(Reason::Again, 0, none), [0, 2, 1]);
    assert_eq!(roster.order(Reason::Failback, 0, none), [0, 1, 2]);
    let mut random = MasterOrder::new(MasterType::Failover, 3, "m1", true, false);
    assert_eq!(random.order(Reason::First, 0, reversed), [2, 1, 0]);
    assert_eq!(random.order(Reason::Lost, 2, reversed), [0, 1, 2]);
    assert_eq!(
        random.order(Reason::Again, 1, reversed),
        [1, 0, 2],
        "no chance"
    );
    let mut failback = MasterOrder::new(MasterType::Failover, 3, "m1", true, true);
    assert_eq!(failback.order(Reason::First, 0, reversed), [0, 2, 1]);
    let mut one = MasterOrder::new(MasterType::Single, 1, "m1", true, false);
    assert_eq!(one.order(Reason::First, 0, reversed), [0]);
    assert_eq!(one.order(Reason::Lost, 0, reversed), [0]);
    assert!(!one.is_list());
    let mut spread = MasterOrder::new(MasterType::Distributed, 3, "m1", false, false);
    let first = crc32fast::hash(b"m1") as usize % 3;
    let order = spread.order(Reason::First, 0, none);
    assert_eq!((order[0], order.len()), (first, 3));
}

#[test]
fn only_what_concerns_all_minions_is_put_off() {
    let begin = |policy: RetryOptions, reason| single(policy).scattered(reason).next(Event::Begin);
    assert_eq!(begin(policy(), Reason::First), Action::Resolve(0));
    assert_eq!(begin(policy(), Reason::Lost), Action::Scatter(secs(7)));
    assert_eq!(begin(policy(), Reason::Failback), Action::Scatter(secs(7)));
    assert_eq!(begin(policy(), Reason::Again), Action::Scatter(secs(2)));
    let hasty = |reason| {
        let delay = secs(0);
        begin(RetryOptions { delay, ..policy() }, reason)
    };
    assert_eq!(hasty(Reason::Again), Action::Resolve(0));
    let once = |reason| {
        let once = true;
        begin(RetryOptions { once, ..policy() }, reason)
    };
    assert_eq!(once(Reason::Lost), Action::Resolve(0));
    let mut search = single(policy()).scattered(Reason::Lost);
    search.next(Event::Begin);
    assert_eq!(search.next(Event::Waited), Action::Resolve(0));
}

/// A fleet whose minions all start a sign-in at the same time, in simulated milliseconds, at a master that
/// drops requests whose minions no longer wait.
struct Fleet {
    /// Pending requests: when they arrived, and from which minion.
    queue: std::collections::VecDeque<(u64, usize)>,
    /// Scheduled events: the next step of a minion's search, or the timeout of its request.
    due: std::collections::BinaryHeap<std::cmp::Reverse<(u64, usize, bool)>>,
    /// When each minion sent requests, and when it got its reply.
    asked: Vec<Vec<u64>>,
    done: Vec<Option<u64>>,
    chance: u64,
}

impl Fleet {
    /// Runs a fleet at a master that takes `each` milliseconds per reply.
    fn run(minions: usize, each: u64, reason: Reason) -> Fleet {
        let usual = RetryOptions {
            tries: 7,
            delay: secs(10),
            ..policy()
        };
        let mut courses: Vec<MasterSearch> = (0..minions)
            .map(|n| {
                let id = format!("m{n}");
                MasterSearch::new(usual.clone(), &id, vec![0], false).scattered(reason)
            })
            .collect();
        let mut fleet = Fleet {
            queue: Default::default(),
            due: Default::default(),
            asked: vec![Vec::new(); minions],
            done: vec![None; minions],
            chance: 1,
        };
        for (n, search) in courses.iter_mut().enumerate() {
            let act = search.next(Event::Begin);
            fleet.carry_out(0, n, search, act);
        }
        let mut served = 0;
        while let Some(std::cmp::Reverse((now, n, patience_over))) = fleet.due.pop() {
            while served <= now {
                let Some((at, who)) = fleet.queue.pop_front() else {
                    served = now + 1;
                    break;
                };
                // Requests that timed out cost nothing.
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

    /// Schedules the minion's next event.
    fn carry_out(&mut self, now: u64, n: usize, search: &mut MasterSearch, act: Action) {
        let next = match act {
            Action::Resolve(_) => {
                let act = search.next(Event::Resolved);
                return self.carry_out(now, n, search, act);
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

    /// Requests in the busiest tenth of a second.
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
    // The master answers as fast as the thousand requests a second arrive: no minion asks twice.
    assert!(fleet.asked.iter().all(|asked| asked.len() == 1));
    assert!(fleet.busiest() < 200, "{}", fleet.busiest());
    assert!(fleet.last() < 12_000, "{}", fleet.last());
}

#[test]
fn a_fleet_with_unknown_keys_comes_back_through_a_slow_master() {
    // In the five seconds of the timeout there are 2,500 replies: most minions ask several times, spread out.
    let fleet = Fleet::run(10_000, 2, Reason::Again);
    let most = fleet.asked.iter().map(Vec::len).max().unwrap_or_default();
    assert!(most <= 7, "{most}");
    assert!(fleet.busiest() < 1000, "{}", fleet.busiest());
    // The master needs at least twenty seconds.
    assert!(fleet.last() < 40_000, "{}", fleet.last());
}
