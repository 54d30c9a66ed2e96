//! `debconf`: answers to the questions of Debian packages (`debconf-set-selections(1)`).

use super::command_helpers::run_all_with;
use super::declare::{Function, Module, Result, args};
use super::{Call, python};
use halite_sys::command::Helper;
use halite_wire::{Map, Value, map};

pub(super) const MODULE: Module = Module {
    name: "debconf",
    functions: &[
        Function::new(
            "get_selections",
            |c| Ok(selections(c, c.flag("fetchempty"))?.into()),
            "The answers of all packages: lists of question, type and value.",
        )
        .args(args![fetchempty = True]),
        Function::new("show", show, "The answers of a package, or nothing.").args(args![name]),
        Function::new("set", set, "Sets the answer to a question of a package.")
            .inner("set_")
            .args(args![package, question, type, value])
            .varargs()
            .one_line(&[]),
        Function::new(
            "set_template",
            set_template,
            "Sets the answers of a rendered file.",
        )
        .args(args![path, template, context, defaults, saltenv = "base"])
        .keywords(),
        Function::new("set_file", set_file, "Sets the answers of a file.")
            .args(args![path, saltenv = "base"])
            .keywords(),
    ],
};

fn selections(call: &mut Call<'_>, empty: bool) -> Result<Map> {
    let argv = vec!["debconf-get-selections".into()];
    let out = call.salt("cmd.run_stdout", argv, Map::new())?;
    let mut all = Map::new();
    for line in python::str(&out).lines() {
        let Some([package, question, kind, value]) = fields(line) else {
            continue;
        };
        if value.is_empty() && !empty {
            continue;
        }
        let answer: Vec<Value> = vec![question.into(), kind.into(), value.into()];
        match all.get_mut(package) {
            Some(Value::Array(answers)) => answers.push(answer.into()),
            _ => all.set(package, vec![Value::from(answer)]),
        }
    }
    Ok(all)
}

/// Package, question, type and value of a line. Only the value may be empty, or have blanks in it.
fn fields(line: &str) -> Option<[&str; 4]> {
    if line.starts_with('#') {
        return None;
    }
    let next = |text: &'_ str| text.find(['\t', ' ']);
    let mut rest = line;
    let mut found = [""; 4];
    for slot in found.iter_mut().take(3) {
        let end = next(rest).filter(|end| *end > 0)?;
        *slot = &rest[..end];
        rest = rest[end..].trim_start_matches(['\t', ' ']);
    }
    found[3] = rest;
    Some(found)
}

fn show(call: &mut Call<'_>) -> Result {
    let name = call.text("name").unwrap_or_default();
    Ok(selections(call, true)?.remove(&name).unwrap_or_default())
}

fn set(call: &mut Call<'_>) -> Result {
    let mut line: Vec<String> = ["package", "question", "type", "value"]
        .iter()
        .map(|name| python::str(call.arg(name)))
        .collect();
    line.extend(call.bound.varargs.iter().map(python::str));
    // Answers may be passwords: they go in by standard input, not as a word or a file.
    let helper = Helper {
        stdin: Some(line.join(" ").into_bytes()),
        ..Helper::new(["debconf-set-selections"])
    };
    run_all_with(call, helper)?;
    Ok(true.into())
}

fn set_template(call: &mut Call<'_>) -> Result {
    let mut kwargs = call.bound.kwargs.clone();
    for name in ["path", "template", "saltenv", "context", "defaults"] {
        kwargs.set(name, call.arg(name).clone());
    }
    kwargs.set("dest", Value::Nil);
    let path = call.salt("cp.get_template", Vec::new(), kwargs)?;
    from_file(call, path)
}

fn set_file(call: &mut Call<'_>) -> Result {
    let path = call.arg("path").clone();
    from_file(call, path)
}

fn from_file(call: &mut Call<'_>, path: Value) -> Result {
    let kwargs = map! {"saltenv" => call.arg("saltenv").clone()};
    let cached = call.salt("cp.cache_file", vec![path], kwargs)?;
    let Some(file) = cached.as_str().filter(|file| file.starts_with('/')) else {
        return Ok(false.into());
    };
    run_all_with(call, Helper::new(["debconf-set-selections", file]))?;
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::fields;

    #[test]
    fn lines() {
        let line = "dash\tdash/sh\tboolean\ttrue or false";
        assert_eq!(
            fields(line),
            Some(["dash", "dash/sh", "boolean", "true or false"])
        );
        assert_eq!(fields("a b\tstring \t"), Some(["a", "b", "string", ""]));
        assert_eq!(fields("# a b c d"), None);
        assert_eq!(fields("a b string"), None);
        assert_eq!(fields(""), None);
    }
}
