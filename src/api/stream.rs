//! Server-sent events: the bus, and the returns of a job as they come.

use crate::answer::{ApiError, Content};
use crate::handlers::runner_low;
use crate::limits::{StopAtEnd, place};
use crate::master::Master;
use crate::request::Call;
use crate::service::{Client, Handled, Reply, Service};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, Stream};
use halite_client::command;
use halite_client::gather::MinionOutcome;
use halite_client::local::{Credentials, Published};
use halite_store::jobs::JobReader;
use halite_sys::signals::StopFlag;
use halite_wire::Map;
use halite_wire::ids::Jid;
use halite_wire::pyjson;
use http_body_util::{BodyExt, StreamBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// Longest silence of a stream.
const SILENCE: Duration = Duration::from_secs(30);
/// Most jobs that a user follows at a time.
const SHARE: usize = 32;
/// How long a client may take to read what is there.
const PATIENCE: Duration = Duration::from_secs(60);
/// Returns that wait for a client to read them.
const WAITING: usize = 64;
/// Most globs of a listener.
const GLOBS: usize = 16;
/// Most bytes of them: every event is compared with each.
const GLOB_BYTES: usize = 512;
/// The event that a client has heard last.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// An open stream of events, counted.
pub(super) struct Open {
    pub service: Arc<Service>,
}

impl Open {
    pub fn new(service: Arc<Service>) -> Open {
        service.counters.listeners.fetch_add(1, Ordering::Relaxed);
        Open { service }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.service
            .counters
            .listeners
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service {
    /// The event stream of a session, which ends with it.
    pub(super) fn events(self: Arc<Self>, call: Call, client: Client) -> Handled {
        let size: usize = call.query.iter().map(|(_, glob)| glob.len()).sum();
        if call.query.len() > GLOBS || size > GLOB_BYTES {
            return Err(ApiError::bad(format!(
                "tag: at most {GLOBS} of them, and {GLOB_BYTES} bytes"
            )));
        }
        client.may_listen()?;
        let globs: Vec<String> = call.query.into_iter().map(|(_, glob)| glob).collect();
        let last = call.headers.get(LAST_EVENT).and_then(|id| id.to_str().ok());
        let listener = self.bus.listener(&globs, last);
        let id = client.id.unwrap_or_default();
        let first = Bytes::from_static(b"retry: 400\n");
        let rest = stream::unfold(
            (listener, Open::new(self), id),
            |(mut listener, open, id)| async move {
                let next = tokio::time::timeout(SILENCE, listener.frames()).await;
                // The session is a living one for as long as somebody listens.
                open.service.sessions.get(&id)?;
                // Silence shows whether anybody is there.
                let bytes = next.unwrap_or_else(|_| Bytes::from_static(b":\n\n"));
                Some((bytes, (listener, open, id)))
            },
        );
        Ok(Reply::Whole(sent(
            stream::once(async move { first }).chain(rest),
        )))
    }

    /// The returns of a job, those that are there and those that come, and in the end the minions that have not answered.
    pub(super) async fn follow(self: Arc<Self>, call: Call, client: Client) -> Handled {
        let session = client.session()?;
        let jid = call.segments.get(1).map(String::as_str).unwrap_or_default();
        let jid: Jid = jid
            .parse()
            .map_err(|_| ApiError::bad("the id of a job has 20 digits"))?;
        let id = client.id.unwrap_or_default();
        if !self.sessions.has_job(&id, &jid) {
            // Who may look at it may also follow it.
            let mut low = runner_low("jobs.list_job");
            low.set("jid", jid.as_str());
            self.clone().one(low, session.clone()).await?;
        }
        let share = self
            .shares
            .take(&format!("follows {}", session.who()), SHARE)?;
        let place = place(&self.followers).await?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let stop = StopFlag::default();
        let at_end = StopAtEnd(stop.clone());
        let (service, handle) = (self.clone(), Handle::current());
        tokio::task::spawn_blocking(move || {
            let _places = (place, share);
            let send = |event: &str, data: Map| {
                if stop.is_set() {
                    return;
                }
                let data = pyjson::dumps(&data.into());
                let frame = Bytes::from(format!("event: {event}\ndata: {data}\n\n"));
                let sent = handle.block_on(tokio::time::timeout(PATIENCE, sender.send(frame)));
                if !matches!(sent, Ok(Ok(()))) {
                    stop.set();
                }
            };
            service.tell_returns(&jid, session.token, &stop, &send);
        });
        let open = Open::new(self);
        let rest = stream::unfold(
            (receiver, open, at_end, id),
            |(mut receiver, open, at_end, id)| async move {
                let next = tokio::time::timeout(SILENCE, receiver.recv()).await;
                open.service.sessions.get(&id)?;
                let bytes = match next {
                    Ok(frame) => frame?,
                    Err(_) => Bytes::from_static(b":\n\n"),
                };
                Some((bytes, (receiver, open, at_end, id)))
            },
        );
        Ok(Reply::Whole(sent(rest)))
    }

    fn tell_returns(&self, jid: &Jid, token: String, stop: &StopFlag, send: &dyn Fn(&str, Map)) {
        let master = Master(&self.config);
        let job = match master.get(jid) {
            Ok(job) => job.unwrap_or_default(),
            Err(e) => {
                log::error!("api: the job {jid} cannot be read: {e}");
                return send(
                    "failed",
                    halite_wire::map! {"error" => "The job cache cannot be read"},
                );
            }
        };
        let published = Published {
            jid: jid.to_string(),
            minions: match job.minions.is_empty() {
                // A job that a minion has started by itself.
                true => job.returns.iter().map(|one| one.id.clone()).collect(),
                false => job.minions,
            },
            ..Published::default()
        };
        let (mut missing, mut outcomes) = (job.missing, Map::new());
        // They are read once more where they are told.
        drop(job.returns);
        for id in &missing {
            outcomes.set(id.as_str(), "no key");
        }
        let mut each = |id: &str, outcome: MinionOutcome| {
            let why = match outcome {
                MinionOutcome::Returned(load) => {
                    let part = |name: &str| load.get(name).cloned().unwrap_or_default();
                    return send(
                        "return",
                        halite_wire::map! {
                            "id" => id, "return" => part("return"), "retcode" => part("retcode"),
                            "success" => part("success"), "out" => part("out"),
                        },
                    );
                }
                MinionOutcome::Running => "running",
                MinionOutcome::NotConnected => "not connected",
                MinionOutcome::Lost => "lost",
                MinionOutcome::NoKey => "no key",
            };
            missing.push(id.to_owned());
            outcomes.set(id, why);
        };
        let on_state = |id: &str, result: &Map, total: usize| {
            let map =
                halite_wire::map! {"id" => id, "state" => result.clone(), "total" => total as u64};
            send("state", map);
        };
        let ends = || stop.is_set() || self.stop.is_set();
        let credentials = Credentials::Token(token);
        let followed = command::follow(
            &self.config,
            &master,
            &published,
            credentials,
            &ends,
            &on_state,
            &mut each,
        );
        if let Err(e) = followed {
            log::warn!("api: the job {jid} cannot be followed: {e}");
            return send(
                "failed",
                halite_wire::map! {"error" => "Salt Master is not available."},
            );
        }
        missing.sort();
        send(
            "done",
            halite_wire::map! {"missing" => missing, "outcomes" => outcomes},
        );
    }
}

fn sent(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response<Content> {
    let frames = frames.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    let headers = response.headers_mut();
    let media = HeaderValue::from_static("text/event-stream;charset=utf-8");
    headers.insert(CONTENT_TYPE, media);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
