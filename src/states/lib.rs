//! States on the minion: the functions `state.*`, their runner, and the state modules.
//!
//! The compiler and the order of calls are in `halite_render::state`, which orchestration on the master uses as well.
//! `runner` makes the calls with this minion's functions, `source` renders its SLS files, `top` reads its top
//! files. State modules are tables in `modules`.

pub mod declare;
mod functions;
mod modules;
mod runner;
mod slots;
mod source;
mod top;

pub use modules::{functions as state_functions, watching};
pub use runner::{MinionStates, Progress, on_result};
pub use slots::AllowedSlots;

/// Makes the functions `state.*` known; call it once, at the start of a program.
pub fn install() {
    halite_modules::execution::install(functions::MODULES);
}
