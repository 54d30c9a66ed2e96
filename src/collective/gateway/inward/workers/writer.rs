//! Publishes jobs with their callers as users, queries the job cache, writes refusals to the audit log.

use super::{NAP, tell};
use crate::gateway::inward::{News, Order, Task};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use halite_client::local::{ClientError, Job, LocalClient, Published};
use halite_config::MasterConfig;
use halite_store::Stores;
use halite_store::audit::{AuditLog, Decision};
use halite_store::jobs::JobStore;
use halite_sys::signals::StopFlag;
use halite_wire::ids::{Jid, MinionId};
use halite_wire::{Map, Value};
use std::path::Path;

/// Works until the role must stop.
pub(super) fn run(
    config: &MasterConfig,
    stores: &Stores,
    stop: &StopFlag,
    tasks: &Receiver<Task>,
    news: &Sender<News>,
) {
    let audit = AuditLog::new(Path::new(&config.audit_log));
    let mut client = LocalClient::new(config.clone());
    while !stop.is_set() {
        let task = match tasks.recv_timeout(NAP) {
            Ok(task) => task,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let item = match task {
            Task::Publish(order) => {
                allowed(&audit, &order);
                published(&mut client, order)
            }
            Task::Look(jid) => looked(&*stores.jobs, jid),
            Task::Refusal {
                caller,
                from,
                fun,
                minions,
            } => {
                refused(&audit, &caller, &from, &fun, minions);
                continue;
            }
            Task::Forget(_) => continue,
        };
        tell(news, stop, item);
    }
}

fn published(client: &mut LocalClient, order: Order) -> News {
    client.publish_as(&order.user);
    let job = Job {
        fun: order.fun.as_str().into(),
        arg: order.arg,
        tgt: order.minions.into(),
        tgt_type: "list".to_owned(),
        jid: order.jid.to_string(),
        kwargs: halite_wire::map! {"delimiter" => ":"},
        ..Job::default()
    };
    match client.publish(&job) {
        Ok(answer) => answered(order.jid, answer),
        Err(e) => {
            log::warn!("a job of {} could not be published: {e}", order.user);
            News::Unpublished(order.jid, public_message(&e))
        }
    }
}

fn answered(jid: Jid, answer: Published) -> News {
    if answer.jid == jid.as_str() {
        News::Published(jid, answer.missing)
    } else {
        let why = answer
            .error
            .unwrap_or_else(|| "no minions matched".to_owned());
        News::Unpublished(jid, why)
    }
}

/// The message for a remote caller, which must not reveal anything about this host.
fn public_message(error: &ClientError) -> String {
    match error {
        ClientError::Refused(_, message) => message.clone(),
        ClientError::NoMaster(_) => "the master does not answer".to_owned(),
        ClientError::NoKey(_) => "the gateway has no key for the master".to_owned(),
        ClientError::Protocol(_) => "the master's answer makes no sense".to_owned(),
        ClientError::TooLarge(..) => "the request is too large".to_owned(),
    }
}

fn looked(jobs: &dyn JobStore, jid: Jid) -> News {
    let found = match jobs.get(&jid) {
        Ok(found) => found.unwrap_or_default().returns,
        Err(e) => {
            log::warn!("the job {jid} cannot be read: {e}");
            Vec::new()
        }
    };
    let returns = found.into_iter();
    let returns: Vec<(MinionId, Map)> = returns
        .filter_map(|stored| Some((stored.id.parse().ok()?, stored.load)))
        .collect();
    News::Looked(jid, returns)
}

/// The master's own line about the job only knows that this gateway asked for it.
fn allowed(audit: &AuditLog, order: &Order) {
    let (target, function) = (order.minions.clone().into(), order.fun.as_str().into());
    audit.write(&Decision {
        allowed: true,
        jid: order.jid.as_str(),
        reason: "publisher_acl",
        ..decision(&order.user, &order.from, &target, &function)
    });
}

fn decision<'a>(
    caller: &'a str,
    from: &'a str,
    target: &'a Value,
    function: &'a Value,
) -> Decision<'a> {
    Decision {
        what: "publish",
        user: caller,
        method: "collective",
        from,
        target: Some(target),
        function: Some(function),
        ..Decision::default()
    }
}

fn refused(audit: &AuditLog, caller: &str, from: &str, fun: &str, minions: Vec<String>) {
    log::warn!(
        "{caller} may not run {fun} on {} minions: publisher_acl does not allow it",
        minions.len()
    );
    let (target, function) = (Value::from(minions), Value::from(fun));
    audit.write(&Decision {
        reason: "no permission",
        ..decision(caller, from, &target, &function)
    });
}
