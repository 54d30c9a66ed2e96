//! `http`: checks answers of web servers.

use crate::declare::{Result, State, StateFunction, StateModule, StateOutcome};
use halite_modules::args;
use halite_modules::execution::{CallError, python};
use halite_wire::{Map, Value};
use std::time::{Duration, Instant};

pub(super) const MODULE: StateModule = StateModule {
    name: "http",
    functions: &[
        StateFunction::new("query", query, "Checks the answer of a web server.")
            .args(args![
                match = None,
                match_type = "string",
                status = None,
                status_type = "string",
                wait_for = None
            ])
            .keywords(),
        StateFunction::new(
            "wait_for_successful_query",
            |s| {
                let seconds = s.arg("wait_for").clone();
                wait(s, &seconds)
            },
            "Asks a web server until its answer is the wanted one.",
        )
        .args(args![
            wait_for = {300},
            match = None,
            match_type = "string",
            status = None,
            status_type = "string"
        ])
        .keywords(),
    ],
};

fn pattern(text: &str) -> Result<regex::Regex> {
    regex::Regex::new(text).map_err(|e| CallError::raised("re.error", e.to_string()))
}

fn query(s: &mut State<'_, '_>) -> Result {
    match s.arg("wait_for").clone() {
        seconds if seconds.truthy() => wait(s, &seconds),
        _ => ask(s),
    }
}

/// Asks until the answer is good, for at most these seconds.
fn wait(s: &mut State<'_, '_>, seconds: &Value) -> Result {
    let seconds = u64::try_from(python::int(seconds)?).unwrap_or(0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let pause = s.kwargs.remove("request_interval");
    let pause = pause.map(|p| python::int(&p)).transpose()?.unwrap_or(1);
    loop {
        let outcome = ask(s);
        let good = matches!(&outcome, Ok(o) if o.result != Some(false));
        if good || Instant::now() >= until {
            return outcome;
        }
        // The interval is at most what is left.
        let pause = Duration::from_secs(u64::try_from(pause).unwrap_or(1));
        std::thread::sleep(pause.min(until.saturating_duration_since(Instant::now())));
    }
}

fn ask(s: &mut State<'_, '_>) -> Result {
    let (text, status) = (s.arg("match").clone(), s.arg("status").clone());
    if text.is_nil() && status.is_nil() {
        return Ok(StateOutcome::bad(
            " Either match text (match) or a status code (status) is required.",
        )
        .with("data", Map::new()));
    }
    let mut data = Map::new();
    if !s.test {
        let mut given = s.kwargs.clone();
        given.set("text", true);
        given.set("status", true);
        let name = Value::from(s.name());
        let answer = s.salt_with("http.query", [name], given)?;
        data = answer.into_map().unwrap_or_default();
    }
    let mut comments = Vec::new();
    let mut result = None;
    if !text.is_nil() {
        let wanted = python::str(&text);
        let body = data.get("text").map(python::str).unwrap_or_default();
        let (what, found) = match s.text("match_type").as_deref() {
            Some("pcre") => ("pattern", pattern(&wanted)?.is_match(&body)),
            _ => ("text", body.contains(&wanted)),
        };
        comments.push(format!(
            "Match {what} \"{wanted}\" was {}found.",
            not(found)
        ));
        result = Some(found);
    }
    if !status.is_nil() {
        let now = data.get("status").map(python::str).unwrap_or_default();
        let wanted = python::str(&status);
        let found = match s.text("status_type").as_deref() {
            Some("list") => {
                let any = s.list("status").iter().map(python::str).find(|w| *w == now);
                comments.push(match &any {
                    Some(status) => format!("Status {status} was found."),
                    None => format!("Statuses {wanted} were not found."),
                });
                Some(any.is_some())
            }
            Some("pcre") => {
                let found = pattern(&format!("^(?:{wanted})"))?.is_match(&now);
                comments.push(format!(
                    "Status pattern \"{wanted}\" was {}found.",
                    not(found)
                ));
                Some(found)
            }
            Some("string") => {
                let found = wanted == now;
                comments.push(format!("Status {wanted} was {}found.", not(found)));
                Some(found)
            }
            _ => None,
        };
        result = match (result, found) {
            (Some(before), Some(found)) => Some(before && found),
            (before, found) => before.or(found),
        };
    }
    let mut comment = comments.join(" ");
    if s.test {
        result = None;
        comment.push_str(" (TEST MODE)");
    }
    Ok(StateOutcome::new(result, comment).with("data", data))
}

fn not(found: bool) -> &'static str {
    if found { "" } else { "not " }
}
