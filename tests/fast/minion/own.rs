//! What the minion does by itself or is told by its functions: the schedule, refreshing, custom modules.

use super::pair::*;
use halite::wire::{Map, Value};
use halite_ipc::Subscriber;
use testing::harness::{Master, eventually};

fn kwargs(mut map: Map) -> Value {
    map.set("__kwarg__", true);
    map.into()
}

fn ret(map: &Map) -> Value {
    map.get("return").cloned().unwrap()
}

/// A master with files and a pillar in its own directory.
fn master(files: &[(&str, &str)]) -> Master {
    let master = Master::start("pillar_roots: {base: [PILLAR]}\n");
    for (path, text) in files {
        let file = master.dir.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    master
}

/// The same, told where they are.
fn with_roots(extra_files: &[(&str, &str)]) -> Pair {
    let mut master = master(extra_files);
    let conf = master.dir.path().join("master");
    let text = std::fs::read_to_string(&conf).unwrap();
    let root = master.dir.path().display().to_string();
    let text = text.replace("PILLAR", &format!("{root}/pillar"))
        + &format!("\nfile_roots: {{base: ['{root}/files']}}\nfileserver_list_cache_time: 0\n");
    std::fs::write(&conf, text).unwrap();
    master.signal(nix::sys::signal::Signal::SIGTERM);
    master.wait_end(testing::harness::LIMIT).unwrap();
    master.restart();
    let bus = listen(&master);
    let minion = Minion::start(ports(&master), "m1", "");
    let mut pair = Pair::new(master, bus, minion);
    pair.started();
    pair
}

#[test]
fn the_schedule_of_the_configuration_runs() {
    let schedule =
        "mine_enabled: false\nschedule: {own: {function: test.echo, args: [tick], seconds: 3600}}";
    let mut pair = Pair::start("", schedule);
    let (_, data) = wait(&mut pair.bus, |e, data| {
        e.tag.ends_with("/ret/m1") && data.contains("schedule")
    });
    assert_eq!(
        (text(&data, "schedule"), text(&data, "return")),
        ("own", "tick")
    );
    assert_ne!(text(&data, "jid"), "req", "the master has given it a jid");
    let status = ret(&pair.run("schedule.job_status", &["own".into()]));
    assert!(status.as_map().unwrap().contains("_last_run"));
}

#[test]
fn beacons_see_files_and_services() {
    let watched = tempfile::tempdir().unwrap();
    let dir = watched.path().display();
    let beacons = format!(
        "beacons:\n  inotify: [{{files: {{{dir}: {{mask: [create, delete]}}}}}}]\n  \
         service: [{{services: {{no-such-service: {{}}}}}}]\n"
    );
    let mut pair = Pair::start("", &beacons);
    let place = format!("salt/beacon/m1/inotify/{dir}");
    // Both look in the same turn, so the directory is watched by now.
    let (_, data) = wait(&mut pair.bus, |e, _| {
        e.tag == "salt/beacon/m1/service/no-such-service"
    });
    let state = data.get("no-such-service").and_then(Value::as_map).unwrap();
    assert_eq!(state.get("running"), Some(&false.into()));
    let file = watched.path().join("new");
    std::fs::write(&file, "x").unwrap();
    let change = |bus: &mut Subscriber, kind: &str| {
        let (_, data) = wait(bus, |e, data| {
            e.tag == place && data.str("change") == Some(kind)
        });
        assert_eq!(text(&data, "path"), file.to_str().unwrap());
    };
    change(&mut pair.bus, "IN_CREATE");
    std::fs::remove_file(&file).unwrap();
    change(&mut pair.bus, "IN_DELETE");
}

#[test]
fn the_schedule_is_changed_by_its_functions() {
    let mut pair = Pair::start("", "mine_enabled: false");
    let job = kwargs(halite::map! {
        "function" => "test.echo", "job_args" => vec![Value::from("tock")], "seconds" => 1,
    });
    let said = ret(&pair.run("schedule.add", &["j".into(), job]));
    let want = halite::map! {
        "comment" => "Added job: j to schedule.", "result" => true, "changes" => halite::map! {"j" => "added"},
    };
    assert_eq!(said, want.into());
    for _ in 0..2 {
        let (_, data) = wait(&mut pair.bus, |e, data| {
            e.tag.ends_with("/ret/m1") && data.str("schedule") == Some("j")
        });
        assert_eq!(text(&data, "return"), "tock");
    }
    let file = pair.minion.path("minion.d/_schedule.conf");
    assert!(
        std::fs::read_to_string(&file)
            .unwrap()
            .contains("test.echo")
    );
    let off = ret(&pair.run("schedule.disable_job", &["j".into()]));
    assert_eq!(
        off.as_map().unwrap().str("comment"),
        Some("Disabled Job j in schedule.")
    );
    let listed = ret(&pair.run("schedule.list", &[]));
    let listed = listed.as_str().unwrap().to_owned();
    assert!(
        listed.contains("enabled: false") && listed.contains("saved: true"),
        "{listed}"
    );
    // What is kept is there after a restart.
    pair.minion.kill();
    pair.minion.restart();
    pair.started();
    let one = ret(&pair.run("schedule.is_enabled", &["j".into()]));
    assert_eq!(one.as_map().unwrap().get("enabled"), Some(&false.into()));
    let run = ret(&pair.run(
        "schedule.run_job",
        &["j".into(), kwargs(halite::map! {"force" => true})],
    ));
    assert_eq!(
        run.as_map().unwrap().str("comment"),
        Some("Scheduling Job j on minion.")
    );
    wait(&mut pair.bus, |e, data| {
        e.tag.ends_with("/ret/m1") && data.str("schedule") == Some("j")
    });
    let gone = ret(&pair.run("schedule.delete", &["j".into()]));
    assert_eq!(
        gone.as_map().unwrap().str("comment"),
        Some("Deleted Job j from schedule.")
    );
}

#[test]
fn a_job_is_copied_and_moved_to_another_minion() {
    let mut pair = Pair::start("peer: {m1: [schedule.add]}", "mine_enabled: false");
    let _other = Minion::start(ports(&pair.master), "m2", "mine_enabled: false");
    wait(&mut pair.bus, |e, _| e.tag == "salt/minion/m2/start");
    let job = kwargs(halite::map! {
        "function" => "test.echo", "job_args" => vec![Value::from("tock")], "seconds" => 1,
        "job_kwargs" => Map::new(), "metadata" => halite::map! {"a" => 1},
    });
    let run = |pair: &mut Pair, fun: &str, target: &str| {
        let said = ret(&pair.run(fun, &["j".into(), target.into()]));
        said.into_map().unwrap()
    };
    let add = |pair: &mut Pair| pair.run("schedule.add", &["j".into(), job.clone()]);
    add(&mut pair);
    let said = run(&mut pair, "schedule.copy", "nobody");
    let why = "no servers answered the published schedule.add command";
    assert_eq!(said.str("comment"), Some(why));
    let said = run(&mut pair, "schedule.move", "m2");
    assert_eq!(
        said.str("comment"),
        Some("Moved Job j from schedule."),
        "{said:?}"
    );
    assert_eq!(said.get("minions"), Some(&vec!["m2".to_owned()].into()));
    let (_, data) = wait(&mut pair.bus, |e, data| {
        e.tag.ends_with("/ret/m2") && data.str("schedule") == Some("j")
    });
    assert_eq!(text(&data, "return"), "tock");
    let metadata = data.get("metadata").and_then(Value::as_map).unwrap();
    assert!(metadata.int("a") == Some(1) && metadata.contains("_TS"));
    let listed = ret(&pair.run("schedule.list", &[]));
    assert!(
        !listed.as_str().unwrap().contains("test.echo"),
        "{listed:?}"
    );
    // It is there already.
    add(&mut pair);
    let said = run(&mut pair, "schedule.copy", "m2");
    let why = "the following minions return False";
    assert_eq!(said.str("comment"), Some(why));
}

#[test]
fn pillar_files_and_blackout() {
    let top = ("pillar/top.sls", "base: {'*': [data]}\n");
    let module = ("files/_modules/mine_own.py", "def x(): pass\n");
    let script = "#!/bin/sh\n[ $1 = call ] && echo '{\"return\": 7}' || echo '{\"functions\": {\"seven\": {}}}'\n";
    let script = ("files/_modules/script.sh", script);
    let note = ("files/_modules/README", "no module\n");
    let mut pair = with_roots(&[
        top,
        ("pillar/data.sls", "colour: red\n"),
        module,
        script,
        note,
    ]);
    let colour = |pair: &mut Pair| {
        let open = kwargs(halite::map! {"unmask" => true});
        ret(&pair.run("pillar.get", &["colour".into(), open]))
    };
    assert_eq!(colour(&mut pair), "red".into());

    let synced = ret(&pair.run("saltutil.sync_all", &[]));
    let synced = synced.as_map().unwrap().clone();
    assert_eq!(
        synced.get("modules").unwrap().str_list(),
        ["modules.mine_own", "modules.script"]
    );
    let copy = "var/cache/halite/minion/extmods/modules/mine_own.py";
    assert!(pair.minion.path(copy).exists());
    assert_eq!(ret(&pair.run("script.seven", &[])), 7.into());

    let data = pair.master.dir.path().join("pillar/data.sls");
    let wait = || kwargs(halite::map! {"wait" => true});
    std::fs::write(&data, "colour: blue\n").unwrap();
    assert_eq!(
        ret(&pair.run("saltutil.refresh_pillar", &[wait()])),
        true.into()
    );
    assert_eq!(colour(&mut pair), "blue".into());

    std::fs::write(&data, "minion_blackout: true\n").unwrap();
    pair.run("saltutil.refresh_pillar", &[wait()]);
    let dark = pair.run("test.ping", &[]);
    assert!(
        text(&dark, "return").contains("Minion in blackout mode"),
        "{dark:?}"
    );
    std::fs::write(&data, "colour: green\n").unwrap();
    pair.run("saltutil.refresh_pillar", &[wait()]);
    assert_eq!(ret(&pair.run("test.ping", &[])), true.into());
}

#[test]
fn states_at_the_start_are_a_job() {
    let mut pair = Pair::start("", "startup_states: highstate\nmine_enabled: false");
    let (_, data) = wait(&mut pair.bus, |e, data| {
        e.tag.ends_with("/ret/m1") && data.str("fun") == Some("state.highstate")
    });
    assert!(!text(&data, "jid").is_empty());
    pair.run("test.ping", &[]);
}

#[test]
fn an_idle_minion_sleeps() {
    let mut pair = Pair::start("", "mine_enabled: false");
    pair.run("test.ping", &[]);
    let pid = pair.minion.pid();
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks
            .flatten()
            .map(|task| {
                let status =
                    std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
                let line = status
                    .lines()
                    .find(|l| l.starts_with("voluntary_ctxt_switches"));
                line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok())
                    .unwrap_or(0)
            })
            .sum()
    };
    eventually("three seconds with hardly a wake-up", || {
        let before = switches();
        std::thread::sleep(std::time::Duration::from_secs(3));
        // ZeroMQ's heartbeats come every ten seconds.
        switches() - before < 12
    });
}
