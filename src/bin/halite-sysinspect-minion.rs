//! The minion for masters that use sysinspect's protocol, and the processes of its jobs.

fn main() {
    halite::cli::start::main_with_modules(halite::cli::sysinspect_minion::run);
}
