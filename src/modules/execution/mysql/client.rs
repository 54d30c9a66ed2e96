//! Talking to a server through its client program, `mariadb` or `mysql`. Statements go to its standard input and secrets to
//! a file of options, so that no list of processes shows them. The program runs none of its own commands (`--binary-mode`).

use super::super::command_helpers::TempFile;
use super::super::declare::Result;
use super::super::program::{self, CommandOutput};
use super::super::{Call, CallError, python, which};
use halite_sys::command::Helper;
use halite_wire::{Map, Value};
use regex::Regex;
use std::cell::RefCell;
use std::sync::LazyLock;

thread_local! {
    /// Stock's `__context__["mysql.error"]`.
    static ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The last error, which is then forgotten.
pub fn take_error() -> Option<String> {
    ERROR.with_borrow_mut(Option::take)
}

/// Keeps an error for the state that asks for it.
pub fn keep_error(text: impl Into<String>) {
    let text = text.into();
    log::error!("{text}");
    ERROR.set(Some(text));
}

/// The rows of one statement: names of columns with values, nil for `NULL`.
pub type Rows = Vec<Vec<(String, Option<String>)>>;

/// Why there are no rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The number of the error.
    pub code: u32,
    /// What the server or the program says.
    pub message: String,
    /// Whether there was a connection.
    pub connected: bool,
}

impl Failure {
    fn text(&self) -> String {
        format!("MySQL Error {}: {}", self.code, self.message)
    }

    /// The class of Python's exception.
    pub fn class(&self) -> &'static str {
        match self.code {
            1007 | 1064 | 1065 | 1102 | 1103 | 1110 | 1111 | 1112 | 1113 | 1146 | 1149 | 1171
            | 1179 | 2014 => "ProgrammingError",
            1048 | 1062 | 1169 | 1215 | 1216 | 1217 | 1451 | 1452 | 1557 => "IntegrityError",
            1230 | 1264 | 1265 | 1292 | 1406 => "DataError",
            1196 | 1235 | 1295 => "NotSupportedError",
            code if code < 1000 => "InternalError",
            _ => "OperationalError",
        }
    }

    /// The exception itself.
    pub fn raised(&self) -> CallError {
        let message = python::repr(&self.message.as_str().into());
        CallError::raised(
            &format!("MySQLdb._exceptions.{}", self.class()),
            format!("({}, {message})", self.code),
        )
    }
}

/// Options of the client by their keyword.
const OPTIONS: [(&str, &str); 5] = [
    ("connection_host", "host"),
    ("connection_user", "user"),
    ("connection_pass", "password"),
    ("connection_port", "port"),
    ("connection_unix_socket", "socket"),
];

/// A keyword for the connection, else the value of the configuration: `mysql.host` for `connection_host`.
fn setting(
    call: &mut Call<'_>,
    with: &Map,
    keyword: &str,
    configured: bool,
) -> Result<Option<String>> {
    let value = match with.get(keyword) {
        Some(value) => value.clone(),
        None if configured => {
            let name = keyword.trim_start_matches("connection_");
            call.salt(
                "config.option",
                vec![format!("mysql.{name}").into()],
                Map::new(),
            )?
        }
        None => Value::Nil,
    };
    Ok(value.truthy().then(|| python::str(&value)))
}

/// A value of a file of options.
fn quoted_option(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('\'', "\\'")
        .replace('\n', "\\n")
        .replace('\r', "\\r");
    format!("'{escaped}'")
}

/// The file of options for a connection.
fn options(call: &mut Call<'_>, with: &Map, database: Option<&str>) -> Result<String> {
    // As in stock, a file of the user replaces the configuration.
    let configured = !with.contains("connection_default_file");
    let mut out = String::new();
    if let Some(path) = setting(call, with, "connection_default_file", configured)? {
        let path = python::expand_user(&path);
        if path.contains(['\n', '\r']) {
            return Err(CallError::Invocation(
                "connection_default_file is not a path".to_owned(),
            ));
        }
        let group = setting(call, with, "connection_default_group", configured)?;
        match group.filter(|group| group != "client") {
            None => out.push_str(&format!("!include {path}\n")),
            Some(group) => out.push_str(&format!("[client]\n{}", of_group(&path, &group))),
        }
    }
    out.push_str("[client]\n");
    for (keyword, option) in OPTIONS {
        if let Some(value) = setting(call, with, keyword, configured)? {
            out.push_str(&format!("{option}={}\n", quoted_option(&value)));
        }
    }
    let default = setting(call, with, "connection_db", configured)?;
    if let Some(name) = database.map(str::to_owned).or(default) {
        out.push_str(&format!("database={}\n", quoted_option(&name)));
    }
    let flags = with.get("client_flags").and_then(Value::as_array);
    for flag in flags.unwrap_or_default() {
        match python::str(flag).as_str() {
            "local_files" => out.push_str("local-infile=1\n"),
            "ssl" => out.push_str("ssl\n"),
            "compress" => out.push_str("compress\n"),
            // How rows are counted, and what the program does anyway.
            "found_rows" | "multi_statements" | "multi_results" | "interactive" => {}
            other => log::error!("MySQL client flag {other} not valid, ignoring."),
        }
    }
    Ok(out)
}

/// The lines of a group in a file of options.
fn of_group(path: &str, group: &str) -> String {
    let text = super::super::command_helpers::read(path).unwrap_or_default();
    let mut inside = false;
    let mut out = String::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[') {
            inside = name.trim_end_matches(']') == group;
        } else if inside && !line.starts_with('!') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

fn program() -> Result<&'static str> {
    ["mariadb", "mysql"]
        .into_iter()
        .find(|name| which(name).is_some())
        .ok_or_else(|| {
            CallError::Missing(
                "'mysql' __virtual__ returned False: No mysql client installed.".to_owned(),
            )
        })
}

/// Whether there is a client.
pub fn is_available() -> bool {
    program().is_ok()
}

fn run(
    call: &mut Call<'_>,
    with: &Map,
    database: Option<&str>,
    words: &[&str],
    script: String,
) -> Result<CommandOutput> {
    let file = TempFile::new(options(call, with, database)?.as_bytes())?;
    let charset = setting(call, with, "connection_charset", true)?;
    let charset = charset.unwrap_or_else(|| "utf8mb4".to_owned());
    let mut argv = vec![
        program()?.to_owned(),
        format!("--defaults-file={}", file.path()),
        "--batch".to_owned(),
        "--binary-mode".to_owned(),
        format!("--default-character-set={charset}"),
    ];
    argv.extend(words.iter().map(|w| (*w).to_owned()));
    program::run_with(Helper {
        stdin: Some(script.into_bytes()),
        // Only the program knows it, no driver does.
        env: vec![("MYSQL_HOST".to_owned(), None)],
        ..Helper::new(argv)
    })
}

fn failure(ran: &CommandOutput) -> Failure {
    static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?ms)^ERROR (\d+) \([^)]*\)( at line \d+)?(?: in file: '[^']*')?: (.*)\z").ok()
    });
    let found = ERROR.as_ref().and_then(|e| e.captures(&ran.stderr));
    let part = |i: usize| found.as_ref().and_then(|f| f.get(i)).map(|m| m.as_str());
    let last = ran.stderr.lines().next_back().unwrap_or_default();
    Failure {
        // CR_UNKNOWN_ERROR
        code: part(1).and_then(|code| code.parse().ok()).unwrap_or(2000),
        message: part(3).unwrap_or(last).to_owned(),
        connected: part(2).is_some(),
    }
}

/// Runs statements that were built here; the rows of each statement that has some.
///
/// # Errors
/// There is no client.
pub fn attempt(
    call: &mut Call<'_>,
    with: &Map,
    statements: &str,
) -> Result<std::result::Result<Vec<Rows>, Failure>> {
    // Other sets of characters may hide a backslash in a character.
    let mut with = with.clone();
    with.remove("connection_charset");
    with.set("connection_charset", "utf8mb4");
    let mut script = format!("{statements};\n");
    if script.contains('\\') {
        let begin = "SET SESSION sql_mode = TRIM(BOTH ',' FROM REPLACE(CONCAT(',', @@sql_mode, ','), ',NO_BACKSLASH_ESCAPES,', ','));\n";
        script.insert_str(0, begin);
    }
    let ran = run(call, &with, None, &["--xml"], script)?;
    Ok(if ran.ok() {
        Ok(sets(&ran.stdout))
    } else {
        Err(failure(&ran))
    })
}

/// As [`attempt`], for those that return nothing if there is no connection or an `OperationalError`, which is kept.
///
/// # Errors
/// Other errors of the server.
pub fn ask(call: &mut Call<'_>, with: &Map, statements: &str) -> Result<Option<Vec<Rows>>> {
    match attempt(call, with, statements)? {
        Ok(sets) => Ok(Some(sets)),
        Err(fault) => {
            tolerate(&fault)?;
            Ok(None)
        }
    }
}

/// The rows of one statement, as [`ask`].
///
/// # Errors
/// As [`ask`].
pub fn rows(call: &mut Call<'_>, with: &Map, statement: &str) -> Result<Option<Rows>> {
    let sets = ask(call, with, statement)?;
    Ok(sets.map(|mut sets| {
        if sets.is_empty() {
            Rows::new()
        } else {
            sets.swap_remove(0)
        }
    }))
}

/// Keeps an error that stock catches; raises others.
///
/// # Errors
/// The exception.
pub fn tolerate(fault: &Failure) -> Result<()> {
    if fault.connected && fault.class() != "OperationalError" {
        return Err(fault.raised());
    }
    keep_error(fault.text());
    Ok(())
}

/// What a statement of a user returned.
pub struct Answer {
    /// The rows of its first set of rows.
    pub rows: Rows,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// How many rows it changed, or returned.
    pub affected: i64,
}

/// `ER_UNSUPPORTED_PS`
const NOT_PREPARABLE: u32 = 1295;

/// Runs a statement of a user. The server gets it as one value, so that it is one statement whatever it holds; what cannot
/// be prepared there goes to it as it is.
///
/// # Errors
/// There is no client.
pub fn query(
    call: &mut Call<'_>,
    with: &Map,
    database: &str,
    statement: &str,
) -> Result<std::result::Result<Answer, Failure>> {
    let database = Some(database).filter(|name| !name.is_empty());
    let hex: String = statement.bytes().map(|b| format!("{b:02X}")).collect();
    let prepared = format!(
        "SET @halite = CONVERT(X'{hex}' USING utf8mb4);\nPREPARE halite FROM @halite;\nEXECUTE halite"
    );
    let count = ";\nSELECT ROW_COUNT() AS halite;\n";
    let several = with
        .get("client_flags")
        .is_some_and(|flags| flags.str_list().iter().any(|f| f == "multi_statements"));
    let plain = || {
        let end = format!("halite{:032x}", rand::random::<u128>());
        format!("DELIMITER {end}\n{statement}\n{end}\nDELIMITER ;\nSELECT ROW_COUNT() AS halite;\n")
    };
    let script = if several {
        plain()
    } else {
        format!("{prepared}{count}")
    };
    let mut ran = run(call, with, database, &["--xml"], script)?;
    if !ran.ok() && !several && failure(&ran).code == NOT_PREPARABLE {
        ran = run(call, with, database, &["--xml"], plain())?;
    }
    if !ran.ok() {
        return Ok(Err(failure(&ran)));
    }
    let mut all = sets(&ran.stdout);
    let changed = all.pop().and_then(|rows| {
        let (_, value) = rows.into_iter().next()?.into_iter().next()?;
        value?.parse::<i64>().ok()
    });
    let returned = !all.is_empty();
    let rows = if returned {
        all.swap_remove(0)
    } else {
        Rows::new()
    };
    let names = |row: &Vec<(String, _)>| row.iter().map(|(name, _)| name.clone()).collect();
    let mut columns: Vec<String> = rows.first().map(names).unwrap_or_default();
    if returned && rows.is_empty() {
        // The names are not in the other form.
        let words = ["--column-type-info"];
        let ran = run(call, with, database, &words, format!("{prepared};\n"))?;
        let first = ran.stdout.lines().next().unwrap_or_default();
        columns = first.split('\t').map(str::to_owned).collect();
    }
    let affected = if returned {
        i64::try_from(rows.len()).unwrap_or(i64::MAX)
    } else {
        changed.unwrap_or_default()
    };
    Ok(Ok(Answer {
        rows,
        columns,
        affected,
    }))
}

/// The sets of rows that the client writes as XML.
fn sets(text: &str) -> Vec<Rows> {
    static PARTS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r#"<resultset |<row>|<field name="([^"]*)"(?: xsi:nil="true" />|>([^<]*)</field>)"#,
        )
        .ok()
    });
    let mut all: Vec<Rows> = Vec::new();
    for part in PARTS.iter().flat_map(|p| p.captures_iter(text)) {
        let Some(name) = part.get(1) else {
            match (part.get(0).map(|m| m.as_str()), all.last_mut()) {
                (Some("<row>"), Some(rows)) => rows.push(Vec::new()),
                _ => all.push(Rows::new()),
            }
            continue;
        };
        let value = part.get(2).map(|m| unescaped(m.as_str()));
        if let Some(row) = all.last_mut().and_then(|rows| rows.last_mut()) {
            row.push((unescaped(name.as_str()), value));
        }
    }
    all
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
}

/// A text, quoted.
pub fn text(value: &str) -> String {
    let mut out = String::from("'");
    for c in value.chars() {
        match c {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// A name, quoted.
pub fn name(value: &str) -> String {
    format!("`{}`", value.replace('`', "``"))
}

/// A condition on a column that holds exactly this name, as far as the server tells upper from lower case.
pub fn like(value: &str) -> String {
    let escaped = value
        .replace('|', "||")
        .replace('%', "|%")
        .replace('_', "|_");
    format!("LIKE {} ESCAPE '|'", text(&escaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_inside_their_quotes() {
        assert_eq!(text("it's \\ \0"), "'it''s \\\\ \\0'");
        assert_eq!(name("a`b"), "`a``b`");
        assert_eq!(like("a_b%|"), "LIKE 'a|_b|%||' ESCAPE '|'");
        assert_eq!(quoted_option("p'\\ #\n"), "'p\\'\\\\ #\\n'");
    }

    #[test]
    fn rows_are_read() {
        let text = "<?xml version=\"1.0\"?>\n\n<resultset statement=\"select &lt;row&gt;\" xmlns:xsi=\"x\">\n  <row>\n\t\
            <field name=\"a&quot;\">x&lt;&amp;lt;\n</field>\n\t<field name=\"b\" xsi:nil=\"true\" />\n  </row>\n</resultset>\n\
            <resultset statement=\"b\"></resultset>";
        let row = vec![
            ("a\"".to_owned(), Some("x<&lt;\n".to_owned())),
            ("b".to_owned(), None),
        ];
        assert_eq!(sets(text), [vec![row], vec![]]);
    }

    #[test]
    fn errors_are_read() {
        let said = |stderr: &str| {
            failure(&CommandOutput {
                stderr: stderr.to_owned(),
                ..CommandOutput::default()
            })
        };
        let refused =
            said("ERROR 1045 (28000): Access denied for user 'x'@'y' (using password: YES)");
        assert_eq!((refused.code, refused.connected), (1045, false));
        assert!(refused.text().ends_with("(using password: YES)"));
        let wrong = said(
            "--------------\nx\n--------------\n\nERROR 1064 (42000) at line 1: You have\nan error",
        );
        assert_eq!((wrong.code, wrong.connected), (1064, true));
        assert_eq!(wrong.message, "You have\nan error");
        assert_eq!(wrong.class(), "ProgrammingError");
        assert_eq!(said("strange").message, "strange");
    }
}
