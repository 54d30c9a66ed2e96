//! Endless attempts to connect to a list of servers: which is next, what to log, and how long to pause between attempts.

use rand::Rng;
use std::time::Duration;

/// The pause after the first round of failures; it doubles with each round.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// How a connection ended.
pub enum Ended {
    /// On request.
    Closed,
    /// It was never established.
    Refused(String),
    /// It was established and then lost.
    Lost(String),
    /// It was established, and another server is to be tried instead.
    Left(String),
}

/// The attempts so far.
#[derive(Default)]
pub struct Attempts {
    turn: usize,
    failures: usize,
    told: String,
}

impl Attempts {
    /// The server to try now.
    pub fn server<'s>(&self, servers: &'s [String]) -> &'s str {
        &servers[self.turn % servers.len()]
    }

    /// Records that the connection to a server ended. Returns the message to log, unless it is the same as last time.
    pub fn ended(&mut self, server: &str, end: Ended) -> Option<String> {
        let words = match end {
            Ended::Closed => return None,
            Ended::Refused(why) => {
                self.failures += 1;
                self.turn += 1;
                format!("{server} cannot be used: {why}")
            }
            Ended::Lost(why) => {
                self.failures = 0;
                self.told.clear();
                format!("the connection to {server} is lost: {why}")
            }
            Ended::Left(why) => {
                self.failures = 0;
                self.turn += 1;
                self.told.clear();
                format!("the connection to {server} is left: {why}")
            }
        };
        let new = words != self.told;
        self.told.clone_from(&words);
        new.then_some(words)
    }

    /// How long to pause before the next attempt, given the number of servers.
    pub fn pause(&self, servers: usize) -> Duration {
        pause(self.failures, servers)
    }
}

/// The pause after that many failures in a row: short until every server has been tried, and randomized, so that clients
/// that lost a server at once do not return at once.
fn pause(failures: usize, servers: usize) -> Duration {
    let round = failures / servers.max(1);
    let full = match failures % servers.max(1) {
        0 => FIRST_PAUSE.saturating_mul(1 << round.min(8)),
        _ => FIRST_PAUSE / 4,
    };
    full.min(LONGEST_PAUSE)
        .mul_f64(rand::thread_rng().gen_range(0.5..1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_left_is_not_the_next_one() {
        let servers = ["a".to_owned(), "b".to_owned()];
        let mut attempts = Attempts::default();
        for (end, next) in [
            (Ended::Lost("x".to_owned()), "a"),
            (Ended::Left("x".to_owned()), "b"),
            (Ended::Refused("x".to_owned()), "a"),
            (Ended::Closed, "a"),
        ] {
            attempts.ended("a", end);
            assert_eq!(attempts.server(&servers), next);
        }
    }

    #[test]
    fn pauses_grow_with_rounds_and_end_somewhere() {
        let ms = |failures, servers| pause(failures, servers).as_millis();
        for _ in 0..100 {
            assert!((125..=250).contains(&ms(0, 2)));
            assert!((31..=63).contains(&ms(1, 2)));
            assert!((250..=500).contains(&ms(2, 2)));
            assert!((5000..=10_000).contains(&ms(usize::MAX, 1)));
        }
    }
}
