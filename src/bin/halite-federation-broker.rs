//! The federation broker of Choria networks.

fn main() {
    halite::cli::start::main(halite::cli::federation_broker::run);
}
