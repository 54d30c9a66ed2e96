//! The schedule: which jobs are due when (`salt/utils/schedule.py`).
//!
//! Without IO or a clock: the caller passes the time and gets the jobs that are due. Times are local, without a zone, as
//! operators write them.

mod date_parse;
mod spec;
mod when;

#[cfg(test)]
mod tests;

pub use spec::{ReturnJob, Spec, Trigger, returners, strptime};
pub use when::Moment;

use halite_target::python_str;
use halite_wire::{Map, Value};
use jiff::civil::DateTime;
use jiff::{SignedDuration, ToSpan};
use rand::Rng;

/// Seconds after which a missed run is skipped, for example because the host slept. Jobs with an interval still run once.
const MAX_LATE_SECS: i64 = 60;
/// Keys of the schedule that are not jobs but apply to all of them.
pub const GLOBAL_KEYS: &[&str] = &["enabled", "skip_function", "skip_during_range", "splay"];

/// The jobs and their next run times.
#[derive(Debug, Default)]
pub struct Schedule {
    entries: Vec<Entry>,
    enabled: bool,
    /// Whether jobs with an interval also run at the start, unless `run_on_start` says otherwise.
    eager: bool,
    /// The function that runs in place of a job held back by a range or an explicit time (`skip_function`).
    instead: Option<String>,
}

#[derive(Debug)]
struct Entry {
    spec: Spec,
    /// The job as configured, to detect changes.
    data: Map,
    /// The next due time, before splay.
    next: Option<DateTime>,
    /// The next run time, splay included.
    fire: Option<DateTime>,
    started: bool,
    /// The last run.
    last: Option<DateTime>,
    /// Why it was last skipped, and when.
    skipped: Option<(&'static str, DateTime)>,
    /// Additional run times; each is removed once reached.
    extra: Vec<DateTime>,
}

/// A run that is due.
#[derive(Clone, Debug)]
pub struct Run {
    /// The job.
    pub spec: Spec,
    /// When it was due, without `splay`: the same wherever the same schedule runs, unless `is_interval`.
    pub at: DateTime,
    /// Whether an interval has passed, which began when this schedule did, or when the job last ran.
    pub is_interval: bool,
}

/// The next and the last run of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// The next run, splay included.
    pub next: Option<DateTime>,
    /// The last run.
    pub last: Option<DateTime>,
    /// Why it was last skipped (Salt's `_skip_reason`), and when.
    pub skipped: Option<(&'static str, DateTime)>,
}

impl Schedule {
    /// Builds the schedule from the option or pillar key `schedule`; also returns an error for each job left out.
    pub fn new(option: &Map) -> (Schedule, Vec<String>) {
        let mut schedule = Schedule::default();
        let errors = schedule.update(option);
        (schedule, errors)
    }

    /// Whether jobs with an interval also run at the start, unless `run_on_start` says otherwise: Salt's default since 3008.
    pub fn eager(mut self, eager: bool) -> Schedule {
        self.eager = eager;
        self
    }

    /// Replaces the jobs; unchanged ones keep their times. Returns an error for each job left out.
    pub fn update(&mut self, option: &Map) -> Vec<String> {
        let mut errors = Vec::new();
        let mut before = std::mem::take(&mut self.entries);
        for (name, data) in option.iter() {
            if name.as_str().is_some_and(|n| GLOBAL_KEYS.contains(&n)) {
                continue;
            }
            let named = python_str(name);
            let mut left_out =
                |why: &str| errors.push(format!("schedule: {named}: {why}; the job is left out"));
            let (name, mut data) = match entry(name, data) {
                Ok((name, data)) => (name, data.clone()),
                Err(why) => {
                    left_out(why);
                    continue;
                }
            };
            for key in ["splay", "skip_during_range"] {
                if let Some(all) = option.get(key).filter(|v| !v.is_nil())
                    && !data.contains(key)
                {
                    data.set(key, all.clone());
                }
            }
            if let Some(at) = before
                .iter()
                .position(|e| e.spec.name == name && e.data == data)
            {
                self.entries.push(before.swap_remove(at));
                continue;
            }
            match Spec::parse(name, &data) {
                Ok(spec) => self.entries.push(Entry {
                    extra: spec.run_at.clone(),
                    spec,
                    data,
                    next: None,
                    fire: None,
                    started: false,
                    last: None,
                    skipped: None,
                }),
                Err(why) => left_out(&why),
            }
        }
        self.enabled = option.get("enabled").is_none_or(|v| v.truthy());
        let instead = option.str("skip_function").filter(|f| !f.is_empty());
        self.instead = instead.map(str::to_owned);
        errors
    }

    /// The jobs.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.entries.iter().map(|e| &e.spec)
    }

    /// The next and the last run of a job.
    pub fn status(&self, name: &str) -> Option<Status> {
        let entry = self.entries.iter().find(|e| e.spec.name == name)?;
        Some(Status {
            next: entry
                .fire
                .into_iter()
                .chain(entry.extra.iter().copied())
                .min(),
            last: entry.last,
            skipped: entry.skipped,
        })
    }

    /// Plans new jobs without running any; jobs that run at the start wait for [`Schedule::due`].
    pub fn plan(&mut self, now: DateTime) {
        for entry in self.entries.iter_mut().filter(|e| e.fire.is_none()) {
            entry.plan(now);
        }
    }

    /// When to call [`Schedule::due`] next; `None` if no job will run.
    pub fn next(&self) -> Option<DateTime> {
        if !self.enabled {
            return None;
        }
        self.entries.iter().filter_map(Entry::when).min()
    }

    /// The jobs that are due now; each is planned again. Call this at the time given by [`Schedule::next`], or about once a
    /// second.
    pub fn due(&mut self, now: DateTime) -> Vec<Spec> {
        self.runs(now).into_iter().map(|run| run.spec).collect()
    }

    /// The same, with what names each run.
    pub fn runs(&mut self, now: DateTime) -> Vec<Run> {
        if !self.enabled {
            return Vec::new();
        }
        let (eager, instead) = (self.eager, self.instead.as_deref());
        let entries = self.entries.iter_mut();
        let due = entries.filter_map(|entry| entry.due(now, eager, instead));
        due.collect()
    }

    /// Records that a due job was not run; `why` is one of Salt's skip reasons.
    pub fn skipped(&mut self, name: &str, why: &'static str, now: DateTime) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.spec.name == name) {
            entry.skipped = Some((why, now));
        }
    }
}

/// What to do with a job that is due.
enum Verdict {
    Runs,
    /// `skip_function` runs in place of the job.
    Instead,
    /// The job does not run; the reason in Salt's terms.
    Held(&'static str),
}

fn entry<'a>(name: &'a Value, data: &'a Value) -> Result<(&'a str, &'a Map), &'static str> {
    let name = name.as_str().ok_or("its name is not text; quote it")?;
    let data = data.as_map().ok_or(
        "it is not a map; write `function: test.arg` and a time such as `minutes: 5` below its name",
    )?;
    Ok((name, data))
}

impl Entry {
    fn when(&self) -> Option<DateTime> {
        if !self.spec.enabled {
            return None;
        }
        if !self.started {
            return Some(DateTime::MIN);
        }
        self.fire
            .into_iter()
            .chain(self.extra.iter().copied())
            .min()
    }

    fn due(&mut self, now: DateTime, eager: bool, instead: Option<&str>) -> Option<Run> {
        let interval = matches!(self.spec.trigger, Trigger::Every(_));
        if !self.spec.enabled {
            self.skipped = Some(("disabled", now));
            return None;
        }
        if !self.started {
            self.started = true;
            if self.fire.is_none() {
                self.plan(now);
            }
            // As in Salt, a run at the start ignores ranges.
            if self.spec.run_on_start.unwrap_or(eager && interval) {
                return Some(self.run(now, now, interval));
            }
        }
        let reached = self.extra.iter().filter(|at| **at <= now).max().copied();
        self.extra.retain(|at| *at > now);
        let explicit = reached.is_some();
        let planned = self.next.filter(|_| !interval);
        let fire = match self.fire.filter(|fire| *fire <= now) {
            Some(fire) => fire,
            None if explicit => now,
            None => return None,
        };
        let (named, is_interval) = match (self.fire.filter(|fire| *fire <= now), reached) {
            (None, Some(reached)) => (reached, false),
            _ => (planned.unwrap_or(fire), interval),
        };
        let late = now.duration_since(fire).as_secs() > MAX_LATE_SECS;
        if explicit && interval {
            // As in Salt, the interval starts again at this run.
            self.fire = None;
        }
        if interval || fire < now || !explicit {
            self.plan(now);
        }
        if !interval && late && !explicit {
            return None;
        }
        self.run_after_skipping(now);
        match self.verdict(now, fire, instead.is_some()) {
            Verdict::Runs => Some(self.run(now, named, is_interval)),
            Verdict::Instead => {
                let mut run = self.run(now, named, is_interval);
                run.spec.function = instead?.to_owned();
                Some(run)
            }
            Verdict::Held(why) => {
                self.skipped = Some((why, now));
                self.wait_for_range(now);
                None
            }
        }
    }

    fn run(&mut self, now: DateTime, at: DateTime, is_interval: bool) -> Run {
        self.last = Some(now);
        self.skipped = None;
        Run {
            spec: self.spec.clone(),
            at,
            is_interval,
        }
    }

    /// `run_after_skip_range`: adds a run at the end of the range.
    fn run_after_skipping(&mut self, now: DateTime) {
        let Some(skip) = self.spec.skip.as_ref().filter(|_| self.spec.run_after_skip) else {
            return;
        };
        let end = skip.end(now).map(|end| end.saturating_add(1.second()));
        if let Some(at) = end.filter(|at| *at > now && !self.extra.contains(at)) {
            self.extra.push(at);
        }
    }

    /// A job with an interval that was due outside its range runs as soon as the range begins, as in Salt.
    fn wait_for_range(&mut self, now: DateTime) {
        if let Some(range) = &self.spec.range
            && !range.holds(now)
            && matches!(self.spec.trigger, Trigger::Every(_))
        {
            self.fire = range.opens(now);
        }
    }

    /// Plans the next run after `now`.
    fn plan(&mut self, now: DateTime) {
        self.next = match &self.spec.trigger {
            Trigger::Every(seconds) => {
                let step = SignedDuration::from_secs(*seconds);
                let from = self.fire.unwrap_or(now).saturating_add(step);
                // Intervals missed while the host slept are made up for by a single run.
                Some(if from > now {
                    from
                } else {
                    now.saturating_add(step)
                })
            }
            Trigger::Once(at) => (*at > now).then_some(*at),
            Trigger::When(moments) => moments.iter().filter_map(|m| m.after(now)).min(),
            Trigger::Cron(cron) => when::next_cron(cron, now),
        };
        self.fire = self.next.map(|next| match self.spec.splay {
            Some((least, most)) => {
                let splay = rand::thread_rng().gen_range(least..=most);
                next.saturating_add(splay.seconds())
            }
            None => next,
        });
    }

    /// Whether a job that was due at `fire` runs now.
    fn verdict(&self, now: DateTime, fire: DateTime, replaced: bool) -> Verdict {
        let spec = &self.spec;
        let skips = |at: &DateTime| {
            let fits = |t: DateTime| (*at..=at.saturating_add(1.second())).contains(&t);
            fits(now) || fits(fire)
        };
        let outside = spec.range.as_ref().filter(|range| !range.holds(now));
        let held = match outside {
            Some(range) if range.is_inverted() => return Verdict::Held("in_skip_range"),
            Some(_) => Some("not_in_range"),
            None if spec.skip.as_ref().is_some_and(|range| range.holds(now)) => {
                Some("in_skip_range")
            }
            None if spec.skip_at.iter().any(skips) => Some("skip_explicit"),
            None => None,
        };
        if let Some(why) = held.filter(|_| !replaced) {
            return Verdict::Held(why);
        }
        // A date that does not exist this year, such as 29 February, blocks the job.
        let until = spec.until.map(|m| m.on(now));
        if until.is_some_and(|at| at.is_none_or(|at| now >= at)) {
            return Verdict::Held("until_passed");
        }
        let after = spec.after.map(|m| m.on(now));
        if after.is_some_and(|at| at.is_none_or(|at| now <= at)) {
            return Verdict::Held("after_not_passed");
        }
        match held {
            Some(_) => Verdict::Instead,
            None => Verdict::Runs,
        }
    }
}
