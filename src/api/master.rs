//! What the service asks of the master for itself: with a key of its own, which permits nothing else.

use crate::answer::ApiError;
use halite_client::local::{ClientError, LocalClient};
use halite_config::MasterConfig;
use halite_store::jobs::{JobReader, StoredJob, StoredReturn};
use halite_wire::ids::Jid;
use halite_wire::{Map, Value};
use std::io;

/// The master of the service.
pub struct Master<'a>(pub &'a MasterConfig);

impl Master<'_> {
    fn ask(&self, what: &str, load: Map) -> Result<Value, ClientError> {
        LocalClient::new(self.0.clone()).ask_as_api(what, load)
    }

    fn refused(&self, error: ClientError) -> ApiError {
        match error {
            // Its own key is wrong, not what a client has sent.
            ClientError::Refused(name, _) if name.ends_with("AuthenticationError") => {
                let path = self.0.api_key();
                log::error!(
                    "api: the master does not accept the key in {}",
                    path.display()
                );
                ApiError::no_master()
            }
            other => refused(other),
        }
    }

    /// Fires the event of a hook.
    ///
    /// # Errors
    /// The master cannot be reached, or could not fire it.
    pub fn fire(&self, tag: &str, data: Map) -> Result<(), ApiError> {
        let fired = self.ask("fire", halite_wire::map! {"tag" => tag, "data" => data});
        fired.map(drop).map_err(|e| self.refused(e))
    }

    /// Whether the roles of the master serve, as `/ready` tells it.
    ///
    /// # Errors
    /// The master cannot be reached.
    pub fn readiness(&self) -> Result<Map, ApiError> {
        let told = self.ask("ready", Map::new());
        let told = told.map_err(|e| self.refused(e))?;
        Ok(told.into_map().unwrap_or_default())
    }

    /// What ARENA's own tools ask for.
    ///
    /// # Errors
    /// The master cannot be reached.
    pub fn arena(&self, path: &[&str]) -> Result<Option<Value>, ApiError> {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let told = self.ask("arena", halite_wire::map! {"path" => path});
        let told = told.map_err(|e| self.refused(e))?;
        Ok(Some(told).filter(|told| *told != Value::Nil))
    }

    /// A part of a job, and the number of the first return that it does not have.
    fn part(&self, jid: &Jid, from: u64) -> io::Result<Option<(StoredJob, Option<u64>)>> {
        let load = halite_wire::map! {"jid" => jid, "from" => from};
        let told = self.ask("job", load).map_err(io::Error::other)?;
        let Value::Map(mut told) = told else {
            return Ok(None);
        };
        let list = |name: &str| told.get(name).map(Value::str_list).unwrap_or_default();
        let (minions, missing) = (list("minions"), list("missing"));
        let next = told.int("next").and_then(|n| u64::try_from(n).ok());
        let returns = match told.remove("returns") {
            Some(Value::Array(returns)) => returns.into_iter().filter_map(returned).collect(),
            _ => Vec::new(),
        };
        let load = told.remove("load").and_then(Value::into_map);
        let job = StoredJob {
            load: load.unwrap_or_default(),
            minions,
            missing,
            returns,
        };
        Ok(Some((job, next)))
    }
}

/// What the master's refusal of a job means for a client.
pub(super) fn refused(error: ClientError) -> ApiError {
    match error {
        ClientError::NoMaster(why) | ClientError::NoKey(why) => {
            log::warn!("api: {why}");
            ApiError::no_master()
        }
        ClientError::Refused(name, message) => match name.as_str() {
            "AuthorizationError" => ApiError::unauthorized("Authorization error occurred."),
            name if name.ends_with("AuthenticationError") => {
                ApiError::unauthorized("Authentication error occurred.")
            }
            // Such as a jid of another year.
            "" => ApiError::bad(message),
            _ => ApiError::mistaken(message),
        },
        other => ApiError::unforeseen(&other.to_string()),
    }
}

fn returned(pair: Value) -> Option<StoredReturn> {
    let Value::Array(pair) = pair else {
        return None;
    };
    let [id, load] = <[Value; 2]>::try_from(pair).ok()?;
    Some(StoredReturn {
        id: id.as_str()?.to_owned(),
        load: load.into_map()?,
    })
}

impl JobReader for Master<'_> {
    fn get(&self, jid: &Jid) -> io::Result<Option<StoredJob>> {
        let Some((mut job, mut next)) = self.part(jid, 0)? else {
            return Ok(None);
        };
        while let Some(from) = next {
            let Some((more, after)) = self.part(jid, from)? else {
                break;
            };
            job.returns.extend(more.returns);
            // Whatever is sent, this ends.
            next = after.filter(|after| *after > from);
        }
        Ok(Some(job))
    }
}
