//! `sys`: documentation and lists of functions.

use super::declare::{Arg, Function, Lit, Module, Result, opt};
use super::{Call, CallError, Context, functions_for, python, python_modules};
use crate::returners::{self, ReturnerDoc};
use halite_render::pipeline::RENDERERS;
use halite_target::fnmatch;
use halite_wire::map;
use halite_wire::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

const PATTERN: &[Arg] = &[opt("module", Lit::Str(""))];

pub(super) const MODULE: Module = Module {
    name: "sys",
    functions: &[
        Function::new("doc", doc, "The documentation of all functions, or of the modules, functions or globs given.")
            .varargs(),
        Function::new("list_functions", list_functions, "The sorted names of all functions, or of those in the given modules or matching the given globs. With origin=True a map that tells where each runs: halite, python (files of users) or legacy_salt (an installed Salt).")
            .varargs()
            .keywords(),
        Function::new("list_modules", list_modules, "The sorted names of all modules, or of those given by name or glob.")
            .varargs(),
        Function::new("argspec", argspec, "The argument names and defaults of the functions of a module, of one function, or of a glob.")
            .args(PATTERN),
        Function::new("reload_modules", |_| Ok(true.into()), "Always true: this minion has no modules to reload."),
        Function::new("list_returners", list_returners, "The sorted names of all returners, or of those given by name or glob.")
            .varargs(),
        Function::new("list_returner_functions", list_returner_functions, "The sorted names of all returner functions, or of those given by returner, name or glob.")
            .varargs()
            .keywords(),
        Function::new("returner_doc", returner_doc, "The documentation of all returner functions, or of those given by returner, name or glob.")
            .varargs(),
        Function::new("returner_argspec", returner_argspec, "The argument names of the functions of a returner, of one function, or of a glob.")
            .args(PATTERN),
        Function::new("list_renderers", list_renderers, "The sorted names of all renderers, or of those given by glob.")
            .varargs(),
        Function::new("renderer_doc", renderer_doc, "The documentation of all renderers, or of those given by glob.")
            .varargs(),
    ],
};

/// The documentation that one argument of `sys.doc` matches.
pub(super) fn docs(ctx: &Context, pattern: &str) -> Map {
    all_functions(ctx, |name| is_below(pattern, name))
        .into_iter()
        .map(|(name, f)| {
            let missing = f.python.is_some() && f.doc.is_empty();
            (name, (!missing).then(|| without_markup(f)))
        })
        .collect()
}

/// Whether a word of `sys.doc` means a function: its name, its module, a glob, or nothing for all.
fn is_below(pattern: &str, name: &str) -> bool {
    if pattern.contains('*') {
        return fnmatch(name, pattern);
    }
    let below = pattern.strip_suffix('.').unwrap_or(pattern);
    let rest = name.strip_prefix(below);
    pattern.is_empty() || name == pattern || rest.is_some_and(|rest| rest.starts_with('.'))
}

/// The functions that are wanted, those of an installed Salt among them.
pub fn all_functions(
    ctx: &Context,
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<(String, &'static Function)> {
    let ours = functions_for(ctx);
    let known: BTreeSet<&str> = ours.iter().map(|(name, _)| name.as_str()).collect();
    let others = python_modules::installed(ctx, "modules", |name| {
        is_wanted(name) && !known.contains(name)
    });
    let mut all: Vec<_> = ours.into_iter().chain(others).collect();
    all.retain(|(name, _)| is_wanted(name));
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// Stock shows the examples of Python functions without their markup.
fn without_markup(function: &Function) -> String {
    if function.python.is_none() {
        return function.doc.to_owned();
    }
    let lines = function.doc.split_inclusive('\n');
    let mut out = String::new();
    let mut blank = false;
    for line in lines {
        let directive = |name: &str| line.trim_start().strip_prefix(name).map(str::trim_start);
        let said = directive(".. versionadded::")
            .map(|version| ("New in version", version))
            .or_else(|| Some(("Changed in version", directive(".. versionchanged::")?)))
            .or_else(|| Some(("Deprecated since version", directive(".. deprecated::")?)));
        if line.trim() == ".. code-block:: bash" {
            blank = true;
        } else if let Some((words, version)) = said {
            let indent = &line[..line.len() - line.trim_start().len()];
            out.push_str(&format!("{indent}{words} {version}"));
        } else if !(std::mem::take(&mut blank) && line.trim().is_empty()) {
            out.push_str(line);
        }
    }
    out
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

fn patterns(call: &Call<'_>) -> Result<Vec<String>> {
    call.bound
        .varargs
        .iter()
        .map(|v| match v.as_str() {
            Some(s) => Ok(s.to_owned()),
            None => Err(CallError::Type(format!(
                "argument of type '{}' is not iterable",
                python::type_name(v)
            ))),
        })
        .collect()
}

/// Globs and full names match as they are; a bare word is a module.
fn matches(pattern: &str, name: &str) -> bool {
    if pattern.contains(['*', '.']) {
        return fnmatch(name, pattern);
    }
    name.strip_prefix(pattern)
        .is_some_and(|rest| rest.starts_with('.'))
}

fn list_functions(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call)?;
    let ours = functions_for(call.ctx).into_iter().map(|(name, f)| {
        (
            name,
            if f.python.is_some() {
                "python"
            } else {
                "halite"
            },
        )
    });
    let mut names = python_modules::installed_names(call.ctx, "modules")
        .into_iter()
        .map(|name| (name, "legacy_salt"))
        .collect::<BTreeMap<_, _>>();
    names.extend(ours);
    names.retain(|name, _| patterns.is_empty() || patterns.iter().any(|p| matches(p, name)));
    Ok(listed(names, call.bound.kwargs.get("origin")))
}

/// Names alone, as in stock, or with whose they are.
pub fn listed(names: BTreeMap<String, &'static str>, origin: Option<&Value>) -> Value {
    if origin.is_some_and(Value::truthy) {
        let with = names
            .into_iter()
            .map(|(name, whose)| (name, Value::from(whose)));
        return with.collect::<Map>().into();
    }
    names.into_keys().collect::<Vec<_>>().into()
}

fn list_modules(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call)?;
    let mut modules = BTreeSet::new();
    let ours = functions_for(call.ctx).into_iter().map(|(name, _)| name);
    for name in ours.chain(python_modules::installed_names(call.ctx, "modules")) {
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
    let specs: Map = all_functions(call.ctx, |name| matches(&pattern, name))
        .into_iter()
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
            // Python objects that mean "not given" become nil on the wire.
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

/// The functions of matching returners.
fn returner_functions(
    call: &Call<'_>,
    matches: impl Fn(&str, &str) -> bool,
) -> Result<Vec<ReturnerDoc>> {
    let patterns = patterns(call)?;
    let mut all = all_returners(call.ctx);
    all.retain(|f| patterns.is_empty() || patterns.iter().any(|p| matches(p, &f.name)));
    Ok(all)
}

/// Functions of our own returners, and of those in Python, which come first.
fn all_returners(ctx: &Context) -> Vec<ReturnerDoc> {
    let python = python_modules::functions(ctx, "returners").into_iter();
    let mut all: Vec<ReturnerDoc> = python
        .map(|(name, function)| ReturnerDoc {
            name,
            args: function.args.iter().map(|arg| arg.name).collect(),
            doc: function.doc,
        })
        .collect();
    let ours = returners::functions(ctx).into_iter();
    let ours: Vec<_> = ours
        .filter(|one| all.iter().all(|other| other.name != one.name))
        .collect();
    all.extend(ours);
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn list_returners(call: &mut Call<'_>) -> Result {
    let module = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let found = returner_functions(call, |pattern, name| {
        if pattern.contains('*') {
            fnmatch(name, pattern)
        } else {
            module(name) == pattern
        }
    })?;
    let names: BTreeSet<String> = found.iter().map(|f| module(&f.name)).collect();
    Ok(names.into_iter().collect::<Vec<_>>().into())
}

fn list_returner_functions(call: &mut Call<'_>) -> Result {
    let found = returner_functions(call, matches)?;
    let names: Vec<String> = found.into_iter().map(|f| f.name).collect();
    Ok(names.into())
}

fn returner_doc(call: &mut Call<'_>) -> Result {
    // Stock treats a glob as a plain prefix, which matches nothing.
    let found = returner_functions(call, is_below)?;
    let docs: Map = found.into_iter().map(|f| (f.name, f.doc)).collect();
    Ok(docs.into())
}

fn returner_argspec(call: &mut Call<'_>) -> Result {
    let pattern = call.text("module").unwrap_or_default();
    let all = all_returners(call.ctx).into_iter();
    let specs: Map = all
        .filter(|f| matches(&pattern, &f.name))
        .map(|f| {
            let args: Vec<String> = f.args.iter().map(|&a| a.to_owned()).collect();
            let spec = map! {
                "args" => (!args.is_empty()).then_some(args),
                "defaults" => Value::Nil, "varargs" => Value::Nil, "kwargs" => Value::Nil,
            };
            (f.name, spec)
        })
        .collect();
    Ok(specs.into())
}

fn list_renderers(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call)?;
    let files = halite_python::files::files(&call.ctx.opts);
    let of_users = files.files.iter().filter(|file| file.kind == "renderers");
    let names: BTreeSet<&str> = RENDERERS
        .iter()
        .map(|(name, _)| *name)
        .chain(of_users.map(|file| file.name.as_str()))
        .filter(|name| patterns.is_empty() || patterns.iter().any(|p| fnmatch(name, p)))
        .collect();
    let names: Vec<Value> = names.into_iter().map(Value::from).collect();
    Ok(names.into())
}

/// In stock a plain name returns nothing, despite its documentation.
fn renderer_doc(call: &mut Call<'_>) -> Result {
    let patterns = patterns(call)?;
    let docs: Map = RENDERERS
        .iter()
        .filter(|(name, _)| patterns.is_empty() || patterns.iter().any(|p| fnmatch(name, p)))
        .map(|(name, doc)| (*name, *doc))
        .collect();
    Ok(docs.into())
}
