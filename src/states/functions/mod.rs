//! The functions `state.*` (`salt/modules/state.py`).

mod about;
mod control;
mod pkg;
mod request;
mod run;
mod session;
mod show;

use halite_modules::args;
use halite_modules::execution::declare::{Function, Lit, Module, opt};

pub(crate) const MODULES: &[Module] = &[SYS, STATE];

/// More functions of the module `sys`.
const SYS: Module = Module {
    name: "sys",
    functions: &[
        Function::new("list_state_functions", about::list_functions, "The sorted names of all state functions, or of those in the given modules or matching the given globs.")
            .varargs().keywords(),
        Function::new("list_state_modules", about::list_modules, "The sorted names of all state modules, or of those given by name or glob.").varargs(),
        Function::new("state_argspec", about::argspec, "The argument names and defaults of the state functions of a module, of one function, or of a glob.")
            .args(&[opt("module", Lit::Str(""))]),
        Function::new("state_doc", about::doc, "The documentation of state functions.").varargs(),
    ],
};

const STATE: Module = Module {
    name: "state",
    functions: &[
        Function::new("apply", run::apply, "Applies SLS files, or the highstate if none is named.")
            .args(args![mods = None]).keywords().outputter("highstate"),
        Function::new("check_request", control::check_request, "The pending requests of state.request, or the one with a name.")
            .args(args![name = None]).outputter("highstate"),
        Function::new("check_result", show::check_result, "Whether the results of a run are all good.")
            .inner("check_result").args(args![ret, strict = False, highstate = None]),
        Function::new("clear_cache", control::clear_cache, "Removes compiled states from the cache; returns their names."),
        Function::new("clear_request", control::clear_request, "Drops the pending requests, or the one with a name.")
            .args(args![name = None]),
        Function::new("disable", |c| control::switch(c, false), "Disables states or SLS files: names, also with .* at the end.")
            .args(args![states]),
        Function::new("enable", |c| control::switch(c, true), "Reverses state.disable.").args(args![states]),
        Function::new("event", control::event, "Prints events of the minion's bus whose tag matches a glob or a regular expression, a number of them or forever.")
            .args(&[
                opt("tagmatch", Lit::Str("*")),
                opt("count", Lit::Int(-1)),
                opt("quiet", Lit::Bool(false)),
                opt("sock_dir", Lit::Nil),
                opt("pretty", Lit::Bool(false)),
                opt("node", Lit::Str("minion")),
            ]),
        Function::new("get_pauses", control::get_pauses, "The pauses of running states, of all jobs or of the given ones.")
            .args(args![jid = None]),
        Function::new("graph", show::graph, "The requisites of SLS files as a graph, in the language of Graphviz.")
            .args(args![mods, test = None, queue = None]).keywords(),
        Function::new("graph_highstate", show::graph_highstate, "The requisites of the top files' SLS files as a graph.")
            .args(args![queue = None]).keywords(),
        Function::new("high", run::high, "Applies high data, as in an SLS file after rendering.")
            .args(args![data, test = None, queue = None]).keywords(),
        Function::new("highstate", run::highstate, "Applies the SLS files that the top files give this minion.")
            .args(args![test = None, queue = None, state_events = None]).keywords().outputter("highstate"),
        Function::new("id_exists", show::id_exists, "Whether SLS files have an id, or all of a list.")
            .args(args![ids, mods, test = None, queue = None]).keywords(),
        Function::new("list_disabled", control::list_disabled, "The states disabled by state.disable."),
        Function::new("low", run::low, "Makes one compiled call.").args(args![data, queue = None]).keywords(),
        Function::new("pause", control::pause, "Pauses a job's state run before a state, or before the next one.")
            .args(args![jid, state_id = None, duration = None]),
        pkg::PKG,
        Function::new("prior_running_states", control::prior_running_states, "Older state jobs that are still running.").args(args![jid]),
        Function::new("request", request::request, "Tests states and keeps them as a request for state.run_request.")
            .args(args![mods = None]).keywords().outputter("highstate"),
        Function::new("resume", control::resume, "Resumes a paused state run.").args(args![jid, state_id = None]),
        Function::new("run_request", request::run_request, "Applies what state.request has kept.")
            .args(args![name = "default"]).keywords().outputter("highstate"),
        Function::new("running", control::running, "Messages about active state runs.").args(args![concurrent = False]),
        Function::new("show_highstate", show::show_highstate, "The high data of the top files.").args(args![queue = None]).keywords(),
        Function::new("show_low_sls", show::show_low_sls, "The compiled calls of SLS files.")
            .args(args![mods, test = None, queue = None]).keywords(),
        Function::new("show_lowstate", show::show_lowstate, "The compiled calls of the top files.").args(args![queue = None]).keywords(),
        Function::new("show_sls", show::show_sls, "The high data of SLS files.")
            .args(args![mods, test = None, queue = None]).keywords(),
        Function::new("show_state_usage", show::show_state_usage, "Which SLS files of each environment this minion uses, and which not.")
            .args(args![queue = None]).keywords(),
        Function::new("show_states", show::show_states, "The names of the SLS files that state.highstate applies.")
            .args(args![queue = None]).keywords(),
        Function::new("show_top", show::show_top, "The SLS files of the top files, by environment.").args(args![queue = None]).keywords(),
        Function::new("single", run::single, "Applies one state function.")
            .args(args![fun, name, test = None, queue = None]).keywords().outputter("highstate"),
        Function::new("sls", run::sls, "Applies SLS files.")
            .args(args![mods, test = None, exclude = None, queue = None, sync_mods = None, state_events = None]).keywords().outputter("highstate"),
        Function::new("sls_exists", show::sls_exists, "Whether SLS files exist and can be compiled.")
            .args(args![mods, test = None, queue = None]).keywords(),
        Function::new("sls_file_exists", show::sls_file_exists, "Whether SLS files exist on the file server.")
            .args(args![mods, saltenv = None]).keywords(),
        Function::new("sls_id", run::sls_id, "Applies one id of SLS files, and what it requires.")
            .args(args![id, mods, test = None, queue = None, state_events = None]).keywords().inner("sls_id").outputter("highstate"),
        Function::new("soft_kill", control::soft_kill, "Ends a job's state run before a state, or before the next one.")
            .args(args![jid, state_id = None]),
        Function::new("template", run::template, "Applies an SLS file by its path.").args(args![tem, queue = None]).keywords().outputter("highstate"),
        Function::new("template_str", run::template_str, "Applies the text of an SLS file.").args(args![tem, queue = None]).keywords().outputter("highstate"),
        Function::new("test", run::as_test, "state.apply with test=True.").varargs().keywords().outputter("highstate"),
        Function::new("top", run::top, "Applies a top file of another name.")
            .args(args![topfn, test = None, queue = None]).keywords().outputter("highstate"),
    ],
};
