//! The minion daemon, and the processes of its jobs. In packages it is `halite-call`, too.

use halite::cli::{call, minion};

fn main() {
    std::process::exit(halite::cli::run_as(&[
        ("halite-minion", minion::run),
        ("halite-call", call::run),
    ]));
}
