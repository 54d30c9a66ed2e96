//! The command line tools: how results and messages are shown.

pub mod output;
