//! `rabbitmq`: users, virtual hosts, policies, plugins and the cluster of a RabbitMQ node (`rabbitmqctl(8)`).

mod control;
mod lists;
mod policies;
mod text;
mod users;

use super::declare::{Arg, Function, Module, args, with_names};
use control::{plain, show};
pub use policies::UPSTREAM;

const NAME: &[Arg] = args![name, runas = None];
const VHOST: &[Arg] = args![vhost, runas = None];
const NONE: &[Arg] = args![runas = None];

/// Arguments that rabbitmqctl must not take for options.
const WORDS: &[&str] = &[
    "*",
    "name",
    "vhost",
    "user",
    "tags",
    "host",
    "conf",
    "write",
    "read",
    "pattern",
    "priority",
    "apply_to",
    "definition",
];

const FUNCTIONS: [Function; 37] = with_names(
    WORDS,
    [
        Function::new(
            "list_users",
            lists::list_users,
            "The users with their tags.",
        )
        .args(NONE),
        Function::new("list_vhosts", lists::list_vhosts, "The virtual hosts.").args(NONE),
        Function::new(
            "list_upstreams",
            lists::list_upstreams,
            "The upstreams of federations with their definitions.",
        )
        .args(NONE),
        Function::new(
            "user_exists",
            |c| lists::exists(c, "rabbitmq.list_users"),
            "Whether there is a user.",
        )
        .args(NAME),
        Function::new(
            "vhost_exists",
            |c| lists::exists(c, "rabbitmq.list_vhosts"),
            "Whether there is a virtual host.",
        )
        .args(NAME),
        Function::new(
            "upstream_exists",
            |c| lists::exists(c, "rabbitmq.list_upstreams"),
            "Whether there is an upstream.",
        )
        .args(NAME),
        Function::new(
            "add_user",
            users::add_user,
            "Adds a user; without a password, one that cannot log in with any.",
        )
        .args(args![name, password = None, runas = None]),
        Function::new(
            "delete_user",
            |c| plain(c, &["delete_user"], &["name"], "Deleted"),
            "Removes a user.",
        )
        .args(NAME),
        Function::new(
            "change_password",
            users::change_password,
            "Changes the password of a user.",
        )
        .args(args![name, password, runas = None]),
        Function::new(
            "clear_password",
            |c| plain(c, &["clear_password"], &["name"], "Password Cleared"),
            "Removes the password of a user.",
        )
        .args(NAME),
        Function::new(
            "check_password",
            users::check_password,
            "Whether a password is that of a user.",
        )
        .args(args![name, password, runas = None]),
        Function::new(
            "add_vhost",
            |c| plain(c, &["add_vhost"], &["vhost"], "Added"),
            "Adds a virtual host.",
        )
        .args(VHOST),
        Function::new(
            "delete_vhost",
            |c| plain(c, &["delete_vhost"], &["vhost"], "Deleted"),
            "Removes a virtual host.",
        )
        .args(VHOST),
        Function::new(
            "set_permissions",
            |c| {
                plain(
                    c,
                    &["set_permissions", "-p"],
                    &["vhost", "user", "conf", "write", "read"],
                    "Permissions Set",
                )
            },
            "Sets what a user may do in a virtual host.",
        )
        .args(args![
            vhost,
            user,
            conf = ".*",
            write = ".*",
            read = ".*",
            runas = None
        ]),
        Function::new(
            "list_permissions",
            |c| {
                lists::permissions(
                    c,
                    &["list_permissions", "--formatter=json", "-p"],
                    "vhost",
                    "user",
                )
            },
            "What users may do in a virtual host.",
        )
        .args(VHOST),
        Function::new(
            "list_user_permissions",
            |c| {
                lists::permissions(
                    c,
                    &["list_user_permissions", "--formatter=json"],
                    "name",
                    "vhost",
                )
            },
            "What a user may do in each virtual host.",
        )
        .args(NAME),
        Function::new(
            "set_user_tags",
            users::set_user_tags,
            "Sets the tags of a user.",
        )
        .args(args![name, tags, runas = None]),
        Function::new(
            "status",
            |c| show(c, "status"),
            "The state of the node, as rabbitmqctl shows it.",
        )
        .args(NONE),
        Function::new(
            "cluster_status",
            |c| show(c, "cluster_status"),
            "The state of the cluster, as rabbitmqctl shows it.",
        )
        .args(NONE),
        Function::new(
            "join_cluster",
            control::join_cluster,
            "Joins the cluster of a node.",
        )
        .args(args![host, user = "rabbit", ram_node = None, runas = None]),
        Function::new(
            "stop_app",
            |c| show(c, "stop_app"),
            "Stops RabbitMQ and leaves the node running.",
        )
        .args(NONE),
        Function::new(
            "start_app",
            |c| show(c, "start_app"),
            "Starts RabbitMQ on a running node.",
        )
        .args(NONE),
        Function::new(
            "reset",
            |c| show(c, "reset"),
            "Takes a node back to its first state.",
        )
        .args(NONE),
        Function::new(
            "force_reset",
            |c| show(c, "force_reset"),
            "Takes a node back to its first state, even if it cannot leave its cluster.",
        )
        .args(NONE),
        Function::new(
            "list_queues",
            |c| lists::list_queues(c, false),
            "Queues of the virtual host / with the named details.",
        )
        .args(NONE)
        .varargs(),
        Function::new(
            "list_queues_vhost",
            |c| lists::list_queues(c, true),
            "Queues of a virtual host with the named details.",
        )
        .args(VHOST)
        .varargs(),
        Function::new(
            "list_policies",
            policies::list_policies,
            "The policies by virtual host and name.",
        )
        .args(args![vhost = "/", runas = None]),
        Function::new(
            "set_policy",
            policies::set_policy,
            "Adds or changes a policy.",
        )
        .args(args![
            vhost,
            name,
            pattern,
            definition,
            priority = None,
            runas = None,
            apply_to = None
        ]),
        Function::new(
            "delete_policy",
            |c| plain(c, &["clear_policy", "-p"], &["vhost", "name"], "Deleted"),
            "Removes a policy.",
        )
        .args(args![vhost, name, runas = None]),
        Function::new(
            "policy_exists",
            policies::policy_exists,
            "Whether there is a policy.",
        )
        .args(args![vhost, name, runas = None]),
        Function::new(
            "list_available_plugins",
            |c| control::plugins(c, &["list", "-m"]),
            "The plugins.",
        )
        .args(NONE),
        Function::new(
            "list_enabled_plugins",
            |c| control::plugins(c, &["list", "-m", "-e"]),
            "The plugins that are enabled.",
        )
        .args(NONE),
        Function::new(
            "plugin_is_enabled",
            |c| lists::exists(c, "rabbitmq.list_enabled_plugins"),
            "Whether a plugin is enabled.",
        )
        .args(NAME),
        Function::new(
            "enable_plugin",
            |c| control::change_plugin(c, "enable", "Enabled"),
            "Enables a plugin.",
        )
        .args(NAME),
        Function::new(
            "disable_plugin",
            |c| control::change_plugin(c, "disable", "Disabled"),
            "Disables a plugin.",
        )
        .args(NAME),
        Function::new(
            "set_upstream",
            policies::set_upstream,
            "Adds or changes an upstream of federations.",
        )
        .args(policies::UPSTREAM),
        Function::new(
            "delete_upstream",
            policies::delete_upstream,
            "Removes an upstream.",
        )
        .args(NAME),
    ],
);

pub(super) const MODULE: Module = Module {
    name: "rabbitmq",
    functions: &FUNCTIONS,
};
