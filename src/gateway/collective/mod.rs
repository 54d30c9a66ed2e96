//! Gateway: servers and clients of MCollective and Choria.

mod act;
mod inward;
