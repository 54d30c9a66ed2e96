//! MCollective and Choria: the gateway, which makes a collective's servers minions and minions its nodes, and the
//! federation broker.

pub mod broker;
pub mod federation;
pub mod filter;
pub mod gateway;
pub mod ruby;
pub mod rubyre;
pub mod security;
pub mod stomp;
pub mod wire;
