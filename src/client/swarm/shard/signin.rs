//! Signing in: which minions, how many at a time, and handling of the reply.

use super::super::minion::InFlight;
use super::super::session::{SessionError, SignIn, SignInStep};
use super::super::stats::Op;
use super::Shard;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Shard {
    pub(super) fn want_sign_in(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        if minion.wants_sign_in || matches!(minion.task, Some(InFlight::SignIn(_))) {
            return;
        }
        minion.wants_sign_in = true;
        minion.sign_in_since = None;
        if minion.pause.is_none() {
            self.sign_in_queue.push_back(n);
        }
    }

    pub(super) fn start_sign_ins(&mut self) {
        while self.signing_in < self.options.sign_ins {
            let Some(n) = self.sign_in_queue.pop_front() else {
                return;
            };
            // During another task or a pause, the minion comes back to it later.
            if self.minions[n].wants_sign_in
                && self.minions[n].task.is_none()
                && self.minions[n].pause.is_none()
            {
                self.sign_in(n);
            }
        }
    }

    fn sign_in(&mut self, n: usize) {
        let minion = &mut self.minions[n];
        let (id, keys) = (&minion.id, &minion.keys);
        let (sign_in, request) = match &minion.session {
            Some(session) => SignIn::again(id, keys, session),
            None => SignIn::begin(id, keys, minion.pinned.as_deref(), minion.noise.as_ref()),
        };
        minion.wants_sign_in = false;
        minion.sign_in_since.get_or_insert_with(Instant::now);
        minion.task = Some(InFlight::SignIn(Box::new(sign_in)));
        self.signing_in += 1;
        self.send(n, &request);
    }

    pub(super) fn signed_in(&mut self, n: usize, sign_in: SignIn, body: &[u8]) {
        self.signing_in -= 1;
        let minion = &mut self.minions[n];
        let mut session = match sign_in.step(minion.pinned.as_ref(), body) {
            Ok(SignInStep::Done(session)) => *session,
            Ok(SignInStep::Send(sign_in, request)) => {
                minion.task = Some(InFlight::SignIn(sign_in));
                self.signing_in += 1;
                return self.send(n, &request);
            }
            Err(fault) => {
                match fault {
                    SessionError::Pending => self.stats.note("sign-ins that wait for acceptance"),
                    other => self.stats.error(other.to_string()),
                }
                minion.wants_sign_in = true;
                return self.pause(n);
            }
        };
        let took = minion
            .sign_in_since
            .take()
            .map(|s| s.elapsed())
            .unwrap_or_default();
        let op = if minion.pinned.is_some() {
            Op::SignInAgain
        } else {
            Op::SignIn
        };
        minion.pinned.get_or_insert_with(|| session.master.clone());
        minion.noise = session.noise;
        if let Some(earlier) = &minion.session {
            session.follow(earlier);
        }
        minion.session = Some(session);
        self.stats.done(op, took);
        if op == Op::SignInAgain {
            self.shared.again.fetch_add(1, Ordering::AcqRel);
        }
        self.subscribe(n);
        self.count_ready(n);
        for body in std::mem::take(&mut self.minions[n].held) {
            if !self.open(n, &body) {
                self.stats
                    .error("a publication cannot be opened after a new sign-in");
            }
        }
    }
}
