//! What errors of OpenSSL say to people: the reason, without places in its source.

use openssl::error::ErrorStack;
use openssl::ssl;
use std::io;
use std::path::Path;

/// The first reason.
pub(crate) fn reason(stack: &ErrorStack) -> Option<&str> {
    stack.errors().iter().find_map(|e| e.reason())
}

/// The reason in an error of a connection; `None` if the error is not one of TLS.
pub(crate) fn tls_reason(error: &ssl::Error) -> Option<String> {
    Some(format!("TLS: {}", reason(error.ssl_error()?)?))
}

/// The error for something that cannot be used.
pub(crate) fn unusable(what: &str, stack: &ErrorStack) -> io::Error {
    let why = reason(stack).map_or_else(|| stack.to_string(), str::to_owned);
    io::Error::other(format!("{what} cannot be used: {why}"))
}

/// The error for a file that cannot be used.
pub(crate) fn unusable_file(path: &Path, stack: &ErrorStack) -> io::Error {
    // If it cannot be read, the system's error is clearer.
    match std::fs::File::open(path) {
        Err(e) => unreadable_file(path, &e),
        Ok(_) => unusable(&path.display().to_string(), stack),
    }
}

/// The error for a file that cannot be read.
pub(crate) fn unreadable_file(path: &Path, why: &io::Error) -> io::Error {
    io::Error::other(format!("{} cannot be used: {why}", path.display()))
}
