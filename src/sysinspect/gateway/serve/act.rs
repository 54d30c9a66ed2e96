//! Carries out what sessions and jobs have decided.

use super::super::dialect::{NO_CYCLE, Outbound, To};
use super::super::grains::grains;
use super::super::jobs::Step;
use super::super::session::{Action, ConnId};
use super::{Server, minion};
use crate::wire::{MachineId, frame, unsupported_version};
use halite_gateway::writer::Task;
use halite_wire::{Map, Value};
use std::time::Instant;

impl Server {
    pub(super) fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(conn, id, message) => self.send(conn, &id, &message, NO_CYCLE),
                Action::Refuse(conn) => {
                    let text = "this master speaks sysinspect's protocol up to 2026-03, without the secure transport";
                    if let Ok(frame) =
                        frame::wrap(&unsupported_version(text), self.settings.max_frame)
                    {
                        self.queue(conn, &frame);
                    }
                }
                Action::Close(conn) => {
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.close(Instant::now());
                    }
                    self.flush(conn);
                }
                Action::Came(id, address) => {
                    log::info!("the sysinspect minion {id} has connected from {address}");
                    self.presence_changed = true;
                    let conn = self.sessions.find(id.as_str()).map(|(conn, ..)| conn);
                    if let Some(peer) = conn.and_then(|conn| self.peers.get_mut(&conn)) {
                        peer.allow(self.settings.max_frame);
                    }
                    // Minions of E1 never send their traits; others do in a moment.
                    if let Some(minion) = minion(&id)
                        && self.minions.version(&minion).is_none()
                    {
                        let grains = grains(id.as_str(), &Map::new());
                        self.writer.push(Task::Grains(minion, grains));
                    }
                    self.started(&id);
                }
                Action::Left(id) => {
                    log::info!("the sysinspect minion {id} has disconnected");
                    self.presence_changed = true;
                    self.jobs.disconnected(&id);
                }
                Action::Inbound(id, heard) => {
                    let steps = self.jobs.receive(&id, heard);
                    self.run_steps(steps);
                }
                Action::Traits(id, traits) => {
                    if let Some(minion) = minion(&id) {
                        let grains = grains(id.as_str(), &traits);
                        self.writer.push(Task::Grains(minion, grains));
                    }
                }
            }
        }
    }

    /// Fires the events of a minion that has started.
    fn started(&self, id: &MachineId) {
        for tag in ["minion_start".to_owned(), format!("salt/minion/{id}/start")] {
            let data = halite_wire::map! {
                "id" => id.as_str(), "cmd" => "_minion_event", "pretag" => Value::Nil,
                "data" => format!("Minion {id} started"), "tag" => tag.as_str(),
            };
            self.writer.push(Task::Fire(tag, data));
        }
    }

    pub(super) fn run_steps(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send(id, cycle, message) => {
                    if let Some((conn, ..)) = self.sessions.find(id.as_str()) {
                        self.send(conn, &id, &message, &cycle);
                    }
                }
                Step::Return(id, jid, load) => {
                    if let Some(id) = minion(&id) {
                        self.writer.push(Task::Return(id, jid, load));
                    }
                }
                Step::Unregister(id, jid, load) => {
                    if let Some(minion) = minion(&id) {
                        self.writer.push(Task::Unregister(minion.clone()));
                        self.writer.push(Task::Return(minion, jid, load));
                    }
                    let actions = self.sessions.dismiss(&id);
                    self.perform(actions);
                }
            }
        }
    }

    fn send(&mut self, conn: ConnId, id: &MachineId, message: &Outbound, cycle: &str) {
        let Some((dialect, session)) = self.sessions.dialect(conn) else {
            return;
        };
        let to = To {
            id,
            session,
            dialect,
            master_key: &self.master_key,
        };
        match message.frame(&to, cycle) {
            Ok(frame) => self.queue(conn, &frame),
            Err(e) => log::error!("a message to {id} cannot be sent: {e}"),
        }
    }
}
