//! In a cluster: what is due is asked for at the role `cluster`, and runs if that has claimed it for this master.
//!
//! Masters that do not lead hold what is due for a minute: one that leads next runs what the one before did not begin. Of a job with
//! an interval, only the last run is held; it counts for the time at which it begins then, so that the interval passes before the
//! next one.

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
/// Pause before a run that was refused is asked for again.
const AGAIN: Duration = Duration::from_secs(1);
/// Seconds after which a run with an interval is late.
const LATE: u64 = 2;
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
    /// When it may be asked for again, after it was refused since its interval had not passed.
    again: Option<Instant>,
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
        due.for_each(|run| hold(&mut self.waiting, run, now));
        let too_many = self.waiting.len().saturating_sub(MOST_HELD);
        self.waiting.drain(..too_many);
        let mut granted = Vec::new();
        let board = &self.board;
        self.waiting.retain_mut(|one| {
            let name = &one.spec.name;
            match one.asked.and_then(|_| score::claim(board, one.ticket)) {
                Some(true) => granted.push(one.spec.clone()),
                // Since the last run, perhaps at another master, the interval has not passed.
                Some(false) if one.interval > 0 => {
                    (one.ticket, one.asked) = (rand::random(), None);
                    one.again = Some(Instant::now() + AGAIN);
                    return true;
                }
                Some(false) => log::debug!("the scheduled job {name} has begun at another master"),
                // Of an interval, the next one takes its place.
                None if one.interval > 0 => return true,
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
            self.ask(now);
        }
        granted
    }

    fn ask(&mut self, now: u64) {
        let mut open = 0;
        for one in &mut self.waiting {
            if open >= MOST {
                return;
            }
            if one.again.is_some_and(|at| Instant::now() < at) {
                continue;
            }
            open += 1;
            if one.asked.is_some_and(|at| at.elapsed() < PATIENCE) {
                continue;
            }
            let is_late = now.saturating_sub(one.at) > LATE;
            if one.asked.is_none() && one.interval > 0 && is_late {
                one.at = now;
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

/// Adds a run; of those of an interval that are not being asked for, only the last one is held.
fn hold(waiting: &mut Vec<Waiting>, run: Run, now: u64) {
    let interval = match run.spec.trigger {
        Trigger::Every(seconds) if run.is_interval => u64::try_from(seconds).unwrap_or(0),
        _ => 0,
    };
    if interval > 0 {
        let is_earlier = |one: &Waiting| {
            one.interval > 0 && one.asked.is_none() && one.spec.name == run.spec.name
        };
        waiting.retain(|one| !is_earlier(one));
    }
    waiting.push(Waiting {
        at: unix(run.at).unwrap_or(now),
        interval,
        spec: run.spec,
        ticket: rand::random(),
        asked: None,
        again: None,
    });
}

/// Unix seconds of a local time; of one that is there twice when clocks go back, the first.
fn unix(at: DateTime) -> Option<u64> {
    let zoned = at.to_zoned(TimeZone::system()).ok()?;
    u64::try_from(zoned.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_schedule::Schedule;
    use jiff::ToSpan;

    #[test]
    fn of_an_interval_one_run_is_held() {
        let text = "a: {function: f, seconds: 10}\nb: {function: f, cron: '* * * * *'}";
        let option = halite_wire::yaml::parse(text).unwrap().into_map().unwrap();
        let (mut schedule, _) = Schedule::new(&option);
        let start = jiff::civil::date(2026, 11, 27).at(12, 0, 5, 0);
        let mut waiting = Vec::new();
        for second in 0..150 {
            let now = start.saturating_add(second.seconds());
            for run in schedule.runs(now) {
                hold(&mut waiting, run, 0);
            }
        }
        let of = |name: &str| -> Vec<u64> {
            let found = waiting.iter().filter(|one| one.spec.name == name);
            found.map(|one| one.at).collect()
        };
        assert_eq!((of("a").len(), of("b").len()), (1, 2));
        assert_eq!(
            of("a")[0],
            unix(start.saturating_add(140.seconds())).unwrap()
        );
        assert_eq!(of("b")[1] - of("b")[0], 60);
    }
}
