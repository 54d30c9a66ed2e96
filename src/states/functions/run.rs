//! Functions that run states.

use super::session::{
    EX_STATE_COMPILER_ERROR, EX_STATE_FAILURE, Session, compiler_error, disabled, exclude, keyword,
    names, ready, text_of,
};
use crate::runner::why_not;
use crate::top::Matches;
use halite_modules::execution::declare::Result;
use halite_modules::execution::{Call, CallError, python};
use halite_render::state::compile::Compiled;
use halite_render::state::highstate::{RenderedSls, SlsSource, render_highstate};
use halite_wire::{Map, Value};
use std::path::Path;

pub(super) fn apply(call: &mut Call<'_>) -> Result {
    if call.flag("mods") {
        return sls(call);
    }
    highstate(call)
}

pub(super) fn as_test(call: &mut Call<'_>) -> Result {
    let (args, mut kwargs) = (call.bound.varargs.clone(), call.bound.kwargs.clone());
    kwargs.set("test", true);
    call.salt("state.apply", args, kwargs)
}

/// Synchronizes modules before the run (`sync_mods`).
fn sync(call: &mut Call<'_>) -> Result<()> {
    let kinds = match keyword(call, "sync_mods").clone() {
        Value::Bool(true) => vec!["all".to_owned()],
        value if value.truthy() => names(&value),
        _ => return Ok(()),
    };
    for kind in kinds {
        call.salt(&format!("saltutil.sync_{kind}"), Vec::new(), Map::new())?;
    }
    Ok(())
}

pub(super) fn sls(call: &mut Call<'_>) -> Result {
    let mods = names(call.arg("mods"));
    let session = ready!(call, Session::open(call));
    ready!(call, disabled(call, &mods));
    sync(call)?;
    let mut high = ready!(call, session.high_of(&mods));
    exclude(call, &mut high);
    session.apply(call, high)
}

pub(super) fn highstate(call: &mut Call<'_>) -> Result {
    ready!(call, disabled(call, &["highstate".to_owned()]));
    let session = ready!(call, Session::open(call));
    let matches = ready!(call, session.matches());
    run_matches(call, &session, &matches)
}

fn run_matches(call: &mut Call<'_>, session: &Session, matches: &Matches) -> Result {
    if matches.iter().all(|(_, names)| names.is_empty()) {
        let why =
            "No Top file or master_tops data matches found. Please see master log for details.";
        return Ok(no_states(call, why));
    }
    let found = session.render(matches);
    if !found.errors.is_empty() {
        return compiler_error(found.errors).into_return(call);
    }
    let mut high = found.high;
    let only = names(keyword(call, "whitelist"));
    if !only.is_empty() {
        high.0.retain(|(_, body)| {
            let sls = body.as_map().and_then(|body| body.str("__sls__"));
            sls.is_none_or(|sls| only.iter().any(|name| name == sls))
        });
    }
    exclude(call, &mut high);
    if high.is_empty() {
        return Ok(no_states(call, "No states found for this minion"));
    }
    session.apply(call, high)
}

/// What a highstate without states returns.
fn no_states(call: &mut Call<'_>, why: &str) -> Value {
    call.retcode = EX_STATE_FAILURE.into();
    let mut all = Map::new();
    all.set(
        "no_|-states_|-states_|-None",
        halite_wire::map! {
            "result" => false, "comment" => why, "name" => "No States", "changes" => Map::new(),
            "__run_num__" => 0,
        },
    );
    all.into()
}

pub(super) fn top(call: &mut Call<'_>) -> Result {
    let mut session = ready!(call, Session::open(call));
    let name = call.text("topfn").unwrap_or_default();
    let url = match name.starts_with("salt://") {
        true => name,
        false => format!("salt://{name}"),
    };
    std::sync::Arc::make_mut(&mut session.ctx.opts).set("state_top", url);
    let matches = ready!(call, session.matches());
    run_matches(call, &session, &matches)
}

pub(super) fn sls_id(call: &mut Call<'_>) -> Result {
    let (id, mods) = (call.text("id").unwrap_or_default(), names(call.arg("mods")));
    let session = ready!(call, Session::open(call));
    let high = ready!(call, session.high_of(&mods));
    let mut compiled = ready!(call, session.compile(call, high));
    let chunks = &compiled.graph.chunks;
    compiled
        .order
        .retain(|&at| chunks[at].str("__id__") == Some(&id));
    if compiled.order.is_empty() {
        return Err(CallError::Invocation(format!(
            "No matches for ID '{id}' found in SLS '{}' within saltenv '{}'",
            mods.join(","),
            session.saltenv()
        )));
    }
    Ok(session.run(call, compiled))
}

pub(super) fn high(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let Value::Map(mut data) = call.arg("data").clone() else {
        return Err(CallError::Invocation(
            "data must be a map, as in an SLS file".to_owned(),
        ));
    };
    for (_, body) in &mut data.0 {
        if let Value::Map(body) = body
            && !body.contains("__env__")
        {
            body.set("__env__", session.saltenv());
        }
    }
    session.apply(call, data)
}

/// One call without requisites.
fn one(call: &mut Call<'_>, session: &Session, low: Map) -> Result {
    if let Some(why) = why_not(&session.ctx, &low) {
        return compiler_error(vec![why]).into_return(call);
    }
    // Stock lets `None` pass.
    let name = low.get("name").unwrap_or(&Value::Nil);
    if !matches!(name, Value::Str(_) | Value::Nil) {
        let why = format!(
            "ID '{}' is not formed as a string, but is a {}",
            python::str(name),
            python::type_name(name)
        );
        return compiler_error(vec![why]).into_return(call);
    }
    let mut compiled = Compiled::default();
    compiled.graph.add(low);
    compiled.order = vec![0];
    compiled.single = true;
    Ok(session.run(call, compiled))
}

pub(super) fn low(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let Value::Map(mut data) = call.arg("data").clone() else {
        return Err(CallError::Invocation(
            "data must be a map with state, fun and name".to_owned(),
        ));
    };
    for key in ["state", "fun", "name"] {
        if data.str(key).is_none() {
            return compiler_error(vec![format!("Missing \"{key}\" data")]).into_return(call);
        }
    }
    if !data.contains("__id__") {
        let name = data.get("name").cloned();
        data.set("__id__", name);
    }
    let ret = one(call, &session, data)?;
    // One result, without its tag.
    Ok(match ret {
        Value::Map(mut map) if map.len() == 1 => map.0.remove(0).1,
        other => other,
    })
}

/// Keywords of `state.single` that are for the run, not for its state.
const RUN_KEYS: &[&str] = &[
    "pillar",
    "pillarenv",
    "pillar_enc",
    "saltenv",
    "mock",
    "concurrent",
    "localconfig",
    "state_events",
    "orchestration_jid",
];

pub(super) fn single(call: &mut Call<'_>) -> Result {
    let fun = call.text("fun").unwrap_or_default();
    let Some((state, function)) = fun.split_once('.') else {
        call.retcode = EX_STATE_COMPILER_ERROR.into();
        return Ok("Invalid function passed".into());
    };
    let name = call.arg("name").clone();
    let mut low = Map::new();
    for (key, value) in call.bound.kwargs.iter() {
        if let Some(key) = key
            .as_str()
            .filter(|key| (!key.starts_with("__") || *key == "__env__") && !RUN_KEYS.contains(key))
        {
            low.set(key, value.clone());
        }
    }
    if let Some(mask) = low.get("umask").map(python::str)
        && u32::from_str_radix(&mask, 8).is_err()
    {
        call.retcode = EX_STATE_COMPILER_ERROR.into();
        return Ok(vec![format!("Invalid umask: {mask}")].into());
    }
    low.set("state", state);
    low.set("fun", function);
    low.set("__id__", name.clone());
    low.set("name", name);
    let session = ready!(call, Session::open(call));
    if text_of(call, "saltenv").is_some() {
        low.set("__env__", session.saltenv());
    }
    one(call, &session, low)
}

pub(super) fn template(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let tem = call.text("tem").unwrap_or_default();
    let tem = match tem.strip_suffix(".sls") {
        Some(name) if !tem.starts_with('/') => name.replace('/', "."),
        _ => tem,
    };
    let path = Path::new(&tem);
    if path.is_file() {
        let text = std::fs::read_to_string(path).map_err(|e| python::os_error(&e, &tem))?;
        return run_text(call, &session, &text, &tem);
    }
    let high = ready!(call, session.high_of(&[tem]));
    session.apply(call, high)
}

pub(super) fn template_str(call: &mut Call<'_>) -> Result {
    let session = ready!(call, Session::open(call));
    let text = call.text("tem").unwrap_or_default();
    run_text(call, &session, &text, TEXT_PATH)
}

/// What stands for the path of a text.
const TEXT_PATH: &str = ":string:";

/// The SLS name of a text.
const TEXT_SLS: &str = "<template-str>";

fn run_text(call: &mut Call<'_>, session: &Session, text: &str, path: &str) -> Result {
    /// A text that has been rendered.
    struct Text(std::result::Result<Value, String>);
    impl SlsSource for Text {
        fn available(&self, _: &str) -> Option<Vec<String>> {
            Some(vec![TEXT_SLS.to_owned()])
        }

        fn render(&mut self, _: &str, _: &str) -> std::result::Result<Option<RenderedSls>, String> {
            let data = self.0.clone()?;
            Ok(Some(RenderedSls { data, init: false }))
        }
    }
    let saltenv = session.saltenv();
    let data = session.source.text(text, path, &saltenv, TEXT_SLS);
    if let Ok(Value::Map(data)) = &data {
        let invalid = ["include", "exclude", "extends"]
            .iter()
            .filter(|key| data.contains(key));
        let errors: Vec<String> = invalid
            .map(|key| {
                format!("The '{key}' declaration found on '{TEXT_SLS}' is invalid when rendering single templates")
            })
            .collect();
        if !errors.is_empty() {
            return compiler_error(errors).into_return(call);
        }
    }
    let matches = [(saltenv, vec![TEXT_SLS.to_owned()])];
    let found = render_highstate(&mut Text(data), &matches, session.auto_order());
    if !found.errors.is_empty() {
        return compiler_error(found.errors).into_return(call);
    }
    let mut high = found.high;
    for (_, body) in &mut high.0 {
        if let Value::Map(body) = body {
            match path {
                TEXT_PATH => drop(body.remove("__sls__")),
                path => body.set("__sls__", path),
            }
        }
    }
    session.apply(call, high)
}
