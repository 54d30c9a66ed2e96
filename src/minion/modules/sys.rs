//! `sys`: what functions there are.

use super::declare::{Arg, Function, Lit, Module, Result, opt};
use super::{Call, Context, Fault, functions_for, python};
use crate::map;
use crate::target::fnmatch;
use crate::wire::{Map, Value};
use std::collections::BTreeSet;

const PATTERN: &[Arg] = &[opt("module", Lit::Str(""))];

pub(super) const MODULE: Module = Module {
    name: "sys",
    functions: &[
        Function::new("doc", doc, "The documentation of all functions, or of the modules, functions or globs given.")
            .varargs(),
        Function::new("list_functions", list_functions, "The sorted names of all functions, or of those in the modules or matching the globs given.")
            .varargs()
            .keywords(),
        Function::new("list_modules", list_modules, "The sorted names of the modules, all or those given by name or glob.")
            .varargs(),
        Function::new("argspec", argspec, "The argument names and defaults of the functions of a module, of one function, or of a glob.")
            .args(PATTERN),
    ],
};

/// The documentation of what one argument of `sys.doc` selects.
pub(super) fn docs(ctx: &Context, pattern: &str) -> Map {
    let prefix = match pattern {
        "" => String::new(),
        p if p.ends_with('.') => p.to_owned(),
        p => format!("{p}."),
    };
    functions_for(ctx)
        .into_iter()
        .filter(|(name, _)| {
            if pattern.contains('*') {
                fnmatch(name, pattern)
            } else {
                name == pattern || name.starts_with(&prefix)
            }
        })
        .map(|(name, f)| (name, f.doc))
        .collect()
}

fn doc(call: &mut Call<'_>) -> Result {
    if call.bound.varargs.is_empty() {
        return Ok(docs(call.ctx, "").into());
    }
    let mut out = Map::new();
    for pattern in patterns(call)? {
        for (name, text) in docs(call.ctx, &pattern).0 {
            out.set(python::str(&name), text);
        }
    }
    Ok(out.into())
}

fn patterns(call: &Call<'_>) -> std::result::Result<Vec<String>, Fault> {
    call.bound
        .varargs
        .iter()
        .map(|v| match v.as_str() {
            Some(s) => Ok(s.to_owned()),
            None => Err(Fault::Type(format!(
                "argument of type '{}' is not iterable",
                python::short_class(v)
            ))),
        })
        .collect()
}

/// Globs and full names match as they are, a bare word is a module.
fn selects(pattern: &str, name: &str) -> bool {
    if pattern.contains(['*', '.']) {
        return fnmatch(name, pattern);
    }
    name.strip_prefix(pattern)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn list_functions(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call)?;
    let names: Vec<String> = functions_for(call.ctx)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| patterns.is_empty() || patterns.iter().any(|p| selects(p, name)))
        .collect();
    Ok(names.into())
}

fn list_modules(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call)?;
    let mut modules = BTreeSet::new();
    for (name, _) in functions_for(call.ctx) {
        let module = name.split('.').next().unwrap_or_default().to_owned();
        let hit = |p: &String| {
            if p.contains('*') {
                fnmatch(&name, p)
            } else {
                *p == module
            }
        };
        if patterns.is_empty() || patterns.iter().any(hit) {
            modules.insert(module);
        }
    }
    Ok(modules.into_iter().collect::<Vec<_>>().into())
}

fn argspec(call: &mut Call<'_>) -> Result {
    let pattern = call.text("module").unwrap_or_default();
    let specs: Map = functions_for(call.ctx)
        .into_iter()
        .filter(|(name, _)| selects(&pattern, name))
        .map(|(name, f)| (name, spec(f)))
        .collect();
    Ok(specs.into())
}

fn spec(f: &Function) -> Map {
    let args: Vec<Value> = f.args.iter().map(|a| a.name.into()).collect();
    let defaults: Vec<Value> = f
        .args
        .iter()
        .filter_map(|a| a.default)
        .map(|default| match default {
            // Python objects that mean "not given" travel as nothing.
            Lit::Str(text) if text.starts_with('<') => Value::Nil,
            other => other.value(),
        })
        .collect();
    let some = |list: Vec<Value>| (!list.is_empty()).then_some(list);
    map! {
        "args" => some(args),
        "defaults" => some(defaults),
        "varargs" => f.varargs.then_some(true),
        "kwargs" => f.keywords.then_some(true),
    }
}
