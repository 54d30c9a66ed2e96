//! What happens to each request, before and after what answers it (`handlers`): addresses, origins, sessions, limits, the
//! form of answers, the audit log.

use crate::answer::{Answer, ApiError, Content, Form, allow};
use crate::attempt::Attempts;
use crate::events::Bus;
use crate::limits::{Limits, Share, Shares, StopAtEnd, network_of, place};
use crate::lowstate::Runner;
use crate::request::{
    Call, REQUEST_ID, TOKEN, one_host, request_id, segments_of, session_id, too_large, wants_page,
};
use crate::routes::{self, Access, Endpoint, Route};
use crate::session::{Session, Sessions};
use halite_config::{ApiConfig, MasterConfig};
use halite_master::access::eauth::oidc;
use halite_store::audit::{AuditLog, Decision};
use halite_sys::allowance::Allowances;
use halite_sys::signals::StopFlag;
use halite_wire::Value;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    CONTENT_LENGTH, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderName, HeaderValue,
    IF_NONE_MATCH, ORIGIN, SERVER,
};
use hyper::{Method, Request, Response, StatusCode};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Semaphore;

/// Most commands at a time: each waits in a thread of its own.
pub(super) const COMMANDS: usize = 256;
/// Most jobs that are followed at a time, each in a thread of its own as well.
pub(super) const FOLLOWED: usize = 128;
/// Most logins and files at a time, each in a thread of its own too.
pub(super) const LOGINS: usize = 64;
/// Most requests to OpenID providers at a time: one that hangs must not take the places of others.
pub(super) const PROVIDERS: usize = 16;
/// Most commands of a user, or of an address without a session, at a time.
const SHARE: usize = 64;
/// Most large bodies in memory; further requests wait.
const BODIES: usize = 64;
/// Size from which a body is large, in bytes.
const LARGE: u64 = 16 << 10;
/// Seconds of its rate that a client may use at once.
const BURST: u32 = 10;
/// Where a request of a browser comes from.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What has happened so far.
#[derive(Default)]
pub struct Counters {
    /// Requests.
    pub requests: AtomicU64,
    /// Those answered with 401 or 403.
    pub refused: AtomicU64,
    /// Those answered with 429.
    pub limited: AtomicU64,
    /// Those answered with 500 or more.
    pub failed: AtomicU64,
    /// Streams of events now.
    pub listeners: AtomicU64,
}

/// Answers requests.
pub struct Service {
    pub(super) config: MasterConfig,
    pub(super) api: ApiConfig,
    pub(super) stop: StopFlag,
    pub(super) bus: Bus,
    places: Arc<Semaphore>,
    logins: Arc<Semaphore>,
    providers: Arc<Semaphore>,
    pub(super) shares: Shares,
    pub(super) followers: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    bodies_of_strangers: Arc<Semaphore>,
    shares_of_bodies: Shares,
    audit: AuditLog,
    limits: Limits,
    limits_of_strangers: Limits,
    pub(super) attempts: Attempts,
    /// Whether browsers reach it by TLS, as far as is known.
    pub(super) is_secure: bool,
    /// Clients that have logged in.
    pub sessions: Sessions,
    /// What has happened so far.
    pub counters: Counters,
}

/// What a handler answers.
pub(super) enum Reply {
    /// In the form that the client wants.
    Value(Answer),
    /// As it is.
    Whole(Response<Content>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Value(answer)
    }
}

/// Marks an answer that sends a browser on though something was refused.
#[derive(Clone, Copy)]
pub(super) struct Refused;

pub(super) type Handled = Result<Reply, ApiError>;

/// Who has sent a request.
#[derive(Clone, Default)]
pub(super) struct Client {
    /// The id of a session that it has named.
    pub id: Option<String>,
    /// That session, if there is one.
    pub session: Option<Session>,
}

impl Client {
    /// The session.
    ///
    /// # Errors
    /// There is none.
    pub fn session(&self) -> Result<Session, ApiError> {
        self.session.clone().ok_or_else(ApiError::no_session)
    }

    /// Whether the bus may be followed.
    ///
    /// # Errors
    /// There is no session, or it may not.
    pub fn may_listen(&self) -> Result<(), ApiError> {
        match self.session()?.may_listen {
            true => Ok(()),
            false => Err(ApiError::unauthorized(
                "Events need the permission @events, or everything, @runner and @wheel",
            )),
        }
    }
}

impl Service {
    /// For the master with this configuration.
    pub fn new(config: &MasterConfig, api: &ApiConfig, bus: Bus, stop: &StopFlag) -> Service {
        let burst = api.rate_limit.saturating_mul(BURST);
        let oidc = oidc::settings(&config.external_auth);
        let uri = oidc.and_then(|one| one.redirect_uri);
        // Browsers may come through a proxy that speaks TLS for it.
        let is_secure = api.tls.is_some() || uri.is_some_and(|uri| uri.starts_with("https://"));
        let limits = || Mutex::new(Allowances::new(api.rate_limit, burst));
        Service {
            config: config.clone(),
            api: api.clone(),
            stop: stop.clone(),
            bus,
            places: Arc::new(Semaphore::new(COMMANDS)),
            logins: Arc::new(Semaphore::new(LOGINS)),
            providers: Arc::new(Semaphore::new(PROVIDERS)),
            shares: Shares::default(),
            followers: Arc::new(Semaphore::new(FOLLOWED)),
            bodies: Arc::new(Semaphore::new(BODIES)),
            bodies_of_strangers: Arc::new(Semaphore::new(BODIES)),
            shares_of_bodies: Shares::default(),
            audit: AuditLog::new(match &api.user {
                None => Path::new(&config.audit_log),
                Some(_) => api.audit_log.as_deref().unwrap_or(Path::new("")),
            }),
            limits: limits(),
            limits_of_strangers: limits(),
            attempts: Attempts::new(is_secure),
            is_secure,
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
        let began = Instant::now();
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let origin = request.headers().get(ORIGIN).cloned();
        let is_head = request.method() == Method::HEAD;
        let what = format!("{} {}", request.method(), request.uri().path());
        let request_id = request_id(request.headers());
        let mut client = Client::default();
        let (mut response, route) = self.clone().respond(request, peer, &mut client).await;
        let status = response.status();
        let is_refused = response.extensions().get::<Refused>().is_some();
        if is_refused || status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
        } else if status == StatusCode::TOO_MANY_REQUESTS {
            self.counters.limited.fetch_add(1, Ordering::Relaxed);
        } else if status.is_server_error() {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
        // What has no route has not been let in, and strangers must not fill the log.
        if route.is_some_and(|route| route.endpoint.is_audited())
            && status != StatusCode::TOO_MANY_REQUESTS
        {
            let user = client.session.as_ref().map_or("", |one| &one.user);
            let took = began.elapsed().as_millis();
            let id = request_id.to_str().unwrap_or_default();
            // Its path may have the id of a session.
            let is_socket = route.is_some_and(|route| route.endpoint == Endpoint::WebSocket);
            let what = if is_socket { "GET /ws" } else { &what };
            self.audit.write(&Decision {
                what: "api",
                user,
                method: if user.is_empty() { "" } else { "session" },
                from: &peer.ip().to_canonical().to_string(),
                function: Some(&what.into()),
                allowed: !is_refused && !status.is_client_error() && !status.is_server_error(),
                reason: &format!("{} in {took} ms, request {id}", status.as_u16()),
                ..Decision::default()
            });
        }
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("halite-api"));
        headers.insert(REQUEST_ID, request_id);
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        let policy = HeaderValue::from_static("default-src 'none'");
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
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
        let exposed = HeaderValue::from_static("GET, POST, X-Auth-Token, X-Request-Id, ETag, Link");
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        headers.append(hyper::header::VARY, HeaderValue::from_static("Origin"));
    }

    /// The answer, and the route if there is one.
    async fn respond(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: SocketAddr,
        client: &mut Client,
    ) -> (Response<Content>, Option<&'static Route>) {
        let from = peer.ip().to_canonical();
        if !self.api.addresses.is_empty() && !self.api.addresses.contains(&from) {
            let refused = ApiError::new(StatusCode::FORBIDDEN, "Bad IP");
            return (refused.response(Form::Json), None);
        }
        if let Err(e) = one_host(&request) {
            return (e.response(Form::Json), None);
        }
        if request.method() == Method::OPTIONS {
            return (preflight(), None);
        }
        let path = request.uri().path().to_owned();
        let segments = routes::named_as_in_table(&self.api, segments_of(&path));
        let names: Vec<&str> = segments.iter().map(String::as_str).collect();
        let method = request.method().clone();
        let mut route = routes::find(&method, &path, &names);
        // A browser's address bar.
        if let Ok(Route {
            endpoint: Endpoint::Welcome,
            ..
        }) = route
            && names.is_empty()
            && request.uri().query().is_none()
            && wants_page(request.headers())
            && let Some(page) = routes::first_page(&self.api)
        {
            route = Ok(page);
        }
        // Before anything runs.
        let has_form = route.as_ref().is_ok_and(|route| route.endpoint.has_form());
        let form = match Form::accepted(request.headers()) {
            Ok(form) => form,
            Err(_) if !has_form && route.is_ok() => Form::Json,
            Err(e) => return (e.response(Form::Json), None),
        };
        let known = request.headers().get(IF_NONE_MATCH).cloned();
        let handled = match route {
            Ok(route) => {
                client.id = session_id(request.headers());
                if route.endpoint == Endpoint::WebSocket {
                    // Java's client has it in the path.
                    client.id = names.get(1).map(|id| (*id).to_owned()).or(client.id.take());
                }
                let found = client.id.as_deref().and_then(|id| self.sessions.get(id));
                client.session = found;
                // Before anything is read.
                let admitted = self.admit(route, &request, from, client);
                match admitted {
                    Err(e) => Err(e),
                    Ok(()) if route.endpoint == Endpoint::WebSocket => {
                        self.web_socket(&mut request, client)
                    }
                    Ok(()) => {
                        self.clone()
                            .read_and_handle(route, request, peer, segments.clone(), client)
                            .await
                    }
                }
            }
            Err(ref e) => {
                let limited = self.limit(&self.limits_of_strangers, network_of(from));
                Err(limited.err().unwrap_or_else(|| e.clone()))
            }
        };
        let mut response = match handled {
            Ok(Reply::Value(answer)) if [Method::GET, Method::HEAD].contains(&method) => {
                answer.tagged(form, known.as_ref())
            }
            Ok(Reply::Value(answer)) => answer.response(form),
            Ok(Reply::Whole(response)) => response,
            Err(e) => e.response(form),
        };
        allow(&mut response, routes::methods(&names));
        (response, route.ok())
    }

    async fn read_and_handle(
        self: Arc<Self>,
        route: &'static Route,
        request: Request<Incoming>,
        peer: SocketAddr,
        segments: Vec<String>,
        client: &Client,
    ) -> Handled {
        // Whoever sends large ones must not use up the memory.
        let size = hyper::body::Body::size_hint(request.body());
        let is_large = size.upper().is_none_or(|upper| upper > LARGE);
        // Before a client that asks (`Expect`) is told to send it.
        if size.lower() > self.api.max_body as u64 {
            return Err(too_large());
        }
        let (bodies, who) = match &client.session {
            Some(session) => (&self.bodies, session.who()),
            None => (
                &self.bodies_of_strangers,
                network_of(peer.ip().to_canonical()),
            ),
        };
        // One that lets its bodies trickle must leave places to others.
        let _place = match is_large {
            true => {
                let share = self.shares_of_bodies.take(&who, BODIES / 4)?;
                Some((share, place(bodies).await?))
            }
            false => None,
        };
        let call = Call::read(request, peer, segments, self.api.max_body).await?;
        self.handle(route, call, client.clone()).await
    }

    /// Whether a request may be read: most take a session, none with a cookie may come from a page of others, and nobody may
    /// send too many.
    fn admit(
        &self,
        route: &Route,
        request: &Request<Incoming>,
        from: IpAddr,
        client: &Client,
    ) -> Result<(), ApiError> {
        if route.endpoint == Endpoint::Events {
            // Said to everybody: whoever puts a token there has to hear it.
            let query = request.uri().query().unwrap_or_default();
            let mut names = form_urlencoded::parse(query.as_bytes());
            if names.any(|(name, _)| name != "tag") {
                return Err(ApiError::bad(
                    "The /events endpoint takes no query parameters; send the token in the header X-Auth-Token (tag is the only one)",
                ));
            }
        }
        let is_open = match route.access {
            Access::Open => true,
            Access::Session => false,
            Access::Hook => self.api.webhook_disable_auth,
        };
        let has_session = client.session.is_some();
        if !is_open && !has_session {
            self.limit(&self.limits_of_strangers, network_of(from))?;
            return Err(match route.endpoint {
                Endpoint::Keys => ApiError::unauthorized("No authentication credentials given"),
                _ => ApiError::no_session(),
            });
        }
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let may_act = request.method() == Method::POST || route.endpoint == Endpoint::WebSocket;
        let has_cookie = text(TOKEN).is_none_or(str::is_empty) && has_session;
        // Browsers say so of requests that pages of others make, also without an origin. `GET /minions` runs a job.
        let is_from_elsewhere =
            text(FETCH_SITE).is_some_and(|site| ["cross-site", "same-site"].contains(&site));
        let is_page = matches!(
            route.endpoint,
            Endpoint::Asset
                | Endpoint::Application
                | Endpoint::Static
                | Endpoint::Welcome
                | Endpoint::BeginOidc
                | Endpoint::EndOidc
        );
        let is_refused = is_from_elsewhere && has_cookie && !is_page;
        if is_refused && text(ORIGIN).is_none() {
            return Err(other_origin());
        }
        let may_act = may_act && (has_cookie || route.endpoint == Endpoint::LogIn);
        if let Some(origin) = text(ORIGIN).filter(|_| may_act || (has_cookie && !is_page)) {
            let (_, host) = origin.split_once("://").unwrap_or_default();
            let is_own = text(HOST) == Some(host);
            if !is_own && !self.api.origins.iter().any(|one| one == origin) {
                return Err(other_origin());
            }
        }
        match &client.session {
            Some(session) => self.limit(&self.limits, session.who()),
            // A balancer that looks must not take a busy service for a dead one.
            None if route.endpoint == Endpoint::Health => Ok(()),
            None => self.limit(&self.limits_of_strangers, network_of(from)),
        }
    }

    fn limit(&self, limits: &Limits, who: String) -> Result<(), ApiError> {
        let mut limits = limits.lock().unwrap_or_else(PoisonError::into_inner);
        match limits.take(who, Instant::now()) {
            true => Ok(()),
            false => Err(ApiError::new(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests: `rate_limit` of the setting `api` is the number per second",
            )),
        }
    }

    /// One of so many places that a network has for this, so that it leaves some to others.
    ///
    /// # Errors
    /// 429: it has them all.
    pub(super) fn share_of(
        &self,
        what: &str,
        from: IpAddr,
        most: usize,
    ) -> Result<Share, ApiError> {
        let who = format!("{what} {}", network_of(from.to_canonical()));
        self.shares.take(&who, most)
    }

    /// Runs what blocks in a thread of its own.
    pub(super) async fn blocking<T: Send + 'static>(
        self: Arc<Self>,
        run: impl FnOnce(&Service) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = place(&self.places).await?;
        self.in_thread(place, run).await
    }

    /// The same, for logins and files: commands must not take their places.
    pub(super) async fn apart<T: Send + 'static>(
        self: Arc<Self>,
        run: impl FnOnce(&Service) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = place(&self.logins).await?;
        self.in_thread(place, run).await
    }

    /// The same, for what asks OpenID providers.
    pub(super) async fn at_provider<T: Send + 'static>(
        self: Arc<Self>,
        run: impl FnOnce(&Service) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let place = place(&self.providers).await?;
        self.in_thread(place, run).await
    }

    /// The same, for what waits for minions or runners: until its client has gone, and so many at a time of the same `who`.
    pub(super) async fn waiting<T: Send + 'static>(
        self: Arc<Self>,
        who: String,
        run: impl FnOnce(&Service, &StopFlag) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let share = self.shares.take(&who, SHARE)?;
        let stop = StopFlag::default();
        let _at_end = StopAtEnd(stop.clone());
        let place = place(&self.places).await?;
        self.in_thread((place, share), move |service| run(service, &stop))
            .await
    }

    async fn in_thread<T: Send + 'static>(
        self: Arc<Self>,
        place: impl Send + 'static,
        run: impl FnOnce(&Service) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            run(&self)
        });
        let done = done.await;
        done.unwrap_or_else(|e| Err(ApiError::unforeseen(&e.to_string())))
    }

    pub(super) fn runner<'a>(&'a self, stop: &'a StopFlag) -> Runner<'a> {
        Runner {
            config: &self.config,
            stop,
        }
    }
}

fn other_origin() -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        "Pages of this origin may not use it; cors_origins lists those that may",
    )
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
            "Content-Type, Accept, X-Auth-Token, X-Requested-With, X-Request-Id, If-None-Match, Last-Event-ID",
        ),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The value of a counter.
pub(super) fn count(of: &AtomicU64) -> Value {
    of.load(Ordering::Relaxed).into()
}
