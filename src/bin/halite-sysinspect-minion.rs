//! The minion for masters that use sysinspect's protocol, and the processes of its jobs.

fn main() {
    std::process::exit(halite::cli::sysinspect_minion::run());
}
