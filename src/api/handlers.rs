//! What answers a request, once it is clear that it may be sent (reference `salt-api.md` 2, 3).

use crate::answer::{Answer, ApiError, file};
use crate::body;
use crate::lowstate::{self, CLIENTS, credentials, no_map};
use crate::master::Master;
use crate::openapi;
use crate::request::{Call, cookie, title_case};
use crate::routes::{Endpoint, Route};
use crate::service::{Client, Handled, Reply, Service, count};
use crate::session::Session;
use halite_client::local::Credentials;
use halite_master::access::eauth::oidc;
use halite_master::events::HOOKS;
use halite_wire::ids::{Jid, MinionId, Tag};
use halite_wire::{Map, Value};
use hyper::StatusCode;
use hyper::header::{LINK, SET_COOKIE};
use std::sync::Arc;

/// Most questions of ARENA's tools of one network at a time: each reads all that the gateway knows.
const ARENA_AT_A_TIME: usize = 2;
/// Headers of a hook that go to no listener.
const SECRET: &[&str] = &[
    "x-auth-token",
    "cookie",
    "authorization",
    "proxy-authorization",
];

impl Service {
    /// Answers a request that may be sent.
    pub(super) async fn handle(
        self: Arc<Self>,
        route: &'static Route,
        call: Call,
        client: Client,
    ) -> Handled {
        match route.endpoint {
            Endpoint::Welcome if !call.query.is_empty() => Err(ApiError::no_match()),
            Endpoint::Welcome => Ok(welcome().into()),
            Endpoint::LoginHint => {
                let map = halite_wire::map! {"status" => Value::Nil, "return" => "Please log in"};
                Ok(Answer::new(map.into()).into())
            }
            Endpoint::LogIn => self.log_in(call).await,
            Endpoint::LogOut => self.log_out(client).await,
            Endpoint::MakeToken => self.make_token(call).await,
            Endpoint::BeginOidc => self.begin_oidc(call).await,
            Endpoint::EndOidc => self.end_oidc(call).await,
            Endpoint::Commands => self.commands(call, client).await,
            Endpoint::Publish => self.publish(call, client).await,
            Endpoint::Minions => self.minions(route, call, client).await,
            Endpoint::Jobs => match call.argument(route, "jid")? {
                Some(jid) => self.job(&call, &jid, client.session()?).await,
                None => self.jobs(call, client.session()?).await,
            },
            Endpoint::JobEvents => self.follow(call, client).await,
            Endpoint::Keys => self.keys(route, call, client).await,
            Endpoint::MakeKeys => self.make_keys(call).await,
            Endpoint::Events => self.events(call, client),
            // It is there before its request is read.
            Endpoint::WebSocket => Err(ApiError::no_match()),
            Endpoint::Stats => Ok(Answer::new(self.stats().into()).into()),
            Endpoint::Hook => {
                let rest = call.segments.iter().skip(1).map(String::as_str);
                let tag: Vec<&str> = std::iter::once(HOOKS).chain(rest).collect();
                let tag = tag.join("/");
                self.blocking(move |service| service.hook(&call, &tag))
                    .await
            }
            Endpoint::Session => {
                let told = client.session.iter().map(|session| {
                    let mut told = session.to_map();
                    told.set("clients", self.config.netapi_enable_clients.clone());
                    Value::Map(told)
                });
                Ok(Answer::returning(Value::Array(told.collect())).into())
            }
            Endpoint::Settings => {
                let systems = self.config.external_auth.iter();
                let names = systems.map(|(name, _)| name.clone());
                let eauths = names.filter(|name| name.as_str() != Some("oidc"));
                let mut map = halite_wire::map! {
                    "eauths" => Value::Array(eauths.collect()), "version" => env!("CARGO_PKG_VERSION"),
                };
                let oidc = oidc::settings(&self.config.external_auth);
                if let Some(oidc) = oidc.filter(|one| one.redirect_uri.is_some()) {
                    map.set(
                        "oidc",
                        halite_wire::map! {"title" => oidc.title.unwrap_or_default()},
                    );
                }
                Ok(Answer::new(map.into()).into())
            }
            Endpoint::Asset | Endpoint::Application | Endpoint::Static => {
                self.apart(move |service| service.file(route.endpoint, &call))
                    .await
            }
            Endpoint::Arena => {
                let _share = self.share_of("arena", call.peer.ip(), ARENA_AT_A_TIME)?;
                self.apart(move |service| service.arena(&call)).await
            }
            Endpoint::Health => Ok(Answer::new(halite_wire::map! {"status" => "ok"}.into()).into()),
            Endpoint::Ready => self.apart(Service::ready).await,
            Endpoint::OpenApi => Ok(Answer::new(openapi::document()).into()),
        }
    }

    async fn log_out(self: Arc<Self>, client: Client) -> Handled {
        let session = client.session()?;
        self.sessions.end(&client.id.unwrap_or_default());
        self.clone()
            .blocking(move |service| service.revoke(&session))
            .await?;
        let answer = Answer::returning("Your token has been cleared");
        Ok(answer
            .header(SET_COOKIE, &cookie("", 0, self.is_secure))
            .into())
    }

    async fn minions(self: Arc<Self>, route: &Route, call: Call, client: Client) -> Handled {
        let session = client.session()?;
        let tgt = call.argument(route, "mid")?.unwrap_or_else(|| "*".into());
        let low = halite_wire::map! {
            "client" => "local", "tgt" => tgt, "fun" => "grains.items", "timeout" => timeout_of(&call)?,
        };
        let one = self.one(low, session).await?;
        Ok(Answer::returning(Value::Array(vec![one])).into())
    }

    async fn keys(self: Arc<Self>, route: &Route, call: Call, client: Client) -> Handled {
        let mut low = halite_wire::map! {"client" => "wheel", "fun" => "key.list_all"};
        if let Some(id) = call.argument(route, "mid")? {
            low.set("fun", "key.finger");
            low.set("match", id);
        }
        let done = self.one(low, client.session()?).await?;
        let data = done.as_map().and_then(|map| map.get("data")?.as_map());
        let keys = data.and_then(|data| data.get("return")).cloned();
        Ok(Answer::returning(keys.unwrap_or_default()).into())
    }

    /// All jobs, or the newest ones of a part of them.
    async fn jobs(self: Arc<Self>, call: Call, session: Session) -> Handled {
        let number = |text: &str| text.parse::<usize>().ok().filter(|n| *n > 0);
        let limit = match call.parameter("limit") {
            None => None,
            Some(text) => {
                Some(number(text).ok_or_else(|| ApiError::bad("limit: a number from 1 on"))?)
            }
        };
        let before = call.parameter("before").map(str::parse::<Jid>).transpose();
        let before = before.map_err(|_| ApiError::bad("before: the id of a job"))?;
        let mut low = runner_low("jobs.list_jobs");
        low.set("timeout", timeout_of(&call)?);
        let jobs = self.one(low, session).await?;
        let Value::Map(mut map) = jobs else {
            return Ok(Answer::returning(Value::Array(vec![jobs])).into());
        };
        if let Some(before) = &before {
            map.0
                .retain(|(jid, _)| jid.as_str().is_some_and(|jid| jid < before.as_str()));
        }
        let mut next = None;
        if let Some(limit) = limit.filter(|limit| *limit < map.len()) {
            map.0.sort_by(|a, b| b.0.as_str().cmp(&a.0.as_str()));
            map.0.truncate(limit);
            next = map
                .0
                .last()
                .and_then(|(jid, _)| jid.as_str().map(str::to_owned));
        }
        let answer = Answer::returning(Value::Array(vec![map.into()]));
        Ok(match (next, limit) {
            (Some(jid), Some(limit)) => {
                let next = format!("</jobs?limit={limit}&before={jid}>; rel=\"next\"");
                answer.header(LINK, &next).into()
            }
            _ => answer.into(),
        })
    }

    /// A pair of keys for a minion, which is accepted with them.
    async fn make_keys(self: Arc<Self>, call: Call) -> Handled {
        self.blocking(move |service| {
            let first = body::lowstates(call.content()?)?.into_iter().next();
            let given = first.and_then(Value::into_map);
            let given = given.ok_or_else(|| ApiError::bad("Lowstates must be a list"))?;
            let id = given.str("mid").or_else(|| given.str("id_"));
            let id: MinionId = id
                .and_then(|id| id.parse().ok())
                .ok_or_else(|| ApiError::bad("mid: the id of a minion"))?;
            let mut low = halite_wire::map! {
                "client" => "wheel", "fun" => "key.gen_accept", "id_" => id.as_str(),
            };
            for name in ["keysize", "force", "key_type"] {
                if let Some(value) = given.get(name) {
                    low.set(name, value.clone());
                }
            }
            credentials(&given)?;
            service.check_acl(&given, call.peer.ip())?;
            for name in ["token", "username", "password", "eauth"] {
                if let Some(value) = given.get(name) {
                    low.set(name, value.clone());
                }
            }
            let enabled = &service.config.netapi_enable_clients;
            let done = service
                .runner(&service.stop)
                .run(&low.into(), None, enabled)?;
            let data = done
                .first()
                .and_then(|one| one.as_map()?.get("data")?.as_map());
            let pair = data.and_then(|data| data.get("return")?.as_map());
            let pair = pair.ok_or_else(|| ApiError::unforeseen("there is no pair of keys"))?;
            let tar = archive(pair).map_err(|e| ApiError::unforeseen(&e.to_string()))?;
            let name = format!("attachment; filename=\"saltkeys-{id}.tar\"");
            Ok(Reply::Whole(file("application/x-tar", tar, Some(&name))))
        })
        .await
    }

    /// What ARENA's tools ask an orchestrator for.
    fn arena(&self, call: &Call) -> Handled {
        let path: Vec<&str> = call.segments.iter().skip(1).map(String::as_str).collect();
        let found = match self.api.arena {
            true => Master(&self.config).arena(&path)?,
            false => None,
        };
        match found {
            Some(found) => Ok(Answer::new(found).into()),
            None => Err(ApiError::no_match()),
        }
    }

    fn stats(&self) -> Map {
        let counters = &self.counters;
        halite_wire::map! {
            "halite-api" => halite_wire::map! {
                "requests" => count(&counters.requests), "refused" => count(&counters.refused),
                "limited" => count(&counters.limited), "failed" => count(&counters.failed),
                "listeners" => count(&counters.listeners), "running" => self.shares.count() as u64,
                "sessions" => self.sessions.count() as u64,
            }
        }
    }

    /// Whether the roles of the master serve, by what they tell each other.
    fn ready(&self) -> Handled {
        let map = Master(&self.config).readiness()?;
        let status = match map.get("ready").is_some_and(Value::truthy) {
            true => StatusCode::OK,
            false => StatusCode::SERVICE_UNAVAILABLE,
        };
        Ok(Answer::new(map.into()).status(status).into())
    }

    /// Remembers which jobs a session has published: it may follow them.
    fn note_jobs(&self, id: Option<&str>, done: &[Value]) {
        let jids = done
            .iter()
            .filter_map(|one| one.as_map()?.str("jid")?.parse().ok());
        self.sessions.add_jobs(id.unwrap_or_default(), jids);
    }

    /// One command of a session.
    pub(super) async fn one(
        self: Arc<Self>,
        low: Map,
        session: Session,
    ) -> Result<Value, ApiError> {
        self.waiting(session.who(), move |service, stop| {
            let token = Some(session.token.as_str());
            let enabled = &service.config.netapi_enable_clients;
            let done = service.runner(stop).run(&low.into(), token, enabled)?;
            Ok(done.into_iter().next().unwrap_or_default())
        })
        .await
    }

    async fn commands(self: Arc<Self>, call: Call, client: Client) -> Handled {
        // Without a session, each command has credentials.
        let is_run = call.segments.first().is_some_and(|one| one == "run");
        let session = client.session.filter(|_| !is_run);
        let who = match &session {
            Some(session) => session.who(),
            None => format!("address {}", call.peer.ip()),
        };
        self.waiting(who, move |service, stop| {
            let lows = body::lowstates(call.content()?)?;
            let token = session.as_ref().map(|session| session.token.as_str());
            let enabled = &service.config.netapi_enable_clients;
            let runner = service.runner(stop);
            let checked = lows.iter().map(|low| {
                if let Some(map) = low.as_map().filter(|_| session.is_none()) {
                    service.check_acl(map, call.peer.ip())?;
                }
                runner.checked(low, token, enabled)
            });
            let mut all = Vec::new();
            for low in checked.collect::<Result<Vec<_>, ApiError>>()? {
                if service.stop.is_set() || stop.is_set() {
                    return Err(ApiError::no_master());
                }
                let is_job = low.0 == lowstate::Client::LocalAsync;
                let done = runner.run_checked(low)?;
                if is_job && session.is_some() {
                    service.note_jobs(client.id.as_deref(), &done);
                }
                all.extend(done);
            }
            Ok(Answer::returning(Value::Array(all)).into())
        })
        .await
    }

    /// Every lowstate as a job that nobody waits for.
    async fn publish(self: Arc<Self>, call: Call, client: Client) -> Handled {
        let session = client.session()?;
        let enabled = &self.config.netapi_enable_clients;
        if !enabled.iter().any(|one| one == "local_async") {
            return Err(ApiError::bad(
                "Client disabled: 'local_async'. Add to 'netapi_enable_clients' master config option to enable.",
            ));
        }
        self.blocking(move |service| {
            let lows = body::lowstates(call.content()?)?;
            let (mut all, mut links) = (Vec::new(), Vec::new());
            let lows: Option<Vec<Map>> = lows.into_iter().map(Value::into_map).collect();
            let lows = lows.ok_or_else(no_map)?;
            let runner = service.runner(&service.stop);
            for low in &lows {
                runner.check_job(low)?;
            }
            for low in &lows {
                let token = Credentials::Token(session.token.clone());
                let one = runner.publish(low, token)?;
                let jid = one.as_map().and_then(|map| map.str("jid"));
                links.extend(
                    jid.map(|jid| Value::Map(halite_wire::map! {"href" => format!("/jobs/{jid}")})),
                );
                all.push(one);
            }
            let links = halite_wire::map! {"jobs" => Value::Array(links)};
            service.note_jobs(client.id.as_deref(), &all);
            let map = halite_wire::map! {"return" => Value::Array(all), "_links" => links};
            Ok(Answer::new(map.into()).status(StatusCode::ACCEPTED).into())
        })
        .await
    }

    async fn job(self: Arc<Self>, call: &Call, jid: &str, session: Session) -> Handled {
        let job = match jid.parse::<Jid>() {
            Ok(_) => {
                let mut low = runner_low("jobs.list_job");
                low.set("jid", jid);
                low.set("timeout", timeout_of(call)?);
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
        Master(&self.config).fire(tag, data)?;
        Ok(Answer::new(halite_wire::map! {"success" => true}.into()).into())
    }
}

/// `timeout` of a request without a lowstate, in seconds; nothing and an empty one are the default.
fn timeout_of(call: &Call) -> Result<Option<u64>, ApiError> {
    let text = call.parameter("timeout").filter(|text| !text.is_empty());
    let number = text.map(str::parse).transpose();
    number.map_err(|_| ApiError::bad("timeout: a number of seconds"))
}

fn welcome() -> Answer {
    let names: Vec<String> = CLIENTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    Answer::new(halite_wire::map! {"return" => "Welcome", "clients" => names}.into())
}

pub(super) fn runner_low(fun: &str) -> Map {
    halite_wire::map! {"client" => "runner", "fun" => fun}
}

/// The two files of a minion's keys.
fn archive(pair: &Map) -> std::io::Result<Vec<u8>> {
    let mut out = tar::Builder::new(Vec::new());
    for (name, key) in [("minion.pub", "pub"), ("minion.pem", "priv")] {
        // Empty if the minion had a key before.
        let text = pair.str(key).unwrap_or_default();
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_cksum();
        out.append_data(&mut header, name, text.as_bytes())?;
    }
    out.into_inner()
}
