//! All paths, in one table: what is there, who may use it, and what for. What clients are told about them (`Allow`, the OpenAPI
//! document) is written from it.

use crate::answer::ApiError;
use halite_config::ApiConfig;
use hyper::Method;

/// What answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Welcome,
    Commands,
    LoginHint,
    LogIn,
    LogOut,
    MakeToken,
    BeginOidc,
    EndOidc,
    Minions,
    Publish,
    Jobs,
    JobEvents,
    Keys,
    MakeKeys,
    Events,
    WebSocket,
    Stats,
    Hook,
    Session,
    Settings,
    Asset,
    Application,
    Static,
    Arena,
    Health,
    Ready,
    OpenApi,
}

impl Endpoint {
    /// Whether it answers in the form that a client asks for; others have one of their own.
    pub fn has_form(self) -> bool {
        use Endpoint::{
            Application, Asset, BeginOidc, EndOidc, Events, JobEvents, MakeKeys, OpenApi, Static,
            WebSocket,
        };
        ![
            Application,
            Asset,
            BeginOidc,
            EndOidc,
            Events,
            JobEvents,
            MakeKeys,
            OpenApi,
            Static,
            WebSocket,
        ]
        .contains(&self)
    }

    /// Whether its calls are in the audit log. Checks and files of pages are too many, and change nothing.
    pub fn is_audited(self) -> bool {
        use Endpoint::{Application, Asset, Health, OpenApi, Ready, Settings, Static};
        ![Application, Asset, Health, OpenApi, Ready, Settings, Static].contains(&self)
    }
}

/// Who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody; commands have credentials of their own.
    Open,
    /// Clients that have logged in.
    Session,
    /// The same, unless `webhook_disable_auth` is set.
    Hook,
}

/// What it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// A lowstate, or a list of them.
    Lowstates,
    /// `username`, `password`, `eauth`.
    Login,
    /// Anything.
    Any,
}

/// One method of one path.
#[derive(Debug)]
pub struct Route {
    /// `GET`, which stands for `HEAD` as well, or `POST`.
    pub method: &'static str,
    /// `{name}` is one segment, `{name*}` any number of them.
    pub path: &'static str,
    /// What answers.
    pub endpoint: Endpoint,
    /// Who may use it.
    pub access: Access,
    /// What a body is.
    pub takes: Takes,
    /// Parameters of the query, and what they mean.
    pub query: &'static [(&'static str, &'static str)],
    /// What it is for.
    pub summary: &'static str,
}

const fn get(
    path: &'static str,
    endpoint: Endpoint,
    access: Access,
    query: &'static [(&'static str, &'static str)],
    summary: &'static str,
) -> Route {
    Route {
        method: "GET",
        path,
        endpoint,
        access,
        takes: Takes::Nothing,
        query,
        summary,
    }
}

const fn post(
    path: &'static str,
    endpoint: Endpoint,
    access: Access,
    takes: Takes,
    summary: &'static str,
) -> Route {
    Route {
        method: "POST",
        path,
        endpoint,
        access,
        takes,
        query: &[],
        summary,
    }
}

const MINIONS: &[(&str, &str)] = &[
    ("mid", "a minion, or a glob"),
    ("timeout", "seconds that minions have to answer"),
];
const MID: &[(&str, &str)] = &[("mid", "a minion, or a glob")];
const JID: &[(&str, &str)] = &[
    ("jid", "a job"),
    ("timeout", "seconds that the master has to answer"),
    ("limit", "most jobs of the answer; the newest ones"),
    ("before", "only jobs older than this one"),
];
const CODE: &[(&str, &str)] = &[
    ("code", "what the provider gives its token for"),
    ("state", "the login that it belongs to"),
];
const TAG: &[(&str, &str)] = &[("tag", "only events with tags that match this glob")];

use Access::{Hook, Open, Session};
use Endpoint as E;

/// All of them. The first one that fits counts.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    get("/", E::Welcome, Open, &[], "The clients that there are; for browsers, the console"),
    post("/", E::Commands, Session, Takes::Lowstates, "Runs commands with the rights of the session"),
    get("/run", E::Welcome, Open, &[], "The clients that there are"),
    post("/run", E::Commands, Open, Takes::Lowstates, "Runs commands; each has `token`, or `username`, `password` and `eauth`"),
    get("/login", E::LoginHint, Open, &[], "Says that a login is a POST"),
    post("/login", E::LogIn, Open, Takes::Login, "Begins a session"),
    post("/logout", E::LogOut, Session, Takes::Any, "Ends the session"),
    get("/oidc/login", E::BeginOidc, Open, &[], "Sends a browser to the OpenID provider of `external_auth`"),
    get("/oidc/callback", E::EndOidc, Open, CODE, "Where the provider sends it back to; begins a session"),
    get("/token", E::Welcome, Open, &[], "The clients that there are"),
    post("/token", E::MakeToken, Open, Takes::Login, "A token for /run and `halite -T`"),
    get("/minions", E::Minions, Session, MINIONS, "Grains of minions"),
    get("/minions/{mid}", E::Minions, Session, MINIONS, "Grains of minions"),
    post("/minions", E::Publish, Session, Takes::Lowstates, "Publishes jobs and answers with their ids"),
    get("/jobs", E::Jobs, Session, JID, "The job cache"),
    post("/jobs", E::Commands, Session, Takes::Lowstates, "Runs commands, as POST / does"),
    get("/jobs/{jid}", E::Jobs, Session, JID, "A job and what minions have returned"),
    get("/jobs/{jid}/events", E::JobEvents, Session, &[], "The returns of a job as they come, as server-sent events"),
    get("/keys", E::Keys, Session, MID, "Keys of minions by state"),
    get("/keys/{mid}", E::Keys, Session, MID, "Fingerprints of keys"),
    post("/keys", E::MakeKeys, Open, Takes::Lowstates, "Makes a pair of keys for a minion and accepts it: a tar file; the lowstate has `mid` and credentials"),
    get("/events", E::Events, Session, TAG, "The event bus, as server-sent events"),
    get("/ws", E::WebSocket, Session, &[], "The event bus, over a WebSocket"),
    get("/ws/{session}", E::WebSocket, Open, &[], "The same, for clients that cannot send headers"),
    get("/stats", E::Stats, Session, &[], "Counters of this service"),
    post("/hook/{tag*}", E::Hook, Hook, Takes::Any, "Fires an event with what was sent"),
    get("/api/{path*}", E::Arena, Open, &[], "Runtimes and modules of ARENA, for its own tools; with the setting `arena`"),
    get("/health", E::Health, Open, &[], "200 while this service runs"),
    get("/ready", E::Ready, Open, &[], "200 while the master serves, otherwise 503"),
    get("/openapi.json", E::OpenApi, Open, &[], "This description"),
    get("/console/session", E::Session, Open, &[], "Who has logged in, and what they may do; an empty list without a session"),
    get("/console/settings", E::Settings, Open, &[], "What a form for a login needs"),
    get("/console/{file*}", E::Asset, Open, &[], "A file of the console"),
    get("/app/{file*}", E::Application, Open, &[], "The file of the setting `app`"),
    get("/static/{file*}", E::Static, Open, &[], "A file of the directory of the setting `static`"),
];

impl Route {
    /// Whether a path with these segments is meant.
    fn fits(&self, segments: &[&str]) -> bool {
        let mut given = segments.iter();
        for wanted in self.path.split('/').filter(|one| !one.is_empty()) {
            if wanted.ends_with("*}") {
                return true;
            }
            match given.next() {
                Some(one) if wanted.starts_with('{') || wanted == *one => {}
                _ => return false,
            }
        }
        given.next().is_none()
    }

    fn first(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }
}

/// The route of a request. `names` has what the first segment of a path is called here in the place of that of the table.
///
/// # Errors
/// 404 or 405.
pub fn find(method: &Method, path: &str, segments: &[&str]) -> Result<&'static Route, ApiError> {
    let name = match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        _ => return Err(ApiError::method()),
    };
    let mut fitting = ROUTES.iter().filter(|route| route.fits(segments));
    if let Some(route) = fitting.clone().find(|route| route.method == name) {
        return Ok(route);
    }
    if fitting.next().is_some() {
        return Err(ApiError::method());
    }
    let first = segments.first().copied().unwrap_or_default();
    match ROUTES.iter().any(|route| route.first() == first) {
        true => Err(ApiError::no_match()),
        false => Err(ApiError::not_found(path)),
    }
}

/// The segments of a path as the table has them: settings may give the first ones other names.
pub fn named_as_in_table(api: &ApiConfig, mut segments: Vec<String>) -> Vec<String> {
    let Some(first) = segments.first_mut() else {
        return segments;
    };
    for (name, here) in [
        ("hook", &api.webhook_url),
        ("app", &api.app_path),
        ("static", &api.static_path),
    ] {
        if first == here {
            name.clone_into(first);
            return segments;
        }
        if first == name {
            // No path has it.
            first.insert(0, '/');
        }
    }
    segments
}

/// What a browser gets for the address alone.
pub fn first_page(api: &ApiConfig) -> Option<&'static Route> {
    let path = match (&api.app, api.console) {
        (Some(_), _) => "/app/{file*}",
        (None, true) => "/console/{file*}",
        (None, false) => return None,
    };
    ROUTES.iter().find(|route| route.path == path)
}

/// The methods of a path, as the header `Allow` has them.
pub fn methods(segments: &[&str]) -> &'static str {
    let has = |method: &str| {
        let mut fitting = ROUTES.iter().filter(|route| route.fits(segments));
        fitting.any(|route| route.method == method)
    };
    match (has("GET"), has("POST")) {
        (true, false) => "GET, HEAD",
        (false, true) => "POST",
        _ => "GET, HEAD, POST",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(path: &str) -> Vec<&str> {
        path.split('/').filter(|one| !one.is_empty()).collect()
    }

    #[test]
    fn paths_lead_to_what_answers() {
        let at = |method: &str, path: &str| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            find(&method, path, &segments(path))
                .map(|route| route.endpoint)
                .map_err(|e| e.status.as_u16())
        };
        for (method, path, found) in [
            ("GET", "//", Ok(E::Welcome)),
            ("POST", "/", Ok(E::Commands)),
            ("HEAD", "/minions/", Ok(E::Minions)),
            ("GET", "/minions/m1", Ok(E::Minions)),
            ("GET", "/minions/m1/x", Err(404)),
            ("GET", "/jobs/1/events", Ok(E::JobEvents)),
            ("GET", "/console/session", Ok(E::Session)),
            ("GET", "/console/views/a.js", Ok(E::Asset)),
            ("POST", "/hook", Ok(E::Hook)),
            ("POST", "/hook/a/b", Ok(E::Hook)),
            ("GET", "/hook/a", Err(405)),
            ("DELETE", "/keys", Err(405)),
            ("POST", "/events", Err(405)),
            ("GET", "/nothing", Err(404)),
        ] {
            assert_eq!(at(method, path), found, "{method} {path}");
        }
        assert_eq!(methods(&segments("/hook/a")), "POST");
        assert_eq!(methods(&segments("/events")), "GET, HEAD");
    }
}
