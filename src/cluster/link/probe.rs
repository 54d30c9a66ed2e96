//! A look at the servers and at the bucket, without changing anything.

use super::bucket_name;
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::{self, ErrorCode};
use halite_config::ClusterConfig;
use halite_nats::{LinkOptions, error_text, shown, url};
use std::time::Duration;

/// Most time for a server.
const PATIENCE: Duration = Duration::from_secs(8);

/// What was found at a server.
pub struct Probe {
    /// The server, as it may be shown.
    pub server: String,
    /// The entry that was asked for, if it is there; or why the server cannot be used.
    pub entry: Result<Option<Vec<u8>>, String>,
}

/// Asks each server for an entry of the bucket.
///
/// # Errors
/// There is no runtime for it.
pub fn probe(cluster: &ClusterConfig, own: &str, name: &str) -> std::io::Result<Vec<Probe>> {
    let options = LinkOptions::of_cluster(cluster, &format!("halite-{own}-check"));
    let bucket = bucket_name(&cluster.id);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut out = Vec::new();
    for server in &cluster.servers {
        let address = url(server);
        let looking = look(&options, &address, &bucket, name);
        let looking = async { tokio::time::timeout(PATIENCE, looking).await };
        let entry = runtime.block_on(looking);
        out.push(Probe {
            server: shown(&address),
            entry: entry.unwrap_or_else(|_| Err("it does not answer".to_owned())),
        });
    }
    // Does not wait for a pending name lookup.
    runtime.shutdown_background();
    Ok(out)
}

async fn look(
    options: &LinkOptions,
    server: &str,
    bucket: &str,
    name: &str,
) -> Result<Option<Vec<u8>>, String> {
    let client = options.connect_options().connect(server).await;
    let jetstream = jetstream::new(client.map_err(|e| error_text(&e))?);
    // A server without JetStream says so here.
    if let Err(e) = jetstream.get_stream(format!("KV_{bucket}")).await {
        let is_absent = |e: &jetstream::Error| e.error_code() == ErrorCode::STREAM_NOT_FOUND;
        return match e.kind() {
            GetStreamErrorKind::JetStream(e) if is_absent(&e) => Ok(None),
            GetStreamErrorKind::Request => {
                Err(format!("{}: does it run with JetStream?", error_text(&e)))
            }
            _ => Err(error_text(&e)),
        };
    }
    let store = jetstream.get_key_value(bucket).await;
    let store = store.map_err(|e| error_text(&e))?;
    let entry = store.get(name).await.map_err(|e| error_text(&e))?;
    Ok(entry.map(|value| value.to_vec()))
}
