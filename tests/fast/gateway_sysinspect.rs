//! The gateway for sysinspect minions: a real master, and clients that say what minions say.

use halite::crypto::{PrivateKey, PublicKey};
use halite::map;
use halite::sysinspect::wire::{
    Code, Decoder, Dialect, MAX_FRAME, MachineId, MasterMessage, MessageKind, MinionMessage,
};
use halite::wire::{Map, Value};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};
use testing::{Master, wait_until};

/// A master with the gateway on a free port.
fn master(settings: &str) -> (Master, u16) {
    master_with("gather_job_timeout: 1", settings)
}

/// The same with options of its own beside the gateway's settings.
fn master_with(options: &str, settings: &str) -> (Master, u16) {
    let ports = testing::ports::Ports::hold(1);
    let port = ports.numbers()[0];
    ports.release();
    let master = Master::halite(&format!(
        "{options}\ngateways: {{sysinspect: {{interface: 127.0.0.1, port: {port}, {settings}}}}}"
    ));
    wait_until("the gateway listens", || testing::ports::listens(port));
    (master, port)
}

/// A connection of a minion.
struct Client {
    id: MachineId,
    dialect: Dialect,
    stream: TcpStream,
    decoder: Decoder,
}

const SESSION: &str = "2407458d-fa33-419a-9e26-9e783ec17a73";

impl Client {
    fn connect(port: u16, id: &str, dialect: Dialect) -> Client {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        Client {
            id: id.parse().unwrap(),
            dialect,
            stream,
            decoder: Decoder::new(MAX_FRAME),
        }
    }

    fn send(&mut self, kind: MessageKind, data: impl Into<Value>) {
        let mut message = MinionMessage::new(&self.id, kind, data);
        if self.dialect == Dialect::Modern {
            message.session = SESSION.into();
        }
        self.write(&message.to_frame(self.dialect).unwrap());
    }

    fn answer(&mut self, kind: MessageKind, data: impl Into<Value>, cycle: &str, code: Code) {
        let mut message = MinionMessage::new(&self.id, kind, data);
        message.code = code;
        message.cycle = cycle.into();
        self.write(&message.to_frame(self.dialect).unwrap());
    }

    fn write(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).unwrap();
    }

    /// The next message, or `None` when the master has closed.
    fn next(&mut self) -> Option<MasterMessage> {
        let end = Instant::now() + testing::LONG;
        let mut buffer = [0; 4096];
        while Instant::now() < end {
            if let Some(body) = self.decoder.next_body().unwrap() {
                return Some(MasterMessage::decode(body, self.dialect).unwrap());
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
        panic!("{}: nothing is heard", self.id);
    }

    /// The next message that is no ping, which is answered.
    fn heard(&mut self) -> Option<MasterMessage> {
        loop {
            let message = self.next()?;
            match message.kind {
                MessageKind::Pi => self.send(MessageKind::Po, SESSION),
                _ => return Some(message),
            }
        }
    }

    fn hello(&mut self, data: impl Into<Value>) -> MasterMessage {
        self.send(MessageKind::Ehlo, data);
        self.heard().unwrap()
    }
}

fn traits(host: &str) -> Map {
    map! {
        "system.hostname" => host, "system.os.name" => "Debian GNU/Linux",
        "system.os.distribution" => "debian", "system.net.eth0.ipv4" => "192.168.7.5",
        "system.net.lo.ipv4" => "127.0.0.1", "hardware.cpu.total" => 2,
    }
}

/// Lives as a minion does, in a thread, until the master closes the connection.
fn live(mut client: Client, own: Map) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        while let Some(message) = client.heard() {
            match message.kind {
                MessageKind::Tr if client.dialect == Dialect::Seed => {
                    client.send(MessageKind::Tr, Value::from(own.clone()));
                }
                MessageKind::Tr => client.send(MessageKind::Tr, own.clone()),
                MessageKind::Cmd if client.dialect == Dialect::Seed => {
                    let text = format!("did {}", message.data.as_str().unwrap());
                    client.answer(MessageKind::Rsp, text, "", Code::Success);
                }
                MessageKind::Cmd if message.targets[0].scheme.starts_with("cmd://cluster") => {}
                MessageKind::Cmd => {
                    let target = &message.targets[0];
                    let event = map! {
                        "eid" => target.scheme.as_str(), "cid" => message.cycle.as_str(),
                        "response" => map! {"retcode" => 3, "message" => target.context.as_str()},
                    };
                    client.send(MessageKind::Evt, event);
                    let end = map! {"cid" => message.cycle.as_str()};
                    client.send(MessageKind::Mvt, end);
                }
                MessageKind::Rm => {}
                other => panic!("{other} was not expected"),
            }
        }
    })
}

const LATER: &str = "30006546535e428aba0a0caa6712e225";
const SEED: &str = "aaaa6546535e428aba0a0caa6712e2ff";

#[test]
fn a_modern_minion_is_a_minion() {
    let (master, port) = master("ping_interval: 1");
    let cli = master.halite_cli();
    let own = PrivateKey::generate(1048).unwrap().public();

    // Nobody knows it.
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    let answer = client.hello(traits("web-w1"));
    assert_eq!(
        (answer.kind, answer.code),
        (MessageKind::Undef, Code::NotRegistered)
    );
    let told = PublicKey::from_pem(answer.data.as_str().unwrap()).unwrap();
    let shown = cli.key(&["-f", "master.pub", "--out=json"]).json().unwrap();
    assert_eq!(shown["sysinspect"]["master.pub"], told.pkcs1_fingerprint());
    assert_eq!(client.next(), None);

    // It registers, and waits.
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    client.send(MessageKind::Add, own.to_pkcs1_pem());
    let answer = client.heard().unwrap();
    assert_eq!(
        (answer.kind, answer.code),
        (MessageKind::Retry, Code::Success)
    );
    assert_eq!(client.next(), None);
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    assert_eq!(client.hello(traits("web-w1")).kind, MessageKind::Undef);
    let listed = cli.key(&["-l", "un", "--out=json"]).json().unwrap();
    assert_eq!(listed["minions_pre"], json!([LATER]));
    let finger = cli.key(&["-f", LATER]).ok().unwrap();
    assert!(finger.contains(&own.pkcs1_fingerprint()), "{finger}");
    cli.key(&["-y", "-a", LATER]).ok().unwrap();

    // It is let in.
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    let answer = client.hello(traits("web-w1"));
    assert_eq!((answer.kind, answer.code), (MessageKind::Tr, Code::Success));
    assert_eq!(answer.data, Value::from(SESSION));
    // Its old connection ends as soon as it connects again.
    let mut second = Client::connect(port, LATER, Dialect::Modern);
    let answer = second.hello(traits("web-w1"));
    assert_eq!((answer.kind, answer.code), (MessageKind::Tr, Code::Success));
    assert_eq!(client.heard(), None);
    let life = live(second, traits("web-w1"));

    let asked = |args: &[&str]| cli.ask(args).unwrap();
    assert_eq!(asked(&["*", "test.ping"])[LATER], true);
    let grains = asked(&[LATER, "grains.items"]);
    assert_eq!(grains[LATER]["system.hostname"], "web-w1");
    assert_eq!(grains[LATER]["os"], "debian");
    let ran = cli.salt(&[
        LATER,
        "sysinspect.call",
        "router/net/up",
        "iface=eth0",
        "--out=json",
    ]);
    let done = ran.returns().unwrap();
    assert_eq!(
        done[LATER]["actions"][0]["response"]["message"],
        "iface:eth0"
    );
    for target in [
        "system.os.name:Debian*",
        "system.net.*.ipv4:192.168.*",
        "os:Debian",
        "gateway:sysinspect",
    ] {
        assert_eq!(asked(&["-G", target, "test.ping"]).len(), 1, "{target}");
    }
    assert_eq!(
        asked(&["-C", "G@system.net.*.ipv4:192.* and *225", "test.ping"]).len(),
        1
    );
    assert_eq!(asked(&["-S", "192.168.7.0/24", "test.ping"]).len(), 1);
    assert_eq!(
        asked(&[LATER, "no.such"])[LATER],
        "'no.such' is not available."
    );

    // As of any minion: presence, jobs.
    wait_until("it is present", || {
        let ran = cli.runner(&["manage.present", "--out=json"]);
        ran.json().is_ok_and(|present| present == json!([LATER]))
    });
    let jobs = cli
        .runner(&["jobs.list_jobs", "--out=json"])
        .json()
        .unwrap();
    let called = jobs.as_object().unwrap().iter();
    let (jid, _) = called
        .into_iter()
        .find(|(_, job)| job["Function"] == "sysinspect.call")
        .unwrap();
    let looked = cli
        .runner(&["jobs.lookup_jid", jid, "--out=json"])
        .json()
        .unwrap();
    assert_eq!(looked[LATER]["actions"][0]["eid"], "router/net/up");

    // Its registration ends.
    assert_eq!(asked(&[LATER, "sysinspect.unregister"])[LATER], true);
    life.join().unwrap();
    let listed = cli.key(&["-L", "--out=json"]).json().unwrap();
    assert_eq!(listed["minions"], json!([]));
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    assert_eq!(client.hello(traits("web-w1")).kind, MessageKind::Undef);
}

#[test]
fn a_minion_of_the_seed_registers_with_its_id_under_the_masters_key() {
    let (master, port) = master("ping_interval: 1");
    let cli = master.halite_cli();
    let register = |cipher: &dyn Fn(&PublicKey) -> Vec<u8>| {
        let mut client = Client::connect(port, SEED, Dialect::Seed);
        client.send(MessageKind::Add, "");
        let answer = client.heard().unwrap();
        assert_eq!(
            (answer.kind, answer.code),
            (MessageKind::Add, Code::Success)
        );
        let key = PublicKey::from_pem(answer.data.as_str().unwrap()).unwrap();
        client.send(MessageKind::Ehlo, Value::Bytes(cipher(&key)));
        let answer = client.heard().unwrap();
        assert_eq!(client.next(), None);
        (answer.kind, answer.code)
    };
    let wrong = register(&|key| key.encrypt_pkcs1v15(b"somebody").unwrap());
    assert_eq!(wrong, (MessageKind::Undef, Code::GeneralFailure));
    assert_eq!(register(&|key| vec![1; key.size()]), wrong);
    let listed = cli.key(&["-L", "--out=json"]).json().unwrap();
    assert_eq!(listed["minions_pre"], json!([]));
    let waits = register(&|key| key.encrypt_pkcs1v15(SEED.as_bytes()).unwrap());
    assert_eq!(waits, (MessageKind::Undef, Code::NotRegistered));
    cli.key(&["-y", "-a", SEED]).ok().unwrap();

    // Once more: it is registered already.
    let mut client = Client::connect(port, SEED, Dialect::Seed);
    client.send(MessageKind::Add, "");
    let answer = client.heard().unwrap();
    assert_eq!(
        (answer.kind, answer.code),
        (MessageKind::Retry, Code::AlreadyRegistered)
    );
    assert_eq!(client.next(), None);

    let mut client = Client::connect(port, SEED, Dialect::Seed);
    let answer = client.hello("");
    assert_eq!((answer.kind, answer.code), (MessageKind::Tr, Code::Success));
    client.send(MessageKind::Tr, traits("db-2"));
    let life = live(client, traits("db-2"));
    let asked = |args: &[&str]| cli.ask(args).unwrap();
    assert_eq!(asked(&[SEED, "test.ping"])[SEED], true);
    let words = [SEED, "sysinspect.call", "uptime", "here"];
    assert_eq!(asked(&words)[SEED], "did uptime here");
    wait_until("its traits are grains", || {
        asked(&["-G", "system.hostname:db-*", "test.ping"]).len() == 1
    });
    // The operator ends it.
    cli.key(&["-y", "-d", SEED]).ok().unwrap();
    life.join().unwrap_err();
}

/// Whatever is sent: nothing is stored, and the master goes on.
#[test]
fn bad_input() {
    let (master, port) = master("hello_timeout: 1, max_frame: 4096, registrations_per_minute: 3");
    let cli = master.halite_cli();
    let frame = |body: &str| {
        let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        frame.extend_from_slice(body.as_bytes());
        frame
    };
    let bodies = [
        "",
        "{not json",
        "[]",
        "null",
        r#"{"id":"a1","r":"zzz","d":"","c":0}"#,
        r#"{"id":"a1","r":"ehlo","d":""}"#,
        r#"{"id":"../a1","r":"add","d":"","c":0}"#,
        r#"{"id":"a/b","sid":"","r":"add","d":"pem","c":0}"#,
        r#"{"id":"","r":"add","d":"","c":0}"#,
        r#"{"id":"a1","r":"ehlo","d":"","c":-1}"#,
        r#"{"id":"a1","r":"po","d":"","c":0}"#,
    ];
    // The last two: the beginning of a frame over the limit, and one that never ends.
    let heads = [vec![0xff, 0xff, 0xff, 0xff, b'{'], vec![0, 0, 16, 0, b'{']];
    let sent: Vec<Vec<u8>> = bodies.map(frame).into_iter().chain(heads).collect();
    let clients: Vec<Client> = sent
        .iter()
        .map(|octets| {
            let mut client = Client::connect(port, "a1", Dialect::Seed);
            client.write(octets);
            client
        })
        .collect();
    for (mut client, octets) in clients.into_iter().zip(sent) {
        // Real masters say nothing to that and listen on; here a connection that never says hello ends.
        let shown = String::from_utf8_lossy(&octets).into_owned();
        assert_eq!(client.next(), None, "{shown}");
    }
    // What is no key.
    let mut client = Client::connect(port, "a1", Dialect::Modern);
    client.send(MessageKind::Add, "-----BEGIN RSA PUBLIC KEY-----");
    let answer = client.heard().unwrap();
    assert_eq!(
        (answer.kind, answer.code),
        (MessageKind::Retry, Code::GeneralFailure)
    );
    // A flood of registrations.
    let key = PrivateKey::generate(1048).unwrap().public().to_pkcs1_pem();
    let codes: Vec<Code> = (0..4)
        .map(|n| {
            let mut client = Client::connect(port, &format!("f{n}"), Dialect::Modern);
            client.send(MessageKind::Add, key.as_str());
            client.heard().unwrap().code
        })
        .collect();
    let (good, bad) = (Code::Success, Code::GeneralFailure);
    assert_eq!(codes, [good, good, bad, bad]);
    let listed = cli.key(&["-L", "--out=json"]).json().unwrap();
    assert_eq!(listed["minions_pre"], json!(["f0", "f1"]));
    assert_eq!(
        (&listed["minions"], &listed["minions_denied"]),
        (&json!([]), &json!([]))
    );
}

/// A minion of the first days: it takes commands and answers none. The command line waits as long as the
/// gateway says that the job runs; then, without the minion, it says that it is not connected.
#[test]
fn a_job_that_nobody_ends() {
    let (master, port) = master("auto_accept: true, job_timeout: 3, ping_interval: 1");
    let cli = master.halite_cli();
    let key = PrivateKey::generate(1048).unwrap().public().to_pkcs1_pem();
    let mut client = Client::connect(port, LATER, Dialect::E1);
    client.send(MessageKind::Add, key);
    assert_eq!(client.heard().unwrap().code, Code::Success);
    let mut client = Client::connect(port, LATER, Dialect::E1);
    assert_eq!(client.hello(SESSION).code, Code::Success);
    let (stop, stopped) = std::sync::mpsc::channel();
    let life = std::thread::spawn(move || {
        while stopped.try_recv().is_err() {
            if let Some(message) = client.next()
                && message.kind == MessageKind::Pi
            {
                client.send(MessageKind::Po, SESSION);
            }
        }
    });
    let ran = cli.salt(&["-t", "1", LATER, "sysinspect.call", "a/b", "--out=json"]);
    assert_eq!(ran.returns().unwrap()[LATER], "no answer within 3 s");
    // It never sends its traits; what is known without them is there, also for targets.
    let known = json!({"id": LATER, "gateway": "sysinspect"});
    assert_eq!(cli.ask(&[LATER, "grains.items"]).unwrap()[LATER], known);
    wait_until("it is among the grains", || {
        let found = cli.ask(&["-G", "gateway:sysinspect", "test.ping"]);
        found.is_ok_and(|found| found.contains_key(LATER))
    });
    let answer = cli.ask(&[LATER, "sysinspect.traits"]).unwrap();
    assert!(answer[LATER].to_string().contains("E1"), "{answer:?}");
    assert_eq!(cli.ask(&[LATER, "test.ping"]).unwrap()[LATER], true);
    stop.send(()).unwrap();
    life.join().unwrap();
    let ran = cli.salt(&["-t", "1", LATER, "test.ping"]);
    assert!(ran.out.contains("Not connected"), "{}", ran.describe());
}

/// A gateway that dies is started again, and minions that come again are known.
#[test]
fn the_gateway_comes_again() {
    use halite::sys::procs;
    let (master, port) = master("auto_accept: true");
    let cli = master.halite_cli();
    let key = PrivateKey::generate(1048).unwrap().public().to_pkcs1_pem();
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    client.send(MessageKind::Add, key);
    assert_eq!(client.heard().unwrap().code, Code::Success);
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    assert_eq!(client.hello(traits("web")).code, Code::Success);
    let gateway = || {
        let family = procs::family(master.id() as u32).unwrap();
        let mut all = family.iter();
        let found = all.find(|p| p.title.contains("gateway-sysinspect"));
        found.map(|process| process.pid as i32)
    };
    let pid = gateway().unwrap();
    let signal = nix::sys::signal::Signal::SIGKILL;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    while client.heard().is_some() {}
    wait_until("the gateway listens again", || {
        gateway().is_some_and(|new| new != pid) && testing::ports::listens(port)
    });
    let mut client = Client::connect(port, LATER, Dialect::Modern);
    assert_eq!(client.hello(traits("web")).code, Code::Success);
    let life = live(client, traits("web"));
    wait_until("it answers", || {
        let asked = cli.ask(&[LATER, "test.ping", "-t", "1"]);
        asked.is_ok_and(|answers| answers.get(LATER) == Some(&json!(true)))
    });
    drop(master);
    life.join().unwrap();
}

/// Stock's commands see such a minion as any other.
mod stock {
    use super::*;
    use testing::Stock;

    #[test]
    fn tools_of_stock() {
        for series in ["3006", "3008"] {
            let Some(stock) = Stock::find(series) else {
                continue;
            };
            let (master, port) = master_with(&format!("salt_series: {series}"), "");
            let cli = master.stock_cli(&stock);
            let own = PrivateKey::generate(1048).unwrap().public();
            let mut client = Client::connect(port, LATER, Dialect::Modern);
            client.send(MessageKind::Add, own.to_pkcs1_pem());
            assert_eq!(client.heard().unwrap().code, Code::Success);
            let listed = cli.key(&["-l", "un", "--out=json"]).json().unwrap();
            assert_eq!(listed["minions_pre"], json!([LATER]));
            cli.key(&["-y", "-a", LATER]).ok().unwrap();
            let mut client = Client::connect(port, LATER, Dialect::Modern);
            assert_eq!(client.hello(traits("web-w1")).code, Code::Success);
            let life = live(client, traits("web-w1"));
            let asked = |args: &[&str]| cli.ask(args).unwrap();
            assert_eq!(asked(&["*", "test.ping"])[LATER], true);
            assert_eq!(
                asked(&["-G", "os:debian", "grains.items"])[LATER]["os"],
                "debian"
            );
            let done = cli.salt(&[LATER, "sysinspect.call", "a/b", "x=y", "--out=json"]);
            let done = done.returns().unwrap();
            assert_eq!(done[LATER]["actions"][0]["response"]["message"], "x:y");
            cli.key(&["-y", "-d", LATER]).ok().unwrap();
            // Its connection ends with `undef`, which the client does not expect.
            life.join().unwrap_err();
        }
    }
}
