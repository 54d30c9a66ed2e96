//! Batch manager: what the master does for `salt -b` of 3008 (`salt/utils/batch_manager.py`).
//!
//! Owns the records of batches in the job cache of stock Salt, and `batch_active.p`. A client that runs a batch
//! itself tells of it in events `salt/batch/<jid>/...`; its record is kept for `salt-run batch.*`. A batch that
//! was begun with `--async` is continued here: each return makes room for the next minion. Listens on
//! `master_event_pub.ipc`, fires `progress`, `complete` and `halted` on `master_event_pull.ipc`, and publishes on
//! `ret_port` as the client of this master.
//!
//! On failure: its successor continues from the records, after some seconds in which minions may come back, and takes the
//! returns in between from the job cache.

mod plan;

use halite_client::listen::listen;
use halite_client::local::{Job, LocalClient};
use halite_config::MasterConfig;
use halite_ipc::{DROPPED, Event};
use halite_master::events::Bus;
use halite_master::roles::Roles;
use halite_store::Stores;
use halite_store::local::{self, BatchIndex, StockLayout};
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_sys::time::{unix_now_f64, unix_now_i64};
use halite_wire::ids::Jid;
use halite_wire::msgpack;
use halite_wire::{Map, Value};
use plan::{Plan, Step};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often late minions and pauses are looked at.
const TURN: Duration = Duration::from_secs(1);
/// How often the index is read for batches whose first event was missed.
const LOOK: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(200);
/// How long after the start of this role nothing is sent to minions of batches that were there before.
const HOLD: Duration = Duration::from_secs(10);
/// Most batches of clients that are recorded at a time: whoever may fire events could fill the disk.
const MOST: usize = 1000;
/// How far the time in the id of a client's batch may be from now, in seconds: its record goes with its job.
const FAR: i64 = 86_400;

/// Runs the role until it is stopped.
pub fn run(config: &MasterConfig, roles: &Roles, stop: &StopFlag) -> Result<(), ExitError> {
    let manager = Mutex::new(Manager::new(config));
    let locked =
        || -> MutexGuard<Manager> { manager.lock().unwrap_or_else(PoisonError::into_inner) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut turned, mut looked) = (Instant::now(), Instant::now());
            while !stop.is_set() {
                std::thread::sleep(NAP);
                debug_report::write_if_asked("batch manager", || {
                    format!("  continued batches: {}\n", locked().active.len())
                });
                if looked.elapsed() >= LOOK {
                    looked = Instant::now();
                    locked().look();
                }
                if turned.elapsed() >= TURN {
                    turned = Instant::now();
                    locked().turn();
                }
            }
        });
        listen(
            config.event_pub(),
            stop,
            // The first event of a client's batch comes only once.
            &mut || {
                let mut manager = locked();
                manager.look();
                manager.catch_up_all();
                roles.ready();
            },
            &mut |event| locked().heard(&event),
        );
    });
    Ok(())
}

/// The batches of this master.
struct Manager<'a> {
    config: &'a MasterConfig,
    records: StockLayout,
    index: BatchIndex,
    /// Those that are continued here. Their records on disk are for others to read: events tell this process nothing about them.
    active: BTreeMap<Jid, Running>,
    bus: Bus,
    started: Instant,
}

struct Running {
    plan: Plan,
    /// Whether the record on disk is older.
    is_dirty: bool,
}

impl Manager<'_> {
    fn new(config: &MasterConfig) -> Manager<'_> {
        Manager {
            config,
            records: local::stock_jobs(config),
            index: local::active_batches(config),
            active: BTreeMap::new(),
            bus: Bus::new(config),
            started: Instant::now(),
        }
    }

    /// Adopts batches of the index, and drops those without a record from it.
    fn look(&mut self) {
        for jid in self.index.read() {
            if !self.active.contains_key(&jid) && !self.adopt(&jid) && !self.records.has_batch(&jid)
            {
                self.index.remove(&jid);
            }
        }
    }

    /// Continues a batch if its record says that the master is to.
    fn adopt(&mut self, jid: &Jid) -> bool {
        let Some(record) = self.records.batch(jid).filter(|r| is_ours(r, jid)) else {
            return false;
        };
        let mut plan = Plan::new(record);
        if plan.is_halted() {
            self.index.remove(jid);
            return false;
        }
        if self.started.elapsed() < HOLD {
            plan.pause();
        }
        let is_dirty = false;
        self.active.insert(jid.clone(), Running { plan, is_dirty });
        self.catch_up(jid);
        true
    }

    /// Gives up late minions, ends pauses, and writes what has changed.
    fn turn(&mut self) {
        let now = unix_now_f64();
        let is_on_hold = self.started.elapsed() < HOLD;
        let jids: Vec<Jid> = self.active.keys().cloned().collect();
        for jid in jids {
            let late = self
                .active
                .get(&jid)
                .is_some_and(|r| r.plan.is_anyone_late(now));
            if late {
                self.catch_up(&jid);
            }
            self.advance(&jid, |plan, now| {
                if !is_on_hold {
                    plan.resume(now);
                }
                plan.step(now)
            });
            if let Some(running) = self.active.get_mut(&jid).filter(|r| r.is_dirty) {
                running.is_dirty = false;
                let record = running.plan.to_map();
                self.save(&jid, &record);
            }
        }
    }

    /// Takes the returns of a batch from the job cache, of which the bus may not have told.
    fn catch_up(&mut self, jid: &Jid) {
        let job = match Stores::open(self.config).jobs.get(jid) {
            Ok(job) => job,
            Err(e) => return log::error!("batch {jid}: its returns cannot be read: {e}"),
        };
        for one in job.into_iter().flat_map(|job| job.returns) {
            let retcode = one.load.get("retcode").cloned().unwrap_or(Value::Int(0));
            self.advance(jid, |plan, now| plan.returned(&one.id, retcode, now));
        }
    }

    fn catch_up_all(&mut self) {
        let jids: Vec<Jid> = self.active.keys().cloned().collect();
        jids.iter().for_each(|jid| self.catch_up(jid));
    }

    fn heard(&mut self, event: &Event) {
        if let Some((jid, what)) = parts(&event.tag, "salt/batch/") {
            match what {
                "new" => self.begun(&jid, data(event)),
                "progress" => self.told(&jid, data(event), false),
                "complete" | "halted" => self.told(&jid, data(event), true),
                "stop" => self.stop(&jid, &data(event)),
                "recover" => self.look(),
                _ => {}
            }
        } else if event.tag == DROPPED {
            self.catch_up_all();
        } else if !self.active.is_empty()
            && let Some((jid, what)) = parts(&event.tag, "salt/job/")
            && let Some(id) = what.strip_prefix("ret/")
            && self.active.contains_key(&jid)
        {
            let retcode = data(event).remove("retcode").unwrap_or(Value::Int(0));
            self.advance(&jid, |plan, now| plan.returned(id, retcode, now));
        }
    }

    /// A batch began. That of a client comes with its record; one for the master has its record on disk, since
    /// events are no proof of who may publish.
    fn begun(&mut self, jid: &Jid, data: Map) {
        if data.contains("state") {
            let known = self.index.read();
            let is_room = known.contains(jid) || known.len() < MOST;
            if is_room && self.keep(jid, data) {
                self.index.add(jid);
            }
        } else if self.active.contains_key(jid) || self.adopt(jid) {
            self.index.add(jid);
            self.advance(jid, |plan, now| {
                // It has just begun, so its minions are there.
                plan.resume(now);
                plan.step(now)
            });
        }
    }

    /// A client tells how far its batch is.
    fn told(&mut self, jid: &Jid, data: Map, over: bool) {
        // Also of one that is stopped, whose last returns its client still tells.
        if self.records.has_batch(jid) && self.keep(jid, data) && over {
            self.index.remove(jid);
        }
    }

    /// Keeps the record of a batch that a client runs; false if the event has none, or the batch is the master's.
    fn keep(&mut self, jid: &Jid, mut data: Map) -> bool {
        let Some(Value::Map(mut record)) = data.remove("state") else {
            return false;
        };
        let is_clients =
            record.str("driver") == Some("cli") && record.str("jid") == Some(jid.as_str());
        if !is_clients || !jid.is_near(unix_now_i64(), FAR) || self.active.contains_key(jid) {
            return false;
        }
        let halted = |record: &Map| record.get("halted").is_some_and(Value::truthy);
        if let Some(known) = self.records.batch(jid)
            && (known.str("driver") != Some("cli") || halted(&known) && !halted(&record))
        {
            return false;
        }
        // The returns are in the job cache.
        if let Some(Value::Map(done)) = record.get_mut("done") {
            for (_, one) in &mut done.0 {
                if let Value::Map(one) = one {
                    one.set("ret", Value::Nil);
                }
            }
        }
        self.save(jid, &record);
        true
    }

    /// Ends a batch; its client learns it from the event.
    fn stop(&mut self, jid: &Jid, data: &Map) {
        let ours = self.active.remove(jid).map(|running| running.plan);
        let plan = ours.or_else(|| self.records.batch(jid).map(Plan::new));
        if let Some(mut plan) = plan.filter(|plan| !plan.is_halted()) {
            let reason = data.str("reason").filter(|r| !r.is_empty());
            plan.halt(reason.unwrap_or("stop"));
            let record = plan.to_map();
            self.save(jid, &record);
            self.tell("halted", jid, &record);
        }
        self.retire(jid);
    }

    /// Takes a step with a batch of this master, and does what it asks for.
    fn advance(&mut self, jid: &Jid, step: impl FnOnce(&mut Plan, f64) -> Step) {
        let Some(running) = self.active.get_mut(jid) else {
            return;
        };
        let step = step(&mut running.plan, unix_now_f64());
        if step == Step::default() && !running.plan.is_over() {
            return;
        }
        let is_over = running.plan.is_over();
        let is_halted = running.plan.is_halted();
        running.is_dirty = step.publish.is_empty() && !is_over;
        let record = running.plan.to_map();
        if !running.is_dirty {
            // Kept first: what is published twice runs twice.
            self.save(jid, &record);
        }
        if !step.publish.is_empty() {
            self.publish(&record, step.publish);
        }
        self.tell("progress", jid, &record);
        if is_over {
            let what = if is_halted { "halted" } else { "complete" };
            self.tell(what, jid, &record);
            self.retire(jid);
        }
    }

    /// Sends the job to the next minions, in the name of who began the batch.
    fn publish(&mut self, record: &Map, ids: Vec<String>) {
        let jid = record.str("jid").unwrap_or_default();
        let mut arg = record
            .get("arg")
            .and_then(Value::as_array)
            .unwrap_or_default()
            .to_vec();
        if let Some(Value::Map(kwargs)) = record.get("kwargs")
            && !kwargs.is_empty()
        {
            let mut kwargs = kwargs.clone();
            kwargs.set("__kwarg__", true);
            arg.push(Value::Map(kwargs));
        }
        let job = Job {
            fun: record.get("fun").cloned().unwrap_or_default(),
            arg,
            tgt: ids.into(),
            tgt_type: "list".into(),
            ret: record.str("ret").unwrap_or_default().to_owned(),
            jid: jid.to_owned(),
            // Of halite's client: executors, metadata and the like.
            kwargs: record
                .get("options")
                .and_then(Value::as_map)
                .cloned()
                .unwrap_or_default(),
        };
        let mut client = LocalClient::new(self.config.clone());
        client.publish_as(record.str("user").unwrap_or("root"));
        if let Err(e) = client.publish(&job) {
            log::error!("batch {jid}: a part could not be published: {e}");
        }
    }

    fn save(&self, jid: &Jid, record: &Map) {
        if let Err(e) = self.records.save_batch(jid, record) {
            log::error!("batch {jid}: its record could not be written: {e}");
        }
    }

    fn retire(&mut self, jid: &Jid) {
        self.active.remove(jid);
        self.index.remove(jid);
    }

    fn tell(&mut self, what: &str, jid: &Jid, record: &Map) {
        let data = news(what, record, unix_now_f64());
        self.bus.fire(&format!("salt/batch/{jid}/{what}"), data);
    }
}

/// Whether this is the record of this batch, and the master continues it.
fn is_ours(record: &Map, jid: &Jid) -> bool {
    record.str("driver") == Some("master") && record.str("jid") == Some(jid.as_str())
}

/// The jid in a tag, and what follows it.
fn parts<'a>(tag: &'a str, start: &str) -> Option<(Jid, &'a str)> {
    let (jid, what) = tag.strip_prefix(start)?.split_once('/')?;
    Some((jid.parse().ok()?, what))
}

fn data(event: &Event) -> Map {
    let data = msgpack::decode(&event.payload).ok();
    data.and_then(Value::into_map).unwrap_or_default()
}

/// The data of an event about a batch (`salt/utils/batch_output.py`).
fn news(what: &str, record: &Map, now: f64) -> Map {
    let count = |key: &str| match record.get(key) {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Map(map)) => map.len(),
        _ => 0,
    };
    let field = |key: &str| record.get(key).cloned().unwrap_or_default();
    let mut out: Map = ["jid", "fun", "tgt", "tgt_type", "user"]
        .into_iter()
        .map(|key| (key, field(key)))
        .collect();
    out.set("completed", count("done"));
    out.set("failed", count("failed"));
    if what == "progress" {
        out.set("total", count("all_minions"));
        out.set("active", count("active"));
        out.set("pending", count("pending"));
        out.set("iter", Value::Nil);
        out.set("last_progress", field("last_progress"));
        return out;
    }
    let created = match field("created") {
        Value::Float(created) => created,
        Value::Int(created) => created as f64,
        _ => now,
    };
    out.set("duration", now - created);
    if what == "complete" {
        out.set("total_minions", count("all_minions"));
        return out;
    }
    let active = record.get("active").and_then(Value::as_map);
    let mut active: Vec<String> = active
        .map(|active| {
            active
                .iter()
                .filter_map(|(id, _)| id.as_str().map(str::to_owned))
                .collect()
        })
        .unwrap_or_default();
    active.sort_unstable();
    out.set("reason", field("halted_reason"));
    out.set("abandoned_active", active);
    out.set("abandoned_pending", field("pending"));
    out
}
