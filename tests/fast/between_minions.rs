//! What minions ask of each other through the master: each only in its own name, and only what
//! the configuration allows.

use halite::client::swarm::session::{MinionKeys, Session, SignIn};
use halite::map;
use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::{Map, Value};
use std::path::PathBuf;
use testing::harness::{LIMIT, Master, keys};

/// A minion with a session.
struct Peer<'a> {
    master: &'a Master,
    id: String,
    keys: MinionKeys,
    session: Session,
}

fn ask(master: &Master, body: &[u8]) -> Vec<u8> {
    let url = tcp_url("127.0.0.1", master.ret_port);
    let mut requester = Requester::new(&url, RequesterOptions::default());
    requester.ask(body, LIMIT).unwrap().expect("an answer")
}

impl<'a> Peer<'a> {
    fn sign_in(master: &'a Master, id: &str) -> Peer<'a> {
        let keys = keys("minion");
        let (sign_in, request) = SignIn::begin(id, &keys, None, None);
        let session = sign_in.finish(None, &ask(master, &request)).unwrap();
        Peer {
            master,
            id: id.to_owned(),
            keys,
            session,
        }
    }

    /// Sends a load as the channel does; an id in it is the test's.
    fn call(&self, cmd: &str, mut load: Map) -> Value {
        load.set("cmd", cmd);
        if !load.contains("id") {
            load.set("id", self.id.as_str());
        }
        let (request, nonce) = self.session.seal(&self.id, &self.keys, &load);
        self.session
            .open(&nonce, &ask(self.master, &request))
            .unwrap()
    }

    fn publish(&self, tgt: &str, fun: &str, arg: Vec<Value>) -> Map {
        let load = map! {
            "fun" => fun, "arg" => arg, "tgt" => tgt, "tgt_type" => "glob", "ret" => "", "tmo" => 5,
            "form" => "clean",
        };
        self.call("minion_pub", load).into_map().unwrap()
    }
}

fn cache(master: &Master, below: &str) -> PathBuf {
    master.config().cachedir.join(below)
}

fn empty() -> Value {
    Map::new().into()
}

const PEER: &str = "peer:\n  a:\n    - test.ping\n    - b: [cmd.run: {args: ['uptime$']}]\n";

#[test]
fn a_mine_is_written_by_its_owner_and_read_by_whom_it_allows() {
    let master = Master::start("");
    let [a, b] = ["a", "b"].map(|id| Peer::sign_in(&master, id));
    let restricted = map! {"__saltmine_acl__" => 1, "__data__" => "secret", "allow_tgt" => "b"};
    let data = map! {"open" => 1, "closed" => restricted};
    assert_eq!(a.call("_mine", map! {"data" => data}), true.into());
    let get = |who: &Peer, fun: &str| who.call("_mine_get", map! {"tgt" => "*", "fun" => fun});
    assert_eq!(get(&b, "open"), map! {"a" => 1}.into());
    assert_eq!(get(&b, "closed"), map! {"a" => "secret"}.into());
    assert_eq!(get(&a, "closed"), empty());

    // Only its own, whatever the load says beside the id of the channel.
    assert_eq!(b.call("_mine_delete", map! {"fun" => "open"}), true.into());
    assert_eq!(b.call("_mine_flush", map! {}), false.into());
    assert_eq!(get(&a, "open"), map! {"a" => 1}.into());
    let replaced = map! {"data" => map! {"new" => 2}, "clear" => true};
    assert_eq!(a.call("_mine", replaced), true.into());
    assert_eq!(get(&b, "open"), empty());
    assert_eq!(get(&b, "new"), map! {"a" => 2}.into());

    // Too large or of another form: refused, and what is there stays.
    let many: Map = (0..10_001).map(|n| (n.to_string(), 1)).collect();
    assert_eq!(a.call("_mine", map! {"data" => many}), false.into());
    assert_eq!(a.call("_mine", map! {"data" => 5}), false.into());
    assert_eq!(get(&b, "new"), map! {"a" => 2}.into());
    assert_eq!(a.call("_mine_flush", map! {}), true.into());
    assert_eq!(get(&b, "new"), empty());
}

#[test]
fn jobs_of_minions_need_a_rule_and_their_returns_are_the_owners() {
    let master = Master::start(PEER);
    let [a, b] = ["a", "b"].map(|id| Peer::sign_in(&master, id));
    let published = a.publish("*", "test.ping", vec![]);
    let jid = published.str("jid").unwrap().to_owned();
    assert_eq!(published.get("minions").unwrap().str_list(), ["a", "b"]);
    let owner = std::fs::read_to_string(cache(&master, "publish_auth").join(&jid)).unwrap();
    assert_eq!(owner, "a");
    let ret = map! {"jid" => jid.as_str(), "return" => true, "retcode" => 0, "success" => true, "fun" => "test.ping"};
    b.call("_return", ret);
    let fetched = a.call("pub_ret", map! {"jid" => jid.as_str()});
    assert_eq!(fetched, map! {"b" => map! {"ret" => true}}.into());

    // Nobody else's, no other file, nothing that was not started by a minion.
    assert_eq!(b.call("pub_ret", map! {"jid" => jid.as_str()}), empty());
    let local = master.publish_ping("*").jid;
    for jid in [local.as_str(), "../../../etc/passwd", "..", "", "1"] {
        assert_eq!(a.call("pub_ret", map! {"jid" => jid}), empty(), "{jid}");
    }

    let uptime = || vec!["uptime".into()];
    assert!(a.publish("b", "cmd.run", uptime()).contains("jid"));
    for (who, tgt, fun, arg) in [
        (&b, "*", "test.ping", vec![]),
        (&a, "*", "cmd.run", uptime()),
        (&a, "b", "cmd.run", vec!["uptime; id".into()]),
        (&a, "b", "cmd.run", vec!["cmd=uptime".into()]),
        (&a, "b", "test.ping,cmd.run", vec!["".into(), "id".into()]),
        (&a, "b", "cmd.run,test.ping", vec!["id".into(), "".into()]),
        (&a, "b", "publish.publish", vec![]),
        (
            &a,
            "b",
            "test.ping,publish.publish",
            vec!["".into(), "".into()],
        ),
        (&a, "b", "", vec![]),
    ] {
        assert_eq!(who.publish(tgt, fun, arg), Map::new(), "{} {fun}", who.id);
    }
    let odd = map! {"fun" => "test.ping", "arg" => "x", "tgt" => "*", "ret" => ""};
    assert_eq!(a.call("minion_pub", odd), empty());
    let runner = map! {"fun" => "jobs.list_jobs", "arg" => Vec::<Value>::new()};
    assert_eq!(a.call("minion_runner", runner), empty());
}

#[test]
fn who_asks_is_the_channels_id() {
    let master = Master::start(PEER);
    let [_a, b] = ["a", "b"].map(|id| Peer::sign_in(&master, id));
    for cmd in [
        "_mine",
        "_mine_get",
        "minion_pub",
        "pub_ret",
        "_syndic_return",
    ] {
        let load = map! {
            "id" => "a", "cmd" => cmd, "data" => map! {"x" => 1}, "tgt" => "*", "fun" => "test.ping",
            "arg" => Vec::<Value>::new(), "ret" => "", "jid" => "20261121120000000001",
            "nonce" => "0123456789abcdef0123456789abcdef", "ts" => 0,
            "tok" => b.keys.token().to_vec(),
        };
        let answer = ask(&master, &b.session.seal_raw("b", &load));
        assert_eq!(answer, b"\xa8bad load", "{cmd}");
    }
    assert!(!cache(&master, "mine").exists());
}

#[test]
fn returns_of_others_come_through_syndics_only() {
    let jid = "20261121120000000001";
    let batch = |id: &str| {
        let one = map! {
            "id" => "elsewhere", "jid" => jid, "fun" => "test.ping",
            "load" => map! {"fun" => "test.ping", "tgt" => "*"},
            "return" => map! {id => map! {"return" => "forged", "id" => "x", "jid" => "y"}},
        };
        map! {"load" => vec![Value::from(one)]}
    };
    let kept = |master: &Master| {
        let jobs = halite::store::Stores::open(&master.config()).jobs;
        jobs.get(&jid.parse().unwrap())
            .unwrap()
            .map(|job| job.returns)
            .unwrap_or_default()
    };
    let plain = Master::start("keep_jobs_seconds: 0");
    Peer::sign_in(&plain, "s").call("_syndic_return", batch("below"));
    assert!(kept(&plain).is_empty(), "order_masters is off");
    assert!(!cache(&plain, "syndics").exists());

    let upper = Master::start("order_masters: true\nkeep_jobs_seconds: 0");
    let [s, _own] = ["s", "own"].map(|id| Peer::sign_in(&upper, id));
    for id in ["own", "../x", "", ".y"] {
        s.call("_syndic_return", batch(id));
    }
    assert!(kept(&upper).is_empty(), "{:?}", kept(&upper));
    s.call("_syndic_return", batch("below"));
    s.call("_syndic_return", batch("below"));
    let returns = kept(&upper);
    assert_eq!(returns.len(), 1);
    let load = &returns[0].load;
    assert_eq!(
        (load.str("id"), load.str("jid")),
        (Some("below"), Some(jid))
    );
    assert_eq!(load.str("return"), Some("forged"));

    // Jobs are removed by the time in their jid; one of the far future would never be.
    let future = "99991231235959999999";
    let job = |jid: &str| {
        let load = map! {"fun" => "test.ping", "tgt" => "*"};
        Value::from(map! {"jid" => jid, "load" => load, "return" => Map::new()})
    };
    let mut many = vec![job(future); 10_000];
    many.push(job("20261121120000000002"));
    s.call("_syndic_return", map! {"load" => many});
    let jobs = halite::store::Stores::open(&upper.config()).jobs;
    for jid in [future, "20261121120000000002"] {
        assert!(jobs.get(&jid.parse().unwrap()).unwrap().is_none(), "{jid}");
    }
    // The syndic's own id makes the file, not what the load says (CVE-2024-22231).
    let names: Vec<_> = std::fs::read_dir(cache(&upper, "syndics"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names, ["s"]);
}
