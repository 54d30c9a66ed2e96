//! `aliases`: mail aliases (`aliases(5)`).

use super::cmd::which;
use super::declare::{Function, Module, Result, req};
use super::{Call, CallError, command_helpers, python};
use halite_wire::{Map, Value};
use std::path::Path;
use std::sync::LazyLock;

pub(super) const MODULE: Module = Module {
    name: "aliases",
    functions: &[
        Function::new(
            "list_aliases",
            list_aliases,
            "All aliases with their targets.",
        ),
        Function::new(
            "get_target",
            get_target,
            "The target of an alias; empty text if there is none.",
        )
        .args(&[req("alias")]),
        Function::new(
            "has_target",
            has_target,
            "Whether an alias has exactly this target, or this list of targets.",
        )
        .args(&[req("alias"), req("target")]),
        Function::new("set_target", set_target, "Sets the target of an alias.")
            .args(&[req("alias"), req("target")])
            .one_line(&[]),
        Function::new("rm_alias", rm_alias, "Removes an alias.").args(&[req("alias")]),
    ],
};

/// Alias, target and the rest of the line: the groups of stock's expression, which matches any line.
struct AliasLine {
    alias: String,
    target: Value,
    comment: String,
}

static LINE: LazyLock<Option<fancy_regex::Regex>> =
    LazyLock::new(|| fancy_regex::Regex::new(r"^([^:#]*)\s*:?\s*([^#]*?)(\s+#.*|(?=\n?\z))").ok());

fn file(call: &mut Call<'_>) -> Result<String> {
    let found = call.salt("config.option", vec!["aliases.file".into()], Map::new())?;
    let path = match found {
        Value::Str(path) if !path.is_empty() => path,
        _ => "/etc/aliases".to_owned(),
    };
    let real = Path::new(&path).canonicalize();
    Ok(real.map_or(path, |p| p.to_string_lossy().into_owned()))
}

fn parsed(path: &str) -> Result<Vec<AliasLine>> {
    if !Path::new(path).is_file() {
        return Ok(Vec::new());
    }
    // Lines keep their line ends: stock's expression counts them as part of a name without target.
    Ok(command_helpers::read(path)?
        .split_inclusive('\n')
        .map(parse)
        .collect())
}

fn parse(line: &str) -> AliasLine {
    let found = LINE.as_ref().and_then(|r| r.captures(line).ok().flatten());
    let Some(found) = found else {
        return AliasLine {
            alias: String::new(),
            target: Value::Nil,
            comment: line.trim().to_owned(),
        };
    };
    let part = |n| found.get(n).map_or("", |m| m.as_str());
    AliasLine {
        alias: part(1).to_owned(),
        target: part(2).into(),
        comment: part(3).to_owned(),
    }
}

fn render(lines: &[AliasLine]) -> String {
    let mut out = String::new();
    for line in lines {
        let target = match &line.target {
            Value::Array(list) => list.iter().map(python::str).collect::<Vec<_>>().join(", "),
            Value::Nil => String::new(),
            other => python::str(other),
        };
        if !line.alias.is_empty() && !target.is_empty() {
            out.push_str(&format!("{}: {target}", line.alias));
        }
        out.push_str(&line.comment);
        out.push('\n');
    }
    out
}

fn write(call: &mut Call<'_>, path: &str, lines: &[AliasLine]) -> Result {
    command_helpers::rewrite(Path::new(path), render(lines).as_bytes())
        .map_err(|e| python::os_error(&e, path))?;
    if let Some(program) = which("newaliases") {
        command_helpers::run(call, [program])?;
    }
    Ok(true.into())
}

fn table(lines: &[AliasLine]) -> Map {
    let mut map = Map::new();
    for line in lines.iter().filter(|l| !l.alias.is_empty()) {
        map.set(line.alias.clone(), line.target.clone());
    }
    map
}

fn list_aliases(call: &mut Call<'_>) -> Result {
    let path = file(call)?;
    Ok(table(&parsed(&path)?).into())
}

fn get_target(call: &mut Call<'_>) -> Result {
    let path = file(call)?;
    let map = table(&parsed(&path)?);
    let target = map.get(&python::str(call.arg("alias")));
    Ok(target.cloned().unwrap_or_else(|| "".into()))
}

fn not_empty(call: &Call<'_>, name: &str) -> Result<()> {
    if call.arg(name).is_str("") {
        Err(CallError::Invocation(format!(
            "{name} can not be an empty string"
        )))
    } else {
        Ok(())
    }
}

fn has_target(call: &mut Call<'_>) -> Result {
    not_empty(call, "target")?;
    let path = file(call)?;
    let map = table(&parsed(&path)?);
    let Some(found) = map.get(&python::str(call.arg("alias"))) else {
        return Ok(false.into());
    };
    let target = match call.arg("target") {
        Value::Array(list) => {
            Value::from(list.iter().map(python::str).collect::<Vec<_>>().join(", "))
        }
        other => other.clone(),
    };
    Ok((*found == target).into())
}

fn set_target(call: &mut Call<'_>) -> Result {
    not_empty(call, "alias")?;
    not_empty(call, "target")?;
    let path = file(call)?;
    let lines = parsed(&path)?;
    let (alias, target) = (python::str(call.arg("alias")), call.arg("target").clone());
    if table(&lines).get(&alias) == Some(&target) {
        return Ok(true.into());
    }
    let mut out = Vec::new();
    let mut done = false;
    for mut line in lines {
        if line.alias == alias {
            if done {
                continue;
            }
            line.target = target.clone();
            done = true;
        }
        out.push(line);
    }
    if !done {
        out.push(AliasLine {
            alias,
            target,
            comment: String::new(),
        });
    }
    write(call, &path, &out)
}

fn rm_alias(call: &mut Call<'_>) -> Result {
    let path = file(call)?;
    let mut lines = parsed(&path)?;
    let alias = python::str(call.arg("alias"));
    if !table(&lines).get(&alias).is_some_and(Value::truthy) {
        return Ok(true.into());
    }
    lines.retain(|l| l.alias != alias);
    write(call, &path, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive() {
        let text = "# head\nroot: ann, bob # both\n\npostmaster:root\n";
        let lines: Vec<AliasLine> = text.split_inclusive('\n').map(parse).collect();
        assert_eq!(table(&lines).str("root"), Some("ann, bob"));
        assert_eq!(table(&lines).str("postmaster"), Some("root"));
        assert_eq!(render(&lines[..3]), "# head\nroot: ann, bob # both\n\n");
        assert_eq!(render(&lines[3..]), "postmaster: root\n");
    }
}
