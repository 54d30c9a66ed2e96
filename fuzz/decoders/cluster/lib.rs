//! Decoders of `halite-cluster`.

// Callers of the rest are not here.
#![allow(dead_code, unused_imports)]

#[path = "../../../src/cluster/claims.rs"]
pub mod claims;
#[path = "../../../src/cluster/digest.rs"]
pub mod digest;
#[path = "../../../src/cluster/letter.rs"]
pub mod letter;
#[path = "../../../src/cluster/members.rs"]
pub mod members;
#[path = "../../../src/cluster/pieces.rs"]
pub mod pieces;
#[path = "../../../src/cluster/presence/mod.rs"]
pub mod presence;
#[path = "../../../src/cluster/progress.rs"]
pub mod progress;
#[path = "../../../src/cluster/record.rs"]
pub mod record;
#[path = "../../../src/cluster/seal.rs"]
pub mod seal;

/// What is told about jobs.
#[path = "../../../src/cluster/jobs"]
pub mod jobs {
    pub mod record;
}
