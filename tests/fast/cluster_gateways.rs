//! A gateway that reaches its agents through a broker runs at one master of a cluster, and at another one when that ends.

use serde_json::{Value, json};
use testing::arena::Runtime;
use testing::cluster::Cluster;
use testing::collective_nodes::{Generation, Network, Node};
use testing::mosquitto::Mosquitto;
use testing::{Master, wait_until};

const IDS: [&str; 2] = ["node1.example", "node2.example"];
const UUID: &str = "aaaaaaaa-0000-4000-8000-000000000001";

/// What a master says about the gateway: `runs` or `waits`.
fn gateway(master: &Master, name: &str) -> Value {
    let ran = master
        .halite_cli()
        .runner(&["cluster.status", "--out=json"]);
    ran.json().unwrap_or_default()["gateways"][name].clone()
}

/// The number of the master that runs a gateway, as soon as one does; the other one waits.
fn running(cluster: &Cluster, name: &str) -> usize {
    wait_until("one of them runs it", || {
        let all = cluster.masters.iter();
        all.map(|master| gateway(master, name))
            .any(|one| one == "runs")
    });
    let running = usize::from(gateway(&cluster.masters[0], name) != "runs");
    assert_eq!(gateway(&cluster.masters[1 - running], name), "waits");
    running
}

fn present(master: &Master) -> Value {
    let ran = master
        .halite_cli()
        .runner(&["manage.present", "--out=json"]);
    ran.json().unwrap_or_default()
}

/// These minions are accepted, and nobody waits.
fn must_have_only(master: &Master, ids: &[&str]) {
    let ran = master.halite_cli().key(&["-l", "all", "--out=json"]);
    let keys = ran.json().expect("keys can be listed");
    assert_eq!(keys["minions"], json!(ids));
    assert_eq!(keys["minions_pre"], json!([]));
}

fn asked(nodes: &[Node]) -> Vec<usize> {
    let times = nodes.iter().map(|node| node.asked("package.status").len());
    times.collect()
}

#[test]
fn one_master_runs_the_gateway_to_collectives() {
    let Some(network) = Network::new(Generation::Psk) else {
        return;
    };
    let nodes = IDS.map(|id| network.node(id, "uk"));
    let lines = format!(
        "gateways: {{collective: {{{}, inward: false, discovery_interval: 1, discovery_timeout: 1, timeout: 3, auto_accept: true}}}}",
        network.settings()
    );
    let Some(mut cluster) = Cluster::start(&lines) else {
        return;
    };
    let running = running(&cluster, "collective");
    let status = |master: &Master| {
        let words = ["-G", "country:uk", "package.status", "name=bash"];
        let said = master.halite_cli().ask(&words).unwrap_or_default();
        let bash = json!({"name": "bash", "ensure": "5.2"});
        json!(said) == json!({IDS[0]: bash, IDS[1]: bash})
    };
    // Both reach the nodes, and know that they are there; each is asked once.
    for (n, master) in cluster.masters.iter().enumerate() {
        wait_until("its nodes are known", || present(master) == json!(IDS));
        wait_until("their grains are known", || {
            let words = ["-G", "country:uk", "test.ping"];
            let said = master.halite_cli().ask(&words).unwrap_or_default();
            said.len() == 2 && said.values().all(|pong| *pong == json!(true))
        });
        assert!(status(master), "{n}");
        assert_eq!(asked(&nodes), [n + 1, n + 1]);
    }
    cluster.masters[running].kill();
    let left = &cluster.masters[1 - running];
    wait_until("the other one runs it", || {
        gateway(left, "collective") == "runs"
    });
    // The nodes are who they were.
    wait_until("it reaches the nodes", || status(left));
    must_have_only(left, &IDS);
}

/// The same with a runtime of ARENA, whose id depends on what the gateway has recorded.
#[test]
fn one_master_runs_the_gateway_to_runtimes() {
    let Some(broker) = Mosquitto::start() else {
        return;
    };
    let lines = format!(
        "gateways: {{arena: {{servers: '{}', auto_accept: true}}}}",
        broker.address()
    );
    let Some(mut cluster) = Cluster::start(&lines) else {
        return;
    };
    let running = running(&cluster, "arena");
    let runtime = Runtime::new(&broker, UUID, "rt1", json!({}));
    runtime.join();
    let pong = |master: &Master| {
        let said = master.halite_cli().ask(&["rt1", "test.ping"]);
        said.is_ok_and(|said| said.get("rt1") == Some(&json!(true)))
    };
    for master in &cluster.masters {
        wait_until("it is listed", || present(master) == json!(["rt1"]));
        wait_until("it answers", || pong(master));
    }
    cluster.masters[running].kill();
    let left = &cluster.masters[1 - running];
    wait_until("the other one runs it", || gateway(left, "arena") == "runs");
    runtime.join();
    wait_until("it answers the other one", || pong(left));
    must_have_only(left, &["rt1"]);
}
