//! Sends one request through `ureq`.

use super::super::{CallError, python};
use super::ca_bundle;
use super::options::HttpOptions;
use crate::execution::declare::Result;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::io::{self, Read};
use ureq::config::{AutoHeaderValue, RedirectAuthHeaders};
use ureq::http::{Request, Response};
use ureq::tls::{
    Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem,
};
use ureq::typestate::WithoutBody;
use ureq::{Agent, Body, Proxy, RequestBuilder, Timeout};

/// Upper limit of `http_max_body` in bytes.
const MAX_BODY_LIMIT: u64 = 1 << 30;
/// Tornado's status for connection errors.
const STREAM: i64 = 599;

/// A server's reply.
pub struct HttpReply {
    /// Status code.
    pub status: i64,
    /// Reason phrase.
    pub reason: String,
    /// Headers spelled as by tornado; values of the same name are joined by commas.
    pub headers: Map,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpReply {
    /// A header by its case-insensitive name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let is = |key: &Value| key.as_str().is_some_and(|k| k.eq_ignore_ascii_case(name));
        let found = self.headers.iter().find(|(key, _)| is(key));
        found.and_then(|(_, value)| value.as_str())
    }
}

/// The outcome of a request.
pub enum HttpOutcome {
    /// The server replied.
    Reply(HttpReply),
    /// It did not: the result fields of `http.query`.
    Failed(Map),
}

/// Sends a request.
///
/// # Errors
/// The request is invalid. An unreachable server is an [`HttpOutcome`].
pub fn send(url: &str, options: &HttpOptions) -> Result<HttpOutcome> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if scheme != "http" && scheme != "https" {
        return Err(CallError::Command(format!("Unsupported url scheme: {url}")));
    }
    let body = options.body()?;
    let mut headers = options.headers()?;
    let method = options.method();
    let has_type = headers.iter().any(|(k, _)| {
        k.as_str()
            .is_some_and(|k| k.eq_ignore_ascii_case("content-type"))
    });
    if method == "POST" && !has_type {
        headers.set("Content-Type", "application/x-www-form-urlencoded");
    }
    let agent = agent(url, options)?;
    match send_request(&agent, &method, url, &headers, body) {
        Ok(response) => reply(response, options),
        Err(e) => failed(e, options),
    }
}

fn other(e: impl std::fmt::Display) -> CallError {
    CallError::Command(e.to_string())
}

fn agent(url: &str, options: &HttpOptions) -> Result<Agent> {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(5)
        .max_redirects_will_error(false)
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .allow_non_standard_methods(true)
        .accept(AutoHeaderValue::None)
        .timeout_connect(Some(options.seconds("http_connect_timeout", 20.0)))
        .timeout_global(Some(options.seconds("http_request_timeout", 3600.0)))
        .proxy(proxy(url, options)?)
        .tls_config(tls(url, options)?);
    Ok(config.build().new_agent())
}

fn proxy(url: &str, options: &HttpOptions) -> Result<Option<Proxy>> {
    let text = |name: &str| {
        Some(options.opt(name))
            .filter(|v| v.truthy())
            .map(python::str)
    };
    let (Some(host), Some(port)) = (text("proxy_host"), text("proxy_port")) else {
        return Ok(None);
    };
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = place.rsplit('@').next().unwrap_or_default();
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    if options.opt("no_proxy").str_list().iter().any(|n| n == name) {
        return Ok(None);
    }
    let secret = match (text("proxy_username"), text("proxy_password")) {
        (Some(user), Some(password)) => format!("{user}:{password}@"),
        _ => String::new(),
    };
    Proxy::new(&format!("http://{secret}{host}:{port}"))
        .map(Some)
        .map_err(other)
}

fn tls(url: &str, options: &HttpOptions) -> Result<TlsConfig> {
    let config = TlsConfig::builder().provider(TlsProvider::NativeTls);
    if !url.starts_with("https") {
        return Ok(config.build());
    }
    let verify = match options.get("verify_ssl") {
        Value::Nil => !matches!(options.opt("verify_ssl"), Value::Bool(false)),
        given => given.truthy(),
    };
    let bundle = options
        .text("ca_bundle")
        .or_else(|| ca_bundle(options.opts()));
    let roots = match bundle {
        Some(path) => RootCerts::new_with_certs(&certificates(&path)?),
        None => RootCerts::PlatformVerifier,
    };
    Ok(config
        .disable_verification(!verify)
        .root_certs(roots)
        .client_cert(client(options)?)
        .build())
}

fn read(path: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| other(python::os_error(&e, path)))
}

fn certificates(path: &str) -> Result<Vec<Certificate<'static>>> {
    let content = read(path)?;
    let mut found = Vec::new();
    for item in parse_pem(&content) {
        if let PemItem::Certificate(certificate) = item.map_err(other)? {
            found.push(certificate);
        }
    }
    Ok(found)
}

/// The client certificate: one file, or a list of certificate and key.
fn client(options: &HttpOptions) -> Result<Option<ClientCert>> {
    let cert = match options.get("cert") {
        Value::Nil => options.opt("cert"),
        given => given,
    };
    let (cert, key) = match cert {
        Value::Str(path) => (path.clone(), path.clone()),
        Value::Array(pair) if pair.len() == 2 => (python::str(&pair[0]), python::str(&pair[1])),
        _ => return Ok(None),
    };
    if [&cert, &key]
        .iter()
        .any(|path| !std::path::Path::new(path).exists())
    {
        return Ok(None);
    }
    let key = PrivateKey::from_pem(&read(&key)?).map_err(other)?;
    Ok(Some(ClientCert::new_with_certs(&certificates(&cert)?, key)))
}

type SendResult = Result<Response<Body>, ureq::Error>;

fn send_request(
    agent: &Agent,
    method: &str,
    url: &str,
    headers: &Map,
    body: Option<Vec<u8>>,
) -> SendResult {
    let bare: Option<RequestBuilder<WithoutBody>> = match method {
        "GET" => Some(agent.get(url)),
        "HEAD" => Some(agent.head(url)),
        "DELETE" => Some(agent.delete(url)),
        "OPTIONS" => Some(agent.options(url)),
        _ => None,
    };
    if let Some(builder) = bare {
        let builder = add_headers(builder, headers);
        return match body {
            None => builder.call(),
            Some(body) => builder.force_send_body().send(body),
        };
    }
    let loaded = match method {
        "POST" => Some(agent.post(url)),
        "PUT" => Some(agent.put(url)),
        "PATCH" => Some(agent.patch(url)),
        _ => None,
    };
    if let Some(builder) = loaded {
        let builder = add_headers(builder, headers);
        return match body {
            None => builder.send_empty(),
            Some(body) => builder.send(body),
        };
    }
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers.iter() {
        request = request.header(python::str(name), python::str(value));
    }
    match body {
        None => agent.run(request.body(())?),
        Some(body) => agent.run(request.body(body)?),
    }
}

fn add_headers<B>(mut builder: RequestBuilder<B>, headers: &Map) -> RequestBuilder<B> {
    for (name, value) in headers.iter() {
        builder = builder.header(python::str(name), python::str(value));
    }
    builder
}

fn reply(response: Response<Body>, options: &HttpOptions) -> Result<HttpOutcome> {
    let status = response.status();
    let mut headers = Map::new();
    for (name, value) in response.headers() {
        let name = spelled(name.as_str());
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        match headers.get_mut(&name) {
            Some(Value::Str(all)) => all.push_str(&format!(",{value}")),
            _ => headers.set(name, value),
        }
    }
    let most = options.opt("http_max_body").as_int();
    let most = most
        .and_then(|n| u64::try_from(n).ok())
        .unwrap_or(MAX_BODY_LIMIT)
        .min(MAX_BODY_LIMIT);
    let mut body = Vec::new();
    let mut reader = response
        .into_body()
        .into_reader()
        .take(most.saturating_add(1));
    if let Err(e) = reader.read_to_end(&mut body) {
        return failed(ureq::Error::Io(e), options);
    }
    if body.len() as u64 > most {
        return Err(CallError::Command(format!(
            "the body has more than {most} bytes"
        )));
    }
    Ok(HttpOutcome::Reply(HttpReply {
        status: status.as_u16().into(),
        reason: status.canonical_reason().unwrap_or("Unknown").to_owned(),
        headers,
        body,
    }))
}

/// `content-type` as `Content-Type`.
fn spelled(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}

fn failed(error: ureq::Error, options: &HttpOptions) -> Result<HttpOutcome> {
    use ureq::Error;
    let stream = |text: &str| map! {"status" => STREAM, "error" => text};
    let system = |text: String| {
        let mut ret = Map::new();
        if options.get("status").as_bool() == Some(true) {
            ret.set("status", 0);
        }
        ret.set("error", text);
        ret
    };
    Ok(HttpOutcome::Failed(match error {
        Error::Timeout(Timeout::Connect | Timeout::Resolve) => stream("Timeout while connecting"),
        Error::Timeout(_) => stream("Timeout during request"),
        Error::HostNotFound => system("[Errno -2] Name or service not known".to_owned()),
        Error::ConnectionFailed => system("[Errno 111] Connection refused".to_owned()),
        Error::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => stream("Stream closed"),
        Error::Io(e) => system(match e.raw_os_error() {
            Some(number) => {
                let what = nix::errno::Errno::from_raw(number).desc();
                format!("[Errno {number}] {what}")
            }
            None => e.to_string(),
        }),
        Error::Tls(_) | Error::NativeTls(_) => system(error.to_string()),
        other => return Err(CallError::Command(other.to_string())),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn headers_are_spelled_as_tornado_does() {
        assert_eq!(spelled("content-type"), "Content-Type");
        assert_eq!(spelled("etag"), "Etag");
        let options = HttpOptions::new(&Map::new(), &Map::new()).unwrap();
        assert_eq!(
            options.seconds("http_connect_timeout", 2.0),
            Duration::from_secs(2)
        );
    }
}
