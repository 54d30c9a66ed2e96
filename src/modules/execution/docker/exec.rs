//! Running commands in containers (`docker exec`).

use super::super::{Call, CallError, python};
use super::containers::{self, as_map, keywords, named, segment};
use super::engine::{Engine, LONG};
use super::http::{Body, Patience};
use super::stream::parted;
use crate::execution::declare::Result;
use halite_wire::{Map, Value, map, shlex};
use std::time::Duration;

/// What is in `PATH` of a command whose environment is not kept.
const PATH: &str = "PATH=/bin:/usr/bin:/sbin:/usr/sbin:/opt/bin:/usr/local/bin:/usr/local/sbin";

/// The words of a command: as they are, or for the container's shell if they need one.
fn words(command: &Value, shell: bool) -> Result<Vec<String>> {
    if let Value::Array(words) = command {
        return Ok(words.iter().map(python::str).collect());
    }
    let text = python::str(command);
    if shell
        && text.contains(['|', '&', ';', '<', '>', '$', '`', '*', '?', '~', '(', '\n'])
        && !is_plain(&text)
    {
        return Ok(vec!["sh".to_owned(), "-c".to_owned(), text]);
    }
    shlex::split(&text).map_err(|e| CallError::raised("ValueError", e))
}

/// Whether a shell would find nothing to do: everything special is in single quotes.
fn is_plain(text: &str) -> bool {
    let outside = text.split('\'').step_by(2);
    let special = ['|', '&', ';', '<', '>', '$', '`', '*', '?', '~', '(', '\n'];
    outside.into_iter().all(|part| !part.contains(special))
}

fn trimmed(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\n').to_owned()
}

/// Runs the command of a call.
fn run(call: &mut Call<'_>) -> Result<Map> {
    let engine = Engine::open(call)?;
    let name = named(call);
    let driver = call.text("exec_driver");
    if let Some(driver) = driver.filter(|d| d != "docker-exec") {
        return Err(CallError::Invocation(format!(
            "This minion runs commands in containers through the engine, exec_driver '{driver}' is not available"
        )));
    }
    let mut words = words(&call.arg("cmd").clone(), call.flag("python_shell"))?;
    let keep = call.arg("keep_env").clone();
    if keep != Value::Bool(true) {
        let mut front = vec!["env".to_owned(), "-i".to_owned(), PATH.to_owned()];
        if keep.truthy() {
            for name in containers::name_list(&keep) {
                if let Ok(value) = std::env::var(&name) {
                    front.push(format!("{name}={value}"));
                }
            }
        }
        front.append(&mut words);
        words = front;
    }
    let stdin = call.text("stdin");
    let words: Vec<Value> = words.into_iter().map(Value::from).collect();
    let body = map! {
        "AttachStdin" => stdin.is_some(), "AttachStdout" => true, "AttachStderr" => true, "Tty" => false, "Cmd" => words,
    };
    let made = engine.post(
        &format!("/containers/{}/exec", segment(&name)?),
        Some(&body),
    )?;
    let made = match made {
        Ok(made) => as_map(made),
        Err(refusal) => {
            let text = format!("Error response from daemon: {}", refusal.message);
            return Ok(map! {"retcode" => 1, "stdout" => "", "stderr" => text});
        }
    };
    let id = made.str("Id").unwrap_or_default().to_owned();
    let id = segment(&id)?;
    let start = format!("/exec/{id}/start");
    let how = map! {"Detach" => false, "Tty" => false};
    let how = super::engine::encoded(&how)?;
    let bytes = match &stdin {
        None => {
            let answer =
                engine.send("POST", &start, &[], Body::Json(how), Patience::Each(LONG))??;
            engine.bytes(answer)?
        }
        Some(text) => engine.talk(&start, how, text.as_bytes())?,
    };
    let (_, out, err) = parted(&bytes);
    let code = exit_code(&engine, &id)?;
    Ok(map! {"retcode" => code, "stdout" => trimmed(&out), "stderr" => trimmed(&err)})
}

/// The exit code; the engine may need a moment for it.
fn exit_code(engine: &Engine, id: &str) -> Result<i64> {
    for _ in 0..50 {
        let info = as_map(engine.get(&format!("/exec/{id}/json"))??);
        if let Some(code) = info.int("ExitCode") {
            return Ok(code);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err(CallError::Command(
        "The engine tells no exit code of the command".to_owned(),
    ))
}

/// Runs a command and reports its code, unless that is to be ignored.
fn told(call: &mut Call<'_>) -> Result<Map> {
    let ret = run(call)?;
    let code = ret.get("retcode").cloned().unwrap_or_default();
    if code.as_int() != Some(0) && !call.flag("ignore_retcode") {
        call.retcode = code;
    }
    Ok(ret)
}

fn field(ret: &Map, key: &str) -> Value {
    ret.get(key).cloned().unwrap_or_default()
}

pub(super) fn run_both(call: &mut Call<'_>) -> Result {
    let ret = told(call)?;
    let parts = ["stderr", "stdout"].map(|key| ret.str(key).unwrap_or_default());
    let parts: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    Ok(parts.join("\n").into())
}

pub(super) fn run_all(call: &mut Call<'_>) -> Result {
    told(call).map(Value::from)
}

pub(super) fn run_stdout(call: &mut Call<'_>) -> Result {
    Ok(field(&told(call)?, "stdout"))
}

pub(super) fn run_stderr(call: &mut Call<'_>) -> Result {
    Ok(field(&told(call)?, "stderr"))
}

pub(super) fn retcode(call: &mut Call<'_>) -> Result {
    let _ = keywords(call);
    Ok(field(&told(call)?, "retcode"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells() {
        let of = |text: &str| words(&text.into(), true).unwrap();
        assert_eq!(of("sh -c 'a; b'"), ["sh", "-c", "a; b"]);
        assert_eq!(of("a | b"), ["sh", "-c", "a | b"]);
    }
}
