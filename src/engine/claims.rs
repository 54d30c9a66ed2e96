//! In a cluster: what is due is asked for at the role `cluster`, and runs if that has claimed it for this master.
//!
//! Masters that do not lead hold what is due for a minute: one that leads next runs what the one before did not begin.

use halite_config::MasterConfig;
use halite_master::score;
use halite_schedule::{Run, Spec, Trigger};
use halite_sys::exit::ExitError;
use halite_sys::scoreboard::Scoreboard;
use halite_transport::sockets::{Context, Push, PushOptions};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::time::{Duration, Instant};

/// Seconds after which what was due is skipped.
const HELD: u64 = 60;
/// How long an answer is waited for before it is asked for again.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most questions at a time: fewer than the answers that the role `cluster` shows.
const MOST: usize = 30;
/// Most runs that are held.
const MOST_HELD: usize = 10_000;

/// A run that is due.
struct Waiting {
    spec: Spec,
    /// When it was due, in Unix seconds.
    at: u64,
    /// The seconds of the interval that has passed; 0 if that is not why it is due.
    interval: u64,
    /// Names it in questions and answers.
    ticket: u64,
    asked: Option<Instant>,
}

/// What is due, and not claimed yet.
pub(super) struct Claims {
    board: Scoreboard,
    to_cluster: Push,
    waiting: Vec<Waiting>,
}

impl Claims {
    /// # Errors
    /// The scoreboard or a socket cannot be opened.
    pub fn new(config: &MasterConfig) -> Result<Claims, ExitError> {
        let options = PushOptions {
            reconnect: Some((Duration::from_millis(20), Duration::from_millis(200))),
            send_timeout: Some(Duration::ZERO),
        };
        Ok(Claims {
            board: Scoreboard::inherited()?.0,
            to_cluster: Push::connect(&Context::new(), &config.cluster_pull(), options)?,
            waiting: Vec::new(),
        })
    }

    /// Adds what is due; returns what may begin, at `now` in Unix seconds.
    pub fn next(&mut self, due: impl Iterator<Item = Run>, now: u64) -> Vec<Spec> {
        self.waiting.extend(due.map(|run| Waiting {
            at: unix(run.at).unwrap_or(now),
            interval: match run.spec.trigger {
                Trigger::Every(seconds) if run.is_interval => u64::try_from(seconds).unwrap_or(0),
                _ => 0,
            },
            spec: run.spec,
            ticket: rand::random(),
            asked: None,
        }));
        let too_many = self.waiting.len().saturating_sub(MOST_HELD);
        self.waiting.drain(..too_many);
        let mut granted = Vec::new();
        let board = &self.board;
        self.waiting.retain(|one| {
            let name = &one.spec.name;
            match one.asked.and_then(|_| score::claim(board, one.ticket)) {
                Some(true) => granted.push(one.spec.clone()),
                Some(false) => log::debug!("the scheduled job {name} has begun at another master"),
                // What is due later is of a clock that was set back.
                None if now.abs_diff(one.at) > HELD => {
                    if one.asked.is_some() {
                        log::warn!(
                            "the scheduled job {name} was skipped: the cluster did not take that this master runs it"
                        );
                    }
                }
                None => return true,
            }
            false
        });
        if score::cluster(board, now).is_leader {
            self.ask();
        }
        granted
    }

    fn ask(&mut self) {
        for one in self.waiting.iter_mut().take(MOST) {
            if one.asked.is_some_and(|at| at.elapsed() < PATIENCE) {
                continue;
            }
            let numbers = [one.ticket, one.at, one.interval].map(u64::to_be_bytes);
            let [ticket, at, interval] = &numbers;
            let parts: [&[u8]; 6] = [
                b"",
                b"claim",
                ticket,
                at,
                interval,
                one.spec.name.as_bytes(),
            ];
            // If that role is being started again, it is asked again.
            if self.to_cluster.send(&parts).is_ok() {
                one.asked = Some(Instant::now());
            }
        }
    }
}

/// Unix seconds of a local time; of one that is there twice when clocks go back, the first.
fn unix(at: DateTime) -> Option<u64> {
    let zoned = at.to_zoned(TimeZone::system()).ok()?;
    u64::try_from(zoned.timestamp().as_second()).ok()
}
