//! The federation broker of Choria networks.

fn main() {
    std::process::exit(halite::cli::federation_broker::run());
}
