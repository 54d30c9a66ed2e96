//! `http`: HTTP requests.
//!
//! Results always have the form of stock's default backend, `tornado`. Not supported: `handle`, `stream` and
//! callbacks, which need Python objects; cookie jars; templates.

mod decode;
mod options;
mod request;

use super::declare::{Function, Module, Result, args};
use super::{Call, python};
use halite_wire::{Map, Value};
use options::HttpOptions;
use std::time::{Duration, Instant};

/// Default pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
/// CA bundles of Linux distributions.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/tls/certs/ca-bundle.trust.crt",
    "/etc/ssl/certs/ca-bundle.crt",
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

pub(super) const MODULE: Module = Module {
    name: "http",
    functions: &[
        Function::new(
            "query",
            query,
            "Sends an HTTP request and returns the body of the response, decoded if decode=True.",
        )
        .args(args![url])
        .keywords(),
        Function::new(
            "wait_for_successful_query",
            wait,
            "Repeats an HTTP request until it succeeds or a number of seconds has passed.",
        )
        .args(args![url, wait_for = { 300 }])
        .keywords(),
        Function::new(
            "update_ca_bundle",
            update_ca_bundle,
            "Downloads a CA bundle and appends more files to it.",
        )
        .args(args![target = None, source = None, merge_files = None]),
    ],
};

fn query(call: &mut Call<'_>) -> Result {
    let url = python::str(call.arg("url"));
    let options = HttpOptions::new(&call.ctx.opts, &call.bound.kwargs)?;
    Ok(answer(&url, &options)?.into())
}

/// The result of `http.query`.
fn answer(url: &str, options: &HttpOptions) -> Result<Map> {
    if options.flag("test") && options.get("test_url").is_nil() {
        return Ok(Map::new());
    }
    let mut ret = Map::new();
    if options.flag("test") {
        ret.set("test", true);
    }
    let url = options.url(url)?;
    match request::send(&url, options)? {
        request::HttpOutcome::Failed(failure) => {
            ret.0.extend(failure.0);
            Ok(ret)
        }
        request::HttpOutcome::Reply(reply) => {
            decode::decode_body(&mut ret, &reply, options)?;
            Ok(ret)
        }
    }
}

fn wait(call: &mut Call<'_>) -> Result {
    let url = python::str(call.arg("url"));
    let options = HttpOptions::new(&call.ctx.opts, &call.bound.kwargs)?;
    let limit = Duration::from_secs(u64::try_from(python::int(call.arg("wait_for"))?).unwrap_or(0));
    let pause = match options.get("request_interval") {
        Value::Nil => PAUSE,
        seconds => {
            let seconds = halite_wire::pytext::number(seconds).unwrap_or(0.0);
            Duration::try_from_secs_f64(seconds).unwrap_or(PAUSE)
        }
    };
    let began = Instant::now();
    loop {
        let result = answer(&url, &options);
        let failed = match &result {
            Ok(ret) => ["Error", "error"]
                .iter()
                .any(|k| ret.get(k).is_some_and(Value::truthy)),
            Err(_) => true,
        };
        if !failed || began.elapsed() > limit {
            return result.map(Value::from);
        }
        std::thread::sleep(pause);
    }
}

/// The CA bundle stock would use (`salt/utils/http.py get_ca_bundle`).
fn ca_bundle(opts: &Map) -> Option<String> {
    let exists = |path: &String| std::path::Path::new(path).exists();
    let own = opts.str("ca_bundle").map(str::to_owned).filter(exists);
    let usual = || BUNDLES.iter().map(|p| (*p).to_owned()).find(exists);
    own.or_else(usual)
}

fn update_ca_bundle(call: &mut Call<'_>) -> Result {
    let opts = &call.ctx.opts;
    let target = call.text("target").or_else(|| ca_bundle(opts));
    let Some(target) = target else {
        log::error!("Unable to detect location to write CA bundle to");
        return Ok(Value::Nil);
    };
    let source = call
        .text("source")
        .or_else(|| opts.str("ca_bundle_url").map(str::to_owned))
        .unwrap_or_else(|| "http://curl.haxx.se/ca/cacert.pem".to_owned());
    let asked = halite_wire::map! {"text" => true, "text_out" => target.as_str()};
    answer(&source, &HttpOptions::new(opts, &asked)?)?;
    let files = match call.arg("merge_files") {
        Value::Array(files) => files.iter().map(python::str).collect(),
        Value::Str(file) => vec![file.clone()],
        _ => Vec::new(),
    };
    let mut more = String::new();
    for file in files {
        match std::fs::read_to_string(&file) {
            Ok(text) => more.push_str(&format!("\n{text}")),
            Err(e) => log::error!("cannot append {file} to {target}: {e}"),
        }
    }
    if !more.is_empty() {
        let old = std::fs::read_to_string(&target).unwrap_or_default();
        if let Err(e) = std::fs::write(&target, format!("{old}\n{more}")) {
            log::error!("{target}: {e}");
        }
    }
    Ok(Value::Nil)
}
