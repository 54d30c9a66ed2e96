//! The schedule: which jobs are due when (`salt/utils/schedule.py`).
//!
//! Pure: time comes in, jobs come out. Times are those of the host's clock without a zone, as
//! administrators write them.

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

/// A moment that passed longer ago than this (the host slept, say) is not made up for, unless
/// it is an interval.
const LATE: i64 = 60;
/// Keys that are no jobs but concern all.
pub const GLOBAL: &[&str] = &["enabled", "skip_function", "skip_during_range", "splay"];

/// Jobs with their next times.
#[derive(Debug, Default)]
pub struct Schedule {
    entries: Vec<Entry>,
    enabled: bool,
    /// Whether an interval begins with a run unless `run_on_start` says otherwise.
    eager: bool,
    /// What runs in place of a job that a range or an explicit time holds back (`skip_function`).
    instead: Option<String>,
}

#[derive(Debug)]
struct Entry {
    spec: Spec,
    /// As it is written, to see whether it has changed.
    data: Map,
    /// When it is due, before splay.
    next: Option<DateTime>,
    /// When it runs, splay added.
    fire: Option<DateTime>,
    started: bool,
    /// When it ran.
    last: Option<DateTime>,
    /// Why it did not run when it was due, and when that was.
    skipped: Option<(&'static str, DateTime)>,
    /// Times at which it runs besides; each is taken out when it has come.
    extra: Vec<DateTime>,
}

/// What a job is about to do and has done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// When it runs next, splay added.
    pub next: Option<DateTime>,
    /// When it ran.
    pub last: Option<DateTime>,
    /// Why it did not run when it was due last (Salt's `_skip_reason`), and when that was.
    pub skipped: Option<(&'static str, DateTime)>,
}

impl Schedule {
    /// From the option or pillar key `schedule`, with what is wrong with jobs that are left out.
    pub fn new(option: &Map) -> (Schedule, Vec<String>) {
        let mut schedule = Schedule::default();
        let errors = schedule.update(option);
        (schedule, errors)
    }

    /// Intervals begin with a run unless `run_on_start` says otherwise, as in Salt from 3008 on.
    pub fn eager(mut self, eager: bool) -> Schedule {
        self.eager = eager;
        self
    }

    /// Takes over another set of jobs; those that are as before keep their times.
    pub fn update(&mut self, option: &Map) -> Vec<String> {
        let mut errors = Vec::new();
        let mut before = std::mem::take(&mut self.entries);
        for (name, data) in option.iter() {
            if name.as_str().is_some_and(|n| GLOBAL.contains(&n)) {
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

    /// What one job is about to do.
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

    /// Plans jobs that are new without running any; what runs at the start waits for [`Schedule::due`].
    pub fn plan(&mut self, now: DateTime) {
        for entry in self.entries.iter_mut().filter(|e| e.fire.is_none()) {
            entry.plan(now);
        }
    }

    /// When [`Schedule::due`] has something to do next; `None` is never.
    pub fn next(&self) -> Option<DateTime> {
        if !self.enabled {
            return None;
        }
        self.entries.iter().filter_map(Entry::when).min()
    }

    /// Jobs that are to run now; each is planned anew. To be asked when [`Schedule::next`] says, or about
    /// once a second.
    pub fn due(&mut self, now: DateTime) -> Vec<Spec> {
        if !self.enabled {
            return Vec::new();
        }
        let (eager, instead) = (self.eager, self.instead.as_deref());
        let entries = self.entries.iter_mut();
        let due = entries.filter_map(|entry| entry.due(now, eager, instead));
        due.collect()
    }

    /// Notes that a job that was due did not run all the same, in Salt's words.
    pub fn skipped(&mut self, name: &str, why: &'static str, now: DateTime) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.spec.name == name) {
            entry.skipped = Some((why, now));
        }
    }
}

/// What becomes of a job that is due.
enum Verdict {
    Runs,
    /// `skip_function` runs in its place.
    Instead,
    /// It does not run: why, in Salt's words.
    Held(&'static str),
}

fn entry<'a>(name: &'a Value, data: &'a Value) -> Result<(&'a str, &'a Map), &'static str> {
    let name = name.as_str().ok_or("its name is no text; quote it")?;
    let data = data.as_map().ok_or(
        "it is no map; write `function: test.arg` and a time such as `minutes: 5` below its name",
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

    fn due(&mut self, now: DateTime, eager: bool, instead: Option<&str>) -> Option<Spec> {
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
            // As in Salt, what runs at the start asks for no range.
            if self.spec.run_on_start.unwrap_or(eager && interval) {
                return self.runs(now);
            }
        }
        let before = self.extra.len();
        self.extra.retain(|at| *at > now);
        let explicit = self.extra.len() < before;
        let fire = match self.fire.filter(|fire| *fire <= now) {
            Some(fire) => fire,
            None if explicit => now,
            None => return None,
        };
        let late = now.duration_since(fire).as_secs() > LATE;
        if explicit && interval {
            // The interval counts from here, as in Salt.
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
            Verdict::Runs => self.runs(now),
            Verdict::Instead => {
                let mut spec = self.runs(now)?;
                spec.function = instead?.to_owned();
                Some(spec)
            }
            Verdict::Held(why) => {
                self.skipped = Some((why, now));
                self.wait_for_range(now);
                None
            }
        }
    }

    fn runs(&mut self, now: DateTime) -> Option<Spec> {
        self.last = Some(now);
        self.skipped = None;
        Some(self.spec.clone())
    }

    /// `run_after_skip_range`: there is another run when the range is over.
    fn run_after_skipping(&mut self, now: DateTime) {
        let Some(skip) = self.spec.skip.as_ref().filter(|_| self.spec.run_after_skip) else {
            return;
        };
        let end = skip.end(now).map(|end| end.saturating_add(1.second()));
        if let Some(at) = end.filter(|at| *at > now && !self.extra.contains(at)) {
            self.extra.push(at);
        }
    }

    /// An interval that fell due outside its range stays due until the range begins, as in Salt.
    fn wait_for_range(&mut self, now: DateTime) {
        if let Some(range) = &self.spec.range
            && !range.holds(now)
            && matches!(self.spec.trigger, Trigger::Every(_))
        {
            self.fire = range.opens(now);
        }
    }

    /// Sets the next time after `now`.
    fn plan(&mut self, now: DateTime) {
        self.next = match &self.spec.trigger {
            Trigger::Every(seconds) => {
                let step = SignedDuration::from_secs(*seconds);
                let from = self.fire.unwrap_or(now).saturating_add(step);
                // What was missed while the host slept is run once, not many times.
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

    /// Whether it runs now, being due since `fire`.
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
        // A time that there is not this year, 29 February say, lets nothing run.
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
