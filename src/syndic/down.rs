//! The thread that publishes the upper master's jobs to the minions below
//! (`salt/minion.py Syndic._handle_decoded_payload`, `syndic_cmd`).

use crossbeam_channel::Receiver;
use halite_channel::publication::Job;
use halite_client::local::{ClientError, Job as Publication, LocalClient, Published};
use halite_config::MasterConfig;
use halite_wire::{Map, Value};
use std::time::Duration;

/// Fields of a job that are passed on unchanged. The local master itself checks the permissions in `auth_list`.
const EXTRAS: [&str; 10] = [
    "auth_list",
    "master_id",
    "user",
    "delimiter",
    "metadata",
    "ret_config",
    "ret_kwargs",
    "module_executors",
    "executor_opts",
    "start_event",
];
/// Attempts to reach the local master, which may be starting.
const TRIES: u32 = 3;

/// Publishes jobs until the sender is dropped.
pub(super) fn run(config: MasterConfig, jobs: &Receiver<Job>) {
    let own = config.extra.get("master_id").cloned();
    let mut client = LocalClient::new(config);
    for job in jobs {
        // A job that came from this very master must not come back to it.
        if own.is_some() && job.load.get("master_id") == own.as_ref() {
            continue;
        }
        let publication = publication(&job);
        match publish(&mut client, &publication) {
            Ok(done) if done.jid.is_empty() => {
                log::info!(jid:% = job.jid; "job {} matches no minion below", job.jid)
            }
            Ok(done) => log::info!(
                jid:% = job.jid;
                "job {} published to {} minions below",
                job.jid,
                done.minions.len()
            ),
            Err(e) => {
                log::error!(jid:% = job.jid; "job {} could not be published below: {e}", job.jid)
            }
        }
    }
}

fn publish(client: &mut LocalClient, job: &Publication) -> Result<Published, ClientError> {
    let mut tries = 1;
    loop {
        match client.publish(job) {
            // With the same jid: a master that did receive the request publishes the job again, and minions
            // ignore a jid they know.
            Err(ClientError::NoMaster(why)) if tries < TRIES => {
                log::warn!("the local master does not answer ({why}); trying again");
                tries += 1;
                std::thread::sleep(Duration::from_secs(1));
            }
            other => return other,
        }
    }
}

fn publication(job: &Job) -> Publication {
    let load = &job.load;
    let kwargs: Map = EXTRAS
        .into_iter()
        .filter_map(|key| load.get(key).map(|value| (key, value.clone())))
        .collect();
    let kind = load.str("tgt_type").filter(|kind| !kind.is_empty());
    Publication {
        fun: load.get("fun").cloned().unwrap_or_default(),
        arg: load
            .get("arg")
            .and_then(Value::as_array)
            .unwrap_or_default()
            .to_vec(),
        tgt: load.get("tgt").cloned().unwrap_or_default(),
        tgt_type: kind.unwrap_or("glob").to_owned(),
        ret: load.str("ret").unwrap_or_default().to_owned(),
        jid: job.jid.as_str().to_owned(),
        kwargs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_keep_what_matters() {
        let jid = "20261121120000000001";
        let load = halite_wire::map! {
            "fun" => "test.ping", "arg" => vec![Value::from(1)], "tgt" => "a;b", "jid" => jid, "ret" => "",
            "to" => 5, "user" => "anna", "auth_list" => vec![Value::from("test.*")], "delimiter" => "/",
        };
        let made = publication(&Job {
            jid: jid.parse().unwrap(),
            load,
        });
        assert_eq!((made.jid.as_str(), made.tgt_type.as_str()), (jid, "glob"));
        let want = halite_wire::map! {
            "auth_list" => vec![Value::from("test.*")], "user" => "anna", "delimiter" => "/",
        };
        assert_eq!(made.kwargs, want);
    }
}
