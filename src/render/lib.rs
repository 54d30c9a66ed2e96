//! From sources to data: YAML, JSON and Jinja through Salt's render pipeline, and the pillar
//! that is made with it.

pub mod error;
pub mod files;
pub mod filter_by;
pub mod functions;
pub mod gpg;
pub mod master_sls;
pub mod merge;
pub mod pillar;
pub mod pipeline;
pub mod state;
pub mod template;
pub mod usage;
mod variables;

pub use error::RenderError;
pub use master_sls::MasterSls;
