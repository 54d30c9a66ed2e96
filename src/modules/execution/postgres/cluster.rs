//! Clusters of Debian (`pg_createcluster(1)`) and data directories. The functions for clusters are in 3007 only.

use super::super::command_helpers::{self, Argv};
use super::super::declare::Result;
use super::super::program::CommandOutput;
use super::super::{Call, CallError, python};
use super::psql;
use halite_wire::{Map, Value, map};
use std::path::Path;

fn identity(call: &Call<'_>) -> [String; 2] {
    ["version", "name"].map(|arg| python::str(call.arg(arg)))
}

fn shown(ran: CommandOutput) -> Map {
    map! {
        "pid" => ran.pid, "retcode" => ran.retcode, "stdout" => ran.stdout, "stderr" => ran.stderr,
    }
}

/// `cluster_create`.
pub fn create(call: &mut Call<'_>) -> Result {
    let mut argv = Argv::which("pg_createcluster")?;
    for (arg, option) in [
        ("port", "--port"),
        ("locale", "--locale"),
        ("encoding", "--encoding"),
        ("datadir", "--datadir"),
    ] {
        if call.flag(arg) {
            argv.add([option]).value(call.arg(arg));
        }
    }
    let [version, name] = identity(call);
    argv.add([&version, &name]);
    let is_true = |arg: &str| matches!(call.arg(arg), Value::Bool(true));
    // What follows is for initdb.
    if ["allow_group_access", "data_checksums", "wal_segsize"]
        .iter()
        .any(|arg| call.flag(arg))
    {
        argv.add(["--"]);
    }
    if is_true("allow_group_access") {
        argv.add(["--allow-group-access"]);
    }
    if is_true("data_checksums") {
        argv.add(["--data-checksums"]);
    }
    if call.flag("wal_segsize") {
        argv.add(["--wal-segsize"]).value(call.arg("wal_segsize"));
    }
    let ran = command_helpers::run_all(call, argv)?;
    if !ran.ok() {
        log::error!("Error creating a Postgresql cluster {version}/{name}");
        return Ok(false.into());
    }
    Ok(shown(ran).into())
}

/// The clusters by version and name.
pub fn list(call: &mut Call<'_>) -> Result<Map> {
    let mut argv = Argv::which("pg_lsclusters")?;
    argv.add(["--no-header"]);
    let ran = command_helpers::run_all(call, argv)?;
    if !ran.ok() {
        log::error!("Error listing clusters");
    }
    let mut all = Map::new();
    for line in ran.stdout.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [version, name, port, status, user, datadir, log] = words[..] else {
            let text = if words.len() > 7 {
                "too many values to unpack (expected 7)".to_owned()
            } else {
                format!(
                    "not enough values to unpack (expected 7, got {})",
                    words.len()
                )
            };
            return Err(CallError::raised("ValueError", text));
        };
        let one = map! {
            "port" => python::int(&port.into())?, "status" => status, "user" => user,
            "datadir" => datadir, "log" => log,
        };
        all.set(format!("{version}/{name}"), one);
    }
    Ok(all)
}

/// `cluster_list`.
pub fn listed(call: &mut Call<'_>) -> Result {
    let all = list(call)?;
    if call.flag("verbose") {
        return Ok(all.into());
    }
    let names = all.0.into_iter().map(|(name, _)| name);
    Ok(Value::Array(names.collect()))
}

/// `cluster_exists`.
pub fn exists(call: &mut Call<'_>) -> Result {
    let [version, name] = identity(call);
    Ok(list(call)?.contains(&format!("{version}/{name}")).into())
}

/// `cluster_remove`.
pub fn remove(call: &mut Call<'_>) -> Result {
    let mut argv = Argv::which("pg_dropcluster")?;
    if call.flag("stop") {
        argv.add(["--stop"]);
    }
    let [version, name] = identity(call);
    argv.add([&version, &name]);
    let ran = command_helpers::run_all(call, argv)?;
    let good = ran.ok();
    let mut ret = shown(ran);
    if good {
        ret.set(
            "changes",
            format!("Successfully removed cluster {version}/{name}"),
        );
    } else {
        log::error!("Error removing a Postgresql cluster {version}/{name}");
    }
    Ok(ret.into())
}

/// `datadir_exists`.
pub fn datadir_exists(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    let has = |file: &str| Path::new(&name).join(file).is_file();
    Ok((has("PG_VERSION") && has("postgresql.conf")).into())
}

/// `datadir_init`.
pub fn datadir_init(call: &mut Call<'_>) -> Result {
    let name = python::str(call.arg("name"));
    if datadir_exists(call)?.truthy() {
        log::info!("{name} already exists");
        return Ok(false.into());
    }
    let runas = call.text("runas");
    let runas = runas.unwrap_or_else(|| psql::account(call).to_owned());
    let user = call.text("user").unwrap_or_else(|| runas.clone());
    let Some(initdb) = psql::program(call, "initdb")? else {
        return Err(CallError::Command(
            "initdb executable not found.".to_owned(),
        ));
    };
    let mut argv = Argv::new(initdb);
    argv.add([
        format!("--pgdata={name}"),
        format!("--username={user}"),
        format!("--auth={}", python::str(call.arg("auth"))),
        format!("--encoding={}", python::str(call.arg("encoding"))),
    ]);
    if let Some(locale) = call.text("locale") {
        argv.add([format!("--locale={locale}")]);
    }
    if !call.arg("waldir").is_nil() {
        // The long option has another name before PostgreSQL 10.
        argv.add(["-X"]).value(call.arg("waldir"));
    }
    if call.flag("checksums") {
        argv.add(["--data-checksums"]);
    }
    let mut secret = None;
    if let Some(password) = call.text("password") {
        let file = psql::secret_file(call, &password, Some(&runas))?;
        argv.add([format!("--pwfile={}", file.path())]);
        secret = Some(file);
    }
    let options = psql::run_options(call, Some(&runas))?;
    let ran = call.salt("cmd.run_all", vec![argv.0.into()], options);
    drop(secret);
    let good = ran?.as_map().is_some_and(psql::succeeded);
    if !good {
        log::error!("Error initilizing the postgres data directory");
    }
    Ok(good.into())
}
