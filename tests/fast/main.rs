//! Real programs of halite, each test in seconds.

mod access;
mod bad_input;
mod between_minions;
mod bus;
mod collective_brokers;
mod command_line;
mod cve;
mod federation_broker;
mod gateway_arena;
mod gateway_collective;
mod gateway_collective_inward;
mod gateway_sysinspect;
mod key;
mod logs;
mod metrics;
mod minion;
mod modules;
mod mqtt;
mod pillar;
mod pressure;
mod reactor;
mod runner;
mod runtime;
mod service;
mod stomp_connector;
mod watch;
