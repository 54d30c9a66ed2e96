//! `virtualenv`: makes virtual environments of Python (`salt/modules/virtualenv_mod.py`).

use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python};
use halite_wire::{Map, Value, map};

pub(super) const MODULE: Module = Module {
    name: "virtualenv",
    functions: &[Function::new(
        "create",
        create,
        "Makes a virtual environment with virtualenv, or with the venv of an interpreter.",
    )
    .args(args![
        path,
        venv_bin = None,
        system_site_packages = False,
        distribute = False,
        clear = False,
        python = None,
        extra_search_dir = None,
        never_download = None,
        prompt = None,
        pip = False,
        symlinks = None,
        upgrade = None,
        user = None,
        use_vt = False,
        saltenv = "base"
    ])
    .names(&["path"])
    .keywords()],
};

fn create(call: &mut Call<'_>) -> Result {
    let configured = call.ctx.opts.str("venv_bin").map(str::to_owned);
    let program = call.text("venv_bin").filter(|p| !p.is_empty());
    let program = program
        .or(configured)
        .unwrap_or_else(|| "virtualenv".to_owned());
    let mut argv: Vec<String> = program.split_whitespace().map(str::to_owned).collect();
    let own_venv = program.ends_with("venv") && program != "virtualenv";
    if let Some(interpreter) = call.text("python").filter(|p| !p.is_empty()) {
        if own_venv {
            return Err(CallError::Command(
                "The `python`(`--python`) option is not supported by 'venv'".to_owned(),
            ));
        }
        argv.push(format!("--python={interpreter}"));
    }
    let dirs = match call.arg("extra_search_dir") {
        Value::Array(list) => list.iter().map(python::str).collect(),
        Value::Nil => Vec::new(),
        other => python::str(other)
            .split(',')
            .map(|d| d.trim().to_owned())
            .collect(),
    };
    argv.extend(dirs.iter().map(|dir| format!("--extra-search-dir={dir}")));
    if call.flag("never_download") {
        argv.push("--never-download".to_owned());
    }
    if let Some(prompt) = call.text("prompt").filter(|p| !p.is_empty()) {
        argv.push(format!("--prompt='{prompt}'"));
    }
    for (arg, option) in [
        ("symlinks", "--symlinks"),
        ("upgrade", "--upgrade"),
        ("clear", "--clear"),
        ("system_site_packages", "--system-site-packages"),
    ] {
        if call.flag(arg) {
            argv.push(option.to_owned());
        }
    }
    argv.push(python::str(call.arg("path")));
    let mut kwargs: Map = map! {"python_shell" => false, "ignore_retcode" => true};
    if call.flag("user") {
        kwargs.set("runas", call.arg("user").clone());
    }
    call.salt("cmd.run_all", vec![argv.into()], kwargs)
}
