//! `saltutil`: running jobs, refreshing, syncing custom modules, caches and keys (`salt/modules/saltutil.py`).

mod caches;
mod jobs;
mod master;
mod refresh;
mod sync;

pub(super) use sync::ALL as KINDS;

use super::declare::{Arg, Function, Lit, Module, opt, req};
use nix::sys::signal::Signal;

const JID: &[Arg] = &[req("jid")];
const FROM: &[Arg] = &[
    opt("saltenv", Lit::Nil),
    opt("extmod_whitelist", Lit::Nil),
    opt("extmod_blacklist", Lit::Nil),
];
const SYNC: &[Arg] = &[
    opt("saltenv", Lit::Nil),
    opt("refresh", Lit::Bool(true)),
    opt("extmod_whitelist", Lit::Nil),
    opt("extmod_blacklist", Lit::Nil),
];
const SYNC_QUIET: &[Arg] = &[
    opt("saltenv", Lit::Nil),
    opt("refresh", Lit::Bool(false)),
    opt("extmod_whitelist", Lit::Nil),
    opt("extmod_blacklist", Lit::Nil),
];
const SYNC_PILLAR: &[Arg] = &[
    opt("saltenv", Lit::Nil),
    opt("refresh", Lit::Bool(true)),
    opt("extmod_whitelist", Lit::Nil),
    opt("extmod_blacklist", Lit::Nil),
    opt("clean_pillar_cache", Lit::Bool(false)),
];
const REFRESH_PILLAR: &[Arg] = &[
    opt("wait", Lit::Bool(false)),
    opt("timeout", Lit::Int(30)),
    opt("clean_cache", Lit::Bool(true)),
];

const CMD: &[Arg] = &[
    req("tgt"),
    req("fun"),
    opt("arg", Lit::Empty),
    opt("timeout", Lit::Nil),
    opt("tgt_type", Lit::Str("glob")),
    opt("ret", Lit::Str("")),
    opt("kwarg", Lit::Nil),
    opt("ssh", Lit::Bool(false)),
];

/// A function that syncs custom modules of one type.
macro_rules! sync {
    ($name:literal, $form:literal, $args:expr) => {
        Function::new(
            $name,
            |c| sync::run(c, $form),
            concat!(
                "Copies the custom modules below salt://_",
                $form,
                " from the file server; says which ones are new or have changed."
            ),
        )
        .args($args)
    };
}

pub(super) const MODULE: Module = Module {
    name: "saltutil",
    functions: &[
        Function::new(
            "runner",
            master::runner,
            "Calls a runner function of the master on the same host.",
        )
        .args(&[
            req("name"),
            opt("arg", Lit::Nil),
            opt("kwarg", Lit::Nil),
            opt("full_return", Lit::Bool(false)),
            opt("saltenv", Lit::Str("base")),
            opt("jid", Lit::Nil),
        ])
        .keywords(),
        Function::new(
            "wheel",
            master::wheel,
            "Calls a wheel function of the master on the same host.",
        )
        .args(&[req("name")])
        .varargs()
        .keywords(),
        Function::new(
            "cmd",
            master::cmd,
            "Runs a function on minions of the master on the same host.",
        )
        .args(CMD)
        .keywords(),
        Function::new(
            "cmd_iter",
            master::cmd,
            "Like saltutil.cmd.",
        )
        .args(CMD)
        .keywords(),
        Function::new(
            "running",
            jobs::running,
            "The publish loads of all jobs running on the minion, with their pids.",
        ),
        Function::new(
            "is_running",
            jobs::is_running,
            "The running jobs whose function matches a glob.",
        )
        .args(&[req("fun")]),
        Function::new(
            "find_job",
            jobs::find_job,
            "The load of one running job, or an empty map.",
        )
        .args(JID),
        Function::new(
            "signal_job",
            jobs::signal_job,
            "Sends a signal to a job's process and its descendants.",
        )
        .args(&[req("jid"), req("sig")]),
        Function::new(
            "term_job",
            |c| jobs::signal_found_job(c, Signal::SIGTERM),
            "Asks a job to end (SIGTERM).",
        )
        .args(JID),
        Function::new(
            "kill_job",
            |c| jobs::signal_found_job(c, Signal::SIGKILL),
            "Ends a job at once (SIGKILL).",
        )
        .args(JID),
        Function::new(
            "term_all_jobs",
            |c| jobs::signal_all_jobs(c, Signal::SIGTERM),
            "Asks all running jobs to end (SIGTERM).",
        ),
        Function::new(
            "kill_all_jobs",
            |c| jobs::signal_all_jobs(c, Signal::SIGKILL),
            "Ends all running jobs at once (SIGKILL).",
        ),
        Function::new(
            "find_cached_job",
            caches::find_cached_job,
            "The result of a job stored by the minion (option cache_jobs).",
        )
        .args(JID),
        Function::new(
            "clear_job_cache",
            caches::clear_job_cache,
            "Removes stored job results older than a number of hours.",
        )
        .args(&[opt("hours", Lit::Int(24))]),
        Function::new(
            "clear_cache",
            caches::clear_cache,
            "Removes the files in the minion's cache, except those of running jobs and results not yet sent to the master.",
        ),
        Function::new(
            "regen_keys",
            caches::regen_keys,
            "Removes all files in the key directory and creates a new key pair, which the daemon uses after its next start.",
        ),
        Function::new(
            "revoke_auth",
            caches::revoke_auth,
            "Asks the master to delete this minion's key.",
        )
        .args(&[opt("preserve_minion_cache", Lit::Bool(false))]),
        Function::new(
            "refresh_grains",
            refresh::refresh_grains,
            "Has the minion refresh its grains, and its pillar unless refresh_pillar is false.",
        )
        .keywords(),
        Function::new(
            "refresh_pillar",
            refresh::refresh_pillar,
            "Has the minion refresh its pillar; with wait, waits until that is done.",
        )
        .args(REFRESH_PILLAR),
        Function::new(
            "pillar_refresh",
            refresh::refresh_pillar,
            "Alias of saltutil.refresh_pillar.",
        )
        .args(REFRESH_PILLAR),
        Function::new(
            "refresh_modules",
            refresh::refresh_modules,
            "Tells the minion that modules have changed; with async=False, waits for its answer.",
        )
        .keywords(),
        Function::new(
            "refresh_beacons",
            |c| refresh::fire_refresh(c, "beacons_refresh"),
            "Has the minion refresh its beacons.",
        ),
        Function::new(
            "refresh_matchers",
            |c| refresh::fire_refresh(c, "matchers_refresh"),
            "Tells the minion that custom matchers have changed.",
        ),
        sync!("sync_beacons", "beacons", SYNC),
        sync!("sync_clouds", "clouds", SYNC),
        sync!("sync_engines", "engines", SYNC_QUIET),
        sync!("sync_executors", "executors", SYNC),
        sync!("sync_grains", "grains", SYNC_PILLAR),
        sync!("sync_log_handlers", "log_handlers", SYNC),
        sync!("sync_matchers", "matchers", SYNC_QUIET),
        sync!("sync_modules", "modules", SYNC),
        sync!("sync_output", "output", SYNC),
        sync!("sync_outputters", "output", SYNC),
        sync!("sync_pillar", "pillar", SYNC_PILLAR),
        sync!("sync_proxymodules", "proxy", SYNC_QUIET),
        sync!("sync_renderers", "renderers", SYNC),
        sync!("sync_resources", "resources", SYNC),
        sync!("sync_returners", "returners", SYNC),
        sync!("sync_sdb", "sdb", FROM),
        sync!("sync_serializers", "serializers", SYNC),
        sync!("sync_states", "states", SYNC),
        sync!("sync_thorium", "thorium", SYNC_QUIET),
        sync!("sync_tops", "tops", SYNC),
        sync!("sync_utils", "utils", SYNC),
        sync!("sync_wrapper", "wrapper", SYNC),
        Function::new(
            "sync_all",
            sync::all,
            "Syncs the custom modules of all types from the file server; returns the new and changed ones.",
        )
        .args(SYNC_PILLAR),
        Function::new(
            "list_extmods",
            sync::list_extmods,
            "The custom modules synced to this minion, by type.",
        ),
    ],
};
