//! The syndic daemon.

fn main() {
    halite::cli::start::main(halite::cli::syndic::run);
}
