//! The gateway to MCollective and Choria. Outward, their servers are minions of this master; inward, this master's minions
//! are nodes of their collective.
//!
//! `outward` finds nodes, stores their facts as grains and runs jobs on them; `inward` answers for minions. Both decide
//! without sockets or disks: messages in, actions out. `serve.rs` carries the actions out, in the loop of all gateways
//! (`halite_gateway::frame`). The connector's threads belong to the broker, and `inward` has three (`inward::workers`)
//! for what it needs from disks, bus and master.
//!
//! Listens to `master_event_pub.ipc`, fires on `master_event_pull.ipc`, writes returns to the job log, grains to the
//! cache, keys to the key store. Below `cachedir/gateways/collective` it records the ids that registered here.
//!
//! When it fails: running requests are forgotten, and clients report their nodes as lost; the next process discovers
//! all nodes when it starts.

mod act;
mod echoes;
mod inward;
mod outward;
mod secure;
mod serve;

pub use inward::interface;

use crate::broker::open;
use act::Clock;
use halite_config::{CollectiveGateway, MasterConfig};
use halite_gateway::Gateway;
use halite_gateway::frame::{EXIT_CONFIG, Frame, Protocol};
use halite_sys::exit::ExitError;
use inward::Inward;
use inward::workers::Workers;
use outward::{Keys, Outward, Rules};
use serve::{Inner, Links, Server};

/// The registration of this gateway.
pub const GATEWAY: Gateway = Gateway {
    name: NAME,
    role: "gateway-collective",
    start,
    fault,
    runners: &[],
};
const NAME: &str = "collective";
/// Most messages of the broker queued for the loop; more are dropped and counted.
const HEARD: usize = 20_000;

/// Reports a key that cannot be read, or that other users can read.
fn fault(config: &MasterConfig) -> Option<String> {
    let wrong = secure::build(&config.collective_gateway()?).err()?;
    Some(format!("{wrong}; the collective is not reached"))
}

/// Connects to the brokers. An unavailable one is not an error: it is retried forever.
///
/// # Errors
/// A key cannot be read, or no broker can be reached with these settings.
fn start<'scope>(frame: &Frame<'scope, '_>) -> Result<Box<dyn Protocol + 'scope>, ExitError> {
    let config = frame.config;
    let settings = config
        .collective_gateway()
        .ok_or_else(|| ExitError::new(EXIT_CONFIG, "the option gateways has no collective"))?;
    let secure =
        secure::build(&settings).map_err(|e| ExitError::new(EXIT_CONFIG, e.to_string()))?;
    log::info!(
        "the collective knows this master as {}, which trusts {}",
        secure.security.caller(),
        secure.trusts
    );
    let outward = if settings.outward {
        Some(outward(frame, &settings, &secure)?)
    } else {
        None
    };
    let (says, heard) = crossbeam_channel::bounded(HEARD);
    let connector = open(&settings, secure.security.caller(), says)
        .map_err(|e| ExitError::new(EXIT_CONFIG, format!("gateways:collective: {e}")))?;
    let links = Links {
        connector,
        heard,
        writer: frame.writer.clone(),
        security: secure.security,
    };
    let inward = settings.inward.then(|| {
        let (workers, news) =
            Workers::start(frame.scope, config, frame.stores, &settings, frame.stop);
        let half = Inward::new(config, &settings, Clock::now());
        Inner {
            half,
            workers,
            news,
        }
    });
    Ok(Box::new(Server::new(&settings, links, outward, inward)))
}

fn outward(
    frame: &Frame,
    settings: &CollectiveGateway,
    secure: &secure::Secure,
) -> Result<Outward, ExitError> {
    let bad = |e: crate::wire::BadName| ExitError::new(EXIT_CONFIG, e.to_string());
    let rules = Rules::new(settings, secure.security.caller()).map_err(bad)?;
    let key = halite_master::master_key(frame.config)?.public();
    let writer = frame.writer.clone();
    let mut keys = Keys::new(frame.config, frame.stores, settings, key, writer);
    let known = keys.sweep()?;
    Ok(Outward::new(rules, Box::new(keys), &known, Clock::now()))
}
