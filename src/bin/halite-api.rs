//! The REST service as a daemon of its own.

fn main() {
    halite::cli::start::main(halite::cli::api::run);
}
