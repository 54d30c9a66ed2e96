//! Fatal errors of threads.

use super::interrupt::Waker;
use super::session::lock;
use halite_sys::exit::ExitError;
use std::sync::{Arc, Mutex};

/// Carries a fatal error from a thread to the main loop.
#[derive(Clone, Debug)]
pub struct FatalError {
    error: Arc<Mutex<Option<ExitError>>>,
    wake: Waker,
}

impl FatalError {
    /// Creates one that wakes `wake` when an error is raised.
    pub fn new(wake: &Waker) -> FatalError {
        FatalError {
            error: Arc::default(),
            wake: wake.clone(),
        }
    }

    /// Raises an error; only the first one is kept.
    pub fn raise(&self, error: ExitError) {
        lock(&self.error).get_or_insert(error);
        self.wake.wake();
    }

    /// Takes the error, if one was raised.
    pub fn take(&self) -> Option<ExitError> {
        lock(&self.error).take()
    }
}
