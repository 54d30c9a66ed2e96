//! A web server for the functions that need one.
//!
//! `/echo` returns the request as JSON, `/status/CODE` responds with that code, `/to/PATH` redirects to
//! another path, `/repos/PATH` is a file of the repositories of `tests/stock/rpm/mod.rs`, and `/data/json`, `xml`, `yaml`,
//! `text`, `latin` and `cookie` are samples of these.

use std::sync::OnceLock;
use tiny_http::{Header, Request, Response, Server};

/// `http://127.0.0.1:PORT` of the one server of this process.
pub fn address() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| {
        let server = Server::http("127.0.0.1:0").unwrap();
        let address = format!("http://{}", server.server_addr());
        std::thread::spawn(move || server.incoming_requests().for_each(answer));
        address
    })
}

fn answer(mut request: Request) {
    let path = request.url().to_owned();
    let (kind, body): (&str, Vec<u8>) = match path.split('?').next().unwrap() {
        "/echo" => ("application/json", echo(&mut request).into_bytes()),
        "/data/json" => ("application/json", br#"{"a": [1, 2.5, null], "b": {"c": true}}"#.to_vec()),
        "/data/bad" => ("application/json", b"{a".to_vec()),
        "/data/xml" => (
            "text/xml",
            b"<?xml version='1.0'?><r><a>1</a><b><c>2</c><c>3</c><d/></b><n:e xmlns:n='u'>&lt;</n:e></r>".to_vec(),
        ),
        "/data/yaml" => ("application/yaml", b"a: [1, two]\nb: {c: null}\n".to_vec()),
        "/data/text" => ("text/plain; charset=utf-8", "gr\u{fc}n\n".as_bytes().to_vec()),
        "/data/latin" => ("text/plain; charset=iso-8859-1", b"gr\xfcn".to_vec()),
        "/data/octets" => ("application/octet-stream", b"\xff\x00".to_vec()),
        "/data/cookie" => ("text/plain", b"cookie".to_vec()),
        path => match path.strip_prefix("/repos/").filter(|p| !p.contains("..")) {
            Some(file) => match std::fs::read(format!("/srv/repos/{file}")) {
                Ok(octets) => ("application/octet-stream", octets),
                Err(_) => return drop(request.respond(Response::empty(404))),
            },
            None => ("text/plain", b"words".to_vec()),
        },
    };
    let code = path.strip_prefix("/status/").and_then(|c| c.parse().ok());
    let mut response = Response::from_data(body)
        .with_status_code(code.unwrap_or(200))
        .with_header(header("Content-Type", kind));
    if let Some(to) = path.strip_prefix("/to/") {
        response = response
            .with_status_code(302)
            .with_header(header("Location", &format!("/{to}")));
    }
    if path == "/data/cookie" {
        response = response.with_header(header("Set-Cookie", "a=b; Path=/"));
    }
    // Fails if the client does not wait for the response.
    let _ = request.respond(response);
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).unwrap()
}

fn echo(request: &mut Request) -> String {
    let mut body = String::new();
    request.as_reader().read_to_string(&mut body).unwrap();
    let told = |name: &str| {
        let headers = request.headers().iter();
        let mut found = headers.filter(|h| h.field.to_string().eq_ignore_ascii_case(name));
        found.next().map(|h| h.value.to_string())
    };
    let headers = [
        "User-Agent",
        "Authorization",
        "Content-Type",
        "X-Own",
        "X-Two",
        "Accept",
        "Cookie",
    ];
    let headers: serde_json::Map<String, serde_json::Value> = headers
        .iter()
        .map(|name| ((*name).to_owned(), told(name).into()))
        .collect();
    serde_json::json!({
        "method": request.method().to_string(), "url": request.url(), "body": body, "headers": headers,
    })
    .to_string()
}
