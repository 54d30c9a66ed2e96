//! Jobs that wait for something to happen to a module.

use super::super::fleet::{Fleet, Gone, Lost};
use super::describe_exit;
use crate::registry::KeptModule;
use crate::wire::{ExitStatus, ModuleExit, State, Trouble, Uuid};
use halite_gateway::answer::FunctionResult;
use halite_gateway::master_events::Order;
use halite_wire::ids::{Jid, MinionId};
use halite_wire::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Jobs that may wait; more are answered with what is known.
const MOST: usize = 10_000;
/// `retcode` of a job that timed out, as in timeout(1).
const TIMED_OUT: i64 = 124;

/// What a job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    /// The module runs.
    Start,
    /// The module has ended.
    End,
}

/// A waiting job.
#[derive(Debug)]
pub(super) struct Wait {
    /// What it waits for.
    pub goal: Goal,
    /// The module.
    pub module: Uuid,
    /// The minion that it runs on.
    pub id: MinionId,
    /// Its jid.
    pub jid: Jid,
    /// Its load.
    pub load: Arc<Map>,
    due: Instant,
}

/// All waiting jobs, by module.
#[derive(Default)]
pub(super) struct Waits {
    all: HashMap<Uuid, Vec<Wait>>,
    count: usize,
}

impl Waits {
    /// How many jobs wait.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds a job; `false` if too many wait.
    pub fn add(
        &mut self,
        goal: Goal,
        module: &Uuid,
        id: &MinionId,
        order: &Order,
        due: Instant,
    ) -> bool {
        if self.count >= MOST {
            return false;
        }
        self.count += 1;
        let wait = Wait {
            goal,
            module: module.clone(),
            id: id.clone(),
            jid: order.jid.clone(),
            load: Arc::clone(&order.load),
            due,
        };
        self.all.entry(module.clone()).or_default().push(wait);
        true
    }

    /// Whether this job waits on this minion.
    pub fn has(&self, id: &MinionId, jid: &Jid) -> bool {
        self.each().any(|wait| wait.id == *id && wait.jid == *jid)
    }

    /// The job with this jid on a runtime, as returned by `saltutil.find_job`; empty if there is none.
    pub fn find(&self, id: &MinionId, jid: &str) -> Value {
        let found = self.each().find(|w| w.id == *id && w.jid.as_str() == jid);
        found.map(describe).unwrap_or_default().into()
    }

    /// All jobs of a runtime.
    pub fn of(&self, id: &MinionId) -> Vec<Value> {
        let mine = self.each().filter(|wait| wait.id == *id);
        mine.map(|wait| describe(wait).into()).collect()
    }

    fn each(&self) -> impl Iterator<Item = &Wait> {
        self.all.values().flatten()
    }

    /// Removes and returns the jobs that wait for `which` of this module.
    pub fn take(&mut self, module: &Uuid, which: impl Fn(Goal) -> bool) -> Vec<Wait> {
        let Some(waits) = self.all.get_mut(module) else {
            return Vec::new();
        };
        let done: Vec<Wait> = waits.extract_if(.., |wait| which(wait.goal)).collect();
        if waits.is_empty() {
            self.all.remove(module);
        }
        self.count -= done.len();
        done
    }

    /// Removes and returns the jobs that have timed out.
    pub fn late(&mut self, now: Instant) -> Vec<Wait> {
        let mut late = Vec::new();
        for waits in self.all.values_mut() {
            late.extend(waits.extract_if(.., |wait| wait.due <= now));
        }
        self.all.retain(|_, waits| !waits.is_empty());
        self.count -= late.len();
        late
    }
}

/// A job as describe by a minion's `saltutil.find_job`.
fn describe(wait: &Wait) -> Map {
    let mut out = halite_wire::map! {
        "jid" => wait.jid.as_str(), "module" => wait.module.as_str(), "pid" => std::process::id(),
    };
    out.0.extend(wait.load.0.iter().cloned());
    out
}

/// The results for jobs that wait for the start of a module, and for those that wait for its end; `None` if they wait
/// on.
#[derive(Debug, Default)]
pub(super) struct GoalResults {
    start: Option<FunctionResult>,
    end: Option<FunctionResult>,
}

impl GoalResults {
    /// The result for jobs with this goal.
    pub fn of(&self, goal: Goal) -> Option<&FunctionResult> {
        match goal {
            Goal::Start => self.start.as_ref(),
            Goal::End => self.end.as_ref(),
        }
    }
}

/// The module runs, or waits for a free place on another runtime.
pub(super) fn started(kept: &KeptModule, fleet: &Fleet) -> GoalResults {
    let start = FunctionResult::success(kept.started(fleet.place_of(kept)));
    GoalResults {
        start: Some(start),
        end: None,
    }
}

/// Its runtime refused it.
pub(super) fn refused(kept: &KeptModule, why: &str, fleet: &Fleet) -> GoalResults {
    // It was moved, and the next runtime decides.
    if kept.module.state != State::Dead {
        return GoalResults::default();
    }
    // Runtimes of halite already start the text with this.
    let own = format!("{}: ", Trouble::Refused.desc());
    let why = why.strip_prefix(&own).unwrap_or(why);
    let failed = failed(kept, fleet, &format!("refused by the runtime: {why}"), 1);
    GoalResults {
        start: Some(failed),
        end: Some(FunctionResult::success(kept.brief(fleet.place_of(kept)))),
    }
}

/// The module has ended.
pub(super) fn ended(kept: &KeptModule, exit: &ModuleExit, fleet: &Fleet) -> GoalResults {
    let broken = matches!(exit.status, ExitStatus::Crashed | ExitStatus::Killed);
    let place = fleet.place_of(kept);
    let told = describe_exit(exit);
    let mut start = kept.started(place);
    start.set("exit", told.clone());
    let mut end = kept.brief(place);
    end.set("exit", told);
    GoalResults {
        start: Some(FunctionResult {
            value: start.into(),
            retcode: i64::from(broken),
        }),
        end: Some(FunctionResult::success(end)),
    }
}

/// The module is lost.
pub(super) fn lost(kept: &KeptModule, why: Lost, fleet: &Fleet) -> GoalResults {
    let why = lost_reason(why);
    let mut end = kept.brief(fleet.place_of(kept));
    end.set("lost", why);
    let lives = matches!(kept.module.state, State::Alive | State::Queued);
    GoalResults {
        // It was moved.
        start: (!lives).then(|| failed(kept, fleet, &format!("the module is lost: {why}"), 1)),
        end: (kept.module.state == State::Dead).then(|| FunctionResult::success(end)),
    }
}

/// Nothing has happened for too long.
pub(super) fn timed_out(wait: &Wait, time: Duration, fleet: &Fleet) -> FunctionResult {
    let what = match wait.goal {
        Goal::Start => "the runtime has not confirmed it",
        Goal::End => "the module has not ended",
    };
    let text = format!("{what} within {} s", time.as_secs());
    match fleet.module(&wait.module) {
        Some(kept) => failed(kept, fleet, &text, TIMED_OUT),
        None => FunctionResult::failure(text, TIMED_OUT),
    }
}

fn failed(kept: &KeptModule, fleet: &Fleet, why: &str, retcode: i64) -> FunctionResult {
    let mut value = kept.brief(fleet.place_of(kept));
    value.set("error", why);
    FunctionResult {
        value: value.into(),
        retcode,
    }
}

/// Describes why a module is lost.
pub(in crate::gateway) fn lost_reason(why: Lost) -> &'static str {
    match why {
        Lost::Runtime(why) => gone_reason(why),
        Lost::Missing => "its runtime no longer reports it",
    }
}

/// Describes why a runtime has disconnected.
pub(in crate::gateway) fn gone_reason(why: Gone) -> &'static str {
    match why {
        Gone::Deleted => "deleted",
        Gone::Manager => "its manager is gone",
        Gone::Silent => "silent",
        Gone::Refused => "its key is not accepted",
    }
}
