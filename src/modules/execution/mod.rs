//! Execution modules: the functions that jobs and `halite-call` run.
//!
//! One file per module, one table per file ([`declare::Function`]), one line here per table. [`call`] takes wire
//! arguments and returns what a minion returns, with stock's texts (`salt/minion.py _thread_return`).

mod accounts;
pub mod acme;
mod aliases;
mod alternatives;
mod apache;
mod archive;
mod asymmetric;
mod at;
mod augeas;
mod beacons;
pub mod bind;
mod cmd;
mod command_helpers;
mod config;
mod cp;
mod cron;
pub mod custom;
mod data;
mod debconf;
mod debian_ip;
pub mod declare;
mod defaults;
mod disk;
pub mod docker;
pub mod engines;
mod environ;
mod event;
pub mod executors;
mod extfs;
pub mod file;
mod firewalld;
mod gem;
mod git;
pub mod gpg;
mod grains;
mod group;
mod hashutil;
mod host_filters;
mod hosts;
mod http;
mod ini;
mod iptables;
mod jinja;
mod key;
mod keyboard;
mod kmod;
mod locale;
mod log;
mod lvm;
pub mod matching;
mod mine;
mod minion;
mod mount;
pub mod mysql;
mod nested;
mod network;
mod nftables;
mod npm;
mod partition;
mod pillar;
pub mod pip;
pub mod pkg;
pub mod postgres;
pub mod proc;
mod program;
mod ps;
mod publish;
pub mod python_modules;
pub mod python_returners;
mod quota;
pub mod rabbitmq;
mod raid;
mod random;
mod ret;
mod rh_ip;
mod saltutil;
mod schedule;
mod scheduled;
pub mod sdb;
mod selinux;
mod service;
mod shadow;
mod shell;
mod signing;
mod slsutil;
mod ssh;
pub mod ssh_pki;
mod status;
mod supervisord;
pub mod sys;
mod sysctl;
mod system;
mod systemd;
mod temp;
mod templates;
mod test;
mod timezone;
mod tls;
mod user;
mod virtualenv;
pub mod x509;
mod xfs;

pub use crate::context::{CallError, CallOutcome, Context};
pub(crate) use crate::programs::which;
pub use crate::python;
use halite_wire::{Map, Value};
pub use mine::configured as mine_functions;
pub use nested::traverse;
pub(crate) use ps::host::NETWORK_COUNTERS;
pub(crate) use ps::names as process_names;

pub use scheduled::scheduled_note;
pub use templates::template_functions;

use bind::Bound;
use declare::{Function, Module, ModulesByHost};
use std::borrow::Cow;
use std::sync::OnceLock;

/// All modules. A new module is added here and nowhere else.
const MODULES: &[Module] = &[
    acme::MODULE,
    apache::MODULE,
    archive::MODULE,
    aliases::MODULE,
    alternatives::MODULE,
    asymmetric::MODULE,
    at::MODULE,
    augeas::MODULE,
    beacons::MODULE,
    cmd::MODULE,
    config::MODULE,
    cp::MODULE,
    disk::MODULE,
    docker::MODULE,
    environ::MODULE,
    cron::MODULE,
    data::MODULE,
    defaults::MODULE,
    debconf::MODULE,
    gem::MODULE,
    npm::MODULE,
    event::MODULE,
    file::MODULE,
    firewalld::MODULE,
    extfs::MODULE,
    git::MODULE,
    gpg::MODULE,
    grains::MODULE,
    group::MODULE,
    hosts::MODULE,
    http::MODULE,
    ini::MODULE,
    hashutil::MODULE,
    key::MODULE,
    iptables::MODULE,
    keyboard::MODULE,
    kmod::MODULE,
    locale::MODULE,
    log::MODULE,
    lvm::MODULE,
    matching::MODULE,
    mine::MODULE,
    mount::MODULE,
    mysql::MODULE,
    minion::MODULE,
    network::MODULE,
    nftables::MODULE,
    partition::MODULE,
    pillar::MODULE,
    pip::MODULE,
    postgres::MODULE,
    ps::MODULE,
    publish::MODULE,
    quota::MODULE,
    rabbitmq::MODULE,
    raid::MODULE,
    random::MODULE,
    ret::MODULE,
    saltutil::MODULE,
    sdb::MODULE,
    selinux::MODULE,
    service::MODULE,
    shadow::MODULE,
    jinja::MODULE,
    slsutil::MODULE,
    ssh::MODULE,
    ssh_pki::MODULE,
    schedule::MODULE,
    status::MODULE,
    supervisord::MODULE,
    sys::MODULE,
    sysctl::MODULE,
    system::MODULE,
    temp::MODULE,
    test::MODULE,
    timezone::MODULE,
    tls::MODULE,
    user::MODULE,
    virtualenv::MODULE,
    x509::MODULE,
    xfs::MODULE,
];

/// Modules of crates above this one.
static INSTALLED: OnceLock<&'static [Module]> = OnceLock::new();

/// Adds the modules of a crate above this one (`state`); once, at the start of a program.
pub fn install(modules: &'static [Module]) {
    // Each program installs the same ones.
    let _ = INSTALLED.set(modules);
}

/// All modules that every host has.
fn common_modules() -> impl Iterator<Item = &'static Module> {
    MODULES
        .iter()
        .chain(INSTALLED.get().copied().unwrap_or_default())
}

/// Modules of the same name, of which each host has one depending on its grains.
const HOST_SPECIFIC: &[ModulesByHost] = &[debian_ip::MODULES, rh_ip::MODULES, pkg::MODULES];

/// Maximum nesting of function calls (`test.cross_test`).
const MAX_CALLS: u32 = 32;

/// One running call: the context, the bound arguments, and the retcode to report.
pub struct Call<'a> {
    /// The minion.
    pub ctx: &'a Context,
    /// The bound arguments.
    pub bound: Bound,
    /// Salt's `__context__["retcode"]`.
    pub retcode: Value,
    function: &'static Function,
    depth: u32,
    internal: bool,
}

impl Call<'_> {
    /// A declared argument; nil for undeclared names, which are a bug in the function's table.
    pub fn arg(&self, name: &str) -> &Value {
        const NIL: &Value = &Value::Nil;
        let at = self.function.args.iter().position(|a| a.name == name);
        at.and_then(|i| self.bound.named.get(i)).unwrap_or(NIL)
    }

    /// A declared argument as text, like Python's `str()`; nil is `None`.
    pub fn text(&self, name: &str) -> Option<String> {
        match self.arg(name) {
            Value::Nil => None,
            other => Some(python::str(other)),
        }
    }

    /// Whether a declared argument is true in Python's sense.
    pub fn flag(&self, name: &str) -> bool {
        self.arg(name).truthy()
    }

    /// Whether a template or a condition wants the value, not a user.
    pub fn is_internal(&self) -> bool {
        self.internal
    }

    /// Calls another function like `__salt__[fun](*args, **kwargs)`.
    ///
    /// # Errors
    /// What the function raises, or a `KeyError` if it does not exist.
    pub fn salt(&mut self, fun: &str, args: Vec<Value>, kwargs: Map) -> declare::Result {
        let Some(function) = find_for(self.ctx, fun) else {
            return Err(CallError::raised("KeyError", format!("'{fun}'")));
        };
        if self.depth >= MAX_CALLS {
            return Err(CallError::raised(
                "RecursionError",
                "maximum recursion depth exceeded",
            ));
        }
        let bound = bind::bind(function, args, kwargs)?;
        let mut inner = Call {
            ctx: self.ctx,
            bound,
            retcode: Value::Int(0),
            function,
            depth: self.depth + 1,
            internal: self.internal,
        };
        let ret = (function.run)(&mut inner)?;
        if inner.retcode.truthy() {
            self.retcode = inner.retcode;
        }
        Ok(ret)
    }
}

/// Types of modules synced from the file server (`_modules`, `_states`, ...), without the underscore.
pub fn extension_kinds() -> &'static [&'static str] {
    saltutil::KINDS
}

/// All functions by full name, sorted. For host-specific modules, the first variant.
pub fn functions() -> Vec<(String, &'static Function)> {
    let chosen = HOST_SPECIFIC
        .iter()
        .copied()
        .flatten()
        .map(|(module, _)| module);
    named(common_modules().chain(chosen))
}

/// The functions available on this host, including those of custom modules ([`custom`]), which override others of the
/// same name.
pub fn functions_for(ctx: &Context) -> Vec<(String, &'static Function)> {
    let mut all = python_modules::functions(ctx, "modules");
    for (name, function) in native_functions(ctx) {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, function));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The functions that run without Python.
fn native_functions(ctx: &Context) -> Vec<(String, &'static Function)> {
    let mut all = custom::functions(ctx);
    for (name, function) in named(common_modules().chain(host_modules(&ctx.grains))) {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, function));
        }
    }
    all
}

fn named(modules: impl Iterator<Item = &'static Module>) -> Vec<(String, &'static Function)> {
    let one = |m: &'static Module| {
        let functions = m.functions.iter();
        functions.map(|f| (format!("{}.{}", m.name, f.name), f))
    };
    let mut all: Vec<_> = modules.flat_map(one).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

/// The host-specific modules of a host.
fn host_modules(grains: &Map) -> impl Iterator<Item = &'static Module> {
    let fits = |kinds: &ModulesByHost| kinds.iter().find(|(_, fits)| fits(grains)).map(|(m, _)| m);
    HOST_SPECIFIC.iter().filter_map(fits)
}

/// Finds a function by full name; custom modules come first.
pub fn find_for(ctx: &Context, fun: &str) -> Option<&'static Function> {
    python_modules::find(ctx, fun, false)
        .or_else(|| custom::find(ctx, fun))
        .or_else(|| find(&ctx.grains, fun))
        .or_else(|| python_modules::find(ctx, fun, true))
}

/// Whether a list of modules has that of a function; an empty one has all.
pub fn names_module(list: &[String], fun: &str) -> bool {
    let module = fun.split('.').next().unwrap_or_default();
    list.is_empty() || list.iter().any(|one| one == module)
}

/// Names that files of Salt's modules have, where it is not that of the module: `disable_modules` takes both.
const FILE_NAMES: &[(&str, &str)] = &[
    ("aptpkg", "pkg"),
    ("cmdmod", "cmd"),
    ("groupadd", "group"),
    ("linux_shadow", "shadow"),
    ("linux_sysctl", "sysctl"),
    ("systemd_service", "service"),
    ("useradd", "user"),
    ("yumpkg", "pkg"),
    ("zypperpkg", "pkg"),
];

/// Whether `disable_modules` names the function or its module.
pub fn is_disabled(fun: &str, disabled: &[String]) -> bool {
    let module = fun.split('.').next().unwrap_or_default();
    let is_file = |name: &String| FILE_NAMES.contains(&(name.as_str(), module));
    disabled
        .iter()
        .any(|d| d == fun || d == module || is_file(d))
}

/// Whether users may name this function in templates, conditions and states: `whitelist_modules`, `disable_modules`. What states
/// call for themselves is not restricted.
pub fn is_listed(ctx: &Context, fun: &str) -> bool {
    let list = |name: &str| ctx.opts.get(name).map(Value::str_list).unwrap_or_default();
    names_module(&list("whitelist_modules"), fun) && !is_disabled(fun, &list("disable_modules"))
}

/// Finds a function that users may name.
pub fn find_listed(ctx: &Context, fun: &str) -> Option<&'static Function> {
    find_for(ctx, fun).filter(|_| is_listed(ctx, fun))
}

/// As [`invoke_with_retcode`], for a function that a user has named.
///
/// # Errors
/// What the function raises, or a `KeyError` if it does not exist or is not listed.
pub fn invoke_listed(
    ctx: &Context,
    fun: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> declare::Result<(Value, Value)> {
    if !is_listed(ctx, fun) {
        return Err(CallError::raised("KeyError", format!("'{fun}'")));
    }
    invoke_with_retcode(ctx, fun, args, kwargs)
}

/// Finds a built-in function by full name for a host with these grains.
fn find(grains: &Map, fun: &str) -> Option<&'static Function> {
    let (module, name) = fun.split_once('.')?;
    let module = common_modules()
        .chain(host_modules(grains))
        .filter(|m| m.name == module);
    // A crate above may add functions to a module of ours.
    let mut functions = module.flat_map(|m| m.functions);
    functions.find(|f| f.name == name)
}

/// Runs code as if inside a call without arguments, for users of functions that take a [`Call`], such as those of
/// `file`.
pub fn with_call<T>(ctx: &Context, run: impl FnOnce(&mut Call<'_>) -> T) -> T {
    const OUTSIDE: &Function = &Function::new("", |_| Ok(Value::Nil), "");
    run(&mut Call {
        ctx,
        bound: Bound::default(),
        retcode: Value::Int(0),
        function: OUTSIDE,
        depth: 0,
        internal: false,
    })
}

/// Calls a function like `__salt__[fun](*args, **kwargs)`, from outside a call.
///
/// # Errors
/// What the function raises, or a `KeyError` if it does not exist.
pub fn invoke(ctx: &Context, fun: &str, args: Vec<Value>, kwargs: Map) -> declare::Result {
    invoke_with_retcode(ctx, fun, args, kwargs).map(|(ret, _)| ret)
}

/// As [`invoke`], with the retcode that the function reports.
///
/// # Errors
/// As [`invoke`].
pub fn invoke_with_retcode(
    ctx: &Context,
    fun: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> declare::Result<(Value, Value)> {
    with_call(ctx, |call| {
        call.internal = true;
        let ret = call.salt(fun, args, kwargs)?;
        Ok((ret, std::mem::take(&mut call.retcode)))
    })
}

/// Calls a function with wire arguments.
pub fn call(ctx: &Context, fun: &str, args: &[Value]) -> CallOutcome {
    let Some(function) = find_for(ctx, fun) else {
        return not_available(ctx, fun);
    };
    let mut retcode = Value::Int(0);
    match run(ctx, function, args, &mut retcode) {
        Ok(ret) => returned(function, ret, retcode),
        Err(fault) => failed(fun, function.doc, fault),
    }
}

fn run(
    ctx: &Context,
    function: &'static Function,
    args: &[Value],
    retcode: &mut Value,
) -> declare::Result {
    let job = ctx.job.as_ref().map(|load| {
        if load.contains("schedule") {
            Cow::Owned(scheduled_note(&ctx.id, load))
        } else {
            Cow::Borrowed(load)
        }
    });
    let (positional, kwargs) = bind::load(function, args, job.as_deref())?;
    let bound = bind::bind(function, positional, kwargs)?;
    let mut call = Call {
        ctx,
        bound,
        retcode: Value::Int(0),
        function,
        depth: 0,
        internal: false,
    };
    let ret = (function.run)(&mut call);
    *retcode = call.retcode;
    ret
}

/// The outcome of a function that has returned a value.
fn returned(function: &Function, ret: Value, retcode: Value) -> CallOutcome {
    CallOutcome {
        out: function.out.map(str::to_owned),
        ..finished(ret, retcode)
    }
}

fn finished(ret: Value, retcode: Value) -> CallOutcome {
    // A non-numeric retcode (`test.retcode abc`) is a failure.
    let mut code = retcode.as_int().unwrap_or(1);
    if code == 0 && !looks_successful(&ret) {
        code = 1;
    }
    CallOutcome {
        ret,
        retcode: code,
        success: code == 0,
        out: None,
        fault: None,
    }
}

/// A map with a false `result` or `success` is a failure.
fn looks_successful(ret: &Value) -> bool {
    let Some(map) = ret.as_map() else {
        return true;
    };
    ["result", "success"]
        .iter()
        .all(|key| map.get(key).is_none_or(Value::truthy))
}

/// Stock appends the Python stack frames; only the first and last line are meaningful here.
const TRACEBACK: &str =
    "The minion function caused an exception: Traceback (most recent call last):\n";

fn failed(fun: &str, doc: &str, fault: CallError) -> CallOutcome {
    let text = match &fault {
        CallError::Missing(m) => m.clone(),
        CallError::CommandNotFound(m) => format!("Command required for '{fun}' not found: {m}"),
        CallError::Command(m) => format!("ERROR: {m}"),
        CallError::Invocation(m) => format!("ERROR executing '{fun}': {m}"),
        CallError::Type(m) => format!("Passed invalid arguments to {fun}: {m}\n{doc}"),
        CallError::Raised(class, m) if m.is_empty() => format!("{TRACEBACK}{class}\n"),
        CallError::Raised(class, m) => format!("{TRACEBACK}{class}: {m}\n"),
        CallError::Traced(class, m, trace) => format!("{TRACEBACK}{trace}{class}: {m}\n"),
    };
    error(text.into(), fault)
}

fn not_available(ctx: &Context, fun: &str) -> CallOutcome {
    let text = python_modules::reason(ctx, "modules", fun)
        .unwrap_or_else(|| format!("'{fun}' is not available."));
    let mut docs = sys::docs(ctx, &format!("{fun}*"));
    let fault = CallError::Missing(text.clone());
    if docs.is_empty() {
        return error(text.into(), fault);
    }
    docs.set(fun, text);
    error(docs.into(), fault)
}

fn error(ret: Value, fault: CallError) -> CallOutcome {
    CallOutcome {
        ret,
        retcode: 1,
        success: false,
        out: Some("nested".to_owned()),
        fault: Some(fault),
    }
}

#[cfg(test)]
mod tests;
