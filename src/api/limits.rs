//! How much one client may take: requests per second, and places among those that wait.

use crate::answer::ApiError;
use halite_sys::allowance::Allowances;
use halite_sys::signals::StopFlag;
use hyper::StatusCode;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a command waits for a place among these.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests per second, by user or network.
pub(super) type Limits = Mutex<Allowances<String>>;

/// What counts as one stranger: an address, or the network within which one host chooses its addresses.
pub(super) fn network_of(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{:?}", &address.segments()[..4]),
    }
}

/// How many places each has taken.
#[derive(Clone, Default)]
pub(super) struct Shares(Arc<Mutex<HashMap<String, usize>>>);

/// One of them.
pub(super) struct Share {
    shares: Shares,
    who: String,
}

impl Shares {
    /// How many places are taken.
    pub fn count(&self) -> usize {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().sum()
    }

    /// # Errors
    /// 429: this one has so many.
    pub fn take(&self, who: &str, most: usize) -> Result<Share, ApiError> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = all.entry(who.to_owned()).or_default();
        if *taken >= most {
            return Err(ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many of your commands are running, or large bodies are on their way",
            ));
        }
        *taken += 1;
        Ok(Share {
            shares: self.clone(),
            who: who.to_owned(),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut all = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = all.get_mut(&self.who) {
            *taken -= 1;
            if *taken == 0 {
                all.remove(&self.who);
            }
        }
    }
}

/// Sets a flag when its client has gone.
pub(super) struct StopAtEnd(pub StopFlag);

impl Drop for StopAtEnd {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// One of a limited number of places.
pub(super) async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    let place = tokio::time::timeout(PATIENCE, places.clone().acquire_owned()).await;
    place.ok().and_then(Result::ok).ok_or_else(|| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many commands are running; try again later",
        )
    })
}

/// What a connection has taken.
pub(super) type Place = Arc<(OwnedSemaphorePermit, Share)>;
