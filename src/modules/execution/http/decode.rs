//! Converts a server's reply to the result of `http.query`.

use super::super::{CallError, python};
use super::options::HttpOptions;
use super::request::HttpReply;
use crate::execution::declare::Result;
use halite_wire::map;
use halite_wire::msgpack::{self, Profile};
use halite_wire::xml::{self, Element};
use halite_wire::{Map, Value, yaml};
use std::io::Read;

/// Adds the fields of a reply.
///
/// # Errors
/// The body is malformed, or a file cannot be written.
pub fn decode_body(ret: &mut Map, reply: &HttpReply, options: &HttpOptions) -> Result<()> {
    let body = decoded(reply, options)?;
    if !(200..300).contains(&reply.status) && options.unless_false("raise_error") {
        ret.set("status", reply.status);
        ret.set("error", format!("HTTP {}: {}", reply.status, reply.reason));
        ret.set("body", body);
        return Ok(());
    }
    ret.set("body", body.clone());
    let text = uncompressed(reply, body)?;
    if let Some(path) = options.text("text_out") {
        write(&path, &text)?;
    }
    session(reply, options);
    if options.get("status").as_bool() == Some(true) {
        ret.set("status", reply.status);
    }
    if options.get("headers").as_bool() == Some(true) {
        ret.set("headers", reply.headers.clone());
    }
    let mut show = options.get("text").as_bool() == Some(true);
    if options.get("decode").as_bool() == Some(true) {
        let kind = kind(reply, options);
        if kind == "plain" {
            show = true;
        } else if let Err(error) = data(ret, &kind, &text)? {
            ret.set("error", error);
            return Ok(());
        }
        if let Some(path) = options.text("decode_out") {
            write(&path, &text)?;
        }
    }
    if show {
        ret.set("text", text);
    }
    Ok(())
}

/// The body as text, unless `decode_body` is false (`_decode_result`).
fn decoded(reply: &HttpReply, options: &HttpOptions) -> Result<Value> {
    let kind = reply.header("Content-Type").unwrap_or("text/plain");
    let charset = kind.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let named = name.trim().eq_ignore_ascii_case("charset");
        named.then(|| value.trim().trim_matches('"').to_ascii_lowercase())
    });
    let latin = matches!(
        charset.as_deref(),
        Some("iso-8859-1" | "latin-1" | "latin1")
    );
    let is_text = kind.starts_with("text/") && charset.is_some();
    if is_text && latin {
        let letters = reply.body.iter().map(|b| char::from(*b));
        return Ok(letters.collect::<String>().into());
    }
    if !is_text && !options.unless_false("decode_body") {
        return Ok(Value::Bytes(reply.body.clone()));
    }
    match std::str::from_utf8(&reply.body) {
        Ok(text) => Ok(text.into()),
        Err(e) => {
            let at = e.valid_up_to();
            let byte = reply.body.get(at).copied().unwrap_or_default();
            Err(CallError::Command(format!(
                "'utf-8' codec can't decode byte 0x{byte:02x} in position {at}: invalid start byte"
            )))
        }
    }
}

fn uncompressed(reply: &HttpReply, body: Value) -> Result<Value> {
    let Value::Bytes(bytes) = &body else {
        return Ok(body);
    };
    let mut out = Vec::new();
    let read = match reply.header("Content-Encoding").unwrap_or("identity") {
        "gzip" => flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut out),
        "deflate" => flate2::read::DeflateDecoder::new(bytes.as_slice()).read_to_end(&mut out),
        _ => return Ok(body),
    };
    read.map_err(|e| CallError::Command(e.to_string()))?;
    Ok(out.into())
}

fn write(path: &str, text: &Value) -> Result<()> {
    let content = text.as_bytes().unwrap_or_default();
    std::fs::write(path, content).map_err(|e| {
        let text = python::os_error(&e, path);
        CallError::Command(text.message().to_owned())
    })
}

/// Stores the cookie for the next request.
fn session(reply: &HttpReply, options: &HttpOptions) {
    let (Some(path), Some(cookie)) = (options.session_file(), reply.header("Set-Cookie")) else {
        return;
    };
    let content = msgpack::encode_map(&map! {"Cookie" => cookie}, Profile::Local);
    let written = halite_sys::daemon::write_atomic(path.as_ref(), &content, 0o600);
    if let Err(e) = written {
        log::error!("{path}: {e}");
    }
}

fn kind(reply: &HttpReply, options: &HttpOptions) -> String {
    let requested = options
        .text("decode_type")
        .unwrap_or_else(|| "auto".to_owned());
    if requested != "auto" {
        return requested;
    }
    let content_type = reply.header("Content-Type").unwrap_or("application/json");
    let found = ["xml", "json", "yaml"]
        .iter()
        .find(|kind| content_type.contains(**kind));
    (*found.unwrap_or(&"plain")).to_owned()
}

/// Adds `dict`; the inner error is one returned by `http.query`.
fn data(ret: &mut Map, kind: &str, text: &Value) -> Result<Result<(), String>> {
    let text = match text.as_bytes().map(std::str::from_utf8) {
        Some(Ok(text)) => text,
        _ => "",
    };
    let wrong = |text: String| CallError::Command(text);
    let value: Value = match kind {
        "json" => halite_wire::json::parse(text.as_bytes()).map_err(|e| wrong(e.to_string()))?,
        "yaml" => yaml::parse(text).map_err(|e| wrong(e.message))?,
        "xml" => {
            ret.set("dict", Value::Array(Vec::new()));
            let root = xml::parse(text).map_err(wrong)?;
            let items: Vec<Value> = root.children.iter().map(|c| plain(c).into()).collect();
            items.into()
        }
        _ => {
            let text = "Invalid decode_type specified. Valid decode types are: ('json', 'xml', 'yaml', 'plain')";
            return Ok(Err(text.to_owned()));
        }
    };
    ret.set("dict", value);
    Ok(Ok(()))
}

/// `salt/utils/xmlutil.py _to_dict`.
fn plain(element: &Element) -> Map {
    if element.children.is_empty() {
        return map! {element.name.as_str() => element.text.clone()};
    }
    let mut map = Map::new();
    for child in &element.children {
        let value: Value = if child.children.is_empty() {
            child.text.clone().into()
        } else {
            plain(child).into()
        };
        let Some(own) = map.get_mut(&child.name) else {
            map.set(child.name.as_str(), value);
            continue;
        };
        // From the second occurrence of a name on, whole elements are collected in a list.
        match own {
            Value::Array(list) => list.push(plain(child).into()),
            first => *first = vec![std::mem::take(first), plain(child).into()].into(),
        }
    }
    map
}
