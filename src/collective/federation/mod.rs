//! The federation broker: forwards requests of clients in one NATS network to nodes in another, and their replies back.
//!
//! Any number of brokers with the same name share the work by queue groups. They are stateless, since all that a reply needs
//! is in its headers. [`rules`] decides, this module has the two connections. A broker that has lost one side leaves the
//! group of the other, so that messages go to brokers that can forward them.

pub mod rules;
mod stats;

use crate::broker::Unsent;
use crate::broker::link::{Link, LinkEvent, LinkOptions, Listener, Outgoing};
use crate::wire::subjects::Side;
use halite_config::FederationConfig;
use halite_sys::debug_report;
use halite_sys::service::Service;
use halite_sys::signals::StopFlag;
use halite_sys::time::unix_now;
use rules::{Naming, Rejection, Rules, Via};
use stats::Counters;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// How often the loop checks for signals.
const LOOK: Duration = Duration::from_millis(100);
/// Each reason for dropping messages is logged at most once in this time.
const QUIET: Duration = Duration::from_secs(10);

struct Broker {
    rules: Rules,
    keep: Duration,
    federation: OnceLock<Link>,
    collective: OnceLock<Link>,
    counters: Counters,
}

fn other(side: Side) -> Side {
    match side {
        Side::Federation => Side::Collective,
        Side::Collective => Side::Federation,
    }
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Federation => "federation",
        Side::Collective => "collective",
    }
}

impl Broker {
    fn link(&self, side: Side) -> Option<&Link> {
        match side {
            Side::Federation => self.federation.get(),
            Side::Collective => self.collective.get(),
        }
    }

    /// One line about which sides are connected.
    fn status(&self) -> String {
        let both = [Side::Federation, Side::Collective];
        let mut missing = both.iter().filter(|side| !self.counters.is_up(**side));
        match (missing.next(), missing.next()) {
            (None, _) => "connected to both sides".into(),
            (Some(one), None) => format!("no connection to the {}", name(*one)),
            _ => "connecting to both sides".into(),
        }
    }

    fn server(&self, side: Side) -> String {
        self.link(side).map(Link::server).unwrap_or_default()
    }

    fn link_event(&self, side: Side, event: LinkEvent) {
        match event {
            LinkEvent::Message(_, payload) => self.message(side, payload),
            LinkEvent::Up(server) => {
                log::info!("connected to the {}: {server}", name(side));
                self.counters.up(side, true);
                self.join_group(other(side));
            }
            LinkEvent::Down(why) => {
                log::warn!("no connection to the {}: {why}", name(side));
                self.counters.up(side, false);
                if let Some(link) = self.link(other(side)) {
                    link.unsubscribe(&self.rules.subject(other(side)));
                }
            }
            LinkEvent::Tick => self.counters.tick(side),
        }
    }

    /// Joins the group of a side, if the other side is connected.
    fn join_group(&self, side: Side) {
        if self.counters.is_up(other(side))
            && let Some(link) = self.link(side)
        {
            link.subscribe(&self.rules.subject(side), Some(&self.rules.group(side)));
        }
    }

    fn message(&self, side: Side, payload: &[u8]) {
        self.counters.received(side);
        let (from, to) = (self.server(side), self.server(other(side)));
        let via = Via {
            from: &from,
            to: &to,
        };
        let onward = match self.rules.pass(side, payload, via) {
            Ok(onward) => onward,
            Err(reason) => return self.reject(side, &reason),
        };
        let count = onward.subjects.len();
        let item = Outgoing {
            subjects: onward.subjects,
            reply: None,
            payload: onward.packet.to_json(),
            keep: self.keep,
        };
        let Some(link) = self.link(other(side)) else {
            return;
        };
        match link.publish(vec![item]) {
            Ok(()) => self.counters.sent(other(side), count),
            Err(why) => {
                let words = match why {
                    Unsent::Full => "the send queue is full".to_owned(),
                    Unsent::TooLarge(most) => format!("servers accept at most {most} bytes"),
                    Unsent::Forbidden => "its subject is forbidden".to_owned(),
                };
                if self.counters.dropped(side) {
                    log::warn!("a message from the {} is dropped: {words}", name(side));
                }
            }
        }
    }

    fn reject(&self, side: Side, reason: &Rejection) {
        if self.counters.turned(side, reason) {
            log::warn!(
                "a message from the {} is not forwarded: {reason}",
                name(side)
            );
        }
    }

    fn publish_stats(&self) {
        let payload = self.stats().to_string().into_bytes();
        for side in [Side::Federation, Side::Collective] {
            let Some(link) = self.link(side).filter(|_| self.counters.is_up(side)) else {
                continue;
            };
            let item = Outgoing {
                subjects: vec![self.rules.stats_subject()],
                reply: None,
                payload: payload.clone(),
                keep: Duration::from_secs(5),
            };
            if link.publish(vec![item]).is_err() {
                log::debug!("statistics dropped: the send queue is full");
            }
        }
    }

    fn stats(&self) -> serde_json::Value {
        let of = |side| {
            let link = self.link(side);
            stats::Connection {
                server: self.server(side),
                source: self.rules.subject(side),
                figures: link.map(Link::figures).unwrap_or_default(),
            }
        };
        let (federation, collective) = (of(Side::Federation), of(Side::Collective));
        self.counters.report(&self.rules, &federation, &collective)
    }
}

fn listener(broker: &Arc<Broker>, side: Side) -> Listener {
    // Weak, because the broker owns the links.
    let broker: Weak<Broker> = Arc::downgrade(broker);
    Arc::new(move |event| {
        if let Some(broker) = broker.upgrade() {
            broker.link_event(side, event);
        }
    })
}

fn options(config: &FederationConfig, side: Side) -> LinkOptions {
    let name = format!("{}:{}", config.cluster, config.instance);
    match side {
        Side::Federation => LinkOptions {
            servers: config.federation_servers.clone(),
            user: config.federation_user.clone(),
            password: config.federation_password.clone(),
            tls: config.federation_tls,
            ca: config.federation_tls_ca.clone(),
            certificate: config.federation_tls_cert.clone(),
            key: config.federation_tls_key.clone(),
            name,
        },
        Side::Collective => LinkOptions {
            servers: config.collective_servers.clone(),
            user: config.collective_user.clone(),
            password: config.collective_password.clone(),
            tls: config.collective_tls,
            ca: config.collective_tls_ca.clone(),
            certificate: config.collective_tls_cert.clone(),
            key: config.collective_tls_key.clone(),
            name,
        },
    }
}

/// Runs until stopped. Reports to the service manager which sides are connected, and feeds its watchdog as long as both
/// connections make progress.
///
/// # Errors
/// There can never be a connection, or the port for statistics cannot be bound.
pub fn run(config: &FederationConfig, stop: &StopFlag, service: &mut Service) -> io::Result<()> {
    let broker = Arc::new(Broker {
        rules: Rules {
            cluster: config.cluster.clone(),
            instance: config.instance.clone(),
            naming: match config.naming.as_str() {
                "seed" => Naming::Seed,
                _ => Naming::Deployed,
            },
            record_route: config.record_route,
        },
        keep: Duration::from_secs(config.keep),
        federation: OnceLock::new(),
        collective: OnceLock::new(),
        counters: Counters::new(unix_now(), QUIET),
    });
    for side in [Side::Federation, Side::Collective] {
        let link = Link::open(options(config, side), listener(&broker, side))?;
        let place = match side {
            Side::Federation => &broker.federation,
            Side::Collective => &broker.collective,
        };
        // Each is set only once, here.
        let _ = place.set(link);
    }
    // One side may have come up before the other link existed.
    broker.join_group(Side::Federation);
    broker.join_group(Side::Collective);
    let source = broker.clone();
    let page = stats::StatsPort::open(config.stats_port, move || source.stats().to_string())?;
    let interval = Duration::from_secs(config.stats_interval);
    let (mut next, mut waited_for) = (Instant::now() + interval, true);
    while !stop.is_set() {
        std::thread::sleep(LOOK);
        let both = [Side::Federation, Side::Collective];
        if waited_for && both.iter().all(|side| broker.counters.is_up(*side)) {
            waited_for = false;
            log::info!("connected to both sides");
        }
        service.status(&broker.status());
        debug_report::write_if_asked("halite-federation-broker", || {
            format!("  {}\n", broker.status())
        });
        service.beat(
            both.iter()
                .all(|side| broker.counters.makes_progress(*side)),
        );
        if !interval.is_zero() && Instant::now() >= next {
            next += interval;
            broker.publish_stats();
        }
    }
    service.stopping();
    // First stop receiving, then send what was received.
    let within = Duration::from_secs(config.drain_timeout);
    for side in [Side::Federation, Side::Collective] {
        let Some(link) = broker.link(side) else {
            continue;
        };
        if !link.drain(within) {
            log::warn!("messages from the {} took too long", name(side));
        }
    }
    drop(page);
    for side in [Side::Federation, Side::Collective] {
        if let Some(link) = broker.link(side) {
            link.close();
        }
    }
    Ok(())
}
