//! The thread of a link, which establishes one connection after the other.

use super::{LinkEvent, Shared, Waiting, held};
use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, Subscriber};
use bytes::Bytes;
use crossbeam_channel::RecvTimeoutError;
use futures_util::StreamExt;
use halite_nats::{error_text, shown, url};
use halite_sys::log_limiter::LogLimiter;
use halite_transport::attempts::{Attempts, Ended};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc};

/// Characters of an error of the broker that are logged.
const WORDS: usize = 300;

/// Interval of pings; a server that misses two is considered lost.
const PING: Duration = Duration::from_secs(20);
/// Most messages handed to the client library at once; they are lost with the connection.
const HANDED: usize = 128;
/// Most unread messages of one subscription.
const UNREAD: usize = 8192;
/// How long sending the last messages may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Connects until the link is dropped, which `ended` signals.
pub(super) fn run(
    shared: &Arc<Shared>,
    mut waiting: mpsc::Receiver<Waiting>,
    ended: &crossbeam_channel::Receiver<()>,
) {
    let servers = &shared.options.servers;
    let mut attempts = Attempts::default();
    while !shared.closing.load(Ordering::Acquire) {
        let server = url(attempts.server(servers));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let end = match runtime {
            Ok(runtime) => {
                let end = runtime.block_on(session(shared, &server, &mut waiting));
                // Does not wait for a pending name lookup.
                runtime.shutdown_background();
                end
            }
            Err(e) => Ended::Refused(format!("no runtime: {e}")),
        };
        shared.listening.store(0, Ordering::Release);
        held(&shared.server).clear();
        if matches!(end, Ended::Closed) {
            return;
        }
        if let Some(words) = attempts.ended(&shown(&server), end) {
            (shared.listener)(LinkEvent::Down(&words));
        }
        let pause = attempts.pause(servers.len());
        if let Err(RecvTimeoutError::Disconnected) = ended.recv_timeout(pause) {
            return;
        }
    }
}

/// The line for the log about an error that the broker reports, if one is due: it may report any number.
fn complaint(limiter: &mut LogLimiter, error: &str, now: Instant) -> Option<String> {
    let count = limiter.tick(now)?;
    let more = match count {
        1 => String::new(),
        _ => format!("; {count} complaints since the last line"),
    };
    Some(format!("the broker complains: {error}{more}"))
}

/// Events of the connection from the client library.
struct ConnectionEvents {
    gone: Notify,
    errors: mpsc::Sender<String>,
}

async fn session(
    shared: &Arc<Shared>,
    server: &str,
    waiting: &mut mpsc::Receiver<Waiting>,
) -> Ended {
    let (errors, mut told) = mpsc::channel(16);
    let events = Arc::new(ConnectionEvents {
        gone: Notify::new(),
        errors,
    });
    let connecting = connect_options(shared, &events).connect(server);
    let client = tokio::select! {
        made = connecting => match made {
            Ok(client) => client,
            Err(e) => return Ended::Refused(error_text(&e)),
        },
        () = closing(shared) => return Ended::Closed,
    };
    let largest = client.max_payload();
    if largest > 0 {
        shared.largest.store(largest, Ordering::Relaxed);
    }
    shared.connections.fetch_add(1, Ordering::Relaxed);
    *held(&shared.server) = server.to_owned();
    let mut last_error = String::new();
    let mut work = Work {
        shared,
        client,
        listening: HashMap::new(),
    };
    tokio::select! {
        biased;
        () = events.gone.notified() => {
            while let Ok(error) = told.try_recv() {
                last_error = error;
            }
            Ended::Lost(if last_error.is_empty() {
                "the server closed it".to_owned()
            } else {
                last_error
            })
        }
        end = work.run(server, waiting) => end,
    }
}

/// Returns when the link is being dropped.
async fn closing(shared: &Shared) {
    while !shared.closing.load(Ordering::Acquire) {
        shared.changed.notified().await;
    }
}

fn connect_options(shared: &Arc<Shared>, events: &Arc<ConnectionEvents>) -> ConnectOptions {
    let (listener, counted) = (events.clone(), shared.clone());
    let options = shared.options.connect_options();
    options
        .ping_interval(PING)
        .client_capacity(HANDED)
        .subscription_capacity(UNREAD)
        .event_callback(move |event| {
            match event {
                Event::Disconnected | Event::Closed => listener.gone.notify_one(),
                Event::SlowConsumer(_) => {
                    counted.dropped.fetch_add(1, Ordering::Relaxed);
                }
                Event::ServerError(error) => {
                    let error: String = error.to_string().chars().take(WORDS).collect();
                    let mut complaints = held(&counted.complaints);
                    if let Some(line) = complaint(&mut complaints, &error, Instant::now()) {
                        log::warn!("{line}");
                    }
                    // Only the first few are kept.
                    let _ = listener.errors.try_send(error);
                }
                Event::ClientError(error) => {
                    let _ = listener.errors.try_send(error.to_string());
                }
                Event::Connected | Event::LameDuckMode | Event::Draining => {}
            }
            async {}
        })
}

struct Work<'a> {
    shared: &'a Arc<Shared>,
    client: Client,
    /// The stop signal of each subscription's task.
    listening: HashMap<String, Arc<Notify>>,
}

impl Work<'_> {
    async fn run(&mut self, server: &str, waiting: &mut mpsc::Receiver<Waiting>) -> Ended {
        if let Err(e) = self.follow().await {
            return Ended::Lost(e);
        }
        // All subscriptions are sent before the link is reported as up.
        if let Err(e) = self.client.flush().await {
            return Ended::Lost(error_text(&e));
        }
        (self.shared.listener)(LinkEvent::Up(server));
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        loop {
            let done = tokio::select! {
                biased;
                () = self.shared.changed.notified() => {
                    if self.shared.closing.load(Ordering::Acquire) {
                        self.flush_remaining(waiting).await;
                        return Ended::Closed;
                    }
                    self.follow().await
                }
                _ = tick.tick() => {
                    (self.shared.listener)(LinkEvent::Tick);
                    match self.client.connection_state() {
                        State::Disconnected => Err("the server closed it".to_owned()),
                        _ => Ok(()),
                    }
                }
                Some(next) = waiting.recv() => self.send(next).await,
            };
            if let Err(why) = done {
                return Ended::Lost(why);
            }
        }
    }

    /// Updates the subscriptions to the wanted ones.
    async fn follow(&mut self) -> Result<(), String> {
        let wanted = held(&self.shared.wanted).clone();
        self.listening.retain(|subject, stop| {
            let stays = wanted.contains_key(subject);
            if !stays {
                stop.notify_one();
            }
            stays
        });
        for (subject, group) in wanted {
            if self.listening.contains_key(&subject) {
                continue;
            }
            let made = match group {
                Some(group) => self.client.queue_subscribe(subject.clone(), group).await,
                None => self.client.subscribe(subject.clone()).await,
            };
            let subscriber = made.map_err(|e| format!("{subject}: {}", error_text(&e)))?;
            let stop = Arc::new(Notify::new());
            self.shared.listening.fetch_add(1, Ordering::AcqRel);
            tokio::spawn(listen(self.shared.clone(), subscriber, stop.clone()));
            self.listening.insert(subject, stop);
        }
        Ok(())
    }

    async fn send(&self, Waiting { item, until }: Waiting) -> Result<(), String> {
        let size = item.payload.len();
        self.shared.waiting_bytes.fetch_sub(size, Ordering::Relaxed);
        if Instant::now() > until {
            self.shared.expired.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let payload = Bytes::from(item.payload);
        for subject in item.subjects {
            let bytes = payload.clone();
            let sent = match &item.reply {
                Some(reply) => {
                    self.client
                        .publish_with_reply(subject, reply.clone(), bytes)
                        .await
                }
                None => self.client.publish(subject, bytes).await,
            };
            match sent {
                Ok(()) => {}
                // The limit is smaller than that of the previous server, or the subject is invalid: not a fault of
                // the connection.
                Err(e) => {
                    log::warn!(
                        "a message of {size} bytes cannot be sent: {}",
                        error_text(&e)
                    );
                }
            }
        }
        Ok(())
    }

    /// Sends the queued messages before stopping.
    async fn flush_remaining(&self, waiting: &mut mpsc::Receiver<Waiting>) {
        let work = async {
            while let Ok(next) = waiting.try_recv() {
                if self.send(next).await.is_err() {
                    return;
                }
            }
            if let Err(e) = self.client.flush().await {
                log::debug!("the last messages may be lost: {e}");
            }
        };
        if tokio::time::timeout(FLUSH_TIMEOUT, work).await.is_err() {
            log::warn!("the broker did not accept the last messages in time");
        }
    }
}

/// Passes all messages of one subscription to the listener.
async fn listen(shared: Arc<Shared>, mut subscriber: Subscriber, stop: Arc<Notify>) {
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            message = subscriber.next() => match message {
                // A status of the broker, such as "no responders", is not a message.
                Some(message) if message.status.is_some() => {}
                Some(message) => (shared.listener)(LinkEvent::Message(&message.subject, &message.payload)),
                None => break,
            },
            () = stop.notified(), if !stopping => {
                stopping = true;
                if subscriber.drain().await.is_err() {
                    break;
                }
            }
        }
    }
    shared.listening.fetch_sub(1, Ordering::AcqRel);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_complaints_are_a_line_a_minute() {
        let mut limiter = LogLimiter::default();
        let now = Instant::now();
        let mut lines = Vec::new();
        for second in 0..100 {
            lines.extend(complaint(
                &mut limiter,
                "no",
                now + Duration::from_secs(second),
            ));
        }
        let second = "the broker complains: no; 60 complaints since the last line";
        assert_eq!(lines, ["the broker complains: no", second]);
    }
}
