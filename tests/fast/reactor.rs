//! Reactions to events and the master's schedule, with halite's own daemons.

use halite::map;
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value};
use halite_ipc::{Event, Framing, Publisher, Subscriber};
use std::path::Path;
use std::time::{Duration, Instant};
use testing::{LONG, Master, Minion, wait_until};

fn listen(master: &Master) -> Subscriber {
    Subscriber::connect(master.bus()).unwrap()
}

fn fire(master: &Master, tag: &str, data: Map) {
    let path = master.home.sockets().join("master_event_pull.ipc");
    let payload = msgpack::encode_map(&data, Profile::Local);
    let tag = tag.to_owned();
    let mut bus = Publisher::connect(path, Framing::Prefixed).unwrap();
    bus.fire(&Event { tag, payload }).unwrap();
}

/// The next event that `wanted` likes.
fn event(bus: &mut Subscriber, what: &str, wanted: impl Fn(&str, &Map) -> bool) -> Map {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        if let Ok(Some(event)) = bus.next(Some(Duration::from_millis(200))) {
            let data = msgpack::decode(&event.payload).unwrap().into_map();
            let data = data.unwrap_or_default();
            if wanted(&event.tag, &data) {
                return data;
            }
        }
    }
    panic!("no event: {what}");
}

/// The next run of a function by this user.
fn run(bus: &mut Subscriber, user: &str, fun: &str) -> Vec<Value> {
    let data = event(bus, fun, |tag, data| {
        tag.ends_with("/new") && data.str("fun") == Some(fun) && data.str("user") == Some(user)
    });
    data.get("fun_args").unwrap().as_array().unwrap().to_vec()
}

fn job(bus: &mut Subscriber, fun: &str) -> Map {
    event(bus, fun, |tag, data| {
        tag.starts_with("salt/job/") && tag.ends_with("/new") && data.str("fun") == Some(fun)
    })
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

const CALLS: &str = "
new:
  local.test.arg:
    - tgt: '{{ data.data.who }}'
    - args: [{a: 1}, {tag: {{ tag }}}]
    - metadata: {m: 1}
old:
  cmd.test.echo:
    - tgt: [m]
    - tgt_type: list
    - arg: [x]
    - kwarg: {k: v}
runner:
  runner.test.arg:
    - args: {x: 1}
bare:
  runner.test.raw_arg:
    - first: 2
wheel:
  wheel.key.name_match:
    - match: 'm*'
caller:
  caller.test.arg:
    - args: [c]
";

fn start(dir: &Path) -> Master {
    let place = dir.display();
    let master = Master::halite(&format!(
        "auto_accept: true\nfile_roots: {{base: ['{place}']}}\nreactor:\n  - 'my/calls/*': ['{place}/calls.sls']\n  \
         - my/salt: salt://calls.sls\n  - my/broken: ['{place}/broken.sls', '{place}/next.sls']\n  \
         - my/next: ['{place}/nex?.sls']\n  - my/none: ['{place}/none.sls']\n  - 'salt/run/*/new': ['{place}/next.sls']\n"
    ));
    wait_until("the reactor listens", || {
        log(&master).contains("all roles serve")
    });
    master
}

fn log(master: &Master) -> String {
    std::fs::read_to_string(master.home.log()).unwrap_or_default()
}

fn next(what: &str) -> String {
    format!("n: {{runner.test.metasyntactic: [{{args: [{{locality: {what}}}]}}]}}\n")
}

#[test]
fn reactions_call_jobs_runners_and_wheel_functions() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[
            ("calls.sls", CALLS),
            ("broken.sls", "x: {{ nothing.of.this }}\n"),
            ("next.sls", &next("us")),
        ],
    );
    let master = start(dir.path());
    let mut bus = listen(&master);
    let _minion = Minion::halite(&master, "m", "");
    event(&mut bus, "the minion starts", |tag, _| {
        tag == "salt/minion/m/start"
    });

    for tag in ["my/calls/1", "my/salt"] {
        let mut calls = listen(&master);
        fire(&master, tag, map! {"data" => map! {"who" => "m"}});
        let old = job(&mut calls, "test.echo");
        let keyword = map! {"k" => "v", "__kwarg__" => true};
        let arg: Value = vec![Value::from("x"), keyword.into()].into();
        assert_eq!(old.get("arg"), Some(&arg), "{tag}");
        assert_eq!(old.str("tgt_type"), Some("list"));
        // The client is written out first, so jobs keep their order.
        let new = job(&mut calls, "test.arg");
        let keyword = map! {"__kwarg__" => true, "a" => 1, "tag" => tag};
        let arg = new.get("arg").and_then(Value::as_array).unwrap();
        assert_eq!(arg.len(), 1, "{new:?}");
        let found = arg[0].as_map().unwrap();
        assert!(
            keyword
                .iter()
                .all(|(k, v)| found.get(k.as_str().unwrap()) == Some(v))
        );
    }
    // Runners and wheel functions run side by side, in no order.
    for (fun, args) in [
        ("runner.test.arg", vec![map! {"x" => 1}.into()]),
        ("runner.test.raw_arg", vec![map! {"first" => 2}.into()]),
        ("wheel.key.name_match", vec![map! {"match" => "m*"}.into()]),
        ("runner.salt.cmd", vec!["test.arg".into(), "c".into()]),
    ] {
        let mut calls = listen(&master);
        fire(&master, "my/calls/2", map! {"data" => map! {"who" => "m"}});
        assert_eq!(run(&mut calls, "Reactor", fun), args, "{fun}");
    }

    // A file that cannot be rendered, and one that is not there, stop nothing.
    let mut calls = listen(&master);
    fire(&master, "my/none", map! {});
    fire(&master, "my/broken", map! {});
    let fun = "runner.test.metasyntactic";
    assert_eq!(
        run(&mut calls, "Reactor", fun),
        [map! {"locality" => "us"}.into()]
    );
    let log = log(&master);
    assert!(
        log.contains("broken.sls: the reaction to my/broken cannot be rendered"),
        "{log}"
    );
    assert!(log.contains("there is no reaction file"), "{log}");

    // A file is read again when it changes.
    write(dir.path(), &[("next.sls", &next("somewhere else"))]);
    let mut calls = listen(&master);
    fire(&master, "my/next", map! {});
    let args = run(&mut calls, "Reactor", fun);
    assert_eq!(args, [map! {"locality" => "somewhere else"}.into()]);

    // The runs of reactions, which `salt/run/*/new` would match, begin nothing: the next thing
    // that happens is what was asked for.
    fire(
        &master,
        "my/calls/3",
        map! {"data" => map! {"who" => "nobody"}},
    );
    let first = event(&mut calls, "any run", |tag, data| {
        tag.ends_with("/new") && data.str("user") == Some("Reactor")
    });
    assert_ne!(first.str("fun"), Some(fun));
}

#[test]
fn files_come_from_all_backends_of_the_file_server() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    let macros = "{% macro call(what) %}{runner.test.metasyntactic: [{args: [{locality: '{{ what }}'}]}]}{% endmacro %}\n";
    let files = [
        ("reactor/macros.jinja", macros),
        (
            "reactor/x.sls",
            "{% from 'reactor/macros.jinja' import call %}\nx: {{ call(tpldir ~ data.n) }}\n",
        ),
        (
            "orch/init.sls",
            "{% from 'reactor/macros.jinja' import call with context %}\n\
             include: [.sub]\n{{ sls }}: {test.nop: [{name: '{{ tplfile }} {{ slspath }}'}]}\n",
        ),
        ("orch/sub.sls", "sub: {test.nop: []}\n"),
    ];
    let url = testing::git::repository(&repo, &files);
    let place = dir.path().display();
    write(dir.path(), &[("plain.sls", "p: {test.nop: []}\n")]);
    let master = Master::halite(&format!(
        "fileserver_backend: [roots, gitfs]\ngitfs_remotes: ['{url}']\ngitfs_base: main\n\
         file_roots: {{base: ['{place}']}}\nreactor: [{{my/git: 'salt://reactor/x.sls'}}]\n"
    ));
    let cli = master.halite_cli();
    wait_until("the reactor listens", || {
        log(&master).contains("all roles serve")
    });
    let states = |mods: &str| {
        let ran = cli.runner(&["--out", "json", "state.orchestrate", mods]);
        let value = ran.json().unwrap();
        let data = value["data"].as_object().unwrap().clone();
        let states = data.into_iter().next().unwrap().1;
        let states = states.as_object().unwrap_or_else(|| panic!("{value}"));
        states.keys().cloned().collect::<Vec<String>>()
    };
    let fetch = || {
        wait_until("the repository is fetched", || {
            cli.runner(&["fileserver.update"]).ok().unwrap();
            let listed = cli.runner(&["--out", "json", "fileserver.file_list"]);
            let listed = listed.json().unwrap();
            // In quotes: the directory that is served beside it holds the repository itself.
            let has = |name: &str| listed.to_string().contains(&format!("\"{name}\""));
            repo.join("late.sls").exists() == has("late.sls") && has("orch/sub.sls")
        });
    };
    fetch();
    assert_eq!(
        states("orch,plain"),
        [
            "test_|-sub_|-sub_|-nop",
            "test_|-orch_|-orch/init.sls orch_|-nop",
            "test_|-p_|-p_|-nop"
        ]
    );
    let mut calls = listen(&master);
    fire(&master, "my/git", map! {"n" => 1});
    let fun = "runner.test.metasyntactic";
    let args = |locality: &str| [Value::from(map! {"locality" => locality})];
    assert_eq!(run(&mut calls, "Reactor", fun), args(".1"));

    // What was pushed counts once it is fetched.
    let changed = macros.replace("{{ what }}", "new");
    let more = [
        ("reactor/macros.jinja", changed.as_str()),
        ("late.sls", "late: {test.nop: []}\n"),
    ];
    testing::git::repository(&repo, &more);
    fetch();
    assert_eq!(states("late"), ["test_|-late_|-late_|-nop"]);
    fire(&master, "my/git", map! {"n" => 2});
    assert_eq!(run(&mut calls, "Reactor", fun), args("new"));
}

#[test]
fn runner_functions_manage_the_reactor() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("next.sls", &next("us"))]);
    let master = start(dir.path());
    let cli = master.halite_cli();
    let ask = |args: &[&str]| {
        let mut all = vec!["--out", "json"];
        all.extend(args);
        cli.runner(&all).json().unwrap()
    };
    let tags = || {
        let list = ask(&["reactor.list"]);
        let list = list.as_array().unwrap().clone();
        list.iter()
            .map(|e| e.as_object().unwrap().keys().next().unwrap().clone())
            .collect::<Vec<_>>()
    };
    let file = format!("reactors={}/next.sls", dir.path().display());
    assert!(!tags().contains(&"my/added".to_owned()));
    assert_eq!(ask(&["reactor.add", "my/added", &file])["status"], true);
    assert_eq!(ask(&["reactor.add", "my/added", &file])["status"], false);
    assert!(tags().contains(&"my/added".to_owned()));
    let mut bus = listen(&master);
    fire(&master, "my/added", map! {});
    run(&mut bus, "Reactor", "runner.test.metasyntactic");
    assert_eq!(ask(&["reactor.set_leader", "False"]), false);
    assert_eq!(ask(&["reactor.is_leader"]), false);
    assert_eq!(ask(&["reactor.set_leader"]), true);
    assert_eq!(ask(&["reactor.delete", "my/added"])["status"], true);
    assert_eq!(ask(&["reactor.delete", "my/added"])["status"], false);

    // Whoever hears the bus does not learn the key.
    let mut heard = listen(&master);
    tags();
    let asked = event(&mut heard, "the request", |tag, _| {
        tag.ends_with("salt/reactors/manage/list")
    });
    assert!(asked.contains("proof") && !asked.contains("key"));

    // Without the key nothing changes.
    for wrong in ["key", "proof"] {
        let mut data = map! {"event" => "my/forged", "reactors" => vec![Value::from("/x")]};
        data.set(wrong, "");
        fire(&master, "salt/reactors/manage/add", data);
    }
    assert!(!tags().contains(&"my/forged".to_owned()));
}

/// What a reaction file sees of the pillar before and after a change.
fn pillar_seen(interval: u64) -> [Value; 2] {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    let seen = "n: {runner.test.metasyntactic: [{args: [{locality: '{{ pillar.x }}'}]}]}\n";
    write(
        dir.path(),
        &[
            ("top.sls", "base: {'*': [x]}\n"),
            ("x.sls", "x: old\n"),
            ("seen.sls", seen),
        ],
    );
    let master = Master::halite(&format!(
        "reactor_refresh_interval: {interval}\npillar_roots: {{base: ['{place}']}}\n\
         reactor:\n  - my/seen: ['{place}/seen.sls']\n"
    ));
    wait_until("the reactor listens", || {
        log(&master).contains("all roles serve")
    });
    let mut bus = listen(&master);
    let mut ask = || {
        fire(&master, "my/seen", map! {});
        let args = run(&mut bus, "Reactor", "runner.test.metasyntactic");
        args[0].as_map().unwrap().get("locality").unwrap().clone()
    };
    let before = ask();
    // Of another length, so that it counts as changed whatever the clock of files says.
    write(dir.path(), &[("x.sls", "x: newer\n")]);
    [before, ask()]
}

#[test]
fn what_reactions_see_is_built_once_per_refresh() {
    assert_eq!(pillar_seen(3600), ["old".into(), "old".into()]);
    assert_eq!(pillar_seen(0), ["old".into(), "newer".into()]);
}

/// Nice values of the master's processes.
fn nice_values(master: &Master) -> Vec<i64> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        // After the name in brackets: state, parent, ...; nice is the 17th.
        let fields: Vec<&str> = match stat.rsplit_once(')') {
            Some((_, rest)) => rest.split_whitespace().collect(),
            None => continue,
        };
        if fields[1] == master.id().to_string() {
            found.push(fields[16].parse().unwrap());
        }
    }
    found.sort_unstable();
    found
}

#[test]
fn the_reactor_may_be_nice() {
    let master = Master::halite("reactor_niceness: 7\nreactor: [{my/tag: [/none.sls]}]\n");
    wait_until("the reactor is nice", || {
        log(&master).contains("the reactor runs with the nice value")
    });
    let all = nice_values(&master);
    let most = all.last().unwrap() - all.first().unwrap();
    assert_eq!(most, 7, "{all:?}");
    assert_eq!(all.iter().filter(|n| *n != all.first().unwrap()).count(), 1);
}

#[test]
fn the_schedule_runs_functions() {
    let master = Master::halite(
        "schedule:\n  tick: {function: test.arg, args: [a], kwargs: {k: v}, seconds: 1}\n  \
         slow: {function: test.sleep, args: [600], seconds: 1, maxrunning: 1}\n  \
         wheel: {function: wheel.key.list_all, seconds: 1}\n  \
         wrong: {function: no.such, seconds: 1}\n  bad: {function: test.arg, seconds: often}\n",
    );
    let mut bus = listen(&master);
    let mut sleeping = 0;
    for _ in 0..3 {
        let data = event(&mut bus, "a turn", |tag, data| {
            let ours = tag.ends_with("/new") && data.str("user") == Some("scheduler");
            ours && data.str("fun") != Some("wheel.key.list_all")
        });
        match data.str("fun") {
            Some("runner.test.sleep") => sleeping += 1,
            _ => assert_eq!(
                data.get("fun_args"),
                Some(&vec![Value::from("a"), map! {"k" => "v"}.into()].into())
            ),
        }
    }
    assert!(sleeping <= 1, "one run at a time");
    event(&mut bus, "a wheel function", |tag, data| {
        tag.ends_with("/ret") && data.str("fun") == Some("wheel.key.list_all")
    });
    wait_until("wrong jobs are named", || {
        let log = log(&master);
        log.contains("the scheduled job wrong: 'no.such' is not available")
            && log.contains("schedule: bad: `seconds` must be a whole number")
    });
}

#[test]
fn what_finds_no_room_is_dropped_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let sleep = |id: &str| format!("{id}: {{runner.test.sleep: [{{args: {{s_time: 600}}}}]}}\n");
    let many: String = ["a", "b", "c", "d"].map(sleep).concat();
    write(dir.path(), &[("many.sls", &many)]);
    let master = Master::halite(&format!(
        "reactor_worker_threads: 1\nreactor_worker_hwm: 1\nreactor:\n  - my/many: ['{}/many.sls']\n",
        dir.path().display()
    ));
    wait_until("the reactor listens", || {
        log(&master).contains("all roles serve")
    });
    fire(&master, "my/many", map! {});
    // One runs, one waits. The log tells of the first of the others; of further ones a minute later.
    wait_until("reactions are dropped", || {
        log(&master).contains("is dropped: the queue is full")
    });
}
