//! An upgrade puts new programs in the place of those that run.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use testing::{Master, Minion, halite_program, short_dir, wait_until};

/// Processes whose parent is `parent`.
fn children(parent: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("there is a /proc").flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let parent_of = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse::<i32>().ok()
    };
    pids.filter(|pid| parent_of(pid) == Some(parent)).collect()
}

#[test]
fn daemons_work_on_when_their_files_are_replaced() {
    let dir = short_dir();
    let [master, minion] = ["halite-master", "halite-minion"].map(|name| {
        let copy = dir.path().join(name);
        fs::copy(halite_program(name), &copy).expect("a program can be copied");
        copy
    });
    let program = master.clone();
    let master = Master::start(program.clone(), "auto_accept: true");
    let _minion = Minion::start(minion.clone(), &master, "m1", "");
    let cli = master.halite_cli();
    let answers = || {
        cli.ask(&["*", "test.ping", "-t", "2"])
            .ok()
            .and_then(|all| all.get("m1").cloned())
            == Some(json!(true))
    };
    wait_until("the minion answers", answers);

    // As a package manager does it: the old file is gone, another has its name.
    for path in [&program, &minion] {
        fs::remove_file(path).expect("a program can be removed");
        fs::write(path, "not a program").expect("a file can be written");
    }
    let before = children(master.id());
    assert!(
        before.len() > 3,
        "the roles are children of the main process: {before:?}"
    );
    before.iter().for_each(|pid| {
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    });
    wait_until("the roles are started again", || {
        let now = children(master.id());
        now.len() == before.len() && now.iter().all(|pid| !before.contains(pid))
    });
    wait_until("the minion answers again", answers);
}
