//! Users with few rights who want more.

use super::*;
use halite::client::local::{ClientError, Credentials, Job, LocalClient, Published};
use halite::crypto::HashType;
use halite::store::Stores;
use halite::wire::ids::{Jid, JidClock};

/// fred may do this much.
const RIGHTS: &str = "\
external_auth:
  file:
    ^filename: DIR/users
    ^filetype: text
    ^hashtype: sha256
    fred:
    - 'web*': [test.*]
    - 'G@role:web': [sys.*]
    - '@wheel':
      - key.finger: {args: ['web.*']}
    mary: ['.*', '@ret']
    john: [test.*, '@metadata']
peer:
  web1: [test.*]
  web2: [test.*, '@ret']
peer_run:
  web1: [test.arg, jobs.list_job]
";

/// A master with the minions web1, web2 and db1.
struct Place {
    target: Target,
    _dir: tempfile::TempDir,
}

impl Place {
    fn start() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let secret = HashType::Sha256.hex(b"geheim");
        let users = ["fred", "mary", "john"].map(|name| format!("{name}:{secret}\n"));
        std::fs::write(dir.path().join("users"), users.concat()).unwrap();
        let rights = RIGHTS.replace("DIR", &dir.path().to_string_lossy());
        let target = Target::start_with(&rights);
        for id in ["web1", "web2", "db1"] {
            Peer::sign_in(&target, id);
        }
        Place { target, _dir: dir }
    }

    fn client(&self, user: &str) -> LocalClient {
        let mut client = self.target.master.client();
        client.set_credentials(Credentials::Login {
            system: "file".into(),
            username: user.into(),
            password: "geheim".into(),
        });
        client
    }

    fn publish(&self, user: &str, job: &Job) -> Result<Published, ClientError> {
        self.client(user).publish(job)
    }

    fn stores(&self) -> Stores {
        Stores::open(&self.target.master.config())
    }
}

fn job(fun: &str, tgt: impl Into<Value>, kind: &str) -> Job {
    Job {
        fun: fun.into(),
        tgt: tgt.into(),
        tgt_type: kind.into(),
        ..Job::default()
    }
}

fn refused(answer: Result<Published, ClientError>, why: &str) {
    match answer {
        Err(ClientError::Refused(_, message)) => assert!(message.contains(why), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_of_narrow_users_name_their_minions() {
    let place = Place::start();
    let mut events = place.target.listen();
    let stores = place.stores();
    for id in ["web1", "db1"] {
        let grains = map! {"role" => "web", "long" => "a".repeat(200)};
        stores
            .minions
            .store(&id.parse().unwrap(), &grains, &Map::new())
            .unwrap();
    }
    // Whatever engine evaluates it, nobody else can be reached.
    for (kind, tgt) in [
        ("glob", Value::from("web1*")),
        ("pcre", "web1".into()),
        ("list", "web1,gone".into()),
        ("list", vec![Value::from("web1")].into()),
        ("compound", "E@web1 or L@gone".into()),
    ] {
        let published = place.publish("fred", &job("test.ping", tgt, kind)).unwrap();
        assert_eq!(published.minions, ["web1"], "{kind}");
        let wanted = format!("salt/job/{}/publish", published.jid);
        let sent = data(&next_event(&mut events, |event| event.tag == wanted));
        assert_eq!(sent.str("tgt_type"), Some("list"), "{kind}");
        assert_eq!(sent.get("tgt"), Some(&vec![Value::from("web1")].into()));
    }
    // Python matches db1 where this engine gives up; that is no target at all, for anybody.
    let trap = "web1$|(?:(?=)|(?=)){18}z|db1";
    let grains = "long:a((?=)|(?=)){18}z";
    for (kind, tgt) in [
        ("pcre", trap.to_owned()),
        ("compound", format!("E@{trap}")),
        ("compound", format!("*1 and not E@{trap}")),
        ("compound", format!("* and not P@{grains}")),
        ("grain_pcre", grains.to_owned()),
    ] {
        for client in [place.client("fred"), place.target.master.client()] {
            let mut client = client;
            let published = client
                .publish(&job("test.ping", tgt.as_str(), kind))
                .unwrap();
            assert!(published.minions.is_empty(), "{tgt}: {published:?}");
            let error = published.error.unwrap_or_default();
            assert!(error.contains("too many steps"), "{tgt}: {error}");
        }
    }
}

#[test]
fn additions_come_with_no_function() {
    let place = Place::start();
    let mut events = place.target.listen();
    let with = |fun: &str, name: &str| {
        let mut job = job(fun, "web1", "glob");
        match name {
            "ret" => job.ret = "rawfile_json".into(),
            name => job.kwargs.set(name, map! {"filename" => "/etc/cron.d/x"}),
        }
        job
    };
    for name in [
        "ret",
        "ret_config",
        "ret_kwargs",
        "module_executors",
        "executor_opts",
        "metadata",
        "start_event",
        "nocache",
    ] {
        for fun in ["saltutil.find_job", "test.ping"] {
            refused(place.publish("fred", &with(fun, name)), "Authorization");
            let published = place.publish("mary", &with(fun, name)).unwrap();
            assert_eq!(published.minions, ["web1"], "{name}");
        }
    }
    assert!(
        place
            .publish("john", &with("test.ping", "metadata"))
            .is_ok()
    );
    refused(
        place.publish("john", &with("test.ping", "ret")),
        "Authorization",
    );
    // What is on no list is dropped, whoever sends it.
    let mut odd = job("test.ping", "web1", "glob");
    for field in [
        "schedule",
        "id",
        "master_id",
        "resource_targets",
        "__ignore_process_count_max",
    ] {
        odd.kwargs.set(field, "evil");
    }
    for client in [place.client("fred"), place.target.master.client()] {
        let mut client = client;
        let published = client.publish(&odd).unwrap();
        let wanted = format!("salt/job/{}/publish", published.jid);
        let sent = next_event(&mut events, |event| event.tag == wanted);
        assert!(!String::from_utf8_lossy(&sent.payload).contains("evil"));
        let kept = place.stores().jobs.get(&published.jid.parse().unwrap());
        assert!(!format!("{:?}", kept.unwrap().unwrap().load).contains("evil"));
    }
}

#[test]
fn additions_of_minions_need_a_permission_too() {
    let place = Place::start();
    let ask = |id: &str, ret: &str| {
        let peer = Peer::sign_in(&place.target, id);
        let load = map! {
            "cmd" => "minion_pub", "fun" => "test.ping", "arg" => Vec::<Value>::new(), "tgt" => "db1",
            "tgt_type" => "glob", "ret" => ret, "id" => id,
        };
        peer.call(&load).unwrap().into_map().unwrap()
    };
    assert!(ask("web1", "").contains("jid"));
    assert!(ask("web1", "rawfile_json").is_empty());
    assert!(ask("web2", "rawfile_json").contains("jid"));
}

#[test]
fn a_minion_puts_nothing_on_a_command_line() {
    let place = Place::start();
    let peer = Peer::sign_in(&place.target, "web1");
    let file = place.target.master.dir.path().join("evil");
    let ask = |keyword: String| {
        let named = map! {"__kwarg__" => true, keyword => 1, "plain" => "x"};
        let load = map! {
            "cmd" => "minion_runner", "fun" => "test.arg", "id" => "web1",
            "arg" => vec![Value::from("--out=quiet"), Value::Map(named)],
        };
        peer.call(&load).unwrap()
    };
    let options = [
        format!("--out-file={}", file.display()),
        "--help".to_owned(),
        "-c".to_owned(),
        "a b\n".to_owned(),
    ];
    for option in options {
        let answer = ask(option.clone()).into_map().unwrap();
        let args: Value = vec![Value::from("--out=quiet")].into();
        assert_eq!(answer.get("args"), Some(&args), "{option}: {answer:?}");
        let kwargs = answer.get("kwargs").and_then(Value::as_map).unwrap();
        assert_eq!(kwargs.str("plain"), Some("x"), "{option}");
        assert!(kwargs.contains(&option), "{kwargs:?}");
    }
    assert!(!file.exists());
}

#[test]
fn a_job_id_is_taken_once() {
    let place = Place::start();
    let mut events = place.target.listen();
    let root = place.target.master.publish_ping("db1");
    let with = |jid: &str| {
        let mut job = job("test.ping", "web1", "glob");
        job.jid = jid.to_owned();
        job
    };
    refused(
        place.publish("fred", &with(&root.jid)),
        "there is a job with this jid",
    );
    for far in ["20010101000000000000", "29990101000000000000"] {
        refused(place.publish("fred", &with(far)), "too far");
    }
    let free = JidClock::default().next();
    let own = place.publish("fred", &with(free.as_str())).unwrap();
    assert_eq!(own.jid, free.as_str());
    // Parts of a batch have one jid; the record names the minions of all.
    let mut other = job("test.echo", "web1", "glob");
    other.jid = free.to_string();
    other.arg = vec!["x".into()];
    refused(
        place.publish("fred", &other),
        "there is a job with this jid",
    );
    let mut part = with(free.as_str());
    part.tgt = "web2".into();
    let part = place.publish("fred", &part).unwrap();
    assert_eq!(part.minions, ["web2"]);
    let kept = place.stores().jobs.get(&free).unwrap().unwrap();
    assert_eq!(kept.minions, ["web1", "web2"]);
    let jid: Jid = root.jid.parse().unwrap();
    let kept = place.stores().jobs.get(&jid).unwrap().unwrap();
    assert_eq!(kept.minions, ["db1"]);
    assert_eq!(kept.load.str("tgt"), Some("db1"));
    // A stranger does not even fire an event about it; about a free one, as the stock client expects.
    let other = JidClock::default().next();
    for jid in [&jid, &other] {
        let load = map! {
            "cmd" => "publish", "user" => "root", "key" => "wrong", "jid" => jid, "tgt" => "*",
            "fun" => "test.ping", "arg" => Vec::<Value>::new(), "kwargs" => Map::new(),
        };
        place
            .target
            .ask_value(&map! {"enc" => "clear", "version" => 3, "load" => load}.into());
    }
    let mut about = Vec::new();
    let ended = format!("salt/job/{other}/error");
    next_event(&mut events, |event| {
        about.push(event.tag.clone());
        event.tag == ended
    });
    assert!(
        !about.contains(&format!("salt/job/{jid}/error")),
        "{about:?}"
    );
}

#[test]
fn arguments_are_checked_as_they_are_executed() {
    let place = Place::start();
    let finger = |arg: &[&str]| {
        let arg: Vec<Value> = arg.iter().map(|a| Value::from(*a)).collect();
        let load = map! {"cmd" => "wheel", "fun" => "key.finger", "arg" => arg};
        place.client("fred").call_master(load)
    };
    let answer = finger(&["web1"]).unwrap();
    assert!(format!("{answer:?}").contains("web1"), "{answer:?}");
    for hidden in [&["a=b,db1", "web1"][..], &["match=db1", "web1"], &["db1"]] {
        assert!(finger(hidden).is_err(), "{hidden:?}");
    }
    // Given by place and by name.
    let both = map! {
        "cmd" => "wheel", "fun" => "key.finger", "arg" => vec![Value::from("web1")],
        "kwarg" => map! {"match" => "db1"},
    };
    assert!(place.client("fred").call_master(both.clone()).is_err());
    let answer = format!(
        "{:?}",
        place.target.master.client().call_master(both).unwrap()
    );
    assert!(
        answer.contains("multiple values") && !answer.contains("db1"),
        "{answer}"
    );
}

#[test]
fn long_names_leave_no_trace_in_the_log() {
    let mut target = Target::start();
    let before = target.master.log().len();
    let long = "x".repeat(256 << 10);
    let asks = |load: Map| {
        target.ask_value(&map! {"enc" => "clear", "version" => 3, "load" => load}.into());
    };
    for cmd in ["publish", "runner", "wheel", "mk_token"] {
        for field in ["user", "username", "eauth"] {
            let mut load = map! {
                "cmd" => cmd, "fun" => "test.ping", "tgt" => "*", "arg" => Vec::<Value>::new(),
                "user" => "root", "key" => "x",
            };
            if field != "user" {
                for own in ["username", "eauth", "password"] {
                    load.set(own, "x");
                }
            }
            load.set(field, long.as_str());
            asks(load);
        }
    }
    let grown = target.master.log().len() - before;
    assert!(grown < 64 << 10, "the log grew by {grown} bytes");
    target.is_fine("long names");
}
