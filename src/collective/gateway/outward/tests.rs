//! The outward half without a broker: its input and its actions.

use super::*;
use halite_gateway::agent_keys::RegisterOutcome;
use halite_gateway::master_events::Order;
use halite_gateway::writer::Task;
use halite_wire::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A key store in memory.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<HashMap<String, Standing>>>);

impl Store {
    fn set(&self, id: &str, standing: Standing) {
        self.0.lock().unwrap().insert(id.to_owned(), standing);
    }
}

impl Registry for Store {
    fn standing(&mut self, id: &MinionId) -> Standing {
        let all = self.0.lock().unwrap();
        all.get(id.as_str()).copied().unwrap_or(Standing::Unknown)
    }

    fn enter(&mut self, id: &MinionId) -> RegisterOutcome {
        match id.as_str() {
            "full" => RegisterOutcome::Full,
            "bad" => RegisterOutcome::Rejected,
            _ => {
                self.set(id.as_str(), Standing::Waiting);
                RegisterOutcome::Waiting
            }
        }
    }

    fn forget(&mut self, _id: &MinionId) {}
}

struct Bench {
    outward: Outward,
    store: Store,
    now: Clock,
}

/// The results of actions: requests, returns by id, tags of events.
#[derive(Default)]
struct Performed {
    asked: Vec<(To, Request)>,
    returns: HashMap<String, Map>,
    grains: HashMap<String, Map>,
    tags: Vec<String>,
}

impl From<Vec<Act>> for Performed {
    fn from(acts: Vec<Act>) -> Performed {
        let mut done = Performed::default();
        for act in acts {
            match act {
                Act::Ask(to, request) => done.asked.push((to, *request)),
                Act::Write(Task::Return(id, _, load)) => {
                    assert!(done.returns.insert(id.to_string(), load).is_none());
                }
                Act::Write(Task::Grains(id, grains)) => {
                    done.grains.insert(id.to_string(), grains);
                }
                Act::Write(Task::Fire(tag, _)) => done.tags.push(tag),
                other => panic!("{other:?}"),
            }
        }
        done
    }
}

impl Performed {
    /// The only request.
    fn one(mut self) -> (To, Request) {
        assert_eq!(self.asked.len(), 1);
        self.asked.remove(0)
    }
}

const JID: &str = "20261121092637195592";

impl Bench {
    fn new() -> Bench {
        Bench::with(&["mcollective"], 3)
    }

    fn with(collectives: &[&str], direct_threshold: usize) -> Bench {
        let store = Store::default();
        let rules = Rules {
            identity: "halite.example".parse().unwrap(),
            caller: "choria=halite.mcollective".parse().unwrap(),
            collectives: collectives.iter().map(|c| c.parse().unwrap()).collect(),
            ttl: 60,
            timeout: Duration::from_secs(20),
            discovery_interval: Duration::from_secs(60),
            discovery_timeout: Duration::from_secs(5),
            inventory_interval: Duration::from_secs(3600),
            direct_threshold,
        };
        let now = Clock::now();
        Bench {
            outward: Outward::new(rules, Box::new(store.clone()), &[], now),
            store,
            now,
        }
    }

    fn pass(&mut self, seconds: u64) -> Performed {
        self.now = self.now.after(Duration::from_secs(seconds));
        self.outward.tick(self.now).into()
    }

    fn reply(&mut self, request: &Request, node: &str, body: Datum) -> Performed {
        let reply = Reply {
            body,
            sender: node.parse().unwrap(),
            id: request.id.clone(),
            agent: request.agent.clone(),
            time: 0,
        };
        self.outward.reply(reply, self.now).into()
    }

    fn order(&mut self, fun: &str, arg: Vec<Value>, ids: &[&str]) -> Performed {
        self.order_as(JID, fun, arg, ids, "glob")
    }

    fn order_as(
        &mut self,
        jid: &str,
        fun: &str,
        arg: Vec<Value>,
        ids: &[&str],
        kind: &str,
    ) -> Performed {
        let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        let event = halite_wire::map! {
            "jid" => jid, "fun" => fun, "arg" => arg, "minions" => ids, "tgt_type" => kind,
        };
        self.outward
            .order(&Order::of(&event).unwrap(), self.now)
            .into()
    }

    /// Nodes with the agents `rpcutil` and `package`, all accepted and connected.
    fn settled(mut self, ids: &[&str]) -> Bench {
        for id in ids {
            self.store.set(id, Standing::Accepted);
        }
        let (_, ping) = Performed::from(self.outward.up(self.now)).one();
        for id in ids {
            let done = self.reply(&ping, id, "pong".into());
            assert_eq!(done.tags.len(), 2);
        }
        loop {
            let done = self.pass(1);
            if done.asked.is_empty() {
                return self;
            }
            for (to, request) in done.asked {
                let To::Nodes(_, nodes) = to else {
                    panic!("inventories are asked for directly");
                };
                for node in nodes {
                    let done = self.reply(&request, node.as_str(), inventory());
                    assert_eq!(done.grains[node.as_str()].str("country"), Some("uk"));
                }
            }
        }
    }
}

fn answer(code: i64, text: &str, data: Datum) -> Datum {
    Datum::Hash(vec![
        (Datum::symbol("statuscode"), Datum::Int(code.into())),
        (Datum::symbol("statusmsg"), text.into()),
        (Datum::symbol("data"), data),
    ])
}

fn inventory() -> Datum {
    let data = halite_wire::map! {
        "facts" => halite_wire::map! {"country" => "uk", "ipaddress" => "10.0.0.9"},
        "agents" => vec!["rpcutil".to_owned(), "package".to_owned()],
        "classes" => vec!["web".to_owned()],
    };
    answer(0, "OK", Datum::from(&Value::from(data)))
}

fn kwargs(pairs: Map) -> Vec<Value> {
    let mut pairs = pairs;
    pairs.set("__kwarg__", true);
    vec![pairs.into()]
}

#[test]
fn the_operator_decides_who_is_a_minion() {
    let mut bench = Bench::new();
    let (to, ping) = Performed::from(bench.outward.up(bench.now)).one();
    assert!(matches!(to, To::Broadcast(_, agent) if agent.as_str() == "discovery"));
    assert_eq!(
        (ping.filter.clone(), ping.body.clone()),
        (Filter::default(), "ping".into())
    );
    assert_eq!(ping.id.as_str().len(), 32);
    bench.store.set("salt", Standing::Foreign);
    for (id, body) in [
        ("new", "pong"),
        ("salt", "pong"),
        ("full", "pong"),
        ("odd", "what?"),
    ] {
        assert!(bench.reply(&ping, id, body.into()).tags.is_empty(), "{id}");
    }
    let counters = bench.outward.counters();
    let counted = |name: &str| counters.int(name).unwrap();
    assert_eq!(
        (counted("foreign"), counted("full"), counted("malformed")),
        (1, 1, 1)
    );
    assert_eq!((counted("nodes"), counted("connected")), (1, 0));
    assert!(
        bench
            .order("test.ping", Vec::new(), &["new"])
            .asked
            .is_empty()
    );
    // It is accepted.
    bench.store.set("new", Standing::Accepted);
    let done = Performed::from(bench.outward.key("new", false, bench.now));
    assert_eq!(done.tags, ["minion_start", "salt/minion/new/start"]);
    assert!(bench.outward.changed());
    assert_eq!(bench.outward.connected().len(), 1);
    // Its key is deleted: it is as new.
    bench.store.set("new", Standing::Unknown);
    bench.outward.key("new", true, bench.now);
    assert_eq!(bench.outward.counters().int("nodes"), Some(0));
}

#[test]
fn a_ping_is_a_ping() {
    let mut bench = Bench::new().settled(&["a.example"]);
    let (to, request) = bench
        .order("test.ping", Vec::new(), &["a.example", "other"])
        .one();
    assert!(matches!(to, To::Nodes(_, nodes) if nodes.len() == 1));
    assert_eq!(request.agent.as_str(), "discovery");
    let done = bench.reply(&request, "a.example", "pong".into());
    assert_eq!(done.returns["a.example"].get("return"), Some(&true.into()));
    // Without an answer there is no return, and the node is not connected until it sends something.
    let (_, request) = bench.order("test.ping", Vec::new(), &["a.example"]).one();
    assert!(bench.pass(6).returns.is_empty());
    assert!(bench.outward.connected().is_empty());
    assert!(
        bench
            .reply(&request, "a.example", "pong".into())
            .returns
            .is_empty()
    );
    assert!(
        bench
            .order("rpcutil.ping", Vec::new(), &["a.example"])
            .asked
            .is_empty()
    );
    let (_, request) = bench.order("test.ping", Vec::new(), &["a.example"]).one();
    let done = bench.reply(&request, "a.example", "pong".into());
    assert_eq!((done.returns.len(), done.tags.len()), (1, 2));
}

#[test]
fn actions_have_answers() {
    let mut bench = Bench::new().settled(&["a", "b"]);
    let arg = kwargs(halite_wire::map! {"name" => "bash"});
    let (to, request) = bench.order("package.status", arg, &["a", "b"]).one();
    assert!(matches!(to, To::Nodes(_, nodes) if nodes.len() == 2));
    assert_eq!(request.filter.agents, ["package"]);
    assert_eq!((request.ttl, request.time), (60, bench.now.unix));
    // Replies of nodes that were not asked are ignored, and so are second replies.
    let data = || Datum::Hash(vec![("version".into(), "5.2".into())]);
    assert!(
        bench
            .reply(&request, "c", answer(0, "OK", data()))
            .returns
            .is_empty()
    );
    let done = bench.reply(&request, "a", answer(0, "OK", data()));
    let load = &done.returns["a"];
    assert_eq!(
        load.get("return"),
        Some(&halite_wire::map! {"version" => "5.2"}.into())
    );
    assert_eq!(
        (load.get("success"), load.int("retcode")),
        (Some(&true.into()), Some(0))
    );
    assert!(
        bench
            .reply(&request, "a", answer(0, "OK", data()))
            .returns
            .is_empty()
    );
    let done = bench.reply(&request, "b", answer(4, "no such package", Datum::Nil));
    let load = &done.returns["b"];
    assert_eq!(
        (load.get("success"), load.int("retcode")),
        (Some(&false.into()), Some(4))
    );
    // The request is over, others were never made.
    assert!(
        bench
            .reply(&request, "b", answer(0, "OK", data()))
            .returns
            .is_empty()
    );
    let counters = bench.outward.counters();
    assert_eq!(
        (counters.int("strangers"), counters.int("strays")),
        (Some(2), Some(1))
    );
    assert_eq!(counters.int("jobs"), Some(0));
}

#[test]
fn silence_has_an_end() {
    let mut bench = Bench::new().settled(&["a", "b"]);
    let (_, request) = bench.order("rpcutil.ping", Vec::new(), &["a", "b"]).one();
    let again = bench.order("rpcutil.ping", Vec::new(), &["a", "b"]);
    assert!(again.asked.is_empty(), "the same job");
    bench.reply(&request, "a", answer(0, "OK", Datum::Nil));
    let other = "20261121092637195593";
    let found = bench.order_as(
        other,
        "saltutil.find_job",
        vec![JID.into()],
        &["a", "b"],
        "glob",
    );
    let jid = |id: &str| {
        found.returns[id]
            .get("return")?
            .as_map()?
            .str("jid")
            .map(str::to_owned)
    };
    assert_eq!((jid("a"), jid("b").as_deref()), (None, Some(JID)));
    let done = bench.pass(21);
    let load = &done.returns["b"];
    assert_eq!(
        (load.str("return"), load.int("retcode")),
        (Some("no answer within 20 s"), Some(124))
    );
    assert_eq!(done.returns.len(), 1);
}

#[test]
fn many_are_named_in_one_filter() {
    let ids = ["a.x", "b.x", "c.x", "d.x"];
    let mut bench = Bench::new().settled(&ids);
    let (to, request) = bench.order("rpcutil.ping", Vec::new(), &ids).one();
    assert!(matches!(to, To::Broadcast(_, agent) if agent.as_str() == "rpcutil"));
    assert_eq!(request.filter.identities, [r"/^(a\.x|b\.x|c\.x|d\.x)$/"]);
    // As a list each is asked by itself.
    let other = "20261121092637195593";
    let (to, request) = bench
        .order_as(other, "rpcutil.ping", Vec::new(), &ids, "list")
        .one();
    assert!(matches!(to, To::Nodes(_, nodes) if nodes.len() == 4));
    assert!(request.filter.identities.is_empty());
    // A broadcast too large is halved, until it fits.
    let other = "20261121092637195594";
    let (_, request) = bench
        .order_as(other, "rpcutil.ping", Vec::new(), &ids, "glob")
        .one();
    let large = || Failed::Unsent(Unsent::TooLarge(10));
    let halves = Performed::from(bench.outward.failed(&request.id, large(), bench.now));
    assert_eq!(halves.asked.len(), 2);
    let names: Vec<_> = halves
        .asked
        .iter()
        .map(|(_, r)| r.filter.identities[0].len())
        .collect();
    assert_eq!(names, [r"/^(a\.x|b\.x)$/".len(); 2]);
    let quarter = Performed::from(
        bench
            .outward
            .failed(&halves.asked[0].1.id, large(), bench.now),
    );
    let failed = Performed::from(
        bench
            .outward
            .failed(&quarter.asked[0].1.id, large(), bench.now),
    );
    let load = failed.returns.values().next().unwrap();
    assert!(
        load.str("return")
            .unwrap()
            .contains("larger than the broker accepts")
    );
}

#[test]
fn a_broker_that_is_away_is_told_at_once() {
    let mut bench = Bench::new().settled(&["a"]);
    bench.outward.down("connection refused");
    assert!(bench.outward.connected().is_empty());
    let done = bench.order("rpcutil.ping", Vec::new(), &["a"]);
    let text = done.returns["a"].str("return").unwrap();
    assert!(
        text.contains("cannot be reached (connection refused)"),
        "{text}"
    );
    let done = bench.order("test.ping", Vec::new(), &["a"]);
    let load = &done.returns["a"];
    assert_eq!(
        (load.str("return"), load.int("retcode")),
        (Some(text), Some(1))
    );
    let (_, ping) = Performed::from(bench.outward.up(bench.now)).one();
    assert_eq!(ping.agent.as_str(), "discovery");
    assert_eq!(bench.outward.connected().len(), 1);
}

#[test]
fn who_is_silent_twice_is_gone() {
    let mut bench = Bench::new().settled(&["a", "b", "c"]);
    for round in 0..3 {
        let (_, ping) = bench.pass(60).one();
        bench.reply(&ping, "a", "pong".into());
        if round == 1 {
            // A node that registers lives.
            let registration = Request {
                sender: "b".parse().unwrap(),
                ..ping
            };
            assert!(
                bench
                    .outward
                    .registration(&registration, bench.now)
                    .is_empty()
            );
        }
        bench.pass(6);
        let here = bench.outward.connected().len();
        assert_eq!(here, [3, 2, 2][round], "round {round}");
    }
}

#[test]
fn what_is_not_asked_of_nodes() {
    let mut bench = Bench::new().settled(&["a"]);
    for (fun, arg, text) in [
        (
            "service.status",
            Vec::new(),
            "'service.status' is not available. This node has no agent",
        ),
        (
            "rpcutil.get_fact",
            vec![Value::from("country")],
            "write name=country",
        ),
        ("nonsense", Vec::new(), "'nonsense' is not available."),
        ("grains.get", Vec::new(), "takes the name of a grain"),
    ] {
        let done = bench.order(fun, arg, &["a"]);
        let said = done.returns["a"].str("return").unwrap_or_default();
        assert!(said.contains(text), "{said}");
        assert!(done.asked.is_empty());
    }
    let done = bench.order("sys.list_functions", Vec::new(), &["a"]);
    let names = done.returns["a"].get("return").unwrap().str_list();
    assert!(names.contains(&"package.*".to_owned()) && names.contains(&"test.ping".to_owned()));
    // Grains come from a new inventory, which is stored.
    let (_, request) = bench
        .order("grains.get", vec!["country".into()], &["a"])
        .one();
    assert_eq!(request.agent.as_str(), "rpcutil");
    let done = bench.reply(&request, "a", inventory());
    assert_eq!(done.returns["a"].str("return"), Some("uk"));
    assert_eq!(done.grains.len(), 1);
    let (_, request) = bench
        .order("saltutil.refresh_grains", Vec::new(), &["a"])
        .one();
    let refused = answer(1, "You are not authorized", Datum::Nil);
    let done = bench.reply(&request, "a", refused);
    assert!(
        done.returns["a"]
            .str("return")
            .unwrap()
            .contains("let this master's caller id")
    );
}

#[test]
fn a_node_is_asked_where_it_answers_first() {
    let mut bench = Bench::with(&["mcollective", "uk_collective"], 3);
    for id in ["a", "b"] {
        bench.store.set(id, Standing::Accepted);
    }
    let pings = Performed::from(bench.outward.up(bench.now)).asked;
    assert_eq!(pings.len(), 2);
    bench.reply(&pings[1].1, "a", "pong".into());
    bench.reply(&pings[1].1, "b", "pong".into());
    bench.reply(&pings[0].1, "a", "pong".into());
    let asked = bench.order("rpcutil.ping", Vec::new(), &["a", "b"]).asked;
    let collectives: Vec<_> = asked.iter().map(|(_, r)| r.collective.as_str()).collect();
    assert_eq!(collectives, ["mcollective", "uk_collective"]);
    let places = bench.outward.places();
    assert_eq!(places.len(), 3);
}

#[test]
fn a_successor_knows_its_nodes() {
    let mut bench = Bench::new();
    bench.store.set("a", Standing::Accepted);
    let rules = std::mem::replace(&mut bench.outward, Bench::new().outward).rules;
    let known = ["a".parse().unwrap()];
    bench.outward = Outward::new(rules, Box::new(bench.store.clone()), &known, bench.now);
    bench.outward.up(bench.now);
    assert!(bench.outward.connected().is_empty());
    // Before it has answered, a ping reaches it.
    let (_, request) = bench.order("test.ping", Vec::new(), &["a"]).one();
    assert_eq!(bench.reply(&request, "a", "pong".into()).returns.len(), 1);
}
