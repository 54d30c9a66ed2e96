//! Runner and wheel functions through the master. Beside stock's clients: `tests/stock/runner/mod.rs`.

use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value};
use halite_ipc::Subscriber;
use std::time::{Duration, Instant};
use testing::{LONG, Master, wait_for};

/// Sends a clear request as a local client does.
fn ask(master: &Master, load: Map) -> Map {
    let url = tcp_url("127.0.0.1", master.ret_port);
    let mut requester = Requester::new(&url, RequesterOptions::default());
    let envelope = halite::map! {"enc" => "clear", "load" => load, "version" => 3};
    let body = msgpack::encode_map(&envelope, Profile::Wire);
    let answer = requester.ask(&body, LONG).unwrap().expect("an answer");
    msgpack::decode(&answer).unwrap().into_map().unwrap()
}

/// A load with the proof of the master's user.
fn proven(master: &Master, mut load: Map) -> Map {
    let user = halite::sys::process::user_name();
    let path = master.home.cache().join(format!(".{user}_key"));
    load.set("key", std::fs::read_to_string(path).unwrap());
    load.set("user", user);
    load
}

fn runner(master: &Master, fun: &str, arg: Vec<Value>) -> Map {
    let low = halite::map! {"arg" => arg, "kwarg" => Map::new()};
    let load = halite::map! {"cmd" => "runner", "fun" => fun, "kwarg" => low};
    ask(master, proven(master, load))
}

/// The next event with that tag.
fn event(bus: &mut Subscriber, tag: &str) -> Map {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        if let Ok(Some(event)) = bus.next(Some(Duration::from_millis(200)))
            && event.tag == tag
        {
            return msgpack::decode(&event.payload).unwrap().into_map().unwrap();
        }
    }
    panic!("no event {tag}");
}

fn error(answer: &Map) -> (&str, &str) {
    let error = answer
        .get("error")
        .and_then(Value::as_map)
        .expect("an error");
    (error.str("name").unwrap(), error.str("message").unwrap())
}

#[test]
fn a_runner_tells_by_events_and_is_kept() {
    let master = Master::halite("");
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let answer = runner(&master, "test.arg", vec![1.into(), "a".into()]);
    let (tag, jid) = (answer.str("tag").unwrap(), answer.str("jid").unwrap());
    assert_eq!(tag, format!("salt/run/{jid}"));
    let new = event(&mut bus, &format!("{tag}/new"));
    assert_eq!(new.str("fun"), Some("runner.test.arg"));
    assert!(!new.contains("return"));
    let ret = event(&mut bus, &format!("{tag}/ret"));
    let expected = vec![Value::Int(1), "a".into()];
    assert_eq!(ret.get("fun_args"), Some(&Value::from(expected.clone())));
    let value = halite::map! {"args" => expected, "kwargs" => Map::new()};
    assert_eq!(ret.get("return"), Some(&Value::Map(value)));
    assert_eq!(ret.get("success"), Some(&Value::Bool(true)));
    // The event is fired before the record is written.
    let kept = wait_for("the record of the run", || {
        let ran = master.halite_cli().runner(&["jobs.list_job", jid]);
        (ran.status == Some(0) && ran.out.contains("success")).then_some(ran.out)
    });
    assert!(kept.contains("runner.test.arg"), "{kept}");

    let answer = runner(&master, "no.such", Vec::new());
    let ret = event(&mut bus, &format!("{}/ret", answer.str("tag").unwrap()));
    assert_eq!(ret.get("success"), Some(&Value::Bool(false)));
    let text = ret.str("return").unwrap();
    assert!(text.contains("'no.such' is not available."), "{text}");
}

#[test]
fn modules_are_copied_on_the_master() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("_runners")).unwrap();
    std::fs::write(dir.path().join("_runners/own.py"), "X = 1\n").unwrap();
    let master = Master::halite(&format!(
        "salt_series: '3006'\nfile_roots: {{base: ['{}']}}\n",
        dir.path().display()
    ));
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let mut run = |fun: &str| {
        let answer = runner(&master, fun, Vec::new());
        let tag = format!("{}/ret", answer.str("tag").unwrap());
        event(&mut bus, &tag).remove("return").unwrap()
    };
    let done = run("saltutil.sync_all").into_map().unwrap();
    let expected = Value::from(vec!["runners.own".to_owned()]);
    assert_eq!(done.get("runners"), Some(&expected));
    assert!(!done.contains("wrapper"), "3006 has none");
    let copy = master.home.cache().join("extmods/runners/own.py");
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "X = 1\n");
    assert_eq!(run("saltutil.sync_runners"), Value::Array(Vec::new()));
    // What lies there is none of halite's functions.
    let told = run("own.x");
    assert!(told.as_str().unwrap().contains("'own.x' is not available"));
}

/// The run is a process of the master's, and tells of its states; a command that it starts does not take itself for one.
#[test]
fn an_orchestration_runs_states_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let sls = "c: {cmd.run: [{name: 'echo \"{{ salt['test.echo']('a') }}:$(env | grep -c HALITE_ROLE)\"'}, {fire_event: true}]}\n";
    std::fs::write(dir.path().join("host.sls"), sls).unwrap();
    let master = Master::halite(&format!(
        "state_events: true\nfile_roots: {{base: ['{}']}}\n",
        dir.path().display()
    ));
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let answer = runner(&master, "state.orchestrate", vec!["host".into()]);
    let jid = answer.str("jid").unwrap();
    let id = master
        .halite_cli()
        .runner(&["--out", "txt", "config.get", "id"]);
    let id = id.ok().unwrap().trim().to_owned();
    let name = "echo \"a:$(env | grep -c HALITE_ROLE)\"";
    let told = event(&mut bus, &format!("salt/state_result/{jid}/{id}/{name}"));
    let ret = told.get("ret").and_then(Value::as_map).unwrap();
    let changes = ret.get("changes").and_then(Value::as_map).unwrap();
    assert_eq!(changes.str("stdout"), Some("a:0"), "{told:?}");
    event(&mut bus, &format!("salt/run/{jid}/ret"));
}

/// Whoever waits for a run whose process was ended hears of it.
#[test]
fn a_runner_that_is_killed_is_told_of() {
    let master = Master::halite("");
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let answer = runner(&master, "test.sleep", vec![600.into()]);
    let tag = answer.str("tag").unwrap();
    event(&mut bus, &format!("{tag}/new"));
    let proc = master
        .home
        .cache()
        .join("proc")
        .join(answer.str("jid").unwrap());
    // It is listed after its first event.
    let known = wait_for("the run is listed", || std::fs::read(&proc).ok());
    let known = msgpack::decode(&known).unwrap().into_map().unwrap();
    let pid = i32::try_from(known.int("pid").unwrap()).unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    let ret = event(&mut bus, &format!("{tag}/ret"));
    assert_eq!(ret.get("success"), Some(&false.into()));
    assert!(ret.str("return").unwrap().contains("signal 9"), "{ret:?}");
}

/// What comes from data is no slot, runners that call each other come to an end, and a list of others' hardware addresses
/// tells nothing of a file.
#[test]
fn orchestrations_and_runners_stay_within_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace").display().to_string();
    for (name, text) in [
        (
            "slots",
            "own: {test.nop: [{name: '__slot__:salt:test.echo(x)'}]}\ntold: {test.nop: [{name: {{ pillar.told | json }}}]}\n"
                .to_owned(),
        ),
        (
            "deep",
            "{% set more = salt['saltutil.runner']('state.orchestrate', arg=['deep']) %}\na: {test.nop: []}\n".to_owned(),
        ),
        ("typo", "a: {file.append: [{name: /nowhere}, {txt: a}]}\n".to_owned()),
    ] {
        std::fs::write(dir.path().join(format!("{name}.sls")), text).unwrap();
    }
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "correct-horse\n").unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let master = Master::halite(&format!(
        "file_roots: {{base: ['{}']}}\n",
        dir.path().display()
    ));
    let cli = master.halite_cli();
    let told = format!("pillar={{told: '__slot__:salt:cmd.run(touch {trace})'}}");
    let ran = cli.runner(&["state.orchestrate", "slots", &told, "--out=json"]);
    let said = ran.ok().unwrap();
    assert!(
        said.contains(r#""name": "x""#) && said.contains("cmd.run(touch"),
        "{said}"
    );
    assert!(!std::path::Path::new(&trace).exists());
    let ran = cli.runner(&["state.orchestrate", "deep"]);
    assert!(
        ran.status == Some(1) && ran.out.contains("called each other"),
        "{}",
        ran.describe()
    );
    let ran = cli.runner(&["state.orchestrate", "typo"]);
    let why = "'txt' is an invalid keyword argument for 'file.append'";
    assert!(
        ran.status == Some(1) && ran.out.contains(why),
        "{}",
        ran.describe()
    );
    for path in [secret.as_path(), &pipe, std::path::Path::new("/dev/zero")] {
        let ran = cli.runner(&["network.wollist", path.to_str().unwrap(), "127.0.0.1"]);
        assert_eq!(ran.status, Some(1), "{}", ran.describe());
        assert!(!ran.describe().contains("horse"), "{}", ran.describe());
    }
}

#[test]
fn a_wheel_function_is_the_answer() {
    let master = Master::halite("salt_series: 3008");
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let load = halite::map! {"cmd" => "wheel", "fun" => "key.list", "match" => "all"};
    let answer = ask(&master, proven(&master, load));
    let data = answer.get("data").and_then(Value::as_map).unwrap();
    assert_eq!(data.str("fun"), Some("wheel.key.list"));
    assert_eq!(data.get("success"), Some(&Value::Bool(true)));
    let listed = data.get("return").and_then(Value::as_map).unwrap();
    assert!(listed.contains("minions_pre"));
    let tag = answer.str("tag").unwrap();
    event(&mut bus, &format!("{tag}/new"));
    let ret = event(&mut bus, &format!("{tag}/ret"));
    assert_eq!(ret.get("return"), data.get("return"));
}

#[test]
fn nobody_without_a_proof() {
    let master = Master::halite("");
    for cmd in ["runner", "wheel"] {
        let load = || halite::map! {"cmd" => cmd, "fun" => "test.arg"};
        let mut wrong = proven(&master, load());
        wrong.set("key", "guess");
        let (name, _) = (error(&ask(&master, wrong)).0.to_owned(), ());
        assert_eq!(name, "UserAuthenticationError");
        assert_eq!(error(&ask(&master, load())).0, "UserAuthenticationError");
        let mut token = load();
        token.set("token", "0123");
        assert_eq!(error(&ask(&master, token)).0, "TokenAuthenticationError");
        let mut eauth = load();
        eauth.set("eauth", "pam");
        eauth.set("username", "joe");
        let answer = ask(&master, eauth);
        assert!(error(&answer).1.ends_with("occurred for user joe."));
    }
}

#[test]
fn runners_are_counted() {
    let master = Master::halite("runner_processes: 1\nrunner_queue_limit: 1");
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let sleep = || runner(&master, "test.sleep", vec![2.into()]);
    let (first, second, third) = (sleep(), sleep(), sleep());
    assert_eq!(error(&third).0, "SaltClientError");
    // Which of the two gets the slot first is the system's choice.
    let mut open: Vec<String> = [first, second]
        .iter()
        .map(|started| format!("{}/ret", started.str("tag").unwrap()))
        .collect();
    wait_for("the end of both", || {
        let heard = bus.next(Some(Duration::from_millis(200))).ok()??;
        open.retain(|tag| *tag != heard.tag);
        open.is_empty().then_some(())
    });
    wait_for("a free slot", || sleep().str("tag").map(str::to_owned));
}

#[test]
fn a_detached_runner_goes_on() {
    let master = Master::halite("");
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let jid = "20261121092637195592";
    let args = ["--async", "--jid", jid, "test.arg", "x=1"];
    let ran = master.halite_cli().runner(&args);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (Some(0), ""),
        "{}",
        ran.describe()
    );
    let ret = event(&mut bus, &format!("salt/run/{jid}/ret"));
    assert_eq!(ret.get("success"), Some(&Value::Bool(true)));
}

#[test]
fn progress_is_fired_and_shown() {
    let master = Master::halite("");
    let mut bus = Subscriber::connect(master.bus()).unwrap();
    let jid = "20261121092637195593";
    let ran =
        master
            .halite_cli()
            .runner(&["--jid", jid, "jobs.list_jobs", "display_progress=True"]);
    assert!(ran.out.contains("suffix"), "{}", ran.describe());
    let progress = event(&mut bus, &format!("salt/run/{jid}/progress"));
    assert!(progress.contains("message"));
}
