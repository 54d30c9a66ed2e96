//! `virtualenv`: makes virtual environments of Python (`salt/modules/virtualenv_mod.py`).

use super::cmd::which;
use super::command_helpers::{read, run_all_as};
use super::declare::{Function, Module, Result, args};
use super::{Call, CallError, python};
use halite_wire::{Map, Value, map};
use std::path::Path;

pub(super) const MODULE: Module = Module {
    name: "virtualenv",
    functions: &[
        Function::new(
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
        .keywords(),
        Function::new(
            "virtualenv_ver",
            virtualenv_ver,
            "The version of virtualenv, as a list of numbers.",
        )
        .args(args![venv_bin, user = None])
        .keywords(),
        Function::new(
            "get_site_packages",
            |call| ask(call, SITE_PACKAGES, &[]),
            "The directory of an environment in which its packages lie.",
        )
        .args(args![venv]),
        Function::new(
            "get_distribution_path",
            |call| ask(call, DISTRIBUTION, &["distribution"]),
            "The directory in which an installed distribution lies.",
        )
        .args(args![venv, distribution]),
        Function::new(
            "get_resource_path",
            |call| ask(call, RESOURCE, &["package", "resource"]),
            "The path of a file that belongs to a package.",
        )
        .args(args![venv, package = None, resource = None]),
        Function::new(
            "get_resource_content",
            |call| {
                let path = ask(call, RESOURCE, &["package", "resource"])?;
                let path = python::str(&path);
                Ok(read(&path)?.into())
            },
            "The text of a file that belongs to a package.",
        )
        .args(args![venv, package = None, resource = None]),
    ],
};

/// What the interpreter of an environment is asked, with arguments.
const SITE_PACKAGES: &str = "import sysconfig; print(sysconfig.get_path('purelib'))";
const DISTRIBUTION: &str = "import sys
try:
    from importlib.metadata import distribution
except ImportError:
    import pkg_resources
    print(pkg_resources.get_distribution(sys.argv[1]).location)
else:
    print(distribution(sys.argv[1]).locate_file(''))";
const RESOURCE: &str = "import importlib, os, sys
found = importlib.import_module(sys.argv[1]).__file__
names = sys.argv[2].split('/')
if '..' in names:
    sys.exit('a resource lies below its package: ' + sys.argv[2])
print(os.path.join(os.path.dirname(os.path.abspath(found)), *(name for name in names if name)))";

/// Runs a program in the interpreter of the environment, with these arguments of the call.
fn ask(call: &mut Call<'_>, program: &str, args: &[&str]) -> Result {
    let venv = call.text("venv").unwrap_or_default();
    let interpreter = format!("{venv}/bin/python");
    if !Path::new(&interpreter).exists() {
        return Err(CallError::Command(format!(
            "Path '{venv}' does not appear to be a virtualenv: '{interpreter}' not found."
        )));
    }
    let mut argv = vec![interpreter, "-c".to_owned(), program.to_owned()];
    argv.extend(args.iter().map(|arg| call.text(arg).unwrap_or_default()));
    let ran = run_all_as(call, argv, Map::new())?;
    match ran.ok() {
        true => Ok(ran.stdout.into()),
        false => Err(CallError::Command(ran.stderr)),
    }
}

fn virtualenv_ver(call: &mut Call<'_>) -> Result {
    let program = call.text("venv_bin").unwrap_or_default();
    let mut kwargs = Map::new();
    if call.flag("user") {
        kwargs.set("runas", call.arg("user").clone());
    }
    let ran = run_all_as(call, [program.as_str(), "--version"], kwargs)?;
    // `virtualenv 20.17.1+ds from ...`, or the number alone.
    let numbers = ran.stdout.split_whitespace().find_map(|word| {
        let numbers = word.split(['+', 'r']).next().unwrap_or_default().split('.');
        let numbers: Option<Vec<Value>> = numbers
            .map(|n| Some(n.parse::<i64>().ok()?.into()))
            .collect();
        numbers
    });
    match numbers {
        Some(numbers) if ran.ok() => Ok(Value::Array(numbers)),
        _ => Err(CallError::Command(format!(
            "Unable to get the virtualenv version output using '{program}'. Returned data: {}{}",
            ran.stdout, ran.stderr
        ))),
    }
}

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
