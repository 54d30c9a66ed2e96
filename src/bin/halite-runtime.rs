//! The runtime for WASM modules.

fn main() {
    std::process::exit(halite::cli::runtime::run());
}
