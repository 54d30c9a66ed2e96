//! `_api`: what the REST service asks of the master for itself, with a key that permits nothing else. What its clients ask for
//! comes as from other clients, with their credentials.

use super::caller;
use super::context::Context;
use crate::access::local;
use crate::events::HOOKS;
use crate::score;
use halite_store::audit::Decision;
use halite_store::jobs::StoredJob;
use halite_sys::exit::ExitError;
use halite_sys::scoreboard::Scoreboard;
use halite_sys::time::unix_now;
use halite_wire::ids::{Jid, Tag};
use halite_wire::msgpack::{self, Profile};
use halite_wire::{Map, Value};
use std::io;

/// Bytes of returns in an answer; the last of them may go over that.
const PAGE: usize = 8 << 20;

/// A question.
enum Ask {
    /// An event for a hook.
    Fire(Tag, Map),
    /// Whether the master serves.
    Ready,
    /// A job of the job cache, with its returns from that number on.
    Job(Jid, usize),
    /// What ARENA's own tools ask for.
    Arena(Vec<String>),
}

impl Ask {
    fn of(mut load: Map) -> Option<Ask> {
        match load.str("ask")? {
            "fire" => {
                let tag: Tag = load.str("tag")?.parse().ok()?;
                let rest = tag.as_str().strip_prefix(HOOKS)?;
                let is_hook = rest.is_empty() || rest.starts_with('/');
                let is_hook = is_hook && !rest.contains(|c: char| c.is_control());
                let data = load.remove("data").and_then(Value::into_map)?;
                is_hook.then_some(Ask::Fire(tag, data))
            }
            "ready" => Some(Ask::Ready),
            "job" => {
                let from = load.int("from").and_then(|n| usize::try_from(n).ok())?;
                Some(Ask::Job(load.str("jid")?.parse().ok()?, from))
            }
            "arena" => Some(Ask::Arena(load.get("path")?.str_list())),
            _ => None,
        }
    }
}

/// Handles a request.
pub(crate) fn request(worker: &mut Context, load: Map, peer: &str) -> Result<Value, ExitError> {
    if !local::is_api(&worker.config, load.str("key").unwrap_or_default()) {
        worker.access.audit_decision(&Decision {
            what: "api",
            method: "key",
            from: peer,
            reason: "the key is not that of the REST service",
            ..Decision::default()
        });
        return Ok(refusal(
            "UserAuthenticationError",
            "the key is not that of the REST service",
        ));
    }
    let Some(ask) = Ask::of(load) else {
        return Ok(refusal("SaltInvocationError", "there is no such question"));
    };
    Ok(answer(worker, ask).unwrap_or_else(|e| {
        log::error!("the REST service is not answered: {e}");
        refusal("SaltMasterError", &e.to_string())
    }))
}

fn answer(worker: &mut Context, ask: Ask) -> io::Result<Value> {
    Ok(match ask {
        Ask::Fire(tag, data) => {
            let lost = worker.bus.lost();
            worker.bus.fire(tag.as_str(), data);
            if worker.bus.lost() > lost {
                return Err(io::Error::other("the event could not be fired"));
            }
            true.into()
        }
        Ask::Ready => {
            let board = Scoreboard::inherited()?;
            readiness(&board.0, worker.config.request_timeout).into()
        }
        Ask::Job(jid, from) => {
            let job = worker.stores.jobs.get(&jid)?;
            job.map_or(Value::Nil, |job| page(job, from).into())
        }
        Ask::Arena(path) => {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            (worker.lent.arena)(&worker.config, &path)?.unwrap_or_default()
        }
    })
}

/// As at `metrics_address`.
fn readiness(board: &Scoreboard, request_timeout: u64) -> Map {
    let silent = score::silent(board, request_timeout);
    let cluster = score::cluster(board, unix_now());
    halite_wire::map! {
        "ready" => silent.is_empty() && !cluster.is_draining && !cluster.is_apart,
        "silent" => silent, "draining" => cluster.is_draining, "apart" => cluster.is_apart,
    }
}

/// A job with its returns from a number on, as many as an answer may have; `next` is the number of the next one.
fn page(job: StoredJob, from: usize) -> Map {
    let count = job.returns.len();
    let (mut bytes, mut returns) = (0, Vec::new());
    for one in job.returns.into_iter().skip(from) {
        if bytes >= PAGE {
            break;
        }
        bytes += msgpack::encode_map(&one.load, Profile::Wire).len();
        returns.push(Value::Array(vec![one.id.into(), one.load.into()]));
    }
    let next = from.saturating_add(returns.len());
    let next = (next < count).then_some(next as u64);
    halite_wire::map! {
        "load" => job.load, "minions" => job.minions, "missing" => job.missing,
        "returns" => Value::Array(returns), "next" => next,
    }
}

fn refusal(name: &str, message: &str) -> Value {
    Value::Map(halite_wire::map! {"error" => caller::error(name, message)})
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_store::jobs::StoredReturn;

    fn ask(load: Map) -> bool {
        Ask::of(load).is_some()
    }

    #[test]
    fn hooks_alone_may_be_fired() {
        let fire = |tag: &str| {
            ask(halite_wire::map! {"ask" => "fire", "tag" => tag, "data" => Map::new()})
        };
        for tag in [
            "salt/netapi/hook",
            "salt/netapi/hook/a",
            "salt/netapi/hook/a/b",
        ] {
            assert!(fire(tag), "{tag}");
        }
        for tag in [
            "",
            "salt/netapi/hooks",
            "salt/netapi",
            "salt/auth",
            "salt/job/1/ret/a",
            "hook/a",
        ] {
            assert!(!fire(tag), "{tag}");
        }
    }

    #[test]
    fn what_is_no_question_is_refused() {
        for load in [
            Map::new(),
            halite_wire::map! {"ask" => "keys"},
            halite_wire::map! {"ask" => "job", "jid" => "../x", "from" => 0},
            halite_wire::map! {"ask" => "job", "jid" => "20260101000000000000", "from" => -1},
            halite_wire::map! {"ask" => "fire", "tag" => "salt/netapi/hook", "data" => "x"},
        ] {
            assert!(!ask(load.clone()), "{load:?}");
        }
    }

    #[test]
    fn large_jobs_come_in_parts() {
        let returned = |n: usize| StoredReturn {
            id: format!("m{n}"),
            load: halite_wire::map! {"return" => "x".repeat(PAGE / 2)},
        };
        let job = StoredJob {
            returns: (0..5).map(returned).collect(),
            ..StoredJob::default()
        };
        let mut from = Some(0);
        let mut seen = Vec::new();
        while let Some(number) = from {
            let page = page(job.clone(), number);
            let part = page.get("returns").and_then(Value::as_array).unwrap();
            assert!(!part.is_empty() && part.len() <= 3);
            seen.extend(part.iter().map(|one| one.as_array().unwrap()[0].clone()));
            from = page.int("next").map(|n| n as usize);
        }
        let all: Vec<Value> = (0..5).map(|n| format!("m{n}").into()).collect();
        assert_eq!(seen, all);
        assert_eq!(page(job, 99).get("next"), Some(&Value::Nil));
    }
}
