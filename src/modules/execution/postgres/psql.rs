//! Running `psql`: connection, statements and answers. Statements are built here, so that no value of a declaration
//! becomes SQL: names and texts are quoted, and what goes into a statement as it is must be a plain word.

use super::super::command_helpers::TempFile;
use super::super::declare::Result;
use super::super::{Call, CallError, python, which};
use halite_wire::{Map, Value, map};

/// What stock says about the module if there is no `psql`.
const NOT_FOUND: &str = "'postgres' __virtual__ returned False: psql was not found";

/// How to reach the server, from the arguments of a function or the configuration.
#[derive(Clone, Default)]
pub struct Connection {
    user: Option<String>,
    host: Option<String>,
    port: Option<String>,
    database: Option<String>,
    password: Option<String>,
    runas: Option<String>,
    /// Whether names without a schema are those of the server only, whatever a database sets.
    catalog_only: bool,
}

/// The arguments of a function: user, host, port, database, password and account.
const USUAL: [&str; 6] = [
    "user",
    "host",
    "port",
    "maintenance_db",
    "password",
    "runas",
];
const OF_SCHEMAS: [&str; 6] = [
    "db_user",
    "db_host",
    "db_port",
    "dbname",
    "db_password",
    "user",
];

impl Connection {
    /// From the usual arguments.
    pub fn of(call: &Call<'_>) -> Connection {
        Connection::named(call, USUAL)
    }

    /// From the arguments of functions for schemas.
    pub fn of_schemas(call: &Call<'_>) -> Connection {
        Connection::named(call, OF_SCHEMAS)
    }

    fn named(call: &Call<'_>, names: [&str; 6]) -> Connection {
        let [user, host, port, database, password, runas] = names.map(|name| call.text(name));
        Connection {
            user,
            host,
            port,
            database,
            password,
            runas,
            catalog_only: false,
        }
    }

    /// For statements that are built here: whoever may create functions in a database could give them the names of the
    /// server's, and they would run as the account of this connection.
    pub fn catalog_only(mut self) -> Connection {
        self.catalog_only = true;
        self
    }

    /// To another database.
    pub fn to(mut self, database: &str) -> Connection {
        self.database = Some(database.to_owned());
        self
    }

    /// With what is missing from the configuration, and the account that `psql` runs as.
    fn completed(&self, call: &mut Call<'_>) -> Result<Connection> {
        let mut all = self.clone();
        let filled = |value: &mut Option<String>| *value = value.take().filter(|v| !v.is_empty());
        filled(&mut all.host);
        if all.host.is_none() {
            all.host = option(call, "host")?;
        }
        let local = all.host.as_ref().is_none_or(|host| host.starts_with('/'));
        if all.runas.is_none() && local {
            all.runas = Some(account(call).to_owned());
        }
        filled(&mut all.runas);
        for (name, value) in [
            ("user", &mut all.user),
            ("port", &mut all.port),
            ("maintenance_db", &mut all.database),
        ] {
            filled(value);
            if value.is_none() {
                *value = option(call, name)?;
            }
        }
        if all.password.is_none() {
            all.password = option(call, "pass")?;
        }
        Ok(all)
    }
}

/// The content of a password file, for whatever server: `psql` asks one only.
fn password_line(password: &str) -> String {
    let escaped = password.replace('\\', "\\\\").replace(':', "\\:");
    format!("*:*:*:*:{escaped}")
}

/// A value of the configuration, `postgres.<name>`.
pub fn option(call: &mut Call<'_>, name: &str) -> Result<Option<String>> {
    let key = format!("postgres.{name}").into();
    let value = call.salt("config.option", vec![key], Map::new())?;
    Ok(Some(python::str(&value)).filter(|text| !text.is_empty() && !value.is_nil()))
}

/// The account of the server.
pub fn account(call: &Call<'_>) -> &'static str {
    match call.ctx.grains.str("os_family") {
        Some("OpenBSD") => "_postgresql",
        _ => "postgres",
    }
}

/// The path of a program of PostgreSQL.
pub fn program(call: &mut Call<'_>, name: &str) -> Result<Option<String>> {
    if let Some(dir) = option(call, "bins_dir")? {
        let path = format!("{}/{name}", dir.trim_end_matches('/'));
        if let Some(found) = which(&path) {
            return Ok(Some(found));
        }
    }
    Ok(which(name))
}

/// Options for `cmd.run_all`.
pub fn run_options(call: &mut Call<'_>, runas: Option<&str>) -> Result<Map> {
    let timeout = call.salt(
        "config.option",
        vec!["postgres.timeout".into()],
        map! {"default" => 0},
    )?;
    Ok(map! {
        "python_shell" => false, "clean_env" => true, "timeout" => timeout, "runas" => runas.map(str::to_owned),
        // Commands may hold secrets.
        "output_loglevel" => "quiet",
    })
}

/// A file for a secret that an account may read.
pub fn secret_file(call: &mut Call<'_>, content: &str, runas: Option<&str>) -> Result<TempFile> {
    let file = TempFile::new(content.as_bytes())?;
    if let Some(user) = runas {
        let args = vec![file.path().into(), user.into(), "".into()];
        call.salt("file.chown", args, Map::new())?;
    }
    Ok(file)
}

/// `psql` with arguments, and with statements for its standard input if they hold secrets; the result of `cmd.run_all`.
fn run(call: &mut Call<'_>, to: &Connection, words: &[&str], input: Option<String>) -> Result<Map> {
    let Some(psql) = program(call, "psql")? else {
        return Err(CallError::Missing(NOT_FOUND.to_owned()));
    };
    let to = to.completed(call)?;
    let mut argv = vec![
        psql.into(),
        "--no-align".into(),
        "--no-readline".into(),
        "--no-psqlrc".into(),
        "--no-password".into(),
    ];
    for (name, value) in [
        ("--username", &to.user),
        ("--host", &to.host),
        ("--port", &to.port),
    ] {
        if let Some(value) = value {
            argv.extend([Value::from(name), value.as_str().into()]);
        }
    }
    let database = to.database.as_deref().unwrap_or("postgres");
    argv.extend(["--dbname".into(), Value::from(database)]);
    argv.extend(words.iter().map(|w| Value::from(*w)));
    let mut options = run_options(call, to.runas.as_deref())?;
    options.set("reset_system_locale", false);
    if let Some(text) = input {
        options.set("stdin", text);
    }
    let mut secret = None;
    let mut env = Map::new();
    if to.catalog_only {
        env.set("PGOPTIONS", "-c search_path=pg_catalog");
    }
    if let Some(password) = &to.password {
        let file = secret_file(call, &password_line(password), to.runas.as_deref())?;
        env.set("PGPASSFILE", file.path());
        secret = Some(file);
    }
    if !env.is_empty() {
        options.set("env", env);
    }
    let ran = call.salt("cmd.run_all", vec![argv.into()], options);
    drop(secret);
    let ran = ran?.into_map().unwrap_or_default();
    if ran.int("retcode") != Some(0) {
        log::error!("Error connecting to Postgresql server");
    }
    Ok(ran)
}

/// Runs statements as one transaction; the result of `cmd.run_all`.
///
/// # Errors
/// `psql` cannot be started.
pub fn execute(call: &mut Call<'_>, to: &Connection, statements: &str) -> Result<Map> {
    run(call, to, &["-c", statements], None)
}

/// Runs statements that may hold secrets, which no list of processes shows, as one transaction.
///
/// # Errors
/// `psql` cannot be started.
pub fn execute_unseen(call: &mut Call<'_>, to: &Connection, statements: &str) -> Result<Map> {
    let words = [
        "--set",
        "ON_ERROR_STOP=1",
        "--single-transaction",
        "--file",
        "-",
    ];
    run(call, to, &words, Some(format!("{statements};\n")))
}

/// Whether statements succeeded.
pub fn succeeded(ran: &Map) -> bool {
    ran.int("retcode") == Some(0)
}

/// The rows of a query by column; none if it fails.
///
/// # Errors
/// `psql` cannot be started.
pub fn query(call: &mut Call<'_>, to: &Connection, query: &str) -> Result<Vec<Map>> {
    query_with(call, &to.clone().catalog_only(), query, false)
}

/// As [`query`], in a transaction that may write.
///
/// # Errors
/// As [`query`].
pub fn query_with(
    call: &mut Call<'_>,
    to: &Connection,
    query: &str,
    write: bool,
) -> Result<Vec<Map>> {
    let mut statement = format!(
        "COPY ({}) TO STDOUT WITH CSV HEADER",
        query.trim().trim_end_matches(';')
    );
    if write {
        statement = format!("START TRANSACTION READ WRITE; {statement}; COMMIT TRANSACTION;");
    }
    let words = ["-v", "datestyle=ISO,MDY", "-c", &statement];
    let ran = run(call, to, &words, None)?;
    if ran.int("retcode").is_none_or(|code| code > 0) {
        return Ok(Vec::new());
    }
    let mut lines = csv(ran.str("stdout").unwrap_or_default()).into_iter();
    let header = lines.next().unwrap_or_default();
    let mut rows: Vec<Map> = lines
        .map(|line| header.iter().cloned().zip(line).collect())
        .collect();
    if write {
        // The answer to COMMIT.
        rows.pop();
    }
    Ok(rows)
}

/// The version of the server as it says; empty if it does not answer.
///
/// # Errors
/// `psql` cannot be started.
pub fn version(call: &mut Call<'_>, to: &Connection) -> Result<String> {
    const QUERY: &str = "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'server_version'";
    let ran = run(call, to, &["-c", QUERY, "-t"], None)?;
    let out = ran.str("stdout").unwrap_or_default();
    Ok(out.lines().next().unwrap_or_default().to_owned())
}

/// Rows of comma-separated values; without empty lines, as Python's reader is used.
pub fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut begun) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted => quoted = false,
            '"' if field.is_empty() => (quoted, begun) = (true, true),
            ',' if !quoted => {
                row.push(std::mem::take(&mut field));
                begun = true;
            }
            '\n' if !quoted => {
                if begun || !field.is_empty() {
                    row.push(std::mem::take(&mut field));
                    rows.push(std::mem::take(&mut row));
                }
                begun = false;
            }
            c => field.push(c),
        }
    }
    if begun || !field.is_empty() {
        row.push(field);
        rows.push(row);
    }
    rows
}

/// A name, quoted.
pub fn name(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// A text, quoted whatever the server thinks of backslashes.
pub fn text(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!("E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

fn is_word(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$')
}

/// Whether a text is one quoted name.
fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    inner.is_some_and(|t| !t.is_empty() && !t.replace("\"\"", "").contains('"'))
}

/// A name that stock does not quote: a plain or already quoted one stays as it is, anything else is quoted.
pub fn word(text: &str) -> String {
    if is_word(text) || is_quoted(text) {
        text.to_owned()
    } else {
        name(text)
    }
}

/// A value that stock does not quote: words, numbers and quoted texts stay as they are.
pub fn bare_value(value: &str) -> String {
    let inner = value.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
    let quoted = inner.is_some_and(|t| !t.replace("''", "").contains('\'') && !t.contains('\\'));
    if is_word(value) || quoted || value.parse::<f64>().is_ok_and(f64::is_finite) {
        value.to_owned()
    } else {
        text(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_stay_inside_their_quotes() {
        assert_eq!(name("a\"; DROP"), "\"a\"\"; DROP\"");
        assert_eq!(text("it's"), "'it''s'");
        assert_eq!(text("a\\'"), "E'a\\\\'''");
        assert_eq!(word("template0"), "template0");
        assert_eq!(word("\"My\""), "\"My\"");
        assert_eq!(word("\"a\" x \"b\""), "\"\"\"a\"\" x \"\"b\"\"\"");
        assert_eq!(word("a; b"), "\"a; b\"");
        assert_eq!(bare_value("1.1"), "1.1");
        assert_eq!(bare_value("'1.1'"), "'1.1'");
        assert_eq!(bare_value("1) --"), "'1) --'");
        assert_eq!(bare_value("' || x || '"), "' || x || '");
        assert_eq!(bare_value("'a', b = 'c'"), "'''a'', b = ''c'''");
    }

    #[test]
    fn rows_are_read_as_python_reads_them() {
        let rows = csv("a,b\n1,\"x,\"\"y\"\"\nz\"\n\n,\n\"\"\n");
        let expected: [&[&str]; 4] = [&["a", "b"], &["1", "x,\"y\"\nz"], &["", ""], &[""]];
        assert_eq!(rows, expected);
    }

    #[test]
    fn a_password_file_holds_any_password() {
        assert_eq!(password_line("a:b\\"), "*:*:*:*:a\\:b\\\\");
    }
}
