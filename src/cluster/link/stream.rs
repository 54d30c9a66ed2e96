//! The streams in which masters tell each other about jobs and about data of minions.

use super::reader::{Reader, context};
use super::{LinkEvent, Session};
use crate::progress::Source;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};
use async_nats::{Client, jetstream, jetstream::Context};
use halite_nats::error_text;
use std::future::{Future, pending};
use std::time::Duration;

/// Shortest time for which messages must be kept.
const SHORTEST: Duration = Duration::from_secs(60);

/// Where this master is in the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// When the stream was made, in nanoseconds since 1970: another one begins anew.
    pub stream: i64,
    /// The last message that was taken.
    pub sequence: u64,
}

/// One of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// What is new about jobs, for some time.
    Jobs,
    /// Data of minions, the newest of each.
    Data,
}

impl StreamKind {
    /// The last part of its name, and that of its subjects.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            StreamKind::Jobs => ("LOG", "log"),
            StreamKind::Data => ("DATA", "data"),
        }
    }
}

impl From<StreamKind> for Source {
    fn from(kind: StreamKind) -> Source {
        match kind {
            StreamKind::Jobs => Source::Jobs,
            StreamKind::Data => Source::Data,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where reading begins.
    pub cursor: Cursor,
    /// The last message that was there.
    pub last: u64,
    /// How many messages are no longer there.
    pub missed: u64,
    /// Whether this is not the stream that the cursor belongs to.
    pub is_another: bool,
}

/// The stream, as this connection reads and writes it.
pub(super) struct Log {
    kind: StreamKind,
    name: String,
    context: Context,
    prefix: String,
    reader: Reader,
}

impl Log {
    /// Opens the stream, or makes it, and reads on after `cursor`.
    pub(super) async fn open(
        session: &Session,
        client: &Client,
        kind: StreamKind,
        cursor: Cursor,
    ) -> Result<(Log, Found), String> {
        let (name, subject) = kind.names();
        let prefix = format!("halite.{}.{subject}", session.id);
        let is_log = kind == StreamKind::Jobs;
        let wanted = Config {
            name: format!("HALITE_{}_{name}", session.id),
            subjects: vec![format!("{prefix}.>")],
            max_age: if is_log { session.keep } else { Duration::ZERO },
            max_messages_per_subject: if is_log { -1 } else { 1 },
            max_bytes: session.keep_bytes,
            discard: DiscardPolicy::Old,
            storage: StorageType::File,
            num_replicas: session.replicas,
            deny_delete: true,
            ..Config::default()
        };
        let mut stream = context(client)
            .get_or_create_stream(wanted.clone())
            .await
            .map_err(|e| {
                format!(
                    "the stream {name} cannot be made with `replicas: {}`, `keep_bytes: {}` (option cluster): {}",
                    session.replicas,
                    session.keep_bytes,
                    error_text(&e)
                )
            })?;
        let info = stream.info().await.map_err(|e| error_text(&e))?;
        // Somebody else may have made it, such that it forgets at once.
        let config = &info.config;
        let is_limited = config.max_messages > 0
            || config.max_message_size > 0
            || config.max_messages_per_subject.max(0) != wanted.max_messages_per_subject.max(0);
        let is_short = !config.max_age.is_zero() && config.max_age < wanted.max_age.min(SHORTEST);
        let forgets = is_limited || is_short || (!is_log && !config.max_age.is_zero());
        if config.subjects != wanted.subjects || forgets {
            return Err(format!(
                "the stream HALITE_{}_{name} was made with other settings: remove it from NATS",
                session.id
            ));
        }
        let made = i64::try_from(info.created.unix_timestamp_nanos()).unwrap_or(i64::MAX);
        let (first, last) = (info.state.first_sequence, info.state.last_sequence);
        let is_same = cursor.stream == made && cursor.sequence <= last;
        let sequence = if is_same { cursor.sequence } else { 0 };
        let found = Found {
            is_another: !is_same && cursor.stream != 0,
            last,
            missed: match sequence {
                // Of data, what is newer is all that counts.
                0 => 0,
                _ if !is_log => 0,
                sequence => first.saturating_sub(sequence + 1),
            },
            cursor: Cursor {
                stream: made,
                sequence,
            },
        };
        let new = DeliverPolicy::ByStartSequence {
            start_sequence: sequence + 1,
        };
        let reader = Reader::open(client, stream, format!("{prefix}.>"), new).await;
        let reader = reader.map_err(|e| format!("the stream {name} cannot be read: {e}"))?;
        let log = Log {
            kind,
            name: wanted.name,
            context: jetstream::new(client.clone()),
            prefix,
            reader,
        };
        Ok((log, found))
    }

    /// Sends a message; the future tells whether the servers have it.
    pub(super) async fn append(
        &self,
        tail: &str,
        bytes: Vec<u8>,
    ) -> impl Future<Output = bool> + use<> {
        let subject = format!("{}.{tail}", self.prefix);
        let sent = self.context.publish(subject, bytes.into()).await;
        async move {
            let done = match sent {
                Ok(acknowledged) => acknowledged.await,
                Err(e) => Err(e),
            };
            done.inspect_err(|e| log::debug!("cluster: not told: {}", error_text(e)))
                .is_ok()
        }
    }

    /// The next message of somebody.
    pub(super) async fn next(&mut self) -> Result<LinkEvent, String> {
        let next = self.reader.next().await;
        let (message, sequence) =
            next.map_err(|e| format!("{} is not read any more: {e}", self.name))?;
        let tail = message.subject.strip_prefix(self.prefix.as_str());
        let tail = tail.and_then(|rest| rest.strip_prefix('.'));
        let Some(tail) = tail else {
            return Err(format!("a message of {:.100} was read", message.subject));
        };
        let stored = message.info().map(|info| info.published.unix_timestamp());
        Ok(LinkEvent::Told {
            kind: self.kind,
            tail: tail.to_owned(),
            bytes: message.payload.to_vec(),
            sequence,
            stored: stored.map_or(0, |at| u64::try_from(at).unwrap_or(0)),
        })
    }
}

/// The next message, if the stream is open.
pub(super) async fn next(log: &mut Option<Log>) -> Result<LinkEvent, String> {
    match log {
        Some(log) => log.next().await,
        None => pending().await,
    }
}
