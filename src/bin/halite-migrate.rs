//! The command that migrates a Salt master to halite and back.

fn main() {
    std::process::exit(halite::cli::migrate::run());
}
