//! Answers: the form that a client asks for, and errors as stock's pages (reference `salt-api.md` 2.2, 2.3).

use bytes::Bytes;
use halite_crypto::HashType;
use halite_wire::pyjson;
use halite_wire::{Map, Value, yaml};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue,
    RETRY_AFTER, VARY, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use std::convert::Infallible;

/// The content of an answer.
pub type Content = UnsyncBoxBody<Bytes, Infallible>;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/json`.
    Json,
    /// `application/x-yaml`.
    Yaml,
}

impl Form {
    const ALL: [Form; 2] = [Form::Json, Form::Yaml];

    /// Its media type.
    pub fn media(self) -> &'static str {
        match self {
            Form::Json => "application/json",
            Form::Yaml => "application/x-yaml",
        }
    }

    /// The first one that a header `Accept` has, by its `q` values.
    ///
    /// # Errors
    /// The client takes none: 406.
    pub fn accepted(headers: &HeaderMap) -> Result<Form, ApiError> {
        let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else {
            return Ok(Form::Json);
        };
        let mut wanted: Vec<(&str, f32)> = accept.split(',').map(element).collect();
        if wanted.iter().all(|(media, _)| media.is_empty()) {
            return Ok(Form::Json);
        }
        wanted.sort_by(|a, b| b.1.total_cmp(&a.1));
        let fits = |form: &Form, media: &str| {
            let any = media.strip_suffix('*').filter(|any| any.ends_with('/'));
            media == "*/*"
                || media == form.media()
                || any.is_some_and(|any| form.media().starts_with(any))
        };
        let mut taken = wanted.iter().filter(|(_, q)| *q > 0.0);
        let found = taken.find_map(|(media, _)| Form::ALL.into_iter().find(|f| fits(f, media)));
        found.ok_or_else(|| {
            let why = format!(
                "Your client sent this Accept header: {accept}. But this resource only emits these media types: application/json, \
                 application/x-yaml."
            );
            ApiError::new(StatusCode::NOT_ACCEPTABLE, why)
        })
    }

    fn write(self, value: &Value) -> String {
        match self {
            Form::Json => pyjson::dumps(value),
            Form::Yaml => yaml::emit(value, true),
        }
    }
}

/// A part of `Accept`: media type and `q`.
fn element(text: &str) -> (&str, f32) {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().unwrap_or_default();
    let q = parts.find_map(|part| part.strip_prefix("q="));
    (media, q.map_or(1.0, |q| q.parse().unwrap_or(0.0)))
}

/// Why a request is not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The status.
    pub status: StatusCode,
    /// The message of stock's page.
    pub message: String,
    /// Whether it is one of those that stock answers in the asked form.
    is_unforeseen: bool,
    /// What the client did wrong, where stock's message does not say it.
    reason: Option<String>,
}

impl ApiError {
    /// With a page.
    pub fn new(status: StatusCode, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            message: message.into(),
            is_unforeseen: false,
            reason: None,
        }
    }

    /// 400.
    pub fn bad(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, message)
    }

    /// 401.
    pub fn unauthorized(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, message)
    }

    /// Without a session.
    pub fn no_session() -> ApiError {
        ApiError::unauthorized("No permission -- see authorization schemes")
    }

    /// 404.
    pub fn not_found(path: &str) -> ApiError {
        ApiError::new(
            StatusCode::NOT_FOUND,
            format!("The path '{path}' was not found."),
        )
    }

    /// 404, of a path that is known, with more than it takes.
    pub fn no_match() -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "Nothing matches the given URI")
    }

    /// 405.
    pub fn method() -> ApiError {
        ApiError::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "Specified method is invalid for this resource",
        )
    }

    /// 503: the master does not answer.
    pub fn no_master() -> ApiError {
        ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Salt Master is not available.",
        )
    }

    /// 500, with the reason for the log alone.
    pub fn unforeseen(why: &str) -> ApiError {
        log::warn!("api: 500: {why}");
        ApiError::unexpected(None)
    }

    /// 500, for a mistake of the client's that stock does not foresee. Beside stock's words stands the reason.
    pub fn mistaken(reason: impl Into<String>) -> ApiError {
        let reason = reason.into();
        log::debug!("api: 500: {reason}");
        ApiError::unexpected(Some(reason))
    }

    fn unexpected(reason: Option<String>) -> ApiError {
        ApiError {
            is_unforeseen: true,
            reason,
            ..ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "An unexpected error occurred",
            )
        }
    }

    /// As it is sent to a client that asked for this form.
    pub fn response(&self, form: Form) -> Response<Content> {
        if self.is_unforeseen {
            let mut map = halite_wire::map! {
                "status" => u64::from(self.status.as_u16()), "return" => self.message.as_str(),
            };
            if let Some(reason) = &self.reason {
                map.set("reason", reason.as_str());
            }
            return Answer::new(map.into()).status(self.status).response(form);
        }
        let title = escaped(&self.status.to_string());
        let text = escaped(&self.message);
        let page = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n</head>\n<body>\n\
             <h2>{title}</h2>\n<p>{text}</p>\n<pre id=\"traceback\"></pre>\n</body>\n</html>\n"
        );
        let mut response = text_response(self.status, "text/html;charset=utf-8", page);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            let second = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, second);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let session = HeaderValue::from_static("Session");
            response.headers_mut().insert(WWW_AUTHENTICATE, session);
        }
        response
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A value with its status.
#[derive(Clone, Debug)]
pub struct Answer {
    value: Value,
    status: StatusCode,
    headers: HeaderMap,
}

impl Answer {
    /// 200.
    pub fn new(value: Value) -> Answer {
        Answer {
            value,
            status: StatusCode::OK,
            headers: HeaderMap::new(),
        }
    }

    /// `{"return": value}`.
    pub fn returning(value: impl Into<Value>) -> Answer {
        Answer::new(Map(vec![("return".into(), value.into())]).into())
    }

    /// With another status.
    pub fn status(mut self, status: StatusCode) -> Answer {
        self.status = status;
        self
    }

    /// With a header.
    pub fn header(mut self, name: hyper::header::HeaderName, value: &str) -> Answer {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.append(name, value);
        }
        self
    }

    /// As it is sent.
    pub fn response(self, form: Form) -> Response<Content> {
        let mut response = text_response(self.status, form.media(), form.write(&self.value));
        response.headers_mut().extend(self.headers);
        by_form(&mut response);
        response
    }

    /// The same, with a tag of its content; without the content if that is what the client has (`If-None-Match`).
    pub fn tagged(self, form: Form, known: Option<&HeaderValue>) -> Response<Content> {
        if self.status != StatusCode::OK {
            return self.response(form);
        }
        let text = form.write(&self.value);
        let digest = HashType::Sha256.hex(text.as_bytes());
        let tag = format!("\"{}\"", digest.get(..32).unwrap_or_default());
        let has = |known: &HeaderValue| {
            let known = known.to_str().unwrap_or_default();
            let mut tags = known.split(',').map(str::trim);
            tags.any(|one| one == "*" || one.trim_start_matches("W/") == tag)
        };
        let mut response = match known.is_some_and(has) {
            true => {
                let mut response =
                    text_response(StatusCode::NOT_MODIFIED, form.media(), String::new());
                response.headers_mut().remove(CONTENT_TYPE);
                response
            }
            false => text_response(self.status, form.media(), text),
        };
        response.headers_mut().extend(self.headers);
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            response.headers_mut().insert(ETAG, tag);
        }
        by_form(&mut response);
        response
    }
}

/// Tells caches that there are several forms of it.
fn by_form(response: &mut Response<Content>) {
    let accept = HeaderValue::from_static("Accept");
    response.headers_mut().append(VARY, accept);
}

/// A file, as it is.
pub fn file(
    media: &str,
    content: impl Into<Bytes>,
    disposition: Option<&str>,
) -> Response<Content> {
    let mut response = whole(StatusCode::OK, content.into());
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, Some(media)),
        (CONTENT_DISPOSITION, disposition),
    ] {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            headers.insert(name, value);
        }
    }
    response
}

fn whole(status: StatusCode, content: Bytes) -> Response<Content> {
    let mut response = Response::new(Full::new(content).boxed_unsync());
    *response.status_mut() = status;
    response
}

fn text_response(status: StatusCode, media: &'static str, text: String) -> Response<Content> {
    let mut response = whole(status, Bytes::from(text));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    // Nothing that is answered here is for anyone but its reader.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The header `Allow` of a path.
pub fn allow(response: &mut Response<Content>, methods: &'static str) {
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(methods));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(text: &str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_str(text).unwrap());
        Form::accepted(&headers).ok()
    }

    #[test]
    fn clients_choose_the_form() {
        for (accept, form) in [
            ("application/json", Some(Form::Json)),
            ("application/x-yaml", Some(Form::Yaml)),
            ("*/*", Some(Form::Json)),
            ("application/*", Some(Form::Json)),
            ("", Some(Form::Json)),
            ("text/html", None),
            ("application/xml", None),
            ("application/json;q=0", None),
            (
                "application/json;q=0.5, application/x-yaml",
                Some(Form::Yaml),
            ),
            (
                "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
                Some(Form::Json),
            ),
        ] {
            assert_eq!(accepted(accept), form, "{accept}");
        }
        assert_eq!(Form::accepted(&HeaderMap::new()), Ok(Form::Json));
    }

    #[test]
    fn what_a_client_sends_is_no_markup_in_pages() {
        let error = ApiError::bad("Invalid client specified: '<script>'");
        let response = error.response(Form::Json);
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(
            escaped("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
    }
}
