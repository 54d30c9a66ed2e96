//! Debian packages and RPMs on machines of their own.

mod deb;
mod rpm;
