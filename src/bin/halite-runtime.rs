//! The runtime for WASM modules.

fn main() {
    halite::cli::start::main(halite::cli::runtime::run);
}
