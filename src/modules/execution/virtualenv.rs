//! `virtualenv`: makes virtual environments of Python (`salt/modules/virtualenv_mod.py`).

use super::cmd::which;
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

/// What makes the environment.
enum Maker {
    /// `virtualenv`, and what else is given that is neither of the others.
    Virtualenv(String),
    /// A program with the options of Python's own `venv`.
    Venv(String),
    /// `-m venv` of an interpreter.
    Interpreter(String),
}

impl Maker {
    fn of(program: String, interpreter: Option<&str>) -> Result<Maker> {
        let file = program.rsplit('/').next().unwrap_or_default();
        if program == "venv" || is_interpreter(file) {
            let python = match (program == "venv", interpreter) {
                (true, Some(python)) => python,
                (true, None) => "python3",
                (false, None) => &program,
                (false, Some(_)) => {
                    return Err(CallError::Command(
                        "Pass the target interpreter either as `venv_bin` or as `python`, not both."
                            .to_owned(),
                    ));
                }
            };
            if which(python).is_none() {
                return Err(CallError::Command(format!(
                    "Cannot find requested python ({python})."
                )));
            }
            return Ok(Maker::Interpreter(python.to_owned()));
        }
        Ok(match file.ends_with("venv") {
            true => Maker::Venv(program),
            false => Maker::Virtualenv(program),
        })
    }

    /// The argument that it does not have.
    fn lacks(&self, call: &Call<'_>) -> Option<&'static str> {
        let (of_virtualenv, of_venv) = (
            ["extra_search_dir", "never_download", "python"],
            ["symlinks", "upgrade"],
        );
        let given = |arg: &&&str| call.arg(arg).truthy();
        match self {
            Maker::Virtualenv(_) => of_venv.iter().find(given).copied(),
            Maker::Venv(_) => of_virtualenv.iter().find(given).copied(),
            Maker::Interpreter(_) => of_virtualenv[..2].iter().find(given).copied(),
        }
    }
}

/// `python`, `python3.11`, `pypy3`.
fn is_interpreter(file: &str) -> bool {
    let version = ["python", "pypy"]
        .iter()
        .find_map(|name| file.strip_prefix(name));
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn create(call: &mut Call<'_>) -> Result {
    let given = |name: &str| call.text(name).filter(|text| !text.is_empty());
    let program = given("venv_bin").or_else(|| call.ctx.opts.str("venv_bin").map(str::to_owned));
    let usual = || match which("virtualenv") {
        Some(_) => "virtualenv".to_owned(),
        None => "venv".to_owned(),
    };
    let (python, prompt) = (given("python"), given("prompt"));
    let program = program.unwrap_or_else(usual);
    let maker = Maker::of(program.clone(), python.as_deref())?;
    if let Some(arg) = maker.lacks(call) {
        let option = arg.replace('_', "-");
        return Err(CallError::Command(format!(
            "The `{arg}`(`--{option}`) option is not supported by '{program}'"
        )));
    }
    let is_virtualenv = matches!(maker, Maker::Virtualenv(_));
    let mut argv: Vec<String> = Vec::new();
    match maker {
        Maker::Interpreter(python) => argv.extend([python, "-m".to_owned(), "venv".to_owned()]),
        Maker::Venv(program) => argv.push(program),
        Maker::Virtualenv(program) => {
            argv.extend(program.split_whitespace().map(str::to_owned));
            argv.extend(python.map(|python| format!("--python={python}")));
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
            argv.extend(prompt.iter().map(|prompt| format!("--prompt='{prompt}'")));
        }
    }
    for (arg, option) in [("upgrade", "--upgrade"), ("symlinks", "--symlinks")] {
        if call.flag(arg) {
            argv.push(option.to_owned());
        }
    }
    if let (Some(prompt), false) = (prompt, is_virtualenv) {
        argv.extend(["--prompt".to_owned(), prompt]);
    }
    for (arg, option) in [
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
