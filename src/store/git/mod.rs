//! Repositories by the command `git`, for the file server and for the pillar: URLs, credentials,
//! mirrors, and commits as directories.

mod access;
mod bare;
mod checkout;
mod run;

pub use access::{Access, check_url, is_hex, refspec_fault, shown};
pub use bare::{Bare, Refs};
pub use checkout::Checkout;
pub(crate) use run::{Git, REMOTE};
