//! Output of a module to a standard stream, collected into whole lines or the output of a short time.

use std::time::{Duration, Instant};

/// Bytes passed on at once.
pub(super) const PIECE: usize = 4 << 10;
/// How long an incomplete line waits for its end.
const PATIENCE: Duration = Duration::from_millis(50);

/// Output not passed on yet; at most [`PIECE`] bytes.
#[derive(Debug, Default)]
pub(super) struct Lines {
    held: Vec<u8>,
    /// Length up to the last newline.
    whole: usize,
    /// When the oldest byte was written.
    since: Option<Instant>,
}

impl Lines {
    /// Appends as much data as fits; returns how much that was.
    pub(super) fn push(&mut self, data: &[u8], now: Instant) -> usize {
        let room = PIECE.saturating_sub(self.held.len());
        let data = data.get(..room.min(data.len())).unwrap_or(data);
        if let Some(end) = data.iter().rposition(|b| *b == b'\n') {
            self.whole = self.held.len() + end + 1;
        }
        if !data.is_empty() {
            self.since.get_or_insert(now);
        }
        self.held.extend_from_slice(data);
        data.len()
    }

    /// How much to pass on now: whole lines, or everything once the buffer is full or has waited long enough.
    pub(super) fn due(&self, now: Instant) -> usize {
        let late = |since: Instant| now.saturating_duration_since(since) >= PATIENCE;
        if self.held.len() >= PIECE || self.since.is_some_and(late) {
            self.held.len()
        } else {
            self.whole
        }
    }

    /// Removes this many bytes from the front.
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> Vec<u8> {
        let taken: Vec<u8> = self.held.drain(..bytes.min(self.held.len())).collect();
        self.whole = self.whole.saturating_sub(taken.len());
        self.since = (!self.held.is_empty()).then_some(now);
        taken
    }

    /// Bytes in the buffer.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_due_and_their_rest_waits() {
        let now = Instant::now();
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\ntwo\nthr", now), 11);
        assert_eq!(lines.due(now), 8);
        assert_eq!(lines.take(8, now), b"one\ntwo\n");
        assert_eq!(lines.due(now), 0);
        assert_eq!(lines.due(now + PATIENCE), 3);
        lines.push(b"ee\n", now);
        assert_eq!(lines.due(now), 6);
    }

    #[test]
    fn a_long_line_is_cut_at_the_largest_piece() {
        let now = Instant::now();
        let mut lines = Lines::default();
        assert_eq!(lines.push(&[b'x'; PIECE + 10], now), PIECE);
        assert_eq!(lines.push(b"y", now), 0);
        assert_eq!(lines.due(now), PIECE);
        assert_eq!(lines.take(PIECE, now).len(), PIECE);
        assert_eq!(lines.len(), 0);
        assert_eq!(lines.due(now + PATIENCE), 0);
    }
}
