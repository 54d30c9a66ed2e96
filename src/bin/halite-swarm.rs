//! The load generator.

fn main() {
    halite::cli::start::main(halite::cli::swarm::run);
}
