//! Jobs running on this minion.

use super::super::declare::Result;
use super::super::proc::{self, Process};
use super::super::{Call, CallError, python};
use halite_channel::queue;
use halite_target::fnmatch;
use halite_wire::{Map, Value};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

pub(super) fn running(call: &mut Call<'_>) -> Result {
    let all: Vec<Value> = jobs(call).into_iter().map(Value::from).collect();
    Ok(all.into())
}

fn jobs(call: &Call<'_>) -> Vec<Map> {
    proc::running(&call.ctx.cachedir)
}

pub(super) fn is_running(call: &mut Call<'_>) -> Result {
    let glob = python::str(call.arg("fun"));
    let hits: Vec<Value> = jobs(call)
        .into_iter()
        .filter(|job| fnmatch(&job.get("fun").map(python::str).unwrap_or_default(), &glob))
        .map(Value::from)
        .collect();
    Ok(hits.into())
}

fn find(call: &Call<'_>) -> Option<Map> {
    let jid = python::str(call.arg("jid"));
    jobs(call)
        .into_iter()
        .find(|job| job.str("jid") == Some(&jid))
}

pub(super) fn find_job(call: &mut Call<'_>) -> Result {
    let waiting = || queue::find(&call.ctx.cachedir, &python::str(call.arg("jid")));
    Ok(find(call).or_else(waiting).unwrap_or_default().into())
}

pub(super) fn signal_found_job(call: &mut Call<'_>, signal: Signal) -> Result {
    match find(call) {
        Some(job) => Ok(send(call, &job, signal).into()),
        None => Ok("".into()),
    }
}

pub(super) fn signal_all_jobs(call: &mut Call<'_>, signal: Signal) -> Result {
    let texts: Vec<String> = jobs(call)
        .iter()
        .map(|job| send(call, job, signal))
        .collect();
    Ok(texts.into())
}

pub(super) fn signal_job(call: &mut Call<'_>) -> Result {
    let Some(job) = find(call) else {
        return Ok("".into());
    };
    let number = python::int(call.arg("sig"))?;
    let signal = i32::try_from(number)
        .ok()
        .and_then(|n| Signal::try_from(n).ok());
    match signal {
        Some(signal) => Ok(send(call, &job, signal).into()),
        None => Err(CallError::raised(
            "ValueError",
            format!("{number} is not a signal"),
        )),
    }
}

/// Signals a job and its descendants; texts are stock's.
fn send(call: &Call<'_>, job: &Map, signal: Signal) -> String {
    let jid = job.str("jid").unwrap_or_default();
    let process = proc::pid_of(job).and_then(Process::read);
    let sent = process.map_or(Err(Errno::ESRCH), |p| signal_tree(&p, signal));
    if let (Ok(()), Some(process)) = (sent, process) {
        return format!(
            "Signal {} sent to job {jid} at pid {}",
            signal as i32, process.pid
        );
    }
    if let Err(e) = proc::remove(&call.ctx.cachedir, jid) {
        log::error!("Unable to remove the file of job {jid}: {e}");
    }
    format!("Job {jid} was not running and job data has been cleaned up")
}

/// Signals a job and all its descendants. Since commands have their own process groups, the groups of all descendants
/// are signalled as well as the job's, but never our own group. The job comes first: if its command ended before it,
/// it would return as if nothing had happened.
fn signal_tree(job: &Process, signal: Signal) -> nix::Result<()> {
    let own = nix::unistd::getpgrp().as_raw();
    let descendants = job.descendants();
    let reach = |p: &Process| {
        let pid = Pid::from_raw(signed_pid(p.pid));
        if p.group == p.pid && signed_pid(p.group) != own {
            killpg(pid, signal)
        } else {
            kill(pid, signal)
        }
    };
    let sent = reach(job);
    for process in &descendants {
        // It may have ended meanwhile.
        let _ = reach(process);
    }
    sent
}

/// Pids come from the kernel and fit; one that did not would match no process.
fn signed_pid(pid: u32) -> i32 {
    i32::try_from(pid).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Context, call};
    use super::*;
    use halite_wire::map;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command, Stdio};

    const JOB: &str = "20260101000000000001";

    fn ctx(dir: &tempfile::TempDir) -> Context {
        Context {
            cachedir: dir.path().to_owned(),
            ..Context::default()
        }
    }

    fn child() -> Child {
        Command::new("/bin/sh")
            .args(["-c", "sleep 60 & wait"])
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    fn load(jid: &str) -> Map {
        map! {"fun" => "test.sleep", "jid" => jid, "arg" => vec![Value::Int(60)], "tgt" => "*", "ret" => ""}
    }

    #[test]
    fn a_job_is_found_and_killed() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = ctx(&dir);
        let mut child = child();
        proc::write(dir.path(), JOB, &load(JOB), child.id()).unwrap();
        let mut want = map! {"pid" => child.id()};
        want.0.extend(load(JOB).0);
        let run = |fun: &str, args: &[Value]| call(&ctx, fun, args).ret;
        assert_eq!(run("saltutil.find_job", &[JOB.into()]), want.clone().into());
        assert_eq!(
            run("saltutil.find_job", &["20260101000000000002".into()]),
            Map::new().into()
        );
        assert_eq!(
            run("saltutil.running", &[]),
            Value::Array(vec![want.clone().into()])
        );
        assert_eq!(
            run("saltutil.is_running", &["test.*".into()]),
            Value::Array(vec![want.into()])
        );
        assert_eq!(
            run("saltutil.is_running", &["state.*".into()]),
            Value::Array(vec![])
        );
        let text = format!("Signal 9 sent to job {JOB} at pid {}", child.id());
        assert_eq!(run("saltutil.kill_job", &[JOB.into()]), text.into());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert_eq!(run("saltutil.running", &[]), Value::Array(vec![]));
        assert_eq!(
            std::fs::read_dir(dir.path().join("proc")).unwrap().count(),
            0
        );
        assert_eq!(run("saltutil.kill_job", &[JOB.into()]), "".into());
    }

    #[test]
    fn signals_by_number() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = ctx(&dir);
        let mut child = child();
        proc::write(dir.path(), JOB, &load(JOB), child.id()).unwrap();
        let got = call(&ctx, "saltutil.signal_job", &[JOB.into(), 999.into()]);
        assert!(
            got.ret
                .as_str()
                .unwrap()
                .contains("ValueError: 999 is not a signal")
        );
        call(&ctx, "saltutil.signal_job", &[JOB.into(), 15.into()]);
        assert_eq!(child.wait().unwrap().signal(), Some(15));
    }

    #[test]
    fn a_pid_that_is_another_process_now_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let ctx = ctx(&dir);
        let mut child = child();
        let mut stale = load(JOB);
        stale.set(proc::START, 1);
        stale.set("pid", child.id());
        let file = dir.path().join("proc").join(JOB);
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let bytes = halite_wire::msgpack::encode_map(&stale, halite_wire::msgpack::Profile::Wire);
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(
            call(&ctx, "saltutil.kill_job", &[JOB.into()]).ret,
            "".into()
        );
        assert!(child.try_wait().unwrap().is_none(), "still alive");
        assert!(!file.exists());
        // The same without a start time: `sh` is not a Salt process.
        stale.remove(proc::START);
        std::fs::write(
            &file,
            halite_wire::msgpack::encode_map(&stale, halite_wire::msgpack::Profile::Wire),
        )
        .unwrap();
        assert_eq!(
            call(&ctx, "saltutil.running", &[]).ret,
            Value::Array(vec![])
        );
        killpg(Pid::from_raw(signed_pid(child.id())), Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn only_jids_become_paths() {
        let dir = tempfile::tempdir().unwrap();
        for bad in [
            "",
            "x",
            "../../etc/passwd",
            "20260101",
            "20260101000000000001/..",
            "20260101000000000001_",
        ] {
            assert!(
                proc::write(dir.path(), bad, &Map::new(), 1).is_err(),
                "{bad}"
            );
            assert!(proc::remove(dir.path(), bad).is_err(), "{bad}");
        }
        proc::write(
            dir.path(),
            "20260101000000000001_77",
            &Map::new(),
            std::process::id(),
        )
        .unwrap();
        assert!(
            proc::running(dir.path()).is_empty(),
            "not this process itself"
        );
        proc::remove(dir.path(), "20260101000000000001_77").unwrap();
        proc::remove(dir.path(), "20260101000000000001_77").unwrap();
        std::fs::write(dir.path().join("proc/other"), b"").unwrap();
        assert!(proc::running(dir.path()).is_empty());
        assert!(dir.path().join("proc/other").exists());
    }
}
