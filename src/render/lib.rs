//! From sources to data: YAML, JSON and Jinja through Salt's render pipeline, and the pillar
//! that is made with it.

pub mod choose;
pub mod error;
pub mod files;
pub mod functions;
pub mod gpg;
pub mod local;
pub mod merge;
pub mod pillar;
pub mod pipeline;
pub mod state;
pub mod survey;
pub mod template;
mod variables;

pub use error::RenderError;
pub use local::LocalSls;
