//! What is in a database: extensions, schemas and languages.

use super::super::declare::Result;
use super::super::pkg::loose_version;
use super::super::{Call, python};
use super::database::by_name;
use super::psql::{self, Connection, execute, name as quoted, query, succeeded};
use halite_wire::{Map, Value, map};

/// What `create_metadata` returns.
const NOT_INSTALLED: &str = "EXTENSION NOT INSTALLED";
const INSTALLED: &str = "EXTENSION INSTALLED";
const TO_UPGRADE: &str = "EXTENSION TO UPGRADE";
const TO_MOVE: &str = "EXTENSION TO MOVE";

fn named(call: &Call<'_>) -> String {
    call.text("name").unwrap_or_default()
}

fn set(call: &Call<'_>, name: &str) -> Option<String> {
    call.text(name).filter(|text| !text.is_empty())
}

fn keyed(rows: Vec<Map>, key: &str) -> Map {
    let named = rows
        .into_iter()
        .filter_map(|row| Some((row.get(key)?.clone(), row)));
    named.collect()
}

/// `available_extensions`.
pub fn available(call: &mut Call<'_>) -> Result<Map> {
    let to = Connection::of(call);
    let rows = query(call, &to, "select * from pg_available_extensions();")?;
    Ok(keyed(rows, "name"))
}

/// `installed_extensions`.
pub fn installed(call: &mut Call<'_>) -> Result<Map> {
    const QUERY: &str = "select a.*, b.nspname as schema_name \
        from pg_extension a, pg_namespace b where a.extnamespace = b.oid;";
    let to = Connection::of(call);
    Ok(keyed(query(call, &to, QUERY)?, "extname"))
}

/// `get_available_extension`.
pub fn get_available(call: &mut Call<'_>) -> Result {
    let name = named(call);
    Ok(available(call)?.remove(&name).unwrap_or_default())
}

/// `get_installed_extension`.
pub fn get_installed(call: &mut Call<'_>) -> Result {
    let name = named(call);
    Ok(installed(call)?.remove(&name).unwrap_or_default())
}

/// `is_available_extension`.
pub fn is_available(call: &mut Call<'_>) -> Result {
    let name = named(call).to_lowercase();
    let all = available(call)?;
    let same = |key: &Value| python::str(key).to_lowercase() == name;
    Ok(all.iter().any(|(key, _)| same(key)).into())
}

/// A version, which people may have quoted for the statement.
fn version(call: &Call<'_>, name: &str) -> Option<String> {
    set(call, name).map(|text| text.trim_matches(['\'', '"']).to_owned())
}

/// `create_metadata`.
pub fn metadata(call: &mut Call<'_>) -> Result<Vec<&'static str>> {
    let found = get_installed(call)?;
    let Some(found) = found.as_map() else {
        return Ok(vec![NOT_INSTALLED]);
    };
    let mut all = vec![INSTALLED];
    let wanted = version(call, "ext_version");
    let older = |wanted: &String| {
        let now = found.str("extversion").unwrap_or(wanted);
        loose_version::compare(now, wanted).is_lt()
    };
    if wanted.as_ref().is_some_and(older) {
        all.push(TO_UPGRADE);
    }
    let movable = found.str("extrelocatable") == Some("t");
    let elsewhere = |schema: &String| found.str("schema_name") != Some(schema);
    if movable && call.text("schema").as_ref().is_some_and(elsewhere) {
        all.push(TO_MOVE);
    }
    Ok(all)
}

/// `create_extension`.
pub fn create_extension(call: &mut Call<'_>) -> Result {
    let to = Connection::of(call);
    let (name, before) = (quoted(&named(call)), metadata(call)?);
    let (schema, to_version) = (set(call, "schema"), version(call, "ext_version"));
    if is_available(call)?.truthy() {
        let mut statements = Vec::new();
        if before.contains(&NOT_INSTALLED) {
            let tolerant = call.arg("if_not_exists");
            let condition = if tolerant.is_nil() || tolerant.truthy() {
                "IF NOT EXISTS "
            } else {
                ""
            };
            let with = [
                schema.map(|s| format!(" SCHEMA {}", quoted(&s))),
                to_version.map(|v| format!(" VERSION {}", psql::text(&v))),
                version(call, "from_version").map(|v| format!(" FROM {}", psql::text(&v))),
            ];
            let with: String = with.into_iter().flatten().collect();
            let word = if with.is_empty() { "" } else { " WITH" };
            statements.push(format!("CREATE EXTENSION {condition}{name}{word}{with};"));
        } else {
            if let Some(schema) = schema.filter(|_| before.contains(&TO_MOVE)) {
                let schema = quoted(&schema);
                statements.push(format!("ALTER EXTENSION {name} SET SCHEMA {schema};"));
            }
            if let Some(version) = to_version.filter(|_| before.contains(&TO_UPGRADE)) {
                let version = psql::text(&version);
                statements.push(format!("ALTER EXTENSION {name} UPDATE TO {version};"));
            }
        }
        if !statements.is_empty() {
            execute(call, &to, &statements.join(" "))?;
        }
    }
    let after = metadata(call)?;
    Ok(after.iter().all(|flag| *flag == INSTALLED).into())
}

/// `drop_extension`.
pub fn drop_extension(call: &mut Call<'_>) -> Result {
    let to = Connection::of(call);
    if get_installed(call)?.truthy() {
        let cascade = call.arg("cascade");
        let statement = format!(
            "DROP EXTENSION {}{}{}{};",
            if call.flag("if_exists") {
                "IF EXISTS "
            } else {
                ""
            },
            quoted(&named(call)),
            if cascade.is_nil() || cascade.truthy() {
                " CASCADE"
            } else {
                ""
            },
            if call.flag("restrict") {
                " RESTRICT"
            } else {
                ""
            },
        );
        execute(call, &to, &statement)?;
    }
    Ok((!get_installed(call)?.truthy()).into())
}

/// `schema_list`.
pub fn schemas(call: &mut Call<'_>) -> Result<Map> {
    const QUERY: &str = "SELECT pg_namespace.nspname as \"name\",pg_namespace.nspacl as \"acl\", \
        pg_roles.rolname as \"owner\" FROM pg_namespace LEFT JOIN pg_roles ON pg_roles.oid = pg_namespace.nspowner";
    let to = Connection::of_schemas(call);
    let rows = query(call, &to, QUERY)?;
    let one = |row: Map| {
        let part = |key: &str| row.get(key).cloned().unwrap_or_default();
        (
            part("name"),
            map! {"owner" => part("owner"), "acl" => part("acl")},
        )
    };
    Ok(rows.into_iter().map(one).collect())
}

/// `schema_get`.
pub fn schema(call: &mut Call<'_>) -> Result {
    let name = named(call);
    Ok(schemas(call)?.remove(&name).unwrap_or_default())
}

/// `schema_create`.
pub fn create_schema(call: &mut Call<'_>) -> Result {
    let name = named(call);
    if schema(call)?.truthy() {
        let database = call.text("dbname").unwrap_or_default();
        log::info!("'{name}' already exists in '{database}'");
        return Ok(false.into());
    }
    let owner = call.text("owner");
    let owner = owner.map(|owner| format!(" AUTHORIZATION {}", quoted(&owner)));
    let statement = format!(
        "CREATE SCHEMA {}{}",
        quoted(&name),
        owner.unwrap_or_default()
    );
    let to = Connection::of_schemas(call);
    Ok(succeeded(&execute(call, &to, &statement)?).into())
}

/// `schema_remove`.
pub fn remove_schema(call: &mut Call<'_>) -> Result {
    if !schema(call)?.truthy() {
        return Ok(false.into());
    }
    let to = Connection::of_schemas(call);
    execute(call, &to, &format!("DROP SCHEMA {}", quoted(&named(call))))?;
    Ok((!schema(call)?.truthy()).into())
}

/// `language_list`.
pub fn languages(call: &mut Call<'_>) -> Result<Map> {
    let to = Connection::of(call);
    let rows = query(call, &to, "SELECT lanname AS \"Name\" FROM pg_language")?;
    let names = by_name(rows).0.into_iter();
    Ok(names.map(|(name, _)| (name.clone(), name)).collect())
}

/// `language_exists`.
pub fn has_language(call: &mut Call<'_>) -> Result<bool> {
    let name = named(call);
    Ok(languages(call)?.contains(&name))
}

/// `language_create`, and with another word `language_remove`.
pub fn change_language(call: &mut Call<'_>, word: &str) -> Result {
    let (name, adding) = (named(call), word == "CREATE");
    if has_language(call)? == adding {
        let database = call.text("maintenance_db").unwrap_or_default();
        let how = if adding {
            "already exists"
        } else {
            "does not exist"
        };
        log::info!("Language {name} {how} in {database}");
        return Ok(false.into());
    }
    let to = Connection::of(call);
    let statement = format!("{word} LANGUAGE {}", psql::word(&name));
    Ok(succeeded(&execute(call, &to, &statement)?).into())
}
