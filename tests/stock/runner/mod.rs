//! Runner and wheel functions beside stock Salt: every command starts a Python program.

mod peer;
mod saltutil;
mod stock;
