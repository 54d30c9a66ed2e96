//! Git repositories for the file server and for the pillar, by the command `git`: URLs, credentials,
//! mirrors, and commits as directories.

mod access;
mod bare;
mod checkout;
mod run;

pub use access::{Access, check_url, is_hex, redact_url, refspec_error};
pub use bare::{BareMirror, Refs};
pub use checkout::Checkout;
pub(crate) use run::{Git, REMOTE};
