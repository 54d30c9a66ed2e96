//! Reads a stream of NATS in its order.
//!
//! The ordered reader of the library hears only after 10 seconds that its server is gone, and asks for another one with long pauses:
//! it was up to 45 seconds behind. This one goes on after 2 to 4 seconds if a majority of the servers has a leader.

use async_nats::header::NATS_LAST_CONSUMER;
use async_nats::jetstream::consumer::push::Config;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::{Context, ContextBuilder, Message, stream::Stream};
use async_nats::{Client, Subscriber};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use halite_nats::error_text;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a request about streams may take. If servers choose one for it that is gone, nobody answers; the next time, they may
/// choose another one.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often the server says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// Silence after which another reader is asked for.
const SILENCE: Duration = Duration::from_secs(2);
/// Pause before that is tried again.
const PAUSE: Duration = Duration::from_millis(250);
/// How long it is tried.
const GIVEN_UP: Duration = Duration::from_secs(30);
/// When the servers forget a reader that nobody hears.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// In a heartbeat: where to say that this reader goes on, if a message that asked for it was lost.
const STALLED: &str = "Nats-Consumer-Stalled";

/// Prefix of subjects where a server asks whether a reader goes on.
const FLOW_CONTROL: &str = "$JS.FC.";

/// How streams are asked for.
pub(super) fn context(client: &Client) -> Context {
    ContextBuilder::new()
        .timeout(PATIENCE)
        .build(client.clone())
}

/// Reads a stream.
pub(super) struct Reader {
    source: Source,
    consumer: Consumer,
    /// The last message that was read; 0 before the first one.
    sequence: u64,
    again: Option<Again>,
}

/// What is read.
#[derive(Clone)]
struct Source {
    client: Client,
    context: Context,
    stream: Stream,
    filter: String,
    /// Where reading began.
    policy: DeliverPolicy,
}

/// What a server sends.
struct Consumer {
    name: String,
    messages: Subscriber,
    /// How many messages have come.
    count: u64,
    /// When it will have been silent for too long.
    silent: Instant,
}

/// Another reader is asked for.
struct Again {
    why: String,
    until: Instant,
    attempt: BoxFuture<'static, Result<Option<Consumer>, String>>,
}

impl Source {
    async fn open(&self, policy: DeliverPolicy) -> Result<Consumer, String> {
        let inbox = self.client.new_inbox();
        let messages = self.client.subscribe(inbox.clone()).await;
        let messages = messages.map_err(|e| error_text(&e))?;
        let wanted = Config {
            deliver_subject: inbox,
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
        let made = made.map_err(|e| error_text(&e))?;
        Ok(Consumer {
            name: made.cached_info().name.clone(),
            messages,
            count: 0,
            silent: Instant::now() + SILENCE,
        })
    }

    /// Reads on after a message. `None` if this is not the same stream any more, or that message is not in it.
    async fn reopen(mut self, after: u64) -> Result<Option<Consumer>, String> {
        let made = self.stream.cached_info().created;
        let info = self.stream.info().await.map_err(|e| error_text(&e))?;
        if info.created != made || info.state.last_sequence < after {
            return Ok(None);
        }
        let policy = match after {
            0 => self.policy,
            _ => DeliverPolicy::ByStartSequence {
                start_sequence: after.saturating_add(1),
            },
        };
        self.open(policy).await.map(Some)
    }
}

impl Consumer {
    /// The next message, and its number in the stream. The error is why another reader is needed.
    async fn next(&mut self, source: &Source) -> Result<(Message, u64), String> {
        loop {
            let message = timeout_at(self.silent, self.messages.next()).await;
            let message = message.map_err(|_| "its server is silent".to_owned())?;
            let message = message.ok_or("its subscription has ended")?;
            self.silent = Instant::now() + SILENCE;
            match message.status.map(|status| status.as_u16()) {
                None => {
                    let context = source.context.clone();
                    let message = Message { message, context };
                    // Others may send something else here; it is none of this reader's.
                    let info = message.info().map_err(|e| e.to_string())?;
                    let stream = &source.stream.cached_info().config.name;
                    if info.stream != stream || info.consumer != self.name {
                        return Err("messages of another reader come in its place".to_owned());
                    }
                    self.count += 1;
                    if info.consumer_sequence != self.count {
                        return Err(format!("message {} of it did not arrive", self.count));
                    }
                    let sequence = info.stream_sequence;
                    return Ok((message, sequence));
                }
                Some(100) => {
                    let header = |name: &str| {
                        let headers = message.headers.as_ref()?;
                        headers.get(name).map(|value| value.as_str().to_owned())
                    };
                    let last = header(NATS_LAST_CONSUMER.as_ref());
                    let last = last.and_then(|text| text.parse::<u64>().ok());
                    if last.is_some_and(|last| last != self.count) {
                        return Err(format!(
                            "messages after {} of it did not arrive",
                            self.count
                        ));
                    }
                    let stalled = header(STALLED).map(Into::into);
                    // What others send here must not make this master publish anything elsewhere.
                    let subject = message.reply.or(stalled);
                    let subject = subject.filter(|to| to.starts_with(FLOW_CONTROL));
                    if let Some(subject) = subject {
                        let sent = source.client.publish(subject, "".into()).await;
                        sent.map_err(|e| error_text(&e))?;
                    }
                }
                Some(status) => return Err(format!("the server ended it ({status})")),
            }
        }
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
            context: context(client),
            stream,
            filter,
            policy,
        };
        Ok(Reader {
            consumer: source.open(policy).await?,
            source,
            sequence: 0,
            again: None,
        })
    }

    /// The next message, and its number in the stream. Nothing is lost if the future is dropped. After an error there are none.
    pub(super) async fn next(&mut self) -> Result<(Message, u64), String> {
        loop {
            if let Some(again) = &mut self.again {
                match (&mut again.attempt).await {
                    Ok(Some(consumer)) => (self.consumer, self.again) = (consumer, None),
                    Ok(None) => return Err("it was made anew".to_owned()),
                    Err(e) if Instant::now() >= again.until => {
                        return Err(format!("{}; then: {e}", again.why));
                    }
                    Err(e) => {
                        log::debug!("cluster: no reader of {}: {e}", self.source.filter);
                        let next = self.source.clone().reopen(self.sequence);
                        let pause = tokio::time::sleep(PAUSE);
                        again.attempt = pause.then(|()| next).boxed();
                        continue;
                    }
                }
            }
            let why = match self.consumer.next(&self.source).await {
                Ok((message, sequence)) => {
                    self.sequence = sequence;
                    return Ok((message, sequence));
                }
                Err(why) => why,
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
