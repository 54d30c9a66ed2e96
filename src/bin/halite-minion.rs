//! The minion daemon, and the processes of its jobs.

fn main() {
    std::process::exit(halite::cli::minion::run());
}
