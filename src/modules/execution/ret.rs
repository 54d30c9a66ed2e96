//! `ret`: results stored by returners (`salt/modules/ret.py`).

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python_modules};
use crate::returners::{ReturnerSelection, find, open};
use halite_config::Returner;
use halite_returners::Question;
use halite_wire::Map;

pub(super) const MODULE: Module = Module {
    name: "ret",
    functions: &[
        Function::new(
            "get_jid",
            get_jid,
            "The returns of a job stored by a returner, by minion.",
        )
        .args(args![returner, jid]),
        Function::new(
            "get_fun",
            get_fun,
            "The last return of a function stored by a returner, by minion.",
        )
        .args(args![returner, fun]),
        Function::new(
            "get_jids",
            get_jids,
            "The jobs whose loads a returner stored.",
        )
        .args(args![returner]),
        Function::new(
            "get_minions",
            get_minions,
            "The minions whose returns a returner stored.",
        )
        .args(args![returner]),
    ],
};

fn get_jid(call: &mut Call<'_>) -> Result {
    let jid = call.text("jid").unwrap_or_default();
    query_returner(call, "get_jid", Question::Jid(&jid))
}

fn get_fun(call: &mut Call<'_>) -> Result {
    let fun = call.text("fun").unwrap_or_default();
    query_returner(call, "get_fun", Question::Fun(&fun))
}

fn get_jids(call: &mut Call<'_>) -> Result {
    query_returner(call, "get_jids", Question::Jids)
}

fn get_minions(call: &mut Call<'_>) -> Result {
    query_returner(call, "get_minions", Question::Minions)
}

fn query_returner(call: &Call<'_>, function: &str, question: Question<'_>) -> Result {
    let name = call.text("returner").unwrap_or_else(|| "None".to_owned());
    let found = find(call.ctx, &name).filter(|returner| returner.keeps_jobs());
    let full = format!("{name}.{function}");
    if python_modules::has(call.ctx, "returners", &full, found.is_some()) {
        let args = match question {
            Question::Jid(what) | Question::Fun(what) => vec![what.into()],
            Question::Jids | Question::Minions => Vec::new(),
        };
        return python_modules::use_function(call.ctx, "returners", &full, args, Map::new());
    }
    let Some(returner) = found else {
        return Err(CallError::raised(
            "KeyError",
            format!("'{name}.{function}'"),
        ));
    };
    let answer = open(call.ctx, returner, &ReturnerSelection::default()).read(question);
    answer.map_err(|e| fault(returner, &e.to_string()))
}

/// The exceptions of Salt's modules and their libraries.
fn fault(returner: Returner, why: &str) -> CallError {
    let name = returner.name();
    match returner {
        Returner::Pgjsonb | Returner::Postgres => CallError::raised(
            "salt.exceptions.SaltMasterError",
            format!("{name} returner could not connect to database: {why}"),
        ),
        Returner::Redis => CallError::raised("redis.exceptions.ConnectionError", why),
        _ => CallError::raised("Exception", format!("{name}: {why}")),
    }
}
