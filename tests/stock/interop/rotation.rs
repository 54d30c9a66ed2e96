//! The key of publications changes again and again under stock minions, by age and by deletions of keys: they run every job,
//! whatever key it was made with, and pass over what only halite's minions understand.

use halite_ipc::Subscriber;
use serde_json::json;
use std::time::SystemTime;
use testing::check::same;
use testing::{Checks, Cli, LONG, Master, Minion, Stock, wait_until};

const STOCK: [&str; 2] = ["m3006", "m3008"];
const OURS: &str = "mhalite";

/// Both series and a halite minion at one master.
pub fn all(old: &Stock, new: &Stock) {
    let master = Master::halite("auto_accept: true\npublish_session: 3\nrotation_grace: 1");
    let minions = [
        Minion::stock(old, &master, STOCK[0], ""),
        Minion::stock(new, &master, STOCK[1], ""),
        Minion::halite(&master, OURS, ""),
    ];
    let cli = master.halite_cli();
    wait_until("all answer", || ping(&cli).is_ok());
    // Sessions end after `publish_session` as well, which is not what is looked at here. One may have ended already.
    wait_until("all answer in sessions that last", || {
        for sessions in ["sessions", "sessions_gcm"] {
            let sessions = std::fs::read_dir(master.home.cache().join(sessions)).unwrap();
            for file in sessions.flatten() {
                let file = std::fs::File::open(file.path()).unwrap();
                file.set_modified(SystemTime::now() + LONG).unwrap();
            }
        }
        let signs_in = || {
            let log = log(&minions[2]);
            let times = |text| log.matches(text).count();
            (times("signing in again"), times("signed in at"))
        };
        let before = signs_in();
        ping(&cli).is_ok() && signs_in() == before && before.0 < before.1
    });
    // Minions that begin may well meet a change between their sign-in and their first publication.
    let begun = minions.each_ref().map(|minion| log(minion).len());
    let since = |at: usize| {
        log(&minions[at])
            .get(begun[at]..)
            .unwrap_or_default()
            .to_owned()
    };
    let mut keys = Subscriber::connect(master.bus())
        .unwrap()
        .with_prefix("key");
    let mut checks = Checks::default();
    // Each ping makes the key one that minions have, so that the offer of the next is announced under it.
    checks.run("keys that grow old", || {
        for _ in 0..2 {
            let event = keys.next(Some(LONG)).map_err(|e| e.to_string())?;
            same(event.map(|e| e.tag), Some("key".to_owned()))?;
            ping(&cli)?;
        }
        Ok(())
    });
    let pki = master.home.pki().join("minions");
    for ghost in ["ghost1", "ghost2", "ghost3"] {
        checks.run(&format!("deletion of {ghost}"), || {
            std::fs::copy(pki.join(STOCK[0]), pki.join(ghost)).map_err(|e| e.to_string())?;
            cli.key(&["-d", ghost, "-y"]).ok()?;
            ping(&cli)
        });
    }
    checks.run("the last of them has its change", || {
        let event = keys.next(Some(LONG)).map_err(|e| e.to_string())?;
        same(event.map(|e| e.tag), Some("key".to_owned()))?;
        ping(&cli)
    });
    checks.run("halite's minion has not signed in again", || {
        same(since(2).matches("signed in at").count(), 0)
    });
    for (at, minion) in minions[..2].iter().enumerate() {
        checks.run(&format!("{} took offence at nothing", minion.id), || {
            let log = since(at);
            let bad = |line: &&str| line.contains("Traceback") || line.contains("[CRITICAL]");
            same(log.lines().find(bad), None)
        });
    }
    checks.finish();
}

/// One job for all, which all must run.
fn ping(cli: &Cli) -> Result<(), String> {
    let all = cli.ask(&["*", "test.ping", "-t", "20"])?;
    for id in STOCK.into_iter().chain([OURS]) {
        same(all.get(id), Some(&json!(true))).map_err(|e| format!("{id}: {e}"))?;
    }
    Ok(())
}

fn log(minion: &Minion) -> String {
    std::fs::read_to_string(minion.home.log()).unwrap_or_default()
}
