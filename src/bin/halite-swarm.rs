//! The load generator.

fn main() {
    std::process::exit(halite::cli::swarm::run());
}
