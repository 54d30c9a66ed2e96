//! Encrypted requests: each minion sends one at a time, repeats it without a reply, and checks the reply.

use super::super::minion::{InFlight, ReplyCheck, Request};
use super::super::session::{Load, SessionError};
use super::super::work::Work;
use super::super::work::files::{Fetch, FetchMode};
use super::super::{Acknowledged, stats::Op};
use super::Shard;
use halite_wire::{Map, Value};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// What follows a correct answer.
enum NextStep {
    /// The work is done.
    Done,
    /// The next request of the same work.
    Ask(Arc<Load>),
}

impl Shard {
    /// Lets minions in turn start own work as long as there is some and not too much is in progress.
    pub(super) fn start_work(&mut self) {
        let concurrency = self.shared.concurrency.load(Ordering::Acquire);
        while self.working < concurrency {
            let taken =
                self.shared
                    .quota
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                        left.checked_sub(1)
                    });
            let (Ok(_), Ok(work)) = (taken, self.shared.work.lock().map(|w| w.clone())) else {
                return;
            };
            let n = self.cursor;
            let request = match work {
                Work::Returns => self.next_return(n),
                Work::Pillars(pillars) => Request::new(pillars.load(), ReplyCheck::Pillar(pillars)),
                Work::Files(files) => {
                    let (fetch, load) = Fetch::begin(&files);
                    Request::new(load, ReplyCheck::File(Box::new(fetch), Instant::now()))
                }
                Work::Events(events) => {
                    let (number, load) = events.next();
                    Request::new(load, ReplyCheck::Event(events, number))
                }
            };
            self.cursor = (n + 1) % self.minions.len();
            self.minions[n].queue.push_back(request);
            self.working += 1;
            self.shared.under_way.fetch_add(1, Ordering::AcqRel);
            self.next_task(n);
        }
    }

    /// A return for a job that the master has not published; all of one round have the same jid and load.
    fn next_return(&mut self, n: usize) -> Request {
        if n == 0 || self.round.is_none() {
            let jid = if self.options.master_jids {
                "req".to_owned()
            } else {
                self.jids.next().to_string()
            };
            let load = halite_wire::map! {
                "cmd" => "_return", "success" => true, "return" => true, "retcode" => 0,
                "jid" => jid.as_str(), "fun" => "test.ping", "fun_args" => Vec::<Value>::new(),
            };
            self.round = Some((jid.into(), Arc::new(Load::new(&load))));
        }
        let (jid, load) = match &self.round {
            Some((jid, load)) => (jid.clone(), load.clone()),
            None => ("".into(), Arc::new(Load::new(&Map::new()))),
        };
        Request::new(load, ReplyCheck::Return(jid))
    }

    /// Sends the next request, if the minion is idle.
    pub(super) fn next_task(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        if minion.task.is_some() || minion.wants_sign_in || minion.pause.is_some() {
            return;
        }
        let Some(session) = &minion.session else {
            return;
        };
        let Some(mut item) = minion.queue.pop_front() else {
            return;
        };
        let now = Instant::now();
        item.since.get_or_insert(now);
        if let ReplyCheck::Event(events, number) = &item.check {
            events.sending(*number, now);
        }
        let (request, nonce) = session.seal_load(&minion.id, &minion.keys, &item.load);
        minion.task = Some(InFlight::Request(Box::new(item), nonce));
        self.send(n, &request);
    }

    /// Puts the current task back.
    pub(super) fn repeat(&mut self, n: usize) {
        self.pause(n);
        match self.minions[n].task.take() {
            Some(InFlight::SignIn(_)) => {
                self.signing_in -= 1;
                self.minions[n].wants_sign_in = true;
            }
            Some(InFlight::Request(item, _)) => self.retry(n, *item),
            None => {}
        }
    }

    fn retry(&mut self, n: usize, mut item: Request) {
        item.tries += 1;
        self.shared.repeated.fetch_add(1, Ordering::AcqRel);
        if item.tries < self.options.tries {
            self.minions[n].queue.push_front(item);
            return;
        }
        let why = format!(
            "a {} was not acknowledged in {} attempts",
            item.check.op().name(),
            item.tries
        );
        self.give_up(&item, why);
    }

    fn give_up(&mut self, item: &Request, why: String) {
        self.stats.error(why);
        self.shared.failed.fetch_add(1, Ordering::AcqRel);
        self.finish_work(item.check.op());
    }

    fn finish_work(&mut self, op: Op) {
        if !matches!(op, Op::Answer | Op::Back) {
            self.working -= 1;
            self.shared.under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Handles the reply to a request.
    pub(super) fn answered(&mut self, n: usize, mut item: Request, nonce: &str, body: &[u8]) {
        match self.check_reply(n, &mut item, nonce, body) {
            Ok(NextStep::Done) => self.done(n, &item),
            Ok(NextStep::Ask(load)) => {
                self.record_latency(&item, Instant::now());
                let item = Request::new(load, item.check);
                self.minions[n].queue.push_front(item);
            }
            Err(SessionError::SignInAgain) => {
                self.stats
                    .note("requests answered with a wish for a new sign-in");
                self.want_sign_in(n);
                self.retry(n, item);
            }
            Err(error) => self.give_up(&item, error.to_string()),
        }
    }

    fn check_reply(
        &mut self,
        n: usize,
        item: &mut Request,
        nonce: &str,
        body: &[u8],
    ) -> Result<NextStep, SessionError> {
        let minion = &mut self.minions[n];
        let session = minion.session.as_ref().ok_or(SessionError::SignInAgain)?;
        match &mut item.check {
            ReplyCheck::Answer(_) | ReplyCheck::Return(_) => match session.open(nonce, body)? {
                Value::Nil => Ok(NextStep::Done),
                _ => SessionError::wrong("the answer to a return is not empty"),
            },
            ReplyCheck::Event(..) | ReplyCheck::Back => match session.open(nonce, body)? {
                Value::Nil => Ok(NextStep::Done),
                _ => SessionError::wrong("the answer to an event is not empty"),
            },
            ReplyCheck::Pillar(pillars) => {
                let pillar = session.open_pillar(&minion.keys, nonce, body)?;
                pillars.check(&pillar, &mut minion.pillar)?;
                Ok(NextStep::Done)
            }
            ReplyCheck::File(fetch, _) => {
                let next = fetch.answer(&session.open(nonce, body)?)?;
                Ok(next.map_or(NextStep::Done, NextStep::Ask))
            }
        }
    }

    /// A piece of work is done.
    fn done(&mut self, n: usize, item: &Request) {
        let (op, now) = (item.check.op(), Instant::now());
        if op == Op::Back {
            return self.reconnected(n, now);
        }
        self.record_latency(item, now);
        let jid = match &item.check {
            ReplyCheck::Answer(job) => Some(job.str("jid").unwrap_or_default().into()),
            ReplyCheck::Return(jid) => Some(jid.clone()),
            ReplyCheck::File(fetch, begun) if fetch.portion() == FetchMode::Whole => {
                self.stats.done(Op::File, now.duration_since(*begun));
                None
            }
            _ => None,
        };
        if let (Some(list), Some(jid)) = (&self.shared.acknowledged, &jid) {
            let id = &self.minions[n].id;
            let written = list.lock().map(|mut list| writeln!(list, "{jid} {id}"));
            if let Ok(Err(e)) = written {
                self.stats
                    .error(format!("the list of acknowledged returns: {e}"));
            }
        }
        if self.options.record
            && let Some(jid) = jid
            && let Ok(mut record) = self.shared.record.lock()
        {
            record.push(Acknowledged {
                jid,
                id: self.minions[n].id.clone(),
                at: now,
            });
        }
        let counter = if op == Op::Answer {
            &self.shared.answered
        } else {
            &self.shared.finished
        };
        counter.fetch_add(1, Ordering::AcqRel);
        self.finish_work(op);
    }

    /// Records the latency of a correctly answered request.
    fn record_latency(&mut self, item: &Request, now: Instant) {
        let reference = matches!(&item.check, ReplyCheck::File(fetch, _) if fetch.portion() == FetchMode::Reference);
        if !reference {
            let took = item.since.map(|s| now.duration_since(s));
            self.stats.done(item.check.op(), took.unwrap_or_default());
        }
    }
}
