//! Keepalives (reference, section 4.3).

use super::{Act, Figures, Registration, Session};
use crate::wire::{Body, Child, Keepalive, Object, Place, Uuid};
use std::time::{Duration, Instant, SystemTime};

impl Session {
    /// Sends the keepalives that are due.
    pub(super) fn send_keepalives(
        &mut self,
        now: Instant,
        figures: &dyn Fn(&Uuid) -> Option<Figures>,
    ) -> Vec<Act> {
        if !self.up {
            return Vec::new();
        }
        let mut acts = Vec::new();
        for at in 0..self.runtimes.len() {
            let Some(runtime) = self.runtimes.get_mut(at) else {
                continue;
            };
            let due = runtime.beat.is_some_and(|beat| beat <= now);
            if !due || runtime.registration != Registration::Confirmed || runtime.leaving {
                continue;
            }
            // From now, not from when it was due: after a long pause one keepalive is enough.
            runtime.beat = Some(now + runtime.interval);
            let (who, apis) = (runtime.offer.who.clone(), runtime.offer.apis.clone());
            let dialect = runtime.dialect;
            let body = Body::Keepalive(Box::new(Keepalive {
                uuid: who.uuid.clone(),
                name: Some(who.name),
                apis: Some(apis),
                children: Some(self.children(at, now, figures)),
                partial: false,
                extra: Object::new(),
            }));
            let place = Place::Keepalive(Some(who.uuid.clone()));
            let beat = self.publication(place, dialect, body, Some(&who.uuid));
            acts.push(Act::Publish(beat));
        }
        acts
    }

    /// The modules of a runtime. A module whose file is still being fetched is included if that takes longer than the
    /// interval between keepalives; otherwise it would be taken for lost.
    fn children(
        &mut self,
        at: usize,
        now: Instant,
        figures: &dyn Fn(&Uuid) -> Option<Figures>,
    ) -> Vec<Child> {
        let interval = self.runtimes.get(at).map_or(Duration::ZERO, |r| r.interval);
        let own = self.modules.iter_mut().filter(|(_, m)| m.runtime == at);
        let told = own.filter(|(_, m)| m.runs() || now.duration_since(m.since) >= interval);
        told.map(|(uuid, module)| {
            let used = figures(uuid).unwrap_or_default();
            let spent = used.cpu.saturating_sub(module.cpu).as_secs_f64();
            let passed = now.duration_since(module.since).as_secs_f64();
            (module.cpu, module.since) = (used.cpu, now);
            Child {
                uuid: uuid.clone(),
                active: used.active.and_then(timestamp),
                cpu_percent: if passed > 0.0 {
                    100.0 * spent / passed
                } else {
                    0.0
                },
                memory: used.memory,
                extra: Object::new(),
            }
        })
        .collect()
    }
}

/// A time in the format of messages: RFC 3339 in UTC, with milliseconds.
pub(super) fn timestamp(time: SystemTime) -> Option<String> {
    let timestamp = jiff::Timestamp::try_from(time).ok()?;
    Some(format!("{timestamp:.3}"))
}
