//! The runtime for WASM modules.

fn main() {
    halite::cli::start::main_with_modules(halite::cli::runtime::run);
}
