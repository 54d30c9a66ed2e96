//! What Apache says about itself.

use crate::execution::command_helpers::{run, run_all, run_all_with};
use crate::execution::declare::Result;
use crate::execution::{Call, CallError, python};
use halite_sys::command::Helper;
use halite_wire::{Map, Value, map};

fn program(call: &Call<'_>) -> &'static str {
    match call.ctx.grains.str("os_family") {
        Some("Debian" | "Suse") => "apache2ctl",
        _ => "apachectl",
    }
}

fn ask(call: &mut Call<'_>, option: &str) -> Result<String> {
    let argv = [program(call), option];
    run(call, argv)
}

fn missing() -> CallError {
    CallError::raised("IndexError", "list index out of range")
}

/// `apache.version`.
///
/// # Errors
/// Apache is not there.
pub fn version(call: &mut Call<'_>) -> Result {
    let out = ask(call, "-v")?;
    let first = out.lines().next().ok_or_else(missing)?;
    let version = first.split(": ").nth(1).ok_or_else(missing)?;
    Ok(version.into())
}

/// `apache.fullversion`.
///
/// # Errors
/// Apache is not there.
pub fn fullversion(call: &mut Call<'_>) -> Result {
    let out = ask(call, "-V")?;
    let mut found = Map::new();
    let mut compiled: Vec<String> = Vec::new();
    for line in out.lines() {
        if let Some((key, rest)) = line.split_once(": ") {
            let key = key.trim().to_lowercase().replace(' ', "_");
            found.set(key, rest.split(": ").next().unwrap_or_default().trim());
        } else if line.contains(" -D") {
            let text = line
                .trim_start()
                .strip_prefix("-D")
                .filter(|t| t.starts_with([' ', '\t']));
            compiled.push(text.map_or(line, str::trim_start).to_owned());
        }
    }
    found.set("compiled_with", compiled);
    Ok(found.into())
}

/// `apache.modules`.
///
/// # Errors
/// Apache is not there.
pub fn modules(call: &mut Call<'_>) -> Result {
    let out = ask(call, "-M")?;
    let all = |mark: &str| -> Vec<String> {
        let lines = out.lines().filter(|line| line.contains(mark));
        let names = lines.filter_map(|line| line.split_whitespace().next());
        names.map(str::to_owned).collect()
    };
    Ok(map! {"static" => all("(static)"), "shared" => all("(shared)")}.into())
}

/// `apache.servermods`.
///
/// # Errors
/// Apache is not there.
pub fn servermods(call: &mut Call<'_>) -> Result {
    let out = ask(call, "-l")?;
    let names = out.lines().filter(|line| line.contains(".c"));
    let names: Vec<String> = names.map(|line| line.trim().to_owned()).collect();
    Ok(names.into())
}

/// `apache.directives`.
///
/// # Errors
/// Apache is not there.
pub fn directives(call: &mut Call<'_>) -> Result {
    let out = ask(call, "-L")?.replace("\n\t", "\t");
    let mut found = Map::new();
    for line in out.lines().filter(|line| !line.is_empty()) {
        let (name, rest) = line.split_once('\t').unwrap_or((line, ""));
        found.set(name, rest.replace('\t', "\n"));
    }
    Ok(found.into())
}

/// `apache.vhosts`.
///
/// # Errors
/// Apache is not there.
pub fn vhosts(call: &mut Call<'_>) -> Result {
    let out = ask(call, "-S")?;
    let mut found = Map::new();
    let mut address = String::new();
    for line in out.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first) = words.first() else { continue };
        if line.contains("is a NameVirtualHost") {
            address = (*first).to_owned();
            found.set(address.as_str(), Map::new());
            continue;
        }
        let word = |at: usize| words.get(at).copied().ok_or_else(missing);
        let file = |text: &str| text.replace(['(', ')'], "");
        let (name, host) = match *first {
            "default" => (
                "default",
                map! {"vhost" => word(2)?, "conf" => file(word(3)?)},
            ),
            "port" => (
                word(3)?,
                map! {"vhost" => word(3)?, "conf" => file(word(4)?), "port" => word(1)?},
            ),
            _ => continue,
        };
        let Some(Value::Map(hosts)) = found.get_mut(&address) else {
            return Err(CallError::raised("KeyError", "''"));
        };
        hosts.set(name, host);
    }
    Ok(found.into())
}

/// `apache.signal`.
///
/// # Errors
/// Apache is not there.
pub fn signal(call: &mut Call<'_>) -> Result {
    let signal = call.text("signal").unwrap_or_default();
    let program = program(call);
    let argv: Vec<&str> = match signal.as_str() {
        "start" | "stop" | "restart" | "graceful" | "graceful-stop" => vec![program, "-k", &signal],
        "configtest" | "status" | "fullstatus" => vec![program, &signal],
        _ => return Ok(Value::Nil),
    };
    let shown = argv.join(" ");
    let ran = run_all(call, argv)?;
    Ok(if !ran.stderr.is_empty() {
        ran.stderr.trim().into()
    } else if !ran.stdout.is_empty() {
        ran.stdout.trim().into()
    } else {
        format!("Command: \"{shown}\" completed successfully!").into()
    })
}

/// `apache.useradd`.
///
/// # Errors
/// htpasswd is not there, or an option is not one letter or more.
pub fn useradd(call: &mut Call<'_>) -> Result {
    let text = |name: &str| python::str(call.arg(name));
    let (file, user, mut opts) = (text("pwfile"), text("user"), text("opts"));
    if !opts.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(CallError::Invocation(format!(
            "{opts} are no options of htpasswd"
        )));
    }
    if !std::path::Path::new(&file).exists() {
        opts.push('c');
    }
    // Where stock makes the password a word, it goes in by standard input.
    let helper = Helper {
        stdin: Some(text("password").into_bytes()),
        ..Helper::new(["htpasswd".to_owned(), format!("-i{opts}"), file, user])
    };
    let ran = run_all_with(call, helper)?;
    Ok(map! {
        "pid" => ran.pid, "retcode" => ran.retcode, "stdout" => ran.stdout, "stderr" => ran.stderr,
    }
    .into())
}

/// `apache.userdel`.
///
/// # Errors
/// htpasswd is not there.
pub fn userdel(call: &mut Call<'_>) -> Result {
    let (file, user) = (
        python::str(call.arg("pwfile")),
        python::str(call.arg("user")),
    );
    if !std::path::Path::new(&file).exists() {
        return Ok("Error: The specified htpasswd file does not exist".into());
    }
    let out = run(call, ["htpasswd", "-D", &file, &user])?;
    let lines: Vec<String> = out.lines().map(str::to_owned).collect();
    Ok(lines.into())
}

/// A setting of `apache.server-status`.
fn setting(call: &mut Call<'_>, name: &str, default: Value) -> Result {
    let profile = python::str(call.arg("profile"));
    let key = format!("apache.server-status:{profile}:{name}");
    call.salt("config.get", vec![key.into(), default], Map::new())
}

/// `apache.server_status`.
///
/// # Errors
/// The page says something else.
pub fn server_status(call: &mut Call<'_>) -> Result {
    let url = setting(call, "url", "http://localhost/server-status".into())?;
    let mut kwargs = map! {"url" => format!("{}?auto", python::str(&url)), "text" => true};
    let (user, pass) = (
        setting(call, "user", "".into())?,
        setting(call, "pass", "".into())?,
    );
    if user.truthy() && pass.truthy() {
        kwargs.set("username", user);
        kwargs.set("password", pass);
    }
    let timeout = setting(call, "timeout", 5.into())?;
    kwargs.set("opts", map! {"http_request_timeout" => timeout});
    let page = call.salt("http.query", Vec::new(), kwargs)?;
    let body = page.as_map().filter(|page| !page.contains("error"));
    let Some(body) = body.and_then(|page| page.str("text").or_else(|| page.str("body"))) else {
        return Ok("error".into());
    };
    parsed(body)
}

fn parsed(body: &str) -> Result {
    let zeros = "_SRWKDCLGI."
        .chars()
        .map(|c| (c.to_string().into(), 0.into()));
    let mut board = Map(zeros.collect());
    let mut found = Map::new();
    for line in body.lines() {
        let (key, value) = line.split_once(':').ok_or_else(missing)?;
        let (key, value) = (key.trim(), value.trim());
        if key == "Scoreboard" {
            for c in value.chars() {
                let c = c.to_string();
                let count = board
                    .int(&c)
                    .ok_or_else(|| CallError::raised("KeyError", format!("'{c}'")))?;
                board.set(c, count + 1);
            }
        } else if let Ok(number) = value.parse::<i64>() {
            found.set(key, number);
        } else {
            // Newer versions also say words, on which stock fails.
            let number = value.parse::<f64>().map(Value::Float);
            found.set(key, number.unwrap_or_else(|_| value.into()));
        }
    }
    found.set("Scoreboard", board);
    Ok(found.into())
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn a_page() {
        let page = parsed("Total Accesses: 3\nCPULoad: .5\nServerMPM: event\nScoreboard: _W_.\n");
        let page = page.unwrap().into_map().unwrap();
        assert_eq!(page.int("Total Accesses"), Some(3));
        assert_eq!(page.str("ServerMPM"), Some("event"));
        let board = page.get("Scoreboard").and_then(|b| b.as_map()).unwrap();
        assert_eq!(
            (board.int("_"), board.int("W"), board.int("K")),
            (Some(2), Some(1), Some(0))
        );
    }
}
