//! `jinja`: what templates of the file server give to those that import them (`salt/modules/jinja.py`).

use super::declare::{Function, Module, Result, args};
use super::templates::template;
use super::{Call, CallError, python};
use crate::render::Template;
use halite_wire::{Map, Value, json, map};

pub(super) const MODULE: Module = Module {
    name: "jinja",
    functions: &[
        Function::new(
            "load_map",
            load_map,
            "A variable of a template of the file server, as those that import it see it.",
        )
        .args(args![path, value]),
        Function::new(
            "import_yaml",
            |c| imported(c, "{% import_yaml path as found %}\n{{ found | tojson }}"),
            "The data of a YAML file of the file server, rendered with Jinja.",
        )
        .args(args![path]),
        Function::new(
            "import_json",
            |c| imported(c, "{% import_json path as found %}\n{{ found | tojson }}"),
            "The data of a JSON file of the file server, rendered with Jinja.",
        )
        .args(args![path]),
    ],
};

fn load_map(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("value"));
    // It becomes a part of the template; whatever else it is would run there.
    let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !is_name {
        let why = format!("value is {name:?}, but must be the name of one variable");
        return Err(CallError::Invocation(why));
    }
    let text =
        format!("{{% from path import {name} as found with context %}}\n{{{{ found | tojson }}}}");
    imported(call, &text)
}

/// What this template, which writes JSON, has found at `path`.
fn imported(call: &mut Call<'_>, text: &str) -> Result {
    let saltenv = call.ctx.opts.str("saltenv").filter(|env| !env.is_empty());
    let given = Template {
        format: "jinja",
        text,
        saltenv: saltenv.unwrap_or("base"),
        // In stock this is a file of its own, which lies nowhere in the tree.
        variables: &map! {"path" => python::str(call.arg("path")), "tpldir" => ".", "tpldot" => ""},
    };
    let failed = |why: String| CallError::raised("salt.exceptions.SaltRenderError", why);
    let rendered = template(call.ctx, &given)?.map_err(failed)?;
    match json::parse(rendered.as_bytes()).map_err(|e| failed(e.to_string()))? {
        Value::Nil => Ok(Map::new().into()),
        found => Ok(found),
    }
}
