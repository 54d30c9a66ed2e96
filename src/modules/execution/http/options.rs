//! Request options: the call's keywords, then the minion's options.

use super::super::{CallError, python};
use crate::execution::declare::Result;
use halite_wire::{Map, Value, base64};
use std::time::Duration;

const NIL: &Value = &Value::Nil;

/// Unsupported keywords and their alternatives.
const MISSING: [(&str, &str); 7] = [
    ("handle", "the answer is always read to its end"),
    ("stream", "the answer is always read to its end"),
    ("streaming_callback", "it is a Python function"),
    ("header_callback", "it is a Python function"),
    ("cookies", "use persist_session, or send the header Cookie"),
    ("data_render", "render the data before sending them"),
    ("header_render", "render the headers before sending them"),
];

/// The keywords of a request over the minion's options.
pub struct HttpOptions {
    given: Map,
    opts: Map,
}

impl HttpOptions {
    /// From the minion's options and a call's keywords.
    ///
    /// # Errors
    /// An unsupported keyword, with the alternative.
    pub fn new(opts: &Map, given: &Map) -> Result<HttpOptions> {
        let mut opts = opts.clone();
        if let Some(Value::Map(own)) = given.get("opts") {
            for (key, value) in own.iter() {
                opts.set(python::str(key), value.clone());
            }
        }
        let options = HttpOptions {
            given: given.clone(),
            opts,
        };
        let missing = MISSING.iter().find(|(name, _)| options.flag(name));
        match missing {
            Some((name, instead)) => Err(CallError::Command(format!(
                "This minion has no '{name}' for requests: {instead}"
            ))),
            None => Ok(options),
        }
    }

    /// A keyword; nil if not given.
    pub fn get(&self, name: &str) -> &Value {
        self.given.get(name).unwrap_or(NIL)
    }

    /// Whether a keyword is `True`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).truthy()
    }

    /// A keyword that defaults to true.
    pub fn unless_false(&self, name: &str) -> bool {
        self.given.get(name).is_none_or(Value::truthy)
    }

    /// A keyword as text.
    pub fn text(&self, name: &str) -> Option<String> {
        Some(self.get(name))
            .filter(|v| !v.is_nil())
            .map(python::str)
    }

    /// An option of the minion.
    pub fn opt(&self, name: &str) -> &Value {
        self.opts.get(name).unwrap_or(NIL)
    }

    /// All options of the minion.
    pub fn opts(&self) -> &Map {
        &self.opts
    }

    /// An option in seconds.
    pub fn seconds(&self, name: &str, default: f64) -> Duration {
        let seconds = halite_wire::pytext::number(self.opt(name)).unwrap_or(default);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::from_secs(3600))
    }

    /// The method.
    pub fn method(&self) -> String {
        self.text("method").unwrap_or_else(|| "GET".to_owned())
    }

    /// The URL with its parameters (`tornado.httputil.url_concat`).
    ///
    /// # Errors
    /// Parameters that are neither a map nor a list of pairs.
    pub fn url(&self, url: &str) -> Result<String> {
        let params = self.get("params");
        if !params.truthy() {
            return Ok(url.to_owned());
        }
        let pairs = pairs(params).ok_or_else(|| {
            CallError::Command(format!(
                "'args' parameter should be dict, list or tuple. Not {}",
                python::class(params)
            ))
        })?;
        let (rest, fragment) = match url.split_once('#') {
            Some((rest, fragment)) => (rest, format!("#{fragment}")),
            None => (url, String::new()),
        };
        let (base, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut all: Vec<(String, String)> = query
            .split('&')
            .filter(|part| !part.is_empty())
            .map(|part| {
                let (key, value) = part.split_once('=').unwrap_or((part, ""));
                (unquoted(key), unquoted(value))
            })
            .collect();
        all.extend(pairs);
        Ok(format!("{base}?{}{fragment}", encoded(&all)))
    }

    /// The body: text, a map as a form, or the content of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn body(&self) -> Result<Option<Vec<u8>>> {
        if let Some(path) = self.text("data_file") {
            return Ok(Some(read(&path)?.into_bytes()));
        }
        Ok(match self.get("data") {
            Value::Nil => None,
            Value::Bytes(bytes) => Some(bytes.clone()),
            map @ Value::Map(_) => pairs(map).map(|pairs| encoded(&pairs).into_bytes()),
            other => Some(python::str(other).into_bytes()),
        })
    }

    /// The headers in the given order, including the user agent.
    ///
    /// # Errors
    /// The file of headers cannot be read, or a value is not text.
    pub fn headers(&self) -> Result<Map> {
        let mut headers = Map::new();
        if let Value::Map(given) = self.get("header_dict") {
            for (name, value) in given.iter() {
                let Value::Str(text) = value else {
                    return Err(CallError::Command(format!(
                        "Expected bytes, unicode, or None; got {}",
                        python::class(value)
                    )));
                };
                headers.set(python::str(name), text.as_str());
            }
        }
        let mut lines: Vec<String> = match self.get("header_list") {
            Value::Array(list) => list.iter().map(python::str).collect(),
            _ => Vec::new(),
        };
        if let Some(path) = self.text("header_file") {
            lines = read(&path)?.lines().map(str::to_owned).collect();
        }
        if let Value::Map(session) = self.session() {
            for (name, value) in session.iter() {
                headers.set(python::str(name), python::str(value));
            }
        }
        for line in lines {
            let mut parts = line.split(':');
            if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                headers.set(name.trim(), value.trim());
            }
        }
        let agent = self
            .text("agent")
            .unwrap_or_else(|| format!("Salt/{} http.query()", crate::grains::COMPAT_VERSION));
        headers.set("User-agent", agent);
        if let Some(user) = self.text("username") {
            let word = format!("{user}:{}", self.text("password").unwrap_or_default());
            headers.set(
                "Authorization",
                format!("Basic {}", base64::encode(word.as_bytes())),
            );
        }
        Ok(headers)
    }

    /// Path of the cookie file for `persist_session`, if requested.
    pub fn session_file(&self) -> Option<String> {
        if !self.flag("persist_session") {
            return None;
        }
        let usual = || {
            let cachedir = self
                .opts
                .str("cachedir")
                .unwrap_or("/var/cache/salt/minion");
            format!("{cachedir}/cookies.session.p")
        };
        Some(self.text("session_cookie_jar").unwrap_or_else(usual))
    }

    fn session(&self) -> Value {
        let content = self
            .session_file()
            .and_then(|path| std::fs::read(path).ok());
        content
            .and_then(|content| halite_wire::msgpack::decode(&content).ok())
            .unwrap_or_default()
    }
}

fn read(path: &str) -> Result<String> {
    let fault = |e| CallError::Command(python::os_error(&e, path).message().to_owned());
    std::fs::read_to_string(path).map_err(fault)
}

fn pairs(value: &Value) -> Option<Vec<(String, String)>> {
    match value {
        Value::Map(map) => {
            let pairs = map.iter().map(|(k, v)| (python::str(k), python::str(v)));
            Some(pairs.collect())
        }
        Value::Array(list) => list
            .iter()
            .map(|pair| match pair.as_array() {
                Some([key, value]) => Some((python::str(key), python::str(value))),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// `urllib.parse.urlencode`.
fn encoded(pairs: &[(String, String)]) -> String {
    let parts = pairs
        .iter()
        .map(|(k, v)| format!("{}={}", quoted(k), quoted(v)));
    parts.collect::<Vec<_>>().join("&")
}

fn quoted(text: &str) -> String {
    let letters = text.bytes().map(|b| match b {
        b' ' => "+".to_owned(),
        b if b.is_ascii_alphanumeric() || b"_.-~".contains(&b) => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    });
    letters.collect()
}

fn unquoted(text: &str) -> String {
    let raw = text.replace('+', " ").into_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < raw.len() {
        let code = raw
            .get(at + 1..at + 3)
            .filter(|_| raw[at] == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                out.push(code);
                at += 3;
            }
            None => {
                out.push(raw[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use halite_wire::map;

    #[test]
    fn addresses() {
        let url = |params: Value| {
            let options = HttpOptions::new(&Map::new(), &map! {"params" => params}).unwrap();
            options.url("http://h/x?a=%20b&c=#f").unwrap()
        };
        assert_eq!(url(Value::Nil), "http://h/x?a=%20b&c=#f");
        assert_eq!(
            url(map! {"d e" => "ä"}.into()),
            "http://h/x?a=+b&c=&d+e=%C3%A4#f"
        );
    }
}
