//! Files of modules: where they may come from, and how they are fetched.

mod address;
mod fetch;
mod limit;
mod salt;
mod web;

pub(super) use address::{Address, Sources};
pub(super) use fetch::Fetcher;
pub(super) use salt::Salt;
