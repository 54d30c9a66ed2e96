//! The bucket, as a connection reads and writes it.

use super::reader::{Reader, context};
use super::{Done, Entry, Session};
use crate::sync::Put;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::kv::{Store, UpdateErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::{Client, jetstream};
use halite_nats::error_text;
use std::future::{Future, pending};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long the next entry of what is there already may take.
const ALL_COMES: Duration = Duration::from_secs(20);
/// Pause before it is opened again.
const PAUSE: Duration = Duration::from_millis(250);

/// The bucket, open.
pub(super) struct Bucket {
    store: Store,
    reader: Reader,
    /// Subjects of entries without their names.
    prefix: String,
    /// The newest revision when it was opened, as the leader of the stream says. How many entries are pending, servers of 2.9 can say
    /// wrongly for minutes after an election.
    newest: u64,
    /// Whether all that was there has been read.
    is_current: bool,
    /// When the next of it must be there.
    by: Instant,
    /// Whether that was said.
    is_told: bool,
}

impl Bucket {
    /// Whether all that was there has been read, at once if that is nothing; says so once.
    pub(super) fn ends_the_past(&mut self) -> bool {
        self.is_current && !std::mem::replace(&mut self.is_told, true)
    }

    /// Whether the server does not give what it should have.
    pub(super) fn lags(&self) -> bool {
        !self.is_current && Instant::now() >= self.by
    }

    /// Writes an entry.
    pub(super) fn put(&self, write: Entry) -> impl Future<Output = Done> + use<> {
        put(self.store.clone(), write)
    }

    async fn next(&mut self) -> Result<Entry, String> {
        let next = self.reader.next();
        let (message, revision) = match self.is_current {
            true => next.await?,
            // The reader may be at a server whose copy lags and that says nothing wrong.
            false => timeout_at(self.by, next)
                .await
                .map_err(|_| "not all that is in the bucket comes".to_owned())??,
        };
        self.by = Instant::now() + ALL_COMES;
        self.is_current |= revision >= self.newest;
        let name = message.subject.strip_prefix(self.prefix.as_str());
        Ok(Entry {
            name: name.unwrap_or_default().to_owned(),
            // No master removes entries: what someone has removed has no value, which is that of nobody.
            value: message.payload.to_vec(),
            revision,
        })
    }
}

/// The next entry, if the bucket is open.
pub(super) async fn next(bucket: &mut Option<Bucket>) -> Result<Entry, String> {
    match bucket {
        Some(bucket) => bucket.next().await,
        None => pending().await,
    }
}

impl Session {
    /// Opens it again, after a moment.
    pub(super) async fn reopen(&self, client: &Client) -> Result<Bucket, String> {
        tokio::time::sleep(PAUSE).await;
        self.open(client).await
    }

    /// Opens the bucket, or makes it, and reads it.
    ///
    /// It is made as a stream, since the library cannot make a bucket on NATS 2.9 (reference `cluster.md` 2, finding 5).
    pub(super) async fn open(&self, client: &Client) -> Result<Bucket, String> {
        let name = format!("KV_{}", self.bucket);
        let prefix = format!("$KV.{}.", self.bucket);
        let mut stream = context(client)
            .get_or_create_stream(Config {
                subjects: vec![format!("{prefix}>")],
                max_messages_per_subject: 1,
                discard: DiscardPolicy::New,
                storage: StorageType::File,
                num_replicas: self.replicas,
                allow_direct: true,
                deny_delete: true,
                deny_purge: true,
                name,
                ..Config::default()
            })
            .await
            .map_err(|e| {
                format!(
                    "the bucket cannot be made with `replicas: {}` (option cluster; 1 for a single server): {}",
                    self.replicas,
                    error_text(&e)
                )
            })?;
        let info = stream.info().await.map_err(|e| error_text(&e))?;
        let (newest, is_empty) = (info.state.last_sequence, info.state.messages == 0);
        let store = jetstream::new(client.clone())
            .get_key_value(&self.bucket)
            .await;
        let store = store.map_err(|e| error_text(&e))?;
        let newest_of_each = DeliverPolicy::LastPerSubject;
        let reader = Reader::open(client, stream, format!("{prefix}>"), newest_of_each);
        Ok(Bucket {
            reader: reader.await?,
            prefix,
            store,
            newest,
            by: Instant::now() + ALL_COMES,
            is_current: is_empty,
            is_told: false,
        })
    }
}

/// Writes an entry.
pub(super) async fn put(store: Store, write: Entry) -> Done {
    let done = store
        .update(&write.name, write.value.into(), write.revision)
        .await;
    let how = match done {
        Ok(revision) => Put::Done(revision),
        Err(e) if e.kind() == UpdateErrorKind::WrongLastRevision => Put::Conflict,
        Err(e) => {
            log::debug!(
                "cluster: {} was not written: {}",
                write.name,
                error_text(&e)
            );
            Put::Unknown
        }
    };
    Done::Put(write.name, write.revision, how)
}
