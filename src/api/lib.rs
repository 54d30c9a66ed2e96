//! The REST service of a master, compatible with Salt's `salt-api` (rest_cherrypy).
//!
//! One role of the master, `api`. It has no rights of its own: every command goes to `ret_port` with the credentials that the client
//! sent or the token of its session, and the workers decide. `routes` has all paths; [`service`] decides who may use them, `handlers`
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

use halite_config::MasterConfig;
use halite_master::roles::Roles;
use halite_sys::exit::ExitError;
use halite_sys::signals::StopFlag;
use halite_wire::Value;
use std::io;
use std::path::Path;

/// The role's name.
pub const API: &str = "api";

/// What the gateway for ARENA knows, for a path below `/api`: below this `cachedir`; `None` if there is nothing.
pub type ArenaQuery = fn(cachedir: &Path, path: &[&str]) -> io::Result<Option<Value>>;

/// Runs the role; `None` if it is another one.
pub fn run_role(
    role: &str,
    config: &MasterConfig,
    arena: ArenaQuery,
) -> Option<Result<(), ExitError>> {
    let api = config.api().filter(|_| role == API)?;
    let stop = StopFlag::install().map_err(ExitError::from);
    Some(stop.and_then(|stop| role::run(config, &api, arena, &Roles::inherited(), &stop)))
}
