//! The daemon's handling of jobs, results, scheduled jobs and requests from the local bus (`salt/minion.py
//! handle_event`, `_state_run`; `salt/utils/schedule.py handle_func`).

use super::Minion;
use crate::background::{LoopEvent, PillarRefresh};
use crate::jobs::{Finished, LocalJob, Origin, ReturnAs};
use crate::master_connection::event as event_load;
use crate::timetable::{GRAINS, MINE};
use crate::watch::Input;
use halite_channel::publication::Job;
use halite_config::paths::minion::cache;
use halite_modules::execution::{Context, mine_functions, python};
use halite_modules::grains::all_grains;
use halite_modules::local::{self, DaemonRequest, MODULES_REFRESHED, PILLAR_REFRESHED};
use halite_schedule::{Spec, returners};
use halite_sys::daemon::{make_dir, write_atomic};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::sync::Arc;
use std::time::Instant;

impl Minion {
    /// Accepts a job from the master at `line`.
    pub(super) fn take(&mut self, job: Job, line: usize) {
        let fun = job.load.get("fun").map(python::str).unwrap_or_default();
        log::info!(
            jid:% = job.jid, fun:% = fun;
            "user {} runs {fun:.200} with jid {}",
            job.load.str("user").unwrap_or("?"),
            job.jid
        );
        self.lines[line].start_event(&job.load);
        let finished = self.jobs.add(job, Origin::Master(line));
        finished.into_iter().for_each(|f| self.deliver(f));
    }

    /// Sends a result to the masters that get it, and fires it on the local bus.
    pub(super) fn deliver(&mut self, finished: Finished) {
        let Finished { jid, origin, load } = finished;
        let own = match origin {
            Origin::Master(at) => {
                self.cache_result(jid.as_str(), &load);
                self.fire_local_raw(format!("salt/job/{jid}/ret/{}", self.config.id), &load);
                if let Some(line) = self.lines.get(at).filter(|_| self.config.pub_ret) {
                    line.outbox().result(jid.as_str(), load);
                }
                return;
            }
            Origin::Local(own) => own,
        };
        let keep = match own.return_as {
            ReturnAs::Nothing => return,
            ReturnAs::Jid(name) => name,
            ReturnAs::OwnJid => jid.as_str(),
        };
        let Ok(Value::Map(mut map)) = msgpack::decode(&load) else {
            return;
        };
        map.set("jid", keep);
        let load = msgpack::encode_map(&map, Profile::Local);
        self.fire_local_raw("__schedule_return".to_owned(), &load);
        if !self.config.pub_ret {
            return;
        }
        for (at, line) in self.lines.iter().enumerate() {
            if (own.to_all || at == own.line) && !line.is_dead() {
                line.outbox().result(jid.as_str(), load.clone());
            }
        }
    }

    /// `cache_jobs`: `cachedir/minion_jobs/<jid>/return.p` (`salt/utils/minion.py cache_jobs`).
    fn cache_result(&self, jid: &str, load: &[u8]) {
        if !self.config.cache_jobs {
            return;
        }
        let dir = cache::minion_jobs(&self.config.cachedir).join(jid);
        let kept =
            make_dir(&dir, 0o700).and_then(|()| write_atomic(&dir.join("return.p"), load, 0o600));
        if let Err(e) = kept {
            log::error!("{}: {e}; the result is not cached", dir.display());
        }
    }

    fn fire_local_raw(&self, tag: String, payload: &[u8]) {
        match halite_ipc::Event::from_payload(tag.clone(), payload.to_vec()) {
            Ok(event) => {
                if let Err(e) = self.bus.fire(&event) {
                    log::debug!("cannot fire {tag} on the local bus: {e}");
                }
            }
            Err(e) => log::debug!("{tag} is not a valid event: {e}"),
        }
    }

    pub(super) fn fire_local(&self, tag: &str, data: &Map) {
        self.fire_local_raw(tag.to_owned(), &msgpack::encode_map(data, Profile::Local));
    }

    /// Runs a scheduled job, unless too many instances of it are running (`maxrunning`).
    pub(super) fn launch(&mut self, spec: Spec) {
        let name = spec.name.as_str();
        if name == GRAINS {
            return self.refresh(PillarRefresh::IfChanged);
        }
        if spec.dry {
            log::debug!("the scheduled job {name} has dry_run set");
            return;
        }
        let running = i64::try_from(self.jobs.count(name)).unwrap_or(i64::MAX);
        if spec.counted && spec.maxrunning.is_some_and(|most| running >= most) {
            log::info!("the scheduled job {name} was not started, {running} already running");
            self.timetable.record_skipped(name, "maxrunning");
            return;
        }
        let mut args = spec.args.clone();
        if let Some(kwargs) = spec.given_kwargs() {
            let mut kwargs = kwargs.clone();
            kwargs.set("__kwarg__", true);
            args.push(kwargs.into());
        }
        let returners = self.returners(&spec.returners);
        // With a returner, the job keeps its own jid.
        let return_as = match (spec.return_job.jid(), returners.is_empty()) {
            (None, _) => ReturnAs::Nothing,
            (Some(jid), true) => ReturnAs::Jid(jid),
            (Some(_), false) => ReturnAs::OwnJid,
        };
        let mut load = halite_wire::map! {
            "fun" => spec.function.as_str(), "arg" => args, "tgt" => self.config.id.as_str(),
            "tgt_type" => "glob", "ret" => returners, "schedule" => name,
        };
        let began = jiff::Zoned::now();
        if let Some(metadata) = spec.metadata(&began, &began.strftime("%z").to_string()) {
            load.set("metadata", metadata);
        }
        for (key, value) in spec.return_settings() {
            load.set(key, value.clone());
        }
        match name {
            MINE => self.mine(&load, return_as),
            _ => {
                log::info!(fun = spec.function.as_str(); "the scheduled job {name} runs {}", spec.function);
                let own = LocalJob {
                    counted: spec.counted,
                    ..LocalJob::new(name, self.leader(), return_as)
                };
                self.run_local(load, own);
            }
        }
    }

    /// The returners of a scheduled job, comma-separated and without duplicates: its own, then those of
    /// `schedule_returner` in options or pillar.
    fn returners(&self, own: &[String]) -> String {
        let configured = &self.config.schedule_returner;
        let pillar = self.lines.get(self.leader()).map(|line| &line.me.pillar);
        let more = match pillar.and_then(|pillar| pillar.get("schedule_returner")) {
            names @ Some(_) if configured.is_empty() => returners(names),
            _ => configured.clone(),
        };
        let mut all: Vec<&str> = Vec::new();
        for name in own.iter().chain(&more).map(String::as_str) {
            if !name.is_empty() && !all.contains(&name) {
                all.push(name);
            }
        }
        all.join(",")
    }

    /// Updates the mine on every connected master.
    fn mine(&mut self, load: &Map, return_as: ReturnAs) {
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            let ctx = Context {
                opts: Arc::new(self.config.as_map()),
                pillar: line.me.pillar.clone(),
                ..Context::default()
            };
            if line.is_up() && mine_functions(&ctx).is_some() {
                let own = LocalJob {
                    to_all: false,
                    ..LocalJob::new(MINE, at, return_as)
                };
                self.run_local(load.clone(), own);
            }
        }
    }

    /// Runs a job of the minion's own.
    fn run_local(&mut self, mut load: Map, own: LocalJob) {
        let jid = self.jids.next();
        load.set("jid", jid.as_str());
        let finished = self.jobs.add(Job { jid, load }, Origin::Local(own));
        finished.into_iter().for_each(|f| self.deliver(f));
    }

    /// `startup_states`, once.
    pub(super) fn startup_states(&mut self) {
        let config = &self.config;
        let (fun, arg): (&str, Vec<Value>) = match config.startup_states.as_str() {
            "" => return,
            _ if self.lines.is_empty() && config.file_client == "remote" => {
                log::warn!("startup_states needs a master or `file_client: local`; it is ignored");
                return;
            }
            "sls" => ("state.sls", vec![config.sls_list.clone().into()]),
            "top" => ("state.top", vec![config.top_file.as_str().into()]),
            _ => ("state.highstate", Vec::new()),
        };
        let load = halite_wire::map! {
            "fun" => fun, "arg" => arg, "tgt" => config.id.as_str(), "tgt_type" => "glob", "ret" => "",
        };
        let own = LocalJob::new("startup_states", self.leader(), ReturnAs::Jid("req"));
        self.run_local(load, own);
    }

    /// Collects the grains again in a thread; with `force`, the pillar is fetched even if they did not change.
    fn refresh(&mut self, pillar: PillarRefresh) {
        let config = self.config.clone();
        self.shared.run_aside("grains", move || {
            Some(LoopEvent::Grains(Box::new(all_grains(&config)), pillar))
        });
    }

    /// Applies newly collected grains.
    pub(super) fn new_grains(&mut self, grains: Map, pillar: PillarRefresh) {
        let changed = grains != *self.grains;
        if !changed && pillar == PillarRefresh::IfChanged {
            return;
        }
        self.grains = Arc::new(grains);
        self.jobs.set_grains(self.grains.clone());
        let mut asked = 0;
        for line in &mut self.lines {
            line.me.grains = self.grains.clone();
            if line.is_up() {
                line.refresh_pillar(pillar == PillarRefresh::Anew);
                asked += 1;
            }
        }
        if self.lines.is_empty() {
            self.compile_local_pillar();
            asked = 1;
        }
        self.pillars += asked;
        if asked == 0 {
            self.fire_local(PILLAR_REFRESHED, &halite_wire::map! {"complete" => true});
        }
    }

    /// Applies a newly fetched pillar.
    pub(super) fn new_pillar(&mut self, at: usize, pillar: Option<Map>) {
        if let Some(pillar) = pillar {
            let pillar = Arc::new(pillar);
            if let Some(line) = self.lines.get_mut(at) {
                line.me.pillar = pillar.clone();
            }
            self.jobs.view_mut(at).pillar = pillar.clone();
            if self.leader() == at {
                self.timetable.set_sources(&pillar, &self.grains);
                self.beacon_runner
                    .beacons
                    .set_pillar(&pillar, Instant::now());
            }
        }
        if self.lines.is_empty() {
            self.ready();
        }
        self.pillars = self.pillars.saturating_sub(1);
        if self.pillars == 0 {
            self.fire_local(PILLAR_REFRESHED, &halite_wire::map! {"complete" => true});
        }
    }

    /// Handles a function's request from the local bus.
    pub(super) fn order(&mut self, order: DaemonRequest) {
        let DaemonRequest { tag, data } = order;
        let flag = |key: &str| data.get(key).is_some_and(Value::truthy);
        let begins = |what: &&str| tag.starts_with(*what);
        let Some(what) = local::REQUEST_TAGS.iter().copied().find(begins) else {
            return;
        };
        log::debug!("the event {tag} on the local bus is handled");
        match what {
            "module_refresh" if flag("notify") => {
                self.fire_local(MODULES_REFRESHED, &halite_wire::map! {"complete" => true});
            }
            "pillar_refresh" if flag("clean_cache") => self.refresh(PillarRefresh::Anew),
            "pillar_refresh" => self.refresh(PillarRefresh::Always),
            "grains_refresh" if flag("force_refresh") => self.refresh(PillarRefresh::Always),
            "grains_refresh" => self.refresh(PillarRefresh::IfChanged),
            "manage_schedule" => self.manage_schedule(&data),
            "manage_beacons" => self.manage_beacons(&data),
            "beacons_refresh" => self.beacon_runner.beacons.refresh(),
            "environ_setenv" => self.set_environ(&data),
            "fire_master" => self.fire_master(&data),
            "__beacons_return" => {
                let events = data.get("beacons").cloned().unwrap_or_default();
                self.fire_master(&halite_wire::map! {"events" => events});
            }
            "_salt_error" => {
                self.fire_master(&halite_wire::map! {"data" => data, "tag" => tag});
            }
            "_minion_mine" => self.send_up(&data),
            "__schedule_return" => {
                let jid = self.jids.next();
                let load = msgpack::encode_map(&data, Profile::Local);
                for line in self.lines.iter().filter(|line| !line.is_dead()) {
                    line.outbox().result(jid.as_str(), load.clone());
                }
            }
            "__master_disconnected" => {
                let master = data.str("master").unwrap_or_default();
                let lost = self.lines.iter_mut().find(|l| l.master() == master);
                if let Some(line) = lost {
                    line.input(Input::Lost);
                }
            }
            "__master_failback" => {
                for line in self.lines.iter_mut() {
                    line.input(Input::FirstIsThere);
                }
            }
            // There is nothing to reload.
            _ => {}
        }
    }

    fn manage_schedule(&mut self, data: &Map) {
        let done = self.timetable.manage(data);
        for (tag, data) in &done.events {
            self.fire_local(tag, data);
        }
        if let Some(due) = done.run {
            self.launch(due);
        }
    }

    /// `environ.setenv` with `update_minion`: applies to jobs started later.
    fn set_environ(&mut self, data: &Map) {
        let Some(wanted) = data.get("environ").and_then(Value::as_map) else {
            return;
        };
        let flag = |key: &str| data.get(key).is_some_and(Value::truthy);
        if flag("clear_all") {
            for (name, _) in std::env::vars() {
                if !wanted.contains(&name) {
                    self.jobs.set_environ(&name, None);
                }
            }
        }
        for (name, value) in wanted.iter() {
            let Some(name) = name
                .as_str()
                .filter(|n| !n.is_empty() && !n.contains(['=', '\0']))
            else {
                continue;
            };
            let value = match value {
                Value::Bool(false) if flag("false_unsets") => None,
                Value::Bool(false) => Some(String::new()),
                other => other
                    .as_str()
                    .filter(|v| !v.contains('\0'))
                    .map(str::to_owned),
            };
            self.jobs.set_environ(name, value);
        }
    }

    /// Sends one event, or the list `events`, to all masters.
    pub(super) fn fire_master(&mut self, data: &Map) {
        let tag = data.str("tag").unwrap_or_default();
        let mut load = event_load(
            &self.config.id,
            tag,
            data.get("data").cloned().unwrap_or_default(),
        );
        if let Some(events) = data.get("events").filter(|e| !e.is_nil()) {
            load.set("events", events.clone());
            load.remove("data");
            load.remove("tag");
        }
        load.set("pretag", data.get("pretag").cloned().unwrap_or_default());
        self.send_up(&load);
    }

    fn send_up(&mut self, load: &Map) {
        for line in self.lines.iter().filter(|line| line.is_up()) {
            line.outbox().event(load.clone());
        }
    }
}
