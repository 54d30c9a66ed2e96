//! Sockets: the event bus on the host and, between hosts, requests and publications.

pub mod bus;
pub mod collective;
pub mod sockets;
