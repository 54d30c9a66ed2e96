//! Rendering of SLS files, pillar and managed files: the template engine of Salt and what stands
//! around it.

pub mod jinja;
pub mod state;
