//! Custom modules: executables in any language that add execution functions.
//!
//! A file in `<extension_modules>/modules` or a directory of `module_dirs` that starts with `#!` or is an ELF program
//! is a module, named like the file without extension. `FILE describe` prints its functions, `FILE call` runs one:
//! JSON in, JSON out (docs/own-modules.md). Its functions override built-in ones of the same name, like synced
//! modules in stock Salt.
//!
//! Each process describes a file once, and again when it has changed.

use super::declare::{Arg, Function, Lit, Result};
use super::{Call, CallError, Context};
use crate::programs::with_metadata;
use halite_python::files::is_python_module;
use halite_python::files::module_dirs;
use halite_sys::command::Helper;
use halite_wire::{Map, Value};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Timeout of `describe`.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a function.
const CALL_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// One described file. It lives as long as the process, like the function tables; a changed file creates a new one.
struct DescribedModule {
    path: PathBuf,
    stamp: Stamp,
    module: &'static str,
    functions: &'static [Function],
}

/// Identifies a file version: device, inode, size, ctime in seconds and nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(meta: &Metadata) -> Stamp {
    (
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec(),
    )
}

static DESCRIBED_MODULES: Mutex<Vec<&'static DescribedModule>> = Mutex::new(Vec::new());

/// The functions of custom modules, by full name.
pub fn functions(ctx: &Context) -> Vec<(String, &'static Function)> {
    let mut all = Vec::new();
    for described in described_modules(ctx) {
        for function in described.functions {
            let name = format!("{}.{}", described.module, function.name);
            if !all.iter().any(|(known, _)| *known == name) {
                all.push((name, function));
            }
        }
    }
    all
}

/// A function of a custom module, by full name.
pub fn find(ctx: &Context, fun: &str) -> Option<&'static Function> {
    let found = functions(ctx).into_iter().find(|(name, _)| name == fun);
    found.map(|(_, function)| function)
}

fn described_modules(ctx: &Context) -> Vec<&'static DescribedModule> {
    let dirs = module_dirs(&ctx.opts, "modules", "module_dirs");
    let files = dirs
        .iter()
        .flat_map(|dir| with_metadata(dir))
        .filter(|(path, _)| !is_python_module("modules", path));
    let mut known = DESCRIBED_MODULES
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    files
        .map(|(path, meta)| {
            let stamp = stamp(&meta);
            if let Some(old) = known.iter().find(|d| d.path == path && d.stamp == stamp) {
                return *old;
            }
            let new: &'static DescribedModule = Box::leak(Box::new(describe(path, stamp)));
            known.retain(|d| d.path != new.path);
            known.push(new);
            new
        })
        .collect()
}

/// Runs `describe`. A module without usable output has no functions.
fn describe(path: PathBuf, stamp: Stamp) -> DescribedModule {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut out = DescribedModule {
        module: leak(&stem),
        stamp,
        functions: &[],
        path,
    };
    let file = out.path.to_string_lossy().into_owned();
    let output = Helper::new([file.as_str(), "describe"])
        .run(DESCRIBE_TIMEOUT)
        .map_err(|e| e.to_string())
        .and_then(|done| match done.code {
            0 => halite_wire::json::parse::<Value>(&done.stdout)
                .map_err(|e| format!("`describe` printed invalid JSON: {e}")),
            code => Err(format!(
                "`describe` exited with {code}: {}",
                String::from_utf8_lossy(&done.stderr).trim_end()
            )),
        });
    let functions = output.and_then(|value| {
        let map = value
            .into_map()
            .ok_or("`describe` did not print a JSON object")?;
        if let Some(name) = map.str("module") {
            out.module = leak(name);
        }
        let functions = map.get("functions").and_then(Value::as_map);
        let functions = functions.ok_or("`describe` printed no `functions`")?;
        functions
            .iter()
            .map(|(k, v)| declared(k, v))
            .collect::<Result<Vec<_>, String>>()
    });
    match functions {
        Ok(functions) => out.functions = Vec::leak(functions),
        Err(why) => log::error!("{file}: not used as a module: {why}"),
    }
    out
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

/// One function: `{"doc": ..., "args": ["required", ["optional", default]], "varargs": bool, "keywords": bool}`.
fn declared(name: &Value, spec: &Value) -> Result<Function, String> {
    let name = name.as_str().unwrap_or_default();
    let fits = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    if !fits(name) {
        return Err(format!("{name:?} is not a function name"));
    }
    let empty = Map::new();
    let spec = spec.as_map().unwrap_or(&empty);
    let args = spec
        .get("args")
        .and_then(Value::as_array)
        .unwrap_or_default();
    let args = args.iter().map(|arg| {
        let (name, default) = match arg {
            Value::Array(pair) if pair.len() == 2 => (pair[0].as_str(), Some(literal(&pair[1])?)),
            other => (other.as_str(), None),
        };
        let name = name.filter(|n| fits(n));
        let name = name
            .ok_or_else(|| format!("{name:?}: arguments must be names, or names with defaults"))?;
        Ok(Arg {
            name: leak(name),
            default,
        })
    });
    let args = args.collect::<Result<Vec<_>, String>>()?;
    let flag = |key: &str| spec.get(key).is_some_and(Value::truthy);
    let mut function = Function::new(leak(name), run, leak(spec.str("doc").unwrap_or_default()))
        .args(Vec::leak(args));
    function.varargs = flag("varargs");
    function.keywords = flag("keywords");
    Ok(function)
}

fn literal(value: &Value) -> Result<Lit, String> {
    Ok(match value {
        Value::Nil => Lit::Nil,
        Value::Bool(b) => Lit::Bool(*b),
        Value::Int(i) => Lit::Int(*i),
        Value::Float(f) => Lit::Float(*f),
        Value::Str(text) => Lit::Str(leak(text)),
        Value::Array(list) if list.is_empty() => Lit::Empty,
        _ => {
            return Err("a default must be null, true, false, a number, a string or []".to_owned());
        }
    })
}

/// Runs a function of a custom module.
fn run(call: &mut Call<'_>) -> Result {
    let function: *const Function = call.function;
    let known = DESCRIBED_MODULES
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let file = known
        .iter()
        .find(|d| d.functions.iter().any(|f| std::ptr::eq(f, function)))
        .map(|d| d.path.to_string_lossy().into_owned());
    drop(known);
    let file = file.ok_or_else(|| CallError::Command("the module no longer exists".to_owned()))?;
    let args: Map = call
        .function
        .args
        .iter()
        .zip(&call.bound.named)
        .map(|(arg, value)| (arg.name, value.clone()))
        .collect();
    let ctx = call.ctx;
    let order = halite_wire::map! {
        "function" => call.function.name, "args" => args, "varargs" => call.bound.varargs.clone(),
        "keywords" => call.bound.kwargs.clone(), "id" => ctx.id.as_str(), "grains" => Map::clone(&ctx.grains),
        "pillar" => Map::clone(&ctx.pillar), "opts" => Map::clone(&ctx.opts),
        "jid" => ctx.job.as_ref().and_then(|job| job.str("jid")),
    };
    let input =
        serde_json::to_vec(&order).map_err(|e| CallError::Command(format!("{file}: {e}")))?;
    let helper = Helper {
        stdin: Some(input),
        ..Helper::new([file.as_str(), "call"])
    };
    let done = helper
        .run(CALL_TIMEOUT)
        .map_err(|e| CallError::Command(e.to_string()))?;
    let said = String::from_utf8_lossy(&done.stderr).trim_end().to_owned();
    let answer = match halite_wire::json::parse(&done.stdout) {
        Ok(Value::Map(answer)) => answer,
        _ if done.code != 0 => {
            return Err(CallError::Command(format!(
                "{file} exited with {}: {said}",
                done.code
            )));
        }
        _ => {
            return Err(CallError::Command(format!(
                "{file}: `call` did not print a JSON object"
            )));
        }
    };
    if !said.is_empty() {
        log::info!("{file}: {said}");
    }
    if let Some(error) = answer.get("error").filter(|e| e.truthy()) {
        return Err(CallError::Command(super::python::str(error)));
    }
    if let Some(code) = answer.get("retcode") {
        call.retcode = code.clone();
    }
    Ok(answer.get("return").cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::{Context, call};
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const MODULE: &str = r#"#!/bin/sh
if [ "$1" = describe ]; then
    echo '{"functions": {"hello": {"doc": "Greets.", "args": ["who", ["how", "hi"]]}, "ping": {}, "bad": {}}}'
    exit
fi
order=$(cat)
case $order in
*'"function":"hello"'*) echo '{"return": {"said": "hi"}, "retcode": 3}' ;;
*'"function":"ping"'*) echo '{"return": "own"}' ;;
*) echo wrong >&2; exit 4 ;;
esac
"#;

    fn context(dir: &Path) -> Context {
        std::fs::create_dir_all(dir.join("modules")).unwrap();
        std::fs::write(dir.join("modules/test.sh"), MODULE).unwrap();
        std::fs::write(dir.join("modules/python.py"), "def f(): pass\n").unwrap();
        let opts = halite_wire::map! {"extension_modules" => dir.to_str().unwrap()};
        Context {
            opts: std::sync::Arc::new(opts),
            ..Context::default()
        }
    }

    #[test]
    fn executables_are_modules() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = context(dir.path());
        let names: Vec<String> = functions(&ctx).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["test.hello", "test.ping", "test.bad"]);
        let said = call(&ctx, "test.hello", &["you".into()]);
        assert_eq!(
            (said.ret, said.retcode),
            (halite_wire::map! {"said" => "hi"}.into(), 3)
        );
        // It overrides only the function of its name, no other of that module.
        assert_eq!(call(&ctx, "test.ping", &[]).ret, "own".into());
        assert_eq!(call(&ctx, "test.echo", &["x".into()]).ret, "x".into());
        let wrong = call(&ctx, "test.hello", &[]);
        assert!(
            format!("{:?}", wrong.ret).contains("missing 1 required positional argument: 'who'")
        );
        let failed = call(&ctx, "test.bad", &[]).ret;
        assert!(
            failed.as_str().unwrap().ends_with("exited with 4: wrong"),
            "{failed:?}"
        );
    }

    #[test]
    fn files_writable_by_others_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = context(dir.path());
        let file = dir.path().join("modules/test.sh");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(functions(&ctx).is_empty());
    }
}
