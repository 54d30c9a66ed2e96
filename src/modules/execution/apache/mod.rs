//! `apache`: what is enabled in Apache, its configuration and its state.

mod config;
mod enabled;
mod report;

use super::declare::{Arg, Function, Module, args, with_names};
use enabled::{CONF, MOD, SITE};

const ONE_MOD: &[Arg] = args![mod];
const ONE_SITE: &[Arg] = args![site];
const ONE_CONF: &[Arg] = args![conf];

const FUNCTIONS: [Function; 20] = with_names(
    &["mod", "site", "conf", "pwfile", "user"],
    [
        Function::new(
            "check_site_enabled",
            |c| SITE.check(c),
            "Whether a site is enabled.",
        )
        .args(ONE_SITE),
        Function::new("a2ensite", |c| SITE.change(c, true), "Enables a site.").args(ONE_SITE),
        Function::new("a2dissite", |c| SITE.change(c, false), "Disables a site.").args(ONE_SITE),
        Function::new(
            "check_mod_enabled",
            |c| MOD.check(c),
            "Whether a module is enabled.",
        )
        .args(ONE_MOD),
        Function::new("a2enmod", |c| MOD.change(c, true), "Enables a module.").args(ONE_MOD),
        Function::new("a2dismod", |c| MOD.change(c, false), "Disables a module.").args(ONE_MOD),
        Function::new(
            "check_conf_enabled",
            |c| CONF.check(c),
            "Whether a piece of configuration is enabled.",
        )
        .args(ONE_CONF),
        Function::new(
            "a2enconf",
            |c| CONF.change(c, true),
            "Enables a piece of configuration.",
        )
        .args(ONE_CONF),
        Function::new(
            "a2disconf",
            |c| CONF.change(c, false),
            "Disables a piece of configuration.",
        )
        .args(ONE_CONF),
        Function::new("version", report::version, "The version of Apache."),
        Function::new(
            "fullversion",
            report::fullversion,
            "The version of Apache and what it is compiled with.",
        ),
        Function::new("modules", report::modules, "The modules that are loaded."),
        Function::new(
            "servermods",
            report::servermods,
            "The modules that are compiled in.",
        ),
        Function::new(
            "directives",
            report::directives,
            "The directives with what they are for.",
        ),
        Function::new(
            "vhosts",
            report::vhosts,
            "The virtual hosts as Apache understands them.",
        ),
        Function::new(
            "signal",
            report::signal,
            "Starts, stops or restarts Apache, or asks for its state.",
        )
        .args(args![signal = None]),
        Function::new(
            "useradd",
            report::useradd,
            "Adds a user to a file of passwords.",
        )
        .args(args![pwfile, user, password, opts = ""]),
        Function::new(
            "userdel",
            report::userdel,
            "Removes a user from a file of passwords.",
        )
        .args(args![pwfile, user]),
        Function::new(
            "server_status",
            report::server_status,
            "The state of a running Apache, from its page server-status.",
        )
        .args(args![profile = "default"]),
        Function::new(
            "config",
            config::config,
            "A configuration file from maps and lists.",
        )
        .args(args![name, config, edit = True]),
    ],
);

pub(super) const MODULE: Module = Module {
    name: "apache",
    functions: &FUNCTIONS,
};
