//! Sockets: the event bus on the host and, between hosts, requests and publications.

mod acceptor;
pub mod attempts;
mod balancers;
pub mod bounded;
pub mod bus;
pub mod client;
mod connections;
mod framed;
pub mod front;
pub mod http;
mod listen;
mod openssl_error;
mod outbox;
pub mod poll;
pub mod publish;
pub mod requester;
pub mod sockets;
pub mod stream;
pub mod subscription;
mod tcp_acceptor;
pub mod tls;
pub mod wake;
pub mod zmtp;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a thread that held it has panicked.
pub fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded data is consistent between any two statements.
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
