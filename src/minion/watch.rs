//! State of an established connection: when to check whether it is alive, when to leave it. No IO; time is
//! passed in. Finding a master is the job of [`master_search`](halite_channel::master_search).
//!
//! ```text
//!             Opened                    Alive(false), FirstAnswers(true), PingLost
//!   Opening ---------> Up(first|other) --------------------------------------> Moving
//!                        ^   | Alive(true), FirstAnswers(false)                   |
//!                        +---+                                                    |
//!                        +--------------------- Opened ---------------------------+
//! ```
//!
//! `salt/minion.py handle_event` (`__master_disconnected`, `__master_failback`), where the scheduled jobs
//! `status.master` and `status.ping_master` do the checking.

use halite_channel::master_search::Reason;
use halite_config::MinionConfig;
use std::time::{Duration, Instant};

/// The relevant options.
#[derive(Clone, Debug)]
pub struct Rules {
    /// `master_alive_interval`; `None` is never.
    pub alive: Option<Duration>,
    /// `master_failback_interval`, where `master_failback` is set.
    pub failback: Option<Duration>,
    /// Whether another master can stand in.
    pub list: bool,
    /// `auth_safemode`: a lost ping triggers a new sign-in.
    pub safemode: bool,
}

impl Rules {
    /// From the configuration; `list` if masters can replace each other.
    pub fn of(config: &MinionConfig, list: bool) -> Rules {
        let every = |seconds: u64| (seconds > 0).then(|| Duration::from_secs(seconds));
        let alive = every(config.master_alive_interval);
        let failback = every(config.master_failback_interval).or(alive);
        Rules {
            // As in stock, there is no failback without `master_alive_interval`.
            failback: failback.filter(|_| list && config.master_failback && alive.is_some()),
            alive,
            list,
            safemode: config.auth_safemode,
        }
    }
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never connected yet.
    Opening,
    /// Connected to the preferred master or to another one.
    Up {
        /// Whether it is the preferred one.
        first: bool,
    },
    /// Disconnected; the next master is being searched.
    Moving,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Signed in and subscribed.
    Opened {
        /// Whether to the preferred master.
        first: bool,
    },
    /// Time has passed.
    Tick,
    /// The result of [`Action::Check`].
    Alive(bool),
    /// The result of [`Action::AskFirst`].
    FirstAnswers(bool),
    /// A ping (`ping_interval`) was not answered.
    PingLost,
    /// Reported by others: the connection is lost (`__master_disconnected`).
    Lost,
    /// Reported by others: the preferred master is back (`__master_failback`).
    FirstIsThere,
}

/// An action to perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Check whether the connection is alive.
    Check,
    /// Check whether the preferred master answers.
    AskFirst,
    /// Search for a master.
    Move(Reason),
}

/// The watch over one connection.
#[derive(Clone, Debug)]
pub struct Watch {
    rules: Rules,
    state: State,
    next_check: Option<Instant>,
    next_ask: Option<Instant>,
    checking: bool,
    asking: bool,
}

impl Watch {
    /// A watch over a connection that is being opened.
    pub fn new(rules: Rules) -> Watch {
        Watch {
            rules,
            state: State::Opening,
            next_check: None,
            next_ask: None,
            checking: false,
            asking: false,
        }
    }

    /// The current state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether there is a connection.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Time until [`Input::Tick`] has something to do; `None` is never.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let check = self.next_check.filter(|_| !self.checking);
        let ask = self.next_ask.filter(|_| !self.asking);
        let next = check.into_iter().chain(ask).min()?;
        Some(next.saturating_duration_since(now))
    }

    /// Returns the next action for an event; call it until it returns `None`.
    pub fn next(&mut self, input: Input, now: Instant) -> Option<Action> {
        match input {
            Input::Opened { first } => {
                self.state = State::Up { first };
                self.next_check = self.rules.alive.map(|every| now + every);
                self.next_ask = self
                    .rules
                    .failback
                    .filter(|_| !first)
                    .map(|every| now + every);
                // Pending checks are about the previous connection.
                (self.checking, self.asking) = (false, false);
                None
            }
            _ if !self.is_up() => None,
            Input::Tick => self.tick(now),
            Input::Alive(alive) => {
                if !std::mem::take(&mut self.checking) || alive {
                    return None;
                }
                self.lost()
            }
            Input::Lost => self.lost(),
            Input::FirstIsThere
                if self.state == (State::Up { first: false }) && self.rules.list =>
            {
                self.leave(Reason::Failback)
            }
            Input::FirstIsThere => None,
            Input::FirstAnswers(answers) => {
                if !std::mem::take(&mut self.asking) || !answers {
                    return None;
                }
                log::info!("the first master is back");
                self.leave(Reason::Failback)
            }
            Input::PingLost if self.rules.safemode => self.leave(Reason::Again),
            Input::PingLost => None,
        }
    }

    fn tick(&mut self, now: Instant) -> Option<Action> {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        // From now, not from when it was due: after a suspend there is one check only.
        if due(self.next_check) && !self.checking {
            self.next_check = self.rules.alive.map(|every| now + every);
            self.checking = true;
            return Some(Action::Check);
        }
        if due(self.next_ask) && !self.asking {
            self.next_ask = self.rules.failback.map(|every| now + every);
            self.asking = true;
            return Some(Action::AskFirst);
        }
        None
    }

    fn lost(&mut self) -> Option<Action> {
        log::info!("the connection to the master is lost");
        self.leave(match self.rules.list {
            true => Reason::Lost,
            false => Reason::Again,
        })
    }

    fn leave(&mut self, reason: Reason) -> Option<Action> {
        self.state = State::Moving;
        (self.next_check, self.next_ask) = (None, None);
        (self.checking, self.asking) = (false, false);
        Some(Action::Move(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Input = Input::Opened { first: true };
    const OTHER: Input = Input::Opened { first: false };

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    /// Simulated time.
    struct World {
        watch: Watch,
        start: Instant,
    }

    impl World {
        fn new(list: bool) -> World {
            World {
                watch: Watch::new(Rules {
                    alive: Some(secs(30)),
                    failback: list.then_some(secs(100)),
                    list,
                    safemode: false,
                }),
                start: Instant::now(),
            }
        }

        fn at(&mut self, second: u64, input: Input) -> Option<Action> {
            self.watch.next(input, self.start + secs(second))
        }

        fn wait(&self, second: u64) -> Option<u64> {
            Some(self.watch.wait(self.start + secs(second))?.as_secs())
        }
    }

    #[test]
    fn nothing_is_due_before_it_is_open_nor_while_it_moves() {
        let mut w = World::new(true);
        for input in [
            Input::Tick,
            Input::Alive(false),
            Input::FirstAnswers(true),
            Input::PingLost,
        ] {
            assert_eq!(w.at(1000, input), None, "{input:?}");
        }
        assert_eq!((w.watch.state(), w.wait(0)), (State::Opening, None));
        w.at(0, FIRST);
        assert_eq!(w.at(30, Input::Tick), Some(Action::Check));
        assert_eq!(
            w.at(31, Input::Alive(false)),
            Some(Action::Move(Reason::Lost))
        );
        assert_eq!(w.watch.state(), State::Moving);
        for input in [Input::Tick, Input::Alive(false), Input::FirstAnswers(true)] {
            assert_eq!(w.at(5000, input), None, "{input:?}");
        }
        assert_eq!(w.wait(5000), None);
        w.at(6000, OTHER);
        assert_eq!(w.watch.state(), State::Up { first: false });
        assert_eq!(w.wait(6000), Some(30));
    }

    #[test]
    fn a_live_connection_is_looked_at_again_and_again() {
        let mut w = World::new(false);
        w.at(0, FIRST);
        for round in 1..100 {
            let second = round * 30;
            assert_eq!(w.at(second - 1, Input::Tick), None);
            assert_eq!(w.at(second, Input::Tick), Some(Action::Check));
            assert_eq!(w.at(second, Input::Tick), None, "one look at a time");
            assert_eq!(w.wait(second), None);
            assert_eq!(w.at(second, Input::Alive(true)), None);
            assert_eq!(w.wait(second), Some(30));
        }
        assert_eq!(w.at(9999, Input::Tick), Some(Action::Check));
        let lost = w.at(9999, Input::Alive(false));
        assert_eq!(
            lost,
            Some(Action::Move(Reason::Again)),
            "there is no other one"
        );
    }

    #[test]
    fn a_host_that_slept_looks_once() {
        let mut w = World::new(false);
        w.at(0, FIRST);
        assert_eq!(w.at(86_400, Input::Tick), Some(Action::Check));
        w.at(86_400, Input::Alive(true));
        assert_eq!(w.at(86_400, Input::Tick), None);
        assert_eq!(w.wait(86_400), Some(30));
    }

    #[test]
    fn the_first_master_is_asked_from_another_one_only() {
        let mut w = World::new(true);
        w.at(0, FIRST);
        assert_eq!(w.at(200, Input::Tick), Some(Action::Check));
        assert_eq!(w.at(200, Input::Tick), None);
        w.at(200, OTHER);
        assert_eq!(w.at(300, Input::Tick), Some(Action::Check));
        assert_eq!(w.at(300, Input::Tick), Some(Action::AskFirst));
        assert_eq!(w.at(300, Input::FirstAnswers(false)), None);
        assert_eq!(w.at(300, Input::Alive(true)), None);
        assert_eq!(w.at(400, Input::Tick), Some(Action::Check));
        assert_eq!(w.at(400, Input::Tick), Some(Action::AskFirst));
        let back = w.at(401, Input::FirstAnswers(true));
        assert_eq!(back, Some(Action::Move(Reason::Failback)));
        w.at(402, FIRST);
        assert_eq!(w.watch.state(), State::Up { first: true });
        assert_eq!(w.at(402, Input::Alive(false)), None, "about the one before");
    }

    #[test]
    fn others_may_find_it_out() {
        let mut w = World::new(true);
        w.at(0, FIRST);
        assert_eq!(w.at(1, Input::FirstIsThere), None, "we are there");
        assert_eq!(w.at(1, Input::Lost), Some(Action::Move(Reason::Lost)));
        assert_eq!(w.at(2, Input::Lost), None);
        w.at(3, OTHER);
        assert_eq!(
            w.at(4, Input::FirstIsThere),
            Some(Action::Move(Reason::Failback))
        );
        let mut one = World::new(false);
        one.at(0, OTHER);
        assert_eq!(one.at(1, Input::FirstIsThere), None);
        assert_eq!(one.at(1, Input::Lost), Some(Action::Move(Reason::Again)));
    }

    #[test]
    fn a_lost_ping_counts_in_safemode() {
        let mut w = World::new(false);
        w.at(0, FIRST);
        assert_eq!(w.at(5, Input::PingLost), None);
        w.watch.rules.safemode = true;
        assert_eq!(w.at(5, Input::PingLost), Some(Action::Move(Reason::Again)));
        assert_eq!(w.at(6, Input::PingLost), None, "once");
    }

    #[test]
    fn rules_of_options() {
        let rules = |options: halite_wire::Map, list| {
            let mut all = halite_wire::map! {"id" => "m1"};
            all.0.extend(options.0);
            let dir = std::path::Path::new("/nonexistent");
            Rules::of(&MinionConfig::from_map(all, dir).unwrap(), list)
        };
        let none = rules(halite_wire::map! {"master_failback" => true}, true);
        assert_eq!((none.alive, none.failback), (None, None));
        let both = halite_wire::map! {"master_alive_interval" => 30, "master_failback" => true};
        let rule = rules(both.clone(), true);
        assert_eq!(
            (rule.alive, rule.failback),
            (Some(secs(30)), Some(secs(30)))
        );
        assert_eq!(rules(both, false).failback, None);
    }
}
