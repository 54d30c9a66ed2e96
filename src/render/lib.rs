//! Turns source files into data: YAML, JSON and Jinja through Salt's render pipeline, pillars, and the
//! compiler of states.

pub mod error;
pub mod ext_nodes;
pub mod files;
pub mod filter_by;
pub mod fleet;
pub mod functions;
pub mod gpg;
pub mod master_sls;
pub mod merge;
pub mod pillar;
pub mod pipeline;
pub mod python;
pub mod scene;
mod sls_renderer;
pub mod state;
pub mod template;
pub mod tops;
pub mod usage;
pub mod written_slots;

pub use error::RenderError;
pub use master_sls::MasterSls;
