//! The program that writes returns to databases; see `halite::cli::returner`.

fn main() {
    std::process::exit(halite::cli::returner::run());
}
