//! Real peers that are not Salt: MCollective, RabbitMQ, mosquitto, Ruby, sysinspect's protocol.

mod arena;
mod brokers;
mod collective;
mod collective_filter;
mod collective_inward;
mod collective_security;
mod ruby;
mod sysinspect;
