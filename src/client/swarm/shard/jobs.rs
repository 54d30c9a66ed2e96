//! Publications: decrypted once for all minions of a shard, answered by those that match.

use super::super::answer::{Facts, answer, is_common, target};
use super::super::minion::{Minion, ReplyCheck, Request};
use super::super::session::{Load, Publication, SessionError};
use super::Shard;
use halite_target::Target;
use halite_wire::Map;
use std::collections::VecDeque;
use std::sync::Arc;

/// Number of decrypted publications that a shard caches: in a flood, minions receive them at different times.
const KEPT: usize = 8;

/// A publication with everything that is the same for all minions of one master.
struct Opened {
    bytes: Vec<u8>,
    key: String,
    publication: Publication,
    target: Option<Target>,
    job: Arc<Map>,
    jid: Option<Arc<str>>,
    /// The answer, if it is the same for all.
    answer: Option<Arc<Load>>,
}

/// The most recent decrypted publications.
#[derive(Default)]
pub(super) struct PublicationCache(VecDeque<Opened>);

impl PublicationCache {
    /// The decrypted publication, cached if possible.
    fn open(&mut self, minion: &Minion, body: &[u8]) -> Result<&Opened, SessionError> {
        let session = minion.session.as_ref().ok_or(SessionError::SignInAgain)?;
        let known = self
            .0
            .iter()
            .position(|o| o.bytes == body && o.key == session.key_text());
        let at = match known {
            Some(at) => at,
            None => {
                let opened = Opened::new(session.publication(body)?, body, session.key_text());
                self.0.truncate(KEPT - 1);
                self.0.push_front(opened);
                0
            }
        };
        self.0
            .get(at)
            .ok_or_else(|| SessionError::Wrong("a publication is not cached".into()))
    }
}

impl Opened {
    fn new(publication: Publication, body: &[u8], key: &str) -> Opened {
        let job = Arc::new(publication.load.clone());
        Opened {
            bytes: body.to_vec(),
            key: key.to_owned(),
            target: target(&job),
            jid: job.str("jid").map(Arc::from),
            answer: is_common(&job).then(|| Arc::new(Load::new(&answer(&job, &|_| None)))),
            job,
            publication,
        }
    }
}

impl Shard {
    /// Handles a publication received by minion `n`.
    pub(super) fn publication(&mut self, n: usize, body: Vec<u8>) {
        if !self.open(n, &body) {
            self.stats.note("publications under a new key");
            self.minions[n].held.push(body);
            self.want_sign_in(n);
        }
        self.next_task(n);
    }

    /// Decrypts and answers a publication; returns `false` if it needs another key.
    pub(super) fn open(&mut self, n: usize, body: &[u8]) -> bool {
        let minion = &mut self.minions[n];
        let opened = match self.opened.open(minion, body) {
            Ok(opened) => opened,
            Err(SessionError::SignInAgain) => return false,
            Err(fault) => {
                self.stats.error(fault.to_string());
                return true;
            }
        };
        let newer = minion
            .session
            .as_mut()
            .is_some_and(|s| s.take_serial(&opened.publication));
        if !newer {
            // A master that a minion has come to may send what another one has sent it already.
            match self.options.masters.len() {
                1 => self.stats.error("a publication came twice or out of order"),
                _ => self.stats.note("publications seen twice"),
            }
            return true;
        }
        let facts = Facts {
            id: &minion.id,
            grains: &self.grains,
        };
        if !opened.target.as_ref().is_some_and(|t| t.matches(&facts)) {
            return true;
        }
        let Some(jid) = &opened.jid else {
            self.stats.error("a publication has no jid");
            return true;
        };
        if !minion.new_jid(jid) {
            self.stats.note("jobs seen twice");
            return true;
        }
        let load = match &opened.answer {
            Some(load) => load.clone(),
            None => Arc::new(Load::new(&answer(&opened.job, &|jid| minion.running(jid)))),
        };
        let item = Request::new(load, ReplyCheck::Answer(opened.job.clone()));
        minion.queue.push_back(item);
        true
    }
}
