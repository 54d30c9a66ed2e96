//! Runner and wheel functions beside stock Salt: every command starts a Python program.

mod common;

#[path = "runner/peer.rs"]
mod peer;
#[path = "runner/saltutil.rs"]
mod saltutil;
#[path = "runner/stock.rs"]
mod stock;
