//! The schedule: which jobs are due when (`salt/utils/schedule.py`).
//!
//! Pure: time comes in, jobs come out. Times are those of the host's clock without a zone, as
//! administrators write them.

mod moment;
mod spec;
mod words;

#[cfg(test)]
mod tests;

pub use moment::Moment;
pub use spec::{ReturnJob, Spec, Trigger};

use crate::wire::Map;
use jiff::civil::DateTime;
use jiff::{SignedDuration, ToSpan};
use rand::Rng;

/// A moment that passed longer ago than this (the host slept, say) is not made up for, unless
/// it is an interval.
const LATE: i64 = 60;

/// Jobs with their next times.
#[derive(Debug, Default)]
pub struct Schedule {
    entries: Vec<Entry>,
    enabled: bool,
    /// Whether an interval begins with a run unless `run_on_start` says otherwise.
    eager: bool,
}

#[derive(Debug)]
struct Entry {
    spec: Spec,
    /// When it is due, before splay.
    next: Option<DateTime>,
    /// When it runs, splay added.
    fire: Option<DateTime>,
    started: bool,
}

impl Schedule {
    /// From the option or pillar key `schedule`, with what is wrong with jobs that are left out.
    pub fn new(option: &Map) -> (Schedule, Vec<String>) {
        let mut errors = Vec::new();
        let mut entries = Vec::new();
        for (name, data) in option.iter() {
            let Some(name) = name.as_str() else {
                errors
                    .push("a scheduled job is left out: its name is no text; quote it".to_owned());
                continue;
            };
            if name == "enabled" {
                continue;
            }
            match data.as_map().map(|data| Spec::parse(name, data)) {
                Some(Ok(spec)) => entries.push(Entry {
                    spec,
                    next: None,
                    fire: None,
                    started: false,
                }),
                Some(Err(why)) => {
                    errors.push(format!("the scheduled job {name} is left out: {why}"))
                }
                None => errors.push(format!(
                    "the scheduled job {name} is left out: it is no map"
                )),
            }
        }
        let enabled = option.get("enabled").is_none_or(|v| v.truthy());
        let schedule = Schedule {
            entries,
            enabled,
            eager: false,
        };
        (schedule, errors)
    }

    /// Intervals begin with a run unless `run_on_start` says otherwise, as in Salt from 3008 on.
    pub fn eager(mut self, eager: bool) -> Schedule {
        self.eager = eager;
        self
    }

    /// The jobs.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.entries.iter().map(|e| &e.spec)
    }

    /// Jobs that are to run now; each is planned anew. To be asked about once a second.
    pub fn due(&mut self, now: DateTime) -> Vec<Spec> {
        if !self.enabled {
            return Vec::new();
        }
        let eager = self.eager;
        let entries = self.entries.iter_mut();
        let due = entries.filter_map(|entry| entry.due(now, eager));
        due.collect()
    }
}

impl Entry {
    fn due(&mut self, now: DateTime, eager: bool) -> Option<Spec> {
        let interval = matches!(self.spec.trigger, Trigger::Every(_));
        if !self.started {
            self.started = true;
            self.plan(now);
            // Ranges do not hold for this run.
            if self.spec.run_on_start.unwrap_or(eager && interval) && self.spec.enabled {
                return Some(self.spec.clone());
            }
        }
        let fire = self.fire?;
        if fire > now {
            return None;
        }
        let late = now.duration_since(fire).as_secs() > LATE;
        self.plan(now);
        ((interval || !late) && self.allowed(now)).then(|| self.spec.clone())
    }

    /// Sets the next time after `now`.
    fn plan(&mut self, now: DateTime) {
        self.next = match &self.spec.trigger {
            Trigger::Every(seconds) => {
                let last = self.next.filter(|_| self.fire.is_some());
                let step = SignedDuration::from_secs(*seconds);
                let from = last.unwrap_or(now).saturating_add(step);
                // What was missed while the host slept is run once, not many times.
                Some(if from > now {
                    from
                } else {
                    now.saturating_add(step)
                })
            }
            Trigger::Once(at) => (*at > now).then_some(*at),
            Trigger::When(moments) => moments.iter().filter_map(|m| m.after(now)).min(),
            Trigger::Cron(cron) => moment::next_cron(cron, now),
        };
        self.fire = self.next.map(|next| match self.spec.splay {
            Some((least, most)) => {
                let splay = rand::thread_rng().gen_range(least..=most);
                next.saturating_add(splay.seconds())
            }
            None => next,
        });
    }

    fn allowed(&self, now: DateTime) -> bool {
        let spec = &self.spec;
        spec.enabled
            && spec
                .after
                .is_none_or(|m| m.on(now).is_some_and(|after| now > after))
            && spec
                .until
                .is_none_or(|m| m.on(now).is_some_and(|until| now < until))
            && spec.range.as_ref().is_none_or(|range| range.holds(now))
            && spec.skip.as_ref().is_none_or(|range| !range.holds(now))
    }
}
