//! The command that migrates a Salt master to halite and back.

fn main() {
    halite::cli::start::main(halite::cli::migrate::run);
}
