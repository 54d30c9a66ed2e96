//! The REST service of a master, compatible with Salt's `salt-api` (rest_cherrypy).
//!
//! One role of the master, `api`, or the daemon `halite-api`. It has no rights of its own: every command goes to `ret_port` with the
//! credentials that the client sent or the token of its session, and the workers decide; `master` has the few things that it
//! asks for itself. `routes` has all paths; [`service`] decides who may use them, `handlers`
//! answer, with [`body`] read from what clients send, [`answer`] written as they ask for it, [`session`]s and [`lowstate`]s between
//! them. `login` and `oidc` begin sessions. [`events`] follows the bus; `stream` and `socket` tell it. `files` are those of the console and of others.

pub mod answer;
mod attempt;
pub mod body;
pub mod events;
mod files;
mod handlers;
mod limits;
mod login;
pub mod lowstate;
mod master;
mod oidc;
mod openapi;
mod request;
mod role;
mod routes;
pub mod service;
pub mod session;
mod socket;
mod stream;
mod tls;

use halite_config::{ApiConfig, MasterConfig};
use halite_master::roles::Roles;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;

/// The role's name.
pub const API: &str = "api";

/// Runs the role; `None` if it is another one.
pub fn run_role(role: &str, config: &MasterConfig) -> Option<Result<(), ExitError>> {
    let api = config.api().filter(|_| role == API)?;
    let stop = StopFlag::install().map_err(ExitError::from);
    Some(stop.and_then(|stop| {
        let roles = Roles::inherited();
        role::run(config, &api, &stop, &|| roles.ready(), &mut || {})
    }))
}

/// Serves as a daemon of its own, beside the master. `ready` is called when the port is bound, `alive` five times a second.
///
/// # Errors
/// The port cannot be bound.
pub fn serve(
    config: &MasterConfig,
    api: &ApiConfig,
    stop: &StopFlag,
    ready: &dyn Fn(),
    alive: &mut dyn FnMut(),
) -> Result<(), ExitError> {
    role::run(config, api, stop, ready, alive)
}
