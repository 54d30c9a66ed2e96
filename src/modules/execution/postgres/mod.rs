//! `postgres`: PostgreSQL through its program `psql` (`salt/modules/postgres.py`, and for clusters of Debian 3007's
//! `deb_postgres.py`).

mod cluster;
mod database;
mod parts;
mod password;
mod privileges;
mod psql;
mod role;

use super::declare::{Function, Module, Result, args};
use super::{Call, python};
use halite_wire::Value;
use psql::Connection;

pub use password::{is_current as is_current_password, verifier as password_verifier};
pub use psql::text as quoted_text;
pub use role::timestamp;

pub(super) const MODULE: Module = Module {
    name: "postgres",
    functions: &[
        Function::new("version", |c| { let to = Connection::of(c); Ok(psql::version(c, &to)?.into()) }, "The version of the server.").args(args![user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("psql_query", psql_query, "Runs a query and returns its rows; with write, in a transaction that may write.").args(args![query, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None, write = False]),
        Function::new("db_list", |c| { let to = Connection::of(c); Ok(database::databases(c, &to)?.into()) }, "The databases.").args(args![user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("db_exists", database::exists, "Whether a database exists.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("db_create", database::create, "Creates a database.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, tablespace = None, encoding = None, lc_collate = None, lc_ctype = None, owner = None, template = None, runas = None]),
        Function::new("db_alter", database::alter, "Changes tablespace or owner of a database; with owner_recurse, also the owner of what is in it.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, tablespace = None, owner = None, owner_recurse = False, runas = None]),
        Function::new("db_remove", database::remove, "Removes a database, and ends its connections.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("owner_to", database::owner_to, "Gives a database and all that is in it to a role.").args(args![dbname, ownername, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("tablespace_list", |c| { let to = Connection::of(c); Ok(database::tablespaces(c, &to)?.into()) }, "The tablespaces.").args(args![user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("tablespace_exists", database::tablespace_exists, "Whether a tablespace exists.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("tablespace_create", database::tablespace_create, "Creates a tablespace.").args(args![name, location, options = None, owner = None, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("tablespace_alter", database::tablespace_alter, "Changes name, owner or an option of a tablespace.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, new_name = None, new_owner = None, set_option = None, reset_option = None, runas = None]),
        Function::new("tablespace_remove", database::tablespace_remove, "Removes a tablespace.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("user_list", user_list, "The roles.").args(args![user = None, host = None, port = None, maintenance_db = None, password = None, runas = None, return_password = False]),
        Function::new("role_get", role_get, "A role.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None, return_password = False]),
        Function::new("user_exists", user_exists, "Whether a role exists.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("user_create", |c| role::create(c, "user", "username"), "Creates a user.").args(args![username, user = None, host = None, port = None, maintenance_db = None, password = None, createdb = None, createroles = None, inherit = None, login = None, connlimit = None, encrypted = None, superuser = None, replication = None, rolepassword = None, valid_until = None, groups = None, runas = None]),
        Function::new("user_update", |c| role::update(c, "user", "username"), "Changes a user.").args(args![username, user = None, host = None, port = None, maintenance_db = None, password = None, createdb = None, createroles = None, encrypted = None, superuser = None, inherit = None, login = None, connlimit = None, replication = None, rolepassword = None, valid_until = None, groups = None, runas = None]),
        Function::new("user_remove", |c| role::remove(c, "username"), "Removes a user.").args(args![username, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("group_create", |c| role::create(c, "group", "groupname"), "Creates a group.").args(args![groupname, user = None, host = None, port = None, maintenance_db = None, password = None, createdb = None, createroles = None, encrypted = None, login = None, inherit = None, superuser = None, replication = None, rolepassword = None, groups = None, runas = None]),
        Function::new("group_update", |c| role::update(c, "group", "groupname"), "Changes a group.").args(args![groupname, user = None, host = None, port = None, maintenance_db = None, password = None, createdb = None, createroles = None, encrypted = None, inherit = None, login = None, superuser = None, replication = None, rolepassword = None, groups = None, runas = None]),
        Function::new("group_remove", |c| role::remove(c, "groupname"), "Removes a group.").args(args![groupname, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("available_extensions", |c| Ok(parts::available(c)?.into()), "The extensions that can be installed.").args(args![user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("installed_extensions", |c| Ok(parts::installed(c)?.into()), "The extensions that are installed.").args(args![user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("get_available_extension", parts::get_available, "An extension that can be installed.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("get_installed_extension", parts::get_installed, "An extension that is installed.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("is_available_extension", parts::is_available, "Whether an extension can be installed.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("is_installed_extension", |c| Ok(parts::get_installed(c)?.truthy().into()), "Whether an extension is installed.").args(args![name, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("create_metadata", |c| Ok(parts::metadata(c)?.into_iter().map(Value::from).collect::<Vec<_>>().into()), "Whether an extension is installed, and in the given version and schema.").args(args![name, ext_version = None, schema = None, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("create_extension", parts::create_extension, "Installs an extension, or brings it to a version or schema.").args(args![name, if_not_exists = None, schema = None, ext_version = None, from_version = None, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("drop_extension", parts::drop_extension, "Removes an extension.").args(args![name, if_exists = None, restrict = None, cascade = None, user = None, host = None, port = None, maintenance_db = None, password = None, runas = None]),
        Function::new("schema_create", parts::create_schema, "Creates a schema.").args(args![dbname, name, owner = None, user = None, db_user = None, db_password = None, db_host = None, db_port = None]),
        Function::new("schema_remove", parts::remove_schema, "Removes a schema.").args(args![dbname, name, user = None, db_user = None, db_password = None, db_host = None, db_port = None]),
        Function::new("schema_exists", |c| Ok(parts::schema(c)?.truthy().into()), "Whether a schema exists.").args(args![dbname, name, user = None, db_user = None, db_password = None, db_host = None, db_port = None]),
        Function::new("schema_get", parts::schema, "A schema.").args(args![dbname, name, user = None, db_user = None, db_password = None, db_host = None, db_port = None]),
        Function::new("schema_list", |c| Ok(parts::schemas(c)?.into()), "The schemas of a database.").args(args![dbname, user = None, db_user = None, db_password = None, db_host = None, db_port = None]),
        Function::new("language_list", |c| Ok(parts::languages(c)?.into()), "The languages of a database.").args(args![maintenance_db, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("language_exists", |c| Ok(parts::has_language(c)?.into()), "Whether a database has a language.").args(args![name, maintenance_db, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("language_create", |c| parts::change_language(c, "CREATE"), "Installs a language.").args(args![name, maintenance_db, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("language_remove", |c| parts::change_language(c, "DROP"), "Removes a language.").args(args![name, maintenance_db, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("privileges_list", privileges::listed, "The privileges on an object.").args(args![name, object_type, prepend = "public", maintenance_db = None, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("has_privileges", privileges::has, "Whether a role has privileges on an object.").args(args![name, object_name, object_type, privileges = None, grant_option = None, prepend = "public", maintenance_db = None, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("privileges_grant", privileges::grant, "Grants privileges on an object.").args(args![name, object_name, object_type, privileges = None, grant_option = None, prepend = "public", maintenance_db = None, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("privileges_revoke", privileges::revoke, "Revokes privileges on an object.").args(args![name, object_name, object_type, privileges = None, prepend = "public", maintenance_db = None, user = None, host = None, port = None, password = None, runas = None]),
        Function::new("datadir_init", cluster::datadir_init, "Makes a data directory.").args(args![name, auth = "password", user = None, password = None, encoding = "UTF8", locale = None, waldir = None, checksums = False, runas = None]),
        Function::new("datadir_exists", cluster::datadir_exists, "Whether a directory is a data directory.").args(args![name]),
        Function::new("cluster_create", cluster::create, "Makes a cluster (Debian).").args(args![version, name = "main", port = None, locale = None, encoding = None, datadir = None, allow_group_access = None, data_checksums = None, wal_segsize = None]).names(&["version", "name"]),
        Function::new("cluster_list", cluster::listed, "The clusters (Debian).").args(args![verbose = False]),
        Function::new("cluster_exists", cluster::exists, "Whether a cluster exists (Debian).").args(args![version, name = "main"]),
        Function::new("cluster_remove", cluster::remove, "Removes a cluster (Debian).").args(args![version, name = "main", stop = False]).names(&["version", "name"]),
    ],
};

fn psql_query(call: &mut Call<'_>) -> Result {
    let (to, write) = (Connection::of(call), call.flag("write"));
    let query = call.text("query").unwrap_or_default();
    let rows = psql::query_with(call, &to, &query, write)?;
    Ok(rows.into_iter().map(Value::from).collect::<Vec<_>>().into())
}

fn user_list(call: &mut Call<'_>) -> Result {
    let (to, passwords) = (Connection::of(call), call.flag("return_password"));
    let all = role::list(call, &to, passwords)?;
    Ok(all.map_or(false.into(), Value::from))
}

fn role_get(call: &mut Call<'_>) -> Result {
    let (to, passwords) = (Connection::of(call), call.flag("return_password"));
    let name = python::str(call.arg("name"));
    role::get(call, &to, &name, passwords)
}

fn user_exists(call: &mut Call<'_>) -> Result {
    let (to, name) = (Connection::of(call), python::str(call.arg("name")));
    Ok(role::get(call, &to, &name, false)?.truthy().into())
}
