//! A request as handlers see it.

use crate::answer::ApiError;
use crate::body;
use crate::routes::Route;
use bytes::Bytes;
use halite_crypto::random_hex;
use halite_wire::Value;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Version};
use std::net::SocketAddr;
use std::time::Duration;

/// The header with the id of a session.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// The cookie with it.
const COOKIE_NAME: &str = "session_id";
/// The header with the id of a request.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id of a request that a client gives.
const ID: usize = 64;
/// Most time for a body.
const BODY: Duration = Duration::from_secs(30);

/// A request, read.
pub(super) struct Call {
    pub segments: Vec<String>,
    pub query: Vec<(String, String)>,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub peer: SocketAddr,
}

impl Call {
    /// Reads a request with a body of at most so many bytes.
    ///
    /// # Errors
    /// 413 if it is larger, 408 if it takes too long, 400 if the connection ends.
    pub async fn read(
        request: Request<Incoming>,
        peer: SocketAddr,
        segments: Vec<String>,
        most: usize,
    ) -> Result<Call, ApiError> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        let query = form_urlencoded::parse(query.as_bytes()).into_owned();
        let body = Limited::new(body, most).collect();
        let body = tokio::time::timeout(BODY, body).await.map_err(|_| {
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "The body did not arrive in time",
            )
        })?;
        let body = body.map_err(|e| match e.downcast_ref::<LengthLimitError>() {
            Some(_) => too_large(),
            None => ApiError::bad("The body cannot be read"),
        })?;
        Ok(Call {
            segments,
            query: query.collect(),
            headers: head.headers,
            body: body.to_bytes(),
            peer,
        })
    }

    /// The body, read by its type.
    pub fn content(&self) -> Result<Value, ApiError> {
        let media = self.headers.get(CONTENT_TYPE);
        body::read(media.and_then(|media| media.to_str().ok()), &self.body)
    }

    /// The argument of a path: a segment, or a query parameter with this name.
    ///
    /// # Errors
    /// 404 if there are parameters that the route does not have.
    pub fn argument(&self, route: &Route, name: &str) -> Result<Option<String>, ApiError> {
        let is_known = |key: &str| route.query.iter().any(|(known, _)| *known == key);
        if self.query.iter().any(|(key, _)| !is_known(key)) {
            return Err(ApiError::no_match());
        }
        let asked = self.parameter(name).map(str::to_owned);
        Ok(self.segments.get(1).cloned().or(asked))
    }

    /// A query parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut all = self.query.iter();
        all.find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// 413.
pub(super) fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "The body is larger than max_request_body_size",
    )
}

/// The segments of a path, decoded; empty ones do not count.
pub(super) fn segments_of(path: &str) -> Vec<String> {
    let decoded = |text: &str| {
        let text = percent_encoding::percent_decode_str(text);
        text.decode_utf8_lossy().into_owned()
    };
    let all = path.split('/').filter(|one| !one.is_empty());
    all.map(decoded).collect()
}

/// The session that a request names: by the header, also if that is wrong, or by the cookie. An empty header counts as none.
pub(super) fn session_id(headers: &HeaderMap) -> Option<String> {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let header = headers
        .get(TOKEN)
        .and_then(text)
        .filter(|id| !id.is_empty());
    header.or_else(|| named_cookie(headers, COOKIE_NAME))
}

/// The value of a cookie.
pub(super) fn named_cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let lines = headers.get_all(COOKIE).iter();
    let mut parts = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    parts.find_map(|part| {
        let (name, value) = part.trim().split_once('=')?;
        (name == wanted).then(|| value.to_owned())
    })
}

/// The id of a request: that of the client, if it can be one, or a new one.
pub(super) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_id = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        let of_id = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
        (1..=ID).contains(&bytes.len()) && bytes.iter().all(of_id)
    };
    let given = headers.get(REQUEST_ID).filter(is_id).cloned();
    given.unwrap_or_else(|| {
        let made = HeaderValue::from_str(&random_hex(8));
        made.unwrap_or(HeaderValue::from_static("none"))
    })
}

/// Whether a request names its host as HTTP/1.1 wants it: once (RFC 9112, 3.2). Programs before this one may have understood another one.
///
/// # Errors
/// 400.
pub(super) fn one_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let hosts = request.headers().get_all(HOST).iter().count();
    match request.version() {
        Version::HTTP_11 if hosts != 1 => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "HTTP/1.1 needs one Host header",
        )),
        _ => Ok(()),
    }
}

/// What a browser asks for in its address bar: pages before anything else.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| {
        accept
            .split([',', ';'])
            .any(|one| one.trim() == "text/html")
    })
}

/// The cookie of a session.
pub(super) fn cookie(id: &str, seconds: u64, is_secure: bool) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={id}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}")
}

/// `content-type` as `Content-Type`.
pub(super) fn title_case(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut chars = word.chars();
        let first = chars.next().map(|c| c.to_ascii_uppercase());
        first.into_iter().chain(chars).collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in all {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn the_header_wins_over_the_cookie() {
        for (all, id) in [
            (
                &[("x-auth-token", "a"), ("cookie", "session_id=b")][..],
                Some("a"),
            ),
            (
                &[("x-auth-token", ""), ("cookie", "x=1; session_id=b")],
                Some("b"),
            ),
            (&[("cookie", "xsession_id=b")], None),
            (&[], None),
        ] {
            assert_eq!(session_id(&headers(all)).as_deref(), id);
        }
        assert_eq!(title_case("x-auth-token"), "X-Auth-Token");
        assert!(cookie("a", 1, true).contains("HttpOnly; SameSite=Strict; Secure"));
    }

    #[test]
    fn browsers_get_pages_and_programs_do_not() {
        let wants = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            wants_page(&headers)
        };
        assert!(wants(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
        ));
        assert!(!wants("*/*") && !wants("application/json"));
        assert!(!wants_page(&HeaderMap::new()));
    }
}
