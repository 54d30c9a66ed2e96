//! What minions request on their own, and whether the answers are correct: no IO, no sockets.

pub mod events;
pub mod files;
pub mod pillar;

use events::Events;
use files::Files;
use pillar::Pillars;
use std::sync::Arc;

/// A kind of work that minions do in turn.
#[derive(Clone, Debug, Default)]
pub enum Work {
    /// Returns of jobs that the master may never have published.
    #[default]
    Returns,
    /// Pillars.
    Pillars(Arc<Pillars>),
    /// Files, or chunks of one.
    Files(Arc<Files>),
    /// Events.
    Events(Arc<Events>),
}
