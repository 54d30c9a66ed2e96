//! `grains`: facts about the host (`salt/modules/grains.py`). [`change`] writes the file `grains` beside the
//! configuration.

mod change;

use super::declare::{Arg, Function, Lit, Module, Result, opt, req};
use super::nested::{DELIMITER, is_true, traverse};
use super::{Call, python};
use halite_wire::{Map, Value};

const GET: &[Arg] = &[
    req("key"),
    opt("default", Lit::Str("")),
    opt("delimiter", Lit::Str(DELIMITER)),
    opt("ordered", Lit::Bool(true)),
];

const NO: Lit = Lit::Bool(false);
const YES: Lit = Lit::Bool(true);

pub(super) const MODULE: Module = Module {
    name: "grains",
    functions: &[
        Function::new(
            "items",
            items,
            "All grains; with sanitize, names and serial numbers are hidden.",
        )
        .args(&[opt("sanitize", Lit::Bool(false))]),
        Function::new(
            "item",
            item,
            "The given grains, each a path with delimiters.",
        )
        .varargs()
        .keywords(),
        Function::new("get", get, "One grain by its path, or the default.").args(GET),
        Function::new("fetch", get, "Alias of grains.get.")
            .inner("get")
            .args(GET),
        Function::new("ls", ls, "The sorted names of all grains."),
        Function::new(
            "has_value",
            has_value,
            "Whether a grain exists at a path.",
        )
        .args(&[req("key")]),
        Function::new(
            "equals",
            equals,
            "Whether a grain, as text, equals the given value.",
        )
        .args(&[req("key"), req("value")]),
        Function::new(
            "filter_by",
            filter_by,
            "Selects the map entry whose key, possibly a glob, matches a grain.",
        )
        .args(&[
            req("lookup_dict"),
            opt("grain", Lit::Str("os_family")),
            opt("merge", Lit::Nil),
            opt("default", Lit::Str("default")),
            opt("base", Lit::Nil),
        ]),
        Function::new("setvals", change::setvals, "Writes several grains into the grains file; with destructive, those without a value are deleted.")
            .args(&[req("grains"), opt("destructive", NO), opt("refresh_pillar", YES)]),
        Function::new("setval", change::setval, "Writes one grain into the grains file.")
            .args(&[req("key"), req("val"), opt("destructive", NO), opt("refresh_pillar", YES)]),
        Function::new("set", change::set, "Writes one grain, possibly at a path; maps and lists are only replaced with force.")
            .args(&[req("key"), opt("val", Lit::Str("")), opt("force", NO), opt("destructive", NO), opt("delimiter", Lit::Str(DELIMITER))]),
        Function::new("append", change::append, "Appends a value to a list grain; with convert, other values are converted to a list first.")
            .args(&[req("key"), req("val"), opt("convert", NO), opt("delimiter", Lit::Str(DELIMITER))]),
        Function::new("remove", change::remove, "Removes a value from a list grain.")
            .args(&[req("key"), req("val"), opt("delimiter", Lit::Str(DELIMITER))]),
        Function::new("delval", change::delval, "Empties a grain in the grains file, or deletes it with destructive.")
            .args(&[req("key"), opt("destructive", NO), opt("force", NO)]),
        Function::new("delkey", change::delkey, "Deletes a grain from the grains file.")
            .args(&[req("key"), opt("force", NO)]),
    ],
};

fn sanitized(key: &str, value: &Value) -> Option<Value> {
    Some(match key {
        "serialnumber" => {
            let text: Vec<char> = python::str(value).chars().collect();
            let keep = text.len() * 3 / 4;
            let shown: String = text.iter().take(keep).collect();
            (shown + &"X".repeat(text.len() - keep)).into()
        }
        "domain" => "DOMAINNAME".into(),
        "fqdn" | "id" => "MINION.DOMAINNAME".into(),
        "host" | "localhost" | "nodename" => "MINION".into(),
        _ => return None,
    })
}

fn sanitize(map: &mut Map) {
    for (key, value) in &mut map.0 {
        if let Some(new) = key.as_str().and_then(|k| sanitized(k, value)) {
            *value = new;
        }
    }
}

fn items(call: &mut Call<'_>) -> Result {
    let mut out = Map::clone(&call.ctx.grains);
    if is_true(call.arg("sanitize")) {
        sanitize(&mut out);
    }
    Ok(out.into())
}

fn item(call: &mut Call<'_>) -> Result {
    let kwargs = &call.bound.kwargs;
    let default = kwargs.get("default").cloned().unwrap_or_else(|| "".into());
    let delimiter = kwargs.str("delimiter").unwrap_or(DELIMITER);
    let mut out = Map::new();
    for key in &call.bound.varargs {
        let found = traverse(&call.ctx.grains, key, delimiter);
        out.0.push((key.clone(), found.unwrap_or(&default).clone()));
    }
    if kwargs.get("sanitize").is_some_and(is_true) {
        sanitize(&mut out);
    }
    Ok(out.into())
}

fn get(call: &mut Call<'_>) -> Result {
    let delimiter = call.text("delimiter").unwrap_or_default();
    let found = traverse(&call.ctx.grains, call.arg("key"), &delimiter);
    Ok(found.unwrap_or(call.arg("default")).clone())
}

fn ls(call: &mut Call<'_>) -> Result {
    let mut names: Vec<String> = call
        .ctx
        .grains
        .iter()
        .map(|(k, _)| python::str(k))
        .collect();
    names.sort();
    Ok(names.into())
}

fn has_value(call: &mut Call<'_>) -> Result {
    Ok(traverse(&call.ctx.grains, call.arg("key"), DELIMITER)
        .is_some()
        .into())
}

fn equals(call: &mut Call<'_>) -> Result {
    let found = traverse(&call.ctx.grains, call.arg("key"), DELIMITER);
    let own = found.map(python::str).unwrap_or_default();
    Ok((own == python::str(call.arg("value"))).into())
}

fn filter_by(call: &mut Call<'_>) -> Result {
    super::nested::filter_by(call, &call.ctx.grains, "grain")
}
