//! The properties of a minion that targets match.

use halite_target::Subject;
use halite_wire::Map;
use std::sync::Arc;

/// Id, grains and pillar of the minion, for target matching.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// The id.
    pub id: String,
    /// The grains.
    pub grains: Arc<Map>,
    /// The pillar.
    pub pillar: Arc<Map>,
}

impl Subject for Identity {
    fn id(&self) -> &str {
        &self.id
    }

    fn grains(&self) -> &Map {
        &self.grains
    }

    fn pillar(&self) -> &Map {
        &self.pillar
    }
}
