//! Classes of flaws that stock Salt had, tried on a real master; docs/cve.md names the tests.
//! What belongs to one module alone is tested there.

use halite::client::swarm::session::{MinionKeys, Session, SignIn};
use halite::map;
use halite::sys::time::unix_now_i64;
use halite::transport::requester::{Requester, RequesterOptions};
use halite::transport::sockets::tcp_url;
use halite::wire::msgpack::{self, Profile};
use halite::wire::{Map, Value};
use halite_ipc::Subscriber;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use testing::harness::{LIMIT, Master, keys};

const NONCE: &str = "0123456789abcdef0123456789abcdef";

/// Methods of stock's classes, and what every Python object has.
const METHODS: &[&str] = &[
    "_send_pub",
    "_send_ssh_pub",
    "_prep_auth_info",
    "_prep_jid",
    "_prep_pub",
    "_prep_pillar",
    "_handle_clear",
    "__init__",
    "__class__",
    "__getattribute__",
    "__setup_fileserver",
    "_AESFuncs__verify_minion",
    "destroy",
    "expose_methods",
    "get_method",
    "run_func",
    "verify_minion",
    "wheel_async",
    "runner_async",
    "connect",
    "event",
    "opts",
    "ckminions",
    "loadauth",
    "mminion",
    "fs_",
    "ping.__call__",
    "publish ",
    "Publish",
    "",
];

struct Peer<'a> {
    master: &'a Master,
    id: &'a str,
    keys: MinionKeys,
    session: Session,
}

fn ask(master: &Master, body: &[u8]) -> Vec<u8> {
    let url = tcp_url("127.0.0.1", master.ret_port);
    let mut requester = Requester::new(&url, RequesterOptions::default());
    requester.ask(body, LIMIT).unwrap().expect("an answer")
}

fn ask_clear(master: &Master, load: Map) -> Value {
    let envelope = map! {"enc" => "clear", "load" => load, "version" => 3};
    let body = msgpack::encode_map(&envelope, Profile::Wire);
    msgpack::decode(&ask(master, &body)).unwrap()
}

impl<'a> Peer<'a> {
    fn sign_in(master: &'a Master, id: &'a str) -> Peer<'a> {
        let keys = keys("minion");
        let (sign_in, request) = SignIn::begin(id, &keys, None, None);
        let session = sign_in.finish(None, &ask(master, &request)).unwrap();
        Peer {
            master,
            id,
            keys,
            session,
        }
    }

    fn call(&self, cmd: &str, mut load: Map) -> Value {
        load.set("cmd", cmd);
        let (request, nonce) = self.session.seal(self.id, &self.keys, &load);
        self.session
            .open(&nonce, &ask(self.master, &request))
            .unwrap()
    }

    fn fire(&self, tag: &str, data: Map) {
        self.call("_minion_event", map! {"tag" => tag, "data" => data});
    }
}

fn listen(master: &Master) -> Subscriber {
    Subscriber::connect(master.config().sock_dir.join("master_event_pub.ipc")).unwrap()
}

/// Tags and data up to and with the first event of that tag.
fn events_until(events: &mut Subscriber, tag: &str) -> Vec<(String, Map)> {
    let end = Instant::now() + LIMIT;
    let mut seen = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let event = events.next(Some(left)).unwrap().expect(tag);
        let data = msgpack::decode(&event.payload).unwrap();
        let last = event.tag == tag;
        seen.push((event.tag, data.into_map().unwrap()));
        if last {
            return seen;
        }
    }
}

/// CVE-2020-11651, CVE-2021-25281: names of methods are not commands, without a session or with one.
#[test]
fn no_command_by_reflection() {
    let master = Master::start("");
    let mut events = listen(&master);
    let job = || {
        map! {
            "fun" => "test.ping", "tgt" => "*", "tgt_type" => "glob", "arg" => Vec::<Value>::new(),
            "ret" => "", "jid" => "20261121120000000001", "user" => "root", "key" => "",
        }
    };
    for cmd in METHODS {
        let mut load = job();
        load.set("cmd", *cmd);
        assert_eq!(ask_clear(&master, load), Map::new().into(), "{cmd:?}");
    }
    let peer = Peer::sign_in(&master, "m1");
    let sealed = ["publish", "runner", "wheel", "mk_token", "_auth", "ping"];
    for cmd in METHODS.iter().chain(&sealed) {
        assert_eq!(peer.call(cmd, job()), Map::new().into(), "{cmd:?}");
    }
    // Nor do the commands that are there do anything without a proof.
    for cmd in ["publish", "runner", "wheel"] {
        for (proof, value) in [
            ("user", Value::from("root")),
            ("key", Value::Nil),
            ("key", "".into()),
            ("key", Value::Array(vec![])),
            ("token", "../../../etc/passwd".into()),
            ("token", Value::Nil),
            ("eauth", "auto".into()),
            ("eauth", "__init__".into()),
            ("password", "secret".into()),
        ] {
            let mut load = job();
            load.set("cmd", cmd);
            load.set(
                "fun",
                if cmd == "wheel" {
                    "key.list_all"
                } else {
                    "test.ping"
                },
            );
            load.set(proof, value.clone());
            let answer = ask_clear(&master, load);
            let refused = answer.as_map().is_some_and(|m| m.contains("error"));
            assert!(refused, "{cmd} with {proof}={value:?}: {answer:?}");
        }
    }
    peer.fire("end", Map::new());
    for (tag, data) in events_until(&mut events, "end") {
        // As in Salt, a refused job with a jid is told to whoever waits for it; without proofs.
        if tag.starts_with("salt/job/") && tag.ends_with("/error") {
            let proofs = ["key", "token", "password"];
            assert!(proofs.iter().all(|p| !data.contains(p)), "{data:?}");
            continue;
        }
        let forbidden = ["salt/job/", "salt/run/", "salt/wheel/"];
        assert!(!forbidden.iter().any(|f| tag.starts_with(f)), "{tag}");
    }
}

/// CVE-2024-38822: every command of a minion wants the token, also those that do harm to nobody.
#[test]
fn every_command_of_a_minion_wants_its_token() {
    let master = Master::start("");
    let peer = Peer::sign_in(&master, "m1");
    let thief = keys("master");
    for cmd in [
        "_return",
        "_syndic_return",
        "_minion_event",
        "_pillar",
        "_master_opts",
        "_master_tops",
        "_mine",
        "_mine_get",
        "_mine_delete",
        "_mine_flush",
        "_file_envs",
        "_file_find",
        "_file_hash",
        "_file_hash_and_stat",
        "_file_list",
        "_file_list_emptydirs",
        "_file_recv",
        "_dir_list",
        "_symlink_list",
        "_serve_file",
        "minion_pub",
        "minion_publish",
        "minion_runner",
        "pub_ret",
        "revoke_auth",
        "_register_resources",
        "no_such",
    ] {
        let mut load = map! {
            "cmd" => cmd, "id" => "m1", "nonce" => NONCE, "ts" => unix_now_i64(), "grains" => Map::new(),
        };
        let bad_load = b"\xa8bad load";
        assert_eq!(
            ask(&master, &peer.session.seal_raw("m1", &load)),
            bad_load,
            "{cmd}"
        );
        for token in [
            Value::Nil,
            "".into(),
            Value::Bytes(thief.token().to_vec()),
            Value::Bytes(vec![0; 256]),
        ] {
            load.set("tok", token);
            let sealed = peer.session.seal_raw("m1", &load);
            assert_eq!(ask(&master, &sealed), bad_load, "{cmd} {load:?}");
        }
    }
    assert!(master.config().pki_dir.join("minions/m1").exists());
}

const REACTION: &str = "
tell:
  runner.event.send:
    - args:
      - tag: told
      - data:
          text: {{ data['data']['text'] | json }}
";

/// CVE-2021-25283 and its kin: what minions say is put into templates, never rendered.
#[test]
fn words_of_minions_are_no_templates() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("react.sls", REACTION);
    write("top.sls", "base: {m1: [a]}");
    write("a.sls", "said: {{ grains['said'] | json }}\n");
    let master = Master::start(&format!(
        "reactor:\n  - 'ask/*': [{}]\npillar_roots: {{base: ['{}']}}",
        path("react.sls"),
        dir.path().display()
    ));
    let mark = path("mark");
    let evil = format!("{{{{ salt['cmd.run']('touch {mark}') }}}}{{% include 'react.sls' %}}#!py");
    let mut events = listen(&master);
    let peer = Peer::sign_in(&master, "m1");
    peer.fire("ask/me", map! {"text" => evil.as_str()});
    let seen = events_until(&mut events, "told");
    let told = &seen.last().unwrap().1;
    let data = told.get("data").and_then(Value::as_map).unwrap_or(told);
    assert_eq!(data.str("text"), Some(evil.as_str()));

    // The pillar goes out under a key of its own; what the master keeps of it can be read here.
    let load = map! {
        "cmd" => "_pillar", "grains" => map! {"id" => "m1", "said" => evil.as_str()}, "saltenv" => "base",
        "pillarenv" => "../..", "ver" => "2", "ext" => map! {"git" => "ext::touch mark"},
        "virtkey" => "../../x", "clean_cache" => true, "pillar_override" => Map::new(),
    };
    let (request, _) = peer.session.seal("m1", &peer.keys, &load);
    ask(&master, &request);
    let config = master.config();
    let kept = std::fs::read(config.cachedir.join("pillar/m1.p")).unwrap();
    let kept = msgpack::decode(&kept).unwrap().into_map().unwrap();
    assert_eq!(
        kept.str("said"),
        None,
        "an environment that is a path has no pillar"
    );

    let load = map! {
        "cmd" => "_pillar", "grains" => map! {"id" => "m1", "said" => evil.as_str()}, "saltenv" => "base",
        "ver" => "2",
    };
    let (request, _) = peer.session.seal("m1", &peer.keys, &load);
    ask(&master, &request);
    let kept = std::fs::read(config.cachedir.join("pillar/m1.p")).unwrap();
    let kept = msgpack::decode(&kept).unwrap().into_map().unwrap();
    assert_eq!(kept.str("said"), Some(evil.as_str()));
    assert!(!Path::new(&mark).exists());
    // CVE-2025-22241: a request for a pillar touches no key.
    assert_eq!(
        files(&config.pki_dir.join("minions_pre")),
        Vec::<PathBuf>::new()
    );
    assert!(!config.pki_dir.join("x").exists());
}

/// All regular files below a directory.
fn files(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => open.push(entry.path()),
                kind if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// CVE-2020-17490: what lies below the caches and beside public keys is the master's alone.
#[test]
fn secrets_are_the_masters_alone() {
    let master = Master::start("");
    let peer = Peer::sign_in(&master, "m1");
    let jid = master.publish_ping("m1").jid;
    let ret = map! {
        "jid" => jid.as_str(), "return" => "secret", "retcode" => 0, "success" => true, "fun" => "test.ping",
    };
    peer.call("_return", ret);
    peer.call("_mine", map! {"data" => map! {"secret" => 1}});
    let load = map! {"cmd" => "_pillar", "grains" => map! {"id" => "m1"}, "saltenv" => "base", "ver" => "2"};
    ask(&master, &peer.session.seal("m1", &peer.keys, &load).0);
    let config = master.config();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&config.pki_dir), 0o700);
    assert_eq!(mode(&config.pki_dir.join("master.pem")), 0o400);
    let found = files(&config.cachedir);
    let has = |part: &str| found.iter().any(|p| p.to_string_lossy().contains(part));
    for part in [
        "_key",
        "sessions/m1",
        "joblog/",
        "mine",
        "grains/m1",
        "pillar/m1",
    ] {
        assert!(has(part), "{part} in {found:?}");
    }
    for path in &found {
        assert_eq!(
            mode(path) & 0o077,
            0,
            "{}: {:o}",
            path.display(),
            mode(path)
        );
    }
    // Nor does the log hold a key of the session or of the master's account.
    let log = master.log();
    for path in found.iter().filter(|p| {
        let text = p.to_string_lossy();
        text.ends_with("_key") || text.contains("sessions/")
    }) {
        let secret = std::fs::read_to_string(path).unwrap();
        assert!(!log.contains(secret.trim()), "{}", path.display());
    }
}
