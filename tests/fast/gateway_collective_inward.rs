//! Salt minions as nodes of a Choria network: a real master with minions, `nats-server`, requests of both generations, and what
//! must be met with silence. Whether something is silence is told by the next answer, not by a clock.

use halite::collective::ruby::Datum;
use halite::collective::security::{Authority as Trusted, Choria, ChoriaSettings, Names, Security};
use halite::collective::wire::{
    Federation, Filter, Form, Packet, PacketForm, Reply, Request, subjects::caller_token,
};
use halite::crypto::PrivateKey;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use testing::authority::{Authority, Issued};
use testing::{Master, Minion, NatsClient, NatsServer, short_dir, wait_for, wait_until};

const ALICE: &str = "choria=alice.mcollective";
const NODES: [&str; 2] = ["node1.example", "node2.example"];
const HERE: &str = "mcollective.reply.alice.mcollective.77.1";

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_secs()).unwrap()
}

fn security(authority: &Authority, own: &Issued, form: Form) -> Choria {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    Choria::new(ChoriaSettings {
        form,
        authority: Trusted::from_pem(&read(&authority.file())).unwrap(),
        certificate: read(&own.certificate),
        key: PrivateKey::from_pem(&read(&own.key)).unwrap(),
        callers: Names::new(&[r"/\.mcollective$/"]).unwrap(),
        privileged: Names::default(),
        clock: Arc::new(now),
    })
    .unwrap()
}

/// The network with the master and its minions.
struct Rig {
    nats: NatsClient,
    authority: Authority,
    alice: Issued,
    metrics: u16,
    next: u32,
    _minions: Vec<Minion>,
    master: Master,
    _server: NatsServer,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn start() -> Option<Rig> {
        let server = NatsServer::start(&[])?;
        let dir = short_dir();
        let authority = Authority::new(&dir.path().join("ca"), "The CA");
        let [own, alice] = ["halite.mcollective", "alice.mcollective"].map(|n| authority.issue(n));
        // What others can read is no secret, and is refused.
        let secret = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&own.key, secret).unwrap();
        let ports = testing::ports::Ports::hold(1);
        let metrics = ports.numbers()[0];
        ports.release();
        let master = Master::halite(&format!(
            "auto_accept: true\nmetrics_address: 127.0.0.1:{metrics}\n\
             nodegroups: {{one: node1.example}}\n\
             publisher_acl: {{'{ALICE}': [test.*]}}\n\
             gateways: {{collective: {{outward: false, servers: ['{}'], identity: halite.mcollective, \
             ca: {}, certificate: {}, key: {}}}}}",
            server.address(),
            authority.file().display(),
            own.certificate.display(),
            own.key.display(),
        ));
        let minions = NODES.map(|id| Minion::halite(&master, id, "grains: {country: uk}"));
        let mut nats = server.client();
        nats.subscribe("mcollective.reply.>", "");
        let mut rig = Rig {
            nats,
            authority,
            alice,
            metrics,
            next: 0,
            _minions: minions.into(),
            master,
            _server: server,
            _dir: dir,
        };
        wait_until("both minions are nodes", || {
            rig.metric("halite_collective_inward_nodes") == 2.0
        });
        // The broker knows of the subscriptions a moment later.
        wait_for("both answer", || {
            let ping = rig.request("discovery", "ping".into());
            let data = rig.sealed(&ping, Form::CHORIA);
            rig.publish(
                "mcollective.broadcast.agent.discovery",
                &rig.packet(data, PacketForm::Choria),
            );
            let within = std::time::Duration::from_millis(500);
            let mut count = 0;
            while rig.nats.within(within).is_some() {
                count += 1;
            }
            (count == 2).then_some(())
        });
        Some(rig)
    }

    /// A sample of the master's metrics; 0 where there is none.
    fn metric(&self, name: &str) -> f64 {
        let mut text = String::new();
        let asked = TcpStream::connect(("127.0.0.1", self.metrics)).and_then(|mut stream| {
            write!(stream, "GET /metrics HTTP/1.0\r\n\r\n")?;
            stream.read_to_string(&mut text)
        });
        if asked.is_err() {
            return 0.0;
        }
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(key, _)| *key == name);
        found
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0.0)
    }

    fn request(&mut self, agent: &str, body: Datum) -> Request {
        self.next += 1;
        Request {
            body,
            sender: "alice.mcollective".parse().unwrap(),
            id: format!("{:032x}", self.next).parse().unwrap(),
            filter: Filter::default(),
            collective: "mcollective".parse().unwrap(),
            agent: agent.parse().unwrap(),
            caller: ALICE.parse().unwrap(),
            ttl: 60,
            time: now(),
        }
    }

    fn sealed(&self, request: &Request, form: Form) -> Vec<u8> {
        let alice = security(&self.authority, &self.alice, form);
        alice.seal_request(request).unwrap()
    }

    fn packet(&self, data: Vec<u8>, form: PacketForm) -> Packet {
        let mut packet = Packet::new(form, data, "alice.mcollective");
        packet.reply_to = Some(HERE.to_owned());
        packet
    }

    fn publish(&mut self, subject: &str, packet: &Packet) {
        self.nats.publish(subject, &packet.to_json());
    }

    /// The next replies, with the packets around them, sorted by sender.
    fn replies(&mut self, count: usize, form: Form) -> Vec<(Reply, Packet)> {
        let alice = security(&self.authority, &self.alice, form);
        let mut all: Vec<(Reply, Packet)> = (0..count)
            .map(|_| {
                let message = self.nats.next();
                assert_eq!(message.reply, None);
                let packet = Packet::from_json(&message.payload).unwrap();
                (alice.open_reply(&packet.data).unwrap(), packet)
            })
            .collect();
        all.sort_by(|a, b| a.0.sender.cmp(&b.0.sender));
        all
    }

    /// A ping that all answer: whatever came before it was answered before, or never is.
    fn only_pongs(&mut self, what: &str) {
        let ping = self.request("discovery", "ping".into());
        let data = self.sealed(&ping, Form::CHORIA);
        let packet = self.packet(data, PacketForm::Choria);
        self.publish("mcollective.broadcast.agent.discovery", &packet);
        for (reply, _) in self.replies(2, Form::CHORIA) {
            assert_eq!(
                (reply.id, reply.body),
                (ping.id.clone(), "pong".into()),
                "{what}"
            );
        }
    }

    /// Asks all nodes.
    fn ask(&mut self, agent: &str, body: Datum, form: Form) -> Vec<Reply> {
        let request = self.request(agent, body);
        let data = self.sealed(&request, form);
        let around = match form {
            Form::Choria1 { .. } => PacketForm::Plain,
            _ => PacketForm::Choria,
        };
        let packet = self.packet(data, around);
        self.publish(&format!("mcollective.broadcast.agent.{agent}"), &packet);
        let replies = self.replies(2, form);
        for (n, (reply, packet)) in replies.iter().enumerate() {
            assert_eq!(reply.sender.as_str(), NODES[n]);
            assert_eq!((&reply.id, &reply.agent), (&request.id, &request.agent));
            assert_eq!(packet.form, around);
            assert_eq!(packet.sender.as_deref(), Some(NODES[n]));
        }
        replies.into_iter().map(|(reply, _)| reply).collect()
    }

    fn reason(&self, reason: &str) -> f64 {
        self.metric(&format!(
            "halite_collective_refused_total{{reason=\"{reason}\"}}"
        ))
    }
}

fn rpc(agent: &str, action: &str, data: &[(&str, &str)]) -> Datum {
    let data = data.iter();
    let data = data.map(|(k, v)| (Datum::symbol(*k), Datum::from(*v)));
    Datum::Hash(vec![
        (Datum::symbol("agent"), agent.into()),
        (Datum::symbol("action"), action.into()),
        (Datum::symbol("caller"), ALICE.into()),
        (Datum::symbol("data"), Datum::Hash(data.collect())),
    ])
}

fn code(reply: &Reply) -> Option<i64> {
    reply.body.get("statuscode").and_then(Datum::as_int)
}

fn output<'a>(reply: &'a Reply, name: &str) -> Option<&'a str> {
    reply.body.get("data")?.get(name)?.as_str()
}

#[test]
fn both_generations_reach_minions() {
    let Some(mut rig) = Rig::start() else { return };
    for form in [Form::CHORIA_YAML, Form::CHORIA] {
        let pongs = rig.ask("discovery", "ping".into(), form);
        assert!(pongs.iter().all(|reply| reply.body == "pong".into()));

        let body = rpc("rpcutil", "get_fact", &[("fact", "country")]);
        let facts = rig.ask("rpcutil", body, form);
        assert!(
            facts
                .iter()
                .all(|reply| output(reply, "value") == Some("uk"))
        );

        let body = rpc("rpcutil", "inventory", &[]);
        let inventory = rig.ask("rpcutil", body, form);
        let classes = |n: usize| {
            inventory[n]
                .body
                .get("data")
                .unwrap()
                .get("classes")
                .unwrap()
        };
        assert_eq!(classes(0).items(), ["one".into()]);
        assert!(classes(1).items().is_empty());

        let echo = [("function", "test.echo"), ("args", "[\"ho\"]")];
        let done = rig.ask("halite", rpc("halite", "run", &echo), form);
        assert!(
            done.iter()
                .all(|reply| output(reply, "return") == Some("\"ho\""))
        );
        assert_eq!(output(&done[0], "jid"), output(&done[1], "jid"));

        let refused = rig.ask(
            "halite",
            rpc("halite", "run", &[("function", "cmd.run")]),
            form,
        );
        assert!(refused.iter().all(|reply| code(reply) == Some(1)));
        let wrong = [
            rpc("halite", "reboot", &[]),
            rpc("halite", "run", &[]),
            rpc("halite", "run", &[("function", "x")]),
        ];
        for (n, body) in wrong.into_iter().enumerate() {
            let replies = rig.ask("halite", body, form);
            assert!(
                replies
                    .iter()
                    .all(|reply| code(reply) == Some(n as i64 + 2))
            );
        }
    }
    let config = halite::config::load_master(&rig.master.home.config_dir()).unwrap();
    let log = std::fs::read_to_string(config.audit_log).unwrap();
    for (function, verdict) in [("test.echo", "allowed"), ("cmd.run", "refused")] {
        let told = log.lines().filter(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let has = |field: &str, text: &str| line[field] == text;
            has("method", "collective")
                && has("function", function)
                && has("verdict", verdict)
                && line["from"].is_string()
        });
        assert_eq!(told.count(), 2, "{function}: {log}");
    }
}

#[test]
fn answers_keep_what_stood_around_the_question() {
    let Some(mut rig) = Rig::start() else { return };
    let ping = rig.request("discovery", "ping".into());
    let mut packet = rig.packet(rig.sealed(&ping, Form::CHORIA), PacketForm::ChoriaLines);
    // Of a federation's broker, which publishes to the collective's side.
    packet.reply_to = Some("choria.federation.colla.collective".into());
    packet.federation = Some(Federation {
        request: ping.id.to_string(),
        reply_to: Some("mcollective.reply.far.1.1".into()),
        targets: Vec::new(),
    });
    packet.seen_by = Some(vec![vec![
        "alice.mcollective".into(),
        "nats://far:4222".into(),
    ]]);
    rig.nats.subscribe("choria.federation.colla.collective", "");
    rig.publish("mcollective.node.node2.example", &packet);
    let (reply, back) = rig.replies(1, Form::CHORIA).remove(0);
    assert_eq!(reply.sender.as_str(), "node2.example");
    assert_eq!(back.federation, packet.federation);
    assert_eq!(back.form, PacketForm::ChoriaLines);
    let hops = back.seen_by.unwrap();
    assert_eq!(hops.len(), 2);
    assert_eq!((hops[1].len(), hops[1][1].as_str()), (3, "node2.example"));

    // Today's clients hear at the hash of their caller id.
    let ping = rig.request("discovery", "ping".into());
    let mut packet = rig.packet(rig.sealed(&ping, Form::CHORIA), PacketForm::Choria);
    packet.reply_to = Some(format!(
        "mcollective.reply.{}.1.1",
        caller_token(&ALICE.parse().unwrap())
    ));
    rig.publish("mcollective.node.node1.example", &packet);
    assert_eq!(rig.replies(1, Form::CHORIA)[0].0.id, ping.id);
}

/// Changes a secure request as only somebody without the key would.
fn forged(data: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut json: Value = serde_json::from_slice(data).unwrap();
    change(&mut json);
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn what_is_not_genuine_is_silence_and_counted() {
    let Some(mut rig) = Rig::start() else { return };
    let subject = "mcollective.broadcast.agent.rpcutil";
    let foreign = Authority::new(&rig._dir.path().join("other"), "Another CA");
    let stranger = foreign.issue("alice.mcollective");
    let outsider = rig.authority.issue("alice.example");
    for form in [Form::CHORIA_YAML, Form::CHORIA] {
        let around = match form {
            Form::Choria1 { .. } => PacketForm::Plain,
            _ => PacketForm::Choria,
        };
        let count = |rig: &mut Rig, what: &str, reason: &str, data: Vec<u8>| {
            let before = rig.reason(reason);
            let packet = rig.packet(data, around);
            rig.publish(subject, &packet);
            rig.only_pongs(what);
            wait_until(&format!("{what} is counted as {reason}"), || {
                rig.reason(reason) == before + 1.0
            });
        };
        let good = |rig: &mut Rig| rig.request("rpcutil", rpc("rpcutil", "ping", &[]));
        let sign = |rig: &Rig, own: &Issued, authority: &Authority, request: &Request| {
            let _ = rig;
            security(authority, own, form)
                .seal_request(request)
                .unwrap()
        };

        let request = good(&mut rig);
        let data = forged(&rig.sealed(&request, form), |json| {
            json["signature"] = json!("")
        });
        count(&mut rig, "an unsigned one", "unsigned", data);

        let request = good(&mut rig);
        let data = forged(&rig.sealed(&request, form), |json| {
            let text = format!("{} ", json["message"].as_str().unwrap());
            json["message"] = json!(text);
        });
        count(&mut rig, "a changed one", "signature", data);

        let mut request = good(&mut rig);
        request.time -= 100;
        let data = rig.sealed(&request, form);
        count(&mut rig, "an old one", "expired", data);

        let mut request = good(&mut rig);
        request.time += 3600;
        let data = rig.sealed(&request, form);
        count(&mut rig, "one of the future", "future", data);

        let request = good(&mut rig);
        let data = sign(&rig, &stranger, &foreign, &request);
        count(&mut rig, "one of another CA", "certificate", data);

        let request = good(&mut rig);
        let data = sign(&rig, &outsider, &rig.authority, &request);
        count(&mut rig, "one of a name that may not call", "caller", data);

        for caller in ["choria=bob.mcollective", "cert=alice.mcollective"] {
            let mut request = good(&mut rig);
            request.caller = caller.parse().unwrap();
            let data = rig.sealed(&request, form);
            count(
                &mut rig,
                "one that speaks for somebody else",
                "caller",
                data,
            );
        }

        let request = good(&mut rig);
        let data = rig.sealed(&request, form);
        let packet = rig.packet(data.clone(), around);
        rig.publish(subject, &packet);
        assert_eq!(rig.replies(2, form).len(), 2);
        count(&mut rig, "the same again", "replayed", data);

        // A genuine one at a node's place which was for all.
        let request = good(&mut rig);
        let data = rig.sealed(&request, form);
        let packet = rig.packet(data.clone(), around);
        rig.publish("mcollective.node.node1.example", &packet);
        assert_eq!(rig.replies(1, form)[0].0.id, request.id);
        count(&mut rig, "one of a node at all", "replayed", data);

        let other = rig.request("discovery", "ping".into());
        let data = rig.sealed(&other, form);
        count(&mut rig, "one for another agent", "malformed", data);
        let noise: Vec<u8> = (0..600u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        count(&mut rig, "noise", "malformed", noise);
    }
}

#[test]
fn places_that_are_none_and_packets_that_are_none() {
    let Some(mut rig) = Rig::start() else { return };
    rig.nats.subscribe("elsewhere.>", "");
    let subject = "mcollective.broadcast.agent.discovery";
    let before = rig.reason("malformed");
    let places = [
        "mcollective.reply.>",
        "mcollective.reply.*",
        "elsewhere.alice",
        "mcollective.broadcast.agent.discovery",
        "mcollective.node.node1.example",
        "mcollective.reply.a b",
        "mcollective.reply.a\r\nPUB elsewhere.x 0",
        "",
    ];
    for place in places {
        let ping = rig.request("discovery", "ping".into());
        let mut packet = rig.packet(rig.sealed(&ping, Form::CHORIA), PacketForm::Choria);
        packet.reply_to = Some(place.to_owned());
        rig.publish(subject, &packet);
        rig.only_pongs(place);
    }
    let noise: [&[u8]; 6] = [
        b"",
        b"{",
        b"{\"data\":\"!!!!\",\"headers\":{}}",
        b"{\"data\":\"AAAA\",\"headers\":{\"reply-to\":7}}",
        b"\x04\x08o:\x0bObject\x00",
        b"--- !ruby/object:Gem::Installer {}\n",
    ];
    for payload in noise {
        rig.nats.publish(subject, payload);
        rig.only_pongs("noise");
    }
    wait_until("all of it is counted", || {
        let all: f64 = [
            "malformed",
            "dangerous",
            "protocol",
            "unsigned",
            "too_large",
        ]
        .iter()
        .map(|reason| rig.reason(reason))
        .sum();
        all >= before + (places.len() + noise.len()) as f64
    });
    assert_eq!(
        rig.metric("halite_role_restarts_total{role=\"gateway-collective\"}"),
        0.0
    );
}
