//! Databases and their tables.

use super::super::declare::Result;
use super::super::{Call, python};
use super::client::{self, Rows, like, name as quoted, text};
use halite_wire::{Map, Value, map};

/// The keywords for the connection.
pub fn connection(call: &Call<'_>) -> Map {
    call.bound.kwargs.clone()
}

fn named(call: &Call<'_>) -> String {
    python::str(call.arg("name"))
}

/// The first column of rows.
pub fn first_column(rows: Rows) -> Vec<Value> {
    let first = |row: Vec<(String, Option<String>)>| row.into_iter().next();
    let values = rows.into_iter().filter_map(first);
    values.map(|(_, value)| value.into()).collect()
}

/// Rows as maps.
pub fn maps(rows: Rows) -> Vec<Value> {
    let one = |row: Vec<(String, Option<String>)>| Value::Map(row.into_iter().collect());
    rows.into_iter().map(one).collect()
}

/// `db_list`.
pub fn list(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let rows = client::rows(call, &with, "SHOW DATABASES")?;
    Ok(first_column(rows.unwrap_or_default()).into())
}

/// `db_get`.
pub fn get(call: &mut Call<'_>) -> Result {
    let (with, name) = (connection(call), named(call));
    let statement = format!(
        "SELECT DEFAULT_CHARACTER_SET_NAME, DEFAULT_COLLATION_NAME FROM INFORMATION_SCHEMA.SCHEMATA WHERE SCHEMA_NAME={}",
        text(&name)
    );
    let Some(rows) = client::rows(call, &with, &statement)? else {
        return Ok(Value::Array(Vec::new()));
    };
    let mut values = rows.into_iter().flatten().map(|(_, value)| value);
    match (values.next(), values.next()) {
        (Some(set), Some(collation)) => {
            Ok(map! {"character_set" => set, "collate" => collation}.into())
        }
        _ => Ok(Map::new().into()),
    }
}

/// Whether a database exists.
pub fn has(call: &mut Call<'_>, with: &Map, name: &str) -> Result<bool> {
    let statement = format!("SHOW DATABASES WHERE `Database` {}", like(name));
    let rows = client::rows(call, with, &statement)?;
    Ok(rows.is_some_and(|rows| rows.len() == 1))
}

/// `db_exists`.
pub fn exists(call: &mut Call<'_>) -> Result {
    let (with, name) = (connection(call), named(call));
    Ok(has(call, &with, &name)?.into())
}

/// The names of a database's tables; `None` if there is no such database.
fn tables_of(call: &mut Call<'_>, with: &Map, name: &str) -> Result<Option<Vec<Value>>> {
    if !has(call, with, name)? {
        log::info!("Database '{name}' does not exist");
        return Ok(None);
    }
    let rows = client::rows(call, with, &format!("SHOW TABLES IN {}", quoted(name)))?;
    Ok(Some(first_column(rows.unwrap_or_default())))
}

/// `db_tables`.
pub fn tables(call: &mut Call<'_>) -> Result {
    let (with, name) = (connection(call), named(call));
    Ok(tables_of(call, &with, &name)?.map_or(false.into(), Value::from))
}

/// Names of character sets and collations, which are no names for the server.
fn options(set: Option<String>, collation: Option<String>) -> String {
    let part = |word: &str, value: Option<String>| {
        value.map_or(String::new(), |value| format!(" {word} {}", text(&value)))
    };
    part("CHARACTER SET", set) + &part("COLLATE", collation)
}

/// `db_create`.
pub fn create(call: &mut Call<'_>) -> Result {
    let (with, name) = (connection(call), named(call));
    if has(call, &with, &name)? {
        log::info!("DB '{name}' already exists");
        return Ok(false.into());
    }
    let options = options(call.text("character_set"), call.text("collate"));
    let statement = format!("CREATE DATABASE IF NOT EXISTS {}{options}", quoted(&name));
    Ok(client::ask(call, &with, &statement)?.is_some().into())
}

/// `alter_db`.
pub fn alter(call: &mut Call<'_>) -> Result {
    let (with, name) = (connection(call), named(call));
    let now = get(call)?;
    let part = |call: &Call<'_>, arg: &str| {
        let given = call.text(arg).filter(|text| !text.is_empty());
        given.or_else(|| now.as_map()?.str(arg).map(str::to_owned))
    };
    let options = options(part(call, "character_set"), part(call, "collate"));
    let statement = format!("ALTER DATABASE {}{options}", quoted(&name));
    Ok(client::ask(call, &with, &statement)?.is_some().into())
}

/// `db_remove`.
pub fn remove(call: &mut Call<'_>) -> Result {
    let (with, name) = (connection(call), named(call));
    if !has(call, &with, &name)? {
        log::info!("DB '{name}' does not exist");
        return Ok(false.into());
    }
    if name == "mysql" || name == "information_schema" {
        log::info!("DB '{name}' may not be removed");
        return Ok(false.into());
    }
    let statement = format!("DROP DATABASE {}", quoted(&name));
    if client::ask(call, &with, &statement)?.is_none() {
        return Ok(false.into());
    }
    Ok((!has(call, &with, &name)?).into())
}

/// `db_check`, `db_repair` and `db_optimize`: a list of the results of each table, or the result of one.
pub fn maintain(call: &mut Call<'_>, word: &str) -> Result {
    let (with, name) = (connection(call), named(call));
    let one = |call: &mut Call<'_>, table: &str| -> Result {
        let statement = format!("{word} TABLE {}.{}", quoted(&name), quoted(table));
        let rows = client::rows(call, &with, &statement)?;
        Ok(rows.map_or_else(|| Map::new().into(), |rows| maps(rows).into()))
    };
    if let Some(table) = call.text("table") {
        return one(call, &table);
    }
    let mut all = Vec::new();
    for table in tables_of(call, &with, &name)?.unwrap_or_default() {
        all.push(one(call, &python::str(&table))?);
    }
    Ok(all.into())
}
