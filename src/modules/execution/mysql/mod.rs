//! `mysql`: MySQL and MariaDB (`salt/modules/mysql.py` of 3007; stock 3008 has it in an extension). Stock uses a driver for
//! Python; this is the same through the client program. Without `free_slave`, which cannot succeed in stock.

mod client;
mod database;
mod grant;
mod names;
mod query;
mod server;
mod tokens;
mod user;

use super::declare::{Function, Module, args};

pub use client::{is_available, take_error};
pub use user::is_true;

pub(super) const MODULE: Module = Module {
    name: "mysql",
    functions: &[
        Function::new("query", query::query, "Runs a statement in a database.").args(args![database, query]).keywords(),
        Function::new("file_query", query::file_query, "Runs the statements of a file in a database.").args(args![database, file_name]).keywords(),
        Function::new("status", server::status, "The status variables of the server.").keywords(),
        Function::new("version", |c| { let with = database::connection(c); Ok(server::version(c, &with)?.into()) }, "The version of the server.").keywords(),
        Function::new("slave_lag", server::lag, "Seconds that a replica is behind its source; -1 if it is none, -2 if it stands still, -3 without an answer.").keywords(),
        Function::new("db_list", database::list, "The databases.").keywords(),
        Function::new("alter_db", database::alter, "Changes character set and collation of a database.").args(args![name, character_set = None, collate = None]).keywords(),
        Function::new("db_get", database::get, "Character set and collation of a database.").args(args![name]).keywords(),
        Function::new("db_tables", database::tables, "The tables of a database.").args(args![name]).keywords(),
        Function::new("db_exists", database::exists, "Whether a database exists.").args(args![name]).keywords(),
        Function::new("db_create", database::create, "Creates a database.").args(args![name, character_set = None, collate = None]).keywords(),
        Function::new("db_remove", database::remove, "Removes a database.").args(args![name]).keywords(),
        Function::new("db_check", |c| database::maintain(c, "CHECK"), "Checks the tables of a database, or one of them.").args(args![name, table = None]).keywords(),
        Function::new("db_repair", |c| database::maintain(c, "REPAIR"), "Repairs the tables of a database, or one of them.").args(args![name, table = None]).keywords(),
        Function::new("db_optimize", |c| database::maintain(c, "OPTIMIZE"), "Optimizes the tables of a database, or one of them.").args(args![name, table = None]).keywords(),
        Function::new("user_list", user::list, "The users.").keywords(),
        Function::new("user_exists", user::exists, "Whether a user exists, with a password if one is given.").args(args![user, host = "localhost", password = None, password_hash = None, passwordless = False, unix_socket = False, password_column = None]).keywords(),
        Function::new("user_info", user::info, "What the server knows of a user.").args(args![user, host = "localhost"]).keywords(),
        Function::new("user_create", user::create, "Creates a user.").args(args![user, host = "localhost", password = None, password_hash = None, allow_passwordless = False, unix_socket = False, password_column = None, auth_plugin = "mysql_native_password"]).keywords(),
        Function::new("user_chpass", user::change_password, "Changes the password of a user.").args(args![user, host = "localhost", password = None, password_hash = None, allow_passwordless = False, unix_socket = None, password_column = None]).keywords(),
        Function::new("user_remove", user::remove, "Removes a user.").args(args![user, host = "localhost"]).keywords(),
        Function::new("tokenize_grant", tokens::tokenize, "The parts of a grant.").args(args![grant]),
        Function::new("user_grants", user::grants, "The grants of a user.").args(args![user, host = "localhost"]).keywords(),
        Function::new("grant_exists", grant::exists, "Whether a user has privileges.").args(args![grant, database, user, host = "localhost", grant_option = False, escape = True]).keywords(),
        Function::new("grant_add", grant::add, "Grants privileges to a user.").args(args![grant, database, user, host = "localhost", grant_option = False, escape = True, ssl_option = False]).keywords(),
        Function::new("grant_revoke", grant::revoke, "Revokes privileges from a user.").args(args![grant, database, user, host = "localhost", grant_option = False, escape = True]).keywords(),
        Function::new("processlist", server::processes, "The threads of the server.").keywords(),
        Function::new("get_master_status", |c| server::replication(c, "SHOW MASTER STATUS"), "The position in the server's binary log.").keywords(),
        Function::new("get_slave_status", |c| server::replication(c, "SHOW SLAVE STATUS"), "The status of a replica.").keywords(),
        Function::new("showvariables", |c| server::variables(c, "SHOW VARIABLES"), "The variables of the session.").keywords(),
        Function::new("showglobal", |c| server::variables(c, "SHOW GLOBAL VARIABLES"), "The global variables.").keywords(),
        Function::new("verify_login", user::verify_login, "Whether a user can connect with a password.").args(args![user, password = None]).keywords(),
        Function::new("plugins_list", server::plugins, "The plugins of the server.").keywords(),
        Function::new("plugin_add", |c| server::change_plugin(c, true), "Installs a plugin.").args(args![name, soname = None]).keywords(),
        Function::new("plugin_remove", |c| server::change_plugin(c, false), "Removes a plugin.").args(args![name]).keywords(),
        Function::new("plugin_status", server::plugin, "The status of a plugin.").args(args![name]).keywords(),
        Function::new("quote_identifier", grant::quote_identifier, "A name in quotes for a statement.").args(args![identifier, for_grants = False]),
    ],
};
