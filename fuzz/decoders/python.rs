//! What users' Python sends.

#[path = "../../src/python/marshal.rs"]
pub mod marshal;
