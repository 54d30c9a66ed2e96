//! The syndic daemon.

fn main() {
    std::process::exit(halite::cli::syndic::run());
}
