//! Databases and tablespaces.

use super::super::declare::Result;
use super::super::pkg::loose_version;
use super::super::{Call, CallError, python};
use super::psql::{self, Connection, bare_value, execute, name as quoted, query, succeeded};
use halite_wire::{Map, Value};

fn named(call: &Call<'_>) -> String {
    call.text("name").unwrap_or_default()
}

/// An argument that is set and not empty.
fn set(call: &Call<'_>, name: &str) -> Option<String> {
    call.text(name).filter(|text| !text.is_empty())
}

/// Rows by their column `Name`.
pub fn by_name(rows: Vec<Map>) -> Map {
    let named = rows.into_iter().filter_map(|mut row| {
        let name = row.remove("Name")?;
        Some((name, row))
    });
    named.collect()
}

/// All databases.
pub fn databases(call: &mut Call<'_>, to: &Connection) -> Result<Map> {
    const QUERY: &str = "SELECT datname as \"Name\", pga.rolname as \"Owner\", \
        pg_encoding_to_char(encoding) as \"Encoding\", datcollate as \"Collate\", datctype as \"Ctype\", \
        datacl as \"Access privileges\", spcname as \"Tablespace\" \
        FROM pg_database pgd, pg_roles pga, pg_tablespace pgts \
        WHERE pga.oid = pgd.datdba AND pgts.oid = pgd.dattablespace";
    Ok(by_name(query(call, to, QUERY)?))
}

/// `db_exists`.
pub fn exists(call: &mut Call<'_>) -> Result {
    let (name, to) = (named(call), Connection::of(call));
    Ok(databases(call, &to)?.contains(&name).into())
}

/// A value that may not hold its own quote.
fn ddl_value(value: Option<String>, quote: char) -> Result<Option<String>> {
    match value {
        Some(value) if value.contains(quote) => Err(CallError::Invocation(format!(
            "Unsupported character {quote} in value: {value}"
        ))),
        Some(value) if quote == '"' => Ok(Some(quoted(&value))),
        Some(value) => Ok(Some(psql::text(&value))),
        None => Ok(None),
    }
}

/// `db_create`.
pub fn create(call: &mut Call<'_>) -> Result {
    let parts = [
        ("TABLESPACE", ddl_value(call.text("tablespace"), '"')?),
        ("OWNER", ddl_value(call.text("owner"), '"')?),
        ("TEMPLATE", call.text("template").map(|t| psql::word(&t))),
        ("ENCODING", ddl_value(call.text("encoding"), '\'')?),
        ("LC_COLLATE", ddl_value(call.text("lc_collate"), '\'')?),
        ("LC_CTYPE", ddl_value(call.text("lc_ctype"), '\'')?),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(key, value)| Some(format!(" {key} = {}", value?)))
        .collect();
    let with = if parts.is_empty() { "" } else { " WITH" };
    let statement = format!(
        "CREATE DATABASE {}{with}{}",
        quoted(&named(call)),
        parts.concat()
    );
    let to = Connection::of(call);
    Ok(succeeded(&execute(call, &to, &statement)?).into())
}

/// `db_alter`.
pub fn alter(call: &mut Call<'_>) -> Result {
    let (name, to) = (quoted(&named(call)), Connection::of(call));
    let (tablespace, owner) = (set(call, "tablespace"), set(call, "owner"));
    let mut good = true;
    if let Some(owner) = owner {
        if call.flag("owner_recurse") {
            let database = named(call);
            return Ok(succeeded(&give(call, &to, &database, &owner)?).into());
        }
        let statement = format!("ALTER DATABASE {name} OWNER TO {}", quoted(&owner));
        good = succeeded(&execute(call, &to, &statement)?);
    }
    if let Some(tablespace) = tablespace {
        let statement = format!(
            "ALTER DATABASE {name} SET TABLESPACE {}",
            quoted(&tablespace)
        );
        good &= succeeded(&execute(call, &to, &statement)?);
    }
    Ok(good.into())
}

/// `db_remove`.
pub fn remove(call: &mut Call<'_>) -> Result {
    let (name, to) = (named(call), Connection::of(call));
    let statements = [
        format!("REVOKE CONNECT ON DATABASE {} FROM public;", quoted(&name)),
        format!(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {} AND pid <> pg_backend_pid();",
            psql::text(&name)
        ),
        format!("DROP DATABASE {};", quoted(&name)),
    ];
    for statement in statements {
        let ran = execute(call, &to, &statement)?;
        if !succeeded(&ran) {
            let text = format!("Failed: ret={}", python::repr(&ran.into()));
            return Err(CallError::raised("Exception", text));
        }
    }
    Ok(true.into())
}

/// `owner_to`. Schemas of the system keep their owner.
pub fn owner_to(call: &mut Call<'_>) -> Result {
    let to = Connection::of(call);
    let [database, owner] = ["dbname", "ownername"].map(|arg| call.text(arg).unwrap_or_default());
    Ok(give(call, &to, &database, &owner)?.into())
}

/// Gives a database and all that is in it to a role.
fn give(call: &mut Call<'_>, to: &Connection, database: &str, owner: &str) -> Result<Map> {
    const OWN: &str = "not like 'pg\\_%' and";
    let to = to.clone().to(database).catalog_only();
    let version = psql::version(call, &to)?;
    let kinds = if loose_version::compare(&version, "11").is_ge() {
        vec![("routine", "true")]
    } else {
        vec![("function", "not p.proisagg"), ("aggregate", "p.proisagg")]
    };
    let mut queries = vec![
        (
            "schema",
            format!(
                "select quote_ident(nspname) as n from pg_catalog.pg_namespace \
                 where nspname {OWN} nspname <> 'information_schema'"
            ),
        ),
        (
            "table",
            format!(
                "select quote_ident(table_schema)||'.'||quote_ident(table_name) as n from information_schema.tables \
                 where table_schema {OWN} table_schema <> 'information_schema'"
            ),
        ),
    ];
    for (kind, condition) in kinds {
        let query = format!(
            "select p.oid::regprocedure::text as n from pg_catalog.pg_proc p join pg_catalog.pg_namespace ns \
             on p.pronamespace=ns.oid where ns.nspname {OWN} ns.nspname <> 'information_schema' and {condition}"
        );
        queries.push((kind, query));
    }
    // Those of tables go with them.
    let query = "select quote_ident(n.nspname)||'.'||quote_ident(c.relname) as n from pg_catalog.pg_class c \
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relkind = 'S' and n.nspname not like 'pg\\_%' \
        and not exists (select 1 from pg_catalog.pg_depend d where d.objid = c.oid and d.deptype in ('a', 'i'))";
    queries.push(("sequence", query.to_owned()));
    let new = quoted(owner);
    let mut statements = vec![format!(
        "alter database {} owner to {new}",
        quoted(database)
    )];
    for (kind, query) in queries {
        for row in psql::query(call, &to, &query)? {
            let name = row.str("n").unwrap_or_default();
            statements.push(format!("alter {kind} {name} owner to {new}"));
        }
    }
    psql::execute_unseen(call, &to, &statements.join(";\n"))
}

/// All tablespaces.
pub fn tablespaces(call: &mut Call<'_>, to: &Connection) -> Result<Map> {
    const QUERY: &str = "SELECT spcname as \"Name\", pga.rolname as \"Owner\", spcacl as \"ACL\", \
        spcoptions as \"Opts\", pg_tablespace_location(pgts.oid) as \"Location\" \
        FROM pg_tablespace pgts, pg_roles pga WHERE pga.oid = pgts.spcowner";
    Ok(by_name(query(call, to, QUERY)?))
}

/// `tablespace_exists`.
pub fn tablespace_exists(call: &mut Call<'_>) -> Result {
    let (name, to) = (named(call), Connection::of(call));
    Ok(tablespaces(call, &to)?.contains(&name).into())
}

fn assignment(key: &Value, value: &Value) -> String {
    let value = bare_value(&python::str(value));
    format!("{} = {value}", psql::word(&python::str(key)))
}

/// `tablespace_create`.
pub fn tablespace_create(call: &mut Call<'_>) -> Result {
    let owner = set(call, "owner").map(|owner| format!("OWNER {} ", quoted(&owner)));
    let options = match call.arg("options") {
        Value::Map(map) if !map.is_empty() => {
            let parts: Vec<String> = map.iter().map(|(k, v)| assignment(k, v)).collect();
            format!(" WITH ( {} )", parts.join(", "))
        }
        _ => String::new(),
    };
    let statement = format!(
        "CREATE TABLESPACE {} {}LOCATION {}{options}",
        quoted(&named(call)),
        owner.unwrap_or_default(),
        psql::text(&call.text("location").unwrap_or_default())
    );
    let to = Connection::of(call);
    Ok(succeeded(&execute(call, &to, &statement)?).into())
}

/// `tablespace_alter`.
pub fn tablespace_alter(call: &mut Call<'_>) -> Result {
    let to = Connection::of(call);
    let mut changes = Vec::new();
    if let Some(new) = set(call, "new_name") {
        changes.push(format!("RENAME TO {}", quoted(&new)));
    }
    if let Some(owner) = set(call, "new_owner") {
        changes.push(format!("OWNER TO {}", quoted(&owner)));
    }
    if let Some((key, value)) = call
        .arg("set_option")
        .as_map()
        .and_then(|m| m.iter().next())
    {
        changes.push(format!("SET ({})", assignment(key, value)));
    }
    if let Some(option) = set(call, "reset_option") {
        changes.push(format!("RESET ({})", psql::word(&option)));
    }
    let name = quoted(&named(call));
    for change in changes {
        let ran = execute(call, &to, &format!("ALTER TABLESPACE {name} {change}"))?;
        if !succeeded(&ran) {
            return Ok(false.into());
        }
    }
    Ok(true.into())
}

/// `tablespace_remove`.
pub fn tablespace_remove(call: &mut Call<'_>) -> Result {
    let (name, to) = (quoted(&named(call)), Connection::of(call));
    Ok(succeeded(&execute(call, &to, &format!("DROP TABLESPACE {name}"))?).into())
}
