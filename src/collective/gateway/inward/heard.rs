//! Processes a request: replay guard, filter of each node, agent.

use super::agents::ddl::RpcError;
use super::agents::{self, Prepared, halite};
use super::jobs::Begin;
use super::nodes::Node;
use super::question::Question;
use super::{Act, Due, Inward, Task, access, stats};
use crate::broker::Place;
use crate::gateway::act::Clock;
use crate::wire::{Form, Identity, Packet, Refused, Request};
use std::sync::Arc;

impl Inward {
    /// Processes a genuine request with its place, form and packet. Replies come out of
    /// [`Inward::answer`].
    ///
    /// # Errors
    /// Why no node replies.
    pub fn handle_request(
        &mut self,
        place: Option<&Place>,
        request: &Request,
        form: Form,
        packet: &Packet,
        now: Clock,
    ) -> Result<Vec<Act>, Refused> {
        self.stats.requests += 1;
        let to = match self.doors.pass(place, request, now) {
            Ok(to) => to,
            Err(why) => {
                self.refused(place, &why);
                return Err(why);
            }
        };
        let single = to.is_some();
        let nodes = self.addressed(to);
        let (asked, filtered) = self.filter(request, form, nodes);
        self.stats.passed += asked.len() as u64;
        self.stats.filtered += filtered as u64;
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let Some((prepared, wanted)) = agents::prepare(request.agent.as_str(), &request.body)
        else {
            return malformed(agents::NO_AGENT);
        };
        let Some(question) = Question::new(request, form, packet, prepared) else {
            return if wanted {
                malformed("it has no reply address")
            } else {
                Ok(Vec::new())
            };
        };
        // Before anything runs: whoever wants no reply could otherwise have their jobs run unseen.
        let federated = packet.federation.is_some();
        if !self.settings.bus.may_answer(&question.reply_to, federated) {
            return malformed("its reply-to is not a place for replies");
        }
        let question = Arc::new(question);
        let Prepared::Run(action, run) = &question.prepared else {
            if wanted {
                let due = |node| Due {
                    question: question.clone(),
                    node,
                    body: None,
                };
                self.owe(asked.into_iter().map(due).collect::<Vec<_>>());
            }
            return Ok(Vec::new());
        };
        let refuse = |nodes: Vec<Arc<Node>>, wrong: RpcError| -> Vec<Due> {
            let due = |node| Due {
                question: question.clone(),
                node,
                body: Some(halite::nothing(action, None, wrong.clone())),
            };
            if wanted {
                nodes.into_iter().map(due).collect()
            } else {
                Vec::new()
            }
        };
        let mut acts = Vec::new();
        let access = &mut self.access;
        let (allowed, denied) =
            access.split_allowed(&question.caller, &run.fun, &run.arg, asked, &self.nodes);
        if !denied.is_empty() {
            self.stats.denied += denied.len() as u64;
            acts.push(Act::Do(Task::Refusal {
                caller: question.caller.to_string(),
                from: question.sender.to_string(),
                fun: run.fun.clone(),
                minions: denied.iter().map(|node| node.minion.to_string()).collect(),
            }));
            let due = refuse(denied, RpcError(1, access::REFUSED.to_owned()));
            self.owe(due);
        }
        if allowed.is_empty() {
            return Ok(acts);
        }
        if !self.jobs.room(allowed.len()) {
            let text = "too many jobs of the collective run already; try again later";
            let due = refuse(allowed, RpcError(5, text.to_owned()));
            self.owe(due);
            return Ok(acts);
        }
        let jid = self.clock.next().with_pid(std::process::id());
        let begin = Begin {
            question: &question,
            run,
            nodes: &allowed,
            wanted,
            single,
        };
        let (own, act) = self.jobs.begin(&begin, jid, now.at);
        self.stats.jobs += u64::from(own);
        acts.extend(act);
        acts.extend(self.jobs.over());
        Ok(acts)
    }

    /// The nodes that receive a request; each counts it.
    fn addressed(&mut self, to: Option<&Identity>) -> Vec<Arc<Node>> {
        let count = |tally: &mut stats::Tally| {
            tally.total = tally.total.wrapping_add(1);
            tally.validated = tally.validated.wrapping_add(1);
        };
        match to {
            None => {
                count(&mut self.stats.all);
                self.nodes.all().to_vec()
            }
            Some(identity) => {
                let node = self.nodes.get(identity);
                node.iter().for_each(|node| count(&mut node.tally()));
                node.into_iter().cloned().collect()
            }
        }
    }
}

/// The error for a genuine request that makes no sense.
fn malformed(what: &str) -> Result<Vec<Act>, Refused> {
    Err(Refused::Malformed(what.to_owned()))
}
