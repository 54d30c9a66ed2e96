//! Access of the inward half to disks, bus and master. Three threads: one listens to the bus, one publishes jobs and
//! queries the job cache, one finds out which minions are nodes.

mod bus;
mod survey;
mod writer;

use super::{News, Task};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use halite_config::{CollectiveGateway, MasterConfig};
use halite_store::Stores;
use halite_sys::signals::StopFlag;
use halite_wire::ids::Jid;
use std::collections::HashSet;
use std::sync::{Arc, RwLock};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

/// Most tasks queued.
const TASKS: usize = 4_096;
/// Most news queued for the loop; beyond that the listener stops reading and the bus drops its events.
const NEWS: usize = 65_536;
/// Longest wait, so that a stop of the role is noticed.
const NAP: Duration = Duration::from_millis(250);

/// The jids of the collective's jobs, so that other returns on the bus are not even decoded.
#[derive(Clone, Debug, Default)]
struct OwnJobs(Arc<RwLock<HashSet<Jid>>>);

impl OwnJobs {
    fn has(&self, jid: &Jid) -> bool {
        match self.0.read() {
            Ok(jids) => jids.contains(jid),
            Err(poisoned) => poisoned.into_inner().contains(jid),
        }
    }

    fn change(&self, change: impl FnOnce(&mut HashSet<Jid>)) {
        match self.0.write() {
            Ok(mut jids) => change(&mut jids),
            Err(poisoned) => change(&mut poisoned.into_inner()),
        }
    }
}

/// The loop's handle of the threads.
pub(in crate::gateway) struct Workers<'scope> {
    tasks: Sender<Task>,
    own: OwnJobs,
    threads: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> Workers<'scope> {
    /// Starts the threads, which stop with the role. Their news come out of the receiver.
    pub fn start<'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        config: &'env MasterConfig,
        stores: &'env Stores,
        settings: &CollectiveGateway,
        stop: &'env StopFlag,
    ) -> (Workers<'scope>, Receiver<News>) {
        let (tasks, queue) = bounded(TASKS);
        let (news, told) = bounded(NEWS);
        let (bell, rung) = bounded(1);
        let own = OwnJobs::default();
        let threads = vec![
            scope.spawn({
                let (news, own) = (news.clone(), own.clone());
                move || bus::run(config, stores, stop, &own, &news, &bell)
            }),
            scope.spawn({
                let news = news.clone();
                move || writer::run(config, stores, stop, &queue, &news)
            }),
            scope.spawn({
                let settings = settings.clone();
                move || survey::run(config, stores, &settings, stop, &rung, &news)
            }),
        ];
        let workers = Workers {
            tasks,
            own,
            threads,
        };
        (workers, told)
    }

    /// Queues a task. If the queue is full, returns the news of its failure.
    pub fn take(&self, task: Task) -> Option<News> {
        match &task {
            Task::Publish(order) => {
                let jid = order.jid.clone();
                self.own.change(|jids| {
                    jids.insert(jid);
                });
            }
            Task::Forget(jid) => {
                self.own.change(|jids| {
                    jids.remove(jid);
                });
                return None;
            }
            Task::Look(_) | Task::Refusal { .. } => {}
        }
        match self.tasks.try_send(task) {
            Ok(()) => None,
            Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => match task {
                Task::Publish(order) => {
                    let why = "too many jobs are waiting to be published".to_owned();
                    Some(News::Unpublished(order.jid, why))
                }
                Task::Look(jid) => Some(News::Looked(jid, Vec::new())),
                Task::Refusal { .. } | Task::Forget(_) => {
                    log::error!("a refusal is not in the audit log: the queue is full");
                    None
                }
            },
        }
    }

    /// Whether all threads are running.
    pub fn alive(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }
}

/// Sends news to the loop; `false` if it has stopped or must stop.
fn tell(news: &Sender<News>, stop: &StopFlag, mut item: News) -> bool {
    while !stop.is_set() {
        match news.send_timeout(item, NAP) {
            Ok(()) => return true,
            Err(crossbeam_channel::SendTimeoutError::Timeout(back)) => item = back,
            Err(crossbeam_channel::SendTimeoutError::Disconnected(_)) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
