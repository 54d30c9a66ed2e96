//! Reads a stream of NATS in its order.
//!
//! The ordered reader of the library hears only after 10 seconds that its server is gone, and asks for another one with long pauses:
//! it was up to 45 seconds behind. This one goes on after 2 to 4 seconds if a majority of the servers has a leader.

use async_nats::Client;
use async_nats::jetstream::consumer::push::{Config, Messages};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::{Context, ContextBuilder, Message, stream::Stream};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use halite_nats::error_text;
use std::time::Duration;
use tokio::time::Instant;

/// How long a request about streams may take. If servers choose one for it that is gone, nobody answers; the next time, they may
/// choose another one.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the server says that it is there. After two that are missing another reader is asked for.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Pause before that is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// How long it is tried.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// When the servers forget a reader that nobody hears.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// How streams are asked for.
pub(super) fn context(client: &Client) -> Context {
    ContextBuilder::new()
        .timeout(PATIENCE)
        .build(client.clone())
}

/// Reads a stream.
pub(super) struct Reader {
    source: Source,
    messages: Messages,
    /// How many messages have come from the present server.
    count: u64,
    /// The last message that was read; 0 before the first one.
    sequence: u64,
    again: Option<Again>,
}

/// What is read.
#[derive(Clone)]
struct Source {
    client: Client,
    stream: Stream,
    filter: String,
    /// Where reading began.
    policy: DeliverPolicy,
}

/// Another reader is asked for.
struct Again {
    why: String,
    until: Instant,
    attempt: BoxFuture<'static, Result<Option<Messages>, String>>,
}

impl Source {
    async fn open(&self, policy: DeliverPolicy) -> Result<Messages, String> {
        let wanted = Config {
            deliver_subject: self.client.new_inbox(),
            filter_subject: self.filter.clone(),
            deliver_policy: policy,
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            flow_control: true,
            idle_heartbeat: HEARTBEAT,
            inactive_threshold: FORGOTTEN,
            num_replicas: 1,
            memory_storage: true,
            ..Config::default()
        };
        let made = self.stream.create_consumer(wanted).await;
        let consumer = made.map_err(|e| error_text(&e))?;
        consumer.messages().await.map_err(|e| error_text(&e))
    }

    /// Reads on after a message. `None` if this is not the same stream any more.
    async fn reopen(mut self, after: u64) -> Result<Option<Messages>, String> {
        let made = self.stream.cached_info().created;
        let info = self.stream.info().await.map_err(|e| error_text(&e))?;
        if info.created != made {
            return Ok(None);
        }
        let policy = match after {
            0 => self.policy,
            _ => DeliverPolicy::ByStartSequence {
                start_sequence: after + 1,
            },
        };
        self.open(policy).await.map(Some)
    }
}

impl Reader {
    /// Reads the messages with subjects like `filter`.
    pub(super) async fn open(
        client: &Client,
        stream: Stream,
        filter: String,
        policy: DeliverPolicy,
    ) -> Result<Reader, String> {
        let source = Source {
            client: client.clone(),
            stream,
            filter,
            policy,
        };
        Ok(Reader {
            messages: source.open(policy).await?,
            source,
            count: 0,
            sequence: 0,
            again: None,
        })
    }

    /// The next message. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Message, String> {
        loop {
            if let Some(again) = &mut self.again {
                match (&mut again.attempt).await {
                    Ok(Some(messages)) => {
                        (self.messages, self.count, self.again) = (messages, 0, None);
                    }
                    Ok(None) => return Err("it was made anew".to_owned()),
                    Err(e) if Instant::now() >= again.until => {
                        return Err(format!("{}; then: {e}", again.why));
                    }
                    Err(e) => {
                        log::debug!("cluster: no reader of {}: {e}", self.source.filter);
                        let next = self.source.clone().reopen(self.sequence);
                        again.attempt =
                            async { tokio::time::sleep(PAUSE).then(|()| next).await }.boxed();
                        continue;
                    }
                }
            }
            let why = match self.messages.next().await {
                Some(Ok(message)) => {
                    let info = message.info().map_err(|e| e.to_string())?;
                    // Somebody may let another stream deliver here, with numbers of its own. Another reader is not known to them.
                    if info.stream != self.source.stream.cached_info().config.name {
                        return Err("messages of another stream come in its place".to_owned());
                    }
                    let (number, sequence) = (info.consumer_sequence, info.stream_sequence);
                    self.count += 1;
                    if number == self.count {
                        self.sequence = sequence;
                        return Ok(message);
                    }
                    format!("message {} of its reader did not arrive", self.count)
                }
                Some(Err(e)) => error_text(&e),
                None => "its reader has ended".to_owned(),
            };
            log::debug!("cluster: {} is read anew: {why}", self.source.filter);
            self.again = Some(Again {
                why,
                until: Instant::now() + GIVEN_UP,
                attempt: self.source.clone().reopen(self.sequence).boxed(),
            });
        }
    }
}
