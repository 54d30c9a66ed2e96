//! The server itself: version, status, variables, plugins, replication.

use super::super::declare::Result;
use super::super::{Call, python};
use super::client::{self, Rows, text};
use super::database::{connection, maps};
use halite_wire::{Map, Value, map};

/// The version of the server; empty if it does not answer.
pub fn version(call: &mut Call<'_>, with: &Map) -> Result<String> {
    let rows = client::rows(call, with, "SELECT VERSION()")?;
    let first = rows.and_then(|rows| rows.into_iter().flatten().next());
    Ok(first.and_then(|(_, value)| value).unwrap_or_default())
}

/// `status`.
pub fn status(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let rows = client::rows(call, &with, "SHOW STATUS")?;
    let pairs = rows.unwrap_or_default().into_iter().filter_map(|row| {
        let mut values = row.into_iter().map(|(_, value)| value);
        Some((values.next()??, values.next()?))
    });
    Ok(pairs.collect::<Map>().into())
}

/// `showvariables` and `showglobal`.
pub fn variables(call: &mut Call<'_>, statement: &str) -> Result {
    let with = connection(call);
    let all = hashes(call, &with, statement)?;
    Ok(match all {
        None => Value::Array(Vec::new()),
        Some(all) if all.is_empty() => vec![Value::Array(Vec::new())].into(),
        Some(all) => all.into(),
    })
}

/// Rows as maps; nothing if the statement fails, `None` without a connection.
fn hashes(call: &mut Call<'_>, with: &Map, statement: &str) -> Result<Option<Vec<Value>>> {
    Ok(match client::attempt(call, with, statement)? {
        Ok(sets) => Some(sets.into_iter().next().map(maps).unwrap_or_default()),
        Err(fault) if fault.connected => Some(Vec::new()),
        Err(fault) => {
            client::tolerate(&fault)?;
            None
        }
    })
}

/// `get_master_status` and `get_slave_status`.
pub fn replication(call: &mut Call<'_>, statement: &str) -> Result {
    let with = connection(call);
    let all = hashes(call, &with, statement)?.unwrap_or_default();
    let Some(Value::Map(mut first)) = all.into_iter().next() else {
        return Ok(Value::Array(Vec::new()));
    };
    for (_, value) in &mut first.0 {
        numbers(value);
    }
    Ok(first.into())
}

/// Numbers, which the client writes as texts.
pub fn numbers(value: &mut Value) {
    if let Some(number) = value.as_str().and_then(|text| text.parse::<i64>().ok()) {
        *value = number.into();
    }
}

/// `processlist`.
pub fn processes(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let rows = client::rows(call, &with, "SHOW FULL PROCESSLIST")?;
    let mut all = maps(rows.unwrap_or_default());
    for one in &mut all {
        let Value::Map(one) = one else { continue };
        for key in ["Id", "Time"] {
            if let Some(value) = one.get_mut(key) {
                numbers(value);
            }
        }
        if let Some(progress) = one.get_mut("Progress")
            && let Some(number) = progress.as_str().and_then(|t| t.parse().ok())
        {
            *progress = Value::Float(number);
        }
    }
    Ok(all.into())
}

/// `slave_lag`.
pub fn lag(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let Some(rows) = client::rows(call, &with, "SHOW SLAVE STATUS")? else {
        return Ok((-3).into());
    };
    let Some(Value::Map(mut first)) = maps(rows).into_iter().next() else {
        return Ok((-1).into());
    };
    if first.str("Slave_IO_Running") != Some("Yes") {
        return Ok((-2).into());
    }
    let mut seconds = first.remove("Seconds_Behind_Master").unwrap_or_default();
    numbers(&mut seconds);
    Ok(seconds)
}

/// `plugins_list`.
pub fn plugins(call: &mut Call<'_>) -> Result {
    let with = connection(call);
    let rows: Rows = client::rows(call, &with, "SHOW PLUGINS")?.unwrap_or_default();
    let one = |row: Vec<(String, Option<String>)>| {
        let mut values = row.into_iter().map(|(_, value)| value);
        Value::from(map! {"name" => values.next().flatten(), "status" => values.next().flatten()})
    };
    Ok(rows.into_iter().map(one).collect::<Vec<_>>().into())
}

/// The status of a plugin; empty if it is not installed.
pub fn plugin_status(call: &mut Call<'_>, with: &Map, name: &str) -> Result<String> {
    let statement = format!(
        "SELECT PLUGIN_STATUS FROM INFORMATION_SCHEMA.PLUGINS WHERE PLUGIN_NAME = {}",
        text(name)
    );
    let rows = client::rows(call, with, &statement)?;
    let first = rows.and_then(|rows| rows.into_iter().flatten().next());
    Ok(first.and_then(|(_, value)| value).unwrap_or_default())
}

/// `plugin_status`.
pub fn plugin(call: &mut Call<'_>) -> Result {
    let (with, name) = (connection(call), python::str(call.arg("name")));
    if !call.flag("name") {
        log::error!("Plugin name is required.");
        return Ok(false.into());
    }
    Ok(plugin_status(call, &with, &name)?.into())
}

/// `plugin_add` and `plugin_remove`.
pub fn change_plugin(call: &mut Call<'_>, adding: bool) -> Result {
    let (with, name) = (connection(call), python::str(call.arg("name")));
    if !call.flag("name") {
        log::error!("Plugin name is required.");
        return Ok(false.into());
    }
    let installed = !plugin_status(call, &with, &name)?.is_empty();
    if installed == adding {
        let how = if adding { "already" } else { "not" };
        log::error!("Plugin {name} is {how} installed.");
        return Ok(true.into());
    }
    let plugin = client::name(&name);
    let statement = if adding {
        let library = call.text("soname").filter(|so| !so.is_empty());
        let library = library.unwrap_or_else(|| format!("{name}.so"));
        format!("INSTALL PLUGIN {plugin} SONAME {}", text(&library))
    } else {
        format!("UNINSTALL PLUGIN {plugin}")
    };
    Ok(client::ask(call, &with, &statement)?.is_some().into())
}
