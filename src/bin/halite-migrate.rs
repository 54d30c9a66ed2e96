//! The command that moves a Salt master over to halite and back.

fn main() {
    std::process::exit(halite::cli::migrate::run());
}
