//! Sockets: the event bus on the host and, between hosts, requests and publications.

mod attempts;
pub mod bus;
mod door;
mod outbox;
pub mod publish;
mod sink;
pub mod sockets;
mod stream;
mod wake;

use std::sync::{Mutex, MutexGuard, PoisonError};

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is guarded is whole between any two statements.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
