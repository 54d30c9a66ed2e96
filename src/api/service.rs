//! What is answered where (reference `salt-api.md` 2, 3).

use crate::answer::{Answer, ApiError, Content, Form, allow};
use crate::body;
use crate::events::Bus;
use crate::lowstate::{CLIENTS, Runner};
use crate::request::{Call, TOKEN, cookie, session_id, title_case};
use crate::session::{Session, Sessions};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use halite_client::local::Credentials;
use halite_config::{ApiConfig, MasterConfig};
use halite_sys::signals::StopFlag;
use halite_wire::ids::{Jid, Tag};
use halite_wire::{Map, Value};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, SERVER,
    SET_COOKIE,
};
use hyper::{Method, Request, Response, StatusCode};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most commands at a time: each waits in a thread of its own.
pub(super) const COMMANDS: usize = 256;
/// How long a command waits for a place among these.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most large bodies in memory; further requests wait.
const BODIES: usize = 64;
/// Size from which a body is large, in bytes.
const LARGE: u64 = 16 << 10;
/// Longest silence of a stream of events.
const SILENCE: Duration = Duration::from_secs(30);
/// Headers of a hook that go to no listener.
const SECRET: &[&str] = &[
    "x-auth-token",
    "cookie",
    "authorization",
    "proxy-authorization",
];

/// What has happened so far.
#[derive(Default)]
pub struct Counters {
    /// Requests.
    pub requests: AtomicU64,
    /// Those answered with 401 or 403.
    pub refused: AtomicU64,
    /// Those answered with 500 or more.
    pub failed: AtomicU64,
    /// Streams of events now.
    pub listeners: AtomicU64,
}

/// Answers requests.
pub struct Service {
    pub(super) config: MasterConfig,
    pub(super) api: ApiConfig,
    stop: StopFlag,
    bus: Bus,
    places: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    /// Clients that have logged in.
    pub sessions: Sessions,
    /// What has happened so far.
    pub counters: Counters,
}

/// What a handler answers.
pub(super) enum Reply {
    Value(Answer),
    Events,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Value(answer)
    }
}

pub(super) type Handled = Result<Reply, ApiError>;

impl Service {
    /// For the master with this configuration.
    pub fn new(config: &MasterConfig, api: &ApiConfig, bus: Bus, stop: &StopFlag) -> Service {
        Service {
            config: config.clone(),
            api: api.clone(),
            stop: stop.clone(),
            bus,
            places: Arc::new(Semaphore::new(COMMANDS)),
            bodies: Arc::new(Semaphore::new(BODIES)),
            sessions: Sessions::default(),
            counters: Counters::default(),
        }
    }

    /// Answers a request.
    pub async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Response<Content> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let origin = request.headers().get(ORIGIN).cloned();
        let is_head = request.method() == Method::HEAD;
        let mut response = self.clone().respond(request, peer).await;
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
        } else if status.is_server_error() {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("halite-api"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("content-security-policy", "default-src 'none'"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        self.allow_origin(origin, headers);
        if is_head {
            let length = hyper::body::Body::size_hint(response.body()).exact();
            if let Some(length) = length {
                response.headers_mut().insert(CONTENT_LENGTH, length.into());
            }
            *response.body_mut() = http_body_util::Empty::new().boxed_unsync();
        }
        response
    }

    /// Only for pages of the origins that the operator has named.
    fn allow_origin(&self, origin: Option<HeaderValue>, headers: &mut HeaderMap) {
        let Some(origin) = origin else { return };
        let named = |one: &String| origin.as_bytes() == one.as_bytes();
        if !self.api.origins.iter().any(named) {
            return;
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        let yes = HeaderValue::from_static("true");
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
        let exposed = HeaderValue::from_static("GET, POST, X-Auth-Token");
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        headers.append(hyper::header::VARY, HeaderValue::from_static("Origin"));
    }

    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Response<Content> {
        let from = peer.ip().to_canonical();
        if !self.api.addresses.is_empty() && !self.api.addresses.contains(&from) {
            return ApiError::new(StatusCode::FORBIDDEN, "Bad IP").response(Form::Json);
        }
        if request.method() == Method::OPTIONS {
            return preflight();
        }
        // Before anything runs.
        let form = match Form::accepted(request.headers()) {
            Ok(form) => form,
            Err(_) if request.uri().path().trim_matches('/') == "events" => Form::Json,
            Err(e) => return e.response(Form::Json),
        };
        let methods = match request.uri().path().split('/').find(|s| !s.is_empty()) {
            Some(one) if one == self.api.webhook_url => "POST",
            Some("events" | "stats") => "GET, HEAD",
            _ => "GET, HEAD, POST",
        };
        // Before anything is read.
        if let Err(e) = self.admit(&request) {
            return e.response(form);
        }
        // Whoever sends large ones must not use up the memory.
        let size = hyper::body::Body::size_hint(request.body());
        let is_large = size.upper().is_none_or(|upper| upper > LARGE);
        let _place = match is_large {
            true => match place(&self.bodies).await {
                Ok(place) => Some(place),
                Err(e) => return e.response(form),
            },
            false => None,
        };
        let handled = match Call::read(request, peer, self.api.max_body).await {
            Ok(call) => self.clone().handle(call).await,
            Err(e) => Err(e),
        };
        let mut response = match handled {
            Ok((Reply::Value(answer), _)) => answer.response(form),
            Ok((Reply::Events, id)) => self.events(id),
            Err(e) => e.response(form),
        };
        allow(&mut response, methods);
        response
    }

    /// Whether a request may send its body: most take a session, and none with a cookie may come from a page of others.
    fn admit(&self, request: &Request<Incoming>) -> Result<(), ApiError> {
        if request.method() != Method::POST {
            return Ok(());
        }
        let headers = request.headers();
        let first = request.uri().path().split('/').find(|one| !one.is_empty());
        let is_open = match first {
            Some("login" | "run" | "token") => true,
            Some(one) if one == self.api.webhook_url => self.api.webhook_disable_auth,
            None | Some("jobs" | "minions" | "logout") => false,
            // There is nothing.
            Some(_) => true,
        };
        let session = session_id(headers).and_then(|id| self.sessions.get(&id));
        if !is_open && session.is_none() {
            return Err(ApiError::no_session());
        }
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let has_cookie = text(TOKEN).is_none_or(str::is_empty) && session.is_some();
        if let Some(origin) = text(ORIGIN).filter(|_| has_cookie) {
            let (_, host) = origin.split_once("://").unwrap_or_default();
            let is_own = text(HOST) == Some(host);
            if !is_own && !self.api.origins.iter().any(|one| one == origin) {
                return Err(ApiError::new(
                    StatusCode::FORBIDDEN,
                    "Pages of this origin may not use it; cors_origins lists those that may",
                ));
            }
        }
        Ok(())
    }

    /// Runs what blocks in a thread of its own.
    pub(super) async fn blocking<T: Send + 'static>(
        self: Arc<Self>,
        run: impl FnOnce(&Service) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = place(&self.places).await?;
        let done = tokio::task::spawn_blocking(move || {
            // It goes on when its client has gone.
            let _place = place;
            run(&self)
        });
        let done = done.await;
        done.unwrap_or_else(|e| Err(ApiError::unforeseen(&e.to_string())))
    }

    /// The answer, and the id of the session.
    async fn handle(self: Arc<Self>, call: Call) -> Result<(Reply, Option<String>), ApiError> {
        let id = session_id(&call.headers);
        let session = id.as_deref().and_then(|id| self.sessions.get(id));
        let reply = self.route(call, id.clone(), session).await?;
        Ok((reply, id))
    }

    async fn route(
        self: Arc<Self>,
        call: Call,
        id: Option<String>,
        session: Option<Session>,
    ) -> Handled {
        let is_get = [Method::GET, Method::HEAD].contains(&call.method);
        let is_post = call.method == Method::POST;
        let segments: Vec<&str> = call.segments.iter().map(String::as_str).collect();
        if !is_get && !is_post {
            return Err(ApiError::method());
        }
        match (segments.as_slice(), is_post) {
            ([] | ["run"] | ["token"], false) if call.query.is_empty() => Ok(welcome().into()),
            (["login"], false) => {
                let map = halite_wire::map! {"status" => Value::Nil, "return" => "Please log in"};
                Ok(Answer::new(map.into()).into())
            }
            (["login"], true) => self.log_in(call).await,
            (["logout"], true) => {
                session.ok_or_else(ApiError::no_session)?;
                self.sessions.end(&id.unwrap_or_default());
                let answer = Answer::returning("Your token has been cleared");
                Ok(answer
                    .header(SET_COOKIE, &cookie("", 0, self.api.tls.is_some()))
                    .into())
            }
            ([] | ["jobs"], true) => {
                let session = session.ok_or_else(ApiError::no_session)?;
                self.commands(call, Some(session)).await
            }
            (["run"], true) => self.commands(call, None).await,
            (["token"], true) => self.make_token(call).await,
            (["minions"], true) => {
                let session = session.ok_or_else(ApiError::no_session)?;
                self.publish(call, session).await
            }
            (["minions", ..], false) => {
                let session = session.ok_or_else(ApiError::no_session)?;
                let tgt = call.argument("mid", 1)?.unwrap_or_else(|| "*".into());
                let low = halite_wire::map! {
                    "client" => "local", "tgt" => tgt, "fun" => "grains.items",
                };
                self.one(low, session)
                    .await
                    .map(|one| Answer::returning(Value::Array(vec![one])).into())
            }
            (["jobs", ..], false) => {
                let session = session.ok_or_else(ApiError::no_session)?;
                match call.argument("jid", 1)? {
                    None => {
                        let low = runner_low("jobs.list_jobs");
                        let jobs = self.one(low, session).await?;
                        Ok(Answer::returning(Value::Array(vec![jobs])).into())
                    }
                    Some(jid) => self.job(&jid, session).await,
                }
            }
            (["keys", ..], false) => {
                let session = session
                    .ok_or_else(|| ApiError::unauthorized("No authentication credentials given"))?;
                let mut low = halite_wire::map! {"client" => "wheel", "fun" => "key.list_all"};
                if let Some(id) = call.argument("mid", 1)? {
                    low.set("fun", "key.finger");
                    low.set("match", id);
                }
                let done = self.one(low, session).await?;
                let data = done.as_map().and_then(|map| map.get("data")?.as_map());
                let keys = data.and_then(|data| data.get("return")).cloned();
                Ok(Answer::returning(keys.unwrap_or_default()).into())
            }
            (["events"], false) => {
                if !call.query.is_empty() {
                    return Err(ApiError::bad(
                        "The /events endpoint takes no query parameters; send the token in the header X-Auth-Token",
                    ));
                }
                let session = session.ok_or_else(ApiError::no_session)?;
                if !session.may_listen {
                    return Err(ApiError::unauthorized(
                        "Events need the permission @events, or everything, @runner and @wheel",
                    ));
                }
                Ok(Reply::Events)
            }
            (["stats"], false) => {
                session.ok_or_else(ApiError::no_session)?;
                Ok(Answer::new(Map::new().into()).into())
            }
            ([hook, rest @ ..], _) if *hook == self.api.webhook_url => {
                if !is_post {
                    return Err(ApiError::method());
                }
                if !self.api.webhook_disable_auth {
                    session.ok_or_else(ApiError::no_session)?;
                }
                let tag = std::iter::once("salt/netapi/hook")
                    .chain(rest.iter().copied())
                    .collect::<Vec<_>>()
                    .join("/");
                self.blocking(move |service| service.hook(&call, &tag))
                    .await
            }
            ([] | ["run" | "token" | "login" | "logout", ..], _) => Err(ApiError::no_match()),
            _ => Err(ApiError::not_found(&call.path)),
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner {
            config: &self.config,
            stop: &self.stop,
        }
    }

    /// One command of a session.
    async fn one(self: Arc<Self>, low: Map, session: Session) -> Result<Value, ApiError> {
        self.blocking(move |service| {
            let token = Some(session.token.as_str());
            let enabled = &service.config.netapi_enable_clients;
            let done = service.runner().run(&low.into(), token, enabled)?;
            Ok(done.into_iter().next().unwrap_or_default())
        })
        .await
    }

    async fn commands(self: Arc<Self>, call: Call, session: Option<Session>) -> Handled {
        self.blocking(move |service| {
            let lows = body::lowstates(call.content()?)?;
            let token = session.as_ref().map(|session| session.token.as_str());
            let enabled = &service.config.netapi_enable_clients;
            let mut all = Vec::new();
            for low in lows {
                if service.stop.is_set() {
                    return Err(ApiError::no_master());
                }
                all.extend(service.runner().run(&low, token, enabled)?);
            }
            Ok(Answer::returning(Value::Array(all)).into())
        })
        .await
    }

    /// Every lowstate as a job that nobody waits for.
    async fn publish(self: Arc<Self>, call: Call, session: Session) -> Handled {
        let enabled = &self.config.netapi_enable_clients;
        if !enabled.iter().any(|one| one == "local_async") {
            return Err(ApiError::bad(
                "Client disabled: 'local_async'. Add to 'netapi_enable_clients' master config option to enable.",
            ));
        }
        self.blocking(move |service| {
            let lows = body::lowstates(call.content()?)?;
            let (mut all, mut links) = (Vec::new(), Vec::new());
            for low in lows {
                let low = low.into_map();
                let low = low.ok_or_else(|| ApiError::unforeseen("a lowstate is not a map"))?;
                let token = Credentials::Token(session.token.clone());
                let one = service.runner().publish(&low, token)?;
                let jid = one.as_map().and_then(|map| map.str("jid"));
                links.extend(
                    jid.map(|jid| Value::Map(halite_wire::map! {"href" => format!("/jobs/{jid}")})),
                );
                all.push(one);
            }
            let links = halite_wire::map! {"jobs" => Value::Array(links)};
            let map = halite_wire::map! {"return" => Value::Array(all), "_links" => links};
            Ok(Answer::new(map.into()).status(StatusCode::ACCEPTED).into())
        })
        .await
    }

    async fn job(self: Arc<Self>, jid: &str, session: Session) -> Handled {
        let job = match jid.parse::<Jid>() {
            Ok(_) => {
                let mut low = runner_low("jobs.list_job");
                low.set("jid", jid);
                self.one(low, session).await?
            }
            Err(_) => halite_wire::map! {
                "jid" => jid, "Error" => "Cannot contact returner or no job with this jid",
                "StartTime" => "", "Result" => Map::new(),
            }
            .into(),
        };
        let result = job.as_map().and_then(|job| job.get("Result")?.as_map());
        let returns = result.into_iter().flat_map(Map::iter).map(|(id, one)| {
            let value = one.as_map().and_then(|one| one.get("return"));
            (id.clone(), value.cloned().unwrap_or_default())
        });
        let returns = Value::Map(Map(returns.collect()));
        let map = halite_wire::map! {
            "info" => Value::Array(vec![job.clone()]), "return" => Value::Array(vec![returns]),
        };
        Ok(Answer::new(map.into()).into())
    }

    /// Fires an event with what was sent.
    fn hook(&self, call: &Call, tag: &str) -> Handled {
        if tag.parse::<Tag>().is_err() || tag.contains(|c: char| c.is_control()) {
            return Err(ApiError::bad("The path cannot be the tag of an event"));
        }
        let post = match call.body.is_empty() {
            true => Map::new().into(),
            false => call.content()?,
        };
        let mut headers = Map::new();
        for (name, value) in &call.headers {
            if !SECRET.contains(&name.as_str()) {
                let value = String::from_utf8_lossy(value.as_bytes());
                headers.set(title_case(name.as_str()), &*value);
            }
        }
        headers.set("Remote-Addr", call.peer.ip().to_string());
        let data = halite_wire::map! {
            "body" => String::from_utf8_lossy(&call.body).into_owned(), "post" => post, "headers" => headers,
        };
        let mut bus = halite_master::events::Bus::new(&self.config);
        bus.fire(tag, data);
        if bus.lost() > 0 {
            return Err(ApiError::no_master());
        }
        Ok(Answer::new(halite_wire::map! {"success" => true}.into()).into())
    }

    /// The event stream of a session, which ends with it.
    fn events(self: Arc<Self>, id: Option<String>) -> Response<Content> {
        let id = id.unwrap_or_default();
        let listener = self.bus.listener();
        let open = Open::new(self.clone());
        let first = Bytes::from_static(b"retry: 400\n");
        let rest = stream::unfold(
            (listener, open, id),
            |(mut listener, open, id)| async move {
                let next = tokio::time::timeout(SILENCE, listener.recv()).await;
                // The session is a living one for as long as somebody listens.
                open.service.sessions.get(&id)?;
                let bytes = match next {
                    Ok(Ok(frame)) => frame,
                    Ok(Err(RecvError::Lagged(n))) => {
                        Bytes::from(format!(": {n} events were missed\n\n"))
                    }
                    Ok(Err(RecvError::Closed)) => return None,
                    // Shows whether anybody is there.
                    Err(_) => Bytes::from_static(b":\n\n"),
                };
                Some((bytes, (listener, open, id)))
            },
        );
        let all = stream::once(async move { first }).chain(rest);
        let frames = all.map(|bytes| Ok::<_, Infallible>(Frame::data(bytes)));
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let headers = response.headers_mut();
        let media = HeaderValue::from_static("text/event-stream;charset=utf-8");
        headers.insert(CONTENT_TYPE, media);
        let cache = HeaderValue::from_static("no-cache");
        headers.insert(hyper::header::CACHE_CONTROL, cache);
        response
    }
}

/// An open stream of events.
struct Open {
    service: Arc<Service>,
}

impl Open {
    fn new(service: Arc<Service>) -> Open {
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

/// One of a limited number of places.
async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, ApiError> {
    let place = tokio::time::timeout(PATIENCE, places.clone().acquire_owned()).await;
    place.ok().and_then(Result::ok).ok_or_else(|| {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many commands are running; try again later",
        )
    })
}

fn welcome() -> Answer {
    let names: Vec<String> = CLIENTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    Answer::new(halite_wire::map! {"return" => "Welcome", "clients" => names}.into())
}

fn runner_low(fun: &str) -> Map {
    halite_wire::map! {"client" => "runner", "fun" => fun}
}

/// A preflight: what may be sent; from where, the header of the origin says. Nothing runs, and no session is touched.
fn preflight() -> Response<Content> {
    let mut response = Response::new(http_body_util::Empty::new().boxed_unsync());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST"),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "Content-Type, Accept, X-Auth-Token, X-Requested-With",
        ),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
