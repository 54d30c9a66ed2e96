//! The program that writes returns to databases; see `halite::cli::returner`.

fn main() {
    halite::cli::start::main(halite::cli::returner::run);
}
