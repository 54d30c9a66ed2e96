//! The minion daemon, and the processes of its jobs. In packages it is also `halite-call`.

fn main() {
    halite::cli::start::main_with_modules(halite::cli::programs::halite_minion);
}
