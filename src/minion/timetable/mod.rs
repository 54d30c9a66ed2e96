//! The minion's schedule: the scheduled jobs from the configuration, the pillar and the daemon itself, and how
//! they are changed and saved (`salt/utils/schedule.py Schedule`).
//!
//! Time is passed in; the only IO is the file `_schedule.conf`. When jobs are due is decided by
//! [`schedule`](halite_schedule).

use halite_config::{MinionConfig, SaltSeries};
use halite_schedule::{GLOBAL_KEYS, Schedule, Spec};
use halite_sys::daemon::write_atomic;
use halite_wire::{Map, Value, yaml};
use jiff::civil::DateTime;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the job that updates the mine.
pub const MINE: &str = "__mine_interval";
/// Name of the job for `grains_refresh_every`.
pub const GRAINS: &str = "__update_grains";

/// Shorter waits are not halved.
const LOOK: Duration = Duration::from_secs(60);

/// Format of displayed times.
const TIME: &str = "%Y-%m-%dT%H:%M:%S";

/// Result of a request to change or show the schedule.
#[derive(Debug, Default)]
pub struct Managed {
    /// Events to fire in response: tag and data.
    pub events: Vec<(String, Map)>,
    /// A job to run at once.
    pub run: Option<Spec>,
}

/// The schedule of a minion.
#[derive(Debug)]
pub struct Timetable {
    /// From the configuration, and what was added since.
    own: Map,
    /// The daemon's own jobs.
    inner: Map,
    pillar: Map,
    whens: Map,
    schedule: Schedule,
    file: PathBuf,
    active: bool,
}

impl Timetable {
    /// The schedule from the configuration. Nothing is due before [`Timetable::start`].
    pub fn new(config: &MinionConfig) -> Timetable {
        let mut inner = Map::new();
        if config.mine_enabled && config.mine_interval > 0 {
            inner.set(
                MINE,
                halite_wire::map! {
                    "function" => "mine.update", "minutes" => config.mine_interval, "jid_include" => true,
                    "maxrunning" => 2, "run_on_start" => true, "return_job" => config.mine_return_job,
                    "enabled" => true,
                },
            );
        }
        if config.grains_refresh_every != 0 {
            let minutes = config.grains_refresh_every.unsigned_abs();
            inner.set(
                GRAINS,
                halite_wire::map! {
                    "function" => "event.fire", "minutes" => minutes, "run_on_start" => false,
                    "args" => vec![Value::Map(Map::new()), "grains_refresh".into()],
                },
            );
        }
        let dir = config.conf_file.parent().unwrap_or(Path::new("/"));
        let include = Path::new(&config.default_include).parent();
        let mut timetable = Timetable {
            own: config.schedule.clone(),
            inner,
            pillar: Map::new(),
            whens: Map::new(),
            schedule: Schedule::default().eager(config.salt_series == SaltSeries::S3008),
            file: dir
                .join(include.unwrap_or(Path::new("")))
                .join("_schedule.conf"),
            active: false,
        };
        timetable.rebuild();
        timetable
    }

    /// From now on jobs may be due.
    pub fn start(&mut self) {
        self.active = true;
    }

    /// Whether it was started.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Sets `schedule` and `whens` from the pillar, and `whens` from the grains.
    pub fn set_sources(&mut self, pillar: &Map, grains: &Map) {
        let map = |from: &Map, key: &str| from.get(key).and_then(Value::as_map).cloned();
        self.pillar = map(pillar, "schedule").unwrap_or_default();
        self.whens = map(grains, "whens").unwrap_or_default();
        for (key, value) in map(pillar, "whens").unwrap_or_default().0 {
            self.whens.set(key.as_str().unwrap_or_default(), value);
        }
        self.rebuild();
    }

    /// The pillar's jobs, overridden by the minion's own (`_get_schedule`).
    fn all(&self) -> Map {
        let mut all = self.pillar.clone();
        for (key, value) in self.inner.iter().chain(self.own.iter()) {
            all.set(key.as_str().unwrap_or_default(), value.clone());
        }
        all
    }

    fn rebuild(&mut self) {
        let mut all = self.all();
        for (name, data) in &mut all.0 {
            let global = name.as_str().is_some_and(|n| GLOBAL_KEYS.contains(&n));
            let Value::Map(data) = data else {
                continue;
            };
            if !global {
                self.complete(data);
            }
        }
        for error in self.schedule.update(&all) {
            log::error!("{error}");
        }
        self.schedule.plan(now());
    }

    fn complete(&self, data: &mut Map) {
        let named = |value: &Value| {
            let named = value.as_str().and_then(|name| self.whens.get(name));
            named.unwrap_or(value).clone()
        };
        match data.get("when") {
            Some(Value::Array(list)) => {
                let list: Vec<Value> = list.iter().map(named).collect();
                data.set("when", list);
            }
            Some(one) => {
                let one = named(one);
                data.set("when", one);
            }
            None => {}
        }
    }

    /// Time until the next job is due; `None` if no job is planned.
    pub fn wait(&self, now: DateTime) -> Option<Duration> {
        let next = self.schedule.next().filter(|_| self.active)?;
        if next <= now {
            return Some(Duration::ZERO);
        }
        // The host's clock may be set, or the host may be suspended, which the clock for waits does not notice:
        // so check again halfway.
        let wait = Duration::try_from(now.duration_until(next)).ok()?;
        Some(match wait > LOOK {
            true => (wait / 2).clamp(LOOK, LOOK * 10),
            false => wait,
        })
    }

    /// The jobs to run now.
    pub fn due(&mut self, now: DateTime) -> Vec<Spec> {
        if !self.active {
            return Vec::new();
        }
        self.schedule.due(now)
    }

    /// Records that a due job was not started.
    pub fn record_skipped(&mut self, name: &str, why: &'static str) {
        self.schedule.skipped(name, why, now());
    }

    /// Handles a `manage_schedule` event (`salt/minion.py manage_schedule`).
    pub fn manage(&mut self, data: &Map) -> Managed {
        let mut done = Managed::default();
        let name = data.str("name").unwrap_or_default().to_owned();
        let persist = data.get("persist").is_some_and(Value::truthy);
        let func = data.str("func").unwrap_or_default();
        let complete = match func {
            "add" => {
                self.add(data.get("schedule"));
                "add"
            }
            "delete" => {
                self.delete(&name);
                "delete"
            }
            "modify" => {
                self.modify(&name, data.get("schedule"));
                "delete"
            }
            "enable_job" => {
                self.set_enabled(&name, true);
                "enabled_job"
            }
            "disable_job" => {
                self.set_enabled(&name, false);
                "disabled_job"
            }
            "enable" => {
                self.own.set("enabled", true);
                "enabled"
            }
            "disable" => {
                self.own.set("enabled", false);
                "disabled"
            }
            "postpone_job" => {
                self.explicit(&name, data, true);
                "postpone_job"
            }
            "skip_job" => {
                self.explicit(&name, data, false);
                "skip_job"
            }
            "reload" => {
                self.reload(data.get("schedule"));
                return done;
            }
            "run_job" => {
                let spec = self.schedule.specs().find(|s| s.name == name).cloned();
                if spec.is_none() {
                    log::error!("unknown scheduled job {name}");
                }
                done.run = spec;
                return done;
            }
            other => {
                self.show(other, data, &name, &mut done);
                return done;
            }
        };
        self.rebuild();
        if persist {
            self.persist();
        }
        let tag = format!("/salt/minion/minion_schedule_{complete}_complete");
        let answer = halite_wire::map! {"complete" => true, "schedule" => self.shown(self.all())};
        done.events.push((tag, answer));
        done
    }

    fn show(&mut self, func: &str, data: &Map, name: &str, done: &mut Managed) {
        let (what, answer) = match func {
            "list" => {
                let which = match data.str("where") {
                    Some("pillar") => self.pillar.clone(),
                    Some("opts") => {
                        let mut own = self.inner.clone();
                        own.0.extend(self.own.0.iter().cloned());
                        own
                    }
                    _ => self.all(),
                };
                let which = self.shown(which);
                (
                    "list_complete",
                    halite_wire::map! {"complete" => true, "schedule" => which},
                )
            }
            "save_schedule" => {
                self.persist();
                ("saved", halite_wire::map! {"complete" => true})
            }
            "get_next_fire_time" => {
                let next = self.schedule.status(name).and_then(|s| s.next);
                let next = next.map(|at| at.strftime(TIME).to_string());
                let answer = halite_wire::map! {"complete" => true, "next_fire_time" => next};
                ("next_fire_time_complete", answer)
            }
            "job_status" => {
                let status = self.job_status(name);
                (
                    "job_status_complete",
                    halite_wire::map! {"complete" => true, "data" => status},
                )
            }
            other => {
                log::error!("Function \"{other}\" is unavailable in salt.utils.scheduler");
                return;
            }
        };
        done.events
            .push((format!("/salt/minion/minion_schedule_{what}"), answer));
    }

    /// The jobs as they look in stock by the time they are shown.
    fn shown(&self, mut schedule: Map) -> Map {
        for (name, data) in &mut schedule.0 {
            let name = name.as_str().unwrap_or_default();
            let Value::Map(data) = data else {
                continue;
            };
            if GLOBAL_KEYS.contains(&name) {
                continue;
            }
            if !data.contains("name") {
                data.set("name", name);
            }
            let ran = self.schedule.status(name).is_some_and(|s| s.last.is_some());
            for (key, value) in [
                ("jid_include", Value::Bool(true)),
                ("maxrunning", Value::Int(1)),
            ] {
                if ran && !data.contains(key) {
                    data.set(key, value);
                }
            }
        }
        schedule
    }

    fn job_status(&self, name: &str) -> Map {
        let mut data = match self.shown(self.all()).get(name) {
            Some(Value::Map(data)) => data.clone(),
            _ => return Map::new(),
        };
        let status = self.schedule.status(name).unwrap_or_default();
        let text = |at: Option<DateTime>| at.map(|at| at.strftime(TIME).to_string());
        data.set("_next_fire_time", text(status.next));
        data.set("_splay", Value::Nil);
        if status.last.is_some() {
            data.set("_last_run", text(status.last));
        }
        if let Some((why, at)) = status.skipped {
            data.set("_skip_reason", why);
            data.set("_skipped", true);
            data.set("_skipped_time", text(Some(at)));
        }
        data
    }

    fn in_pillar(&self, name: &str) -> bool {
        let found = !self.own.contains(name) && self.pillar.contains(name);
        if found {
            log::warn!("the scheduled job {name} is in the pillar and cannot be changed here");
        }
        found
    }

    fn add(&mut self, schedule: Option<&Value>) {
        let Some(schedule) = schedule.and_then(Value::as_map) else {
            return log::error!("Scheduled jobs have to be of type dict.");
        };
        for (name, data) in schedule.iter() {
            let (Some(name), Some(data)) = (name.as_str(), data.as_map()) else {
                continue;
            };
            if self.pillar.contains(name) {
                self.in_pillar(name);
                continue;
            }
            let mut data = data.clone();
            if !data.contains("enabled") {
                data.set("enabled", true);
            }
            log::info!("scheduled job {name} added");
            self.own.set(name, data);
        }
    }

    fn delete(&mut self, name: &str) {
        if !self.in_pillar(name) {
            self.own.remove(name);
        }
    }

    fn modify(&mut self, name: &str, schedule: Option<&Value>) {
        if let Some(data) = schedule.and_then(Value::as_map)
            && !self.in_pillar(name)
        {
            self.own.set(name, data.clone());
        }
    }

    fn set_enabled(&mut self, name: &str, enabled: bool) {
        if self.in_pillar(name) {
            return;
        }
        if let Some(Value::Map(data)) = self.own.get_mut(name) {
            data.set("enabled", enabled);
        }
    }

    fn explicit(&mut self, name: &str, order: &Map, runs: bool) {
        if self.in_pillar(name) {
            return;
        }
        let Some(Value::Map(data)) = self.own.get_mut(name) else {
            return;
        };
        let form = order.str("time_fmt").unwrap_or(TIME);
        let mut add = |list: &str, time: &str| {
            let entry = halite_wire::map! {"time" => order.str(time).unwrap_or_default(), "time_fmt" => form};
            let mut all = match data.remove(list) {
                Some(Value::Array(all)) => all,
                _ => Vec::new(),
            };
            all.push(entry.into());
            data.set(list, all);
        };
        add("skip_explicit", "time");
        if runs {
            add("run_explicit", "new_time");
        }
    }

    fn reload(&mut self, schedule: Option<&Value>) {
        let Some(mut map) = schedule.and_then(Value::as_map) else {
            return;
        };
        if let Some(Value::Map(inner)) = map.get("schedule") {
            map = inner;
        }
        for (name, data) in map.iter() {
            self.own
                .set(name.as_str().unwrap_or_default(), data.clone());
        }
        // All jobs are planned again.
        self.schedule = Schedule::default();
        self.rebuild();
    }

    /// Saves everything that is not from the pillar in `_schedule.conf` next to the configuration.
    fn persist(&self) {
        let hidden = |map: &Map| -> Map {
            let shown = |k: &Value| !k.as_str().is_some_and(|k| k.starts_with('_'));
            map.iter().filter(|(k, _)| shown(k)).cloned().collect()
        };
        let mut kept = hidden(&self.own);
        for (_, data) in &mut kept.0 {
            if let Value::Map(data) = data {
                *data = hidden(data);
            }
        }
        let text = yaml::emit(&halite_wire::map! {"schedule" => kept}.into(), true);
        let dir = self.file.parent().unwrap_or(Path::new("/"));
        let written = std::fs::create_dir_all(dir)
            .and_then(|()| write_atomic(&self.file, text.as_bytes(), 0o600));
        if let Err(e) = written {
            log::error!("{}: {e}; the schedule is not saved", self.file.display());
        }
    }
}

/// The host's clock.
pub fn now() -> DateTime {
    jiff::Zoned::now().datetime()
}

#[cfg(test)]
mod tests;
