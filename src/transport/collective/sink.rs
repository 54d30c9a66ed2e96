//! The way from a connector's threads into the queue of whoever listens.

use super::{Heard, Place, held};
use crate::wire::collective::{Packet, Refused};
use crossbeam_channel::{Sender, TrySendError};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Never waits: what finds no room is dropped and counted, but for the last word about the connection, which is kept.
pub(super) struct Sink {
    heard: Sender<Heard>,
    /// Whether there is a connection, where that could not be told yet.
    untold: Mutex<Option<Heard>>,
    dropped: AtomicU64,
}

impl Sink {
    pub(super) fn new(heard: Sender<Heard>) -> Sink {
        Sink {
            heard,
            untold: Mutex::default(),
            dropped: AtomicU64::new(0),
        }
    }

    pub(super) fn packet(&self, place: Option<Place>, packet: Packet) {
        self.tick();
        self.put(Heard::Packet(place, packet));
    }

    pub(super) fn refused(&self, refused: Refused) {
        self.tick();
        self.put(Heard::Refused(refused));
    }

    fn put(&self, heard: Heard) {
        if let Err(TrySendError::Full(_)) = self.heard.try_send(heard) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells [`Heard::Up`] or [`Heard::Down`], as soon as there is room.
    pub(super) fn state(&self, state: Heard) {
        *held(&self.untold) = Some(state);
        self.tick();
    }

    /// Tries once more to tell what could not be told.
    pub(super) fn tick(&self) {
        let mut untold = held(&self.untold);
        if let Some(state) = untold.take()
            && let Err(TrySendError::Full(state)) = self.heard.try_send(state)
        {
            *untold = Some(state);
        }
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::collective::PacketForm;

    #[test]
    fn packets_without_room_are_counted_and_the_last_state_waits() {
        let (to, from) = crossbeam_channel::bounded(1);
        let sink = Sink::new(to);
        let packet = || Packet::new(PacketForm::Choria, vec![1], "a");
        sink.packet(None, packet());
        sink.packet(None, packet());
        sink.state(Heard::Up("a".into()));
        sink.state(Heard::Down("b".into()));
        assert_eq!(sink.dropped(), 1);
        assert!(matches!(from.try_recv(), Ok(Heard::Packet(None, _))));
        sink.tick();
        assert!(matches!(from.try_recv(), Ok(Heard::Down(why)) if why == "b"));
        sink.tick();
        assert!(from.try_recv().is_err());
    }
}
