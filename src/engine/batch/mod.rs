//! Batch manager: what the master does for `salt -b` of 3008 (`salt/utils/batch_manager.py`).
//!
//! Owns the records of batches in the job cache of stock Salt, and `batch_active.p`. A client that runs a batch
//! itself tells of it in events `salt/batch/<jid>/...`; its record is kept for `salt-run batch.*`. A batch that
//! was begun with `--async` is continued here: each return makes room for the next minion. Listens on
//! `master_event_pub.ipc`, fires `progress`, `complete` and `halted` on `master_event_pull.ipc`, and publishes on
//! `ret_port` as the client of this master.
//!
//! On failure: its successor continues from the records. Returns in between are missed, so their minions count
//! as late.

mod plan;

use halite_client::listen::listen;
use halite_client::local::{Job, LocalClient};
use halite_config::MasterConfig;
use halite_ipc::Event;
use halite_master::events::Bus;
use halite_master::roles::Roles;
use halite_store::local::{self, BatchIndex, StockLayout};
use halite_sys::debug_report;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now_f64;
use halite_wire::ids::Jid;
use halite_wire::msgpack;
use halite_wire::{Map, Value};
use plan::{Plan, Step};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often late minions and pauses are looked at.
const TURN: Duration = Duration::from_secs(1);
/// How often the index is read for batches whose first event was missed.
const LOOK: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(200);

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
                locked().look();
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
    /// Those that are continued here.
    active: BTreeSet<Jid>,
    bus: Bus,
}

impl Manager<'_> {
    fn new(config: &MasterConfig) -> Manager<'_> {
        Manager {
            config,
            records: local::stock_jobs(config),
            index: local::active_batches(config),
            active: BTreeSet::new(),
            bus: Bus::new(config),
        }
    }

    /// Adopts batches of the index, and drops those without a record from it.
    fn look(&mut self) {
        for jid in self.index.read() {
            match self.records.batch(&jid) {
                None => self.index.remove(&jid),
                Some(record) if is_ours(&record) => {
                    self.active.insert(jid);
                }
                Some(_) => {}
            }
        }
    }

    /// Gives up late minions, and ends pauses.
    fn turn(&mut self) {
        for jid in self.active.clone() {
            self.advance(&jid, |plan, now| plan.step(now));
        }
    }

    fn heard(&mut self, event: &Event) {
        if let Some((jid, what)) = parts(&event.tag, "salt/batch/") {
            match what {
                "new" => self.begun(&jid, data(event)),
                "progress" => self.told(&jid, data(event), false),
                "complete" | "halted" => self.told(&jid, data(event), true),
                "stop" => self.stop(&jid, &data(event)),
                "recover" => {
                    self.look();
                    self.advance(&jid, |plan, now| plan.step(now));
                }
                _ => {}
            }
        } else if !self.active.is_empty()
            && let Some((jid, what)) = parts(&event.tag, "salt/job/")
            && let Some(id) = what.strip_prefix("ret/")
            && self.active.contains(&jid)
        {
            let mut load = data(event);
            let value = load.remove("return").unwrap_or_default();
            let retcode = load.remove("retcode").unwrap_or(Value::Int(0));
            self.advance(&jid, |plan, now| plan.returned(id, value, retcode, now));
        }
    }

    /// A batch began. That of a client comes with its record; one for the master has its record on disk, since
    /// events are no proof of who may publish.
    fn begun(&mut self, jid: &Jid, data: Map) {
        if data.contains("state") {
            if self.keep(jid, data) {
                self.index.add(jid);
            }
        } else if self.records.batch(jid).is_some_and(|r| is_ours(&r)) {
            self.active.insert(jid.clone());
            self.index.add(jid);
        }
    }

    /// A client tells how far its batch is.
    fn told(&mut self, jid: &Jid, data: Map, over: bool) {
        if self.keep(jid, data) && over {
            self.index.remove(jid);
        }
    }

    /// Keeps the record of a batch that a client runs; false if the event has none.
    fn keep(&mut self, jid: &Jid, mut data: Map) -> bool {
        let Some(Value::Map(record)) = data.remove("state") else {
            return false;
        };
        if record.str("driver") != Some("cli") || record.str("jid") != Some(jid.as_str()) {
            return false;
        }
        self.save(jid, &record);
        true
    }

    /// Ends a batch; its client learns it from the event.
    fn stop(&mut self, jid: &Jid, data: &Map) {
        if let Some(record) = self.records.batch(jid) {
            let mut plan = Plan::new(record);
            if !plan.is_halted() {
                plan.halt(
                    data.str("reason")
                        .filter(|r| !r.is_empty())
                        .unwrap_or("stop"),
                );
                let record = plan.to_map();
                self.save(jid, &record);
                self.tell("halted", jid, &record);
            }
        }
        self.retire(jid);
    }

    /// Takes a step with a batch of this master, and does what it asks for.
    fn advance(&mut self, jid: &Jid, step: impl FnOnce(&mut Plan, f64) -> Step) {
        if !self.active.contains(jid) {
            return;
        }
        let Some(record) = self.records.batch(jid) else {
            log::error!("batch {jid}: its record is gone; nothing more is sent");
            return self.retire(jid);
        };
        let mut plan = Plan::new(record);
        if plan.is_halted() {
            return self.retire(jid);
        }
        let step = step(&mut plan, unix_now_f64());
        if step != Step::default() {
            let record = plan.to_map();
            // Kept first: what is published twice runs twice.
            self.save(jid, &record);
            if !step.publish.is_empty() {
                self.publish(&record, step.publish);
            }
            self.tell("progress", jid, &record);
        }
        if plan.is_over() {
            let what = if plan.is_halted() {
                "halted"
            } else {
                "complete"
            };
            self.tell(what, jid, &plan.to_map());
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
            kwargs: Map::new(),
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

/// Whether the master continues a batch.
fn is_ours(record: &Map) -> bool {
    record.str("driver") == Some("master")
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
