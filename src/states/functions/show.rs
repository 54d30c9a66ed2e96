//! Functions that show what would run.

use super::session::{EX_PILLAR_FAILURE, Refusal, Session, disabled, names, ready};
use crate::top::shown;
use halite_modules::execution::declare::Result;
use halite_modules::execution::{Call, CallError, python};
use halite_render::state::compile::verify;
use halite_render::state::highstate::SlsSource;
use halite_render::state::result;
use halite_wire::{Map, Value};

pub(super) fn show_top(call: &mut Call<'_>) -> Result {
    let session = ready!(call, open(call));
    let matches = ready!(call, session.matches());
    Ok(shown(&matches).into())
}

/// As for a run, but errors of the pillar are an error of the function.
fn open(call: &mut Call<'_>) -> std::result::Result<Session, Refusal> {
    Session::open(call).map_err(|refusal| match refusal {
        Refusal::Messages(list, EX_PILLAR_FAILURE) => {
            let list: Vec<String> = list
                .into_iter()
                .skip(1)
                .map(|why| format!("- {why}"))
                .collect();
            let text = format!(
                "Pillar failed to render. Additional info follows:\n\n{}",
                list.join("\n")
            );
            Refusal::Fault(CallError::Command(text))
        }
        other => other,
    })
}

/// The high data of the top files.
fn highstate(call: &mut Call<'_>) -> std::result::Result<(Session, Map), Refusal> {
    let session = open(call)?;
    let matches = session.matches()?;
    let found = session.render(&matches);
    if found.errors.is_empty() {
        Ok((session, found.high))
    } else {
        Err(Refusal::Messages(found.errors, 1))
    }
}

pub(super) fn show_highstate(call: &mut Call<'_>) -> Result {
    let (_, high) = ready!(call, highstate(call));
    if high.is_empty() {
        call.retcode = Value::Int(2);
    }
    Ok(high.into())
}

pub(super) fn show_lowstate(call: &mut Call<'_>) -> Result {
    let (session, high) = ready!(call, highstate(call));
    let compiled = ready!(call, session.compile(call, high));
    Ok(compiled.steps().into())
}

/// The high data of SLS files, if its form is right.
fn verified(session: &Session, mods: &[String]) -> std::result::Result<Map, Refusal> {
    let high = session.high_of(mods)?;
    match verify(&high) {
        errors if errors.is_empty() => Ok(high),
        errors => Err(Refusal::Messages(errors, 1)),
    }
}

pub(super) fn show_sls(call: &mut Call<'_>) -> Result {
    let mods = names(call.arg("mods"));
    let session = ready!(call, open(call));
    ready!(call, disabled(call, &mods));
    let high = ready!(call, verified(&session, &mods));
    Ok(high.into())
}

pub(super) fn show_low_sls(call: &mut Call<'_>) -> Result {
    let mods = names(call.arg("mods"));
    let session = ready!(call, open(call));
    ready!(call, disabled(call, &mods));
    let high = ready!(call, verified(&session, &mods));
    let compiled = ready!(call, session.compile_as_is(call, high));
    Ok(compiled.steps().into())
}

pub(super) fn graph(call: &mut Call<'_>) -> Result {
    let mods = names(call.arg("mods"));
    let session = ready!(call, open(call));
    ready!(call, disabled(call, &mods));
    let high = ready!(call, verified(&session, &mods));
    let compiled = ready!(call, session.compile_as_is(call, high));
    Ok(compiled.graph.to_dot().into())
}

pub(super) fn graph_highstate(call: &mut Call<'_>) -> Result {
    let (session, high) = ready!(call, highstate(call));
    let compiled = ready!(call, session.compile_as_is(call, high));
    Ok(compiled.graph.to_dot().into())
}

pub(super) fn show_states(call: &mut Call<'_>) -> Result {
    let (session, high) = ready!(call, highstate(call));
    let compiled = ready!(call, session.compile(call, high));
    let mut all: Vec<String> = Vec::new();
    for low in compiled.low() {
        let sls = low.str("__sls__").unwrap_or_default();
        if !sls.is_empty() && !all.iter().any(|known| known == sls) {
            all.push(sls.to_owned());
        }
    }
    Ok(all.into())
}

pub(super) fn show_state_usage(call: &mut Call<'_>) -> Result {
    let session = ready!(call, open(call));
    let matches = ready!(call, session.matches());
    let mut all = Map::new();
    for env in session.source.environments()? {
        let available = (&session.source).available(&env).unwrap_or_default();
        let used: Vec<String> = matches
            .iter()
            .filter(|(known, _)| *known == env)
            .flat_map(|(_, names)| names.clone())
            .collect();
        let unused: Vec<String> = available
            .iter()
            .filter(|name| !used.contains(name))
            .cloned()
            .collect();
        all.set(
            &env,
            halite_wire::map! {
                "count_used" => used.len() as i64, "count_unused" => unused.len() as i64, "count_all" => available.len() as i64,
                "used" => used, "unused" => unused,
            },
        );
    }
    Ok(all.into())
}

pub(super) fn sls_exists(call: &mut Call<'_>) -> Result {
    let ret = show_sls(call)?;
    Ok(ret.as_map().is_some().into())
}

pub(super) fn sls_file_exists(call: &mut Call<'_>) -> Result {
    let mods = names(call.arg("mods"));
    let session = ready!(call, open(call));
    let available = (&session.source)
        .available(&session.saltenv())
        .unwrap_or_default();
    Ok(mods.iter().all(|name| available.contains(name)).into())
}

pub(super) fn id_exists(call: &mut Call<'_>) -> Result {
    let ids = names(call.arg("ids"));
    let mods = names(call.arg("mods"));
    let session = ready!(call, open(call));
    let high = ready!(call, session.high_of(&mods));
    let has = |id: &String| high.iter().any(|(known, _)| python::str(known) == *id);
    Ok(ids.iter().all(has).into())
}

pub(super) fn check_result(call: &mut Call<'_>) -> Result {
    match call.arg("ret") {
        ret @ Value::Map(_) => Ok(result::check_result(ret, false).into()),
        _ => Err(CallError::Command(
            "ret must be a map of results".to_owned(),
        )),
    }
}
