//! What happens to a fleet in its life: listeners, a new session key, a restart.

use crate::interop::fleet::Fleet;
use serde_json::{Value, json};
use testing::check::same;
use testing::process::Process;
use testing::{Checks, Cli, wait_until};

/// `salt-run state.event` of each tool hears what happens, once each.
pub fn listen(fleet: &Fleet, tools: &[Cli], checks: &mut Checks) {
    for listener in tools {
        checks.run(&format!("{}: salt-run state.event", listener.name), || {
            listen_with(fleet, listener, &tools[1])
        });
    }
}

fn listen_with(fleet: &Fleet, listener: &Cli, speaker: &Cli) -> Result<(), String> {
    let dir = testing::short_dir();
    let log = dir.path().join("events");
    let mut command = listener.command("salt-run");
    command.args(["state.event", "salt/job/*"]);
    let mut process = Process::start("a listener", &mut command, &log);
    let ids = fleet.ids();
    wait_until("the listener hears something", || {
        process.must_live();
        let _ = speaker.salt(&["*", "test.ping"]);
        process.output().contains("salt/job/")
    });
    let said = speaker.salt(&["--async", "*", "test.ping"]).ok()?;
    let jid = said
        .split_whitespace()
        .last()
        .unwrap_or_default()
        .to_owned();
    wait_until("a whole job is heard", || {
        tags(&process.output(), &jid).len() > ids.len()
    });
    // A job more, so that anything heard twice has come by now.
    speaker.salt(&["*", "test.ping"]).ok()?;
    let mut found = tags(&process.output(), &jid);
    found.sort();
    let mut expected = vec![format!("salt/job/{jid}/new")];
    expected.extend(ids.iter().map(|id| format!("salt/job/{jid}/ret/{id}")));
    expected.sort();
    same(found, expected)?;
    let text = process.output();
    let wanted = format!("salt/job/{jid}/ret/{}", ids[0]);
    let (_, data) = text
        .lines()
        .filter_map(|l| l.split_once('\t'))
        .find(|(tag, _)| *tag == wanted)
        .ok_or(format!("{wanted} has no data in\n{text}"))?;
    let data: Value = serde_json::from_str(data).map_err(|e| format!("{e}: {data}"))?;
    same(
        (&data["fun"], &data["return"], &data["success"]),
        (&json!("test.ping"), &json!(true), &json!(true)),
    )
}

/// Tags of a job in what a listener printed, without the one by which a stock 3008 master
/// tells its peers in a cluster of the job.
fn tags(text: &str, jid: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|(tag, _)| tag.contains(jid) && !tag.ends_with("/publish"))
        .map(|(tag, _)| tag.to_owned())
        .collect()
}

/// Deleting a key makes the master take a new session key; everybody goes on answering.
pub fn rotate(fleet: &Fleet, tools: &[Cli], checks: &mut Checks) {
    for cli in tools {
        checks.run(
            &format!("{}: a new session key after salt-key -d", cli.name),
            || rotate_with(fleet, cli, &tools[1]),
        );
    }
}

fn rotate_with(fleet: &Fleet, cli: &Cli, asker: &Cli) -> Result<(), String> {
    let keys = fleet.master.home.pki().join("minions");
    std::fs::copy(keys.join(fleet.ids()[0]), keys.join("ghost")).map_err(|e| e.to_string())?;
    let mut bus = halite_ipc::Subscriber::connect(fleet.master.bus())
        .map_err(|e| e.to_string())?
        .with_prefix("key");
    cli.key(&["-d", "ghost", "-y"]).ok()?;
    same(keys.join("ghost").exists(), false)?;
    let event = bus.next(Some(testing::LONG)).map_err(|e| e.to_string())?;
    same(event.map(|e| e.tag), Some("key".to_owned()))?;
    let all = asker.ask(&["*", "test.ping", "-t", "20"])?;
    for id in fleet.ids() {
        same(all.get(id), Some(&json!(true))).map_err(|e| format!("{id}: {e}"))?;
    }
    Ok(())
}

/// After a restart of the master all minions answer again.
pub fn restart(fleet: &mut Fleet, tools: &[Cli], checks: &mut Checks) {
    fleet.master.stop();
    fleet.master.start_again();
    fleet.wait_answering(&tools[1]);
    for cli in tools {
        checks.run(
            &format!("{}: all answer after a restart of the master", cli.name),
            || {
                let all = cli.ask(&["*", "test.echo", "wieder"])?;
                for id in fleet.ids() {
                    same(all.get(id), Some(&json!("wieder"))).map_err(|e| format!("{id}: {e}"))?;
                }
                Ok(())
            },
        );
    }
}
