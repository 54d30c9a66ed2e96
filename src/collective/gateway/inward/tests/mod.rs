use super::*;
use crate::ruby::Datum;
use crate::wire::{FactFilter, Federation, Filter, PacketForm, Request, Serializer};
use halite_config::load_master;
use std::time::Duration;

mod captures;
mod jobs;

const T0: i64 = 1_795_254_057;

struct Rig {
    inward: Inward,
    now: Clock,
    next: u32,
}

fn node(id: &str, os: &str, group: &str) -> Node {
    let grains = halite_wire::map! {
        "os" => os, "cpus" => 4, "osrelease" => "12", "version" => "2.12.5",
        "ips" => vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()],
    };
    Node::new(&id.parse().unwrap(), Arc::new(grains), &[group.to_owned()]).unwrap()
}

impl Rig {
    fn new(more: &str) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "root_dir: {}\nid: master.example\ngateways:\n  collective:\n    collectives: [mcollective, dev]\n    security: psk\n    psk_file: /nowhere\n{more}",
            dir.path().display()
        );
        std::fs::write(dir.path().join("master"), text).unwrap();
        let config = load_master(dir.path()).unwrap();
        let settings = config.collective_gateway().unwrap();
        let now = Clock {
            at: std::time::Instant::now(),
            unix: T0,
        };
        let mut rig = Rig {
            inward: Inward::new(&config, &settings, now),
            now,
            next: 0,
        };
        let nodes = vec![
            node("node1.example", "Debian", "web"),
            node("node2.example", "Debian", "db"),
            node("node3.example", "Arch", "db"),
        ];
        assert_eq!(rig.inward.handle_news(News::Nodes(nodes)).len(), 6);
        rig
    }

    fn request(&mut self, agent: &str, body: Datum) -> Request {
        self.next += 1;
        Request {
            body,
            sender: "client.example".parse().unwrap(),
            id: format!("{:032x}", self.next).parse().unwrap(),
            filter: Filter::default(),
            collective: "mcollective".parse().unwrap(),
            agent: agent.parse().unwrap(),
            caller: "choria=alice.mcollective".parse().unwrap(),
            ttl: 60,
            time: self.now.unix,
        }
    }

    fn ping(&mut self, filter: Filter) -> Request {
        let mut request = self.request("discovery", "ping".into());
        request.filter = filter;
        request
    }

    fn heard(&mut self, request: &Request, form: Form) -> Result<Vec<Act>, Refused> {
        let place = Place::Broadcast(request.collective.clone(), request.agent.clone());
        self.inward
            .handle_request(Some(&place), request, form, &packet(), self.now)
    }

    fn answers(&mut self) -> Vec<OutgoingReply> {
        std::iter::from_fn(|| self.inward.answer(self.now)).collect()
    }

    /// The nodes that reply to a broadcast.
    fn who(&mut self, request: &Request, form: Form) -> Vec<String> {
        self.heard(request, form).unwrap();
        let answers = self.answers();
        answers.iter().map(|a| a.reply.sender.to_string()).collect()
    }

    fn publication(&mut self, data: &[(&str, &str)]) -> (Vec<Act>, Option<Order>) {
        let request = self.request("halite", rpc("run", data));
        let acts = self.heard(&request, Form::Psk).unwrap();
        let order = acts.iter().find_map(|act| match act {
            Act::Do(Task::Publish(order)) => Some(order.clone()),
            _ => None,
        });
        (acts, order)
    }
}

fn packet() -> Packet {
    Packet {
        form: PacketForm::Choria,
        data: Vec::new(),
        sender: Some("client.example".into()),
        reply_to: Some("mcollective.reply.client.1".into()),
        federation: None,
        seen_by: None,
    }
}

fn rpc(action: &str, data: &[(&str, &str)]) -> Datum {
    let data = data.iter();
    let data = data.map(|(k, v)| (Datum::symbol(*k), Datum::from(*v)));
    Datum::Hash(vec![
        (Datum::symbol("action"), action.into()),
        (Datum::symbol("data"), Datum::Hash(data.collect())),
    ])
}

fn fact(fact: &str, operator: &str, value: &str, symbols: bool) -> Filter {
    Filter {
        facts: vec![FactFilter {
            fact: fact.into(),
            operator: Some(operator.into()),
            value: value.into(),
            symbols,
        }],
        ..Filter::default()
    }
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn part<'a>(answer: &'a OutgoingReply, key: &str) -> Option<&'a Datum> {
    answer.reply.body.get("data")?.get(key)
}

fn code(answer: &OutgoingReply) -> i64 {
    answer
        .reply
        .body
        .get("statuscode")
        .and_then(Datum::as_int)
        .unwrap()
}

fn words(answer: &OutgoingReply) -> &str {
    answer
        .reply
        .body
        .get("statusmsg")
        .and_then(Datum::as_str)
        .unwrap()
}

const ALL: [&str; 3] = ["node1.example", "node2.example", "node3.example"];
const G1: Form = Form::CHORIA_YAML;

/// The probes of the reference, section 22, that this half decides.
#[test]
fn probes() {
    let mut rig = Rig::new("");
    for form in [Form::Psk, Form::Aes(Serializer::Yaml), G1, Form::CHORIA] {
        let ping = rig.ping(Filter::default());
        assert_eq!(rig.who(&ping, form), ALL, "{form:?}");
        let again = rig.heard(&ping, form);
        assert_eq!(again, Err(Refused::Replayed), "{form:?}");

        let mut old = rig.ping(Filter::default());
        old.time -= 100;
        assert_eq!(rig.heard(&old, form), Err(Refused::Expired(40)));
        let mut future = rig.ping(Filter::default());
        future.time += 3600;
        assert_eq!(rig.heard(&future, form), Err(Refused::Future(3540)));

        let mut ask = |filter: Filter| {
            let ping = rig.ping(filter);
            rig.who(&ping, form)
        };
        let identities = |names: &[&str]| Filter {
            identities: texts(names),
            ..Filter::default()
        };
        let agents = |names: &[&str]| Filter {
            agents: texts(names),
            ..Filter::default()
        };
        let nobody: [&str; 0] = [];
        let unknown = Filter {
            unknown: texts(&["collective"]),
            ..Filter::default()
        };
        assert_eq!(ask(unknown), nobody);
        assert_eq!(ask(identities(&ALL[..2])), ALL[..2]);
        assert_eq!(ask(identities(&["/node[13]/"])), [ALL[0], ALL[2]]);
        assert_eq!(ask(identities(&["node1.example", "/node1/"])), nobody);
        assert_eq!(ask(agents(&["puppet"])), nobody);
        assert_eq!(ask(agents(&["halite", "rpcutil"])), ALL);
        assert_eq!(ask(agents(&["mcollective"])), ALL);
        let classes = Filter {
            classes: texts(&["db"]),
            ..Filter::default()
        };
        assert_eq!(ask(classes), ALL[1..]);
        for (filter, expected) in [
            (fact("os", "==", "Debian", true), &ALL[..2]),
            (fact("os", "==", "debian", true), &[]),
            (fact("os", "=~", "/eb/", true), &ALL[..2]),
            (fact("os", "!=", "Debian", true), &ALL[2..]),
            (fact("nope", "!=", "x", true), &[]),
            (fact("cpus", ">=", "4", true), &ALL[..]),
            (fact("version", ">=", "2.9.0", true), &[]),
            (fact("ips", "==", "10.0.0.2", true), &ALL[..]),
        ] {
            let shown = format!("{filter:?}");
            assert_eq!(ask(filter), expected, "{shown}");
        }
        let strings = ask(fact("os", "==", "Arch", false));
        match form {
            Form::Choria2 { .. } => assert_eq!(strings, ALL[2..]),
            _ => assert_eq!(strings, nobody),
        }
        let broken = Filter {
            identities: texts(&["/(/"]),
            ..Filter::default()
        };
        assert_eq!(ask(broken), nobody);
    }
}

#[test]
fn compound_filters_ask_facts_classes_and_data_plugins() {
    let mut rig = Rig::new("");
    let token = |kind: &str, text: &str| Datum::Hash(vec![(kind.into(), text.into())]);
    let function = |plugin: &str, query: &str, value: &str, expected: &str| {
        let parts = [
            ("name", plugin),
            ("params", query),
            ("value", value),
            ("operator", "=="),
            ("r_compare", expected),
        ];
        let parts = parts.map(|(k, v)| (Datum::from(k), Datum::from(v)));
        Datum::Hash(vec![("fstatement".into(), Datum::Hash(parts.into()))])
    };
    for (tokens, expected) in [
        (
            vec![
                token("statement", "os=Debian"),
                token("and", "and"),
                token("not", "not"),
                token("statement", "web"),
            ],
            &ALL[1..2],
        ),
        (vec![token("statement", "/w.b/")], &ALL[..1]),
        (vec![function("fact", "os", "value", "Arch")], &ALL[2..]),
        (
            vec![function("agent", "halite", "license", "Apache-2.0")],
            &ALL[..],
        ),
        (
            vec![function("fstat", "/etc/hosts", "output", "present")],
            &[],
        ),
    ] {
        let shown = format!("{tokens:?}");
        let ping = rig.ping(Filter {
            compound: vec![Datum::Array(tokens)],
            ..Filter::default()
        });
        assert_eq!(rig.who(&ping, Form::Psk), expected, "{shown}");
    }
}

#[test]
fn one_node_alone_is_asked_at_its_own_place() {
    let mut rig = Rig::new("");
    let mut request = rig.request("rpcutil", rpc("ping", &[]));
    let place = |collective: &str, node: &str| {
        Place::Node(collective.parse().unwrap(), node.parse().unwrap())
    };
    for (at, count) in [
        (place("mcollective", "node2.example"), 1),
        (place("mcollective", "node3.example"), 1),
        (place("mcollective", "gone.example"), 0),
    ] {
        rig.inward
            .handle_request(Some(&at), &request, Form::Psk, &packet(), rig.now)
            .unwrap();
        assert_eq!(rig.answers().len(), count, "{at:?}");
    }
    // The same request again, at all nodes and at one.
    assert_eq!(rig.heard(&request, Form::Psk), Err(Refused::Replayed));
    let at = place("mcollective", "node2.example");
    let again = rig
        .inward
        .handle_request(Some(&at), &request, Form::Psk, &packet(), rig.now);
    assert_eq!(again, Err(Refused::Replayed));

    // A request sent to one place is refused at another.
    request.id = "f".repeat(32).parse().unwrap();
    let broadcast = |c: &str, a: &str| Place::Broadcast(c.parse().unwrap(), a.parse().unwrap());
    for at in [
        Some(place("dev", "node1.example")),
        Some(broadcast("dev", "rpcutil")),
        Some(broadcast("mcollective", "halite")),
        None,
    ] {
        let heard = rig
            .inward
            .handle_request(at.as_ref(), &request, Form::Psk, &packet(), rig.now);
        assert!(matches!(heard, Err(Refused::Malformed(_))), "{at:?}");
    }
}

#[test]
fn answers_go_out_as_the_question_came_in() {
    let mut rig = Rig::new("");
    let request = rig.ping(Filter::default());
    let place = Place::Broadcast(request.collective.clone(), request.agent.clone());
    let around = Packet {
        form: PacketForm::Plain,
        federation: Some(Federation {
            request: request.id.to_string(),
            reply_to: Some("mcollective.reply.far".into()),
            targets: Vec::new(),
        }),
        seen_by: Some(vec![vec!["client".into(), "nats://there".into()]]),
        ..packet()
    };
    rig.inward
        .handle_request(Some(&place), &request, G1, &around, rig.now)
        .unwrap();
    let answers = rig.answers();
    let first = &answers[0];
    assert_eq!(first.to, "mcollective.reply.client.1");
    assert_eq!((first.form, first.packet.form), (G1, PacketForm::Plain));
    assert_eq!(first.packet.federation, around.federation);
    assert_eq!(first.caller, request.caller);
    assert_eq!(first.reply.id, request.id);
    assert_eq!(first.reply.body, "pong".into());
    assert_eq!(first.packet.seen_by, around.seen_by);
}

#[test]
fn requests_that_make_no_sense_are_silence() {
    let mut rig = Rig::new("");
    for (agent, body) in [
        ("rpcutil", Datum::from("ping")),
        ("halite", Datum::Nil),
        ("puppet", rpc("status", &[])),
    ] {
        let request = rig.request(agent, body);
        let heard = rig.heard(&request, Form::Psk);
        assert!(matches!(heard, Err(Refused::Malformed(_))), "{agent}");
    }
    let request = rig.ping(Filter::default());
    let place = Place::Broadcast(request.collective.clone(), request.agent.clone());
    let mute = Packet {
        reply_to: None,
        ..packet()
    };
    let heard = rig
        .inward
        .handle_request(Some(&place), &request, Form::Psk, &mute, rig.now);
    assert!(matches!(heard, Err(Refused::Malformed(_))));
    assert!(rig.answers().is_empty());
}

#[test]
fn counters_of_a_node() {
    let mut rig = Rig::new("");
    let own = |rig: &mut Rig| {
        let mut request = rig.request("rpcutil", rpc("daemon_stats", &[]));
        request.filter.identities = texts(&["node1.example"]);
        rig.heard(&request, Form::Psk).unwrap();
        let answer = rig.answers().remove(0);
        [
            "total",
            "validated",
            "unvalidated",
            "passed",
            "filtered",
            "ttlexpired",
            "replies",
        ]
        .map(|name| part(&answer, name).and_then(Datum::as_int).unwrap())
    };
    assert_eq!(own(&mut rig), [1, 1, 0, 1, 0, 0, 0]);
    let place = Place::Broadcast("mcollective".parse().unwrap(), "discovery".parse().unwrap());
    rig.inward.refused(Some(&place), &Refused::Unsigned);
    let mut old = rig.ping(Filter::default());
    old.time -= 1000;
    assert!(rig.heard(&old, Form::Psk).is_err());
    let other = rig.ping(fact("os", "==", "Arch", true));
    assert_eq!(rig.who(&other, Form::Psk), ALL[2..]);
    assert_eq!(own(&mut rig), [5, 4, 1, 2, 1, 1, 1]);
    // A node that appears later counts from then on.
    let mut nodes = vec![node("node4.example", "Debian", "web")];
    nodes.push(node("node1.example", "Debian", "web"));
    rig.inward.handle_news(News::Nodes(nodes));
    assert_eq!(own(&mut rig), [6, 5, 1, 3, 1, 1, 2]);
    let mut request = rig.request("rpcutil", rpc("daemon_stats", &[]));
    request.filter.identities = texts(&["node4.example"]);
    rig.heard(&request, Form::Psk).unwrap();
    let answer = rig.answers().remove(0);
    assert_eq!(part(&answer, "total").and_then(Datum::as_int), Some(2));
    assert_eq!(
        part(&answer, "unvalidated").and_then(Datum::as_int),
        Some(0)
    );
}

/// One pass over ten thousand nodes that copies no grains; replies are built one by one.
#[test]
fn ten_thousand_nodes() {
    let mut rig = Rig::new("");
    let grains: Arc<Map> = Arc::new(halite_wire::map! {"os" => "Debian"});
    let nodes = (0..10_000).map(|n| {
        let id = format!("m{n:05}.example").parse().unwrap();
        Node::new(&id, grains.clone(), &[]).unwrap()
    });
    let before = Arc::strong_count(&grains);
    rig.inward.handle_news(News::Nodes(nodes.collect()));
    let held = Arc::strong_count(&grains);
    assert_eq!(held, before + 10_000);
    let request = rig.ping(fact("os", "==", "Debian", true));
    rig.heard(&request, Form::Psk).unwrap();
    assert_eq!(Arc::strong_count(&grains), held);
    assert_eq!(rig.inward.waiting(), 10_000);
    let mut count = 0;
    while let Some(answer) = rig.inward.answer(rig.now) {
        assert_eq!(answer.reply.body, "pong".into());
        count += 1;
    }
    assert_eq!(count, 10_000);
    // The queue is bounded as well.
    for _ in 0..21 {
        let request = rig.ping(Filter::default());
        rig.heard(&request, Form::Psk).unwrap();
    }
    assert_eq!(rig.inward.waiting(), WAITING);
    assert_eq!(rig.inward.counters().int("inward_dropped"), Some(10_000));
}
