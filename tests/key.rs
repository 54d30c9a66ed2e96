//! `halite-key`, run as a program on directories of its own.

#[path = "key/fixture.rs"]
mod fixture;
#[path = "key/stock.rs"]
mod stock;
