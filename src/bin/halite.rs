//! The command that runs functions on minions. In packages it is the other commands of the master's host, too.

fn main() {
    std::process::exit(halite::cli::programs::halite());
}
