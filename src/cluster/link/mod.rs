//! The connection to the bucket of a cluster, a key-value store of NATS JetStream with names and bytes, and to the
//! streams of jobs and data (`stream`).
//!
//! One thread with a runtime for each connection, so that all state of the client library for a lost one goes with its runtime.
//! Decisions are made by writes with a revision only; what is read may be old.

mod bucket;
mod probe;
mod reader;
mod stream;

pub use probe::{Probe, probe};
pub use stream::{Cursor, Found, StreamKind};

use self::bucket::Bucket;
use crate::record::token;
use crate::sync::Put;
use async_nats::{Client, ConnectOptions, Event, jetstream};
use futures_util::stream::{FuturesUnordered, select_all};
use futures_util::{Stream, StreamExt};
use halite_config::ClusterConfig;
use halite_nats::{LinkOptions, error_text, shown, url};
use halite_transport::attempts::{Attempts, Ended};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// Interval of pings; a server that misses two is considered lost.
const PING: Duration = Duration::from_secs(5);
/// Most time for the last words of a process.
const GOODBYE: Duration = Duration::from_secs(1);
/// Most writes that wait for the connection's thread.
const WAITING: usize = 4096;
/// How often the bucket may fail to open before another server is tried.
const REOPENINGS: u32 = 3;
/// Most writes without an answer.
const AT_ONCE: usize = 128;

/// What happened.
#[derive(Debug)]
pub enum LinkEvent {
    /// Connected to this server. What is in the bucket follows.
    Up(String),
    /// An entry, at first one for each name, later as they are written.
    Entry(Entry),
    /// All entries that were in the bucket have been told.
    AllTold,
    /// The bucket cannot be read any more: why. What is in it will be told again.
    BucketLost(String),
    /// A write has ended: the name, the revision that it was to replace, and how.
    PutEnded(String, u64, Put),
    /// A stream is open: what was found. Its messages follow.
    Following(StreamKind, Found),
    /// A stream cannot be used (any more): why.
    NotFollowing(StreamKind, String),
    /// A message of a stream.
    Told {
        /// The stream.
        kind: StreamKind,
        /// The end of its subject.
        tail: String,
        /// The message.
        bytes: Vec<u8>,
        /// Its number in the stream.
        sequence: u64,
        /// When the servers stored it, in Unix seconds.
        stored: u64,
    },
    /// A message that is not stored: the end of its subject, and its content.
    Heard(Channel, String, Vec<u8>),
    /// Whether the servers have the message with this ticket.
    Appended(StreamKind, u64, bool),
    /// Not connected: why.
    Down(String),
}

/// What reaches only those who hear at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Jobs that were just published, for all: they are in the stream as well, but not every master may be able to read that now.
    Jobs,
    /// Events of buses, for all.
    Events,
    /// Who is there, for all.
    Members,
    /// Which minions are connected, for all.
    Presence,
    /// Which requests were answered, for all.
    Seen,
    /// Tokens of external authentication, for all.
    Tokens,
    /// Who waits until an empty bucket is filled, for all.
    Lost,
    /// What one master asks another one, and answers.
    Letters,
}

impl Channel {
    const ALL: [Channel; 8] = [
        Channel::Jobs,
        Channel::Events,
        Channel::Members,
        Channel::Presence,
        Channel::Seen,
        Channel::Tokens,
        Channel::Lost,
        Channel::Letters,
    ];

    /// Its part of subjects.
    fn name(self) -> &'static str {
        match self {
            Channel::Jobs => "job",
            Channel::Events => "ev",
            Channel::Members => "member",
            Channel::Presence => "present",
            Channel::Seen => "seen",
            Channel::Tokens => "token",
            Channel::Lost => "lost",
            Channel::Letters => "to",
        }
    }
}

/// An entry of the bucket, or one to be written.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Its revision, which grows with every write to the bucket; of one to be written, the revision that it replaces (0: none).
    pub revision: u64,
}

/// An error if nobody listens any more.
pub type Told = Result<(), ()>;

/// What the connection's thread is to do.
enum Order {
    Put(Entry),
    Follow(StreamKind, Cursor),
    Tell(Channel, String, Vec<u8>),
    Reconnect,
    Append {
        kind: StreamKind,
        tail: String,
        pieces: Vec<Vec<u8>>,
        ticket: u64,
    },
}

/// What has ended.
enum Done {
    Put(String, u64, Put),
    Append(StreamKind, u64, bool),
}

/// The connection; dropping it ends its thread.
pub struct Link {
    orders: mpsc::Sender<Order>,
    closing: Arc<Closing>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Closing {
    is_set: AtomicBool,
    changed: Notify,
}

impl Link {
    /// Connects the master `own` to the servers of the cluster, again and again, until it is dropped, and passes what happens to
    /// `tell`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn open(
        cluster: &ClusterConfig,
        own: &str,
        tell: impl Fn(LinkEvent) -> Told + Send + 'static,
    ) -> std::io::Result<Link> {
        let (orders, waiting) = mpsc::channel(WAITING);
        let closing = Arc::<Closing>::default();
        let session = Session {
            options: LinkOptions::of_cluster(cluster, &format!("halite-{own}")),
            letters: token(own),
            id: cluster.id.clone(),
            replicas: cluster.replicas,
            keep: Duration::from_secs(cluster.keep),
            keep_bytes: i64::try_from(cluster.keep_bytes).unwrap_or(i64::MAX),
            bucket: bucket_name(&cluster.id),
            tell: Box::new(tell),
            closing: closing.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("bucket".into())
            .spawn(move || session.run(waiting))?;
        Ok(Link {
            orders,
            closing,
            thread: Some(thread),
        })
    }

    /// Writes a value if its name has this revision (0: none). [`LinkEvent::PutEnded`] tells how it ended. `false` if
    /// too many writes wait.
    pub fn put(&self, name: String, value: Vec<u8>, revision: u64) -> bool {
        let write = Entry {
            name,
            value,
            revision,
        };
        self.orders.try_send(Order::Put(write)).is_ok()
    }

    /// Reads a stream after this message, on this connection, unless it is read already.
    pub fn follow(&self, kind: StreamKind, after: Cursor) -> bool {
        self.orders.try_send(Order::Follow(kind, after)).is_ok()
    }

    /// Sends a message to those who hear; `tail` is the end of its subject: the origin, for [`Channel::Letters`] after the token of
    /// the receiver. `false` if too much waits.
    pub fn tell(&self, channel: Channel, tail: String, bytes: Vec<u8>) -> bool {
        self.orders
            .try_send(Order::Tell(channel, tail, bytes))
            .is_ok()
    }

    /// Closes this connection and makes another one, which reads everything anew.
    pub fn reconnect(&self) {
        // If too much waits, that is said again.
        let _ = self.orders.try_send(Order::Reconnect);
    }

    /// Sends the pieces of a message to a stream; `tail` is the end of the subject. [`LinkEvent::Appended`] tells how it ended. `false` if too much waits.
    pub fn append(&self, kind: StreamKind, tail: &str, pieces: Vec<Vec<u8>>, ticket: u64) -> bool {
        let order = Order::Append {
            kind,
            tail: tail.to_owned(),
            pieces,
            ticket,
        };
        self.orders.try_send(order).is_ok()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.closing.is_set.store(true, Ordering::Release);
        self.closing.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The name of the bucket of a cluster.
fn bucket_name(id: &str) -> String {
    format!("HALITE_{id}_STATE")
}

struct Session {
    options: LinkOptions,
    /// The part of subjects of letters to this master.
    letters: String,
    id: String,
    replicas: usize,
    /// How long, and how many bytes of messages about jobs are kept.
    keep: Duration,
    keep_bytes: i64,
    bucket: String,
    tell: Box<dyn Fn(LinkEvent) -> Told + Send>,
    closing: Arc<Closing>,
}

/// What has become of a connection.
#[derive(Default)]
struct Course {
    was_up: bool,
    /// Another server is to be tried.
    moves: bool,
}

impl Session {
    fn run(&self, mut waiting: mpsc::Receiver<Order>) {
        let servers = &self.options.servers;
        let mut attempts = Attempts::default();
        while !self.closing.is_set.load(Ordering::Acquire) {
            let server = url(attempts.server(servers));
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let end = match &runtime {
                Ok(runtime) => runtime.block_on(self.connection(&server, &mut waiting)),
                Err(e) => Ended::Refused(format!("no runtime: {e}")),
            };
            if self.closing.is_set.load(Ordering::Acquire) {
                return;
            }
            // Writes that wait are outdated at the next connection.
            while waiting.try_recv().is_ok() {}
            let lost = matches!(end, Ended::Lost(_) | Ended::Left(_));
            let words = attempts.ended(&shown(&server), end);
            if (lost || words.is_some())
                && self
                    .tell(LinkEvent::Down(words.unwrap_or_default()))
                    .is_err()
            {
                return;
            }
            let pause = attempts.pause(servers.len());
            if let Ok(runtime) = runtime {
                runtime.block_on(async {
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.closing.changed.notified() => self.closing.changed.notify_one(),
                    }
                });
                // Does not wait for a pending name lookup.
                runtime.shutdown_background();
            }
        }
    }

    fn tell(&self, event: LinkEvent) -> Told {
        (self.tell)(event)
    }

    async fn connection(&self, server: &str, waiting: &mut mpsc::Receiver<Order>) -> Ended {
        let gone = Arc::new(Notify::new());
        let connecting = self.connect_options(&gone).connect(server);
        let client = tokio::select! {
            made = connecting => match made {
                Ok(client) => client,
                Err(e) => return Ended::Refused(error_text(&e)),
            },
            () = self.closing.changed.notified() => return Ended::Closed,
        };
        let mut course = Course::default();
        let end = tokio::select! {
            biased;
            () = self.closing.changed.notified() => {
                self.say_goodbye(&client, waiting).await;
                return Ended::Closed;
            }
            () = gone.notified() => "the server closed it".to_owned(),
            end = self.serve(&client, server, waiting, &mut course) => match end {
                Ok(()) => return Ended::Closed,
                Err(e) => e,
            },
        };
        match course {
            Course { moves: true, .. } => Ended::Left(end),
            Course { was_up: true, .. } => Ended::Lost(end),
            Course { .. } => Ended::Refused(end),
        }
    }

    /// Sends what is still waiting to be told, and a resignation.
    async fn say_goodbye(&self, client: &Client, waiting: &mut mpsc::Receiver<Order>) {
        let jetstream = jetstream::new(client.clone());
        let goodbye = async {
            while let Ok(order) = waiting.try_recv() {
                match order {
                    Order::Tell(channel, tail, bytes) => {
                        let subject = self.subject(channel, &tail);
                        let _ = client.publish(subject, bytes.into()).await;
                    }
                    Order::Put(write) => {
                        if let Ok(store) = jetstream.get_key_value(&self.bucket).await {
                            bucket::put(store, write).await;
                        }
                    }
                    Order::Follow(..) | Order::Append { .. } | Order::Reconnect => {}
                }
            }
            let _ = client.flush().await;
        };
        // What does not get through is found out by others in time.
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }

    fn subject(&self, channel: Channel, tail: &str) -> String {
        format!("halite.{}.{}.{tail}", self.id, channel.name())
    }

    fn connect_options(&self, gone: &Arc<Notify>) -> ConnectOptions {
        let gone = gone.clone();
        let options = self.options.connect_options();
        options.ping_interval(PING).event_callback(move |event| {
            if matches!(event, Event::Disconnected | Event::Closed) {
                gone.notify_one();
            }
            async {}
        })
    }

    /// Serves one connection; `Ok` if nobody listens any more.
    async fn serve(
        &self,
        client: &Client,
        server: &str,
        waiting: &mut mpsc::Receiver<Order>,
        course: &mut Course,
    ) -> Result<(), String> {
        let mut opened = self.open(client).await?;
        if self.tell(LinkEvent::Up(shown(server))).is_err() {
            return Ok(());
        }
        course.was_up = true;
        if opened.ends_the_past() && self.tell(LinkEvent::AllTold).is_err() {
            return Ok(());
        }
        let mut bucket = Some(opened);
        // Opened anew if its reader was at a server that is gone: what masters tell each other is heard all the same.
        let (mut reopening, mut failures) = (FuturesUnordered::new(), 0);
        let mut writing = JoinSet::new();
        // Opening takes seconds if the servers choose one for it that cannot be reached.
        let mut opening = FuturesUnordered::new();
        let mut begun = Vec::new();
        let (mut jobs, mut data) = (None, None);
        let mut heard = self.hear(client).await?;
        loop {
            tokio::select! {
                entry = bucket::next(&mut bucket) => {
                    let event = match entry {
                        Ok(entry) => LinkEvent::Entry(entry),
                        Err(why) if bucket.as_ref().is_some_and(Bucket::lags) => {
                            course.moves = true;
                            return Err(why);
                        }
                        Err(why) => {
                            bucket = None;
                            reopening.push(self.reopen(client));
                            LinkEvent::BucketLost(why)
                        }
                    };
                    let is_all = bucket.as_mut().is_some_and(Bucket::ends_the_past);
                    if self.tell(event).is_err() || is_all && self.tell(LinkEvent::AllTold).is_err() {
                        return Ok(());
                    }
                }
                Some(opened) = reopening.next() => match opened {
                    Ok(mut opened) => {
                        failures = 0;
                        if opened.ends_the_past() && self.tell(LinkEvent::AllTold).is_err() {
                            return Ok(());
                        }
                        bucket = Some(opened);
                    }
                    Err(why) => {
                        failures += 1;
                        if failures >= REOPENINGS {
                            return Err(why);
                        }
                        reopening.push(self.reopen(client));
                    }
                },
                told = stream::next(&mut jobs) => {
                    let event = told.unwrap_or_else(|why| {
                        jobs = None;
                        begun.retain(|other| *other != StreamKind::Jobs);
                        LinkEvent::NotFollowing(StreamKind::Jobs, why)
                    });
                    if self.tell(event).is_err() {
                        return Ok(());
                    }
                }
                told = stream::next(&mut data) => {
                    let event = told.unwrap_or_else(|why| {
                        data = None;
                        begun.retain(|other| *other != StreamKind::Data);
                        LinkEvent::NotFollowing(StreamKind::Data, why)
                    });
                    if self.tell(event).is_err() {
                        return Ok(());
                    }
                }
                told = heard.next() => {
                    let Some(event) = told else {
                        return Err("the subscriptions have ended".to_owned());
                    };
                    if self.tell(event).is_err() {
                        return Ok(());
                    }
                }
                Some((kind, opened)) = opening.next() => {
                    let event = match opened {
                        Ok((log, found)) => {
                            *slot(kind, &mut jobs, &mut data) = Some(log);
                            LinkEvent::Following(kind, found)
                        }
                        Err(why) => {
                            begun.retain(|other| *other != kind);
                            LinkEvent::NotFollowing(kind, why)
                        }
                    };
                    if self.tell(event).is_err() {
                        return Ok(());
                    }
                }
                order = waiting.recv(), if writing.len() < AT_ONCE => {
                    let event = match order {
                        None => return Ok(()),
                        Some(Order::Reconnect) => {
                            course.moves = true;
                            return Err("another server is tried".to_owned());
                        }
                        Some(Order::Put(write)) => match &bucket {
                            Some(bucket) => {
                                writing.spawn(bucket.put(write));
                                continue;
                            }
                            None => LinkEvent::PutEnded(write.name, write.revision, Put::Unknown),
                        },
                        Some(Order::Follow(kind, cursor)) => {
                            if !begun.contains(&kind) {
                                begun.push(kind);
                                opening.push(async move {
                                    (kind, stream::Log::open(self, client, kind, cursor).await)
                                });
                            }
                            continue;
                        }
                        Some(Order::Tell(channel, tail, bytes)) => {
                            let sent = client.publish(self.subject(channel, &tail), bytes.into());
                            sent.await.map_err(|e| error_text(&e))?;
                            continue;
                        }
                        Some(Order::Append { kind, tail, pieces, ticket }) => {
                            match slot(kind, &mut jobs, &mut data) {
                                Some(log) => {
                                    let mut ends = Vec::new();
                                    for piece in pieces {
                                        ends.push(log.append(&tail, piece).await);
                                    }
                                    writing.spawn(async move {
                                        let ends = futures_util::future::join_all(ends).await;
                                        Done::Append(kind, ticket, ends.into_iter().all(|end| end))
                                    });
                                    continue;
                                }
                                None => LinkEvent::Appended(kind, ticket, false),
                            }
                        }
                    };
                    if self.tell(event).is_err() {
                        return Ok(());
                    }
                }
                Some(done) = writing.join_next() => {
                    let event = match done {
                        Ok(Done::Put(name, replaced, how)) => LinkEvent::PutEnded(name, replaced, how),
                        Ok(Done::Append(kind, ticket, is_told)) => LinkEvent::Appended(kind, ticket, is_told),
                        Err(_) => continue,
                    };
                    if self.tell(event).is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// What others tell those who hear.
    async fn hear(&self, client: &Client) -> Result<impl Stream<Item = LinkEvent> + use<>, String> {
        let mut all = Vec::new();
        for channel in Channel::ALL {
            let own = match channel {
                Channel::Letters => format!("{}.", self.letters),
                _ => String::new(),
            };
            let prefix = self.subject(channel, &own);
            let messages = client.subscribe(format!("{prefix}>")).await;
            let messages = messages.map_err(|e| error_text(&e))?;
            all.push(messages.map(move |message| {
                let tail = message.subject.strip_prefix(prefix.as_str());
                let tail = tail.unwrap_or_default().to_owned();
                LinkEvent::Heard(channel, tail, message.payload.to_vec())
            }));
        }
        Ok(select_all(all))
    }
}

fn slot<'a>(
    kind: StreamKind,
    jobs: &'a mut Option<stream::Log>,
    data: &'a mut Option<stream::Log>,
) -> &'a mut Option<stream::Log> {
    match kind {
        StreamKind::Jobs => jobs,
        StreamKind::Data => data,
    }
}
